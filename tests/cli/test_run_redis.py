# SPDX-License-Identifier: Apache-2.0
"""The command on Redis: nested runs, what the command is told, and break at a quorum."""
import os
import pathlib
import signal
import socket
import subprocess
import threading

from clitest import COMMAND, PATIENCE, contains, equal, main, test
from servers import start_redis

# Nobody waits so long whose test is all right.
LONG = f'{PATIENCE / 2}s'
# What a nested run goes by has to hold where the store tells less, too.
STORES = ('', '?format=simple', '?fence=off')


def nested(url, outer, inner, command='run'):
    """The words of `holdfast run OUTER -- holdfast run INNER -- echo inner`: nobody waits."""
    return ('-e', url, command, *outer, '--', COMMAND, '-e', url, 'run', '-w', LONG, *inner, '--',
            'echo', 'inner')


@test
def a_nested_run_of_the_same_name_reenters(box):
    url = start_redis(box).url
    for store in STORES:
        told = box.expect(0, *nested(url + store, ['z'], ['z']))
        equal(told.out, 'inner\n', store)
        script = (f'echo $HOLDFAST_TOKEN; {COMMAND} -e "{url}{store}" run -w {LONG} z -- '
                  f'{COMMAND} -e "{url}{store}" run -w {LONG} z -c \'echo $HOLDFAST_TOKEN\'')
        tokens = box.expect(0, '-e', url + store, 'run', 'z', '-c', script).out.split()
        equal(len(set(tokens)), 1, f'{store}: the tokens {tokens}')
    for outer, inner in (('-s', '-s'), ('-W', '-W'), ('-W', '-s'), ('-F', '-F')):
        told = box.expect(0, *nested(url, [outer, 'z' + outer], [inner, 'z' + outer]))
        equal(told.out, 'inner\n', (outer, inner))
    equal(box.expect(0, *nested(url, ['-l', 'a', '-l', 'b'], ['-l', 'b'])).out, 'inner\n')
    box.expect(0, '-e', url, 'try', 'z', 'true')


@test
def key_before_a_renewal_is_refused_with_both_reasons(box):
    """Only that of the last renewal opens the lock, whose lease has not ended."""
    url = start_redis(box).url
    old = box.expect(0, '-e', url, 'lock', '-t', '1h', 'x').out.strip()
    new = box.expect(0, '-e', url, 'renew', 'x', old).out.strip()
    assert new != old, old
    for verb in 'unlock', 'renew':
        contains(box.expect(121, '-e', url, verb, 'x', old).err,
                 f'"x" is not held under the key {old}: its lease has ended, or a renewal has '
                 'given it another key\n')
    box.expect(0, '-e', url, 'unlock', 'x', new)


@test
def who_may_not_renew_is_told_so(box):
    """The store answers: it is not said to be silent, and what it says is the reason."""
    server = start_redis(box)
    equal(server.ask('ACL', 'SETUSER', 'bob', 'on', '>word', '~*', '&*', '+@all'), b'+OK\r\n')
    url = server.url.replace('//', '//bob:word@')
    process = box.start('-v', '-e', url, 'run', '-t', '9s', 'x', '--', 'sh', '-c',
                        'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done')
    equal(process.line(), 'ready')
    equal(server.ask('ACL', 'SETUSER', 'bob', '-pexpireat'), b'+OK\r\n')
    result = process.end()
    equal(result.code, 121)
    why = f'its lease could not be renewed: Redis at {server.url.split("//")[1]}'
    contains(result.err, f"'x': {why}")
    contains(result.err, f"'x' is about to be lost: {why}")
    contains(result.err, 'command')
    assert 'not answer' not in result.err, result.err


@test
def who_may_not_give_back_is_told_that_he_has_not(box):
    server = start_redis(box)
    equal(server.ask('ACL', 'SETUSER', 'bob', 'on', '>word', '~*', '&*', '+@all', '-hdel'),
          b'+OK\r\n')
    url = server.url.replace('//', '//bob:word@')
    told = box.expect(0, '-e', url, 'try', '-t', '1h', 'x', '--', 'echo', 'ok').err
    contains(told, "'x' was not released, and stays until its lease is over: ")
    contains(told, 'command')
    assert 'not sure' not in told, told
    box.expect(75, '-e', server.url, 'try', 'x', 'true')


