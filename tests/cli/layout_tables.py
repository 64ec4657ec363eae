# SPDX-License-Identifier: Apache-2.0
"""Lock tables of other programs for tests of the command: one that holdfast has made, and rows of
other libraries in it."""
import hashlib
import subprocess
import uuid

from clitest import equal, test

from databases import Database

BUSY = 75
KINDS = ('mariadb', 'postgres')
DESC = {'mariadb': '`desc`', 'postgres': '"desc"'}
HOUR_AGO = {'mariadb': 'NOW() - INTERVAL 1 HOUR', 'postgres': "LOCALTIMESTAMP - interval '1 hour'"}
UTC = {'mariadb': 'UTC_TIMESTAMP(6)', 'postgres': "timezone('utc', clock_timestamp())"}
UNIX = {'mariadb': 'UNIX_TIMESTAMP()', 'postgres': 'extract(epoch FROM clock_timestamp())::int'}


class Table:
    """A database with one layout's table, which holdfast has made."""

    def __init__(self, box, kind, layout, more=''):
        self.box, self.kind, self.options = box, kind, f'?layout={layout}{more}'
        self.database = Database(box, kind)
        self.sql = self.database.sql
        self.use(layout, more)

    def use(self, layout, more=''):
        self.options = f'?layout={layout}{more}'
        equal(self.holdfast('schema', 'create').code, 0)

    def holdfast(self, *words):
        return self.database.holdfast(*words, options=self.options)

    def run(self, name):
        return self.holdfast('try', name, '--', 'true').code

    def while_held(self, name, query):
        """What the query answers while holdfast holds the lock."""
        holder = self.box.start('-e', self.database.url(self.options), 'run', name, '--', 'sh',
                                '-c', 'echo; read line; true', stdin=subprocess.PIPE)
        holder.line()
        seen = self.sql(query).split('\t' if self.kind == 'mariadb' else '|')
        equal(self.run(name), BUSY)
        equal(holder.end().code, 0)
        return seen

    def insert_by_hand(self, name, desc='by hand', update_time=None):
        column, value = (', update_time', f', {update_time}') if update_time else ('', '')
        self.sql(f"INSERT INTO method_lock (method_name, {DESC[self.kind]}{column}) "
                 f"VALUES ('{name}', '{desc}'{value})")


def for_both(scene):
    for kind in KINDS:
        def played(box, kind=kind):
            scene(box, kind)
        played.__name__ = f'{kind}_{scene.__name__}'
        test(played)
    return scene


def foreign_rows(kind):
    """By layout: a row of the name "job" with an end, which is %s."""
    name = b'job'
    utc = {'mariadb': 'UTC_TIMESTAMP(6) + INTERVAL {} SECOND',
           'postgres': "timezone('utc', clock_timestamp()) + {} * interval '1 second'"}[kind]
    key = {'mariadb': '`key`', 'postgres': 'key'}[kind]
    unix = UNIX[kind] + ' + {}'
    key_id = hashlib.sha256(name).hexdigest()
    lock_key = uuid.UUID(bytes=hashlib.md5(name).digest(), version=3)
    return {
        'shedlock': f"INSERT INTO shedlock (name, lock_until, locked_at, locked_by) "
                    f"VALUES ('job', {utc}, {UTC[kind]}, 'app-1')",
        'laravel': f"INSERT INTO cache_locks ({key}, owner, expiration) "
                   f"VALUES ('job', 'Xy12', {unix})",
        'symfony': f"INSERT INTO lock_keys (key_id, key_token, key_expiration) "
                   f"VALUES ('{key_id}', 'c2VjcmV0', {unix})",
        'int_lock': f"INSERT INTO INT_LOCK (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, "
                    f"EXPIRED_AFTER) VALUES ('{lock_key}', 'DEFAULT', "
                    f"'00000000-0000-0000-0000-000000000001', {UTC[kind]}, {utc})",
    }
