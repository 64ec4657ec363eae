# SPDX-License-Identifier: Apache-2.0
"""doctor on ZooKeeper servers with something wrong with them: several things at a time, since each
server costs a second."""
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from clitest import Skip as CliSkip
from clitest import PATIENCE, contains, equal, main, test, wait_until, with_skewed_clock
from patients import Passer

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / 'interop'), str(TESTS / 'interop' / 'zookeeper')]
from keeper import JAR, MAIN, Connection, need_a_server, text  # noqa: E402
from sides import Skip, die_with_parent  # noqa: E402

CREATE, SET_ACL = 1, 7
READ, EVERYTHING = 1, 31
STARTS = 5


def free_port():
    """None that the kernel gives to somebody who only connects."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as listener:
            try:
                listener.bind(('127.0.0.1', port))
            except OSError:
                continue
            return port


def greet(port):
    """A connection of a session, or None: the server allows no more."""
    try:
        return Connection(port)
    except (OSError, struct.error):
        return None


# Milliseconds, for servers that do not find each other at once.
ELECTIONS = 'zookeeper.fastleader.maxNotificationInterval=500'


class Server:
    """One server, which may be one of several."""

    def __init__(self, box, *settings, environment=None, properties=(), port=None, number=0):
        self.port = port or free_port()
        self.directory = tempfile.mkdtemp(prefix='server-', dir=box.path)
        if number:
            os.mkdir(f'{self.directory}/data')
            pathlib.Path(f'{self.directory}/data/myid').write_text(str(number))
        lines = [f'dataDir={self.directory}/data', f'clientPort={self.port}',
                 'clientPortAddress=127.0.0.1', 'admin.enableServer=false',
                 '4lw.commands.whitelist=srvr,conf,cons', *settings]
        pathlib.Path(f'{self.directory}/zoo.cfg').write_text('\n'.join(lines) + '\n')
        self.process = subprocess.Popen(
            ['java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xmx128m',
             '-Dzookeeper.forceSync=no', *(f'-D{each}' for each in properties), '-cp', JAR, MAIN,
             f'{self.directory}/zoo.cfg'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment, preexec_fn=die_with_parent)
        box.processes.append(self)

    def ends(self):
        return self.process.poll() is not None

    def is_ready(self):
        """A server of several may have a mode of its own before they have found each other."""
        said = self.say_srvr()
        return any(b'Mode: ' + mode in said for mode in (b'standalone', b'leader', b'follower'))

    def says(self, part):
        return part in self.say_srvr()

    def say_srvr(self):
        try:
            with socket.create_connection(('127.0.0.1', self.port), timeout=5) as stream:
                stream.sendall(b'srvr')
                said = b''
                while more := stream.recv(4096):
                    said += more
        except OSError:
            return b''
        return said

    def stop(self):
        self.process.kill()
        self.process.wait()


def start(box, make):
    """The servers that `make` answers, when all are ready. Somebody else may have a port of theirs,
    and an election may take very long: then others are tried."""
    try:
        need_a_server()
    except Skip as why:
        raise CliSkip(str(why)) from None
    for _ in range(STARTS):
        servers = make()
        until = time.monotonic() + PATIENCE
        while not any(each.ends() for each in servers) and time.monotonic() < until:
            if all(each.is_ready() for each in servers):
                return servers
            time.sleep(0.05)
        for each in servers:
            each.stop()
    raise AssertionError('the ZooKeeper servers do not start')


def one(box, *settings, **options):
    return start(box, lambda: [Server(box, *settings, **options)])[0]


def see(box, url):
    """The facts as pairs, and the findings."""
    result = box.run('-e', url, 'doctor', '--json')
    said = json.loads(result.out)
    findings = [each for each in said if 'finding' in each]
    assert result.code == (1 if findings else 0), result
    for each in findings:
        assert each['consequence'] and each['cure'] and each['id'], each
    return ([(each['fact'], each['value']) for each in said if 'fact' in each],
            [each['finding'] for each in findings])


def value(facts, name):
    return next((said for what, said in facts if what == name), '')


def consists_of(findings, *parts):
    """Each finding has one of the parts, in this order."""
    equal(len(findings), len(parts), f'the number of {findings}')
    for finding, part in zip(findings, parts):
        contains(finding, part)


@test
def a_server_of_its_own_is_one_too_few(box):
    server = one(box, 'tickTime=2000')
    facts, findings = see(box, f'zk://127.0.0.1:{server.port}/locks')
    consists_of(findings, 'one server decides alone')
    contains(value(facts, 'server'), f'127.0.0.1:{server.port}: ZooKeeper 3.')
    contains(value(facts, 'server'), ', standalone, ')
    contains(value(facts, 'limits'), ': 60 connections from one address (')
    contains(value(facts, 'limits'), '; sessions of 4000 to 40000 ms; messages of 1 MiB')
    equal(value(facts, 'session'), '30000 ms asked for, 30000 ms settled; believed in for 15000 ms')
    equal(value(facts, 'ensemble'), 'one server of its own')
    # The path is made by the first lock; what doctor makes it deletes.
    equal(value(facts, 'its clock'), '')
    box.expect(0, '-e', f'zk://127.0.0.1:{server.port}/locks', 'run', 'first', '--', 'true')
    facts, findings = see(box, f'zk://127.0.0.1:{server.port}/locks')
    contains(value(facts, 'its clock'), "s off this machine's")
    with Connection(server.port) as connection:
        assert connection.ask(CREATE, text('/mine') + struct.pack('>iii', 0, 1, READ) +
                              text('world') + text('anyone') + struct.pack('>i', 0))
        assert connection.ask(CREATE, text('/all') + struct.pack('>iii', 0, 1, EVERYTHING) +
                              text('world') + text('anyone') + struct.pack('>i', 0))
    findings = see(box, f'zk://bob:secret@127.0.0.1:{server.port}/mine')[1]
    consists_of(findings, 'one server decides alone', 'may not make nodes below /mine')
    findings = see(box, f'zk://bob:secret@127.0.0.1:{server.port}/all')[1]
    consists_of(findings, 'one server decides alone', 'any user may make or delete nodes below')


@test
def a_server_that_keeps_its_words_to_itself_is_asked_in_other_ways(box):
    server = one(box, '4lw.commands.whitelist=ruok')
    facts, findings = see(box, f'zk://127.0.0.1:{server.port}')
    consists_of(findings, 'one server decides alone')
    contains(value(facts, 'server'), ': ZooKeeper 3.')
    contains(value(facts, 'limits'), 'its 4lw.commands.whitelist has no conf; messages of 1 MiB')


def make(connection, path, data=b''):
    assert connection.ask(CREATE, text(path) + struct.pack('>i', len(data)) + data +
                          struct.pack('>ii', 1, EVERYTHING) + text('world') + text('anyone') +
                          struct.pack('>i', 0))


def make_node(port, path, data=b''):
    with Connection(port) as connection:
        make(connection, path, data)


@test
def servers_that_demand_a_user_are_denied_and_a_finding(box):
    port = one(box, 'enforce.auth.enabled=true', 'enforce.auth.schemes=digest').port
    url, reason = f'zk://127.0.0.1:{port}', 'it serves authenticated users only'
    for words in ('run', '-w', '5'), ('try',):
        contains(box.expect(77, '-e', url, *words, 'x', '--', 'true').err, reason)
    contains(box.expect(77, '-e', url, 'show').err, reason)
    contains(' '.join(see(box, url)[1]), f'makes no node below /: {reason}')
    url = f'zk://bob:secret@127.0.0.1:{port}'
    box.expect(0, '-e', url, 'try', 'x', '--', 'true')
    assert reason not in ' '.join(see(box, url)[1])


@test
def a_quota_that_is_used_up_is_a_limit_and_a_finding(box):
    port = one(box, 'enforceQuota=true').port
    url, reason = f'zk://127.0.0.1:{port}/q', 'a quota allows no more nodes or bytes'
    for path, data in (('/q', b''), ('/zookeeper/quota/q', b''), (
            '/zookeeper/quota/q/zookeeper_limits',
            b'count=1,bytes=-1=;byteHardLimit=-1;countHardLimit=3'),
                       ('/zookeeper/quota/q/zookeeper_stats', b'count=1,bytes=0')):
        make_node(port, path, data)
    box.hold('y', '-e', url)
    contains(box.expect(69, '-e', url, 'run', '-w', '5', 'y', '--', 'true').err, reason)
    contains(' '.join(see(box, url)[1]), f'makes no node below /q: {reason}')


@test
def limits_that_are_too_low_are_findings(box):
    skewed = with_skewed_clock()
    server = one(box, 'maxClientCnxns=40', 'tickTime=10000', 'maxSessionTimeout=19000',
                 'minSessionTimeout=10000', properties=['jute.maxbuffer=65536'], environment=skewed)
    url = f'zk://127.0.0.1:{server.port}'
    usual = ['takes no messages of 1 MiB', 'one server decides alone',
             '30000 ms were asked for as the length of a session, and 19000 ms settled',
             'fewer than two of the servers\' ticks of 10000 ms', 'clock is 3']
    facts, findings = see(box, url)
    consists_of(findings, *usual)
    contains(value(facts, 'limits'), '; no messages of 1 MiB')
    contains(value(facts, 'its clock'), "ahead of this machine's")
    held = [greet(server.port) for _ in range(34)]
    assert all(held), 'a connection that was not let in'
    consists_of(see(box, url)[1], 'of the 40 connections that', *usual)
    wait_until(lambda: server.says(b'Connections: 35\n'), 'doctor is gone')
    while more := greet(server.port):
        held.append(more)
    equal(len(held), 40, 'the number of connections')
    consists_of(see(box, url + '?timeout=1000')[1],
                'closes connections without a word', 'no session can be had')
    for each in held:
        each.stream.close()


@test
def an_even_ensemble_and_what_is_left_of_it(box):
    def make():
        ports = [free_port() for _ in range(8)]
        # The third one, which only observes, is never started.
        quorum = [f'server.{n}=127.0.0.1:{ports[2 * n]}:{ports[2 * n + 1]}{role}'
                  for n, role in ((1, ''), (2, ''), (3, ':observer'))]
        return [Server(box, *quorum, 'standaloneEnabled=false', 'initLimit=50', 'syncLimit=25',
                       'tickTime=1000', 'maxSessionTimeout=60000' if n == 2 else '', number=n,
                       port=ports[n - 1], properties=['readonlymode.enabled=true', ELECTIONS])
                for n in (1, 2)]
    servers = start(box, make)
    first, second = (f'127.0.0.1:{each.port}' for each in servers)
    facts, findings = see(box, f'zk://{first}')
    text_of_all = ' '.join(findings)
    for part in ('even number of servers votes: 2', 'the URL names one server, of 2',
                 'and 20000 ms settled'):
        contains(text_of_all, part)
    contains(value(facts, 'ensemble'), '2 servers that vote, 1 that observes')
    if '3.8.0' in value(facts, 'server'):
        contains(text_of_all, 'may leave a request unanswered')
        contains(text_of_all, 'may lose what was confirmed')
    findings = ' '.join(see(box, f'zk://{first},{second}')[1])
    contains(findings, 'sessions may be 2000 to ')
    assert 'the URL names one server' not in findings, findings
    servers[1].stop()
    wait_until(lambda: servers[0].says(b'Mode: read-only'), 'the server is cut off')
    facts, findings = see(box, f'zk://{first},{second}?timeout=2000')
    text_of_all = ' '.join(findings)
    for part in (f'{first} is in read-only mode', f'{second} cannot be asked: ',
                 'no session can be had: '):
        contains(text_of_all, part)


class Far(Passer):
    """What the server says comes late. One answer after the other, all of it takes far longer than
    the library's patience (5 s)."""

    def pass_on(self, source, sink):
        if source.getpeername()[1] != self.to:
            super().pass_on(source, sink)
            return
        while said := source.recv(1 << 20):
            time.sleep(0.15)
            sink.sendall(said)


