# SPDX-License-Identifier: Apache-2.0
"""doctor and show on databases, with something wrong with them."""
import json
import os
import subprocess

from clitest import contains, equal, main, test, with_skewed_clock

from databases import USER, Database
from sql_servers import Server, free_port, program


def see(database, *words, options='', code=None):
    """The facts, and the findings' ids."""
    result = database.holdfast(*words, 'doctor', '--json', options=options)
    said = json.loads(result.out)
    findings = [each for each in said if 'finding' in each]
    equal(result.code, 1 if findings else 0 if code is None else code, result)
    for each in findings:
        assert each['consequence'] and each['cure'] and each['id'], each
    return ({each['fact']: each['value'] for each in said if 'fact' in each},
            [each['id'] for each in findings])


PLACES = {'mariadb': 'database holdfast', 'postgres': 'schema public'}


def finds_nothing_on_a_good_server(box, kind, wake_up):
    database = Database(box, kind)
    facts, findings = see(database)
    equal(findings, [])
    contains(facts['tables'], 'none yet')
    contains(facts['lock + unlock'], 'not measured: the first lock makes the tables')
    equal(database.holdfast('show').out, '')
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    facts, findings = see(database)
    equal(findings, [])
    contains(facts['tables'], 'all are there, in the ' + PLACES[kind])
    contains(facts['wake-up'], wake_up)
    contains(facts['lock + unlock'], 'median')
    contains(facts['isolation'].lower().replace('-', ' '), 'read committed')
    contains(facts['its clock'], ' s ')
    return facts


# What doctor says of a login that was refused: where user and password come from.
SOURCES = {'mariadb': ('of [client] in ~/.my.cnf', 'mysql.user'),
           'postgres': ('PGPASSWORD, or of ~/.pgpass', 'pg_hba.conf')}


def explains_a_refused_login(box, kind):
    database = Database(box, kind)
    source, place = SOURCES[kind]
    home = {'HOME': box.path}
    for user, told in ((f'{USER}:wrong', 'of the URL'), (USER, source), ('nobody:x', 'of the URL')):
        url = ['-e', database.url(user=user)]
        refused = box.run(*url, 'try', 'x', '--', 'true', environment=home)
        equal(refused.code, 77, refused)
        contains(refused.err, '(`holdfast doctor`)')
        result = box.run(*url, 'doctor', '--json', environment=home)
        equal(result.code, 77, result)
        equal('`holdfast doctor`' in result.err, False, result.err)
        facts = {each['fact']: each['value'] for each in json.loads(result.out) if 'fact' in each}
        contains(facts['user'], user.split(':')[0] + ', of the URL')
        contains(facts['password'], told)
        contains(facts['connection'], f'127.0.0.1:{database.server.port}')
        contains(facts['look at'], place)


@test
def mariadb_doctor_explains_a_refused_login(box):
    explains_a_refused_login(box, 'mariadb')


@test
def postgres_doctor_explains_a_refused_login(box):
    explains_a_refused_login(box, 'postgres')


@test
def mariadb_without_faults_has_no_findings(box):
    facts = finds_nothing_on_a_good_server(box, 'mariadb', 'GET_LOCK')
    contains(facts['version'], 'MariaDB 1')
    contains(facts['on disk'], 'innodb_flush_log_at_trx_commit = 1')
    contains(facts['connections'], 'of 500')


@test
def postgres_without_faults_has_no_findings(box):
    facts = finds_nothing_on_a_good_server(box, 'postgres', 'LISTEN')
    contains(facts['version'], 'PostgreSQL 1')
    contains(facts['on disk'], 'fsync = on, synchronous_commit = on')
    contains(facts['connections'], 'of 300')


@test
def mariadb_that_forgets_commits_is_a_danger(box):
    database = Database(box, 'mariadb', '--innodb-flush-log-at-trx-commit=0', '--log-bin=log',
                        '--sync-binlog=0')
    equal(see(database)[1], ['not-durable', 'not-durable'])


@test
def postgres_that_forgets_commits_is_a_danger(box):
    database = Database(box, 'postgres', '-c', 'fsync=off', '-c', 'full_page_writes=off')
    equal(see(database)[1], ['not-durable', 'not-durable'])
    told = database.holdfast('doctor', '--fix').out
    for line in ('ALTER SYSTEM SET fsync = on;', 'ALTER SYSTEM SET full_page_writes = on;'):
        contains(told, '\n' + line + '\nSELECT pg_reload_conf();\n')
    equal(see(database, options='?durability=relaxed')[1], ['not-durable'] * 3)


@test
def doctor_fix_quotes_the_user_of_the_url(box):
    database = Database(box, 'postgres')
    database.sql('CREATE ROLE "o\'ne""two" SUPERUSER LOGIN PASSWORD \'words\'; '
                 'ALTER ROLE "o\'ne""two" SET synchronous_commit = off')
    url = database.url(user='o%27ne%22two:words')
    told = box.expect(1, '-e', url, 'doctor', '--fix').out
    contains(told, '\nALTER ROLE "o\'ne""two" SET synchronous_commit = on;\n')
    database.script(told)
    box.expect(0, '-e', url, 'doctor')


