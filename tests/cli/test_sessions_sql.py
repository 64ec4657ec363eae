# SPDX-License-Identifier: Apache-2.0
"""Sessions at a database that end with a request out: the next one ends what is left of them."""
import subprocess

from clitest import equal, main, test

from databases import Database

WAITING = {'mariadb': "SELECT id FROM information_schema.processlist WHERE user = 'locks' "
                      "AND info LIKE '%hf_lock%'",
           'postgres': "SELECT pid FROM pg_stat_activity WHERE usename = 'locks' "
                       "AND wait_event_type = 'Lock'"}
KILL = {'mariadb': 'KILL {}', 'postgres': 'SELECT pg_terminate_backend({})'}


def is_replaced_when_killed(box, kind):
    database = Database(box, kind)
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    words = database.client('')[:-2] if kind == 'mariadb' else database.client('')[:-2] + ['-q']
    blocker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        blocker.stdin.write('BEGIN; SELECT * FROM hf_lock FOR UPDATE;\n')
        blocker.stdin.flush()
        while database.try_sql('SELECT * FROM hf_lock FOR UPDATE NOWAIT').returncode == 0:
            pass
        waiter = box.start('-e', database.url(), 'run', 'x', '--', 'true')
        while not (session := database.sql(WAITING[kind])):
            pass
        database.sql(KILL[kind].format(session.split()[0]))
    finally:
        blocker.communicate()
    result = waiter.end()
    equal((result.code, result.err), (0, ''))


@test
def mariadb_session_is_replaced_when_killed(box):
    is_replaced_when_killed(box, 'mariadb')


@test
def postgres_session_is_replaced_when_killed(box):
    is_replaced_when_killed(box, 'postgres')


main()
