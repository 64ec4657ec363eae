# SPDX-License-Identifier: Apache-2.0
"""bench: what it prints is complete, readable and of one piece, and nothing is left behind. No
figure is judged: machines differ, and this one may be busy."""
import contextlib
import json
import os
import re
import signal
import threading

from clitest import contains, equal, main, state_of, test, wait_until
from servers import start_redis

HEADINGS = ('LOCK + UNLOCK', 'RE-ENTRY', 'HAND-OVER', 'TAKEOVER', 'CROWD', 'AIMS')
BASELINES = {'flock', 'flock_open', 'ofd', 'robust_mutex'}


def furnish(box):
    """A place for bench's own files, where the test sees them."""
    os.mkdir(box.file('tmp'))
    box.environment['TMPDIR'] = box.file('tmp')


def children(pid):
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def by_measure(report):
    found = {}
    for row in report['rows']:
        found.setdefault(row['measure'], {}).setdefault(row['subject'], []).append(row)
    return found


@test
def the_table_is_complete_and_narrow(box):
    furnish(box)
    result = box.expect(0, 'bench', '--quick')
    for heading in HEADINGS:
        contains(result.out, heading)
    for line in result.out.splitlines():
        assert len(line) <= 100, line
    for title in ('holdfast', 'flock(2), file kept open', 'pthread robust mutex'):
        row = rf'^  {re.escape(title)} +[0-9.]+ [nmu]?s '
        assert re.search(row, result.out, re.MULTILINE), (title, result.out)
    verdicts = re.findall(r'  (met|NOT MET)$', result.out, re.MULTILINE)
    equal(len(verdicts), 11, result.out)
    equal(result.err, '')
    equal(os.listdir(box.file('tmp')), [], 'what is left')
    equal(os.listdir(box.file('store')), [], 'what is left in the store of others')


@test
def every_measurement_has_its_rows(box):
    furnish(box)
    report = json.loads(box.expect(0, 'bench', '--quick', '--json').out)
    found = by_measure(report)
    equal(set(found), {'lock_unlock', 'reentry', 'hand_over', 'takeover', 'crowd'})
    assert BASELINES | {'holdfast', 'holdfast_fair'} <= set(found['lock_unlock'])
    assert BASELINES | {'holdfast_fair'} <= set(found['hand_over'])
    assert {'holdfast_fair', 'flock', 'ofd', 'robust_mutex'} <= set(found['takeover'])
    for subject in ('holdfast_fair', 'flock'):
        equal([row['processes'] for row in found['crowd'][subject]], [2, 4, 16])
    equal([aim['met'] in (True, False) for aim in report['aims']], [True] * 11)


@test
def figures_are_of_one_piece(box):
    furnish(box)
    report = json.loads(box.expect(0, 'bench', '--quick', '--json').out)
    for row in report['rows']:
        if 'instead' in row:
            equal((row['subject'], row['measure']), ('sqlite', 'takeover'))
        elif row['measure'] == 'crowd':
            assert 0 <= row['least'] <= row['mean'] <= row['most'] <= row['per_second'], row
            assert row['runs'] > 0 and 0 <= row['evenness'] <= 1, row
        else:
            times = [row[key] for key in ('min_ns', 'p50_ns', 'p99_ns', 'max_ns')]
            assert 0 < times[0] and times == sorted(times) and row['runs'] > 0, row
    for measure, subjects in by_measure(report).items():
        if measure in ('lock_unlock', 'hand_over', 'takeover'):
            equal(subjects['flock'][0]['times_flock_speed'], 1.0, measure)


@test
def a_store_of_the_users_is_measured_where_it_is(box):
    furnish(box)
    url = 'local://' + box.file('store')
    report = json.loads(box.expect(0, '-e', url, 'bench', '--quick', '--json').out)
    equal(report['store'], url)
    equal([name for name in os.listdir(box.file('store')) if name.endswith('.hf')], ['default.hf'])
    equal(box.picture(), [], 'what is held or waited for')
    equal(os.listdir(box.file('tmp')), [])


@contextlib.contextmanager
def seldom_running(process):
    """Stands still for most of the time, as a server does that is far away or has much to do."""
    over = threading.Event()

    def strike():
        while not over.wait(0.002):
            process.send_signal(signal.SIGSTOP)
            over.wait(0.03)
            process.send_signal(signal.SIGCONT)

    striker = threading.Thread(target=strike)
    striker.start()
    try:
        yield
    finally:
        over.set()
        striker.join()


@test
def a_few_pairs_are_no_figure(box):
    """Hardly any fits into the time of a quick look."""
    server = start_redis(box)
    furnish(box)
    with seldom_running(server.process):
        result = box.expect(0, '-e', server.url, 'bench', '--quick', '--json')
    rows = by_measure(json.loads(result.out))['lock_unlock']
    equal(set(rows), {'holdfast', 'holdfast_fair'})
    for (row,) in rows.values():
        assert row['runs'] >= 50, row


@test
def a_store_that_cannot_be_opened_is_said(box):
    furnish(box)
    for url, code in (('nosuch:', 64), ('local:?nosuch=1', 64)):
        result = box.expect(code, '-e', url, 'bench', '--quick')
        equal(result.out, '')
        assert re.fullmatch(r'holdfast: .+\n', result.err), result.err
        contains(result.err, 'nosuch')
    equal(os.listdir(box.file('tmp')), [])


@test
def names_are_refused(box):
    contains(box.expect(64, 'bench', 'orders').err, 'bench takes no names')


@test
def a_signal_ends_it_and_what_it_has_started(box):
    furnish(box)
    for number in (signal.SIGINT, signal.SIGTERM):
        process = box.start('bench')
        started = wait_until(lambda p=process: children(p.pid), 'it measures')
        process.signal(number)
        equal(process.end().code, 128 + number)
        for pid in started:
            wait_until(lambda pid=pid: state_of(pid) == '', f'{pid} has ended')
        equal(os.listdir(box.file('tmp')), [])


@test
def a_reader_that_goes_ends_it(box):
    furnish(box)
    process = box.start('bench')
    contains(process.line(), 'holdfast')
    process.popen.stdout.close()
    process.popen.stdout = open(os.devnull, 'rb')
    result = process.end()
    equal(result.code, 70)
    contains(result.err, 'could not be written')
    equal(os.listdir(box.file('tmp')), [])


@test
def nothing_runs_on_after_sigkill(box):
    furnish(box)
    process = box.start('bench')
    started = wait_until(lambda: children(process.pid), 'it measures')
    process.signal(signal.SIGKILL)
    process.end()
    for pid in started:
        wait_until(lambda pid=pid: state_of(pid) in ('', 'Z'), f'{pid} has ended')


if __name__ == '__main__':
    main()