@test
def mariadb_binary_log_by_statement_is_a_danger(box):
    database = Database(box, 'mariadb', '--log-bin=log', '--sync-binlog=1',
                        '--binlog-format=STATEMENT')
    equal(see(database)[1], ['binary-log'])
    database.sql("SET GLOBAL binlog_format = 'MIXED'")
    equal(see(database)[1], [])


@test
def mariadb_that_is_read_only_is_a_danger(box):
    database = Database(box, 'mariadb')
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    database.sql('SET GLOBAL read_only = 1')
    equal(see(database)[1], ['read-only'])
    equal(database.holdfast('try', 'x', '--', 'true').code, 69)


class Standby:
    """Follows a PostgreSQL server of the test's."""

    def __init__(self, box, primary):
        data, place = box.file('standby/data'), box.file('standby')
        hba = f'{primary.server.directory}/data/pg_hba.conf'
        with open(hba, 'a', encoding='utf-8') as file:
            file.write('local replication all trust\n')
        primary.sql('SELECT pg_reload_conf()')
        subprocess.run([program('pg_basebackup'), '-h', primary.server.directory, '-p',
                        str(primary.server.port), '-U', 'postgres', '-D', data, '-R', '-c', 'fast'],
                       check=True)
        owner = os.stat(hba)
        for folder, _, files in os.walk(place):
            for each in [folder, *(os.path.join(folder, file) for file in files)]:
                os.chown(each, owner.st_uid, owner.st_gid)
        self.server = Server('postgres', place).start()
        box.processes.append(self.server)


@test
def postgres_that_has_a_standby_may_forget_at_a_failover(box):
    database = Database(box, 'postgres')
    standby = Standby(box, database)
    while database.sql('SELECT count(*) FROM pg_stat_replication') != '1':
        pass
    equal(see(database)[1], ['failover-forgets'])
    replica = database.url().replace(str(database.server.port), str(standby.server.port))
    result = box.run('-e', replica, 'doctor')
    equal(result.code, 69, result)
    contains(result.err, 'name the primary server in the URL as well')
    both = f'127.0.0.1:{standby.server.port},127.0.0.1:{database.server.port}'
    both = database.url().replace(f'127.0.0.1:{database.server.port}', both)
    equal(box.run('-e', both, 'try', 'x', '--', 'true').code, 0)
    database.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    database.sql('SELECT pg_reload_conf()')
    equal(see(database)[1], [])
    # It becomes the primary while a client waits for it.
    waiter = box.start('-e', replica, 'run', '-w', '60s', 'x', '--', 'true')
    while not Database.of(box, 'postgres', standby.server).sql("SELECT pg_promote()") == 't':
        pass
    equal(waiter.end().code, 0)


@test
def mariadb_tables_without_transactions_are_a_danger(box):
    database = Database(box, 'mariadb')
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    database.sql('ALTER TABLE hf_wait ENGINE = MyISAM')
    equal(see(database)[1], ['tables-not-logged'])
    database.sql('ALTER TABLE hf_lock DROP COLUMN info')
    equal(sorted(see(database)[1]), ['tables-differ', 'tables-not-logged'])


@test
def postgres_tables_that_a_crash_empties_are_a_danger(box):
    database = Database(box, 'postgres')
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    database.sql('ALTER TABLE hf_lock SET UNLOGGED')
    equal(see(database)[1], ['tables-not-logged'])
    database.sql('ALTER TABLE hf_lock DROP COLUMN info')
    equal(sorted(see(database)[1]), ['tables-differ', 'tables-not-logged'])


@test
def pooler_in_between_is_seen(box):
    behind = Database(box, 'postgres')
    behind.sql("ALTER DATABASE holdfast SET default_transaction_isolation = 'repeatable read'")
    pooler = Database(box, 'pgbouncer', behind=behind)
    facts, findings = see(pooler)
    equal(findings, ['isolation'])
    contains(facts['wake-up'], 'the first two of each queue poll')
    contains(facts['pooler'], 'in between')
    facts, findings = see(behind)
    equal(findings, [])
    contains(facts['wake-up'], 'LISTEN')
    told = pooler.holdfast('doctor', '--fix').out
    contains(told, f'\nALTER ROLE "{USER}" SET default_transaction_isolation = ')
    behind.script(told)
    pooler.server.stop()
    pooler.server.start()
    equal(see(pooler)[1], [])


@test
def mariadb_utc_in_a_column_with_a_zone_is_a_danger(box):
    database = Database(box, 'mariadb', '--default-time-zone=+05:00')
    layout = '?layout=shedlock'
    equal(see(database, options=layout, code=69)[1], [], 'no table')
    equal(database.holdfast('schema', 'create', options=layout).code, 0)
    equal(see(database, options=layout)[1], [])
    database.sql('ALTER TABLE shedlock MODIFY lock_until TIMESTAMP(3) NOT NULL, '
                 'MODIFY locked_at TIMESTAMP(3) NOT NULL')
    equal(see(database, options=layout)[1], ['time-zone'])
    # A program whose sessions have a time zone of their own.
    database.sql("SET time_zone = '-04:00'; INSERT INTO shedlock (name, lock_until, locked_at, "
                 "locked_by) VALUES ('job', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 'app-1')")
    equal(see(database, options=layout)[1], ['rows-in-the-future', 'time-zone'])


