# SPDX-License-Identifier: Apache-2.0
"""doctor, and what the ACL of a Redis server lets this user do."""
import json

from clitest import contains, equal, main, test
from patients import DURABLE, Passer, Patient, only, start_cluster


@test
def what_a_user_may_not_do_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-subscribe', '-client',
                '~*', '&*')
    findings = patient.see(user='bob:secret@')[1]
    equal(len(findings), 3, f'the number of {findings}')
    contains(findings[0], 'CLIENT KILL')
    contains(findings[1], "may not listen to the locks' channels")
    contains(findings[2], 'may not listen to a channel of its own')
    patient.set('ACL', 'SETUSER', 'bob', '+subscribe', '+client')
    equal(patient.see(user='bob:secret@')[1], [])
    patient.set('ACL', 'SETUSER', 'bob', 'resetchannels', '&redisson_*')
    only(patient.see(user='bob:secret@')[1], 'may not listen to a channel of its own')
    patient.set('ACL', 'SETUSER', 'bob', 'resetchannels', '&holdfast:*')
    only(patient.see(user='bob:secret@')[1], 'may use the channels of some names only')
    patient.set('ACL', 'SETUSER', 'bob', '&*', '-info', '-config')
    only(patient.see(user='bob:secret@')[1], 'may not use INFO')


@test
def what_scripts_may_not_call_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-pexpireat', '-rpush', '~*',
                '&*')
    finding = patient.see(user='bob:secret@')[1]
    only(finding, 'may not call what our scripts do: pexpireat rpush')
    only(patient.see(user='bob:secret@', options='?format=simple')[1], 'scripts do: pexpireat')
    patient.set('ACL', 'SETUSER', 'bob', '+pexpireat', '-del')
    only(patient.see(user='bob:secret@')[1], 'scripts do: del')
    patient.set('ACL', 'SETUSER', 'bob', '+del', '+rpush')
    equal(patient.see(user='bob:secret@')[1], [])
    patient.set('ACL', 'SETUSER', 'bob', '-eval', '-evalsha')
    only(patient.see(user='bob:secret@')[1], 'may not use EVAL')
    patient.set('ACL', 'SETUSER', 'bob', '+eval', '+evalsha', '-scan')
    facts, findings = patient.see(user='bob:secret@')
    only(findings, 'may not use SCAN')
    contains(facts['in use'], 'NOPERM')


@test
def what_a_name_needs_besides_scripts_is_named(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, '-eval', '-evalsha', '&holdfast:*', '&redisson_*')
    [found] = patient.see_all(user='bob:secret@', name='app')[1]
    contains(found['cure'], f'+eval +evalsha, with {" ".join(KEYS + CHANNELS)}, unless it may')
    patient.set('ACL', 'SETUSER', 'bob', '+eval', '+evalsha', *KEYS)
    equal(see_rights(patient, 'app'), [])


@test
def all_that_scripts_may_not_call_is_found_at_once(box):
    patient = Patient(box, *DURABLE)
    # A rpush that is tried has to be undone by one of these; by none, it is allowed with the rest.
    undoes = 'del', 'pexpire', 'lpop', 'lrem'
    for allowed in None, *undoes:
        for right in '-rpush', '+rpush':
            denied = [each for each in undoes if each != allowed]
            let_bob(patient, '~*', '&*', right, *(f'-{each}' for each in denied))
            findings = patient.see_all(user='bob:secret@')[1]
            denied += ['rpush'] * (right == '-rpush' and allowed is not None)
            only([each['finding'] for each in findings], f'scripts do: {" ".join(denied)}')
            equal(findings[0]['finding'].endswith('; what could not be tried: rpush'),
                  allowed is None)
            cure = findings[0]['cure'].removeprefix('ACL SETUSER ... ').split()
            equal(cure, [f'+{each}' for each in denied] + ['+rpush'] * (allowed is None))
            patient.set('ACL', 'SETUSER', 'bob', *cure)
            equal(patient.see(user='bob:secret@')[1], [])
            equal(patient.server.ask('KEYS', '*{holdfast-doctor-*'), b'*0\r\n')


