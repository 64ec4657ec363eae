# SPDX-License-Identifier: Apache-2.0
"""run and try: what comes out, who waits, what the command is told."""
import datetime
import json
import os
import re
import resource
import signal

from clitest import COMMAND, contains, equal, main, test, wait_until


@test
def the_commands_code_is_ours(box):
    for code in (0, 1, 7, 75, 255):
        box.expect(code, 'run', 'x', '--', 'sh', '-c', f'exit {code}')


@test
def death_by_signal_is_128_and_its_number(box):
    for name in ('TERM', 'KILL', 'SEGV', 'USR1'):
        number = getattr(signal, 'SIG' + name)
        box.expect(128 + number, 'run', 'x', '--', 'sh', '-c', f'ulimit -c 0; kill -{name} $$')


def with_descriptors(box, count):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))  # noqa: E731
    return box.start('run', 'x', '--', 'true', before=limit).end()


@test
def with_too_few_descriptors_it_says_so(box):
    codes, raised = [], 0
    # One more than the three that it is given is the least that the loader can do with.
    for count in range(4, 40):
        result = with_descriptors(box, count)
        codes.append(result.code)
        if result.code != 0:
            assert result.code in (69, 70), f'{count}: {result}'
            contains(result.err.lower(), 'too many open files')
            raised += "raise 'ulimit -n'" in result.err
    assert raised, 'nobody says what to raise'
    assert codes[0] and not codes[-1], codes


@test
def what_cannot_run_is_126_or_127(box):
    contains(box.expect(127, 'run', 'x', '--', 'no-such-command').err, 'no-such-command')
    box.expect(126, 'run', 'x', '--', '/')
    with open(box.file('plain'), 'w', encoding='utf-8') as file:
        file.write('not a program')
    os.chmod(box.file('plain'), 0o644)
    contains(box.expect(126, 'run', 'x', '--', './plain').err, './plain')
    equal(box.count('holders', 'x'), 0)


@test
def input_and_output_are_untouched(box):
    result = box.expect(0, 'run', 'x', '--', 'sh', '-c', 'cat; echo err >&2', stdin=b'hello\n')
    equal(result.out, 'hello\n')
    equal(result.err, 'err\n')


@test
def command_in_place_of_a_name_is_told_so(box):
    for name in ('./backup.sh', '/bin/true', 'make all'):
        contains(box.expect(64, 'run', '--', name).err, 'write a name before it')
    contains(box.expect(64, 'run', 'nightly').err, 'there is no command to run')


@test
def line_for_a_shell_is_told_so(box):
    for words in (['a && b'], ['cd', '/'], ['date; ls']):
        told = box.expect(127, 'run', 'x', '--', *words).err
        contains(told, 'a line for a shell is given with -c')
    assert '-c' not in box.expect(127, 'run', 'x', '--', 'no-such-program').err


@test
def busy_hint_names_the_store_of_the_call(box):
    url = f'local://{box.file("store")}?ns=other'
    holder = box.hold('x', '-e', url)
    contains(box.expect(75, '-e', url, 'try', 'x', 'true').err,
             f"`holdfast -e '{url}' show x` shows more")
    holder.stop()


@test
def a_busy_lock_is_75(box):
    holder = box.hold('x')
    result = box.expect(75, 'run', '-n', 'x', '--', 'echo', 'ran')
    equal(result.out, '')
    contains(result.err, "holdfast: 'x' is held by ")
    contains(result.err, f':{holder.pid} sh, for ')
    contains(result.err, " now; `holdfast show x` shows more\n")
    box.expect(75, 'try', 'x', '--', 'echo', 'ran')
    box.expect(75, 'run', '-w', '50ms', 'x', '--', 'true')
    equal(box.expect(75, '-q', 'try', 'x', 'true').err, '', 'quiet')
    box.expect(3, 'run', '-n', '-E', '3', 'x', '--', 'true')
    box.expect(0, 'run', '-n', '-E', '0', 'x', '--', 'false')
    skipped = box.expect(0, 'try', '--skip', 'x', '--', 'echo', 'ran')
    equal((skipped.out, skipped.err), ('', ''), 'cron mails nothing')
    contains(box.expect(0, '-v', 'try', '--skip', 'x', 'true').err, "'x' is held by ")
    holder.stop()


