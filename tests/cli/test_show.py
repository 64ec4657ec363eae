# SPDX-License-Identifier: Apache-2.0
"""show and break."""
import json
import os
import signal
import socket
import subprocess
import time

from clitest import COMMAND, PATIENCE, Terminal, contains, equal, main, test, wait_until
from servers import start_etcd, start_redis


@test
def nothing_is_shown_where_nothing_is(box):
    equal(box.expect(0, 'show').out, '')
    equal(json.loads(box.expect(0, 'show', '--json').out), [])


@test
def holders_and_waiters_are_shown(box):
    holder = box.hold('nightly', '-F', '--owner', 'the holder')
    waiting = []
    for number in (1, 2):
        waiting.append(box.start('run', '-F', '--owner', f'waiter {number}', 'nightly', 'true'))
        box.wait_for_waiters('nightly', number)
    lines = box.expect(0, 'show').out.splitlines()
    equal(lines[0].split(), ['NAME', 'KIND', 'STATE', 'MODE', 'TOKEN', 'AGE', 'LEASE', 'OWNER'])
    equal(len(lines), 4)
    for line, state, owner in zip(lines[1:], ('held', 'waits 1', 'waits 2'),
                                  ('the holder', 'waiter 1', 'waiter 2')):
        contains(line, 'nightly')
        equal(line.index(state), lines[0].index('STATE'), 'aligned')
        equal(line.index(owner), lines[0].index('OWNER'), 'aligned')
        assert len(line) <= 100 and line == line.rstrip(), line
    thing, = box.picture()
    equal((thing['name'], thing['kind']), ('nightly', 'fair'))
    equal([each['rank'] for each in thing['waiters']], [1, 2])
    equal(thing['holders'][0]['pid'], holder.pid)
    equal(thing['holders'][0]['host'], os.uname().nodename)
    equal(thing['holders'][0]['lease_left_ms'], None)
    assert thing['holders'][0]['token'] == thing['token'] > 0
    holder.signal(signal.SIGTERM)
    for process in waiting:
        process.end()


@test
def the_default_owner_is_who_and_what_without_arguments(box):
    holder = box.hold('x')
    text = box.picture('x')[0]['holders'][0]['owner_text']
    contains(text, f'@{os.uname().nodename}:{holder.pid} ')
    contains(text, 'sh')
    assert 'sleep' not in text, text
    holder.stop()


@test
def graph_shows_waits_and_marks_circles(box):
    equal(box.expect(0, 'show', '--graph').out, '')
    screen = Terminal(box, COMMAND, 'show', '--graph')
    contains(screen.next_report(), 'exit 0')
    contains(screen.text, 'No owner waits for another one.')
    screen.close()
    circle = subprocess.Popen([os.environ['HOLDFAST_CIRCLE']], env=box.environment)
    try:
        box.wait_for_waiters('a', 1)
        box.wait_for_waiters('b', 1)
        waiting = box.start('run', '--owner', 'a bystander', 'a', 'true')
        box.wait_for_waiters('a', 2)
        # A wait of a moment ago may have begun between the two lists: it is in no circle by now.
        wait_until(lambda: box.expect(0, 'show', '--graph').out.count('(circle)') == 2,
                   'both waits are marked')
        lines = box.expect(0, 'show', '--graph').out.splitlines()
        equal(len(lines), 3)
        for line, name in zip(sorted(lines, key=lambda line: line.split('waits for')[1]), 'aab'):
            contains(line, f' waits for "{name}", held by ')
            contains(line, 'the test')
            equal(line.startswith('(circle)'), 'a bystander' not in line, line)
        dot = box.expect(0, 'show', '--graph=dot').out
        contains(dot, 'digraph')
        equal(dot.count(' -> '), 3)
        equal(dot.count('color=red'), 2)
        told = box.run('doctor').out
        contains(told, 'waits for "')
        contains(told, 'they wait for each other without end')
    finally:
        circle.kill()
        circle.wait()
    waiting.end()
    contains(box.expect(64, 'show', '--graph', 'a').err, '--graph')
    contains(box.expect(64, 'show', '--graph=svg').err, 'dot')


@test
def a_lease_is_shown(box):
    box.expect(0, 'lock', '-t', '90m', 'x')
    contains(box.expect(0, 'show').out, '1h 29m')


