# SPDX-License-Identifier: Apache-2.0
"""schema and gc: the tables of a database, made at the first use or by hand, and their old rows."""
import json
import subprocess

from clitest import COMMAND, Terminal, contains, equal, main, test

from databases import USER, Database, for_both

TABLES = ('hf_lock', 'hf_hold', 'hf_wait')
USERS = 24
COUNT = {'mariadb': "SELECT COUNT(*) FROM information_schema.tables "
                    "WHERE table_schema = 'holdfast'",
         'postgres': "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'"}


def table_count(database):
    return int(database.sql(COUNT[database.kind]))


@for_both
def tables_are_made_once_by_many_first_users(box, database):
    counter = box.file('counter')
    with open(counter, 'w', encoding='ascii') as file:
        file.write('0\n')
    step = f'n=$(cat {counter}); echo $((n + 1)) >{counter}'
    users = [box.start('-e', database.url(), 'run', '-w', '60s', 'x', '--', 'sh', '-c', step)
             for _ in range(USERS)]
    for user in users:
        result = user.end()
        equal((result.code, result.err), (0, ''))
    with open(counter, encoding='ascii') as file:
        equal(int(file.read()), USERS)
    equal(table_count(database), len(TABLES))


@for_both
def tables_that_are_dropped_come_back_for_all_clients(box, database):
    for _ in range(5):
        users = [box.start('-e', database.url(), *words)
                 for words in (['schema', 'create'], ['schema', 'drop', '-y'],
                               ['schema', 'create'], ['try', 'x', '--', 'true'])]
        results = [user.end() for user in users[:3]]
        equal([result.code for result in results], [0, 0, 0], results)
        last = users[3].end()
        equal(last.code in (0, 69, 121), True, last)
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)


@for_both
def looking_makes_no_tables(box, database):
    for words, code in ((['show'], 0), (['held', 'x'], 1), (['doctor'], 0)):
        equal(database.holdfast(*words).code, code, words)
        equal(table_count(database), 0, words)


@for_both
def printed_statements_are_enough_for_a_user_who_may_make_none(box, database):
    printed = database.holdfast('schema', 'print')
    equal((printed.code, table_count(database)), (0, 0))
    database.sql(printed.out)
    if database.kind == 'mariadb':
        database.sql("CREATE USER few IDENTIFIED BY 'words'; GRANT SELECT, INSERT, UPDATE, DELETE "
                     "ON holdfast.* TO few")
    else:
        database.sql("CREATE ROLE few LOGIN PASSWORD 'words'; GRANT SELECT, INSERT, UPDATE, DELETE "
                     "ON hf_lock, hf_hold, hf_wait TO few; GRANT USAGE ON SEQUENCE hf_wait_seq_seq "
                     "TO few")
    few = ['-e', database.url(user='few:words')]
    for mode in ('--exclusive', '--fair', '--shared'):
        equal(box.run(*few, 'try', mode, f'x{mode}', '--', 'true').code, 0, mode)
    equal(box.run(*few, 'doctor').code, 0)
    refused = box.run(*few, 'schema', 'drop', '-y')
    equal(refused.code, 77, refused)
    contains(refused.err, 'check user, password and privileges')
    equal(table_count(database), len(TABLES))


@for_both
def drop_asks_first(box, database):
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    result = database.holdfast('schema', 'drop')
    equal(result.code, 64, result)
    equal(table_count(database), len(TABLES))
    equal(database.holdfast('schema', 'drop', '-y').code, 0)
    equal(table_count(database), 0)
    equal(database.holdfast('schema', 'drop', '-y').code, 0, 'once more')


@for_both
def gc_removes_what_no_owner_has_had_for_a_week(box, database):
    for name in ('old', 'new', 'readers'):
        mode = '--shared' if name == 'readers' else '--fair'
        equal(database.holdfast('try', mode, name, '--', 'true').code, 0)
    equal(database.holdfast('gc').out, '0 rows removed\n')
    week_ago = 'since_us - 8 * 86400000000'
    database.sql(f"UPDATE hf_lock SET since_us = {week_ago} WHERE name IN ('old', 'readers')")
    equal(json.loads(database.holdfast('gc', '--json').out), {'removed': 2})
    equal(database.holdfast('gc', '-q').out, '')
    names = database.sql('SELECT name FROM hf_lock ORDER BY name')
    equal('old' in names, False, names)


@for_both
def gc_leaves_what_is_held(box, database):
    token = 'echo $HOLDFAST_TOKEN'
    first = int(database.holdfast('run', 'x', '--', 'sh', '-c', token).out)
    holder = box.start('-e', database.url(), 'run', 'x', '--', 'sh', '-c',
                       'echo; read line; true', stdin=subprocess.PIPE)
    holder.line()
    database.sql('UPDATE hf_lock SET since_us = since_us - 8 * 86400000000')
    equal(json.loads(database.holdfast('gc', '--json').out), {'removed': 0})
    equal(database.holdfast('try', 'x', '--', 'true').code, 75)
    equal(holder.end().code, 0)
    database.sql('UPDATE hf_lock SET since_us = since_us - 8 * 86400000000')
    equal(json.loads(database.holdfast('gc', '--json').out), {'removed': 1})
    last = int(database.holdfast('run', 'x', '--', 'sh', '-c', token).out)
    equal(last > first, True, 'tokens go on rising')


