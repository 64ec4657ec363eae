# SPDX-License-Identifier: Apache-2.0
"""Job control on a real pseudo-terminal, under a little shell: Ctrl-C, Ctrl-Z, who may read."""
import signal

from clitest import COMMAND, Terminal, contains, equal, is_alive, main, state_of, test, wait_until


def terminal(box, *words):
    return Terminal(box, COMMAND, *words)


@test
def ctrl_c_while_waiting_is_130_and_leaves_nothing(box):
    holder = box.hold('x')
    screen = terminal(box, 'run', 'x', '--', 'echo', 'ran')
    box.wait_for_waiters('x')
    screen.type('\x03')
    equal(screen.next_report(), 'exit 130, terminal ours')
    equal(box.count('waiters', 'x'), 0)
    assert 'ran' not in screen.text, screen.text
    holder.stop()
    screen.close()


@test
def the_command_can_talk_to_the_person(box):
    screen = terminal(box, 'run', 'x', '--', 'sh', '-c', 'echo name?; read name; echo hello $name')
    screen.wait_for('name\\?')
    screen.type('Ada\n')
    screen.wait_for('hello Ada')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def ctrl_c_ends_the_command_and_gives_the_lock_back(box):
    screen = terminal(box, 'run', 'x', '--', 'sh', '-c', 'echo ready; exec sleep 1000')
    screen.wait_for('ready')
    screen.type('\x03')
    contains(screen.next_report(), 'exit 130')
    equal(box.count('holders', 'x'), 0)
    screen.close()


@test
def ctrl_c_reaches_a_script_that_called_us(box):
    box.script('outer', f'"{COMMAND}" run x -- sh -c "echo ready; exec sleep 1000"; echo went on\n')
    screen = Terminal(box, './outer')
    screen.wait_for('ready')
    screen.type('\x03')
    equal(screen.next_report().split(',')[0], f'exit {-signal.SIGINT}')
    assert 'went on' not in screen.text, screen.text
    screen.close()


def go_on_and_end(screen, child):
    screen.order('fg')
    wait_until(lambda: state_of(child) == 'S', 'the command goes on')
    screen.type('again\n')
    screen.wait_for('got again')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def ctrl_z_stops_the_job_and_fg_continues_it(box):
    screen = terminal(box, 'run', 'x', '--', 'sh', '-c',
                      'echo $$ > child; echo ready; read line; echo got $line')
    screen.wait_for('ready')
    child = box.read_pid('child')
    screen.type('\x1a')
    equal(screen.next_report(), 'stopped')
    wait_until(lambda: state_of(child) == 'T', 'the command is stopped too')
    equal(box.count('holders', 'x'), 1)
    go_on_and_end(screen, child)


@test
def ctrl_z_stops_a_nested_run_too(box):
    screen = terminal(box, 'run', 'x', '--', COMMAND, 'run', 'x', '--', 'sh', '-c',
                      'echo $$ > child; echo ready; read line; echo got $line')
    screen.wait_for('ready')
    child = box.read_pid('child')
    screen.type('\x1a')
    equal(screen.next_report(), 'stopped')
    wait_until(lambda: state_of(child) == 'T', 'the command is stopped too')
    go_on_and_end(screen, child)


def command_that_stops_itself(box, *words):
    screen = terminal(box, *words, 'sh', '-c', 'echo $$ > child; echo ready; kill -STOP 0; '
                      'read line; echo got $line')
    child = box.read_pid('child')
    equal(screen.next_report(), 'stopped')
    equal(state_of(child), 'T', 'the command')
    equal(box.count('holders', 'x'), 1)
    go_on_and_end(screen, child)


@test
def editor_that_stops_its_group_gives_the_terminal_back(box):
    command_that_stops_itself(box, 'run', 'x', '--')


@test
def editor_in_a_nested_run_that_stops_its_group_gives_the_terminal_back(box):
    command_that_stops_itself(box, 'run', 'x', '--', COMMAND, 'run', 'x', '--')


@test
def editor_in_a_nested_run_that_stops_alone_gives_the_terminal_back(box):
    screen = terminal(box, 'run', 'x', '--', COMMAND, 'run', 'x', '--', 'sh', '-c',
                      'echo $$ > child; echo ready; kill -STOP $$; read line; echo got $line')
    child = box.read_pid('child')
    equal(screen.next_report(), 'stopped')
    go_on_and_end(screen, child)


@test
def long_wait_is_told_on_a_terminal(box):
    holder = box.hold('x', '--owner', 'Ada')
    screen = terminal(box, 'run', 'x', '--', 'echo', 'ran')
    screen.wait_for("holdfast: waiting: 'x' is held by Ada, for ")
    screen.wait_for("holdfast: waiting: 'x' is held by Ada, for [4-9]")
    holder.signal(signal.SIGTERM)
    screen.wait_for("holdfast: 'x' was granted after [1-9]")
    screen.wait_for('ran')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def ctrl_z_while_waiting_stops_and_fg_goes_on_waiting(box):
    holder = box.hold('x')
    screen = terminal(box, 'run', 'x', '--', 'echo', 'ran')
    box.wait_for_waiters('x')
    screen.type('\x1a')
    equal(screen.next_report(), 'stopped')
    screen.order('fg')
    holder.signal(signal.SIGTERM)
    screen.wait_for('ran')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def in_a_pipeline_the_pager_keeps_the_terminal(box):
    box.script('pager', 'while read line <&3; do last=$line; done 3<&0\n'
               'echo key?; read key < /dev/tty; echo $last $key\n')
    box.script('outer', f'"{COMMAND}" run x -- echo text | ./pager\n')
    screen = Terminal(box, './outer')
    screen.wait_for('key\\?')
    screen.type('k\n')
    screen.wait_for('text k')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def in_a_pipeline_a_command_that_asks_gets_the_terminal(box):
    box.script('outer', f'"{COMMAND}" run x -- sh -c "read line; echo got \\$line" | cat\n')
    screen = Terminal(box, './outer')
    screen.type('hello\n')
    screen.wait_for('got hello')
    equal(screen.next_report(), 'exit 0, terminal ours')
    screen.close()