@test
def names_and_patterns_choose(box):
    holders = [box.hold(name) for name in ('orders/1', 'orders/2', 'nightly')]
    equal(len(box.picture('orders/*')), 2)
    equal(len(box.picture('nightly')), 1)
    equal(len(box.picture('nix*')), 0)
    equal([thing['name'] for thing in box.picture()], ['nightly', 'orders/1', 'orders/2'])
    for holder in holders:
        holder.stop()


@test
def what_is_idle_is_shown_only_when_asked_for(box):
    box.expect(0, 'run', 'x', 'true')
    equal(box.expect(0, 'show').out, '')
    contains(box.expect(0, 'show', 'x').out, 'free')
    contains(box.expect(0, 'show', 'never-heard-of').out, 'free')


@test
def held_tells_by_its_exit_code(box):
    box.expect(1, 'held', 'x')
    holder = box.hold('x')
    result = box.expect(0, 'held', 'x')
    equal((result.out, result.err), ('', ''))
    box.expect(1, 'held', 'y')
    box.expect(64, 'held')
    box.expect(64, 'held', 'x', 'y')
    holder.stop()
    wait_until(lambda: box.run('held', 'x').code == 1, 'it is free')


@test
def held_tells_of_permits_that_are_out(box):
    box.expect(0, 'sem', 'e', 'set', '2')
    box.expect(1, 'held', 'e')
    holder = box.hold('e', '-k', '1')
    box.expect(0, 'held', 'e')
    holder.stop()


@test
def held_works_on_redis_and_not_at_a_quorum(box):
    url = start_redis(box).url
    box.expect(1, '-e', url, 'held', 'x')
    box.expect(0, '-e', url, 'lock', 'x')
    box.expect(0, '-e', url, 'held', 'x')
    quorum = 'quorum:' + ','.join(start_redis(box).url for _ in range(3))
    box.expect(64, '-e', quorum, 'held', 'x')


@test
def looking_makes_no_store(box):
    missing = box.file('misspelt')
    looks = (('held', 'x'), ('show',), ('show', '--json', 'x'), ('break', '-y', 'x'))
    for words in looks + (('doctor',), ('show', '--watch')):
        for chosen in (('-e', f'local://{missing}'), ('-N', 'misspelt')):
            result = box.expect(69, *chosen, *words)
            contains(result.err, 'there is no store')
            contains(result.err, 'its first lock makes it')
            contains(result.err, 'misspelt')
            equal((result.out, result.err.count('\n')), ('', 1))
    assert not os.path.exists(missing)
    equal(os.listdir(box.file('store')), [])
    os.rmdir(box.file('store'))
    equal(box.expect(0, 'show').out, '')
    equal(box.picture(), [])
    contains(box.expect(1, 'break', '-y', 'x').err, 'is not held')
    assert not os.path.exists(box.file('store'))
    box.expect(0, 'doctor')
    equal(len(os.listdir(box.file('store'))), 1)


@test
def a_person_is_told_that_there_is_nothing(box):
    for words, sentence in (((), 'No lock is held or waited for.'),
                            (('x*',), 'Of these, no lock is held or waited for.')):
        screen = Terminal(box, COMMAND, 'show', *words)
        contains(screen.next_report(), 'exit 0')
        contains(screen.text, sentence)
        screen.close()
        equal(box.expect(0, 'show', *words).out, '')
        equal(box.picture(*words), [])


@test
def a_person_is_told_what_was_not_looked_for(box):
    server = start_redis(box)
    url = server.url
    equal(server.ask('HSET', 'theirs', '12345678-1234-4123-8123-123456789012:7', '1'), b':1\r\n')
    for words, beginning in (((), 'There is no lock that holdfast took'),
                             (('th*',), 'Of these, holdfast took none')):
        screen = Terminal(box, COMMAND, '-e', url, 'show', *words)
        contains(screen.next_report(), 'exit 0')
        contains(screen.text, beginning)
        contains(screen.text, 'shown by name only')
        screen.close()
    contains(box.expect(0, '-e', url, 'show', 'theirs').out, 'held')
    waiting = box.start('-e', url, 'run', 'theirs', 'true')
    wait_until(lambda: 'waits' in box.expect(0, '-e', url, 'show').out, 'it waits')
    contains(box.expect(0, '-e', url, 'show', 'th*').out, 'held')
    server.ask('DEL', 'theirs')
    equal(waiting.end().code, 0)


