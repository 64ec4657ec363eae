# SPDX-License-Identifier: Apache-2.0
"""The command and a store that does not answer: what is said, and how long it takes."""
import os
import pathlib
import signal
import socket
import time

from clitest import (PATIENCE, contains, equal, file_of, is_alive, main, state_of, test,
                     test_of_a_moment, wait_until)
from nothing_left import stop_child
from servers import need_redis_engine, start_redis


def a_port(listens):
    """A port on which nobody listens, or somebody who never says a word; nobody else gets it."""
    need_redis_engine()
    place = socket.socket()
    place.bind(('127.0.0.1', 0))
    if listens:
        place.listen(16)
    return place, f'redis://127.0.0.1:{place.getsockname()[1]}'


@test
def who_waits_for_a_store_that_is_gone_is_told_so(box):
    place, url = a_port(listens=False)
    with place:
        discreet = box.start('-q', '-e', url, 'run', '-w', '4s', 'x', '--', 'true')
        process = box.start('-e', url, 'run', '-w', f'{PATIENCE / 2}s', 'x', '--', 'true')
        told = process.popen.stderr.readline().decode()
        contains(told, f'still waiting for {url}: ')
        contains(told, 'connection refused')
        process.signal(signal.SIGINT)
        ended = process.end()
        equal((ended.code, ended.err), (130, ''))
        ended = discreet.end()
        equal(ended.code, 69, ended)
        assert 'still' not in ended.err, ended


@test
def who_waits_for_replicas_is_not_told_that_the_store_is_silent(box):
    server = start_redis(box)
    process = box.start('-e', server.url + '?sync=1', 'run', '-w', f'{PATIENCE / 2}s', 'x', 'true')
    told = process.popen.stderr.readline().decode()
    contains(told, f'still waiting for {server.url}?sync=1: ')
    contains(told, 'only 0 of 1 replicas have confirmed the lock')
    process.signal(signal.SIGINT)
    equal(process.end().code, 130)


@test
def who_never_answered_does_not_answer_again(box):
    place, url = a_port(listens=False)
    with place:
        told = box.expect(69, '-v', '-e', url, 'run', '-w', '1s', 'x', '--', 'true').err
        equal(told.count('connection refused\n'), 2, told)
        assert 'again' not in told, told


@test
def second_signal_in_the_same_moment_ends_a_wait_at_once(box):
    place, url = a_port(listens=True)
    with place:
        process = box.start('-e', url, 'run', 'x', '--', 'true')
        wait_until(lambda: 'SigBlk:\t0000000000000000' not in file_of(process.pid, 'status') and
                   state_of(process.pid) == 'S', 'it waits')
        process.signal(signal.SIGSTOP)
        process.signal(signal.SIGINT)
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
        equal(process.end().code, -signal.SIGTERM)


@test
def second_signal_ends_a_wait_that_holds_another_lock_at_a_silent_store(box):
    server = start_redis(box)
    holder = box.start('-e', server.url, 'run', 'b', '--', 'sh', '-c', 'echo; exec sleep 1000')
    holder.line()
    process = box.start('-e', server.url, 'run', '-l', 'a', '-l', 'b', '--', 'true')
    shown = ('-e', server.url, 'show', '--json', 'b')
    wait_until(lambda: '"waiters":[{' in box.expect(0, *shown).out.replace('\n', ''),
               'it waits for the second lock')
    stop_child(server.process.pid)
    process.signal(signal.SIGINT)
    wait_until(lambda: 'ShdPnd:\t0000000000000000' in file_of(process.pid, 'status'),
               'it has read the first signal')
    process.signal(signal.SIGTERM)
    began = time.monotonic()
    equal(process.end().code, -signal.SIGTERM)
    assert time.monotonic() - began < 3  # the time-out of a request is 5 s
    os.kill(server.process.pid, signal.SIGCONT)


@test
def bench_says_that_nobody_is_there(box):
    place, url = a_port(listens=False)
    with place:
        contains(box.expect(69, '-e', url, 'bench', '--quick').err, 'connection refused')


@test
def who_only_looks_hears_which_server_says_nothing(box):
    place, url = a_port(listens=True)
    with place:
        for scheme, who in (('redis', 'Redis'), ('zk', 'ZooKeeper')):
            store = url.replace('redis', scheme) + '?timeout=600000'
            told = box.expect(69, '-e', store, 'show').err
            contains(told, f'{who} at {url.rsplit("/", 1)[1]}: ')
            assert 'cleaned up' not in told and '*' not in told, told


@test
def who_cannot_give_back_is_not_told_that_anything_is_cleaned_up(box):
    server = start_redis(box)
    process = box.start('-e', server.url, 'run', '-t', '3s', '-l', 'x', '-l', 'y', '--', 'sh', '-c',
                        'echo; until [ -e go ]; do sleep 0.02; done')
    process.line()
    stop_child(server.process.pid)
    pathlib.Path(box.file('go')).touch()
    ended = process.end()
    equal(ended.code, 0, ended)
    for name in 'xy':
        contains(ended.err,
                 f"it is not sure that '{name}' was released; it ends with its lease: ")
    assert 'cleaned up' not in ended.err, ended


def lets_itself_be_ended(pid):
    """SIGINT is not blocked."""
    for line in file_of(pid, 'status').splitlines():
        if line.startswith('SigBlk:'):
            return not int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1
    return False


@test_of_a_moment
def who_is_told_twice_to_end_does_not_wait_for_the_store(box):
    place, url = a_port(listens=True)
    with place:
        process = box.start('-e', url + '?timeout=600000', 'run', 'x', '--', 'true')
        wait_until(lambda: not lets_itself_be_ended(process.pid), 'it reads its signals itself')
        with place.accept()[0]:
            process.signal(signal.SIGINT)
            wait_until(lambda: lets_itself_be_ended(process.pid) or not is_alive(process.pid),
                       'it is cleaning up')
            process.signal(signal.SIGINT)
            equal(process.end().code, -signal.SIGINT)


if __name__ == '__main__':
    main()