@test
def the_second_waits_and_then_runs(box):
    holder = box.hold('x')
    second = box.start('run', 'x', '--', 'echo', 'second')
    box.wait_for_waiters('x')
    holder.signal(signal.SIGTERM)
    equal(holder.end().code, 128 + signal.SIGTERM)
    result = second.end()
    equal((result.code, result.out), (0, 'second\n'))


@test
def the_lock_is_given_back(box):
    for _ in range(3):
        box.expect(0, 'try', 'x', '--', 'true')
    equal(box.count('holders', 'x'), 0)


@test
def readers_share_and_writers_do_not(box):
    reader = box.hold('x', '-s')
    box.expect(0, 'try', '-s', 'x', 'true')
    box.expect(75, 'try', '-W', 'x', 'true')
    upgradeable = box.hold('x', '-U')
    box.expect(75, 'try', '-U', 'x', 'true')
    upgradeable.stop()
    reader.stop()
    box.expect(0, 'try', '-W', 'x', 'true')


@test
def slots_bound_how_many(box):
    first, second = box.hold('x', '-j', '3'), box.hold('x', '-j', '3', '-k', '2')
    box.expect(75, 'try', '-j', '3', 'x', 'true')
    second.signal(signal.SIGTERM)
    second.end()
    box.expect(0, 'try', '-j', '3', '-k', '2', 'x', 'true')
    box.expect(75, 'try', '-j', '3', '-k', '3', 'x', 'true')
    contains(box.expect(64, 'try', '-j', '4', 'x', 'true').err, 'holdfast: ')
    first.stop()


@test
def fair_locks_serve_in_order(box):
    holder = box.hold('x', '-F')
    waiting = []
    for number in range(3):
        waiting.append(box.start('run', '-F', 'x', '--', 'sh', '-c', f'echo {number} >> order'))
        box.wait_for_waiters('x', number + 1)
    holder.signal(signal.SIGTERM)
    for process in waiting:
        equal(process.end().code, 0)
    with open(box.file('order'), encoding='utf-8') as file:
        equal(file.read(), '0\n1\n2\n')


@test
def several_names_are_all_or_nothing(box):
    holder = box.hold('b')
    box.expect(75, 'run', '-n', '-l', 'a', '-l', 'b', '-l', 'c', '--', 'true')
    for name in ('a', 'c'):
        box.expect(0, 'try', name, 'true')
    holder.signal(signal.SIGTERM)
    holder.end()
    all_three = box.start('run', '-l', 'c', '-l', 'a', '-l', 'b', '-l', 'a', '--', 'sh', '-c',
                          'echo $HOLDFAST_NAME; exec sleep 1000')
    equal(all_three.line(), 'c')
    for name in ('a', 'b', 'c'):
        box.expect(75, 'try', name, 'true')
    all_three.signal(signal.SIGTERM)
    all_three.end()


@test
def names_taken_crosswise_do_not_deadlock(box):
    pairs = [box.start('run', '-l', one, '-l', two, '--', 'sh', '-c', 'echo $HOLDFAST_NAME')
             for one, two in (('a', 'b'), ('b', 'a')) * 4]
    for process in pairs:
        equal(process.end().code, 0)


@test
def several_names_are_taken_in_the_order_of_their_bytes(box):
    """That of hf_lock_all: it is neither the order of the options nor that of a locale."""
    holder = box.hold('a')
    waiting = box.start('run', '-l', 'a', '-l', 'Z', '--', 'true')
    wait_until(lambda: box.run('try', 'Z', 'true').code == 75, 'Z is held while a is busy')
    holder.signal(signal.SIGTERM)
    holder.end()
    equal(waiting.end().code, 0)