class Relay:
    """A way to a server on which the reply to the first request with a word in it waits for the
    client's next request."""

    def __init__(self, box, server, word):
        self.server, self.word, self.was_asked = server, word, False
        self.place = socket.create_server(('127.0.0.1', 0))
        self.url = f'redis://127.0.0.1:{self.place.getsockname()[1]}'
        self.streams = [self.place]
        box.processes.append(self)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client = self.place.accept()[0]
                server = socket.create_connection(('127.0.0.1', self.server.port))
                replies_pass = threading.Event()
                self.streams += [client, server]
                for way in ((client, server, lambda data, it=replies_pass: self.ask(data, it)),
                            (server, client, lambda _, it=replies_pass: it.wait(PATIENCE))):
                    threading.Thread(target=self.carry, args=way, daemon=True).start()
        except OSError:
            pass

    def ask(self, data, replies_pass):
        if self.word in data and not self.was_asked:
            self.was_asked = True
            replies_pass.clear()
        else:
            replies_pass.set()

    @staticmethod
    def carry(source, drain, before):
        try:
            while data := source.recv(65536):
                before(data)
                drain.sendall(data)
            drain.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        for stream in self.streams:
            stream.close()


@test
def rest_of_the_wait_that_is_too_short_for_a_reply_is_busy(box):
    """The first lock is granted. The reply about the second one, which is held, comes too late. On
    a machine that stands still the first one takes the whole wait; a fault fails each time."""
    server = start_redis(box)
    box.expect(0, '-e', server.url, 'lock', '-t', '1h', 'order-2')
    for _ in range(10):
        relay = Relay(box, server, b'order-2')
        ended = box.run('-e', relay.url, 'run', '-w', '499ms', '-l', 'order-1', '-l', 'order-2',
                        '--', 'true')
        if relay.was_asked and ended.code == 75:
            break
    equal(ended.code, 75, ended)
    contains(ended.err, 'order-2')


@test
def a_number_that_nothing_marks_is_not_changed_without_adopt(box):
    server = start_redis(box)
    use = ('-e', server.url)
    server.ask('SET', 'plain', '5')
    for words in (('run', '-k', '2', 'plain', '--', 'true'), ('try', '-j', '5', 'plain', 'true'),
                  ('lock', '-k', '1', 'plain'), ('sem', 'plain', 'set', '7'),
                  ('sem', 'plain', 'rm'), ('counter', 'plain', 'set', '7'),
                  ('counter', 'plain', 'add'), ('counter', 'plain', 'take'),
                  ('counter', 'plain', 'rm'),
                  ('latch', 'plain', 'set', '7'), ('latch', 'plain', 'down')):
        told = box.expect(64, *use, *words).err
        contains(told, "'plain' is a number that nothing marks as a lock's")
        contains(told, '--adopt')
        equal(server.ask('GET', 'plain'), b'$1\r\n5\r\n', words)
        equal(server.ask('EXISTS', 'holdfast_kind:{plain}'), b':0\r\n', words)
    equal(box.expect(0, *use, 'counter', 'plain', 'get').out, '5\n')
    box.expect(0, *use, 'run', '--adopt', '-k', '2', 'plain', '--', 'true')
    box.expect(0, *use, 'counter', '--adopt', 'plain', 'add', '2')
    box.expect(0, *use, 'counter', 'plain', 'take')
    equal(box.expect(0, *use, 'counter', 'plain', 'get').out, '6\n')


@test
def doctor_is_about_the_name_with_the_prefix(box):
    server = start_redis(box)
    equal(server.ask('ACL', 'SETUSER', 'bob', 'on', '>word', 'resetkeys', '~app:*', '~{app:*',
                     '~*{app:*', '&*', '+@all'), b'+OK\r\n')
    url = server.url.replace('//', '//bob:word@')
    box.expect(0, '-e', f'{url}?prefix=app:', 'try', 'x', 'true')
    box.expect(77, '-e', url, 'try', 'x', 'true')
    without = box.run('-e', url, 'doctor', 'x').out
    with_prefix = box.run('-e', f'{url}?prefix=app:', 'doctor', 'x').out
    contains(without, 'keys')
    assert 'x' in without and 'may use the keys' not in with_prefix, (without, with_prefix)


