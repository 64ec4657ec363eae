# SPDX-License-Identifier: Apache-2.0
"""What stays in a store when what made it has ended: of objects that were removed, and of clients
that were killed."""
import json
import re
import signal

from clitest import equal, main, test, wait_until

from databases import Database
from servers import start_etcd, start_memcached, start_redis

KINDS = ('postgres', 'mariadb')
LEASE = ('-t', '2s')
WEEK_US, HOUR_US = 8 * 86400 * 10**6, 2 * 3600 * 10**6


def end_each_kind(box, url):
    """A latch that is open, a counter and a semaphore that were removed: their names are free."""
    for words in (['latch', 'l', 'set', '1'], ['latch', 'l', 'down'], ['counter', 'c', 'set', '3'],
                  ['counter', 'c', 'rm'], ['sem', 's', 'set', '2'], ['sem', 's', 'rm']):
        box.expect(0, '-e', url, *words)
    for name in ('l', 'c', 's'):
        box.expect(0, '-e', url, 'try', name, '--', 'true')
    equal(box.expect(0, '-e', url, 'show', '--json').out, '[\n]\n', url)


@test
def names_of_objects_that_have_ended_are_free_on_this_machine(box):
    end_each_kind(box, f'local://{box.path}')


@test
def names_of_objects_that_have_ended_are_free_at_redis(box):
    end_each_kind(box, start_redis(box).url)


@test
def names_of_objects_that_have_ended_are_free_at_etcd(box):
    end_each_kind(box, start_etcd(box).url())


@test
def names_of_objects_that_have_ended_are_free_in_databases(box):
    for kind in KINDS:
        end_each_kind(box, Database(box, kind).url())


# ---- killed clients ----

def start_all(box, url, mutexes_only=False):
    """A holder and a waiter of each kind; without queues, the waiter is not seen."""
    at = ('-e', url, 'run', *LEASE)
    kinds = [[]] if mutexes_only else [[], ['-F'], ['-W'], ['-j', '1']]
    started = []
    for i, ways in enumerate(kinds):
        for words in (['sh', '-c', 'echo; exec sleep 1000'], ['true']):
            process = box.start(*at, *ways, f'n{i}', '--', *words)
            started.append(process)
            if words[0] == 'sh':
                process.line()
    if not mutexes_only:
        box.expect(0, '-e', url, 'latch', 'l', 'set', '1')
        box.expect(0, '-e', url, 'counter', 'c', 'set', '1')
        started += [box.start('-e', url, 'latch', 'l', 'wait'),
                    box.start('-e', url, 'counter', 'c', 'take', '2')]
        wait_until(lambda: living(box, url) == (4, 6), 'all hold or wait')
    return started


def living(box, url):
    shown = json.loads(box.expect(0, '-e', url, 'show', '--json').out)
    return (sum(len(one['holders']) for one in shown), sum(len(one['waiters']) for one in shown))


def kill_all(box, url, mutexes_only=False):
    for process in start_all(box, url, mutexes_only):
        process.signal(signal.SIGKILL)
    wait_until(lambda: living(box, url) == (0, 0), 'none holds or waits')


@test
def killed_clients_leave_rows_to_gc_alone(box):
    for kind in KINDS:
        database = Database(box, kind)
        kill_all(box, database.url())
        database.sql(f'UPDATE hf_lock SET since_us = since_us - {WEEK_US}')
        for table in ('hf_hold', 'hf_wait'):
            database.sql(f'UPDATE {table} SET expires_us = expires_us - {HOUR_US}')
        equal(database.holdfast('gc').code, 0)
        for table in ('hf_hold', 'hf_wait'):
            equal(database.sql(f'SELECT count(*) FROM {table}'), '0', (kind, table))
        equal(database.sql('SELECT count(*) FROM hf_lock WHERE kind NOT IN (4, 5, 6)'), '0', kind)


@test
def killed_clients_leave_objects_and_marks_of_an_hour_at_etcd(box):
    cluster = start_etcd(box)
    kill_all(box, cluster.url())
    keys = cluster.control('get', '', '--prefix', '--keys-only').stdout.split('\n')
    objects = [key for key in keys if key and '\0' not in key]
    equal(objects, ['holdfast/c/counter', 'holdfast/l/latch', 'holdfast/n3/permits'])
    leases = re.findall('^[0-9a-f]{8,}$', cluster.control('lease', 'list').stdout, re.M)
    for lease in leases:
        said = cluster.control('lease', 'timetolive', lease).stdout
        assert int(re.search(r'granted with TTL\((\d+)s\)', said)[1]) <= 3600, said


@test
def killed_clients_leave_what_the_engine_counts_by_at_memcached(box):
    server = start_memcached(box)
    url = f'memcached://127.0.0.1:{server.port}'
    kill_all(box, url, mutexes_only=True)

    def keys():
        said = server.ask('lru_crawler metadump all').decode()
        return sorted(re.findall(r'key=(\S+)', said))
    wait_until(lambda: keys() == ['%25hf.clock', '%25hf.lists'], 'the locks and marks have ended')


if __name__ == '__main__':
    main()
