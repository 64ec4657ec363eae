# SPDX-License-Identifier: Apache-2.0
"""doctor on Redis servers with something wrong with them, one thing at a time."""
import json
import os
import shlex
import socket
import time

from clitest import Skip, contains, equal, main, test, test_of_a_moment, wait_until
from clitest import with_skewed_clock
from patients import DURABLE, Passer, Patient, fixes, only, start_cluster
from sides import Node

@test
def a_durable_server_of_its_own_is_healthy(box):
    patient = Patient(box, *DURABLE)
    facts, findings = patient.see(code=0)
    equal(findings, [])
    contains(facts['server'], 'Redis ')
    contains(facts['on disk'], 'always')
    contains(facts['replication'], 'master, 0 replicas')
    equal(facts['in use'], '0 held, 0 waiting, of what holdfast took or waits for')
    contains(box.expect(0, '-e', patient.server.url, 'doctor').out, 'Nothing endangers')


@test
def eviction_is_a_finding_where_memory_is_limited(box):
    patient = Patient(box, *DURABLE)
    patient.set('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
    equal(patient.see()[1], [])
    patient.set('CONFIG', 'SET', 'maxmemory', '100mb')
    only(patient.see()[1], 'maxmemory-policy is volatile-lru')
    patient.set('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    equal(patient.see()[1], [])


@test
def doctor_an_ignored_finding_of_a_server_is_no_finding(box):
    patient = Patient(box)
    findings = patient.see_all()[1]
    equal([each['id'] for each in findings], ['aof-off'])
    box.expect(1, '-e', patient.server.url, 'doctor')
    box.expect(0, '-e', patient.server.url, 'doctor', '--ignore', 'aof-off')


@test
def doctor_fix_of_redis_cures_what_was_found(box):
    patient = Patient(box)
    patient.set('CONFIG', 'SET', 'maxmemory', '100mb')
    patient.set('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    told = box.expect(1, '-e', patient.server.url, 'doctor', '--fix').out
    for part in ('# eviction: maxmemory-policy is allkeys-lru', '# aof-off: ', '# by redis-cli',
                 '# to keep it: CONFIG REWRITE', '# 2 findings.'):
        contains(told, part)
    assert 'lock + unlock' not in told, told
    for line in fixes(told):
        patient.set(*line.split())
    wait_until(lambda: box.run('-e', patient.server.url, 'doctor').code == 0, 'it is healthy')
    equal(box.expect(0, '-e', patient.server.url, 'doctor', '--fix').out,
          '# Nothing endangers locks here, as far as can be seen.\n')


@test
def doctor_fix_names_the_user_of_the_url(box):
    patient = Patient(box, *DURABLE)
    for user, named, encoded in (('bob', 'bob', 'bob'), ('b"\\b', '"b\\"\\\\b"', 'b%22%5Cb')):
        patient.set('ACL', 'SETUSER', user, 'on', '>secret', '+@all', '-scan', '-incrby', '~*',
                    '&*')
        url = patient.server.url.replace('//', f'//{encoded}:secret@')
        told = box.expect(1, '-e', url, 'doctor', '--fix').out
        equal(sorted(fixes(told)), [f'ACL SETUSER {named} +{each}' for each in ('incrby', 'scan')])
        for line in fixes(told):
            patient.set(*shlex.split(line))  # which reads such quotes as redis-cli does
        box.expect(0, '-e', url, 'doctor')
    told = box.run('-e', patient.server.url + '?sync=1', 'doctor', '--json', '--fix').out
    fixes_of = {each['id']: each['fix'] for each in json.loads(told) if 'id' in each}
    equal(fixes_of['sync-replicas-missing'], [])


@test
def memory_that_is_full_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    patient.set('CONFIG', 'SET', 'maxmemory', '100kb')
    for options in '', '?format=simple':
        facts, findings = patient.see(options=options)
        only(findings, 'memory is full')
        contains(facts['lock + unlock'], 'not known: ')
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-incrby', '~*', '&*')
    findings = patient.see(user='bob:secret@')[1]
    contains(findings[0], 'memory is full')
    only(findings[1:], 'may not call what our scripts do: incrby')
    patient.set('CONFIG', 'SET', 'maxmemory', '100mb')
    equal(patient.see()[1], [])


@test
def a_server_that_cannot_save_is_a_finding(box):
    patient = Patient(box, *DURABLE, '--save', '3600', '1000000')
    os.makedirs(os.path.join(patient.directory, 'dump.rdb', 'in-the-way'))
    patient.server.ask('BGSAVE')
    wait_until(lambda: b'rdb_last_bgsave_status:err' in patient.server.ask('INFO', 'persistence'),
               'the snapshot has failed')
    only(patient.see()[1], 'failed to write to disk')
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-info', '~*', '&*')
    findings = patient.see(user='bob:secret@')[1]
    contains(findings[0], 'may not use INFO')
    only(findings[1:], 'refuses all writes, as it failed to write to disk')


@test
def a_full_disk_that_our_lock_brings_to_light_is_a_finding(box):
    patient = Patient(box)
    directory = os.path.join(patient.directory, 'appendonlydir')
    grows = os.path.join(directory, 'appendonly.aof.1.incr.aof')
    os.makedirs(directory, exist_ok=True)
    os.symlink('/dev/full', os.path.join(directory, 'temp-appendonly.aof.incr'))
    patient.set('CONFIG', 'SET', 'appendonly', 'yes')
    wait_until(lambda: b'aof_rewrite_in_progress:0' in patient.server.ask('INFO', 'persistence'),
               'the file has begun')
    if os.path.realpath(grows) != '/dev/full':
        raise Skip('this server names its files otherwise')
    facts, findings = patient.see()
    contains(facts['lock + unlock'], 'MISCONF')
    equal(len(findings), 2, f'the number of {findings}')
    contains(findings[0], 'not synced before the server answers')
    contains(findings[1], 'failed to write to disk')


def is_for_want_of_replicas(box, patient, number, user='', options=''):
    """What doctor finds, and what who wants a lock hears."""
    facts, findings = patient.see_all(user=user, options=options)
    equal(len(findings), 1, f'the number of {findings}')
    contains(findings[0]['finding'], f'min-replicas-to-write{number}')
    contains(findings[0]['consequence'], 'no lock is granted, renewed or released')
    contains(findings[0]['cure'], 'CONFIG SET min-replicas-to-write')
    contains(facts['lock + unlock'], 'not known: ')
    url = patient.server.url.replace('//', f'//{user}') + options
    said = box.expect(69, '-e', url, 'run', '-n', 'x', 'true').err
    contains(said, 'too few replicas follow the server, so it writes nothing (min-replicas-')
    assert said.endswith('NOREPLICAS Not enough good replicas to write.\n'), said


@test
def a_server_with_too_few_replicas_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    patient.set('CONFIG', 'SET', 'min-replicas-to-write', '1')
    if b'NOREPLICAS' not in patient.server.ask('EVAL', "return redis.pcall('set', KEYS[1], 1)",
                                               '1', 'any'):
        raise Skip('this server lets scripts write all the same')
    for options in '', '?format=simple':
        is_for_want_of_replicas(box, patient, ' is 1', options=options)
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-config', '-info', '~*', '&*')
    findings = patient.see(user='bob:secret@')[1]
    contains(findings[0], 'may not use INFO')
    only(findings[1:], 'min-replicas-to-write')
    patient.set('CONFIG', 'SET', 'min-replicas-to-write', '0')
    equal(patient.see()[1], [])


@test
def a_server_that_forgets_is_a_finding(box):
    patient = Patient(box)
    only(patient.see()[1], 'does not write what it is told to disk')
    patient.set('CONFIG', 'SET', 'appendonly', 'yes')
    only(patient.see()[1], 'not synced before the server answers')
    patient.set('CONFIG', 'SET', 'appendfsync', 'always')
    equal(patient.see()[1], [])


@test
def replicas_are_a_finding(box):
    patient = Patient(box, *DURABLE)
    replica = Patient(box, *DURABLE, '--replicaof', '127.0.0.1', str(patient.server.port))
    wait_until(lambda: b'connected_slaves:1' in patient.server.ask('INFO', 'replication'),
               'the replica is connected')
    wait_until(lambda: b'master_link_status:up' in replica.server.ask('INFO', 'replication'),
               'the replica follows')
    facts, findings = patient.see()
    contains(facts['replication'], '1 replica')
    only(findings, '1 replica follows')
    equal(patient.see(options='?sync=1')[1], [])
    facts, findings = patient.see(options='?sync=2')
    only(findings, 'sync=2 waits for more replicas than follow (1)')
    contains(facts['lock + unlock'], 'not known: ')
    facts, findings = replica.see()
    only(findings, 'this server is a replica')
    contains(facts['lock + unlock'], 'not known: ')


@test_of_a_moment
def what_a_replica_cannot_do_is_not_waited_for(box):
    patient = Patient(box)
    replica = Patient(box, '--replicaof', '127.0.0.1', str(patient.server.port))
    began = time.monotonic()
    contains(replica.see()[1][1], 'this server is a replica')
    assert time.monotonic() - began < 5, 'it has waited for the replica to become a master'


@test
def a_clock_that_is_far_off_is_a_finding(box):
    skewed = with_skewed_clock()
    patient = Patient(box, *DURABLE, environment=skewed)
    facts, findings = patient.see()
    contains(facts['its clock'], "ahead of this machine's")
    only(findings, "s ahead of this machine's")


@test
def what_stands_between_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    contains(patient.see()[0]['connection'], 'direct')
    patient.server.url = Passer(patient.server.port).url
    facts, findings = patient.see()
    contains(facts['connection'], 'by way of something else')
    only(findings, 'the server hears from 127.0.0.1:')
    contains(findings[0], f'at 127.0.0.1:{patient.server.port}')


@test
def a_version_that_nobody_mends_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    version = patient.see()[0]['server'].split()[1].strip(',')
    old = '4' + '.' * (len(version) - 2) + '1'
    patient.server.url = Passer(patient.server.port, {f'redis_version:{version}'.encode():
                                                      f'redis_version:{old}'.encode()}).url
    findings = patient.see()[1]
    equal(findings[0], f'this is Redis {old}')
    equal(len(findings), 2, f'the number of {findings}')


def follower(box, master):
    """A new server of the cluster, which follows the master, once the cluster shows it."""
    name = master.ask('CLUSTER', 'MYID').split(b'\r\n')[1].decode()
    directory = box.file(f'follower-{len(box.processes)}')
    os.mkdir(directory)
    node = Node(directory)
    box.processes.append(node)
    master.ask('CLUSTER', 'MEET', '127.0.0.1', str(node.port), node.bus)
    wait_until(lambda: node.ask('CLUSTER', 'REPLICATE', name) == b'+OK\r\n', 'it may follow')
    return node


@test
def server_that_does_not_know_eval_is_a_finding(box):
    for name in 'EVAL', 'EVALSHA':
        patient = Patient(box, *DURABLE, '--rename-command', name, 'UNHEARD')
        facts, findings = patient.see()
        only(findings, 'does not know EVAL or EVALSHA')
        if name == 'EVAL':
            contains(facts['lock + unlock'], "rename-command), or this is not Redis: ERR unknown "
                                             "command 'EVAL'")


@test
def server_that_does_not_know_config_is_not_said_to_forbid_it(box):
    patient = Patient(box, *DURABLE, '--rename-command', 'CONFIG', '')
    only(patient.see()[1], 'the server does not know CONFIG GET')


@test
def server_whose_connections_run_out_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    if b'maxclients:' not in patient.server.ask('INFO', 'clients'):
        raise Skip('this server does not say how many clients it takes')
    patient.set('CONFIG', 'SET', 'maxclients', '10')
    kept = [socket.create_connection(('127.0.0.1', patient.server.port)) for _ in range(8)]
    wait_until(lambda: b'connected_clients:9' in patient.server.ask('INFO', 'clients'),
               'eight are connected')
    contains(' '.join(patient.see()[1]), 'of maxclients 10 connections are in use')
    for each in kept:
        each.close()


@test
def a_plain_url_to_a_server_of_a_cluster_is_a_finding(box):
    cluster = start_cluster(box)
    for node in cluster.nodes:
        contains(box.expect(1, '-e', node.url, 'doctor', 'app').out,
                 'part of a cluster, and the URL')


@test
def what_refuses_the_map_of_a_cluster_is_no_finding(box):
    patient = Patient(box, *DURABLE)
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-cluster', '~*', '&*')
    url = patient.server.url.replace('redis:', 'redis+cluster:')
    for words in ('doctor',), ('doctor', 'app'), ('show',), ('show', 'app'), ('try', 'app', 'true'):
        for user, code, why in (('', 64, 'not part of a cluster; redis: is the URL for it'),
                                ('bob:secret@', 77, 'a user needs +cluster|slots: NOPERM')):
            said = box.expect(code, '-e', url.replace('//', f'//{user}'), *words)
            contains(said.err, why)
            equal(said.err.count('\n'), 1, said.err)
            assert 'FINDING' not in said.out and 'in use' not in said.out, said.out


@test
def a_cluster_that_is_down_without_one_master_is_a_finding(box):
    patient, cluster = Patient(box), start_cluster(box)
    patient.server.url = cluster.url

    def lame():
        return [each for each in patient.see()[1] if 'full-coverage' in each]

    only(lame(), 'a master has no replica (127.0.0.1:')
    for node in cluster.nodes:
        equal(node.ask('CONFIG', 'SET', 'cluster-require-full-coverage', 'no'), b'+OK\r\n')
    equal(lame(), [])
    for node in cluster.nodes:
        equal(node.ask('CONFIG', 'SET', 'cluster-require-full-coverage', 'yes'), b'+OK\r\n')
    followers = [follower(box, node) for node in cluster.nodes[1:]]
    wait_until(lambda: f'(127.0.0.1:{cluster.nodes[0].port})' in lame()[0], 'one is left')
    followers.append(follower(box, cluster.nodes[0]))
    wait_until(lambda: not lame(), 'each master has a replica')


@test
def a_quorum_is_judged_server_by_server_and_as_a_whole(box):
    patients = [Patient(box, *DURABLE) for _ in range(3)]
    ports = [patient.server.port for patient in patients]

    def see(urls, code):
        url = 'quorum:' + ','.join(urls)
        result = box.run('-e', url, 'doctor', '--json')
        equal(result.code, code, f'the exit status; {result}')
        said = json.loads(result.out) if result.out else []
        return ({each['fact']: each['value'] for each in said if 'fact' in each},
                [each['finding'] for each in said if 'finding' in each])

    urls = [f'redis://127.0.0.1:{port}' for port in ports]
    facts, findings = see(urls, 0)
    equal(findings, [])
    contains(facts['quorum'], '3 servers, of which 2 are needed')
    for port in ports:
        contains(facts[f'127.0.0.1:{port}: server'], 'Redis ')
    patients[1].set('CONFIG', 'SET', 'appendfsync', 'no')
    findings = see(urls, 1)[1]
    only(findings, 'not synced before the server answers')
    contains(findings[0], f'127.0.0.1:{ports[1]}: ')
    patients[1].set('CONFIG', 'SET', 'appendfsync', 'always')
    for same in (urls[1], f'redis://127.1:{ports[0]}'):
        contains(''.join(see([urls[0], same, f'redis://localhost:{ports[0]}'], 1)[1]),
                 'are the same server')
    patients[1].server.process.kill()
    patients[1].server.process.wait()
    facts, findings = see(urls, 1)
    only(findings, f'127.0.0.1:{ports[1]} does not say what it is')
    contains(facts[f'127.0.0.1:{ports[2]}: server'], 'Redis ')
    contains(box.expect(1, '-e', 'quorum:' + ','.join(urls), 'doctor').out,
             'of the 3 servers 2 are needed, so 0 more may fail before no lock is granted')
    patients[2].server.process.kill()
    patients[2].server.process.wait()
    equal(len(see(urls, 69)[1]), 2)
    said = box.expect(69, '-e', 'quorum:' + ','.join(urls), 'doctor').out
    equal(said.count('no lock is granted: of the 3 servers 2 are needed, and 1 answers\n'), 2, said)
    assert 'may fail' not in said, said


@test
def what_is_found_stands_behind_what_is_so(box):
    patients = [Patient(box, *DURABLE) for _ in range(3)]
    ports = [patient.server.port for patient in patients]
    patients[1].set('CONFIG', 'SET', 'appendfsync', 'no')
    url = 'quorum:' + ','.join(f'redis://127.0.0.1:{port}' for port in ports)
    facts, found, more = box.expect(1, '-e', url, 'doctor').out.partition('\nFINDING ')
    contains(more, '\n1 finding.\n')
    lines = (facts + found).splitlines()
    for port in ports:
        at = lines.index(f'127.0.0.1:{port}')
        assert lines[at + 1].startswith('  server       Redis '), facts
    assert any(line.startswith('lock + unlock  ') for line in lines), facts


@test
def servers_that_are_silent_do_not_add_up(box):
    patients = [Patient(box, *DURABLE) for _ in range(3)]
    silent = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    ports = ([mute.getsockname()[1] for mute in silent]
             + [patient.server.port for patient in patients])
    url = 'quorum:' + ','.join(f'redis://127.0.0.1:{port}' for port in ports)
    wanted = [f'127.0.0.1:{port} does not say what it is' for port in ports[:2]]

    def both_are_found():
        result = box.run('-e', url + '?timeout=600000', 'doctor', '--json')
        said = json.loads(result.out) if result.out else []
        found = [each['finding'] for each in said if 'finding' in each]
        return len(found) == 2 and all(found[i].startswith(wanted[i]) for i in range(2))

    # Each is silent for longer than doctor waits, however often it is asked; a slow machine may
    # have to be asked again.
    wait_until(both_are_found, 'doctor has found both')
    for mute in silent:
        mute.close()


main()
