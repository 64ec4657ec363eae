# SPDX-License-Identifier: Apache-2.0
"""torture on a Redis server of the test's own: it runs what the engine has and says what it leaves
out; a server that is not there, or dies, is no violation."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

from clitest import COMMAND, Skip, contains, equal, is_alive, main, test, wait_until
from torturing import (LIMIT, LONG, all_hit_and_it_is_safe, end_of, is_conclusive, is_safe,
                       judged, need_engine, need_redis, need_tls, report_of, run_on, until_so)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from nothing_left import die_with_parent  # noqa: E402

BELOW_TLS = ['reset', 'hole', 'mute', 'drip', 'late-release']
CONNECTIONS = [*BELOW_TLS, 'error-reply']
STRAYS = '''local strays = {}
for _, key in ipairs(redis.call('keys', '*')) do
    if redis.call('pttl', key) < 0 or not key:find('holdfast:torture:', 1, true) then
        strays[#strays + 1] = key
    end
end
return strays'''


def servers_of(pid):
    """Both servers among the children, once they are there."""
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
            children = [int(word) for word in file.read().split()]
        servers = [child for child in children if name_of(child) == 'redis-server']
    except OSError:
        return []
    return servers if len(servers) == 2 else []


def directory_of(pid):
    directory = os.readlink(f'/proc/{pid}/cwd')
    return directory if 'sandbox' in directory else ''


def name_of(pid):
    with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
        return file.read().strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """A Redis server on a Unix socket in the box, or on a port, which ends with the test."""

    def __init__(self, box, tcp=False):
        if not shutil.which('redis-server'):
            raise Skip('there is no redis-server')
        self.socket = box.file('redis.sock')
        self.url = f'redis+unix://{self.socket}'
        need_engine(box, self.url)
        # Somebody else may be quicker to take the port: another one then.
        for port in (free_port() if tcp else 0 for _ in range(10)):
            self.url = f'redis://127.0.0.1:{port}' if tcp else self.url
            self.start(box, port)
            if self.listens():
                return
        raise AssertionError('the server does not start')

    def start(self, box, port):
        self.process = subprocess.Popen(
            ['redis-server', '--port', str(port), '--bind', '127.0.0.1', '--unixsocket',
             self.socket, '--save', '', '--appendonly', 'no', '--dir', box.path, '--logfile',
             box.file('redis.log')],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)
        wait_until(lambda: self.listens() or self.process.poll() is not None, 'the server listens')

    def listens(self):
        return os.path.exists(self.socket)

    def tell(self, *words):
        return subprocess.run(['redis-cli', '-s', self.socket, *words], capture_output=True,
                              text=True, check=True).stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


# What is left out, and only that, is not looked at.
FORMS = (('S5', 'read-write locks'), ('S6', 'semaphores'), ('S7', 'latches'))


def looks_at_all(report):
    """Every rule that a run has something to do for."""
    checked = {rule['rule']: rule['checked'] for rule in report['rules']}
    wanted = ['S1', 'S3', 'S9', 'L3'] + [rule for rule, thing in FORMS
                                         if thing not in report['plan']['left_out']]
    return all(checked[rule] > 0 for rule in wanted)


@test
def a_run_does_what_the_engine_has(box):
    with Server(box) as server:
        server.tell('set', 'somebody', 'else', 'ex', '1000')
        report = until_so(looks_at_all, lambda: report_of(
            box, server.url, '--time', '6s', '--lease', '200ms', '--faults', 'kill,stop'))
        assert looks_at_all(report) and is_safe(report), report
        rules = {rule['rule']: rule for rule in report['rules']}
        for rule, thing in FORMS:
            equal(rules[rule]['checked'] == 0, thing in report['plan']['left_out'], thing)
        equal(server.tell('eval', STRAYS, '0'), 'somebody', 'keys that are not of the run, or stay')


@test
def connections_are_broken_in_every_way(box):
    with Server(box, tcp=True) as server:
        all_hit_and_it_is_safe(CONNECTIONS, lambda: report_of(
            box, server.url, '--time', '6s', '--lease', '200ms', '--faults',
            ','.join(CONNECTIONS)))
        equal(server.tell('eval', STRAYS, '0'), '', 'keys that are not of the run, or stay')


def connections_are_broken_at(box, place, faults):
    need_redis(box)
    all_hit_and_it_is_safe(faults, lambda: run_on(
        box, ['with_redis.py', '--place', place], '--time', '6s', '--lease', '200ms',
        '--faults', ','.join(faults)))


@test
def connections_are_broken_below_tls(box):
    need_redis(box)
    need_tls(box, 'rediss')
    connections_are_broken_at(box, 'tls', BELOW_TLS)


@test
def replies_below_tls_are_left_out(box):
    need_redis(box)
    need_tls(box, 'rediss')
    server = ['with_redis.py', '--place', 'tls']
    words = ['--time', '6s', '--lease', '200ms', '--faults']
    report = until_so(lambda report: report['code'] == 2, lambda: run_on(
        box, server, *words, 'reset,error-reply'))
    equal(report['reason'], 'the fault "error-reply" never began: no request could be '
                            'read (TLS, or another protocol)')


@test
def a_changed_number_of_permits_is_a_violation(box):
    with Server(box) as server:
        if 'semaphores' in report_of(box, server.url, '--time', '300ms')['plan']['left_out']:
            raise Skip('this store has no semaphores')
        process = box.start('torture', server.url, '--json', '--time', '5s', '--lease', '200ms',
                            '--faults', 'none')
        key = wait_until(lambda: server.tell('keys', '*:slots'), 'there is a semaphore')
        box.expect(0, 'sem', key[key.index('holdfast:torture:'):].split('}')[0], 'set', '5', '-e',
                   server.url)
        report = judged(*end_of(process))
        equal((report['code'], report['verdict'], report['promised']), (1, 'VIOLATION', True))
        contains(str(report['findings']), 'the semaphore has another number of permits')


@test
def connections_to_who_was_found_by_a_sentinel_are_broken(box):
    connections_are_broken_at(box, 'sentinel', CONNECTIONS)


@test
def threads_that_ask_at_once_are_safe_so_far(box):
    need_redis(box)
    report = until_so(is_conclusive, lambda: report_of(
        box, '--sandbox', 'redis', '--time', '6s', '--faults', 'none'))
    assert is_safe(report), report


@test
def a_sandbox_that_keeps_its_promise_is_not_accused(box):
    need_redis(box)
    report = all_hit_and_it_is_safe(['server-stop', 'server-kill'], lambda: report_of(
        box, '--sandbox', 'redis', '--time', '8s', '--lease', '300ms', '--faults', 'server'))
    equal(report['promised'], True)


def overlaps(report):
    """Findings of the rules about beliefs: two owners where there may be one."""
    about_beliefs = ('S1', 'S2', 'S5', 'S6')
    return sum(rule['broken'] for rule in report['rules'] if rule['rule'] in about_beliefs)


def recorded(box, name, *words):
    """A run in a sandbox, whose history takes the place of the last one's."""
    pathlib.Path(box.file(name)).unlink(missing_ok=True)
    return report_of(box, '--history', name, '--sandbox', *words)


