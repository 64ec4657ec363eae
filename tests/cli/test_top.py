# SPDX-License-Identifier: Apache-2.0
"""top on a pseudo-terminal: its keys, sizes and terminals, a store that dies, and plain text."""
import codecs
import fcntl
import json
import os
import re
import signal
import struct
import termios

from clitest import COMMAND, Terminal, contains, equal, main, test, wait_until
from servers import start_redis
from nothing_left import stop_child

if not os.path.exists(os.path.join(os.path.dirname(COMMAND), 'holdfast-top')):
    raise SystemExit('1..0 # SKIP there is no holdfast-top beside the command')

SEQUENCE = re.compile(r'\x1b(?:\[([?>]?)([\d;]*)([@-~])|[()][0-9A-Za-z]|[=>78DMEHc])')
BEGUN = re.compile(r'\x1b(?:\[[?>]?[\d;]*|[()])?$')
WIDE = re.compile('[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uff00-\uff60]')


class Screen(Terminal):
    """What a terminal shows, of the sequences that ncurses uses. A wide character has two cells."""

    def __init__(self, box, *words, columns=80, rows=24, term='xterm-256color', **environment):
        box.environment.update(TERM=term, LC_ALL='C.UTF-8', **environment)
        self.columns, self.rows = columns, rows
        self.clear()
        self.raw, self.rest, self.decoder = '', '', codecs.getincrementaldecoder('utf-8')('replace')
        super().__init__(box, COMMAND, *words, columns=columns)
        if rows != 24:
            self.resize(columns, rows)

    def clear(self):
        self.cells = [[' '] * self.columns for _ in range(self.rows)]
        self.x = self.y = self.first = 0
        self.last = self.rows - 1

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.clear()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('4H', rows, columns, 0, 0))

    def read_screen(self):
        os.set_blocking(self.fd, False)
        try:
            text = self.decoder.decode(os.read(self.fd, 65536))
        except (BlockingIOError, OSError):
            return
        self.raw += text
        text, self.rest = self.rest + text, ''
        at = 0
        while at < len(text):
            match = SEQUENCE.match(text, at)
            if BEGUN.match(text, at):
                self.rest = text[at:]
                break
            if match:
                self.obey(match)
                at = match.end()
            else:
                self.put(text[at])
                at += 1
        self.text = '\n'.join(self.lines())

    def put(self, character):
        if character == '\r':
            self.x = 0
        elif character == '\n' and self.y == self.last:
            self.scroll(self.first, 1)
        elif character == '\n':
            self.y = min(self.y + 1, self.rows - 1)
        elif character == '\b':
            self.x = max(self.x - 1, 0)
        elif character >= ' ':
            width = 2 if WIDE.match(character) else 1
            if self.x + width <= self.columns:
                self.cells[self.y][self.x:self.x + width] = [character, ''][:width]
                self.x += width

    def obey(self, match):
        final, numbers = match[3], [int(n or 0) for n in (match[2] or '').split(';')]
        first = max(numbers[0], 1)
        line = self.cells[self.y]
        if final in ('H', 'f'):
            second = max(numbers[1], 1) if len(numbers) > 1 else 1
            self.y, self.x = min(first, self.rows) - 1, min(second, self.columns) - 1
        elif final == 'd':
            self.y = min(first, self.rows) - 1
        elif final == 'G':
            self.x = min(first, self.columns) - 1
        elif final in 'ABCD' if final else False:
            self.y += {'A': -first, 'B': first}.get(final, 0)
            self.x += {'C': first, 'D': -first}.get(final, 0)
            self.y = max(0, min(self.y, self.rows - 1))
            self.x = max(0, min(self.x, self.columns - 1))
        elif final == 'J':
            self.erase(numbers[0])
        elif final == 'K' and numbers[0] == 1:
            line[:self.x + 1] = [' '] * (self.x + 1)
        elif final == 'K':
            line[self.x:] = [' '] * (self.columns - self.x)
        elif final == 'X':
            line[self.x:self.x + first] = [' '] * min(first, self.columns - self.x)
        elif final == 'P':
            del line[self.x:self.x + first]
            line += [' '] * (self.columns - len(line))
        elif final == '@':
            line[self.x:self.x] = [' '] * first
            del line[self.columns:]
        elif final == 'b':
            for _ in range(first):
                self.put(line[self.x - 1])
        elif final in ('L', 'M'):
            self.scroll(self.y, first if final == 'M' else -first)
        elif final in ('S', 'T'):
            self.scroll(self.first, first if final == 'S' else -first)
        elif final == 'r':
            self.first = first - 1
            self.last = (numbers[1] if len(numbers) > 1 else self.rows) - 1
            self.x = self.y = 0
        elif match[0] == '\x1bM' and self.y == self.first:
            self.scroll(self.first, -1)
        elif match[0] == '\x1bM':
            self.y = max(self.y - 1, 0)

    def erase(self, what):
        if what == 2:
            self.cells = [[' '] * self.columns for _ in range(self.rows)]
        elif what == 0:
            self.cells[self.y][self.x:] = [' '] * (self.columns - self.x)
            for y in range(self.y + 1, self.rows):
                self.cells[y] = [' '] * self.columns

    def scroll(self, top, count):
        """Lines from `top` to the end of the region move up, or down if it is negative."""
        part = self.cells[top:self.last + 1]
        empty = [[' '] * self.columns for _ in range(min(abs(count), len(part)))]
        moved = (part + empty)[len(empty):] if count > 0 else (empty + part)[:len(part)]
        self.cells[top:self.last + 1] = moved

    def lines(self):
        return [''.join(line).rstrip() for line in self.cells]

    def names(self):
        """The first word of each line of the list."""
        return [line.split()[0] for line in self.lines()[4:-1] if line.strip()]

    def until(self, condition, what):
        def look():
            self.read_screen()
            return condition()
        return wait_until(look, f'{what} on the screen')

    def wait_for_names(self, *names):
        try:
            self.until(lambda: self.names() == list(names), f'the names {names}')
        except AssertionError:
            raise AssertionError('\n'.join([f'not {names}:', *self.lines()])) from None

    def leave(self, code=0):
        self.type('q')
        equal(self.next_report(), f'exit {code}, terminal ours')
        self.close()


