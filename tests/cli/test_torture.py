# SPDX-License-Identifier: Apache-2.0
"""torture: a run is judged and leaves nothing behind, however it ends; histories are judged again;
what is asked for wrongly is said."""
import json
import os
import pathlib
import re
import signal
import stat
import subprocess

from clitest import (COMMAND, SLOW, Skip, Terminal, contains, equal, is_alive, main, state_of, test,
                     wait_until)

# Leases much longer than this machine's hiccups, and time for each fault to come several times.
SHORT = ['--lease', '200ms', '--clients', '6']
SHORT_SECONDS = 6 + 2 * SLOW
HISTORIES = pathlib.Path(__file__).resolve().parent.parent / 'torture' / 'histories'
KILLS = ['--lease', '150ms', '--faults', 'kill']


def children(pid):
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def safe_run(box, seconds, *words, history=None):
    """A run that finds nothing wrong. A machine that was too slow for a verdict gets more time."""
    words = ['torture', *words, *(['--history', history] if history else [])]
    result = box.run(*words, '--time', f'{seconds:.0f}s')
    if result.code == 2:
        if history:
            os.remove(box.file(history))
        result = box.run(*words, '--time', f'{3 * seconds:.0f}s')
    equal(result.code, 0, result)
    return result.out


def nothing_is_left(box):
    equal(box.picture(), [], 'what is held, waited for, or has a value')


def faults_of(report):
    return {fault['fault']: fault for fault in report['faults']}


@test
def a_short_run_is_safe_so_far(box):
    report = json.loads(safe_run(box, SHORT_SECONDS, *SHORT, '--json', '--html', 'run.html'))
    # With the picture, in two seconds of a processor: by the clock, others may be in the way.
    assert 0 <= report['verdict_cpu_ms'] < 2000 * SLOW, report
    assert os.path.getsize(box.file('run.html')) > 10000
    equal((report['verdict'], report['reason'], report['findings']), ('SAFE-SO-FAR', '', []))
    faults = faults_of(report)
    equal(set(faults), {'stop-holder', 'stop-waiter', 'kill-holder', 'kill-waiter', 'pause',
                        'clock'})
    for fault in faults.values():
        assert 0 < fault['hit'] <= fault['tried'], fault
    checked = {rule['rule']: rule['checked'] for rule in report['rules']}
    for rule in ('S1', 'S2', 'S3', 'S4', 'S5', 'S6', 'S7', 'S9', 'L3', 'L4'):
        assert checked[rule] > 0, (rule, checked)
    assert report['counts']['crashes'] >= faults['kill-holder']['hit'], report
    nothing_is_left(box)


@test
def threads_that_ask_at_once_are_safe_so_far(box):
    report = json.loads(safe_run(box, SHORT_SECONDS, '--json', '--faults', 'none'))
    equal(report['plan']['threads'], 4)
    nothing_is_left(box)


@test
def one_thread_is_enough_if_wanted(box):
    report = json.loads(safe_run(box, 4, '--json', '--threads', '1', *KILLS))
    equal(report['plan']['threads'], 1)
    equal(box.run('torture', '--threads', '17').code, 64)


@test
def the_report_is_narrow_and_ends_with_the_verdict(box):
    report = safe_run(box, 4, *KILLS)
    lines = report.splitlines()
    equal(lines[-1], 'SAFE-SO-FAR')
    for title in ('store', 'plan', 'seed', 'beliefs', 'tokens', 'refusals', 'effects',
                  'fenced effects', 'liveness', 'leaks', 'operations', 'faults'):
        assert any(line.startswith(title + ' ') for line in lines), (title, report)
    contains(report, 'per fault, at 95 % confidence')
    for line in lines:
        assert len(line) <= 130, line
    nothing_is_left(box)


@test
def places_in_the_queue_are_kept_while_nobody_is_stopped(box):
    report = json.loads(safe_run(box, 4, '--json', *KILLS))
    checked = {rule['rule']: rule['checked'] for rule in report['rules']}
    assert checked['S8'] > 0, checked


