# SPDX-License-Identifier: Apache-2.0
"""Signals: forwarded to the command, ending a wait, and what a SIGKILL leaves behind."""
import os
import pathlib
import signal
import subprocess
import sys

from clitest import (COMMAND, PATIENCE, Process, Skip, contains, equal, file_of, is_alive, main,
                     state_of, test, wait_until)
from servers import start_redis

# A shell's trap can come a moment before the read that it was to interrupt; sigwait misses none.
LISTENER = '''
import signal, sys
names = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
         signal.SIGWINCH, signal.SIGTERM, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
         signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN, signal.SIGRTMAX}
signal.pthread_sigmask(signal.SIG_BLOCK, names)
print("ready", flush=True)
while True:
    number = signal.Signals(signal.sigwait(names))
    print("got", number.name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(9)
'''

# A session leader that starts one job in a group of its own, which the kernel therefore lets stop.
SHELL_WITHOUT_TERMINAL = '''
import os, sys
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    print(os.getpid(), flush=True)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
'''

# Ends once it has been stopped and continued.
CONTINUED = '''
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
print("ready", flush=True)
signal.sigwait({signal.SIGCONT})
sys.exit(3)
'''


@test
def signals_reach_the_command(box):
    process = box.start('run', 'x', '--', sys.executable, '-c', LISTENER)
    equal(process.line(), 'ready')
    for name in ('HUP', 'INT', 'QUIT', 'USR1', 'USR2', 'WINCH', 'ALRM', 'VTALRM', 'PROF', 'IO',
                 'PWR', 'RTMIN', 'RTMAX'):
        process.signal(getattr(signal, 'SIG' + name))
        equal(process.line(), f'got {getattr(signal, "SIG" + name).name}')
    process.signal(signal.SIGTERM)
    equal(process.line(), 'got SIGTERM')
    equal(process.end().code, 9)


@test
def signals_reach_the_whole_group(box):
    box.script('family', '''
trap : TERM
sh -c 'echo $$ > grandchild; exec sleep 1000' &
wait; wait
exit 4
''')
    process = box.start('run', 'x', '--', './family')
    grandchild = box.read_pid('grandchild')
    process.signal(signal.SIGTERM)
    equal(process.end().code, 4)
    wait_until(lambda: not is_alive(grandchild), 'the grandchild has ended')


@test
def who_may_stop_does_so_with_the_command(box):
    process = Process(box, [sys.executable, '-c', SHELL_WITHOUT_TERMINAL, COMMAND, 'run', 'x',
                            '--', 'sh', '-c', 'echo $$; read line; echo $line'],
                      stdin=subprocess.PIPE)
    box.processes.append(process)
    holder, child = int(process.line()), int(process.line())
    box.pids += [holder, child]
    os.kill(holder, signal.SIGTSTP)
    wait_until(lambda: state_of(holder) == 'T', 'holdfast is stopped')
    equal(state_of(child), 'T', 'the command')
    os.kill(holder, signal.SIGCONT)
    wait_until(lambda: state_of(child) == 'S', 'the command goes on')
    process.popen.stdin.write(b'done\n')
    process.popen.stdin.close()
    equal((process.line(), process.popen.wait(PATIENCE)), ('done', 0))


@test
def who_may_not_stop_lets_no_command_stand_still(box):
    nested = [COMMAND, 'run', 'x', '--']
    for more in ([], nested, ['sh', '-c', '"$@"; exit $?', 'outer', *nested]):
        process = box.start('run', 'x', '--', *more, sys.executable, '-c', CONTINUED)
        equal(process.line(), 'ready')
        process.signal(signal.SIGTSTP)
        equal(process.end().code, 3, more)


@test
def nor_does_one_of_it_that_was_stopping_when_the_others_went_on(box):
    late = ['env', 'LD_PRELOAD=' + os.environ['HOLDFAST_LATE_CONTINUE']]
    process = box.start('run', 'x', '--', 'sh', '-c', '"$@"; exit $?', 'outer', *late, COMMAND,
                        'run', 'x', '--', sys.executable, '-c', CONTINUED)
    equal(process.line(), 'ready')
    process.signal(signal.SIGTSTP)
    equal(process.end().code, 3)


@test
def nor_half_of_it(box):
    process = box.start('run', 'x', '--', os.environ['HOLDFAST_HALF_STOPPED'])
    equal(process.line(), 'ready')
    process.signal(signal.SIGTSTP)
    equal(process.end().code, 3)


@test
def signals_end_a_wait_and_leave_nothing(box):
    holder = box.hold('x')
    for name in ('INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2', 'ALRM', 'PWR', 'RTMIN'):
        number = getattr(signal, 'SIG' + name)
        for words in (('run', 'x', '--', 'echo', 'ran'), ('lock', 'x')):
            waiting = box.start(*words)
            box.wait_for_waiters('x')
            waiting.signal(number)
            result = waiting.end()
            equal((result.code, result.out, result.err), (128 + number, '', ''), name)
            equal(box.count('waiters', 'x'), 0)
    holder.stop()