def three_names(box):
    """zeta has two waiters, alpha one, and orders/1 none; zeta is the oldest."""
    for name in ('zeta', 'alpha', 'orders/1'):
        box.hold(name, '--owner', f'owner-of-{name}')
    waiting = [box.start('run', name, '--', 'true') for name in ('zeta', 'zeta', 'alpha')]
    box.wait_for_waiters('zeta', 2)
    box.wait_for_waiters('alpha')
    return waiting


@test
def top_keys_sort_filter_and_look_at_a_name(box):
    three_names(box)
    screen = Screen(box, 'top', '--every', '100ms')
    screen.wait_for_names('zeta', 'alpha', 'orders/1')
    screen.wait_for('3 names, 3 held, 3 waiting')
    screen.type('r')
    screen.wait_for_names('orders/1', 'alpha', 'zeta')
    screen.type('rn')
    screen.wait_for_names('alpha', 'orders/1', 'zeta')
    screen.type('a')
    screen.wait_for('by age')
    screen.wait_for_names('zeta', 'alpha', 'orders/1')
    screen.type('/')
    screen.wait_for('Filter: _')
    screen.type('or')
    screen.wait_for_names('orders/1')
    screen.type('\x7f\x7f*a\r')
    screen.wait_for_names('zeta', 'alpha')
    screen.type('/zzz')
    screen.wait_for('No name passes the filter')
    screen.type('\x1b')
    screen.wait_for_names('zeta', 'alpha')
    screen.type('h')
    screen.wait_for('the other way round')
    screen.type('\x1b')
    screen.wait_for_names('zeta', 'alpha')
    screen.type('jk\r')
    screen.wait_for('mutex, 1 holder, 2 waiters: zeta')
    screen.wait_for(r'holds +mutex .*owner-of-zeta')
    screen.wait_for(r'waits 2')
    screen.wait_for(r'Key: \S')
    screen.leave()