@test
def what_a_user_may_not_say_is_not_said_to_fail(box):
    patient = Patient(box, *DURABLE)
    patient.set('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-publish', '~*', '&*')
    [found] = patient.see_all(user='bob:secret@')[1]
    contains(found['finding'], 'may not call what our scripts do: publish')
    contains(found['consequence'], 'are not woken')
    assert 'fails' not in found['consequence'], found
    patient.set('ACL', 'SETUSER', 'bob', '-rpush')
    [found] = patient.see_all(user='bob:secret@')[1]
    contains(found['finding'], 'may not call what our scripts do: publish rpush')
    contains(found['consequence'], 'what needs them fails')
    patient.set('ACL', 'SETUSER', 'bob', '+@all', 'resetchannels', '&holdfast:*')
    [found] = patient.see_all(user='bob:secret@', name='app')[1]
    contains(found['finding'], 'may not listen to the channels')
    contains(found['consequence'], 'are not woken')
    assert 'HF_DENIED' not in found['consequence'], found


@test
def what_a_user_may_not_say_in_a_cluster_is_a_finding(box):
    cluster = start_cluster(box)
    url = cluster.url.replace('//', '//bob:secret@')
    for lacks in 'publish', 'spublish':
        for node in cluster.nodes:
            equal(node.ask('ACL', 'SETUSER', 'bob', 'reset', 'on', '>secret', '+@all',
                           f'-{lacks}', '~*', '&*'), b'+OK\r\n')
        said = json.loads(box.run('-e', url, 'doctor', '--json').out)
        found = [each for each in said if 'our scripts do' in each.get('finding', '')]
        equal([each['cure'] for each in found], [f'ACL SETUSER ... +{lacks}'])
        contains(found[0]['consequence'], 'are not woken')


@test
def what_only_doctor_needs_is_a_finding_too(box):
    patient = Patient(box, *DURABLE)
    for right, finding in (('unsubscribe', 'UNSUBSCRIBE'), ('evalsha', 'EVALSHA'),
                           ('config', 'CONFIG GET')):
        patient.set('ACL', 'SETUSER', 'bob', 'reset', 'on', '>secret', '+@all', f'-{right}',
                    '~*', '&*')
        facts, findings = patient.see_all(user='bob:secret@')
        only([each['finding'] for each in findings], f'this user may not use {finding}')
        contains(facts['lock + unlock'], 'NOPERM' if right == 'evalsha' else 'us median')
        contains(findings[0]['cure'], f'+{right}')


@test
def who_may_not_wait_for_replicas_is_found(box):
    patient, cluster = Patient(box, *DURABLE), start_cluster(box)
    let_bob(patient, '~*', '&*', '-wait')
    found = see_rights(patient, options='?sync=1')
    only(found, 'this user may not use WAIT: ACL SETUSER ... +wait')
    equal(see_rights(patient), [])
    for node in cluster.nodes:
        equal(node.ask('ACL', 'SETUSER', 'bob', 'on', '>secret', '+@all', '-wait', '~*', '&*'),
              b'+OK\r\n')
    patient.server.url = cluster.url
    contains('\n'.join(see_rights(patient, options='?sync=1')), found[0])


# How newer servers put it.
REWORDED = {b'NOPERM this user has no permissions to access one of the keys used as arguments':
            b'NOPERM No permissions to access a key',
            b'NOPERM this user has no permissions to access one of the channels used as arguments':
            b'NOPERM No permissions to access a channel'}


def see_rights(patient, name=None, options=''):
    """What is found of a user who may call everything: each finding and its cure, in one line.
    These servers have no replicas, whatever sync waits for."""
    return [each['finding'] + ': ' + each['cure']
            for each in patient.see_all(user='bob:secret@', options=options, name=name)[1]
            if 'more replicas than follow' not in each['finding']]


def is_limited(found, whose, needs='~NAME ~{NAME}:* ~redisson_*{NAME}* ~holdfast_*{NAME}* '
               '&redisson_*{NAME}* &holdfast:*'):
    only(found, f'this user may use the {whose} of some names only: run `holdfast doctor NAME` '
         'with a name that your program locks; a user needs ')
    assert found[0].endswith(f' a user needs {needs} for it'), found


# What the manual says that a user needs for one name.
KEYS = ('~app', '~{app}:*', '~redisson_*{app}*', '~holdfast_*{app}*')
CHANNELS = ('&redisson_*{app}*', '&holdfast:*')


def let_bob(patient, *rights):
    patient.set('ACL', 'SETUSER', 'bob', 'reset', 'on', '>secret', '+@all', *rights)


