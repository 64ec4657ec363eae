# SPDX-License-Identifier: Apache-2.0
"""doctor and show on etcd servers, with something wrong with them."""
import base64
import json
import os
import socket
import subprocess

from clitest import PATIENCE, contains, equal, main, test, wait_until

from servers import etcd_server, start_etcd

WAYS = 20
UNREACHABLE = 69


def see(box, cluster, *options):
    """The facts, and the findings' ids."""
    result = box.run('-e', cluster.url(), *options, 'doctor', '--json')
    said = json.loads(result.out)
    findings = [each for each in said if 'finding' in each]
    equal(result.code, 1 if findings else 0, 'the exit code')
    for each in findings:
        assert each['consequence'] and each['cure'] and each['id'], each
    return ({each['fact']: each['value'] for each in said if 'fact' in each},
            [each['id'] for each in findings])


def find(box, cluster):
    """The findings' ids, where most members may be down."""
    result = box.run('-e', cluster.url(), 'doctor', '--json')
    return ({'unreachable'} if result.code == UNREACHABLE else
            {each['id'] for each in json.loads(result.out) if 'finding' in each})


@test
def its_version_is_a_fact_and_judged(box):
    facts, findings = see(box, start_etcd(box))
    contains(facts['version'], 'etcd 3.')
    contains(facts['database'], 'KiB')
    minor, patch = [int(part) for part in facts['version'].split()[1].split('.')[1:3]]
    old = minor < 4 or (minor == 4 and patch < 31) or (minor == 5 and patch < 13)
    equal('old-version' in findings, old, f'a finding on {facts["version"]}')


@test
def a_full_database_is_a_danger(box):
    cluster = start_etcd(box)
    _, findings = see(box, cluster)
    equal('alarm' in findings, False, 'an alarm at the beginning')
    member = cluster.members[0]
    member.kill()
    member.arguments += ['--quota-backend-bytes', str(1 << 20)]
    member.again()
    assert member.becomes_ready(), 'the server does not come back'
    text = 'x' * 100000

    def is_full():
        return cluster.control('put', 'much', text, check=False).returncode != 0
    wait_until(is_full, 'its quota is reached')
    _, findings = see(box, cluster)
    equal('alarm' in findings, True, 'an alarm at the end')
    result = box.run('-e', cluster.url(), 'try', 'one', '--', 'true')
    contains(result.err, 'NOSPACE')
    told = box.expect(1, '-e', cluster.url(), 'doctor', '--fix').out
    subprocess.run(['sh', '-e', '-c', told], check=True, timeout=PATIENCE,
                   stdout=subprocess.DEVNULL,
                   env={**os.environ, 'ETCDCTL_API': '3',
                        'ETCDCTL_ENDPOINTS': f'http://127.0.0.1:{member.port}'})
    equal('alarm' in see(box, cluster)[1], False, 'an alarm after the cure')
    box.expect(0, '-e', cluster.url(), 'try', 'one', '--', 'true')


@test
def a_cluster_without_its_majority_is_a_danger(box):
    cluster = start_etcd(box, members=3)
    facts, findings = see(box, cluster)
    equal([each for each in findings if each != 'old-version'], [], 'findings at the beginning')
    assert int(facts['revision']) > 0, facts
    for member in cluster.members[:2]:
        member.kill()
    # It takes a while until the last one knows: before that, it does not answer a read.
    wait_until(lambda: 'no-quorum' in find(box, cluster) or 'no-leader' in find(box, cluster),
               'the loss is found')
    wait_until(lambda: 'no-leader' in find(box, cluster), 'the last one knows')
    # The two are enough for each other, and the third one does not have to answer.
    cluster.members[0].again()
    assert cluster.members[0].becomes_ready(), 'a server does not come back'
    cluster.members[2].stop()
    cluster.members[1].again()
    assert cluster.members[1].becomes_ready(), 'a server does not come back'
    lost = {'no-quorum', 'no-leader', 'unreachable'}
    wait_until(lambda: not lost.intersection(find(box, cluster)), 'there is a majority')


def make_revisions(cluster, count):
    """By the server's gateway for JSON, pipelined: a process for each would take minutes."""
    body = json.dumps({'key': base64.b64encode(b'elsewhere').decode()})
    one = f'POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}'
    ways = [socket.create_connection(('127.0.0.1', cluster.members[0].port), 60)
            for _ in range(WAYS)]
    for way in ways:
        way.sendall(one.encode() * (count // WAYS))
    for way in ways:
        said = b''
        while said.count(b' 200 OK\r\n') < count // WAYS:
            more = way.recv(1 << 20)
            assert more, said[-500:]
            said += more
        way.close()


@test
def a_long_history_without_compaction_is_a_danger(box):
    cluster = start_etcd(box)
    make_revisions(cluster, 10000)
    facts, findings = see(box, cluster)
    equal('not-compacted' in findings, True, f'a finding with {facts["revision"]} revisions')
    cluster.control('compact', '9000')
    _, findings = see(box, cluster)
    equal('not-compacted' in findings, False, 'a finding after a compaction')


@test
def a_tls_port_that_http_shares_is_a_danger(box):
    cluster = start_etcd(box, secured=True)
    facts, findings = see(box, cluster)
    equal('tls-port-shared' in findings, True, 'a finding with HTTP at the port')
    _, findings = see(box, start_etcd(box))
    equal('tls-port-shared' in findings, False, 'a finding without TLS')
    minor, patch = [int(part) for part in facts['version'].split()[1].split('.')[1:3]]
    if (minor, patch) < (5, 8) and not (minor == 4 and patch >= 25):
        return  # it cannot be told to give HTTP another one
    member = cluster.members[0]
    member.kill()
    member.arguments += ['--listen-client-http-urls',
                         f'https://127.0.0.1:{etcd_server.free_port()}']
    member.again()
    wait_until(lambda: not {'unreachable', 'tls-port-shared'}.intersection(find(box, cluster)),
               'no finding with a port for HTTP')


@test
def a_server_with_too_few_streams_is_a_danger(box):
    cluster = start_etcd(box)
    _, findings = see(box, cluster)
    equal('few-streams' in findings, False, 'a finding without a limit')
    member = cluster.members[0]
    member.kill()
    member.arguments += ['--max-concurrent-streams', '2']
    member.again()
    assert member.becomes_ready(), 'the server does not come back'
    _, findings = see(box, cluster)
    equal('few-streams' in findings, True, 'a finding with two streams')
    result = box.run('-e', cluster.url(), 'try', 'one', '--', 'true')
    contains(result.err, '--max-concurrent-streams')


@test
def a_user_without_rights_is_told_what_is_missing(box):
    cluster = start_etcd(box, users=True)
    result = box.run('-e', cluster.url().replace('/holdfast', '/elsewhere'), 'try', 'one', '--',
                     'true')
    contains(result.err, 'readwrite')
    result = box.run('-e', cluster.url(user='locker:wrong'), 'try', 'one', '--', 'true')
    contains(result.err, 'the user or the password is wrong')


@test
def a_user_who_may_take_no_lock_is_no_good_news(box):
    cluster = start_etcd(box, users=True)
    elsewhere = cluster.url().replace('/holdfast', '/elsewhere')
    for ignored in ([], ['--ignore', 'old-version']):
        result = box.run('-e', elsewhere, 'doctor', *ignored)
        equal(result.code, 77, result)
        contains(result.err, 'readwrite')


if __name__ == '__main__':
    main()