@test
def a_large_store_is_shown_as_long_as_it_answers(box):
    port, empty, held = one(box).port, 2000, 20
    node = '_c_00000000-0000-4000-8000-000000000000-lock-0000000000'
    with Connection(port) as connection:
        make(connection, '/locks')
        make(connection, '/locks/value', b'as long as no count is')
        for i in range(empty):
            make(connection, f'/locks/empty-{i}')
        for i in range(held):
            make(connection, f'/locks/held-{i}')
            make(connection, f'/locks/held-{i}/{node}')
    url = Far(port).url.replace('redis:', 'zk:') + '/locks'
    shown = box.expect(0, '-e', url, 'show')
    equal(len([line for line in shown.out.splitlines() if line.startswith('held-')]), held)
    equal(shown.err, '')
    facts = see(box, f'zk://127.0.0.1:{port}/locks')[0]
    contains(value(facts, 'in use'), f'{held} held')


@test
def a_path_behind_each_host_is_the_path_of_all(box):
    port = one(box).port
    there, other = f'127.0.0.1:{port}', f'localhost:{port}'
    box.hold('nightly', '-e', f'zk://{there}/locks,{other}/locks')
    for url in (f'{other}/locks,{there}/locks', f'{other}/locks,{there}/locks/', f'{there}/locks'):
        box.expect(75, '-e', f'zk://{url}', 'try', 'nightly', '--', 'true')
    box.expect(0, '-e', f'zk://{there}', 'try', 'nightly', '--', 'true')


