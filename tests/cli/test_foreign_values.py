# SPDX-License-Identifier: Apache-2.0
"""What another program has put where a store keeps a lock's token or number: no token is granted
twice, and what cannot be used is refused by a sentence that names it."""
import json
import subprocess

from clitest import contains, equal, main, test

from databases import Database
from servers import start_etcd, start_memcached, start_redis

EXACT_MAX = 2**53 - 1
# The database's clock, in microseconds, is behind all of these but the first.
LASTS = (-1, EXACT_MAX - 1, EXACT_MAX, EXACT_MAX + 1, 1795610270622553000, 2**63 - 3)
BUSY, WRONG = 75, 64
# How the table writes its kind.
COUNTER = 5
TOO_LARGE = "the lock's token or value in hf_lock is too large"
# Where each way's own statement could go wrong.
EDGES = (EXACT_MAX, LASTS[-1])
# A mutex, a fair one, a writer, a permit.
WAYS = (([], LASTS), (['-F'], EDGES), (['-W'], EDGES), (['-j', '3'], EDGES))


def token(box, url, ways, name):
    return int(box.expect(0, '-e', url, 'try', *ways, name, '--', 'sh', '-c',
                          'echo $HOLDFAST_TOKEN').out)


def check_tokens_in_a_database(box, kind):
    database = Database(box, kind)
    url = database.url()
    for ways, lasts in WAYS:
        name = 'n' + ''.join(ways).strip('-')
        column = f"name = '{name}'" + ('::bytea' if kind == 'postgres' else '')
        for last in lasts:
            token(box, url, ways, name)
            database.sql(f'UPDATE hf_lock SET token = {last} WHERE {column}')
            first = token(box, url, ways, name)
            second = token(box, url, ways, name)
            assert first > last, (kind, ways, last, first)
            assert second > first, (kind, ways, first, second)
            if last > 2**53:
                equal((first, second), (last + 1, last + 2), (kind, ways, last))
        database.sql(f'UPDATE hf_lock SET token = {2**63 - 1} WHERE {column}')
        for _ in range(2):
            refused = database.holdfast('try', *ways, name, '--', 'true')
            equal(refused.code, WRONG, (kind, ways, refused))
            contains(refused.err, TOO_LARGE)
    for value, shown in (-1, '0'), (2**32, str(2**32 - 1)), (2**63 - 1, str(2**32 - 1)):
        database.holdfast('counter', 'v', 'set', '3')
        database.sql(f"UPDATE hf_lock SET value = {value} WHERE kind = {COUNTER}")
        equal(database.holdfast('counter', 'v', 'get').out, shown + '\n', (kind, value))
    refused = database.holdfast('counter', 'v', 'add', '1')
    equal(refused.code, WRONG, (kind, refused))
    contains(refused.err, TOO_LARGE)


# The words of one engine are those of the others.
KIND_WORDS = ((['counter', 'q', 'add'], '"q" is in use as a semaphore, not as a counter'),
              (['latch', 'q', 'set', '2'], '"q" is in use as a semaphore, not as a latch'),
              (['latch', '-n', 'q', 'wait'], 'q'),
              (['sem', 'm', 'set', '2'], '"m" is in use as a mutex, not as a semaphore'),
              (['try', '-s', 'm', '--', 'true'], '"m" is in use as a mutex, not as a read-write'))


def check_kinds_are_named(box, url):
    box.expect(0, '-e', url, 'sem', 'q', 'set', '2')
    holder = box.start('-e', url, 'run', 'm', '--', 'sh', '-c', 'echo; read line; true',
                       stdin=subprocess.PIPE)
    holder.line()
    for words, why in KIND_WORDS:
        contains(box.expect(WRONG, '-e', url, *words).err, why)
    box.expect(0, '-e', url, 'counter', 'z', 'set', '4294967295')
    contains(box.expect(69, '-e', url, 'counter', 'z', 'add').err,
             'counter "z" would exceed 4294967295')
    equal(holder.end().code, 0)


@test
def kind_of_a_name_in_use_is_named_alike(box):
    check_kinds_are_named(box, f'local://{box.path}')
    check_kinds_are_named(box, start_redis(box).url)


@test
def kind_of_a_name_in_use_is_named_alike_in_databases(box):
    for kind in ('postgres', 'mariadb'):
        check_kinds_are_named(box, Database(box, kind).url())


@test
def large_tokens_of_postgres_rise_and_the_last_one_is_refused(box):
    check_tokens_in_a_database(box, 'postgres')


@test
def large_tokens_of_mariadb_rise_and_the_last_one_is_refused(box):
    check_tokens_in_a_database(box, 'mariadb')


@test
def values_that_are_no_numbers_are_refused_at_etcd(box):
    cluster = start_etcd(box)
    numbers = ('rubbish', '-1', '', '4294967296', '99999999999999999999', '1e3', '5x', ' 5')
    for key, words in (('counter', ('counter', 'x', 'add', '1')),
                       ('counter', ('counter', 'x', 'take', '1')),
                       ('counter', ('counter', 'x', 'get')),
                       ('latch', ('latch', 'x', 'down')),
                       ('latch', ('latch', 'x', 'get')),
                       ('permits', ('sem', 'x', 'get')),
                       ('permits', ('try', '-k', '1', 'x', '--', 'true'))):
        # One way to read a number serves all.
        for value in numbers if words[-2] == 'add' else ('', '4294967296', '5x'):
            where = f'holdfast/x/{key}'
            cluster.control('put', '--', where, value)
            result = box.run('-e', cluster.url(), *words)
            equal(result.code, WRONG, (words, value, result))
            contains(result.err, "x")
            equal(cluster.control('get', where, '--print-value-only').stdout, value + '\n')
            cluster.control('del', where)


@test
def items_of_other_programs_at_memcached_are_locks_that_others_hold(box):
    server = start_memcached(box)
    url = f'memcached://127.0.0.1:{server.port}'
    for value in ('rubbish', 'a -5 b', 'a 99999999999999999999 b', 'a 1e3', '', ' ', 'x' * 3000):
        server.ask(f'set hf:x 0 60 {len(value)}\r\n{value}')
        equal(box.run('-e', url, 'try', 'x', '--', 'true').code, BUSY, value)
        shown = json.loads(box.expect(0, '-e', url, 'show', '--json', 'x').out)
        assert 0 < shown[0]['token'] < 2**62, (value, shown)
        box.expect(0, '-e', url, 'break', '-y', 'x')
        assert token(box, url, [], 'x') < token(box, url, [], 'x'), value


if __name__ == '__main__':
    main()
