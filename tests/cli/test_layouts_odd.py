# SPDX-License-Identifier: Apache-2.0
"""Lock tables of other programs with texts, times and names that do not fit: none of them decides
whether another lock can be had, and each is told in a sentence."""
import hashlib
import json
import os
import uuid

from clitest import COMMAND, contains, equal, main, test

from databases import DATABASE, USER

from layout_tables import BUSY, DESC, Table, for_both, foreign_rows

# Three bytes each: the library cuts what it says of itself somewhere in one of them.
LONG = '\u65e5' * 140


def shown_with(table, text):
    """What `show` shows while this owner holds the lock."""
    result = table.holdfast('run', '--owner', text, 'job', '--', COMMAND, '-e',
                            table.database.url(table.options), 'show', 'job')
    equal(result.code, 0, result)
    return result.out


@for_both
def method_lock_description_does_not_decide_whether_a_lock_can_be_had(box, kind):
    table = Table(box, kind, 'method_lock')
    for begin in ('a', 'aa', 'aaa'):
        equal(table.holdfast('try', '--owner', begin + LONG, 'job', '--', 'true').code, 0, begin)
    equal(table.holdfast('try', '--owner', os.fsdecode(b'\xff'), 'job', '--', 'true').code, 0)
    contains(shown_with(table, '\u65e5\u672c'), '\u65e5\u672c')


def narrow(table):
    """What is left of the column is enough for the owner."""
    size = 'TYPE varchar(80)' if table.kind == 'postgres' else 'VARCHAR(80) NOT NULL'
    verb = 'ALTER' if table.kind == 'postgres' else 'MODIFY'
    table.sql(f'ALTER TABLE method_lock {verb} {DESC[table.kind]} {size}')


def use_latin1(table):
    """A table of few characters, as servers have made it by default."""
    if table.kind == 'mariadb':
        table.sql('ALTER TABLE method_lock CONVERT TO CHARACTER SET latin1')
        return
    table.sql(f"CREATE DATABASE latin OWNER {USER} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' "
              'TEMPLATE template0')
    url = table.database.url
    table.database.url = lambda options: url(options, database='latin')
    table.use('method_lock')


@for_both
def method_lock_description_that_the_column_cannot_hold_is_left_out(box, kind):
    table = Table(box, kind, 'method_lock')
    narrow(table)
    contains(shown_with(table, LONG), 'another client')
    table.sql('DROP TABLE method_lock')
    table.use('method_lock')
    use_latin1(table)
    contains(shown_with(table, '\u65e5\u672c.sh'), '??.sh')


@for_both
def name_that_the_table_cannot_hold_is_told_so(box, kind):
    table = Table(box, kind, 'method_lock')
    equal(table.run('\U0001f512'), 0)
    use_latin1(table)
    equal(table.run('\u00e4'), 0)
    result = table.holdfast('try', '\U0001f512', '--', 'true')
    equal(result.code, 64, result)
    contains(result.err, 'convert it to utf8mb4' if kind == 'mariadb' else 'encoding has not all')
    result = table.holdfast('try', os.fsdecode(b'\xff'), '--', 'true')
    equal(result.code, 64, result)
    contains(result.err, 'names are text in UTF-8')


@for_both
def name_whose_digest_is_stored_need_not_be_text(box, kind):
    name = b'\xff\xfe'
    table = Table(box, kind, 'common_lock')
    number, = table.while_held(os.fsdecode(name), 'SELECT id FROM common_lock')
    equal(int(number), int(hashlib.md5(name).hexdigest()[:8], 16) & 0x7fffffff)
    for digits in ('7', '007'):
        equal(table.while_held(digits, 'SELECT id FROM common_lock'), ['7'])
    number, = table.while_held('7\n', 'SELECT id FROM common_lock')
    equal(int(number), int(hashlib.md5(b'7\n').hexdigest()[:8], 16) & 0x7fffffff)
    table.use('int_lock')
    key, = table.while_held(os.fsdecode(name), 'SELECT LOCK_KEY FROM INT_LOCK')
    equal(key, str(uuid.UUID(bytes=hashlib.md5(name).digest(), version=3)))


@test
def server_without_md5_is_told_what_to_install(box):
    """MySQL 9.6 and later. MariaDB has its own, so a trigger of the table asks for another."""
    table = Table(box, 'mariadb', 'int_lock')
    table.sql('CREATE TRIGGER digest BEFORE INSERT ON INT_LOCK FOR EACH ROW '
              f"SET NEW.CLIENT_ID = {DATABASE}.MD5('')")
    result = table.holdfast('try', 'job', '--', 'true')
    contains(result.err, "INSTALL COMPONENT 'file://component_classic_hashing'")
    equal(result.code, 69, result)