@test
def a_fault_that_never_hits_is_inconclusive(box):
    result = box.expect(2, 'torture', '--time', f'{3 * SLOW:.0f}s', '--lease', '100ms', '--faults',
                        'none', '--hook', 'never=false')
    equal(result.out.splitlines()[-1], 'INCONCLUSIVE')
    contains(result.out, 'never: 0 of')
    contains(result.out, 'its command ended with exit status 1')
    nothing_is_left(box)


@test
def a_fault_that_never_begins_is_inconclusive(box):
    # Two stops of more than a lease each come before it.
    result = box.expect(2, 'torture', '--time', '600ms', '--lease', '500ms', '--faults',
                        'stop,clock')
    why = [line for line in result.out.splitlines() if line.startswith('why ')]
    # On a slow machine something else was too little, too.
    assert why and ('never' in why[0] or 'only' in why[0]), result


@test
def no_fault_begins_when_the_time_is_over(box):
    # Before the second one there is a rest, which would last for two seconds.
    result = box.run('torture', '--json', '--time', '1500ms', '--lease', '500ms', '--faults',
                     'clock')
    assert result.out, result
    assert faults_of(json.loads(result.out))['clock']['tried'] <= 1, result


@test
def too_little_is_inconclusive(box):
    result = box.expect(2, 'torture', '--time', '300ms', '--clients', '1', '--threads', '1',
                        '--faults', 'none')
    equal(result.out.splitlines()[-1], 'INCONCLUSIVE')


@test
def a_signal_ends_it_in_good_order(box):
    for number in (signal.SIGINT, signal.SIGTERM):
        process = box.start('torture', '--time', '10m', '--lease', '200ms')
        started = wait_until(lambda p=process: len(children(p.pid)) == 8 and children(p.pid),
                             'the clients are there')
        wait_until(lambda: box.picture(), 'locks are used')
        process.signal(number)
        result = process.end()
        equal(result.code, 128 + number, result)
        assert result.out.splitlines()[-1] in ('SAFE-SO-FAR', 'INCONCLUSIVE'), result
        for pid in started:
            assert not is_alive(pid), f'{pid} is still there'
        nothing_is_left(box)


@test
def nothing_runs_on_after_sigkill(box):
    process = box.start('torture', '--time', '10m', '--lease', '200ms')
    started = wait_until(lambda: len(children(process.pid)) == 8 and children(process.pid),
                         'the clients are there')
    process.signal(signal.SIGKILL)
    process.end()
    for pid in started:
        wait_until(lambda pid=pid: state_of(pid) in ('', 'Z'), f'{pid} has ended')


def lines_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read().split()


@test
def a_hook_is_healed_when_the_run_is_ended(box):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process = box.start('torture', '--time', '10m', '--lease', '100ms', '--faults', 'none',
                            '--hook', 'cut=echo cut >> log; until test -e go; do sleep 0.01; done',
                            '--hook', 'cut:heal=echo heal >> log')
        log, go = box.file('log'), box.file('go')
        wait_until(lambda path=log: os.path.exists(path) and lines_of(path) == ['cut'],
                   'the hook runs')
        process.signal(number)
        with open(go, 'w', encoding='utf-8'):
            pass
        equal(process.end().code, -number if number == signal.SIGKILL else 128 + number)
        wait_until(lambda path=log: lines_of(path) == ['cut', 'heal'], 'the hook is healed')
        os.remove(log)
        os.remove(go)


@test
def a_state_file_that_is_removed_ends_the_run_and_is_named(box):
    result = box.run('torture', f'local:{box.file("state")}', '--time', '1m', '--lease', '200ms',
                     '--faults', 'none', '--hook', f'remove=rm {box.file("state")}/*.hf')
    equal(result.code, 70, result)
    contains(result.err, '/state/default.hf\' was removed while it was in use')
    equal(result.out.splitlines()[-1], 'INCONCLUSIVE')


@test
def a_violation_is_one_even_if_nobody_can_read_of_it(box):
    overlap = str(HISTORIES / 'S1-bad-overlap.jsonl')
    for words in ((), ('--json',), ('--html', '/dev/full')):
        with open('/dev/full', 'wb') as full:
            done = subprocess.run([COMMAND, 'torture', '--check', overlap, *words], stdout=full,
                                  stderr=subprocess.PIPE, check=False, env=box.environment)
        equal(done.returncode, 1, done)
        contains(done.stderr, b'the output could not be written')


