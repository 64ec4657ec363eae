# SPDX-License-Identifier: Apache-2.0
"""exporter: metrics, health and the events of its page, on this machine's store and on Redis."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

from clitest import PATIENCE, contains, equal, main, test, wait_until
from exporting import Exporter, basic, certificate, parse
from servers import start_redis

HOSTILE = ['</script><script>alert(1)</script>', 'a"b', 'a\\b', 'line\nbreak', 'ünï', '{x="y"} 1']


@test
def metrics_of_a_held_name_show_holder_and_waiter(box):
    box.hold('nightly', '-F')
    box.start('run', '-F', 'nightly', 'true')
    box.wait_for_waiters('nightly')
    exporter = Exporter(box)
    exporter.wait_for(1, 'lock_waiters', name='nightly')
    shown = exporter.metrics()
    for family, wanted in (('store_up', 1), ('store_holders', 1), ('store_waiters', 1),
                           ('store_names_in_use', 1), ('store_names_left_out', 0)):
        equal(shown[f'holdfast_{family}'], {frozenset(): wanted}, family)
    for family, wanted in (('held', 1), ('holders', 1)):
        equal(exporter.value(f'lock_{family}', name='nightly'), wanted, family)
    equal(exporter.value('lock_last_token', name='nightly'), box.picture('nightly')[0]['token'])
    for family in ('hold', 'wait'):
        wait_until(lambda: exporter.value(f'lock_oldest_{family}_seconds', name='nightly') > 0.1,
                   f'the age of the oldest {family}')
    equal((exporter.ask('/healthz').status, exporter.ask('/healthz').text), (200, 'ok\n'))
    if shutil.which('promtool'):
        text = exporter.ask('/metrics').text
        told = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True, check=False,
                              capture_output=True, timeout=PATIENCE)
        equal((told.returncode, told.stdout + told.stderr), (0, ''), 'promtool')


@test
def openmetrics_are_sent_to_a_client_that_accepts_them(box):
    exporter = Exporter(box)
    kinds = [exporter.ask('/metrics', Accept=accept).headers['Content-Type']
             for accept in ('*/*', 'application/openmetrics-text;version=1.0.0,text/plain')]
    equal(kinds, ['text/plain; version=0.0.4; charset=utf-8',
                  'application/openmetrics-text; version=1.0.0; charset=utf-8'])


@test
def names_of_any_bytes_become_labels_of_their_own(box):
    for name in [*HOSTILE, b'\xff', b'\xfe', '\ufffd']:
        box.hold(name)
    exporter = Exporter(box)
    wait_until(lambda: exporter.value('store_holders') == len(HOSTILE) + 3, 'all are held')
    held = exporter.metrics()['holdfast_lock_held']
    equal({frozenset(held)}, {frozenset(
        [frozenset({('name', name)}) for name in [*HOSTILE, '\ufffd']] +
        [frozenset({('name', '\ufffd'), ('name_hex', code)}) for code in ('ff', 'fe')])})
    state = exporter.events().wait_for(lambda locks: len(locks) > len(HOSTILE))
    equal({lock['name'] for lock in state['locks']}, {*HOSTILE, '\ufffd'})


@test
def top_and_names_bound_the_labels(box):
    for name in ('orders/1', 'orders/2', 'orders/3', 'nightly'):
        box.hold('-F', name)
    box.start('run', '-F', 'orders/2', 'true')
    box.wait_for_waiters('orders/2')
    exporter = Exporter(box, '--names', 'orders/*', '--top', '1')
    exporter.wait_for(1, 'lock_waiters', name='orders/2')
    equal(len(exporter.metrics()['holdfast_lock_held']), 1, 'names')
    equal(exporter.value('store_names_left_out'), 2)
    equal(exporter.value('store_names_in_use'), 4)


@test
def a_request_needs_the_token(box):
    with open(box.file('token'), 'w', encoding='utf-8') as file:
        file.write('secret\n')
    exporter = Exporter(box, '--token-file', box.file('token'))
    for path in ('/', '/metrics', '/events', '/nothing'):
        refused = exporter.ask(path)
        equal(refused.status, 401, path)
        contains(refused.headers['WWW-Authenticate'], 'Basic')
        for given in ('Bearer secre', 'Bearer secrets', 'Bearer ', basic('secrets'), 'secret'):
            equal(exporter.status(path, Authorization=given), 401, f'{path} {given}')
    for given in ('Bearer secret', basic('secret')):
        equal(exporter.status('/metrics', Authorization=given), 200, given)
    equal(exporter.status('/healthz'), 200)
    equal(exporter.status('/', Authorization='Bearer secret', Host='any.example'), 200)


@test
def https_is_served_with_a_certificate(box):
    cert, key, context = certificate(box)
    exporter = Exporter(box, '--tls-cert', cert, '--tls-key', key)
    equal(exporter.scheme, 'https')
    exporter.context = context
    equal(exporter.status('/healthz'), 200)
    contains(exporter.ask('/metrics').text, 'holdfast_store_up 1\n')


@test
def what_is_no_read_by_a_known_name_is_refused(box):
    exporter = Exporter(box, '--host', 'locks.example')
    for method in ('POST', 'PUT', 'DELETE', 'OPTIONS'):
        equal(exporter.ask('/metrics', method).status, 405, method)
    equal(exporter.ask('/metrics', body=b'x').status, 413)
    equal(exporter.ask('/metrics', Transfer_Encoding='chunked').status, 413)
    equal(exporter.ask('/%2e%2e/etc/passwd').status, 404)
    for host, wanted in (('evil.example', 421), ('127.0.0.1.evil.example', 421),
                         ('evil.example:80', 421), ('locks.example:9473', 200),
                         ('localhost', 200), ('LOCALHOST:1', 200), ('[::1]:1', 200),
                         ('10.0.0.1', 200), (os.uname().nodename, 200)):
        equal(exporter.status('/metrics', Host=host), wanted, host)
    head = exporter.ask('/metrics', 'HEAD')
    equal((head.status, head.text), (200, ''))


@test
def the_page_allows_no_script_but_its_own(box):
    page = Exporter(box).ask('/')
    equal(page.status, 200)
    policy = page.headers['Content-Security-Policy']
    contains(policy, "default-src 'none'")
    contains(policy, "script-src 'sha256-")
    assert 'unsafe' not in policy, policy
    for part in ('innerHTML', 'http:', 'src=', 'href='):
        assert part not in page.text.replace('http://www.w3.org/2000/svg', ''), part


@test
def the_page_is_told_of_each_change(box):
    exporter = Exporter(box)
    events = exporter.events()
    equal(events.next()['locks'], [])
    holder = box.hold('nightly', '--owner', 'the holder')
    state = events.wait_for(lambda locks: 'nightly' in locks)
    lock, = state['locks']
    equal((lock['held'], lock['holders'][0]['text'], lock['history'][-1]), (1, 'the holder', '#'))
    box.start('run', '--owner', 'the waiter', 'nightly', 'true')
    state = events.wait_for(lambda locks: locks['nightly'].get('waited'))
    lock, = state['locks']
    equal((lock['waiters'][0]['text'], lock['history'][-1]), ('the waiter', '%'))
    shown, keys = json.dumps(state), box.picture('nightly')[0]
    for owner in keys['holders'] + keys['waiters']:
        assert owner['owner'] not in shown, 'the key takes the lock away'
    holder.signal(signal.SIGTERM)
    state = events.wait_for(lambda locks: not locks['nightly'].get('held'))
    contains(state['locks'][0]['history'], '#')
    events.close()


@test
def a_silent_server_is_down_and_comes_back(box):
    server = start_redis(box)
    box.hold('nightly', '-e', server.url)
    exporter = Exporter(box, '-e', server.url)
    # Redis knows no age of a hold: the exporter counts from its first look.
    wait_until(lambda: exporter.value('lock_oldest_hold_seconds', name='nightly') > 0.2, 'an age')
    assert exporter.metrics()['holdfast_doctor_finding'], 'this server is not durable'
    os.kill(server.process.pid, signal.SIGSTOP)
    wait_until(lambda: exporter.status('/healthz') == 503, 'the store is missed')
    shown = exporter.metrics()
    equal(shown, {'holdfast_store_up': {frozenset(): 0}})
    equal(exporter.status('/'), 200)
    events = exporter.events()
    equal(events.next()['up'], False)
    equal(exporter.end(signal.SIGTERM).code, 0, 'the end beside a silent server')
    events.close()
    exporter = Exporter(box, '-e', server.url)
    equal(exporter.status('/healthz'), 503, 'the first look')
    os.kill(server.process.pid, signal.SIGCONT)
    wait_until(lambda: exporter.status('/healthz') == 200, 'the store is back')
    exporter.wait_for(1, 'lock_held', name='nightly')


@test
def a_store_that_is_not_there_is_down(box):
    missing = f'local://{box.file("missing")}'
    exporter = Exporter(box, '-e', missing)
    contains(exporter.ask('/healthz').text, 'missing')
    equal(exporter.status('/healthz'), 503)
    equal(os.path.exists(box.file('missing')), False, 'it is not made')
    with open(box.file('token'), 'w', encoding='utf-8') as file:
        file.write('secret')
    guarded = Exporter(box, '-e', missing, '--token-file', box.file('token'))
    assert 'missing' not in guarded.ask('/healthz').text, 'where the store is'
    contains(guarded.ask('/healthz', Authorization='Bearer secret').text, 'missing')
    equal(Exporter(box, '-e', 'local:').status('/healthz'), 200, 'the default one is only empty')


@test
def connections_beyond_the_limit_are_closed_and_pages_leave_room(box):
    exporter = Exporter(box)
    pages = [exporter.connect() for _ in range(17)]
    answers = []
    for page in pages:
        page.request('GET', '/events')
        answers.append(page.getresponse())
    equal([answer.status for answer in answers], [200] * 16 + [503])
    equal(exporter.status('/metrics'), 200)
    idle = []
    for _ in range(100):
        idle.append(socket.create_connection(('127.0.0.1', exporter.port), timeout=PATIENCE))
    # What is refused reads the end at once.
    def refused():
        for stream in idle:
            stream.settimeout(0.001)
            try:
                if stream.recv(1) == b'':
                    return True
            except (TimeoutError, ConnectionError):
                pass
        return False
    wait_until(refused, 'a connection is refused')
    for stream in idle:
        stream.close()

    def answered():
        try:
            return exporter.status('/healthz') == 200
        except OSError:
            return False
    wait_until(answered, 'there is room again')
    equal(exporter.end(signal.SIGTERM).code, 0)
    for page in pages:
        page.close()


@test
def clients_that_send_a_byte_now_and_then_lose_their_places(box):
    exporter = Exporter(box)
    slow = []
    for _ in range(64):
        slow.append(socket.create_connection(('127.0.0.1', exporter.port),
                                             timeout=PATIENCE))
        slow[-1].sendall(b'GET /metrics HTTP/1.1\r\nX: ')

    def answered():
        for connection in slow:
            try:
                connection.sendall(b'a')
            except OSError:
                pass
        try:
            return exporter.status('/healthz') == 200
        except OSError:
            return False
    equal(answered(), False, 'while all places are taken')
    wait_until(answered, 'there is room')
    for connection in slow:
        connection.close()


# Two machines, a value each hour. When is a daily job told to have not run?
CASES = """
rule_files: [rules.yml]
evaluation_interval: 1h
tests:
  - name: runs each day, on one machine or the other, and is refused at times; then no more
    interval: 1h
    input_series:
      - series: holdfast_run_end_timestamp_seconds{name="nightly", instance="a"}
        values: 0x23 86400x200
      - series: holdfast_run_granted{name="nightly", instance="a"}
        values: 1x23 0x200
      - series: holdfast_run_end_timestamp_seconds{name="nightly", instance="b"}
        values: 0x23 86400x23 172800x200
      - series: holdfast_run_granted{name="nightly", instance="b"}
        values: 0x23 1x23 1x200
    alert_rule_test:
      - {eval_time: 25h, alertname: JobHasNotRun}
      - {eval_time: 49h, alertname: JobHasNotRun}
      - {eval_time: 74h, alertname: JobHasNotRun}
      - eval_time: 75h
        alertname: JobHasNotRun
        exp_alerts: [&told {exp_labels: {name: nightly}, exp_annotations:
          {summary: the job nightly has not run for 26 hours}}]
  - name: is refused each hour
    interval: 1h
    input_series:
      - series: holdfast_run_end_timestamp_seconds{name="nightly"}
        values: 0+3600x200
      - series: holdfast_run_granted{name="nightly"}
        values: 1x1 0x200
    alert_rule_test:
      - {eval_time: 27h, alertname: JobHasNotRun}
      - {eval_time: 29h, alertname: JobHasNotRun, exp_alerts: [*told]}
  - name: is refused each hour on one machine, and ran long ago on the other
    interval: 1h
    input_series:
      - series: holdfast_run_end_timestamp_seconds{name="nightly", instance="a"}
        values: 0x200
      - series: holdfast_run_granted{name="nightly", instance="a"}
        values: 1x200
      - series: holdfast_run_end_timestamp_seconds{name="nightly", instance="b"}
        values: 0+3600x200
      - series: holdfast_run_granted{name="nightly", instance="b"}
        values: 0x200
    alert_rule_test:
      - {eval_time: 26h, alertname: JobHasNotRun}
      - {eval_time: 27h, alertname: JobHasNotRun, exp_alerts: [*told]}
  - name: has never run
    interval: 1h
    input_series:
      - series: holdfast_run_end_timestamp_seconds{name="other"}
        values: 0+3600x200
    alert_rule_test:
      - {eval_time: 1h, alertname: JobHasNotRun, exp_alerts: [*told]}