@test
def top_break_asks_and_takes_the_lock_away(box):
    holder = box.hold('x', '--owner', 'Ada')
    box.hold('y')
    screen = Screen(box, 'top', '--sort', 'name')
    screen.wait_for_names('x', 'y')
    screen.type('b')
    screen.wait_for(r"Take 'x' away from Ada\? \[y/N\]")
    screen.type('n')
    screen.wait_for('Not taken away')
    equal(box.count('holders', 'x'), 1)
    screen.type('\rb')
    screen.wait_for(r"Take 'x' away from Ada\? \[y/N\]")
    screen.type('y')
    screen.wait_for("'x' was taken away from 1 holder")
    equal(holder.end().code, 121)
    screen.type('\x1b')
    screen.wait_for_names('y')
    screen.leave()


@test
def top_of_a_dead_store_says_so_goes_on_and_quits_at_once(box):
    server = start_redis(box)
    url = f'redis://127.0.0.1:{server.port}'
    box.environment['HOLDFAST_URL'] = url
    holder = box.hold('x', '-t', '1m')
    waiting = box.start('run', 'x', '--', 'true')
    box.wait_for_waiters('x')
    screen = Screen(box, 'top', '--every', '100ms')
    screen.wait_for(r'\nx .* 1 .* 1 ')
    stop_child(server.process.pid)
    screen.wait_for('The store has not answered for|No list for')
    screen.wait_for(r'\nx ')
    os.kill(server.process.pid, signal.SIGCONT)
    screen.until(lambda: 'answered for' not in screen.text and 'No list' not in screen.text,
                 'the store answers again')
    screen.type('b')
    screen.wait_for(r"Take 'x' away from .*\[y/N\]")
    screen.type('y')
    screen.wait_for("'x' was taken away from 1 holder")
    waiting.end()
    holder.stop()
    stop_child(server.process.pid)
    screen.type(' ')
    screen.wait_for('The store has not answered for|No list for')
    screen.leave()
    os.kill(server.process.pid, signal.SIGCONT)


@test
def top_without_a_server_starts_and_says_so(box):
    screen = Screen(box, '-e', 'redis://:secret@127.0.0.1:1', 'top')
    screen.wait_for('No list for .*trying again: .*127.0.0.1')
    screen.wait_for('The store has not answered yet')
    assert 'secret' not in screen.raw, screen.raw
    screen.leave()


@test
def top_follows_the_size_of_the_terminal(box):
    for name in ('n1', 'n2', 'n3'):
        box.hold(name)
    screen = Screen(box, 'top', '--every', '100ms')
    screen.wait_for_names('n1', 'n2', 'n3')
    for columns, rows in ((200, 50), (40, 10), (20, 6), (3, 2), (1, 1), (132, 5), (80, 24)):
        screen.resize(columns, rows)
        shown = min(3, max(0, rows - 5))
        if columns >= 20:
            screen.until(lambda: len(screen.names()) == shown, f'{shown} names at {columns}x{rows}')
            screen.until(lambda: screen.lines()[3].startswith('NAME'), 'the titles')
        elif rows > 1:
            screen.until(lambda: screen.lines()[0] == 'holdfast'[:columns - 1] + '~', 'the title')
    contains(screen.text, 'KIND')
    screen.type('\x1bOB\x1bOB')
    screen.resize(80, 6)
    screen.wait_for_names('n3')
    screen.leave()


@test
def top_hostile_names_do_not_break_the_screen(box):
    evil = b'ev\x1b[2J\x1b]0;t\x07il\x9b1m\xff\xe2\x80\xae!'.decode(errors='surrogateescape')
    box.hold(evil, '--owner', 'o\x1b[31mo')
    box.hold('日本語/é')
    box.hold('n' * 900)
    screen = Screen(box, 'top', '--sort', 'name', columns=120)
    screen.wait_for(r'ev\\x1b\[2J\\x1b\]0;t\\x07il\\x9b')
    screen.wait_for('日本語/é')
    screen.wait_for('nnn~ mutex')
    column = {line.index('mutex') + len(re.findall('[日本語]', line)) for line in screen.lines()
              if 'mutex' in line}
    equal(len(column), 1, screen.text)
    screen.type('\r')
    screen.wait_for(r'o\\x1b\[31mo')
    for bad in ('\x1b]', '\x07', '\u202e', '\ufffd', '\x1b[31mo'):
        assert bad not in screen.raw, (bad, screen.raw)
    screen.leave()
    shown = box.expect(0, 'top', '--once', environment={'LC_ALL': 'C'}).out
    contains(shown, '\\xff')
    contains(shown, '日本語/é')
    assert '\x1b' not in shown, shown