@test
def a_hook_that_hangs_does_not_keep_the_run_from_healing(box):
    process = box.start('torture', '--time', '10m', '--lease', '100ms', '--faults', 'none',
                        '--hook', 'cut=echo $$ > pid; exec sleep 1000',
                        '--hook', 'cut:heal=kill $(cat pid); echo heal > log')
    pid = box.read_pid('pid')
    process.signal(signal.SIGINT)
    equal(process.end().code, 128 + signal.SIGINT)
    wait_until(lambda: not is_alive(pid), 'the hook has ended')
    with open(box.file('log'), encoding='utf-8') as file:
        equal(file.read(), 'heal\n')


@test
def a_heal_that_fails_is_said(box):
    result = box.run('torture', '--time', f'{3 * SLOW:.0f}s', '--lease', '100ms', '--faults',
                     'none', '--hook', 'cut=true', '--hook', 'cut:heal=false')
    equal(result.code, 70, result)
    contains(result.err, 'could not be healed')
    nothing_is_left(box)


@test
def a_history_is_judged_again(box):
    safe_run(box, 4, *KILLS, history='run.hist')
    contains(box.expect(0, 'torture', '--check', 'run.hist').out, 'SAFE-SO-FAR')
    safe_run(box, 4, *KILLS, history='run.jsonl')
    with open(box.file('run.jsonl'), encoding='utf-8') as file:
        lines = file.read().splitlines()
    assert len(lines) > 100 and all(json.loads(line) for line in lines[:100])
    report = json.loads(box.expect(0, 'torture', '--check', 'run.jsonl', '--json').out)
    equal(report['verdict'], 'SAFE-SO-FAR')


@test
def a_history_is_judged_as_the_run_was(box):
    run = json.loads(safe_run(box, SHORT_SECONDS, *SHORT, '--json', history='run.hist'))
    again = json.loads(box.expect(0, 'torture', '--check', 'run.hist', '--json').out)
    equal(run['rules'], again['rules'])


@test
def nothing_is_written_over(box):
    with open(box.file('notes'), 'w', encoding='utf-8') as file:
        file.write('mine')
    os.mkfifo(box.file('pipe'))
    for path in ('notes', 'pipe'):
        result = box.run('torture', '--time', '1s', '--history', path)
        equal(result.code, 70, result)
        contains(result.err, path)
    with open(box.file('notes'), encoding='utf-8') as file:
        equal(file.read(), 'mine')
    assert stat.S_ISFIFO(os.stat(box.file('pipe')).st_mode)
    for options in (['--check', 'notes'], ['--history', 'run.hist', '--time', '1s']):
        result = box.expect(64, 'torture', *options, '--html', options[1])
        contains(result.err, '--html')
    result = box.expect(70, 'torture', '--time', '600s', '--html', 'no/such/run.html')
    contains(result.err, "--html 'no/such/run.html' cannot be written")


@test
def a_killed_run_proves_nothing(box):
    process = box.start('torture', '--time', '60s', '--history', 'run.hist')
    wait_until(lambda: box.picture(), 'something is locked')
    process.signal(signal.SIGKILL)
    process.end()
    result = box.expect(2, 'torture', '--check', 'run.hist')
    equal(result.out.splitlines()[-1], 'INCONCLUSIVE')


@test
def torn_histories_are_inconclusive(box):
    safe_run(box, 4, *KILLS, history='run.hist')
    with open(box.file('run.hist'), 'rb') as file:
        good = file.read()
    with open(box.file('flipped.hist'), 'wb') as file:
        file.write(good[:128 * 500 + 64] + bytes([good[128 * 500 + 64] ^ 1]) +
                   good[128 * 500 + 65:])
    result = box.expect(2, 'torture', '--check', 'flipped.hist')
    equal(result.out.splitlines()[-1], 'INCONCLUSIVE')
    contains(result.out, 'why ')