@test
def a_string_goes_through_the_shell(box):
    equal(box.expect(0, 'run', 'x', '-c', 'echo one | tr o 0; exit 0').out, '0ne\n')
    equal(box.expect(5, 'run', '-c', 'exit 5', 'x').out, '')


@test
def the_command_is_told(box):
    result = box.expect(0, 'run', '--max-hold', '1h', '--owner', 'me, myself', 'the name', 'env')
    told = dict(line.split('=', 1) for line in result.out.splitlines()
                if line.startswith('HOLDFAST_'))
    equal(told['HOLDFAST_NAME'], 'the name')
    equal(told['HOLDFAST_OWNER'], 'me, myself')
    assert int(told['HOLDFAST_TOKEN']) > 0
    assert 3500000 < int(told['HOLDFAST_TTL_MS']) <= 3600000, told
    assert int(told['HOLDFAST_DEADLINE']) > 1700000000000, told
    assert told['HOLDFAST_URL'].startswith('local:'), told
    contains(told['HOLDFAST_HELD'], 'the%20name')


@test
def without_a_lease_no_deadline_is_told(box):
    result = box.expect(0, 'run', 'x', '--', 'env',
                        environment={'HOLDFAST_DEADLINE': '1', 'HOLDFAST_TTL_MS': '1'})
    assert 'HOLDFAST_DEADLINE' not in result.out and 'HOLDFAST_TTL_MS' not in result.out, result


@test
def tokens_rise(box):
    tokens = [int(box.expect(0, 'run', 'x', '-c', 'echo $HOLDFAST_TOKEN').out) for _ in range(5)]
    equal(tokens, sorted(set(tokens)))


@test
def each_name_has_its_token(box):
    tell = 'echo $HOLDFAST_NAME $HOLDFAST_TOKEN : $HOLDFAST_TOKENS'
    holder = box.hold('a')
    waiting = box.start('run', '-l', 'b', '-l', 'a', '-l', 'b', '-c', tell)
    box.wait_for_waiters('a')
    box.expect(0, 'run', 'b', 'true')
    holder.signal(signal.SIGTERM)
    told = waiting.end().out.split()
    tokens = {name: str(box.picture(name)[0]['token']) for name in 'ab'}
    assert tokens['a'] != tokens['b'], tokens
    equal(told, ['b', tokens['b'], ':', tokens['b'], tokens['a'], tokens['b']])
    nested = f'"{COMMAND}" run -l a -c "{tell}"'.replace('$', '\\$')
    told = box.expect(0, 'run', '-l', 'b', '-l', 'a', '-c', nested).out.split()
    tokens = {name: str(box.picture(name)[0]['token']) for name in 'ab'}
    equal(told, ['a', tokens['a'], ':', tokens['a']])


@test
def a_nested_run_of_the_same_name_reenters(box):
    command = os.environ['HOLDFAST_COMMAND']
    script = (f'{command} run -n x -- echo inner; '
              f'{command} run -n y -- {command} run -n -l x -l y -- echo both')
    equal(box.expect(0, 'run', 'x', '--', 'sh', '-c', script).out, 'inner\nboth\n')
    script = f'{command} run -n -s x -- echo reads; {command} run -n -W x -- echo writes'
    equal(box.expect(0, 'run', '-W', 'x', '--', 'sh', '-c', script).out, 'reads\nwrites\n')


@test
def a_nested_run_that_wants_more_is_refused(box):
    command = os.environ['HOLDFAST_COMMAND']
    contains(box.expect(64, 'run', '-s', 'x', '--', command, 'run', '-W', 'x', 'true').err,
             'waiting would never end')
    told = box.expect(64, 'run', 'n1', '--', command, 'run', '-l', 'n1', '-l', 'n3', 'true').err
    contains(told, "'n3' is not held by the holdfast that runs this command, which has 'n1'")
    told = box.expect(64, 'run', '-s', 'n2', '--',
                      command, 'run', '-W', '-l', 'n1', '-l', 'n2', 'true').err
    contains(told, "'n2' is held by the holdfast that runs this command, but not as it is asked")


