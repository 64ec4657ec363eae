# SPDX-License-Identifier: Apache-2.0
"""show and doctor at stores with very many keys, rows and items of other programs, some of them
large: what is ours is found, in memory that does not grow with what is not."""
import base64
import json
import os
import re
import socket
import threading
import time
import urllib.request

from clitest import contains, equal, file_of, main, test
from databases import Database
from servers import start_etcd, start_memcached

FOREIGN, THREADS, A_TIME = 300_000, 4, 128  # at most so many operations has a transaction of etcd
LARGE, LARGE_SIZE = 12, 1 << 20  # more than a message may have in all
# Of the command, at its peak; it has a quarter of that anyway.
MEMORY_MAX_KIB = (32 << 10) * int(os.environ.get('HOLDFAST_TEST_SLOW', '1'))


def measure(box, *words, codes=(0,)):
    """What the command prints. Its memory is limited."""
    process, peak_kib = box.start(*words), 0
    while process.popen.poll() is None:
        found = re.search(r'VmHWM:\s*(\d+)', file_of(process.pid, 'status'))
        peak_kib = int(found[1]) if found else peak_kib
        time.sleep(0.002)
    done = process.end()
    assert done.code in codes, f'{words}: {done}'
    equal(done.err, '')
    assert 0 < peak_kib < MEMORY_MAX_KIB, f'{words}: {peak_kib} KiB'
    return done.out


def check_shown(box, url, names):
    """All of our locks, and what is said of each by its name."""
    shown = json.loads(measure(box, '-e', url, 'show', '--json'))
    equal(sorted(lock['name'] for lock in shown if lock['holders']), sorted(names))
    for name in names:
        shown = json.loads(measure(box, '-e', url, 'show', '--json', name))
        equal([len(lock['holders']) for lock in shown], [1], name)


def check_doctor(box, url, names):
    """It may find something about the server."""
    said = measure(box, '-e', url, 'doctor', codes=(0, 1))
    assert re.search(rf'in use +{len(names)} held, 0 waiting', said), said


# ---- etcd ----


def put_all(server, pairs):
    """Many in one transaction."""
    def put(first):
        for at in range(first * A_TIME, len(pairs), THREADS * A_TIME):
            puts = [{'request_put': {'key': base64.b64encode(key.encode()).decode(),
                                     'value': base64.b64encode(value).decode()}}
                    for key, value in pairs[at:at + A_TIME]]
            for some in [puts] if len(pairs) > A_TIME else [[put] for put in puts]:
                request = urllib.request.Request(f'http://127.0.0.1:{server.port}/v3/kv/txn',
                                                 json.dumps({'success': some}).encode())
                urllib.request.urlopen(request, timeout=60).close()
    threads = [threading.Thread(target=put, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@test
def etcd_with_many_keys_is_shown_whole(box):
    """Outside of the prefix, in it, and below the name of a lock."""
    cluster = start_etcd(box)
    server, url = cluster.members[0], cluster.url()
    names = ['app', 'first', 'zz/last']
    for name in names:
        box.hold(name, '-e', url)
    put_all(server, [(f'{place}/{i}/text', b'x') for i in range(FOREIGN // 3)
                     for place in ('before', 'holdfast/app', 'holdfast/config')])
    put_all(server, [(f'holdfast/large/{i}/text', b'x' * LARGE_SIZE) for i in range(LARGE)])
    check_shown(box, url, names)
    check_doctor(box, url, names)
    box.expect(0, '-e', url, 'break', '-y', 'app')


# ---- databases ----

ROWS = {
    'postgres': "INSERT INTO {} SELECT {} FROM generate_series(1, {}) AS i",
    'mariadb': "INSERT INTO {} SELECT {} FROM seq_1_to_{} AS s",
}
NAME = {'postgres': "convert_to('free-' || i, 'UTF8')", 'mariadb': "concat('free-', s.seq)"}


def check_database(box, kind):
    """Names that were used once, and rows of other tables."""
    database, names = Database(box, kind), ['app', 'first', 'zz/last']
    url = database.url()
    for name in names:
        box.hold(name, '-e', url)
    box.expect(0, '-e', url, 'try', 'released', '--', 'true')
    database.sql('CREATE TABLE other (name VARCHAR(80))')
    database.sql(ROWS[kind].format('other', NAME[kind], FOREIGN))
    columns = 'kind, waiting, fixed, value, token, since_us, expires_us, owner, info'
    database.sql(ROWS[kind].format(
        f'hf_lock (name, {columns})',
        f"{NAME[kind]}, l.{columns.replace(', ', ', l.')}", FOREIGN)
        + (" CROSS JOIN hf_lock AS l WHERE l.name = 'released'"))
    check_shown(box, url, names)
    check_doctor(box, url, names)


@test
def postgres_with_many_rows_is_shown_whole(box):
    check_database(box, 'postgres')


@test
def mariadb_with_many_rows_is_shown_whole(box):
    check_database(box, 'mariadb')


# ---- memcached ----


def store_all(server, names):
    with socket.create_connection(('127.0.0.1', server.port)) as stream:
        for at in range(0, len(names), 1000):
            stream.sendall(b''.join(f'set {name} 0 0 1 noreply\r\nx\r\n'.encode()
                                    for name in names[at:at + 1000]))
        stream.sendall(b'version\r\n')
        assert stream.recv(100).startswith(b'VERSION')


@test
def memcached_with_many_items_is_shown_whole(box):
    server = start_memcached(box, '-m', '256')
    url, names = f'memcached://127.0.0.1:{server.port}', ['app', 'first', 'zz/last']
    for name in names:
        box.hold(name, '-e', url)
    store_all(server, [f'item-{i}' for i in range(FOREIGN)])
    check_shown(box, url, names)
    check_doctor(box, url, names)


if __name__ == '__main__':
    main()