@test
def a_number_is_no_plain_lock(box):
    url = start_redis(box).url
    for kind in ('latch', 'counter'):
        box.expect(0, '-e', url, kind, f'a {kind}', 'set', '3')
        for words in (('run', '-n'), ('run', '-n', '-F'), ('run', '-n', '-s')):
            told = box.expect(64, '-e', url, *words, f'a {kind}', 'true').err
            equal(told, f"holdfast: 'a {kind}' is in use as a {kind}; use it as that, or choose "
                  'another name\n', words)
    box.processes[-1].ask('SET', 'text', 'mine', 'PX', '600000')
    contains(box.expect(64, '-e', url, 'run', '-n', 'text', 'true').err, 'say format=simple')


@test
def what_nobody_can_be_told_of_is_done_once(box):
    server = start_redis(box)
    server.ask('ACL', 'SETUSER', 'mute', 'on', '>word', '~*', 'resetchannels', '+@all')
    url = server.url.replace('//', '//mute:word@')
    for words in (('counter', 'c', 'set', '2'), ('counter', 'c', 'add', '3'),
                  ('counter', 'c', 'take', '1'), ('latch', 'l', 'set', '2'), ('latch', 'l', 'down'),
                  ('sem', 's', 'set', '3'), ('run', '-k', '2', 's', 'true'), ('run', 'm', 'true'),
                  ('run', '-F', 'm', 'true'), ('run', '-s', 'rw', 'true'),
                  ('run', '-W', 'rw', 'true')):
        box.expect(0, '-e', url, *words)
    for name, number in ('c', b'4'), ('l', b'1'), ('s', b'3'):
        equal(server.ask('GET', name), b'$1\r\n' + number + b'\r\n', name)
    box.expect(0, '-e', url, 'latch', 'l', 'down')
    holder = box.expect(0, '-e', url, 'lock', '-t', '1h', 'm').out.strip()
    box.expect(0, '-e', url, 'unlock', 'm', holder)
    box.expect(0, '-e', url, 'lock', '-t', '1h', 'm')
    box.expect(0, '-e', url, 'break', '-y', 'm')
    equal(server.ask('EXISTS', 'l', 'm', 'rw'), b':0\r\n')


@test
def a_semaphore_of_a_stranger_is_not_called_missing(box):
    url = start_redis(box).url
    box.processes[-1].ask('SET', 's3', '4')
    told = box.expect(64, '-e', url, 'sem', 's3', 'get').err
    contains(told, 'or, on Redis, a semaphore that another client made')
    contains(told, 'counter s3 get`')
    assert ' set ' not in told, told
    box.expect(0, '-e', url, 'try', '--adopt', '-k', '2', 's3', 'true')
    equal(box.processes[-1].ask('GET', 's3'), b'$1\r\n4\r\n')


@test
def more_permits_than_are_taken_at_once_are_a_mistake_like_more_than_there_are(box):
    url = start_redis(box).url
    box.expect(0, '-e', url, 'sem', 's', 'set', '20000')
    box.expect(64, '-e', url, 'try', '-k', '20001', 's', 'true')
    contains(box.expect(64, '-e', url, 'try', '-k', '10001', 's', 'true').err, 'take up to 10000')
    box.expect(0, '-e', url, 'try', '-k', '10000', 's', 'true')


@test
def what_has_no_semaphores_says_so(box):
    urls = [start_redis(box).url for _ in range(3)]
    for store in ('quorum:' + ','.join(urls), urls[0] + '?format=simple'):
        contains(box.expect(64, '-e', store, 'sem', 's', 'get').err, 'has no semaphores')


@test
def a_lease_that_is_renewed_wakes_no_guard(box):
    url = start_redis(box).url
    box.expect(7, '-e', url, 'run', '-t', '1s', 'x', '--', 'sh', '-c', 'sleep 3; exit 7')


