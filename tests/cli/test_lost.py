# SPDX-License-Identifier: Apache-2.0
"""Losing the lock while the command runs: its whole group is gone before the deadline, and 121."""
import os
import re
import signal
import time

from clitest import (FullPipe, contains, equal, is_alive, main, state_of, test, test_of_a_moment,
                     wait_until)

from databases import Database
from servers import start_etcd, start_memcached, start_redis

STUBBORN = '''
trap "echo TERM >> heard" TERM
(trap "" TERM; echo $(exec sh -c 'echo $PPID') > grandchild; while :; do sleep 0.1; done) &
echo $$ > child
echo ready
while :; do sleep 0.1; date +%s%N > alive_at; done
'''


def heard(box):
    try:
        with open(box.file('heard'), encoding='utf-8') as file:
            return file.read()
    except OSError:
        return ''


@test_of_a_moment
def a_stubborn_group_is_dead_before_the_next_owner(box):
    box.script('stubborn', STUBBORN)
    process = box.start('run', '--max-hold', '11s', '--grace', '10s', 'x', '--', './stubborn')
    child, grandchild = box.read_pid('child'), box.read_pid('grandchild')
    second = box.start('run', 'x', '--', 'sh', '-c', 'date +%s%N > second_at; '
                       'cat /proc/$(cat child)/stat /proc/$(cat grandchild)/stat 2>&- | '
                       'cut -d" " -f3')
    states = second.end().out.split()
    assert all(state in 'ZX' for state in states), f'not alone, but with {states}'
    result = process.end()
    equal(result.code, 121)
    contains(result.err, "'x' is about to be lost")
    assert not is_alive(child) and not is_alive(grandchild)
    equal(heard(box), 'TERM\n')
    with open(box.file('alive_at'), encoding='utf-8') as alive, \
            open(box.file('second_at'), encoding='utf-8') as later:
        assert int(alive.read() or 0) < int(later.read()), 'it ran beside the next owner'


@test_of_a_moment
def who_is_stopped_leaves_nothing_beside_the_next_owner(box):
    box.script('stubborn', STUBBORN)
    process = box.start('run', '--max-hold', '6s', 'x', '--', './stubborn')
    child, grandchild = box.read_pid('child'), box.read_pid('grandchild')
    process.signal(signal.SIGSTOP)
    second = box.start('run', 'x', '--', 'sh', '-c',
                       'cat /proc/$(cat child)/stat /proc/$(cat grandchild)/stat 2>&- | '
                       'cut -d" " -f3')
    states = second.end().out.split()
    assert all(state in 'ZX' for state in states), f'not alone, but with {states}'
    wait_until(lambda: not is_alive(grandchild), 'the group is dead')
    equal(heard(box), '')
    process.signal(signal.SIGCONT)
    result = process.end()
    equal(result.code, 121)
    contains(result.err, "'x' was lost while the command ran")
    assert not is_alive(child)


@test
def a_command_that_obeys_ends_early_with_121(box):
    result = box.expect(121, 'run', '--max-hold', '62s', '--grace', '60s', 'x', '--', 'sh', '-c',
                        'trap "echo bye; exit 0" TERM; while :; do sleep 0.05; done')
    equal(result.out, 'bye\n')


@test
def a_command_that_ends_in_time_keeps_its_code(box):
    box.expect(6, 'run', '--max-hold', '1h', 'x', '--', 'sh', '-c', 'exit 6')


@test
def a_break_stops_the_command(box):
    process = box.start('run', 'x', '--', 'sh', '-c',
                        'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.05; done')
    equal(process.line(), 'ready')
    box.expect(0, 'break', '-y', 'x')
    result = process.end()
    equal((result.code, result.out), (121, 'bye\n'))
    contains(result.err, "'x' is lost")


def break_under_the_stubborn(box, *options):
    """SIGTERM first, then SIGKILL for all, which is said."""
    box.script('stubborn', STUBBORN)
    process = box.start('run', *options, 'x', '--', './stubborn')
    child, grandchild = box.read_pid('child'), box.read_pid('grandchild')
    box.expect(0, 'break', '-y', 'x')
    result = process.end()
    equal(result.code, 121)
    contains(result.err, 'what is left of it is killed')
    wait_until(lambda: not is_alive(child) and not is_alive(grandchild), 'the group is dead')
    equal(heard(box), 'TERM\n')


