# SPDX-License-Identifier: Apache-2.0
"""A lock that goes away in the store while the command runs is lost, whatever took it: exit 121."""
import functools
import os
import pathlib
import struct
import subprocess
import sys

from clitest import Skip as CliSkip
from clitest import contains, equal, main, test
from databases import Database
from servers import start_etcd, start_memcached, start_redis

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / 'interop'), str(TESTS / 'interop' / 'zookeeper')]
from keeper import Connection, Keeper, need_a_server, text  # noqa: E402
from sides import Skip  # noqa: E402

DELETE = 2


def expect_loss(box, url, options, take_away):
    """Runs a command that succeeds, and takes its lock away meanwhile."""
    process = box.start('-e', url, 'run', '-t', '60s', *options, 'x', '--', 'sh', '-c',
                        'echo; read line; exit 0', stdin=subprocess.PIPE)
    process.line()
    take_away()
    result = process.end()
    equal(result.code, 121, (url, options, result))
    contains(result.err, "'x' ")
    contains(result.err, ' lost')


@test
def redis_lock_that_is_overwritten_is_121(box):
    server = start_redis(box)
    for query in ('', '?fence=off', '?format=simple'):
        for write in (('SET', 'x', '1'), ('SADD', 'x', '1'), ('LPUSH', 'x', '1')):
            def overwrite():
                server.ask('DEL', 'x')
                server.ask(*write)  # pylint: disable=cell-var-from-loop
            for options in ([],) if query else ([], ['-F'], ['-s'], ['-W']):
                expect_loss(box, server.url + query, options, overwrite)
                server.ask('DEL', 'x')


@test
def redis_lock_that_is_deleted_is_121(box):
    server = start_redis(box)
    for query in ('', '?fence=off', '?format=simple'):
        for forget in (('DEL', 'x'), ('FLUSHALL',)):
            expect_loss(box, server.url + query, [], lambda: server.ask(*forget))


@test
def lock_whose_row_is_deleted_or_another_owners_is_121(box):
    for kind in 'postgres', 'mariadb':
        database = Database(box, kind)
        for words in ('DELETE FROM hf_lock', "UPDATE hf_lock SET owner = 'another'",
                      'DELETE FROM hf_hold'):
            options = ['-W'] if 'hf_hold' in words else []
            expect_loss(box, database.url(), options, functools.partial(database.sql, words))
            database.sql('DELETE FROM hf_lock')


@test
def etcd_lock_whose_key_is_deleted_is_121(box):
    cluster = start_etcd(box)
    for options in ([], ['-F'], ['-s'], ['-W'], ['-j', '2']):
        expect_loss(box, cluster.url(), options,
                    lambda: cluster.control('del', 'holdfast/', '--prefix'))


@test
def memcached_lock_that_is_overwritten_or_forgotten_is_121(box):
    server = start_memcached(box)
    for command in ('set hf:x 0 60 5\r\nother', 'delete hf:x', 'flush_all'):
        expect_loss(box, f'memcached://127.0.0.1:{server.port}', [],
                    functools.partial(server.ask, command))
        server.ask('delete hf:x')


@test
def zookeeper_lock_whose_node_is_deleted_is_121(box):
    try:
        need_a_server()
    except Skip as why:
        raise CliSkip(str(why)) from None
    os.mkdir(box.file('server'))
    server = Keeper(box.file('server'))
    box.processes.append(server)

    def delete():
        node, = server.children('/locks/x')
        with Connection(server.port) as connection:
            connection.ask(DELETE, text(f'/locks/x/{node}') + struct.pack('>i', -1))
    expect_loss(box, f'zk://127.0.0.1:{server.port}/locks', [], delete)


@test
def local_lock_that_is_broken_is_121(box):
    expect_loss(box, 'local:', [], lambda: box.expect(0, 'break', '-y', 'x'))


if __name__ == '__main__':
    main()