@test
def a_nested_run_that_wants_more_is_refused(box):
    url = start_redis(box).url
    for outer, inner in ((['-s', 'z'], ['-W', 'z']), (['z'], ['-s', 'z']),
                         (['-l', 'a'], ['-l', 'a', '-l', 'b'])):
        contains(box.expect(64, *nested(url, outer, inner)).err, 'waiting would never end')


@test
def a_nested_run_at_a_quorum_reenters(box):
    servers = [start_redis(box) for _ in range(3)]
    url = 'quorum:' + ','.join(server.url for server in servers)
    equal(box.expect(0, *nested(url, ['z'], ['z'])).out, 'inner\n')


@test
def a_password_that_is_wrong_is_said_to_be_wrong(box):
    server = start_redis(box)

    def refused(user):
        url = server.url.replace('//', f'//{user}')
        said = box.expect(77, '-e', url, 'try', 'x', 'true').err
        assert 's3cret' not in said, said
        return said

    contains(refused(':s3cret@'), 'the URL has a password, and the server has none: ERR ')
    equal(server.ask('CONFIG', 'SET', 'requirepass', 'another'), b'+OK\r\n')
    contains(refused(''), 'it wants a password: NOAUTH ')
    contains(refused(':s3cret@'), ': the password is wrong: WRONGPASS ')
    contains(refused('bob:s3cret@'),
             ': the user name or the password is wrong, or that user is off: WRONGPASS ')


@test
def no_password_of_a_quorum_is_told(box):
    servers = [start_redis(box) for _ in range(3)]
    for number, server in enumerate(servers):
        equal(server.ask('CONFIG', 'SET', 'requirepass', f's3cret{number}'), b'+OK\r\n')
    users = ('', '', 'default')
    url = 'quorum:' + ','.join(server.url.replace('//', f'//{users[number]}:s3cret{number}@')
                               for number, server in enumerate(servers))
    told = box.expect(0, '-e', url, 'run', 'x', '-c',
                      'echo $HOLDFAST_URL; tr "\\0" " " < /proc/$PPID/cmdline; echo; env').out
    assert 's3cret' not in told, told
    equal(told.splitlines()[0], 'quorum:' + ','.join(
        server.url.replace('//', '//default@' if number > 1 else '//')
        for number, server in enumerate(servers)))


@test
def where_no_lock_outlives_its_process_run_is_named(box):
    url = 'quorum:' + ','.join(start_redis(box).url for _ in range(3))
    holder = box.start('-e', url, 'run', 'z', '--', 'sh', '-c', 'echo; sleep 1000')
    holder.line()
    for words in (('lock', 'z'), ('renew', 'z', 'key'), ('unlock', 'z', 'key')):
        told = box.expect(64, '-e', url, *words).err
        contains(told, f"there is no '{words[0]}'; 'holdfast run' keeps one")
    holder.signal(signal.SIGTERM)
    equal(holder.end().code, 128 + signal.SIGTERM)


@test
def another_name_or_store_is_not_held(box):
    one, other = start_redis(box).url, start_redis(box).url
    box.expect(0, '-e', one, 'run', 'z', '--',
               COMMAND, '-e', other, 'run', 'z', '--',
               COMMAND, '-e', one, 'run', 'y', '--',
               COMMAND, '-e', other, 'run', 'z', '--', 'true')


