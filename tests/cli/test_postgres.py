# SPDX-License-Identifier: Apache-2.0
"""Locks in a PostgreSQL database as a user of the command meets them: first use, faults, names."""
import os
import pathlib
import subprocess
import sys
import tempfile

from clitest import Skip, equal, main, test, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from nothing_left import scratch_place  # noqa: E402
from sql_servers import DATABASE, USER, Server, missing, program  # noqa: E402

FIRST_USERS = 12
HOSTILE = ["'; DROP TABLE hf_lock; --", '$1', '%s', '\\', '"', '\x01\x7f', '\N{SNOWMAN}', ' ',
           'x' * 1024]


class Database:
    """A server, and its URL."""

    def __init__(self):
        if os.environ['HOLDFAST_POSTGRES'] != 'yes' or missing('postgres'):
            raise Skip(missing('postgres') or 'this build has no engine for PostgreSQL')
        self.place = tempfile.TemporaryDirectory(prefix='holdfast-sql-', dir=scratch_place())
        os.chmod(self.place.name, 0o755)
        self.server = Server('postgres', f'{self.place.name}/postgres').start()
        self.url = (f'postgres://{USER}@localhost:{self.server.port}/{DATABASE}'
                    f'?socket={self.place.name}/postgres')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop()
        self.place.cleanup()

    def ask(self, text):
        return subprocess.run(
            [program('psql'), '-h', f'{self.place.name}/postgres', '-p', str(self.server.port),
             '-U', USER, '-d', DATABASE, '-Atc', text],
            check=True, text=True, capture_output=True, timeout=60).stdout.strip()

    def end_sessions(self):
        self.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name LIKE 'holdfast%'")


@test
def postgres_many_first_users_all_have_their_lock(box):
    with Database() as database:
        for _ in range(3):
            users = [box.start('-e', database.url, 'try', f'lock{i % 3}', '--', 'true')
                     for i in range(FIRST_USERS)]
            for user in users:
                result = user.end()
                assert result.code in (0, 75), result
                equal(result.err if result.code == 0 else '', '', result)
            equal(database.ask('SELECT count(*) FROM hf_lock'), '3')
            database.ask('DROP TABLE hf_lock, hf_hold, hf_wait')


@test
def postgres_lock_outlives_a_server_that_is_killed(box):
    with Database() as database:
        holder = box.start('-e', database.url, 'run', 'x', '--', 'sh', '-c', 'echo; read line',
                           stdin=subprocess.PIPE)
        holder.line()
        database.server.stop()
        database.server.start_once()
        equal(box.run('-e', database.url, 'try', 'x', '--', 'true').code, 75)
        equal(holder.end().code != 121, True)
        equal(box.run('-e', database.url, 'run', '-w', '20s', 'x', '--', 'true').code, 0)


@test
def postgres_waiter_whose_session_is_ended_gets_its_turn(box):
    with Database() as database:
        holder = box.start('-e', database.url, 'run', 'x', '--', 'sh', '-c', 'echo; read line',
                           stdin=subprocess.PIPE)
        holder.line()
        waiter = box.start('-e', database.url, 'run', '-w', '60s', 'x', '--', 'true')
        wait_until(lambda: database.ask('SELECT count(*) FROM hf_wait') == '1', 'it waits')
        database.end_sessions()
        holder.end()
        equal(waiter.end().code, 0)
        equal(database.ask('SELECT count(*) FROM hf_wait'), '0')


@test
def postgres_hostile_names_are_names(box):
    with Database() as database:
        for name in HOSTILE:
            equal(box.run('-e', database.url, 'try', name, '--', 'true').code, 0, name)
        equal(database.ask('SELECT count(*) FROM hf_lock'), str(len(HOSTILE)))
        hexed = HOSTILE[0].encode().hex()
        equal(database.ask(f"SELECT count(*) FROM hf_lock WHERE name = '\\x{hexed}'"), '1')


@test
def postgres_without_rights_is_denied_not_busy(box):
    with Database() as database:
        equal(box.run('-e', database.url, 'try', 'x', '--', 'true').code, 0)
        database.ask(f'REVOKE UPDATE ON hf_lock FROM {USER}')
        equal(box.run('-e', database.url, 'try', 'x', '--', 'true').code, 77)


main()
