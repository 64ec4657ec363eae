# SPDX-License-Identifier: Apache-2.0
"""doctor on memcached servers with something wrong with them."""
import json
import os
import random
import signal
import socket
import subprocess

from clitest import Skip, contains, equal, main, test, wait_until

from nothing_left import stop_child
from servers import Memcached, start_memcached
from sides import die_with_parent


def see(box, *servers, code=1):
    """The facts as pairs, and the findings' ids; code: the exit code with findings."""
    url = 'memcached://' + ','.join(f'127.0.0.1:{server.port}' for server in servers)
    result = box.run('-e', url, 'doctor', '--json')
    said = json.loads(result.out)
    findings = [each for each in said if 'finding' in each]
    equal(result.code, code if findings else 0, 'the exit code')
    for each in findings:
        assert each['consequence'] and each['cure'] and each['id'], each
    return ([(each['fact'], each['value']) for each in said if 'fact' in each],
            [each['id'] for each in findings])


@test
def server_of_the_default_kind_evicts_and_is_open(box):
    facts, findings = see(box, start_memcached(box))
    equal(findings, ['evicts', 'restarted', 'open-to-all'])
    contains(dict(facts)['server'], 'memcached 1.6.')
    contains(dict(facts)['locks'], 'advisory')


@test
def server_for_locks_alone_has_only_begun(box):
    equal(see(box, start_memcached(box, '-M', '-l', '127.0.0.1'))[1], ['restarted'])
    server = start_memcached(box, '-l', '127.0.0.1', '-o', 'temporary_ttl=61')
    equal(see(box, server)[1], ['restarted'])
    server = start_memcached(box, '-l', '127.0.0.1', '-o', 'temporary_ttl=5')
    equal(see(box, server)[1], ['evicts', 'restarted'])


@test
def evictions_are_counted(box):
    server = start_memcached(box, '-l', '127.0.0.1')
    value = 'x' * 900000
    for number in range(30):
        with socket.create_connection(('127.0.0.1', server.port)) as stream:
            stream.sendall(f'set n{number} 0 0 {len(value)}\r\n{value}\r\n'.encode())
            stream.recv(100)
    equal(see(box, server)[1], ['evicts', 'has-evicted', 'restarted'])


@test
def each_of_several_servers_is_asked(box):
    first, second = (start_memcached(box, '-M', '-l', '127.0.0.1') for _ in range(2))
    facts, findings = see(box, first, second)
    equal([what for what, _ in facts].count('server'), 2)
    equal(findings, ['restarted', 'restarted'])
    second.stop()
    assert 'server-silent' in see(box, first, second)[1]


def lock_at(box, *places):
    """Locks so many names that each of the servers has some."""
    names = [word for number in range(16) for word in ('-l', f'name{number}')]
    result = box.run('-e', 'memcached://' + ','.join(places), 'run', *names, '--', 'true')
    equal(result.code, 0, 'the exit code')


@test
def clients_with_other_lists_of_servers_are_reported(box):
    first, second = (start_memcached(box, '-M', '-l', '127.0.0.1') for _ in range(2))
    places = [f'127.0.0.1:{server.port}' for server in (first, second)]
    lock_at(box, *places)
    equal(see(box, first, second)[1], ['restarted', 'restarted'])
    equal(see(box, second, first)[1], ['restarted', 'restarted'])
    equal(see(box, first)[1], ['restarted', 'lists-differ'])
    lock_at(box, places[0])
    equal(see(box, first, second)[1], ['restarted', 'lists-differ', 'restarted'])
    result = box.run('-e', f'memcached://127.0.0.1:{first.port}', 'doctor', '--json')
    contains(result.out, f'127.0.0.1:{first.port},127.0.0.1:{second.port}')


@test
def client_that_only_looks_leaves_no_list_of_servers(box):
    first, second = (start_memcached(box, '-M', '-l', '127.0.0.1') for _ in range(2))
    both = f'memcached://127.0.0.1:{first.port},127.0.0.1:{second.port}'
    equal(see(box, first, second)[1], ['restarted', 'restarted'])
    equal(box.run('-e', both, 'show').code, 0, 'the exit code')
    for number in range(8):
        box.run('-e', both, 'show', f'name{number}')
        box.run('-e', both, 'break', f'name{number}')
    equal([server.ask('mg %hf.lists') for server in (first, second)], [b'EN\r\n', b'EN\r\n'])
    lock_at(box, f'127.0.0.1:{first.port}')
    equal(see(box, first)[1], ['restarted'])


@test
def many_lists_of_servers_leave_the_server_usable(box):
    server = start_memcached(box, '-M')
    for number in range(12):
        lock_at(box, *(f'127.0.{number}.{end}:{server.port}' for end in range(1, 9)))
    equal(see(box, server)[1], ['restarted', 'lists-differ', 'open-to-all'])
    value = server.ask('mg %hf.lists s')
    assert int(value.split(b' s')[1]) < 1000, value


@test
def cure_of_a_silent_server_is_the_one_that_helps(box):
    with open(box.file('users'), 'w', encoding='ascii') as file:
        file.write('me:right\n')
    closed = start_memcached(box, '-Y', box.file('users'))
    for user, sentence in (('', 'it wants a user'), ('me:wrong@', 'it refuses the user')):
        said = box.run('-e', f'memcached://{user}127.0.0.1:{closed.port}', 'doctor').out
        contains(said, sentence)
        contains(said, 'give a user and a password that it knows')
    with socket.create_server(('127.0.0.1', 0)) as listener:
        process = box.start('-e', f'memcached://127.0.0.1:{listener.getsockname()[1]}', 'doctor')
        stream, _ = listener.accept()
        stream.sendall(b'-ERR what\r\n')
        said = process.end().out
        stream.close()
    contains(said, 'this is none')


class Proxy(Memcached):
    """twemproxy in front of a server."""

    def __init__(self, box, server):
        program = '/usr/sbin/nutcracker'
        if not os.path.exists(program):
            raise Skip('there is no nutcracker')
        self.port = random.randrange(10000, 30000)
        config = os.path.join(box.path, f'proxy-{self.port}.yml')
        with open(config, 'w', encoding='ascii') as file:
            file.write(f'pool:\n  listen: 127.0.0.1:{self.port}\n  hash: fnv1a_64\n'
                       f'  distribution: ketama\n  servers:\n'
                       f'   - 127.0.0.1:{server.port}:1\n')
        self.process = subprocess.Popen(
            [program, '-c', config, '-s', str(random.randrange(30000, 32000)), '-m', '512',
             '-p', config + '.pid', '-o', config + '.log'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)
        box.processes.append(self)
        wait_until(lambda: self.ask('get a').startswith(b'END'), 'the proxy answers')


@test
def proxy_that_knows_no_stats_is_told_from_a_dead_server(box):
    server = start_memcached(box, '-M', '-l', '127.0.0.1')
    proxy = Proxy(box, server)
    equal(see(box, proxy, code=69)[1], ['no-handshake'])
    url = f'memcached://127.0.0.1:{proxy.port}'
    result = box.run('-e', url, 'run', '--wait', '2', '-l', 'x', '--', 'true')
    equal(result.code, 69, 'the exit code')
    contains(result.err, 'as a proxy does')
    stop_child(server.process.pid)
    findings = see(box, server, code=69)[1]
    server.process.send_signal(signal.SIGCONT)
    equal(findings, ['server-silent'])


main()