@test
def the_page_of_a_violation_says_what_was_promised_and_what_the_run_was(box):
    need_redis(box)
    report = until_so(lambda report: report['verdict'] == 'VIOLATION', lambda: report_of(
        box, '--sandbox', 'redis-memory', '--time', '5s', '--lease', '400ms', '--faults',
        'server-kill', '--html', 'run.html'))
    equal((report['code'], report['promised']), (1, False))
    page = pathlib.Path(box.file('run.html')).read_text(encoding='utf-8')
    data = json.loads(page.partition(' id="data">')[2].partition('</script>')[0])
    contains(data['promise'], 'Promise none: all that was broken came after "server-kill", over '
                              'which this store promises nothing; no bug of the library.')
    contains(data['facts'], f'; seed {report["plan"]["seed"]}; leases about 400ms; 8 clients of 4 '
                            'threads; sandbox redis-memory; faults: server-kill')
    equal(data['findings'][0]['scene']['cause'], 'server-kill', 'the fault before it')


@test
def a_violation_is_one_even_if_its_history_cannot_be_written(box):
    need_redis(box)
    report = until_so(lambda report: report['verdict'] == 'VIOLATION', lambda: report_of(
        box, '--sandbox', 'redis-memory', '--time', '5s', '--faults', 'server-kill', '--history',
        'no/such/place.jsonl'))
    equal(report['code'], 1)
    contains(report['err'], 'no/such/place.jsonl')