@test
def a_user_of_some_names_is_sent_for_one(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, *KEYS, *CHANNELS)
    is_limited(see_rights(patient), 'keys and channels')
    let_bob(patient, *KEYS, *CHANNELS, '&redisson_lock__channel:{holdfast}:sync')
    is_limited(see_rights(patient, options='?sync=1'), 'keys and channels',
               '~NAME ~{NAME}:* ~redisson_*{NAME}* ~holdfast_*{NAME}* &redisson_*{NAME}* '
               '&holdfast:* &redisson_lock__channel:{holdfast}:sync')
    is_limited(see_rights(patient, options='?format=simple'), 'keys',
               '~NAME ~redisson_lock_token:{NAME}')
    url = patient.server.url
    patient.server.url = Passer(patient.server.port, REWORDED).url
    found = see_rights(patient)
    contains(found.pop(0), 'the server hears from')
    is_limited(found, 'keys and channels')
    patient.server.url = url
    let_bob(patient, '~*', *CHANNELS)
    is_limited(see_rights(patient), 'channels')
    prefixes = '~redisson_*', '~holdfast_*', '~{*}:*'
    for few in ('~orders*',), ('~redisson_*',), (*prefixes, '~orders*'):
        let_bob(patient, *few, '&*')
        is_limited(see_rights(patient), 'keys')


@test
def a_name_that_a_user_may_use_is_healthy(box):
    patient = Patient(box, *DURABLE)
    box.expect(0, '-e', patient.server.url, 'run', 'orders', 'true')
    let_bob(patient, *KEYS, *CHANNELS)
    holder = box.expect(0, '-e', patient.server.url, 'lock', '-t', '1h', 'app').out.strip()
    facts, findings = patient.see(code=0, user='bob:secret@', name='app')
    equal(findings, [])
    equal(facts['in use'], '1 held, 0 waiting, of this name')
    contains(facts['lock + unlock'], 'us median')
    url = patient.server.url.replace('//', '//bob:secret@')
    contains(box.expect(0, '-e', url, 'doctor', 'app').out, 'Nothing endangers')
    box.expect(0, '-e', url, 'unlock', 'app', holder)
    for words in (('-F',), ('-s',), ('-W',), ()):
        box.expect(0, '-e', url, 'run', *words, 'app', 'true')
    patient.server.ask('DEL', 'app')
    box.expect(0, '-e', url, 'sem', 'app', 'set', '2')
    box.expect(0, '-e', url, 'run', '-j', '2', 'app', 'true')
    patient.server.ask('DEL', 'app', 'holdfast_kind:{app}')
    box.expect(0, '-e', url, 'latch', 'app', 'set', '1')
    box.expect(0, '-e', url, 'latch', 'app', 'down')
    equal(patient.see(code=0, user='bob:secret@', name='app')[1], [])
    let_bob(patient, *KEYS, *CHANNELS, '-rpush')
    only(patient.see(user='bob:secret@', name='app')[1], 'may not call what our scripts do: rpush')


@test
def memory_that_is_full_is_seen_with_a_name(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, *KEYS, *CHANNELS)
    patient.set('CONFIG', 'SET', 'maxmemory', '100kb')
    only(patient.see(user='bob:secret@', name='app')[1], 'memory is full')


@test
def what_lacks_for_a_name_is_named(box):
    patient = Patient(box, *DURABLE)
    for lacks in KEYS:
        let_bob(patient, *(each for each in KEYS if each != lacks), *CHANNELS)
        found = see_rights(patient, 'app')
        only(found, 'this user may not use all keys of "app": ACL SETUSER ... ')
        assert found[0].endswith(f' ... {lacks}'), found
    let_bob(patient, '~app', *CHANNELS)
    contains(see_rights(patient, 'app')[0], '... ~{app}:* ~redisson_*{app}* ~holdfast_*{app}*')
    let_bob(patient, *KEYS, '&holdfast:*')
    found = see_rights(patient, 'app')
    only(found, 'this user may not listen to the channels of "app": ')
    assert found[0].endswith(': ACL SETUSER ... &redisson_*{app}*'), found
    let_bob(patient, *KEYS, '&redisson_*{app}*')
    only(see_rights(patient, 'app'), 'a channel of its own: ACL SETUSER ... &holdfast:*')
    let_bob(patient, *KEYS, *CHANNELS)
    found = see_rights(patient, 'app', '?sync=1')
    only(found, 'this user may not publish what sync needs to say to replicas: ')
    assert found[0].endswith(' +publish &redisson_lock__channel:{holdfast}:sync'), found


@test
def who_is_refused_a_name_is_sent_to_doctor(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, '~orders', '&*')
    url = patient.server.url.replace('//', '//bob:secret@')
    for words in ('show', 'app'), ('try', 'app', 'true'), ('break', '-y', 'app'):
        for options in '', '?format=simple':
            said = box.expect(77, '-e', url + options, *words).err
            contains(said, ': "app": this user needs the keys ~NAME ')
            contains(said, '; `holdfast doctor NAME` says what lacks: NOPERM ')


