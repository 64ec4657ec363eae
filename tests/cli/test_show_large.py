# SPDX-License-Identifier: Apache-2.0
"""show and doctor on a large Redis store of other programs: keys are found page by page."""
import signal
import threading
import time

from clitest import contains, equal, main, test
from patients import Passer
from servers import start_redis

# Pages that are 0.15 s away each take more together than the library's patience (5 s).
FAR_S, FOREIGN = 0.15, 200_000
# As many bytes as a few pages have.
FEW_PAGES = 100_000
OWNER = '00000000-0000-4000-8000-000000000000:1'

FILL = ("for i = 1, tonumber(ARGV[1]) do redis.call('set', 'holder_of:' .. i, 1) end "
        "for i = 1, tonumber(ARGV[2]) do "
        "redis.call('set', 'redisson_lock_token:{n' .. i .. '}', i, 'px', 900000) "
        "redis.call('hset', 'n' .. i, ARGV[3], 1) redis.call('pexpire', 'n' .. i, 900000) end")


class Far(Passer):
    """What the server says comes late."""

    def pass_on(self, source, sink):
        if source.getpeername()[1] == self.to:
            self.delay(source, sink)
        else:
            super().pass_on(source, sink)

    def delay(self, source, sink):
        while said := source.recv(1 << 20):
            time.sleep(FAR_S)
            sink.sendall(said)


class Stalling(Passer):
    """The server says nothing more after so many bytes, on any connection."""

    def __init__(self, port, most):
        self.left = most
        super().__init__(port)

    def pass_on(self, source, sink):
        if source.getpeername()[1] != self.to:
            super().pass_on(source, sink)
            return
        while said := source.recv(1024):
            self.left -= len(said)
            if self.left < 0:
                threading.Event().wait()
            sink.sendall(said)


def filled(box, foreign, held):
    server = start_redis(box)
    server.ask('EVAL', FILL, '0', str(foreign), str(held), OWNER)
    return server


@test
def far_store_is_shown_as_long_as_it_answers(box):
    server = filled(box, FOREIGN, 2)
    url = Far(server.port).url
    shown = box.expect(0, '-e', url, 'show')
    equal(len([line for line in shown.out.splitlines() if OWNER in line]), 2, shown.out)
    equal(shown.err, '')


@test
def what_was_found_is_shown_when_the_store_falls_silent(box):
    server = filled(box, 20_000, 2000)
    url = Stalling(server.port, FEW_PAGES).url
    shown = box.expect(69, '-e', url, 'show')
    contains(shown.out, OWNER)
    contains(shown.err, 'what is shown is not all')
    contains(shown.err, 'no answer for ')
    assert 'no answer for 1 ms' not in shown.err, shown.err


def count_pages(server):
    for line in server.ask('INFO', 'commandstats').split(b'\r\n'):
        if line.startswith(b'cmdstat_scan:calls='):
            return int(line.split(b'=')[1].split(b',')[0])
    return 0


@test
def watched_store_is_left_alone_most_of_the_time(box):
    server = filled(box, 20_000, 1)
    watch = box.start('-e', Far(server.port).url, 'show', '--watch=10ms')
    while OWNER not in watch.line():
        pass
    pages = count_pages(server)
    # A picture takes more than half a second, and the pause behind it ten times as long.
    time.sleep(3)
    equal(count_pages(server), pages)
    watch.signal(signal.SIGTERM)
    watch.end()


if __name__ == '__main__':
    main()