@test
def a_terminal_left_in_raw_mode_is_mended(box):
    screen = terminal(box, 'run', 'x', '--', 'sh', '-c', 'stty raw -echo; echo ready; kill -9 $$')
    screen.wait_for('ready')
    equal(screen.next_report(), 'exit 137, terminal ours')
    import termios
    modes = termios.tcgetattr(screen.fd)
    assert modes[3] & termios.ECHO and modes[3] & termios.ICANON, 'echo is on again'
    screen.close()


@test
def a_stopped_job_whose_lock_is_broken_dies_when_continued(box):
    screen = terminal(box, 'run', '--grace', '200ms', 'x', '--', 'sh', '-c',
                      'echo $$ > child; echo ready; read line; echo went on')
    screen.wait_for('ready')
    child = box.read_pid('child')
    screen.type('\x1a')
    equal(screen.next_report(), 'stopped')
    box.expect(0, 'break', '-y', 'x')
    screen.order('fg')
    equal(screen.next_report(), 'exit 121, terminal ours')
    assert 'went on' not in screen.text and not is_alive(child)
    screen.close()


@test
def stopped_job_continued_alone_is_dead_before_the_next_owner(box):
    screen = terminal(box, 'run', '--max-hold', '2s', 'x', '--', 'sh', '-c',
                      'trap "echo heard; exit 0" TERM; echo $$ > child; sleep 1000 & '
                      'echo ready; wait; echo went on')
    screen.wait_for('ready')
    child = box.read_pid('child')
    screen.type('\x1a')
    equal(screen.next_report(), 'stopped')
    equal(box.expect(0, 'run', 'x', '--', 'sh', '-c',
                     f'kill -CONT -{child}; cut -d" " -f3 /proc/{child}/stat').out, 'Z\n')
    screen.order('fg')
    contains(screen.next_report(), 'exit 121')
    assert not is_alive(child)
    assert 'heard' not in screen.text and 'went on' not in screen.text, screen.text
    screen.close()


@test
def show_watch_ends_with_ctrl_c(box):
    holder = box.hold('x', '--owner', 'Somebody')
    screen = terminal(box, 'show', '--watch=100ms')
    screen.wait_for('(?s)Somebody.*Somebody')
    screen.type('\x03')
    contains(screen.next_report(), 'exit 0')
    holder.stop()
    screen.close()


@test
def break_asks_on_a_terminal(box):
    holder = box.hold('x', '--owner', 'Somebody')
    screen = terminal(box, 'break', 'x')
    screen.wait_for(r'Somebody.*\n.*\[y/N\] ')
    screen.type('n\n')
    contains(screen.next_report(), 'exit 1,')
    equal(box.count('holders', 'x'), 1)
    screen.close()
    screen = terminal(box, 'break', 'x')
    screen.wait_for(r'\[y/N\] ')
    screen.type('y\n')
    contains(screen.next_report(), 'exit 0')
    equal(holder.end().code, 121)
    screen.close()


def lines_on(box, columns, *words):
    screen = Terminal(box, COMMAND, *words, columns=columns)
    screen.next_report()
    screen.read_screen()
    lines = screen.text.splitlines()
    screen.close()
    return lines


@test
def lines_of_doctor_are_broken_between_words(box):
    key, indent = 'can do', ' ' * 15
    whole, = [line for line in box.run('doctor').out.splitlines() if line.startswith(key)]
    for columns in (40, 60, 132):
        lines = lines_on(box, columns, 'doctor')
        shown = []
        for line in lines[[line.startswith(key) for line in lines].index(True):]:
            if shown and not line.startswith(indent):
                break
            assert len(line) <= columns, line
            shown.append(line[len(indent):] if shown else line)
        equal(' '.join(shown), whole)
        assert columns > len(whole) or len(shown) > 1, shown
    lines = lines_on(box, 20, 'doctor')  # too few for two columns
    assert whole in lines, lines


@test
def name_column_of_show_follows_the_terminal(box):
    name = 'name-' + 70 * 'n'
    holder = box.hold(name)
    shown = {columns: lines_on(box, columns, 'show') for columns in (100, 132, 200)}
    piped = box.run('show').out.splitlines()
    holder.stop()
    for columns, lines in shown.items():
        assert all(len(line) <= columns for line in lines), lines
    lengths = [len(lines[1].split()[0]) for lines in (shown[100], shown[132], shown[200])]
    assert lengths[0] < lengths[1] < lengths[2] == len(name), (lengths, shown)
    equal(piped[1].split()[0], name[:39] + '~')


if __name__ == '__main__':
    main()
