# SPDX-License-Identifier: Apache-2.0
"""A terminal whose screen a test can read."""
import codecs
import fcntl
import os
import re
import struct
import termios

from clitest import COMMAND, Terminal, equal, wait_until

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