def say_one_word(listener, stays=True):
    """Answers "srvr", once; whatever else is asked, nothing, or that nobody is there any more."""
    heard, asked = [], b''
    while asked != b'srvr':
        heard.append(listener.accept()[0])
        asked = heard[-1].recv(4)
    with heard.pop() as stream:
        if not stays:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        stream.sendall(b'Zookeeper version: 3.9.4-x, built on\nConnections: 1\nMode: standalone\n')
    while stays:
        heard.append(listener.accept()[0])


@test
def a_server_that_says_nothing_is_no_reason_to_wait_for_ever(box):
    server = one(box)
    with socket.socket() as mute:
        mute.bind(('127.0.0.1', 0))
        mute.listen(8)
        silent = f'127.0.0.1:{mute.getsockname()[1]}'
        url = f'zk://127.0.0.1:{server.port},{silent}?timeout=1000'
        findings = see(box, url)[1]
        contains(' '.join(findings), f'{silent} cannot be asked: it does not answer in time')
        contains(' '.join(findings), 'one server decides alone')
        # A caller waits for a session no longer than a fraction of his patience at each server.
        others = ','.join([silent] * 3)
        findings = see(box, f'zk://{others},127.0.0.1:{server.port}')[1]
        contains(' '.join(findings), f'{silent} cannot be asked: it does not answer in time')
        result = box.run('-e', f'zk://{silent}?timeout=1000', 'doctor')
        equal(result.code, 69, f'the exit status; {result}')
    for stays, why in (True, 'it does not answer in time'), (False, 'connection refused'):
        with socket.create_server(('127.0.0.1', 0)) as terse:
            threading.Thread(target=say_one_word, args=(terse, stays), daemon=True).start()
            named = f'127.0.0.1:{terse.getsockname()[1]}'
            facts, findings = see(box, f'zk://127.0.0.1:{server.port},{named}?timeout=1000')
        assert 'cannot be asked' not in ' '.join(findings), findings
        contains(' '.join(said for what, said in facts if what == 'server'), f'{named}: ZooKeeper')
        contains(' '.join(said for what, said in facts if what == 'limits'),
                 f'{named}: not known: {why}')


main()