@test
def top_without_colour_or_without_a_screen(box):
    box.hold('x')
    dead = ('-e', 'redis://127.0.0.1:1')
    for term, environment, colours in (('vt100', {}, False), ('xterm-256color', {}, True),
                                       ('xterm-256color', {'NO_COLOR': '1'}, False)):
        screen = Screen(box, *dead, 'top', term=term, **environment)
        screen.wait_for('No list for ')
        equal(bool(re.search(r'\x1b\[[\d;]*3[0-7][;m]', screen.raw)), colours, repr(screen.raw))
        screen.leave()
    screen = Screen(box, 'top', term='dumb')
    equal(screen.next_report(), 'exit 64, terminal ours')
    contains(' '.join(screen.text.split()), "a terminal of the type 'dumb' has no screen for top")
    screen.close()


@test
def top_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(box):
    box.hold('x')
    screen = Screen(box, 'top', term='vt100')
    before = termios.tcgetattr(screen.fd)
    screen.wait_for_names('x')
    assert not termios.tcgetattr(screen.fd)[3] & termios.ECHO
    screen.type('\x03')
    equal(screen.next_report(), f'exit {-signal.SIGINT}, terminal ours')
    modes = termios.tcgetattr(screen.fd)
    assert modes[3] & termios.ECHO and modes[3] & termios.ICANON, (before, modes)
    screen.close()


@test
def top_once_and_without_a_terminal_is_plain_text(box):
    equal(box.expect(0, 'top').out.splitlines()[0], '0 names, 0 held, 0 waiting')
    three_names(box)
    box.expect(0, 'sem', 'pool', 'set', '3')
    lines = box.expect(0, 'top').out.splitlines()
    contains(lines[0], '4 names, 3 held, 3 waiting, the longest for ')
    equal(lines[1].split()[:4], ['NAME', 'KIND', 'HELD', 'WAIT'])
    equal([line.split()[:4] for line in lines[2:]],
          [['zeta', 'mutex', '1', '2'], ['alpha', 'mutex', '1', '1'],
           ['orders/1', 'mutex', '1', '0'], ['pool', 'semaphore', '0', '0']])
    contains(lines[5], '3 of 3 free')
    shown = box.expect(0, 'top', '--once', '--sort', 'name', '[ao]*').out.splitlines()[2:]
    equal([line.split()[0] for line in shown], ['alpha', 'orders/1'])
    equal([thing['name'] for thing in json.loads(box.expect(0, 'top', '--json', 'pool').out)],
          ['pool'])
    contains(box.expect(64, 'top', '--once', '--sort', 'colour').err, '--sort takes waiters')
    contains(box.expect(69, '-e', 'redis://127.0.0.1:1', 'top').err, '127.0.0.1')


@test
def top_counts_changes_of_holders(box):
    box.hold('still')
    turn = box.hold('turn')
    screen = Screen(box, 'top', '--every', '100ms')
    screen.wait_for(r'\nturn .* 0\.00 ')
    box.start('run', 'turn', '--', 'sleep', '1000')
    box.wait_for_waiters('turn')
    turn.signal(signal.SIGTERM)
    screen.type('c')
    screen.wait_for(r'\nturn .* \d*(\.0[1-9]|\.[1-9]\d|[1-9]\.\d\d) ')
    screen.wait_for(r'\nstill .* 0\.00 ')
    equal(screen.names(), ['turn', 'still'])
    screen.leave()


if __name__ == '__main__':
    main()
