# SPDX-License-Identifier: Apache-2.0
"""Rights on the tables of a database: what doctor says of one that is missing, and the statements
that grant them."""
import json

from clitest import contains, equal, main, test

from databases import Database, for_both

LAYOUTS = ('', '?layout=method_lock', '?layout=common_lock', '?layout=shedlock',
           '?layout=laravel', '?layout=symfony', '?layout=int_lock')
RIGHTS = ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
# An account that may log in, and has a name that must be quoted. MariaDB wants any right at all.
USER = {'mariadb': "CREATE USER 'fe-w'@'%' IDENTIFIED BY 'words'; CREATE TABLE other (a INT); "
                   "GRANT SELECT ON holdfast.other TO 'fe-w'@'%'",
        'postgres': "CREATE ROLE \"fe-w\" LOGIN PASSWORD 'words'"}
QUOTED = {'mariadb': "'fe-w'@'%'", 'postgres': '"fe-w"'}


def as_user(database, *words, options=''):
    return database.box.run('-e', database.url(options, user='fe-w:words'), *words)


def tables_of(database, options):
    printed = database.holdfast('schema', 'print', options=options).out
    return [line.split()[5] for line in printed.split('\n') if line.startswith('CREATE TABLE')]


def missing(database, options):
    """What doctor says of rights: what is missing, and the statements that grant it; or None."""
    result = as_user(database, 'doctor', '--json', options=options)
    found = [each for each in json.loads(result.out) if each.get('id') == 'rights-missing']
    if not found:
        equal(result.code, 0, (options, result))
        return None
    equal((result.code, len(found)), (1, 1), (options, result))
    cure = found[0]['cure']
    return found[0]['finding'], cure[cure.index('GRANT'):cure.rindex(';') + 1]


def printed_grants(database, options, user='fe-w'):
    """What `schema print USER` has more than `schema print`."""
    plain = database.holdfast('schema', 'print', options=options).out
    printed = database.holdfast('schema', 'print', user, options=options).out
    equal(printed[:len(plain)], plain)
    return printed[len(plain):]


@for_both
def printed_grants_are_enough_and_run_unchanged(box, database):
    del box
    database.sql(USER[database.kind])
    for options in LAYOUTS:
        printed = database.holdfast('schema', 'print', 'fe-w', options=options).out
        database.script(printed)
        database.script(printed)
        equal(missing(database, options), None, options)
        for mode in ('--fair', '--shared') if not options else ():
            equal(as_user(database, 'try', mode, 'x' + mode, '--', 'true').code, 0, mode)
        result = as_user(database, 'try', 'x', '--', 'true', options=options)
        equal((result.code, result.err), (0, ''), options)


@for_both
def each_right_that_is_missing_is_named_with_its_statement(box, database):
    del box
    database.sql(USER[database.kind])
    if database.kind == 'mariadb':
        database.sql('SET GLOBAL group_concat_max_len = 4')  # these lists are longer
    user = QUOTED[database.kind]
    for options in LAYOUTS:
        equal(database.holdfast('schema', 'create', options=options).code, 0)
        database.sql(printed_grants(database, options))
        equal(missing(database, options), None, options)
        # ShedLock deletes no row, and neither does a lock in its table.
        for right in RIGHTS[:-1] if 'shedlock' in options else RIGHTS:
            for table in tables_of(database, options):
                database.sql(f'REVOKE {right} ON {table} FROM {user}')
            named = missing(database, options)
            assert named, (options, right)
            finding, grants = named
            contains(finding, right)
            refused = as_user(database, 'try', 'x', '--', 'true', options=options)
            if right == 'UPDATE':
                equal(refused.code, 77, (options, refused))
                contains(refused.err, '(`holdfast doctor`)')
            database.sql(grants)
        equal(missing(database, options), None, options)
        for table in tables_of(database, options):
            database.sql(f'REVOKE ALL ON {table} FROM {user}')
        finding, grants = missing(database, options)
        contains(finding, 'SELECT, INSERT, UPDATE')
        # MariaDB hides such tables, which then look as if they were to be made.
        database.sql(grants)
        if '.*' in grants:
            database.sql(f'REVOKE ALL ON holdfast.* FROM {user}')


@test
def postgres_sequence_and_schema_that_may_not_be_used_are_named(box):
    database = Database(box, 'postgres')
    database.sql(USER['postgres'])
    for options, sequence in (('', 'hf_wait_seq_seq'),
                              ('?layout=method_lock', 'method_lock_id_seq')):
        equal(database.holdfast('schema', 'create', options=options).code, 0)
        database.sql(printed_grants(database, options))
        database.sql(f'REVOKE ALL ON SEQUENCE {sequence} FROM "fe-w"')
        finding, grants = missing(database, options)
        contains(finding, f'USAGE on the sequence public.{sequence}')
        database.sql(grants)
        equal(missing(database, options), None, options)


@for_both
def tables_that_are_not_there_need_the_right_to_make_them(box, database):
    del box
    database.sql(USER[database.kind])
    finding, grants = missing(database, '')
    contains(finding, 'CREATE on the ' + ('schema public' if database.kind == 'postgres' else
                                          'database `holdfast`'))
    database.sql(grants)
    equal(as_user(database, 'try', 'x', '--', 'true').code, 0)
    equal(missing(database, ''), None)


@for_both
def names_of_users_are_quoted_in_grants(box, database):
    del box
    cases = ({"a'b\\c@10.%": "TO 'a''b\\\\c'@'10.%';", 'x': "TO 'x'@'%';"}
             if database.kind == 'mariadb' else {'a"b': 'TO "a""b";', 'x@y': 'TO "x@y";'})
    for user, quoted in cases.items():
        contains(printed_grants(database, '', user), quoted)
    for words in (['print', ''], ['print', 'a', 'b'], ['create', 'a']):
        equal(database.holdfast('schema', *words).code, 64, words)


main()
