# SPDX-License-Identifier: Apache-2.0
"""elect: one of many runs, and another one after it."""
import json
import os
import signal

from clitest import COMMAND, contains, equal, main, test, wait_until


def candidate(box, name, *options):
    return box.start('elect', *options, 'boss', '--', 'sh', '-c',
                     f'echo {name} >> elected; echo $$ > pid-{name}; exec sleep 1000')


def said(box, where):
    try:
        with open(box.file(where), encoding='utf-8') as file:
            return file.read().split()
    except OSError:
        return []


def elected(box):
    return said(box, 'elected')


@test
def one_rules_until_it_is_killed(box):
    first = candidate(box, 'first')
    wait_until(lambda: elected(box) == ['first'], 'the first is elected')
    second = candidate(box, 'second')
    box.wait_for_waiters('boss')
    first.signal(signal.SIGKILL)
    wait_until(lambda: elected(box) == ['first', 'second'], 'the second is elected')
    second.signal(signal.SIGTERM)
    equal(second.end().code, 128 + signal.SIGTERM)
    equal(box.count('holders', 'boss'), 0)


@test
def a_command_that_ends_makes_room_and_campaigns_again(box):
    process = box.start('elect', 'boss', '--', 'sh', '-c',
                        'echo $HOLDFAST_HELD | wc -w >> elected; exit 3')
    wait_until(lambda: len(elected(box)) >= 2, 'a second term')
    equal(set(elected(box)), {'1'}, 'what each term says it holds')
    process.signal(signal.SIGTERM)
    result = process.end()
    assert result.code in (3, 128 + signal.SIGTERM), result
    contains(result.err, 'ended with 3; campaigning again in 1 s')


@test
def what_is_held_around_it_is_told_to_each_term(box):
    """Even where no socket can be had that would prove what it holds itself."""
    unproven = {'LD_PRELOAD': os.environ['HOLDFAST_NO_PROOF'], 'HOLDFAST_HELD': 'outer',
                'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'}
    process = box.start('elect', 'boss', '--', 'sh', '-c', 'echo "[$HOLDFAST_HELD]" >> elected',
                        environment=unproven)
    wait_until(lambda: len(elected(box)) >= 2, 'a second term')
    equal(elected(box)[:2], ['[outer]'] * 2, 'what each term is told')
    process.signal(signal.SIGTERM)
    process.end()


@test
def what_outlives_its_term_is_no_part_of_the_next(box):
    os.mkfifo(box.file('go'))
    process = box.start('elect', 'boss', '--', 'sh', '-c', f"""
        [ -e once ] && echo again >> elected && exec sleep 1000
        touch once
        setsid sh -c 'read line < go; "{COMMAND}" try -F boss true; echo $? > tried' \\
            < /dev/null > /dev/null 2>&1 &
        exit 3""")
    wait_until(lambda: elected(box) == ['again'], 'a second term')
    with open(box.file('go'), 'w', encoding='utf-8') as go:
        go.write('on\n')
    wait_until(lambda: said(box, 'tried'), 'what the first term left behind has tried')
    equal(said(box, 'tried'), ['75'])
    process.signal(signal.SIGTERM)
    equal(process.end().code, 128 + signal.SIGTERM)


@test
def a_broken_lock_ends_the_term(box):
    process = candidate(box, 'only')
    box.read_pid("pid-only")
    box.expect(0, 'break', '-y', 'boss')
    wait_until(lambda: elected(box) == ['only', 'only'], 'it is elected again')
    process.signal(signal.SIGTERM)
    contains(process.end().err, 'ended with 121')


@test
def a_candidate_can_be_called_off(box):
    leader = candidate(box, 'leader')
    wait_until(lambda: elected(box) == ['leader'], 'the leader is elected')
    process = candidate(box, 'never')
    box.wait_for_waiters('boss')
    process.signal(signal.SIGINT)
    equal(process.end().code, 130)
    equal(elected(box), ['leader'])
    equal(box.count('waiters', 'boss'), 0)
    leader.signal(signal.SIGTERM)
    leader.end()


@test
def an_observer_is_told_of_each_change(box):
    plain = box.start('elect', '--observe', 'boss')
    json_lines = box.start('elect', '--json', '--observe', 'boss')
    contains(plain.popen.stdout.readline().decode(), "'boss': no candidate leads")
    equal(json.loads(json_lines.popen.stdout.readline()), {'name': 'boss', 'leads': False})
    first = candidate(box, 'first', '--text', 'first:80')
    contains(plain.popen.stdout.readline().decode(), "'boss': first:80 leads, for")
    led = json.loads(json_lines.popen.stdout.readline())
    equal((led['leads'], led['owner_text']), (True, 'first:80'))
    second = candidate(box, 'second', '--text', 'second:80')
    box.wait_for_waiters('boss')
    first.signal(signal.SIGTERM)
    first.end()
    contains(plain.popen.stdout.readline().decode(), "'boss': second:80 leads, for")
    follows = json.loads(json_lines.popen.stdout.readline())
    equal(follows['owner_text'], 'second:80')
    assert follows['token'] > led['token'], (led, follows)
    second.signal(signal.SIGTERM)
    second.end()
    contains(plain.popen.stdout.readline().decode(), "'boss': no candidate leads")
    for observer in (plain, json_lines):
        observer.signal(signal.SIGTERM)
        equal(observer.end().code, 128 + signal.SIGTERM)


@test
def what_a_candidate_runs_finds_its_leadership_held(box):
    result = box.start('elect', 'boss', '--', 'sh', '-c',
                       f'"{COMMAND}" run boss -- echo nested >> elected; '
                       f'"{COMMAND}" elect boss -- sh -c "echo again >> elected; kill $PPID" ')
    wait_until(lambda: elected(box)[:2] == ['nested', 'again'], 'both run at once')
    result.signal(signal.SIGTERM)
    result.end()


@test
def a_command_that_does_not_exist_is_tried_again_but_slowly(box):
    process = box.start('elect', 'boss', '--', 'no-such-command')
    contains(process.popen.stderr.readline().decode(), 'no-such-command')
    contains(process.popen.stderr.readline().decode(), 'ended with 127')
    process.signal(signal.SIGTERM)
    equal(process.end().code, 128 + signal.SIGTERM)


@test
def usage_errors_end_it(box):
    box.expect(64, 'elect', 'boss')
    box.expect(64, 'elect', '-n', 'boss', '--', 'true')
    box.expect(64, 'elect', '', '--', 'true')
    box.expect(64, 'elect', '--observe', 'boss', 'true')
    box.expect(64, 'elect', '--observe')


if __name__ == '__main__':
    main()