def held_of(pid):
    """$HOLDFAST_HELD of a process; None while it is in the middle of exec."""
    with open(f'/proc/{pid}/environ', 'rb') as file:
        found = re.search(rb'HOLDFAST_HELD=([^\0]*)', file.read())
    return found and found.group(1).decode()


@test
def an_environment_that_outlived_its_hold_counts_for_nothing(box):
    holder = box.hold('x')
    held = wait_until(lambda: held_of(holder.child), 'the command has its environment')
    equal(box.expect(0, 'try', 'x', 'echo', 'nested', environment={'HOLDFAST_HELD': held}).out,
          'nested\n')
    holder.signal(signal.SIGTERM)
    holder.end()
    other = box.hold('x')
    box.expect(75, 'try', 'x', 'true', environment={'HOLDFAST_HELD': held})
    for nonsense in ('', 'x', ':::', '1:2:3:', held[:-5], '%' * 5000):
        box.expect(75, 'try', 'x', 'true', environment={'HOLDFAST_HELD': nonsense})
    other.stop()


@test
def odd_names_work(box):
    for name in ('two\nlines', 'grün/é', 'a b', '-', '%s%n', 'n' * 1024,
                 b'\xff\xfe'.decode(errors='surrogateescape')):
        words = ('run', '-n', '--', name, 'sh', '-c', 'printf %s "$HOLDFAST_NAME"')
        equal(box.expect(0, *words).out, name)
        holder = box.start('run', '--', name, 'sh', '-c', 'echo; exec sleep 1000')
        holder.line()
        box.expect(75, 'try', '--', name, 'true')
        holder.signal(signal.SIGTERM)
        holder.end()


@test
def impossible_names_are_refused(box):
    for name in ('', 'n' * 1025, 'n' * 10000):
        result = box.expect(64, 'run', name, '--', 'echo', 'ran')
        equal(result.out, '')
        assert result.err.startswith('holdfast: '), result.err


@test
def a_lock_is_kept_for_min_hold(box):
    process = box.start('run', '--min-hold', '1h', 'x', '--', 'echo', 'done')
    equal(process.line(), 'done')
    wait_until(lambda: not children(process.pid), 'the command has ended')
    equal(box.count('holders', 'x'), 1)
    process.signal(signal.SIGTERM)
    equal(process.end().code, 0)
    equal(box.count('holders', 'x'), 0)


def children(pid):
    """The commands that `pid` has running, its guard left out."""
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
            found = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return [child for child in found if name_of(child) != 'holdfast-guard']


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


@test
def busy_semaphore_says_how_many_permits_are_free(box):
    holder = box.hold('e', '-j', '4', '-k', '3')
    equal(box.expect(75, 'try', '-k', '2', 'e', '--', 'true').err,
          "holdfast: semaphore 'e' has 1 free permit of 4, and 2 are asked for; "
          "`holdfast show e` shows more\n")
    holder.stop()


@test
def busy_readers_are_named_and_counted(box):
    holders = [box.hold('x', '-s', '--owner', 'Ada') for _ in range(3)]
    contains(box.expect(75, 'try', '-W', 'x', '--', 'true').err, "'x' is held by Ada, for ")
    contains(box.expect(75, 'try', '-W', 'x', '--', 'true').err, ' now, and 2 others; ')
    for holder in holders:
        holder.stop()


@test
def long_wait_is_told_with_verbose_only_unless_on_a_terminal(box):
    holder = box.hold('x', '--owner', 'Ada')
    told = box.expect(75, '-v', 'run', '-w', '1500ms', 'x', '--', 'true').err
    contains(told, "holdfast: waiting: 'x' is held by Ada, for ")
    contains(told, "holdfast: 'x' was not granted within ")
    told = box.expect(75, 'run', '-w', '1500ms', 'x', '--', 'true').err
    equal(told.count('\n'), 1, told)
    assert 'waiting' not in told, told
    holder.stop()


