# SPDX-License-Identifier: Apache-2.0
"""top on a pseudo-terminal: its keys, sizes and terminals, a store that dies, and plain text."""
import json
import os
import re
import signal
import termios

from clitest import COMMAND, contains, equal, main, test
from screen import Screen
from servers import start_redis
from nothing_left import stop_child

if not os.path.exists(os.path.join(os.path.dirname(COMMAND), 'holdfast-top')):
    raise SystemExit('1..0 # SKIP there is no holdfast-top beside the command')


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