@test
def a_break_kills_who_does_not_obey(box):
    break_under_the_stubborn(box, '--grace', '3s')


@test
def on_lost_kill_does_not_ask(box):
    box.script('stubborn', STUBBORN)
    process = box.start('run', '--on-lost', 'kill', 'x', '--', './stubborn')
    child, grandchild = box.read_pid('child'), box.read_pid('grandchild')
    box.expect(0, 'break', '-y', 'x')
    result = process.end()
    equal(result.code, 121)
    assert 'killed' not in result.err, result.err
    wait_until(lambda: not is_alive(child) and not is_alive(grandchild), 'the group is dead')
    equal(heard(box), '')


@test
def on_lost_ignore_lets_it_finish(box):
    process = box.start('run', '--on-lost', 'ignore', 'x', '--', 'sh', '-c',
                        'echo ready; until [ -e go ]; do sleep 0.02; done; echo finished')
    equal(process.line(), 'ready')
    box.expect(0, 'break', '-y', 'x')
    box.wait_for_holders('x', 0)
    with open(box.file('go'), 'w', encoding='utf-8'):
        pass
    result = process.end()
    equal((result.code, result.out), (121, 'finished\n'))


@test
def on_lost_may_be_a_command(box):
    process = box.start('run', '--on-lost', 'echo $HOLDFAST_NAME > told; kill $HOLDFAST_PID', 'x',
                        '--', 'sh', '-c',
                        'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done')
    equal(process.line(), 'ready')
    box.expect(0, 'break', '-y', 'x')
    equal(process.end().code, 121)
    with open(box.file('told'), encoding='utf-8') as file:
        equal(file.read(), 'x\n')


@test_of_a_moment
def a_command_that_on_lost_does_not_end_is_asked_before_it_is_killed(box):
    process = box.start('run', '--grace', '4s', '--on-lost', 'echo LOST', 'x', '--', 'sh', '-c',
                        'trap "echo TERM; exit 3" TERM; echo ready; while :; do sleep 0.05; done')
    equal(process.line(), 'ready')
    box.expect(0, 'break', '-y', 'x')
    result = process.end()
    equal((result.code, result.out), (121, 'LOST\nTERM\n'))
    assert 'killed' not in result.err, result.err


@test_of_a_moment
def a_command_that_obeys_neither_on_lost_nor_term_is_killed(box):
    break_under_the_stubborn(box, '--grace', '4s', '--on-lost', 'echo LOST')


@test
def max_hold_names_itself_when_it_ends(box):
    told = box.expect(121, 'run', '--max-hold', '600ms', 'x', '--', 'sleep', '1000').err
    equal(told, "holdfast: 'x' is about to be lost: its --max-hold ends\n")
    told = box.expect(121, 'run', '--max-hold', '500ms', '--on-lost', 'ignore', 'x', '--', 'sleep',
                      '1').err
    contains(told, "its --max-hold ends")


@test
def max_run_is_124(box):
    began = time.monotonic()
    result = box.expect(124, 'run', '--max-run', '1s', 'x', '--', 'sleep', '1000')
    assert time.monotonic() - began >= 1, 'too early'
    contains(result.err, '--max-run')
    equal(box.count('holders', 'x'), 0)


@test
def max_run_kills_who_does_not_obey(box):
    box.script('stubborn', STUBBORN)
    box.expect(124, 'run', '--max-run', '300ms', '--grace', '200ms', 'x', '--', './stubborn')
    # It may have been killed before it had written all that it wanted to.
    wait_until(lambda: not box.inhabitants(), 'the group is dead')


@test
def a_stopped_command_is_stopped_for_good(box):
    process = box.hold('x', '--grace', '200ms')
    process.signal(signal.SIGSTOP)
    process.signal(signal.SIGCONT)
    process.signal(signal.SIGTSTP)
    box.expect(0, 'break', '-y', 'x')
    equal(process.end().code, 121)
    assert not is_alive(process.child)