@test
def postgres_without_md5_has_all_locks_but_those_whose_table_needs_it(box):
    """As a server in FIPS mode refuses it."""
    table = Table(box, 'postgres', 'int_lock')
    refusal = "could not compute MD5 hash: unsupported"
    for argument in ('text', 'bytea'):
        table.sql(f'SET allow_system_table_mods = on; '
                  f'ALTER FUNCTION pg_catalog.md5({argument}) RENAME TO built_in_md5; '
                  f'CREATE FUNCTION pg_catalog.md5({argument}) RETURNS text LANGUAGE plpgsql AS '
                  f"'BEGIN RAISE EXCEPTION ''{refusal}'' USING ERRCODE = ''XX000''; END'")
    for layout in ('int_lock', 'common_lock'):
        table.use(layout)
        result = table.holdfast('try', 'job', '--', 'true')
        contains(result.err, 'md5(), which a server in FIPS mode refuses')
        equal(result.code, 69, result)
        equal(table.run('7' if layout == 'common_lock' else str(uuid.UUID(int=7))), 0)
    equal(table.holdfast('schema', 'migrate').code, 0)
    for table.options in ('', '?layout=session', '?layout=shedlock'):
        equal(table.holdfast('schema', 'create').code, 0 if 'session' not in table.options else 64)
        equal(table.run('job'), 0, table.options)
        equal(table.holdfast('show').code, 0, table.options)


def ask_of_odd_row(table, layout, value, code):
    """A row of the name "job" with this end."""
    insert = foreign_rows(table.kind)[layout]
    relation = insert.split()[2]
    table.sql(f'DELETE FROM {relation}')
    table.sql(insert.format(0))
    table.sql(f'UPDATE {relation} SET {table.end} = {value}')
    equal(table.run('job'), code, (layout, value))
    if code == BUSY:
        equal(len(json.loads(table.holdfast('show', '--json').out)), 1, (layout, value))
        equal(table.holdfast('held', 'job').code, 0)


@for_both
def row_without_an_end_is_busy_and_is_shown(box, kind):
    table = Table(box, kind, 'shedlock')
    ends = {'shedlock': ('lock_until', "'9999-12-31'"),
            'int_lock': ('EXPIRED_AFTER', "'9999-12-31'"),
            'laravel': ('expiration', '2147483647'), 'symfony': ('key_expiration', '2147483647')}
    for layout, (table.end, latest) in ends.items():
        table.use(layout)
        relation = foreign_rows(kind)[layout].split()[2]
        if kind == 'mariadb' and latest.startswith("'"):
            table.sql(f'ALTER TABLE {relation} MODIFY {table.end} DATETIME NULL')
        ask_of_odd_row(table, layout, latest, BUSY)
        if kind == 'postgres' and latest.startswith("'"):
            ask_of_odd_row(table, layout, "'infinity'", BUSY)
            ask_of_odd_row(table, layout, "'-infinity'", 0)
            table.sql(f'ALTER TABLE {relation} ALTER {table.end} DROP NOT NULL')
        if latest.startswith("'"):
            ask_of_odd_row(table, layout, 'NULL', 0)


def postgres_method_lock_row_at_infinity_is_busy_and_is_shown(box):
    table = Table(box, 'postgres', 'method_lock', '&stale=600')
    for value, code in (('infinity', BUSY), ('-infinity', 0)):
        table.insert_by_hand('job', update_time=f"'{value}'")
        equal(table.run('job'), code, value)
        equal(len(json.loads(table.holdfast('show', '--json').out)), 1 if code else 0, value)
        table.sql('DELETE FROM method_lock')


test(postgres_method_lock_row_at_infinity_is_busy_and_is_shown)


@for_both
def owner_that_looks_like_one_of_holdfast_is_shown(box, kind):
    table = Table(box, kind, 'shedlock')
    for layout, column in (('shedlock', 'locked_by'), ('laravel', 'owner')):
        table.use(layout)
        insert = foreign_rows(kind)[layout]
        table.sql(insert.format(60))
        table.sql(f"UPDATE {insert.split()[2]} SET {column} = 'holdfast-server-1'")
        contains(table.holdfast('show').out, 'holdfast-server-1')
    table.use('symfony')
    table.sql(foreign_rows(kind)['symfony'].format(60))
    table.sql("UPDATE lock_keys SET key_token = '-------------32-characters------'")
    contains(table.holdfast('show').out, '32-characters')


@for_both
def lease_that_ends_later_than_the_table_can_say_is_told_so(box, kind):
    table = Table(box, kind, 'shedlock')
    years = {'20': ('laravel', 'symfony'), '31': ('method_lock', 'shedlock')}
    for count, layouts in years.items():
        for layout in layouts:
            table.use(layout)
            hours = int(count) * 365 * 24
            result = table.holdfast('try', '--ttl', f'{hours}h', 'job', '--', 'true')
            if layout == 'symfony' and kind == 'mariadb':
                equal(result.code, 0, 'its column has no sign')
                continue
            equal(result.code, 64, (layout, result))
            contains(result.err, 'take a shorter one' if count == '20' else '30 years')


main()