@for_both
def gc_leaves_a_token_that_the_clock_does_not_exceed(box, database):
    equal(database.holdfast('try', 'x', '--', 'true').code, 0)
    database.sql(f'UPDATE hf_lock SET since_us = since_us - 8 * 86400000000, token = {2**60}')
    equal(json.loads(database.holdfast('gc', '--json').out), {'removed': 0})
    told = database.holdfast('run', 'x', '--', 'sh', '-c', 'echo $HOLDFAST_TOKEN')
    equal(int(told.out), 2**60 + 1)


@for_both
def migrate_without_a_layout_says_what_is_missing(box, database):
    result = database.holdfast('schema', 'migrate')
    equal(result.code, 64, result)
    contains(result.err, '?layout=method_lock')


LAYOUTS = ('method_lock', 'common_lock', 'shedlock', 'laravel', 'symfony', 'int_lock')
# Besides a table without any column of ours: each lacks one thing.
UNFIT = {
    'method_lock': (
        ('{name} VARCHAR(64) UNIQUE, {desc} TEXT', 'method_lock.update_time is missing'),
        ('{name} VARCHAR(64), {desc} TEXT, update_time TIMESTAMP',
         'method_lock has no unique key (method_name)'),
        ('{name} VARCHAR(64) UNIQUE, {desc} TEXT, update_time TIMESTAMP, state INT NOT NULL',
         'method_lock.state must have a value'),
        ('{name} INT UNIQUE, {desc} TEXT, update_time TIMESTAMP', 'not text')),
    'common_lock': (
        ('id VARCHAR(40) PRIMARY KEY, entry_count INT, thread_id INT, host_ip VARCHAR(40)',
         'common_lock.id is '),),
}
# Made by hand, and right.
FIT = {
    'method_lock': '{name} VARCHAR(200) PRIMARY KEY, {desc} VARCHAR(300), update_time TIMESTAMP, '
                   "state INT NOT NULL DEFAULT 0",
    'common_lock': 'id BIGINT NOT NULL UNIQUE, entry_count SMALLINT, thread_id BIGINT, '
                   'host_ip VARCHAR(40)',
}


def make_by_hand(database, table, columns):
    desc = '`desc`' if database.kind == 'mariadb' else '"desc"'
    owner = f'SET ROLE {USER}; ' if database.kind == 'postgres' else ''
    database.sql(f'DROP TABLE IF EXISTS {table}')
    database.sql(f'{owner}CREATE TABLE {table} '
                 f'({columns.format(name="method_name", desc=desc)})')


def is_refused(database, options, what):
    """By create, in one sentence, and by doctor."""
    result = database.holdfast('schema', 'create', options=options)
    equal(result.code, 69, (options, what, result))
    contains(result.err, what)
    contains(result.err, 'holdfast schema')
    equal(result.err.count('\n'), 1, result)
    said = json.loads(database.holdfast('doctor', '--json', options=options).out)
    equal([what in each['finding'] for each in said if each.get('id') == 'tables-differ'], [True],
          said)


@for_both
def create_refuses_tables_with_other_columns(box, database):
    make_by_hand(database, 'hf_wait', 'id INT')
    is_refused(database, '', 'hf_wait.')
    database.sql('DROP TABLE hf_wait')
    equal(database.holdfast('schema', 'create').code, 0)
    equal(database.holdfast('schema', 'create').code, 0, 'once more')
    for layout in LAYOUTS:
        options = f'?layout={layout}'
        printed = database.holdfast('schema', 'print', options=options).out
        table = printed.split()[5]
        for columns, what in (('other INT', ' is missing'), *UNFIT.get(layout, ())):
            make_by_hand(database, table, columns)
            is_refused(database, options, what)
            if 'unique' in what:
                result = database.holdfast('try', 'x', '--', 'true', options=options)
                equal(result.code, 69, (layout, result))
                contains(result.err, what)
        database.sql(f'DROP TABLE {table}')
        equal(database.holdfast('doctor', options=options).code, 69, layout)
        equal(database.holdfast('schema', 'create', options=options).code, 0, layout)
        equal(database.holdfast('schema', 'create', options=options).code, 0, layout)
    for layout, columns in FIT.items():
        make_by_hand(database, layout, columns)
        for words in (['schema', 'create'], ['try', 'x', '--', 'true'], ['doctor']):
            result = database.holdfast(*words, options=f'?layout={layout}')
            equal(result.code, 0, (layout, result))


@for_both
def drop_asks_first_and_says_whose_table_it_is(box, database):
    for options, words in (('', 'with all locks in them'),
                           ('?layout=method_lock', 'which other programs may use')):
        equal(database.holdfast('schema', 'create', options=options).code, 0)
        count = table_count(database)
        screen = Terminal(box, COMMAND, '-e', database.url() + options, 'schema', 'drop')
        screen.wait_for(words)
        screen.type('n\n')
        equal(screen.next_report(), 'exit 1, terminal ours')
        equal(table_count(database), count)


@test
def store_without_tables_says_so(box):
    for words in (['schema', 'print'], ['schema', 'create'], ['gc']):
        result = box.run(*words)
        equal(result.code, 64, (words, result))


main()