def rows_in_the_future_are_a_danger(box, kind):
    database = Database(box, kind)
    soon = {'mariadb': 'NOW() + INTERVAL 1 HOUR', 'postgres': "now() + interval '1 hour'"}[kind]
    for layout, columns, values in (
            ('method_lock', 'method_name, {0}desc{0}, update_time', f"'job', 'x', {soon}"),
            ('shedlock', 'name, lock_until, locked_at, locked_by', f"'job', {soon}, {soon}, 'x'"),
            ('int_lock', 'LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER',
             f"'job', 'DEFAULT', 'x', {soon}, {soon}")):
        options = f'?layout={layout}'
        equal(database.holdfast('schema', 'create', options=options).code, 0)
        equal(see(database, options=options)[1], [], layout)
        table = 'INT_LOCK' if layout == 'int_lock' else layout
        columns = columns.format('`' if kind == 'mariadb' else '"')
        database.sql(f'INSERT INTO {table} ({columns}) VALUES ({values})')
        equal(see(database, options=options)[1], ['rows-in-the-future'], layout)


@test
def mariadb_rows_in_the_future_are_a_danger(box):
    rows_in_the_future_are_a_danger(box, 'mariadb')


@test
def postgres_rows_in_the_future_are_a_danger(box):
    rows_in_the_future_are_a_danger(box, 'postgres')


@test
def full_server_is_a_danger(box):
    database = Database(box, 'mariadb')
    database.sql('SET GLOBAL max_connections = 10')
    clients = [subprocess.Popen(database.client('')[:-2], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for _ in range(9)]
    for client in clients:
        client.stdin.write(b'SELECT 1;\n')
        client.stdin.flush()
    clients[-1].stdin.close()
    clients[-1].wait()
    equal(see(database)[1], ['connections-full'])
    for client in clients[:-1]:
        client.stdin.close()
        client.wait()


@test
def clock_that_is_wrong_is_a_danger(box):
    skewed = with_skewed_clock()
    database = Database(box, 'postgres')
    result = database.holdfast('doctor', '--json', environment=skewed)
    said = [each['id'] for each in json.loads(result.out) if 'id' in each]
    equal(said, ['clock'])


def tells_why_not(box, kind, words):
    database = Database(box, kind)
    for wrong, code, part in [
            (database.url(user=f'{USER}:wrong'), 77, 'check user, password and privileges'),
            (database.url(database='elsewhere'), *words),
            (database.url().replace(str(database.server.port), str(free_port())), 69, 'onnect')]:
        for verb in (['doctor'], ['try', 'x', '--', 'true']):
            result = box.run('-e', wrong, *verb)
            equal(result.code, code, result)
            contains(result.err, part)
            equal('wrong' in result.err or 'not-a-secret' in result.err, False, result.err)
    equal(box.run('-e', database.url('?tls=verify'), 'doctor').code in (69, 77), True)


@test
def mariadb_unusable_url_has_a_code_and_a_sentence(box):
    # Whether a database exists is not told to a user without rights on it.
    tells_why_not(box, 'mariadb', (77, 'check user, password and privileges'))


@test
def mariadb_unknown_database_is_named_to_its_owner(box):
    database = Database(box, 'mariadb')
    database.sql("CREATE USER boss IDENTIFIED BY 'words'; GRANT ALL ON *.* TO boss")
    result = box.run('-e', database.url(user='boss:words', database='elsewhere'), 'doctor')
    equal(result.code, 64, result)
    contains(result.err, 'create it, or name another database in the URL')


@test
def postgres_unusable_url_has_a_code_and_a_sentence(box):
    tells_why_not(box, 'postgres', (64, 'create it, or name another database in the URL'))


def show_says_how_waiters_are_told(box, kind, words, behind=None):
    database = Database(box, kind, behind=behind)
    holder = box.start('-e', database.url(), 'run', 'x', '--', 'sh', '-c', 'echo; read line',
                       stdin=subprocess.PIPE)
    holder.line()
    equal('wake-up' in database.holdfast('show').out, False, 'no claim waits')
    waiter = box.start('-e', database.url(), 'run', 'x', '--', 'true')
    while 'waits' not in (seen := database.holdfast('show').out):
        pass
    contains(seen, f'\nwake-up: {words}')
    holder.end()
    equal(waiter.end().code, 0)


@test
def mariadb_show_says_how_waiters_are_told(box):
    show_says_how_waiters_are_told(box, 'mariadb', 'GET_LOCK')


@test
def postgres_show_says_how_waiters_are_told(box):
    show_says_how_waiters_are_told(box, 'postgres', 'LISTEN')


@test
def pgbouncer_show_says_how_waiters_are_told(box):
    show_says_how_waiters_are_told(box, 'pgbouncer', 'the first two of each queue poll',
                                   Database(box, 'postgres'))


main()