"""


def promtool(*words):
    told = subprocess.run(['promtool', *words], text=True, check=False, capture_output=True,
                          timeout=PATIENCE)
    equal(told.returncode, 0, told.stdout + told.stderr)
    return told.stdout


@test
def rules_of_the_howto_name_gauges_that_exist(box):
    with open(os.path.join(os.environ['HOLDFAST_MAN'], '../howto/alert.md'),
              encoding='utf-8') as file:
        rules, = re.findall(r'^```yaml holdfast.rules.yml\n(.*?)^```$', file.read(),
                            re.DOTALL | re.MULTILINE)
    box.expect(0, 'run', '--metrics', box.file('run.prom'), 'x', 'true')
    with open(box.file('run.prom'), encoding='utf-8') as file:
        known = {*parse(file.read()), *Exporter(box).metrics(), 'holdfast_lost_total'}
    named = set(re.findall(r'\bholdfast_\w+', rules))
    equal((named - known, len(named)), (set(), 6))
    if shutil.which('promtool'):
        with open(box.file('rules.yml'), 'w', encoding='utf-8') as file:
            file.write(rules)
        with open(box.file('cases.yml'), 'w', encoding='utf-8') as file:
            file.write(CASES)
        contains(promtool('check', 'rules', box.file('rules.yml')), '4 rules found')
        contains(promtool('test', 'rules', box.file('cases.yml')), 'SUCCESS')


@test
def a_signal_ends_it_with_0(box):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        exporter = Exporter(box)
        equal(exporter.end(number).code, 0, number)


@test
def wrong_calls_are_refused(box):
    Exporter(box)
    for words, part in ((('--listen', 'nonsense:x:y'), 'HOST:PORT'),
                        (('--listen', '127.0.0.1:65536'), '65535 at most'),
                        (('--tls-cert', 'x'), '--tls-key go together'),
                        (('--tls-cert', '/dev/null', '--tls-key', '/nix'), 'cannot be read'),
                        (('--token-file', '/dev/null'), 'its first line'),
                        (('-e', 'nix://x'), 'nix'), (('redis://x',), '-e redis://x'),
                        (('-e', 'quorum:redis://127.0.0.1:1,redis://127.0.0.1:2,'
                          'redis://127.0.0.1:3'), 'shows no holders')):
        contains(box.expect(64, 'exporter', *words).err, part)
    taken = socket.create_server(('127.0.0.1', 0))
    contains(box.expect(69, 'exporter', '--listen',
                        f'127.0.0.1:{taken.getsockname()[1]}').err, 'Address already in use')
    taken.close()


@test
def a_missing_program_is_named(box):
    command = box.command_for_all_users()
    result = box.start('exporter', command=command).end()
    equal(result.code, 127)
    contains(result.err, 'package holdfast-exporter')


@test
def parser_finds_what_is_wrong(_):
    good = '# HELP a x y\n# TYPE a gauge\na{n="\\"\\\\"} 1\n# EOF\n'
    equal(parse(good), {'a': {frozenset({('n', '"\\')}): 1}})
    for wrong in (good[:-6], good.replace('} 1', '} 1\na{n="\\"\\\\"} 2'), good.replace('\\"', '"'),
                  good.replace(' 1', ' x'), good.replace('# TYPE a', '# TYPE b')):
        try:
            parse(wrong)
        except AssertionError:
            continue
        raise AssertionError(f'this is right: {wrong!r}')


main()