def states_of_children(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
        return [state_of(child) for child in file.read().split()]


def start_with_blocked_stderr(box, *words):
    pipe = FullPipe()
    process = box.start(*words, '--', 'sh', '-c', 'echo $$; exec sleep 1000', stderr=pipe.writer)
    child = int(process.line())
    box.pids.append(child)
    return pipe, process, child


def break_with_blocked_stderr(box, *words):
    pipe, process, child = start_with_blocked_stderr(box, 'run', *words, 'x')
    box.expect(0, 'break', *words[:2], '-y', 'x')
    wait_until(lambda: not is_alive(child), 'the command has ended')
    told = pipe.read_until(b"'x' is lost")
    if '-v' in words:
        contains(told, "'x': lost: ")
    equal(process.end().code, 121)
    pipe.close()


@test
def blocked_stderr_break_ends_the_command(box):
    break_with_blocked_stderr(box, '-v')


@test
def blocked_stderr_break_ends_the_command_at_servers(box):
    urls = [start_redis(box).url, start_etcd(box).url(), Database(box, 'postgres').url(),
            Database(box, 'mariadb').url(), f'memcached://127.0.0.1:{start_memcached(box).port}']
    for url in urls:
        break_with_blocked_stderr(box, '-e', url, '-t', '3s')
    # It says already when it is opened that its locks are advisory.
    break_with_blocked_stderr(box, '-e', urls[-1], '-t', '3s', '-v')


@test
def blocked_stderr_max_run_ends_the_command_and_holdfast(box):
    pipe, process, child = start_with_blocked_stderr(box, 'run', '--max-run', '1s', 'x')
    wait_until(lambda: not is_alive(child), 'the command has ended')
    equal(process.end().code, 124)
    equal(box.count('holders', 'x'), 0)
    pipe.close()


@test
def blocked_stderr_counts_the_messages_it_drops(box):
    names = [f'{number:02}' + 'n' * 1000 for number in range(40)]
    words = [word for name in names for word in ('-l', name)]
    pipe, process, child = start_with_blocked_stderr(box, '-v', 'run', '--on-lost', 'ignore',
                                                     *words)
    told = pipe.read_until(b'dropped here')

    # Some may be said only now.
    def count_messages():
        nonlocal told
        dropped = sum(map(int, re.findall(r'holdfast: (\d+) messages? w[a-z]+ dropped here', told)))
        if dropped + told.count("': granted") < len(names):
            told += pipe.read_until(b'\n')
        return dropped + told.count("': granted")

    wait_until(lambda: count_messages() >= len(names), 'all messages are told or counted')
    equal(count_messages(), len(names), told[-200:])
    box.expect(0, 'break', '-y', names[7])
    pipe.read_until(f"'{names[7]}': lost".encode())
    os.kill(child, signal.SIGKILL)
    equal(process.end().code, 121)
    pipe.close()


@test
def one_lost_name_of_several_ends_it(box):
    process = box.start('run', '-l', 'a', '-l', 'b', '--', 'sh', '-c',
                        'echo ready; exec sleep 1000')
    process.line()
    box.expect(0, 'break', '-y', 'b')
    result = process.end()
    equal(result.code, 121)
    contains(result.err, "'b' is lost: ")
    assert "'a'" not in result.err, result.err
    equal(box.count('holders', 'a'), 0)


@test
def loss_found_at_the_end_names_the_lost_lock(box):
    process = box.start('run', '-l', 'a', '-l', 'b', '--', 'sh', '-c', 'echo ready; exec sleep 1')
    process.line()
    process.signal(signal.SIGSTOP)
    box.expect(0, 'break', '-y', 'b')
    wait_until(lambda: 'Z' in states_of_children(process.pid), 'the command has ended')
    process.signal(signal.SIGCONT)
    result = process.end()
    equal(result.code, 121)
    contains(result.err, "'b' ")
    assert "'a'" not in result.err, result.err


if __name__ == '__main__':
    main()