@test
def a_name_of_plain_locks_needs_less(box):
    patient = Patient(box, *DURABLE)
    needs = '~app', '~redisson_lock_token:{app}'
    for lacks in needs:
        let_bob(patient, *(each for each in needs if each != lacks))
        found = see_rights(patient, 'app', '?format=simple')
        only(found, 'this user may not use all keys of "app": ')
        assert found[0].endswith(f' ... {lacks}'), found
    let_bob(patient, *needs)
    equal(see_rights(patient, 'app', '?format=simple'), [])
    # No other lock is measured, and what that would need is nothing that lacks.
    for fsync in 'always', 'no':
        patient.set('CONFIG', 'SET', 'appendfsync', fsync)
        equal(patient.see(user='bob:secret@', options='?format=simple', name='app')[0]
              ['lock + unlock'],
              'not measured: it takes a lock of another name, which this user may not have')
    url = patient.server.url.replace('//', '//bob:secret@') + '?format=simple'
    # Another client's text may be a number, as a semaphore is.
    for text in 'mine', '7':
        patient.set('SET', 'app', text, 'PX', '3600000')
        equal(patient.see(user='bob:secret@', name='app', options='?format=simple')[0]['in use'],
              '1 held, 0 waiting, of this name')
        contains(box.expect(0, '-e', url, 'show', 'app').out, 'held')
        box.expect(0, '-e', url, 'break', '-y', 'app')


@test
def a_name_is_no_pattern(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, '&*')
    for name, lacks in (('a*b', '~a\\*b ~{a\\*b}:*'), ('{a}b', '~{a}b ~{a}b:* ~redisson_*{a}b* '),
                        ('a b', '~a?b ~{a?b}:*'), ('n' * 1024, '~NAME ~{NAME}:* ')):
        contains(see_rights(patient, name)[0], f'ACL SETUSER ... {lacks}')
    let_bob(patient, '~{a}b', '~{a}b:*', '~redisson_*{a}b*', '~holdfast_*{a}b*', '&*')
    equal(see_rights(patient, '{a}b'), [])


@test
def a_user_without_limits_is_asked_nothing_about_names(box):
    patient = Patient(box, *DURABLE)
    let_bob(patient, '~*', '&redisson_*', '&holdfast:*')
    for name in None, 'app', 'n' * 1024:
        equal(see_rights(patient, name), [])
        equal(see_rights(patient, name, '?format=simple'), [])


@test
def the_servers_of_a_quorum_are_asked_for_a_name(box):
    patients = [Patient(box, *DURABLE) for _ in range(3)]
    for patient in patients:
        let_bob(patient, '~app', '~redisson_lock_token:{app}')
    let_bob(patients[1], '~app')
    patients[0].server.url = 'quorum:' + ','.join(each.server.url.replace('//', '//bob:secret@')
                                                  for each in patients)
    found = [each['finding'] for each in patients[0].see_all(name='app')[1]]
    only(found, f'127.0.0.1:{patients[1].server.port}: this user may not use all keys of "app"')
    equal(len(patients[0].see_all()[1]), 3)


@test
def a_name_of_a_cluster_is_asked_about_where_it_is(box):
    cluster = start_cluster(box)
    url = cluster.url.replace('//', '//bob:secret@')

    def lacks(name):
        result = box.run('-e', url, 'doctor', '--json', name)
        cures = [each['cure'] for each in json.loads(result.out) if 'finding' in each]
        return [each for each in cures if each.startswith('ACL ')]

    def let_bob_in_a_cluster(name, left_out_at=None):
        for node in cluster.nodes:
            rights = [each.replace('app', name) for each in KEYS + CHANNELS]
            equal(node.ask('ACL', 'SETUSER', 'bob', 'reset', 'on', '>secret', '+@all',
                           *rights[node is left_out_at:]), b'+OK\r\n')

    places = set()
    for name in 'one', 'two', 'three', 'four':
        let_bob_in_a_cluster(name)
        equal(lacks(name), [])
        for node in cluster.nodes:
            let_bob_in_a_cluster(name, left_out_at=node)
            if lacks(name):
                equal(lacks(name), [f'ACL SETUSER ... ~{name}'])
                places.add(node.port)
    assert len(places) > 1, f'all names are at {places}'


@test
def an_applications_value_under_the_name_is_a_finding(box):
    patient = Patient(box, *DURABLE)
    patient.server.ask('SET', 'app', 'tea')
    only(patient.see(name='app')[1], '"app" is a text, and no lock of this format')
    equal(patient.see()[1], [])


main()