@test
def a_history_is_judged_and_nothing_else(box):
    for words in (['--time', '1s'], ['--faults', 'none'], ['--seed', '0'], ['--history', 'x'],
                  ['--sandbox', 'redis'], ['--hook', 'a=b'], ['--yes']):
        contains(box.expect(64, 'torture', '--check', 'missing', *words).err, '--check')


@test
def what_is_no_history_is_said(box):
    with open(box.file('garbage'), 'wb') as file:
        file.write(os.urandom(4096))
    for path in ('garbage', 'missing'):
        result = box.expect(64, 'torture', '--check', path)
        equal(result.out, '')
        assert re.fullmatch(r'holdfast: .+\n', result.err), result.err
        contains(result.err, path)


@test
def stores_elsewhere_need_a_yes(box):
    if os.environ['HOLDFAST_REDIS'] != 'yes':
        raise Skip('this build has no engine for a store elsewhere')
    for url in ('redis://db.example.com', 'redis://u:p@db.example.com:6379/0',
                'redis://[2001:db8::1]:6379', 'redis://127.0.0.1.example.com',
                'redis+sentinel://127.0.0.1,db.example.com/name',
                'redis://localhost.example.com'):
        result = box.expect(64, 'torture', url)
        contains(result.err, '--yes')
        assert ':p@' not in result.err, result.err
    # Nobody listens there.
    for url in ('redis://localhost:1', 'redis://127.0.0.1:1', 'redis://u:p@127.0.0.2:1'):
        contains(box.expect(69, 'torture', url).err, ':1')


@test
def a_store_that_nobody_knows_needs_no_yes(box):
    for words in ([], ['--yes']):
        result = box.expect(64, 'torture', *words, 'nosuch://db.example.com')
        contains(result.err, 'knows no scheme')


@test
def a_store_without_connections_has_none_to_cut(box):
    contains(box.expect(64, 'torture', '--faults', 'kill,reset').err, 'without connections')
    result = box.run('torture', '--time', '300ms', '--faults', 'all')
    contains(result.out, 'left out        faults of connections')
    for name in ('reset', 'hole', 'mute', 'drip'):
        assert name not in result.out.split('seed')[0], result.out


@test
def wrong_words_are_refused(box):
    for words, part in ((['--faults', 'rain'], 'rain'), (['--faults', ''], '--list'),
                        (['--faults', 'stop,,kill'], '--list'), (['--clients', '65'], '64'),
                        (['--clients', '0'], '--clients'), (['--lease', '5ms'], '--lease'),
                        (['--time', '0'], '--time'), (['--hook', 'cut'], 'NAME=COMMAND'),
                        (['--hook', 'cut='], 'NAME=COMMAND'), (['--hook', 'kill=x'], 'kill'),
                        (['--hook', 'a:b=x'], ':heal'), (['--hook', 'a:heal=x'], 'a:heal'),
                        (['--time', '10000h'], '--rate'), (['one:', 'two:'], 'one URL'),
                        (['-e', 'local:', 'local:'], 'two stores'), (['nosuch:'], 'nosuch')):
        result = box.expect(64, 'torture', *words)
        contains(result.err, part)
        equal(result.out, '')


@test
def the_list_names_faults_and_rules(box):
    result = box.expect(0, 'torture', '--list')
    for word in ('stop-holder', 'pause', 'clock', 'partition', 'zookeeper-ensemble', 'S1', 'L4'):
        contains(result.out, word)


@test
def a_terminal_shows_how_far_it_is(box):
    terminal = Terminal(box, COMMAND, 'torture', '--time', '10m', '--lease', '200ms')
    try:
        terminal.wait_for(r'[1-9][0-9]* s of 600 s: [0-9]+ operations, [0-9]+ grants')
        terminal.type('\x03')
        terminal.wait_for(r'(SAFE-SO-FAR|INCONCLUSIVE)\s')
        contains(terminal.next_report(), f'exit {128 + signal.SIGINT}')
    finally:
        terminal.close()
    nothing_is_left(box)


@test
def a_history_that_cannot_be_written_is_said(box):
    result = box.expect(70, 'torture', '--time', '1s', '--history', 'no/such/place')
    contains(result.err, 'no/such/place')
    nothing_is_left(box)


if __name__ == '__main__':
    main()