@test
def a_waiter_that_only_listens_has_no_name(box):
    server = start_redis(box)
    with socket.create_connection(('127.0.0.1', server.port), timeout=PATIENCE) as listener:
        listener.sendall(b'SUBSCRIBE redisson_lock__channel:{x}\r\n')
        contains(listener.recv(100), b'redisson_lock__channel')
        server.ask('HSET', 'x', '12345678-1234-4123-8123-123456789012:7', '1')
        waits, = [line for line in box.expect(0, '-e', server.url, 'show', 'x').out.splitlines()
                  if 'waits' in line]
        assert waits.endswith('another client'), waits


@test
def an_age_that_nobody_knows_is_not_told(box):
    url = start_redis(box).url
    owner = box.expect(0, '-e', url, 'lock', 'x').out.strip()
    result = box.expect(75, '-e', url, 'try', 'x', 'true')
    hint = f"`holdfast -e '{url}' show x` shows more"
    equal(result.err, f"holdfast: 'x' is held by {owner}; {hint}\n")
    equal(box.expect(0, '-e', url, 'show', 'x').out.splitlines()[1].split()[5], '-')
    shown = json.loads(box.expect(0, '-e', url, 'show', '--json', 'x').out)
    for unknown in ('since_ms', 'host', 'pid'):
        equal(shown[0]['holders'][0][unknown], None, unknown)
    screen = Terminal(box, COMMAND, '-e', url, 'break', 'x')
    screen.wait_for(r'\[y/N\]')
    contains(screen.text, f'  {owner}\r\n')
    screen.type('n\n')
    contains(screen.next_report(), 'exit 1')
    screen.close()
    box.expect(0, '-e', url, 'unlock', 'x', owner)


@test
def a_person_is_told_what_cannot_be_seen_without_tokens(box):
    url = start_redis(box).url + '?fence=off'
    owner = box.expect(0, '-e', url, 'lock', 'x').out.strip()
    for words in (), ('x*',):
        screen = Terminal(box, COMMAND, '-e', url, 'show', *words)
        contains(screen.next_report(), 'exit 0')
        contains(screen.text, 'Without tokens (fence=off)')
        screen.close()
    contains(box.expect(0, '-e', url, 'show', 'x').out, 'mutex')
    box.expect(0, '-e', url, 'unlock', 'x', owner)


@test
def numbers_are_shown(box):
    box.expect(0, 'sem', 'encode', 'set', '5')
    box.expect(0, 'counter', 'stock', 'set', '7')
    box.expect(0, 'latch', 'ready', 'set', '3')
    holder = box.hold('encode', '-k', '2')
    shown = box.expect(0, 'show').out
    for part in ('3 of 5 free', 'permit x2', 'counter', 'latch'):
        contains(shown, part)
    by_name = {thing['name']: thing for thing in box.picture()}
    equal((by_name['encode']['total'], by_name['encode']['free']), (5, 3))
    equal(by_name['stock']['value'], 7)
    equal(by_name['ready']['value'], 3)
    holder.stop()


@test
def odd_names_do_not_garble_the_output(box):
    names = ['two\nlines', 'tab\there', 'escape\x1b[31m', 'grün', 'quote"back\\slash', '\x7f']
    raw = b'bad\xff\xc0\x80utf8'
    holders = [box.hold(name) for name in names]
    holders.append(box.hold(raw.decode(errors='surrogateescape')))
    shown = box.expect(0, 'show').out
    equal(len(shown.splitlines()), 1 + len(holders))
    for part in ('two\\x0alines', 'escape\\x1b[31m', 'grün', 'bad\\xff\\xc0\\x80utf8'):
        contains(shown, part)
    things = box.picture()
    equal(sorted(thing['name'] for thing in things if 'name_hex' not in thing), sorted(names))
    odd, = [thing for thing in things if 'name_hex' in thing]
    equal(bytes.fromhex(odd['name_hex']), raw)
    equal(odd['name'], 'bad\ufffd\ufffd\ufffdutf8')
    for holder in holders:
        holder.stop()


@test
def long_names_are_cut_in_the_table_only(box):
    holder = box.hold('n' * 1000)
    lines = box.expect(0, 'show').out.splitlines()
    contains(lines[1], 'n' * 39 + '~ ')
    equal(box.picture()[0]['name'], 'n' * 1000)
    holder.stop()