@test
def ignored_signals_stay_ignored(box):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = box.start('run', 'x', '--', 'sh', '-c', 'echo $$; read line; exit 3',
                        before=ignore, stdin=subprocess.PIPE)
    process.line()
    process.signal(signal.SIGHUP)
    process.popen.stdin.write(b'\n')
    process.popen.stdin.flush()
    equal(process.end().code, 3)


@test
def the_command_has_its_signals_as_they_were(box):
    result = box.expect(0, 'run', 'x', '--', 'grep', '-E', 'Sig(Blk|Ign)', '/proc/self/status')
    plain = subprocess.run(['grep', '-E', 'Sig(Blk|Ign)', '/proc/self/status'], check=True,
                           capture_output=True, text=True)
    equal(result.out, plain.stdout)


@test
def the_command_inherits_no_descriptors(box):
    result = box.expect(0, 'run', 'x', '--', 'ls', '/proc/self/fd')
    equal(result.out.split(), ['0', '1', '2', '3'], 'ls itself has the fourth')


@test
def a_killed_holder_lets_the_next_in_and_leaves_nobody_unguarded(box):
    box.script('family', '''
trap "" TERM HUP INT
(trap "" TERM HUP INT; echo $(exec sh -c 'echo $PPID') > grandchild; while :; do sleep 1000; done) &
echo $$ > child
while :; do sleep 1000; done
''')
    holder = box.start('run', 'x', '--', './family')
    child, grandchild = box.read_pid('child'), box.read_pid('grandchild')
    second = box.start('run', 'x', '--', 'echo', 'second')
    box.wait_for_waiters('x')
    holder.signal(signal.SIGKILL)
    result = second.end()
    equal((result.code, result.out), (0, 'second\n'))
    wait_until(lambda: not is_alive(child), 'the orphaned command is dead')
    wait_until(lambda: not is_alive(grandchild), 'the orphaned grandchild is dead')
    equal(box.count('holders', 'x'), 0)


@test
def a_killed_waiter_leaves_no_queue_entry(box):
    holder = box.hold('x', '-F')
    ghost = box.start('run', '-F', 'x', '--', 'true')
    box.wait_for_waiters('x')
    ghost.signal(signal.SIGKILL)
    ghost.end()
    second = box.start('run', '-F', 'x', '--', 'echo', 'second')
    wait_until(lambda: any('second' in str(thing) or thing['pid'] == second.pid
                           for each in box.picture('x') for thing in each['waiters']), 'it waits')
    holder.signal(signal.SIGTERM)
    equal(second.end().out, 'second\n')


@test
def as_first_process_of_a_container_it_reaps_orphans(box):
    contained = ['unshare', '--pid', '--fork', '--mount-proc']
    if subprocess.run([*contained, 'true'], capture_output=True, check=False).returncode != 0:
        raise Skip('making a PID namespace is not permitted here')
    box.script('orphaner', """
(sh -c 'exit 0' & sh -c 'exit 0' & exec sh -c 'exit 0')
(setsid sh -c 'echo $$ > orphan; exit 0' &)
while [ ! -s orphan ] || [ -e /proc/$(cat orphan) ]; do sleep 0.01; done
echo reaped
""")
    done = subprocess.run([*contained, COMMAND, 'run', 'x', '--', './orphaner'], cwd=box.path,
                          env=box.environment, capture_output=True, text=True, check=False,
                          timeout=PATIENCE)
    equal((done.returncode, done.stdout), (0, 'reaped\n'), done.stderr)


# The first process of a PID namespace: runs one process, and waits for no other.
REAPS_NOTHING = '''
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'''


@test
def zombies_of_the_group_do_not_count_as_alive(box):
    contained = ['unshare', '--pid', '--fork', '--mount-proc']
    if subprocess.run([*contained, 'true'], capture_output=True, check=False).returncode != 0:
        raise Skip('making a PID namespace is not permitted here')
    process = Process(box, [*contained, sys.executable, '-c', REAPS_NOTHING, COMMAND, 'run',
                            '--max-run', '1s', '--grace', '1h', 'x', '--', 'sh', '-c',
                            'sleep 1000; echo done'])
    box.processes.append(process)
    result = process.end()
    equal((result.code, result.out), (124, ''), result.err)


