# SPDX-License-Identifier: Apache-2.0
"""Database servers for tests of the command, ended with a test's other processes."""
import os
import pathlib
import subprocess
import sys

from clitest import Skip, test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from sql_servers import (DATABASE, MARIADB_SOCKET, PASSWORD, USER,  # noqa: E402
                         Server, cluster_missing, missing, program, start_cluster)

SCHEMES = {'mariadb': 'mariadb', 'postgres': 'postgres', 'pgbouncer': 'postgres'}
ENGINES = {'mariadb': 'HOLDFAST_MYSQL', 'postgres': 'HOLDFAST_POSTGRES',
           'pgbouncer': 'HOLDFAST_POSTGRES'}


class Database:
    """A server of one of the kinds; `behind`: what a pooler is put before."""

    def __init__(self, box, kind, *options, behind=None):
        if os.environ[ENGINES[kind]] != 'yes':
            raise Skip(f'this build has no engine for {kind}')
        if missing(kind):
            raise Skip(missing(kind))
        os.chmod(box.path, 0o755)
        self.box, self.kind = box, kind
        place = box.file(f'{kind}-{len(box.processes)}')
        more = [str(behind.server.port)] if behind else []
        self.server = Server(kind, place, *more, *options).start()
        box.processes.append(self.server)

    @classmethod
    def nodes(cls, box):
        """Those of a Galera cluster."""
        if os.environ[ENGINES['mariadb']] != 'yes' or cluster_missing():
            raise Skip(cluster_missing() or 'this build has no engine for mariadb')
        os.chmod(box.path, 0o755)
        servers = start_cluster(box.file('galera'))
        box.processes.extend(servers)
        return [cls.of(box, 'mariadb', server) for server in servers]

    @classmethod
    def of(cls, box, kind, server):
        database = cls.__new__(cls)
        database.box, database.kind, database.server = box, kind, server
        return database

    def url(self, options='', user=f'{USER}:{PASSWORD}', database=DATABASE):
        return (f'{SCHEMES[self.kind]}://{user}@127.0.0.1:{self.server.port}/{database}'
                f'{options}')

    def holdfast(self, *words, options='', **more):
        return self.box.run('-e', self.url(options), *words, **more)

    def client(self, text, user=None):
        """The words of the database's own client, as its owner by default."""
        if self.kind == 'mariadb':
            return (['mariadb', '--no-defaults', '-BN', '-u', user or 'root', '-S',
                     f'{self.server.directory}/{MARIADB_SOCKET}', DATABASE, '-e', text])
        return ([program('psql'), '-h', self.server.directory, '-p', str(self.server.port), '-U',
                 user or 'postgres', '-d', DATABASE, '-v', 'ON_ERROR_STOP=1', '-Atqc', text])

    def script(self, text):
        """Gives it to the database's own client, as a user does with a file."""
        done = subprocess.run(self.client('')[:-2], input=text,
                              text=True, check=False, capture_output=True, timeout=60)
        assert done.returncode == 0, (text, done.stderr)

    def try_sql(self, text, user=None):
        return subprocess.run(self.client(text, user), text=True, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60)

    def sql(self, text, user=None):
        done = self.try_sql(text, user)
        assert done.returncode == 0, (text, done.stderr)
        return done.stdout.strip()


def for_both(scene):
    """A test for each kind of database, with a server of its own."""
    for kind in ('mariadb', 'postgres'):
        def played(box, kind=kind):
            scene(box, Database(box, kind))
        played.__name__ = f'{kind}_{scene.__name__}'
        test(played)
    return scene
