# SPDX-License-Identifier: Apache-2.0
"""Between the grant and exec: no command starts once one of its locks is lost."""
import os
import signal

from clitest import contains, equal, is_alive, main, test, test_of_a_moment, wait_until
from servers import start_redis


def held_up(box, at):
    """The environment for a holdfast whose child waits at this function until `go` is called."""
    os.mkfifo(box.file('go'))
    return {'LD_PRELOAD': os.environ['HOLDFAST_HELD_UP'], 'HOLDFAST_TEST_AT': at,
            'HOLDFAST_TEST_GO': box.file('go')}


def go(box):
    os.close(os.open(box.file('go'), os.O_RDWR))


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
        return [int(child) for child in file.read().split()]


def comm(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


def supervises(pid):
    """Whether it has told the guard and the child all that it had to: its own timer follows."""
    def target(fd):
        try:
            return os.readlink(f'/proc/{pid}/fd/{fd}')
        except OSError:
            return ''
    return any(target(fd) == 'anon_inode:[timerfd]' for fd in os.listdir(f'/proc/{pid}/fd'))


def guard_and_child(holder):
    """The pids of the guard and of the child that has not become the command yet."""
    def look():
        found = {comm(pid): pid for pid in children(holder.pid)}
        return ('holdfast-guard' in found and 'holdfast' in found and supervises(holder.pid) and
                found)
    found = wait_until(look, 'a guard and a child')
    return found['holdfast-guard'], found['holdfast']


@test
def lock_lost_while_waiting_for_the_next_ends_the_wait_with_121(box):
    other = box.hold('b')
    for options in ((), ('-w', '1h')):
        process = box.start('run', *options, '-l', 'a', '-l', 'b', '-l', 'c', '--', 'echo', 'ran')
        box.wait_for_waiters('b')
        box.expect(0, 'break', '-y', 'a')
        result = process.end()
        equal((result.code, result.out), (121, ''))
        contains(result.err, "'a' was lost while waiting for 'b': ")
        equal(box.count('waiters', 'b'), 0)
    other.stop()


@test
def max_hold_over_while_waiting_for_the_next_starts_nothing(box):
    other = box.hold('b')
    process = box.start('run', '--max-hold', '1s', '-l', 'a', '-l', 'b', '--', 'echo', 'ran')
    result = process.end()
    equal((result.code, result.out), (121, ''))
    contains(result.err, "'a' was lost while waiting for 'b': its --max-hold is over")
    equal(box.expect(0, 'try', 'a', '--', 'echo', 'free').out, 'free\n')
    other.stop()


@test
def lock_broken_during_a_slow_exec_starts_nothing(box):
    process = box.start('run', '--grace', '1s', 'x', '--', 'echo', 'ran',
                        environment=held_up(box, 'execvp'))
    _, child = guard_and_child(process)
    box.expect(0, 'break', '-y', 'x')
    wait_until(lambda: not is_alive(child), 'the child is ended before its exec')
    go(box)
    result = process.end()
    equal((result.code, result.out), (121, ''))
    contains(result.err, "'x' is lost: ")


@test
def lease_is_renewed_during_a_slow_exec(box):
    server = start_redis(box)
    process = box.start('-e', server.url, 'run', '-t', '1s', 'x', '--', 'echo', 'ran',
                        environment=held_up(box, 'execvp'))
    guard_and_child(process)
    box.expect(75, '-e', server.url, 'run', '-w', '3s', 'x', '--', 'true')
    go(box)
    result = process.end()
    equal((result.code, result.out), (0, 'ran\n'), result.err)


@test_of_a_moment
def child_whose_lock_has_ended_does_not_exec(box):
    process = box.start('run', '--max-hold', '3s', 'x', '--', 'echo', 'ran',
                        environment=held_up(box, 'getppid'))
    guard, child = guard_and_child(process)
    process.signal(signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    box.expect(0, 'run', 'x', '--', 'true')
    go(box)
    wait_until(lambda: not is_alive(child), 'the child has ended')
    process.signal(signal.SIGCONT)
    result = process.end()
    equal((result.code, result.out), (121, ''))
    contains(result.err, "'x' ")


@test_of_a_moment
def guard_knows_the_end_of_the_lock_before_exec(box):
    process = box.start('run', '--max-hold', '3s', 'x', '--', 'echo', 'ran',
                        environment=held_up(box, 'execvp'))
    _, child = guard_and_child(process)
    process.signal(signal.SIGSTOP)
    wait_until(lambda: not is_alive(child), 'the guard kills the child')
    box.expect(0, 'run', 'x', '--', 'true')
    process.signal(signal.SIGCONT)
    result = process.end()
    equal((result.code, result.out), (121, ''))


@test
def failed_exec_keeps_its_exit_codes(box):
    box.script('plain', 'exit 0\n')
    os.chmod(box.file('plain'), 0o644)
    for words, code in ((['./nosuch'], 127), (['./plain'], 126)):
        contains(box.expect(code, 'run', 'x', '--', *words).err, f"cannot run '{words[0]}': ")
        equal(box.count('holders', 'x'), 0)


if __name__ == '__main__':
    main()
