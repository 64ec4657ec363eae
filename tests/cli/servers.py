# SPDX-License-Identifier: Apache-2.0
"""Servers of a test's own, where there can be some: Redis, memcached, etcd, ZooKeeper."""
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys

from clitest import Skip, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'interop'))
import sides  # noqa: E402
from sides import Server, die_with_parent  # noqa: E402
import etcd_server  # noqa: E402
from zookeeper import keeper  # noqa: E402


def need_redis_engine():
    if os.environ['HOLDFAST_REDIS'] != 'yes':
        raise Skip('this build has no engine for Redis')


def need_redis():
    need_redis_engine()
    if not shutil.which('redis-server'):
        raise Skip('there is no redis-server')


def start_redis(box, *options, environment=None):
    """It ends with the test's other processes."""
    need_redis()
    directory = box.file(f'server-{len(box.processes)}')
    os.mkdir(directory)
    server = Server(directory, *options, environment=environment)
    box.processes.append(server)
    return server


class Memcached:
    """A memcached server of a test's own."""

    def __init__(self, box, *options):
        if not shutil.which('memcached'):
            raise Skip('there is no memcached')
        user = ['-u', 'root'] if os.geteuid() == 0 else []
        self.options = ['-U', '0', '-m', '16', *user, *options]
        self.start()
        box.processes.append(self)
        wait_until(self.begins, 'the server answers')

    def start(self):
        self.port = random.randrange(10000, 30000)
        self.process = subprocess.Popen(
            ['memcached', '-p', str(self.port), *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)

    def begins(self):
        """Where the port is another server's, it ends at once, and another port is tried."""
        if self.process.poll() is not None:
            self.start()
        return self.answers() and self.process.poll() is None

    def answers(self):
        return self.ask('version').startswith((b'VERSION', b'CLIENT_ERROR'))

    def ask(self, command):
        try:
            with socket.create_connection(('127.0.0.1', self.port), timeout=5) as stream:
                stream.sendall(command.encode() + b'\r\n')
                return stream.recv(4096)
        except OSError:
            return b''

    def stop(self):
        self.process.kill()
        self.process.wait()


def start_memcached(box, *options):
    return Memcached(box, *options)


def start_etcd(box, **more):
    why = etcd_server.missing()
    if why:
        raise Skip(why)
    if 'knows no scheme' in box.run('show', '-e', 'etcd://none').err:
        raise Skip('this build has no engine for etcd')
    directory = os.path.join(box.path, f'etcd{len(box.processes)}')
    cluster = etcd_server.Cluster(directory, **more)
    box.processes.append(Ending(cluster))
    return cluster


def start_zookeeper(box):
    """Ends with the test's other processes."""
    try:
        keeper.need_a_server()
    except sides.Skip as why:
        raise Skip(str(why)) from None
    if 'knows no scheme' in box.run('show', '-e', 'zk://none').err:
        raise Skip('this build has no engine for ZooKeeper')
    server = keeper.Keeper(box.path)
    box.processes.append(server)
    return server


class Ending:
    """What a box stops at its end."""

    def __init__(self, cluster):
        self.cluster = cluster

    def stop(self):
        self.cluster.end()