@test
def lock_is_kept_while_another_users_process_of_the_group_runs(box):
    may_not_kill = ['setpriv', '--inh-caps=-kill', '--bounding-set=-kill']
    if os.geteuid() != 0 or subprocess.run([*may_not_kill, 'true'], capture_output=True,
                                           check=False).returncode != 0:
        raise Skip('only root can start a process of another user')
    script = ('exec 4<&0; setpriv --reuid=65534 --clear-groups sh -c '
              '\'trap "" TERM; echo $$ >&3; read line <&4\' 3>stranger & wait')
    process = Process(box, [*may_not_kill, COMMAND, 'run', '--max-run', '1s', '--grace', '500ms',
                            'x', '--', 'sh', '-c', script], stdin=subprocess.PIPE)
    box.processes.append(process)
    stranger = box.read_pid('stranger')
    contains(process.popen.stderr.readline().decode(), '--max-run')
    contains(process.popen.stderr.readline().decode(), 'belongs to another user')
    box.expect(75, 'try', 'x', '--', 'true')
    assert is_alive(stranger), 'it has ended too early'
    result = process.end()
    equal(result.code, 124, result)
    equal(box.count('holders', 'x'), 0)


@test
def nothing_of_ours_is_left_running(box):
    box.expect(0, 'run', 'x', '--', 'true')
    equal([file_of(pid, 'comm') for pid in box.inhabitants()], [])


@test
def a_password_is_not_shown_by_ps(box):
    # With nobody to read what it complains about, it stays where it can be looked at.
    out, err = os.pipe()
    os.set_blocking(err, False)
    try:
        while True:
            os.write(err, b' ' * 4096)
    except BlockingIOError:
        os.set_blocking(err, True)
    process = subprocess.Popen([COMMAND, '-e', 'nosuch://u:s3cret@host/', 'show'], stderr=err,
                               env=box.environment)
    try:
        wait_until(lambda: b'u:xxxxxx@' in arguments_of(process.pid), 'the password is overwritten')
        assert b's3cret' not in arguments_of(process.pid)
    finally:
        os.close(out)
        os.close(err)
        process.kill()
        process.wait()


def arguments_of(pid):
    with open(f'/proc/{pid}/cmdline', 'rb') as file:
        return file.read()


def guard_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
        for child in file.read().split():
            with open(f'/proc/{child}/comm', encoding='utf-8') as name:
                if name.read() == 'holdfast-guard\n':
                    return int(child)
    return 0


def start_without_close_range(box, error, *words):
    wrapper = os.environ['HOLDFAST_NO_CLOSE_RANGE']
    if subprocess.run([wrapper, error, 'true'], check=False).returncode != 0:
        raise Skip('system calls cannot be filtered here')
    libraries = os.path.dirname(os.environ['HOLDFAST_LIBRARY'])
    process = Process(box, [wrapper, error, *words], environment={'LD_LIBRARY_PATH': libraries})
    box.processes.append(process)
    return process


def check_guard_without_close_range(box, *words):
    """`words` end with the command of holdfast and its options."""
    for error in ('ENOSYS', 'EPERM'):
        process = start_without_close_range(box, error, *words, 'run', 'x', '--', 'sh', '-c',
                                            'echo ready; exec sleep 1000')
        equal(process.line(), 'ready')
        guard = wait_until(lambda: guard_of(process.pid), 'there is a guard')
        wait_until(lambda: sorted(os.listdir(f'/proc/{guard}/fd')) == ['0', '1'],
                   'the guard has a pipe and a timer, and nothing else')
        process.signal(signal.SIGTERM)
        equal(process.end().code, 128 + signal.SIGTERM)


@test
def guard_without_close_range_keeps_nothing_open(box):
    check_guard_without_close_range(box, COMMAND)


@test
def guard_without_close_range_and_proc_keeps_nothing_open(box):
    server = start_redis(box)
    hidden = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh']
    if subprocess.run([*hidden, 'true'], capture_output=True, check=False).returncode != 0:
        raise Skip('mounting over /proc is not permitted here')
    # It reads its options, too, from /proc, and ends the command with an exit code of its own.
    if b'__asan_init' in pathlib.Path(COMMAND).read_bytes():
        raise Skip('the leak sanitizer needs /proc')
    check_guard_without_close_range(box, *hidden, COMMAND, '-e', server.url)


@test
def without_its_guard_the_command_dies_all_the_same(box):
    holder = box.hold('x')
    guard = wait_until(lambda: guard_of(holder.pid), 'there is a guard')
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: not is_alive(guard), 'the guard is dead')
    holder.signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(holder.child), 'the command is dead')


@test
def a_guard_that_was_killed_does_no_harm(box):
    holder = box.hold('x')
    os.kill(wait_until(lambda: guard_of(holder.pid), 'there is a guard'), signal.SIGKILL)
    holder.signal(signal.SIGTERM)
    equal(holder.end().code, 128 + signal.SIGTERM)


if __name__ == '__main__':
    main()