def is_caught(box, name, fault, seconds=5, others=''):
    """In some run: an overlap is a matter of milliseconds."""
    need_redis(box)
    report = until_so(overlaps, lambda: recorded(
        box, 'run.hist', name, '--time', f'{seconds}s', '--lease', '500ms', '--faults',
        fault + others))
    assert overlaps(report), report
    equal((report['verdict'], report['promised'], report['code']), ('VIOLATION', False, 1), report)
    again = box.expect(1, 'torture', '--check', 'run.hist')
    contains(again.out, f'all that was broken came after "{fault}"')


@test
def a_failover_to_a_replica_is_caught(box):
    is_caught(box, 'redis-failover', 'failover')


@test
def a_restart_that_forgets_is_caught(box):
    is_caught(box, 'redis-memory', 'server-kill')


@test
def a_jump_of_the_servers_clock_is_caught(box):
    is_caught(box, 'redis-clock', 'store-clock', 4)


def in_a_network(box, name):
    """Whether partitions can be made here at all."""
    need_redis(box)
    report = report_of(box, '--sandbox', name, '--time', '100ms', '--faults', 'partition')
    if report['plan']['unavailable']:
        raise Skip(report['plan']['unavailable_why'])


@test
def a_partition_with_a_primary_on_either_side_is_caught(box):
    in_a_network(box, 'redis-failover')
    # Also by a relay, which has to be on both sides.
    is_caught(box, 'redis-failover', 'partition', others=',reset')


def sides_that_were_hit(path):
    """What is zero is not said in a record: neither is the first client."""
    with open(path, encoding='utf-8') as file:
        records = [json.loads(line) for line in file.read().splitlines()[1:]]
    return {record.get('client', 0) % 2 for record in records
            if record['kind'] == 'fault_hit' and record['text'] != 'partition'}


@test
def connections_are_broken_on_either_side_of_a_network(box):
    in_a_network(box, 'redis-failover')
    sides = set()

    def are_both_hit(_):
        sides.update(sides_that_were_hit(box.file('run.jsonl')))
        return len(sides) == 2
    until_so(are_both_hit, lambda: recorded(
        box, 'run.jsonl', 'redis-failover', '--time', '5s', '--lease', '200ms', '--faults',
        ','.join([*CONNECTIONS, 'partition'])))
    equal(sides, {0, 1})


@test
def who_has_no_rights_has_partitions_or_is_told_why_not(box):
    need_redis(box)
    nobody = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups',
              box.command_for_all_users()]
    asked = subprocess.run([*nobody, 'torture', '--list'], capture_output=True, cwd='/',
                           env=box.environment, check=False)
    if os.geteuid() != 0 or asked.returncode != 0:
        raise Skip('nobody may run this command')
    result = subprocess.run([*nobody, 'torture', '--json', '--sandbox', 'redis-failover', '--time',
                             '2s', '--faults', 'partition'], capture_output=True, text=True,
                            timeout=LONG, check=False, cwd='/', env=box.environment)
    plan = json.loads(result.stdout)['plan']
    faults = [fault['fault'] for fault in json.loads(result.stdout)['faults']]
    equal(bool(plan['unavailable']), bool(plan['unavailable_why']), plan)
    equal(bool(plan['unavailable']), 'partition' not in faults, result)