@test
def verbose_tells_what_happens(box):
    result = box.expect(0, '-v', 'run', 'x', '--', 'true')
    equal([line.split(':')[2] for line in result.err.splitlines()], [' granted', ' released'])
    holder = box.start('-v', 'run', 'x', '--', 'sh', '-c', 'echo; exec sleep 1000')
    holder.line()
    box.expect(0, 'break', '-y', 'x')
    contains(holder.end().err, "holdfast: 'x': lost: the lock was broken")
    holder = box.hold('x')
    told = box.expect(75, '-v', 'run', '-w', '50ms', 'x', '--', 'true').err
    contains(told, "'x': held by another owner; the request waits")
    contains(told, "holdfast: 'x' was not granted within ")
    assert 'within' not in box.expect(75, '-v', 'try', 'x', '--', 'true').err
    holder.signal(signal.SIGKILL)
    holder.end()
    contains(box.expect(0, '-v', 'show').err, "'x': taken back from a holder that is gone")


CONTROLS = re.compile(r'[\x00-\x09\x0b-\x1f\x7f-\x9f]')


def logged(text):
    """The objects of --log json, a line each."""
    assert text.endswith('\n') and not CONTROLS.search(text), repr(text)
    said = [json.loads(line) for line in text[:-1].split('\n')]
    for each in said:
        equal(list(each)[:2], ['time', 'level'])
        assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', each['time']), each
        told = datetime.datetime.fromisoformat(each['time'][:-1] + '+00:00')
        late = datetime.datetime.now(datetime.timezone.utc) - told
        assert abs(late) < datetime.timedelta(hours=1), each
    return said


@test
def log_json_says_why_a_run_ends(box):
    box.environment['TZ'] = 'EAST-9'
    holder = box.hold('held')
    for code, words, wanted in (
            (127, 'run --log json x -- ./missing', ['error', 'run', 'x', 127]),
            (75, 'try --log=json held true', ['warning', 'try', 'held', 75]),
            (9, 'try --log json -E 9 held true', ['warning', 'try', 'held', 75]),
            (0, 'try --log json --skip held true', ['info', 'try', 'held', 75]),
            (124, 'run --log json --max-run 10ms x sleep 1000', ['error', 'run', 'x', 124]),
            (64, 'run --log json -w soon x true', ['error', 'run', None, 64]),
            (64, 'elect --log json x', ['error', 'elect', 'x', 64]),
            (64, '--log json rum', ['error', None, None, 64])):
        told = logged(box.expect(code, *words.split()).err)[0]
        equal([told.get(key) for key in ('level', 'verb', 'name', 'code')], wanted, words)
    holder.stop()


@test
def log_json_tells_events_and_a_loss(box):
    holder = box.start('-v', 'run', '--log', 'json', 'x', '--', 'sh', '-c', 'echo; exec sleep 1000')
    holder.line()
    box.expect(0, 'break', '-y', 'x')
    told = logged(holder.end().err)
    equal((told[0]['level'], told[0]['message']), ('info', "'x': granted"))
    lost, = [each for each in told if 'code' in each]
    equal((lost['level'], lost['code']), ('error', 121))
    contains(lost['message'], "'x' is lost: the lock was broken")


@test
def log_of_any_name_is_a_line_without_control_characters(box):
    name = 'a\nb\x1b[31m\x85"\udcff'
    holder = box.hold(name)
    shown = '\'a\\x0ab\\x1b[31m\\xc2\\x85"\\xff\' is held by '
    told = box.expect(75, 'try', '--log', 'text', name, 'true').err
    contains(told, 'holdfast: ' + shown)
    assert told.count('\n') == 1 and not CONTROLS.search(told), repr(told)
    told, = logged(box.expect(75, 'try', '--log', 'json', name, 'true').err)
    contains(told['message'], shown)
    equal(told['name'], name.replace('\udcff', '\ufffd'))
    equal(told['name_hex'], os.fsencode(name).hex())
    holder.stop()


def reports(box):
    with open(box.file('runs'), encoding='utf-8') as file:
        return [json.loads(line) for line in file]


