# SPDX-License-Identifier: Apache-2.0
"""`holdfast gc`, which removes unused names from a database, beside a process that uses one."""
import os
import pathlib
import subprocess
import sys

from clitest import Skip, equal, main, test, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
import sql_servers  # noqa: E402

NAMED = {'mariadb': 'HOLDFAST_MYSQL', 'postgres': 'HOLDFAST_POSTGRES'}
# How many sessions wait for a row that another one has changed.
WAITING = {
    'mariadb': "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
               "WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
    'postgres': "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
}


class Database:
    """A server of the test's own, and one session in it that stays open."""

    def __init__(self, box, kind):
        if os.environ[NAMED[kind]] != 'yes' or sql_servers.missing(kind):
            raise Skip(sql_servers.missing(kind) or f'this build has no engine for {kind}')
        os.chmod(box.path, 0o755)
        self.kind = kind
        self.server = sql_servers.Server(kind, f'{box.path}/{kind}').start()
        self.url = (f'{kind}://{sql_servers.USER}:{sql_servers.PASSWORD}@127.0.0.1:'
                    f'{self.server.port}/{sql_servers.DATABASE}?tls=off')
        self.session = subprocess.Popen(self.client(), stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE)

    def client(self):
        if self.kind == 'mariadb':
            return ['mariadb', '--no-defaults', '-nBN', '-uroot', '-S',
                    f'{self.server.directory}/{sql_servers.MARIADB_SOCKET}', sql_servers.DATABASE]
        return [sql_servers.program('psql'), '-XqtA', '-h', self.server.directory, '-p',
                str(self.server.port), '-U', sql_servers.USER, '-d', sql_servers.DATABASE]

    def say(self, statement):
        """One statement of the open session, which answers one line."""
        self.session.stdin.write(statement + ';\n')
        self.session.stdin.flush()
        return self.session.stdout.readline().strip()

    def ask(self, statement):
        return subprocess.run(self.client(), input=statement + ';\n', text=True, check=True,
                              capture_output=True, timeout=60).stdout.strip()

    def stop(self):
        self.session.communicate()
        self.server.stop()


def wait_for_row(database, count):
    wait_until(lambda: database.ask(WAITING[database.kind]) == str(count), f'{count} wait')


def name_that_comes_into_use_stays(box, kind):
    """The clean-up begins before the hold is there, and comes to the name after it."""
    database = Database(box, kind)
    equal(box.run('-e', database.url, 'run', '-W', 'old', '--', 'true').code, 0)
    database.ask('UPDATE hf_lock SET since_us = 1')
    database.say("BEGIN; SELECT 1 FROM hf_lock WHERE name = 'old' FOR UPDATE")
    writer = box.start('-e', database.url, 'run', '-W', 'old', '--', 'sh', '-c', 'echo; read line',
                       stdin=subprocess.PIPE)
    wait_for_row(database, 1)
    cleaner = box.start('-e', database.url, 'gc')
    wait_for_row(database, 2)
    database.say('COMMIT; SELECT 1')
    writer.line()
    equal(cleaner.end().code, 0)
    mutex = box.run('-e', database.url, 'try', 'old', '--', 'true')
    equal(mutex.code not in (0, None), True, f'a mutex beside a writer: {mutex}')
    equal(box.run('-e', database.url, 'try', '-s', 'old', '--', 'true').code, 75)
    equal(database.ask('SELECT count(*) FROM hf_lock'), '1', 'names')
    equal(writer.end().code, 1)
    equal(box.run('-e', database.url, 'try', 'old', '--', 'true').code, 0, 'what is free')
    database.stop()


@test
def mariadb_name_that_comes_into_use_is_not_cleaned_away(box):
    name_that_comes_into_use_stays(box, 'mariadb')


@test
def postgres_name_that_comes_into_use_is_not_cleaned_away(box):
    name_that_comes_into_use_stays(box, 'postgres')


@test
def unused_name_is_cleaned_away(box):
    for kind in NAMED:
        database = Database(box, kind)
        for mode in ['-W', '-s', '--fair']:
            name = mode.strip('-')
            equal(box.run('-e', database.url, 'run', mode, name, '--', 'true').code, 0, mode)
        equal(box.run('-e', database.url, 'gc').code, 0)
        equal(database.ask('SELECT count(*) FROM hf_lock'), '3', 'used a moment ago')
        database.ask('UPDATE hf_lock SET since_us = 1')
        equal(box.run('-e', database.url, 'gc').code, 0)
        equal(database.ask('SELECT count(*) FROM hf_lock'), '0', 'unused')
        database.stop()


main()
