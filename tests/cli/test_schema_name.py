# SPDX-License-Identifier: Apache-2.0
"""Schemas of a PostgreSQL database: tables that the search path chooses, and the option schema=."""
import json
import subprocess

from clitest import COMMAND, contains, equal, main, test

from databases import USER, Database

ODD = 'it\'s "Odd" \N{LATIN SMALL LETTER E WITH ACUTE}'
ODD_IN_URL = 'it%27s%20%22Odd%22%20%C3%A9'
LAYOUTS = ('method_lock', 'common_lock', 'shedlock', 'laravel', 'symfony', 'int_lock')


def quoted(schema):
    return '"' + schema.replace('"', '""') + '"'


def two_users(box):
    """app, whose tables are in the schema lk by its search path, and dba."""
    database = Database(box, 'postgres')
    for user in ('app', 'dba'):
        database.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'words'")
    database.sql('CREATE SCHEMA lk AUTHORIZATION app; GRANT ALL ON SCHEMA lk, public TO app, dba; '
                 'ALTER ROLE app SET search_path = lk')
    return database


def at(database, user, options=''):
    return ['-e', database.url(options, user=f'{user}:words')]


def findings(box, url, name):
    said = json.loads(box.run(*url, 'doctor', '--json').out)
    facts = {each['fact']: each['value'] for each in said if 'fact' in each}
    return facts['tables'], [each['finding'] for each in said if each.get('id') == name]


@test
def users_with_different_search_paths_are_told_of_each_other(box):
    database = two_users(box)
    box.expect(0, *at(database, 'app'), 'try', 'x', '--', 'true')
    equal(findings(box, at(database, 'app'), 'other-schema'),
          ('all are there, in the schema lk', []))
    # Both are inside: the tables are others.
    box.expect(0, *at(database, 'app'), 'run', 'x', '--', COMMAND, *at(database, 'dba'), 'try', 'x',
               '--', 'true')
    for user, own, other in (('app', 'lk', 'public'), ('dba', 'public', 'lk')):
        tables, found = findings(box, at(database, user), 'other-schema')
        contains(tables, f'in the schema {own}')
        equal(len(found), 1, found)
        contains(found[0], f'another schema, too: {other} (here: {own})')


def excludes(box, database, options):
    """A holder of one user keeps the other one out."""
    holder = box.start(*at(database, 'app', options), 'run', 'x', '--', 'sh', '-c',
                       'echo; read line; true', stdin=subprocess.PIPE)
    holder.line()
    refused = box.run(*at(database, 'dba', options), 'try', 'x', '--', 'true')
    shown = box.run(*at(database, 'dba', options), 'held', 'x')
    ended = holder.end()
    equal((ended.code, refused.code, shown.code), (0, 75, 0), (options, ended, refused))


@test
def users_of_one_schema_exclude_each_other(box):
    database = two_users(box)
    options = '?schema=lk'
    box.expect(0, *at(database, 'app', options), 'schema', 'create')
    grants = box.expect(0, *at(database, 'app', options), 'schema', 'print', 'dba').out
    contains(grants, 'GRANT USAGE ON SCHEMA "lk" TO "dba";\n')
    database.script(grants)
    excludes(box, database, options)
    for mode in ('--fair', '--shared'):
        box.expect(0, *at(database, 'dba', options), 'try', mode, 'y' + mode, '--', 'true')
    box.expect(0, *at(database, 'dba', options), 'gc')
    equal(findings(box, at(database, 'dba', options), 'rights-missing'),
          ('all are there, in the schema lk', []))
    equal(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), '0')
    pooler = Database(box, 'pgbouncer', behind=database)
    database.script(box.expect(0, *at(database, 'app', options), 'schema', 'print', USER).out)
    for _ in range(3):
        box.expect(0, '-e', pooler.url(options), 'try', 'x', '--', 'true')
    equal(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), '0')
    box.expect(0, *at(database, 'app', options), 'schema', 'drop', '-y')
    equal(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'lk'"), '0')


@test
def schema_that_this_user_may_not_use_is_named(box):
    database = two_users(box)
    database.sql('CREATE SCHEMA closed')
    url = at(database, 'dba', '?schema=closed')
    equal(findings(box, url, 'rights-missing')[1],
          ['this user lacks USAGE, CREATE on the schema closed'])
    url = at(database, 'dba', '?schema=none')
    equal(findings(box, url, 'rights-missing')[1], ['this user lacks a schema "none"'])
    refused = box.run(*url, 'try', 'x', '--', 'true')
    equal(refused.code, 69, refused)
    contains(refused.err, 'create the schema, or name another one in the URL (schema=NAME)')


@test
def odd_name_of_a_schema_works_for_all_tables(box):
    database = two_users(box)
    database.sql(f'CREATE SCHEMA {quoted(ODD)} AUTHORIZATION app')
    for layout in ('', *(f'&layout={name}' for name in LAYOUTS)):
        url = at(database, 'app', f'?schema={ODD_IN_URL}{layout}')
        printed = box.expect(0, *url, 'schema', 'print', 'dba').out
        contains(printed, f'CREATE TABLE IF NOT EXISTS {quoted(ODD)}.')
        database.script(printed)
        database.sql(f'DROP SCHEMA {quoted(ODD)} CASCADE; '
                     f'CREATE SCHEMA {quoted(ODD)} AUTHORIZATION app')
        for words in (['schema', 'create'], ['try', 'x', '--', 'true'], ['gc'], ['doctor'],
                      ['show'], ['schema', 'create'], ['schema', 'drop', '-y']):
            box.expect(0, *url, *words)
        equal(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'lk')"),
              '0', layout)


@test
def name_that_can_be_no_schema_is_refused(box):
    url = 'postgres://a@127.0.0.1:1/b?schema='
    for name in ('', 'x' * 64, 'pg_temp', 'information_schema', 'a%0Ab'):
        result = box.run('-e', url + name, 'doctor')
        equal(result.code, 64, (name, result))
        contains(result.err, 'schema is a name of 1 to 63 bytes')
    result = box.run('-e', 'mysql://a@127.0.0.1:1/b?schema=x', 'doctor')
    equal(result.code, 64, result)
    contains(result.err, 'schema is for postgres')


main()