@test
def a_password_is_not_told_but_not_taken_away_either(box):
    server = start_redis(box)
    equal(server.ask('CONFIG', 'SET', 'requirepass', 's3cret'), b'+OK\r\n')
    for user in ('', 'default'):
        url = server.url.replace('//', f'//{user}:s3cret@')
        own = box.expect(0, 'run', 'x', '-c', f'echo $HOLDFAST_URL; {COMMAND} show x',
                         environment={'HOLDFAST_URL': url})
        equal(own.out.splitlines()[0], url)
        contains(own.out, 'mutex')
        told = box.expect(0, '-e', url, 'run', 'x', '-c', 'echo $HOLDFAST_URL').out
        equal(told, server.url.replace('//', f'//{user}@' if user else '//') + '\n')
    for verb in ('run -n y true', 'show'):
        inner = box.expect(64, '-e', url, 'run', 'x', '-c', f'{COMMAND} {verb}')
        contains(inner.err, 'put the URL into $HOLDFAST_URL')
    url = server.url.replace('//', '//:s3cret@')
    pathlib.Path(box.file('url')).write_text(url + '\n', encoding='utf-8')
    for store in (('-e', url), ('--url-file', box.file('url'))):
        for verb in ('run -n y true', 'show', 'sem z set 1'):
            inner = box.expect(77, *store, 'run', 'x', '-c', f'{COMMAND} {verb}')
            contains(inner.err, 'put the URL into $HOLDFAST_URL')
    other = f'{COMMAND} -e {server.url} show; HOLDFAST_URL={server.url.replace("//", "//:x@")} ' \
            f'{COMMAND} show'
    assert 'outer holdfast' not in box.expect(77, '-e', url, 'run', 'x', '-c', other).err, other
    alone = box.expect(77, 'show', environment={'HOLDFAST_URL': server.url})
    assert 'outer holdfast' not in alone.err, alone
    alone = box.expect(64, 'show', environment={'HOLDFAST_URL': 'redis://bob@h'})
    assert 'outer holdfast' not in alone.err, alone


@test
def a_renewal_that_nobody_reads_tells_its_key_all_the_same(box):
    url = start_redis(box).url
    key = box.expect(0, '-e', url, 'lock', '-t', '1h', 'x').out.strip()
    with open('/dev/full', 'wb') as full:
        renewed = subprocess.run([COMMAND, '-e', url, 'renew', '-t', '1h', 'x', key], stdout=full,
                                 stderr=subprocess.PIPE, env=box.environment, text=True,
                                 check=False, timeout=PATIENCE)
    equal(renewed.returncode, 70, renewed)
    box.expect(121, '-e', url, 'unlock', 'x', key)
    box.expect(0, '-e', url, 'unlock', 'x', renewed.stderr.split()[-1])


@test
def break_works_where_the_engine_does_not_show_who_holds(box):
    url = 'quorum:' + ','.join(start_redis(box).url for _ in range(3))
    contains(box.expect(1, '-e', url, 'break', '-y', 'z').err, 'is not held')
    holder = box.start('-e', url, 'run', '-t', '3s', 'z', '--', 'sh', '-c', 'echo; sleep 1000')
    holder.line()
    contains(box.expect(64, '-e', url, 'break', '-y', '--token', '1', 'z').err,
             'does not show which tokens are held')
    contains(box.expect(64, '-e', url, 'break', 'z').err, 'say -y')
    told = box.expect(75, '-e', url, 'try', 'z', 'true').err
    equal(told, "holdfast: 'z' was busy\n")
    contains(box.expect(75, '-e', url, 'run', '-w', '1s', 'z', 'true').err, ' in time')
    contains(box.expect(0, '-e', url, 'break', '-y', 'z').err, 'taken away from 1 holder')
    equal(holder.end().code, 121)


@test
def a_lock_of_the_other_format_is_not_answered_with_the_format_that_was_said(box):
    url = start_redis(box).url
    box.expect(0, '-e', url, 'lock', '-t', '1h', 'x')
    for words in (('try', 'x', 'true'), ('show', 'x'), ('break', '-y', 'x')):
        told = box.run('-e', url + '?format=simple', *words)
        contains(told.err, 'which format=simple is for')
        assert 'is format=simple meant' not in told.err, told


@test
def a_database_that_the_server_does_not_have_is_a_wrong_url(box):
    url = start_redis(box).url
    box.expect(0, '-e', url + '/15', 'run', 'x', 'true')
    for words in (('run', 'x', 'true'), ('lock', 'x'), ('show',), ('doctor',)):
        contains(box.expect(64, '-e', url + '/99', *words).err, 'this server has no database 99')


@test
def namespaces_are_for_local(box):
    result = box.expect(64, '-N', 'blue', '-e', 'redis://127.0.0.1:1', 'run', 'x', 'true')
    contains(result.err, '-N is for local: only')


if __name__ == '__main__':
    main()