@test
def report_has_a_line_for_each_run(box):
    box.expect(3, 'run', '--report', 'runs', 'x', '--', 'sh', '-c', 'echo $HOLDFAST_TOKEN; exit 3')
    box.expect(0, 'run', '--report', 'runs', '-l', 'a "b"', '-l', 'c', '--', 'true')
    holder = box.hold('x')
    box.expect(0, 'try', '--skip', '--report', 'runs', 'x', '--', 'true')
    box.expect(75, 'run', '-w', '20ms', '--report', 'runs', 'x', '--', 'true')
    holder.stop()
    ran, several, skipped, late = reports(box)
    assert ran['token'] > 0 and ran['ended_at_ms'] > 1e12, ran
    equal([ran[key] for key in ('name', 'granted', 'exit', 'lost')], ['x', True, 3, False])
    equal((several['name'], [lock['name'] for lock in several['also']]), ('a "b"', ['c']))
    assert several['also'][0]['token'] > 0, several
    equal([skipped[key] for key in ('granted', 'token', 'exit', 'held_ms')], [False, None, 0, 0])
    equal((late['granted'], late['exit']), (False, 75))
    assert late['waited_ms'] >= 20, late


@test
def report_tells_of_a_loss(box):
    holder = box.hold('x', '--report', 'runs', '--metrics', 'x.prom')
    box.expect(0, 'break', '-y', 'x')
    equal(holder.end().code, 121)
    told, = reports(box)
    equal((told['exit'], told['lost'], told['granted']), (121, True, True))
    with open(box.file('x.prom'), encoding='utf-8') as file:
        contains(file.read(), '\nholdfast_run_lost{name="x"} 1\n')


@test
def metrics_are_replaced_as_a_whole(box):
    name = 'a"b\\c\nd'
    box.expect(3, 'run', '--metrics', 'x.prom', name, '--', 'sh', '-c', 'exit 3')
    with open(box.file('x.prom'), encoding='utf-8') as first:
        box.expect(0, 'run', '--metrics', 'x.prom', name, '--', 'true')
        before = first.read()
    with open(box.file('x.prom'), encoding='utf-8') as second:
        after = second.read()
    for text, code in ((before, 3), (after, 0)):
        samples = [line for line in text.splitlines() if not line.startswith('#')]
        equal(samples[2], f'holdfast_run_exit_code{{name="a\\"b\\\\c\\nd"}} {code}')
        form = re.compile(r'holdfast_run_[a-z_]+\{name="([^"\\]|\\.)*"\} [0-9]+(\.[0-9]{3})?')
        equal([line for line in samples if not form.fullmatch(line)], [])
        equal((len(samples), text.splitlines()[-1]), (6, '# EOF'))
    equal([file for file in os.listdir(box.path) if file.startswith('x.prom')], ['x.prom'])
    mask = os.umask(0)
    os.umask(mask)
    equal(os.stat(box.file('x.prom')).st_mode & 0o777, 0o666 & ~mask)


@test
def report_that_cannot_be_written_is_refused_before_the_wait(box):
    holder = box.hold('x')
    os.mkdir(box.file('folder'))
    for option, path, reason in (('--report', 'none/runs', 'No such file or directory'),
                                 ('--metrics', 'none/x.prom', 'No such file or directory'),
                                 ('--report', 'folder', 'Is a directory'),
                                 ('--metrics', 'folder', 'Is a directory')):
        told = box.expect(64, 'run', option, path, 'x', '--', 'true').err
        contains(told, f"holdfast: {option} '{path}' cannot be written: {reason}; name a file in ")
    holder.stop()
    os.rmdir(box.file('folder'))


@test
def report_that_fails_after_the_command_keeps_its_exit_code(box):
    for option in ('--report', '--metrics'):
        os.mkdir(box.file('gone'))
        result = box.expect(5, 'run', option, 'gone/file', 'x', '--', 'sh', '-c',
                            'rm -r gone; exit 5')
        contains(result.err, f"{option} 'gone/file' cannot be written: No such file or directory")


if __name__ == '__main__':
    main()