@test
def where_no_network_may_be_made_the_run_goes_on_without(box):
    need_redis(box)
    limit = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    command = ['unshare', '-Ur', 'sh', '-c', limit, 'sh']
    if subprocess.run([*command, 'true'], capture_output=True, check=False).returncode != 0:
        raise Skip('there is no way here to forbid namespaces')
    result = subprocess.run([*command, COMMAND, 'torture', '--sandbox', 'redis-failover', '--time',
                             '3s', '--lease', '200ms', '--faults', 'clock,partition'],
                            capture_output=True, text=True, timeout=LONG, check=False)
    equal((result.returncode, result.stdout.splitlines()[-1]), (2, 'INCONCLUSIVE'), result)
    contains(result.stdout, 'unavailable     partition: no network namespaces may be made here')
    contains(result.stdout, 'faults          clock')


@test
def nothing_of_a_sandbox_is_left(box):
    need_redis(box)
    for number in (signal.SIGINT, signal.SIGKILL):
        process = box.start('torture', '--sandbox', 'redis-failover', '--time', '10m')
        servers = wait_until(lambda pid=process.pid: servers_of(pid), 'both servers run')
        directory = os.path.dirname(wait_until(lambda pid=servers[0]: directory_of(pid),
                                               'a server is in its directory'))
        process.signal(number)
        end_of(process)
        for pid in servers:
            wait_until(lambda pid=pid: not is_alive(pid), f'the server {pid} has ended')
        wait_until(lambda path=directory: not os.path.exists(path), f'{directory} is gone')


@test
def wrong_sandboxes_are_refused(box):
    for words, part in ((['--sandbox', 'rain'], '--list'),
                        (['--sandbox', 'redis', 'local:'], 'URL'),
                        (['-e', 'local:', '--sandbox', 'redis'], 'URL'),
                        (['--faults', 'failover'], '--sandbox')):
        contains(box.expect(64, 'torture', *words).err, part)


@test
def what_is_left_out_is_said(box):
    with Server(box) as server:
        report = report_of(box, server.url, '--time', '300ms')
        text = box.run('torture', server.url, '--time', '300ms', '--faults', 'none').out
        lines = [line for line in text.splitlines() if line.startswith('left out')]
        equal(len(lines), 1 if report['plan']['left_out'] else 0, text)
        for thing in report['plan']['left_out']:
            contains(lines[0], thing)


@test
def a_server_that_is_not_there_is_said(box):
    with Server(box) as server:
        server.kill()
        os.path.exists(server.socket) and os.unlink(server.socket)
        result = box.expect(69, 'torture', server.url, '--time', '1s')
        equal(result.out, '')
        contains(result.err, server.socket)


@test
def a_server_that_refuses_is_said(box):
    with Server(box) as server:
        server.tell('config', 'set', 'requirepass', 'secret')
        result = box.expect(77, 'torture', server.url, '--time', '1s')
        equal(result.out, '')
        assert 'secret' not in result.err, result


@test
def a_server_that_dies_is_no_violation(box):
    with Server(box) as server:
        process = box.start('torture', server.url + '?timeout=500', '--time', '10m', '--lease',
                            '200ms', '--clients', '3')
        wait_until(lambda: server.tell('keys', '*:stock*'), 'the run has begun')
        server.kill()
        process.signal(signal.SIGINT)
        code, out, err = end_of(process)
        equal((code, out.splitlines()[-1]), (69, 'INCONCLUSIVE'), (out, err))
        contains(err, 'has not answered')
        assert 'BROKEN' not in out, out


if __name__ == '__main__':
    main(LIMIT)
