# SPDX-License-Identifier: Apache-2.0
"""doctor leaves each store as it has found it: what is in it is listed before and after."""
import os
import struct

from clitest import contains, equal, main, test, wait_until

from databases import Database, for_both
from patients import start_cluster
from servers import start_etcd, start_memcached, start_redis, start_zookeeper
from zookeeper.keeper import Connection, text

CREATE = 1

LAYOUTS = ('', '?layout=method_lock', '?layout=common_lock', '?layout=shedlock',
           '?layout=laravel', '?layout=symfony', '?layout=int_lock')


def stays_as_it_is(box, url, listing, what=''):
    """Also without a lock of another program in it."""
    for words in ([], ['try', 'theirs', '--', 'true']):
        if words:
            box.expect(0, '-e', url, *words)
        before = listing()
        result = box.run('-e', url, 'doctor')
        equal(result.code in (0, 1), True, result)
        contains(result.out, 'us median')
        equal(listing(), before, (url, what, words))


def nodes_below(keeper, path=''):
    """All paths but the server's own."""
    found = []
    for name in keeper.children(path or '/'):
        if f'{path}/{name}' != '/zookeeper':
            found += [f'{path}/{name}', *nodes_below(keeper, f'{path}/{name}')]
    return found


@test
def redis_is_left_as_it_was(box):
    server = start_redis(box)
    for options in ('', '?fence=off', '?format=simple', '?prefix=p/', '?sync=0'):
        stays_as_it_is(box, server.url + options, lambda: sorted(server.ask('KEYS', '*').split()))


@test
def redis_cluster_is_left_as_it_was(box):
    cluster = start_cluster(box)
    url = f'redis+cluster://127.0.0.1:{cluster.nodes[0].port}'
    stays_as_it_is(box, url, lambda: [sorted(node.ask('KEYS', '*').split())
                                      for node in cluster.nodes])


@test
def quorum_is_left_as_it_was(box):
    servers = [start_redis(box) for _ in range(3)]
    stays_as_it_is(box, 'quorum:' + ','.join(server.url for server in servers),
                   lambda: [sorted(server.ask('KEYS', '*').split()) for server in servers])


@test
def memcached_is_left_as_it_was(box):
    # What counts the server's seconds is made by each connection.
    for options in ('', '?format=symfony', '?format=laravel', '?format=tooz'):
        server = start_memcached(box)

        def keys(server=server):
            said = server.ask('lru_crawler metadump all').split(b'\n')
            return sorted(line.split()[0] for line in said if line.startswith(b'key=')
                          and not line.startswith(b'key=%25hf.'))
        url = f'memcached://127.0.0.1:{server.port}{options}'
        result = box.run('-e', url, 'doctor')
        contains(result.out, 'us median')
        wait_until(lambda keys=keys: keys() == [], f'nothing is left: {options}')


@test
def etcd_is_left_as_it_was(box):
    cluster = start_etcd(box)
    stays_as_it_is(box, cluster.url(),
                   lambda: (cluster.control('get', '', '--prefix').stdout,
                            cluster.control('lease', 'list').stdout))


@test
def zookeeper_is_left_as_it_was(box):
    keeper = start_zookeeper(box)
    for path in ('', '/made/for/it'):
        stays_as_it_is(box, f'zk://127.0.0.1:{keeper.port}{path}', lambda: nodes_below(keeper))
    # The path of the URL is an empty node that another program has made, and stays.
    with Connection(keeper.port) as connection:
        connection.ask(CREATE, text('/empty') + text('') + struct.pack('>ii', 1, 31) +
                       text('world') + text('anyone') + struct.pack('>i', 0))
    before = nodes_below(keeper)
    contains(before, '/empty')
    contains(box.run('-e', f'zk://127.0.0.1:{keeper.port}/empty', 'doctor').out, 'us median')
    equal(nodes_below(keeper), before)


@test
def state_file_of_this_machine_has_no_more_names(box):
    url = f'local://{box.path}/here'
    os.mkdir(box.file('here'), 0o700)
    box.expect(0, '-e', url, 'try', 'theirs', '--', 'true')
    process = box.start('-e', url, 'doctor')
    name = f'holdfast-doctor/{process.pid}'
    equal(process.end().code, 0)
    shown = box.expect(0, '-e', url, 'show', '--json', name).out
    equal('"token":0' in shown or '"token"' not in shown, True, shown)
    contains(box.expect(0, '-e', url, 'show', '--json', 'theirs').out, '"token":')


@for_both
def tables_are_left_as_they_were(box, database):
    for options in LAYOUTS:
        equal(database.holdfast('schema', 'create', options=options).code, 0)
        printed = database.holdfast('schema', 'print', options=options).out
        tables = [line.split()[5] for line in printed.split('\n')
                  if line.startswith('CREATE TABLE')]
        stays_as_it_is(box, database.url(options),
                       lambda tables=tables: [database.sql(f'SELECT * FROM {table}')
                                              for table in tables])


@for_both
def row_that_may_not_be_deleted_is_not_made(box, database):
    options = '?layout=shedlock'
    equal(database.holdfast('schema', 'create', options=options).code, 0)
    user = "few@'%'" if database.kind == 'mariadb' else 'few'
    database.sql(f"CREATE USER {user} IDENTIFIED BY 'words'" if database.kind == 'mariadb' else
                 "CREATE ROLE few LOGIN PASSWORD 'words'")
    database.sql(f'GRANT SELECT, INSERT, UPDATE ON shedlock TO {user}')
    result = box.run('-e', database.url(options, user='few:words'), 'doctor')
    equal(result.code, 0, result)
    contains(result.out, 'not measured: what a lock leaves at the store may not be removed')
    equal(database.sql('SELECT * FROM shedlock'), '')
    box.expect(0, '-e', database.url(options, user='few:words'), 'try', 'x', '--', 'true')


main()