@test
def a_closed_pipe_is_no_success(box):
    box.expect(0, 'counter', 'x', 'set', '3')
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([COMMAND, 'show'], stdout=full, stderr=subprocess.PIPE, check=False,
                              cwd=box.path, env=box.environment, timeout=PATIENCE)
    equal(done.returncode, 70)
    contains(done.stderr.decode(), 'could not be written: No space left on device')


@test
def watch_shows_again_and_ends_by_signal(box):
    holder = box.hold('x')
    watching = box.start('show', '--watch=50ms', '--json')
    before = int(time.time() * 1000) - 1
    times = []
    for _ in range(3):
        picture = json.loads(watching.line())
        equal([lock['name'] for lock in picture['locks']], ['x'])
        times.append(picture['at_ms'])
    equal(times, sorted(times))
    assert before <= times[0] and times[-1] <= int(time.time() * 1000), (before, times)
    watching.signal(signal.SIGINT)
    equal(watching.end().code, 0)
    holder.stop()


@test
def break_refuses_without_a_terminal_or_yes(box):
    holder = box.hold('x')
    contains(box.expect(64, 'break', 'x').err, 'say -y')
    equal(box.count('holders', 'x'), 1)
    holder.stop()


@test
def break_takes_the_lock_away_and_tokens_rise(box):
    holder = box.hold('x')
    token = box.picture('x')[0]['holders'][0]['token']
    contains(box.expect(0, 'break', '-y', 'x').err, '1 holder')
    equal(holder.end().code, 121)
    after = int(box.expect(0, 'run', 'x', '-c', 'echo $HOLDFAST_TOKEN').out)
    assert after > token, (after, token)


@test
def break_can_mean_one_of_several(box):
    first, second = box.hold('x', '-j', '3'), box.hold('x', '-j', '3')
    keys = {each['pid']: each for each in box.picture('x')[0]['holders']}
    box.expect(0, 'break', '-y', '--token', str(keys[first.pid]['token']), 'x')
    equal(first.end().code, 121)
    box.expect(0, 'break', '-y', '--owner', keys[second.pid]['owner'], 'x')
    equal(second.end().code, 121)


@test
def break_of_the_wrong_holder_is_75(box):
    holder = box.hold('x')
    contains(box.expect(75, 'break', '-y', '--token', '1', 'x').err, 'not with token 1')
    contains(box.expect(75, 'break', '-y', '--owner', 'nobody', 'x').err,
             "held, but not under the key 'nobody'")
    equal(box.expect(75, '-q', 'break', '-y', '--owner', 'nobody', 'x').err, '')
    equal(box.count('holders', 'x'), 1)
    holder.stop()


@test
def break_of_what_nobody_holds_is_1(box):
    contains(box.expect(1, 'break', 'x').err, 'is not held')
    for words in ((), ('--token', '5'), ('--owner', 'nobody')):
        contains(box.expect(1, 'break', '-y', *words, 'x').err, 'is not held')
        equal(box.expect(1, '-q', 'break', '-y', *words, 'x').err, '')
        told = box.expect(1, '--json', 'break', '-y', *words, 'x').out
        equal(json.loads(told), {'broken': 0})


@test
def token_that_etcd_does_not_show_chooses_no_holder(box):
    url = ('-e', start_etcd(box).url())
    holder = box.hold('x', *url)
    told = box.run(*url, 'break', '-y', '--token', '1', 'x')
    equal(told.code, 64, 'the exit code')
    contains(told.err, 'does not show which token')
    key = json.loads(box.expect(0, *url, 'show', '--json', 'x').out)[0]['holders'][0]['owner']
    box.expect(0, *url, 'break', '-y', '--owner', key, 'x')
    equal(holder.end().code, 121)


@test
def odd_names_and_owners_do_not_garble_messages(box):
    name, owner = 'na\x1b]0;me\x07\nx', 'ow\x1b[31mn\ner'
    holder = box.hold(name, '--owner', owner)
    for words in (('try', name, 'true'), ('-v', 'try', name, 'true'), ('lock', '-n', name),
                  ('break', '--token', '1', '-y', name), ('break', '-y', name)):
        result = box.run(*words)
        assert '\x1b' not in result.err and '\x07' not in result.err, result
        contains(result.err, 'na\\x1b]0;me\\x07\\x0ax')
        for line in result.err.splitlines():
            assert line.startswith('holdfast: '), result
        if words[0] == 'try':
            contains(result.err, 'held by ow\\x1b[31mn\\x0aer,')
    equal(holder.end().code, 121)


if __name__ == '__main__':
    main()
