# SPDX-License-Identifier: Apache-2.0
"""Lock tables of other programs, row by row: what holdfast writes, what it takes over, what it
leaves alone, and how such a table becomes the full set."""
import hashlib
import json
import os
import subprocess
import uuid

from clitest import COMMAND, contains, equal, main

from layout_tables import BUSY, HOUR_AGO, UNIX, UTC, Table, for_both, foreign_rows

LAYOUTS = ('method_lock', 'common_lock', 'shedlock', 'laravel', 'symfony', 'int_lock')


@for_both
def table_of_another_program_that_is_missing_is_not_made(box, kind):
    table = Table(box, kind, 'shedlock')
    table.sql('DROP TABLE shedlock')
    result = table.holdfast('try', 'job', '--', 'true')
    equal(result.code, 69, result)
    contains(result.err, 'is it another database? `holdfast schema create` makes the table')
    equal(table.sql("SELECT count(*) FROM information_schema.tables "
                    "WHERE table_name = 'shedlock'"), '0')
    table.use('shedlock')
    equal(table.run('job'), 0)


@for_both
def method_lock_row_that_is_stale_is_taken_over_only_where_the_url_says_so(box, kind):
    table = Table(box, kind, 'method_lock')
    table.insert_by_hand('old', update_time=HOUR_AGO[kind])
    table.insert_by_hand('new')
    equal(table.run('old'), BUSY, 'no end is known')
    equal(json.loads(table.holdfast('gc', '--json').out), {'removed': 0})
    table.use('method_lock', '&stale=600')
    equal(table.run('new'), BUSY)
    equal(table.run('old'), 0)
    equal(table.run('old'), 0, 'the row is gone')
    table.insert_by_hand('old', update_time=HOUR_AGO[kind])
    equal(json.loads(table.holdfast('gc', '--json').out), {'removed': 1})
    equal(table.sql('SELECT method_name FROM method_lock'), 'new')


@for_both
def method_lock_row_of_a_killed_holder_ends_by_update_time(box, kind):
    table = Table(box, kind, 'method_lock')
    holder = box.start('-e', table.database.url(table.options), 'run', 'job', '--', 'sh', '-c',
                       'echo; read line; true', stdin=subprocess.PIPE)
    holder.line()
    holder.stop()
    equal(table.run('job'), BUSY, 'its lease is not over')
    table.sql(f'UPDATE method_lock SET update_time = {HOUR_AGO[kind]}')
    equal(table.run('job'), 0)


@for_both
def method_lock_row_that_says_holdfast_by_hand_is_a_row_like_others(box, kind):
    table = Table(box, kind, 'method_lock')
    table.insert_by_hand('job', 'holdfast is what we use')
    equal(table.run('job'), BUSY)
    contains(table.holdfast('show', 'job').out, 'holdfast is what we use')
    equal(table.holdfast('break', '-y', 'job').code, 0)
    equal(table.run('job'), 0)


@for_both
def method_lock_name_that_does_not_fit_is_refused(box, kind):
    table = Table(box, kind, 'method_lock')
    equal(table.run('n' * 64), 0)
    result = table.holdfast('try', 'n' * 65, '--', 'true')
    equal(result.code, 64, result)
    equal(table.sql('SELECT COUNT(*) FROM method_lock'), '0')


@for_both
def common_lock_is_entered_again_by_entry_count(box, kind):
    table = Table(box, kind, 'common_lock')
    table.sql("INSERT INTO common_lock (id, entry_count, thread_id, host_ip) "
              "VALUES (42, 2, 7, '10.0.0.1')")
    equal(table.run('42'), BUSY)
    shown = table.holdfast('show', '42').out.split('\n')[1].split()
    equal(shown[4:], ['-', '-', 'thread', '7,', 'entered', '2', 'times'])
    contains(table.holdfast('show', '--json', '42').out, '10.0.0.1')
    table.sql('UPDATE common_lock SET entry_count = entry_count - 1')
    equal(table.run('42'), BUSY, 'it has been entered once more than left')
    equal(table.holdfast('break', '-y', '42').code, 0, 'what a dead program has left')
    count, thread = table.while_held('42', 'SELECT entry_count, thread_id FROM common_lock')
    equal((count, int(thread) > 0), ('1', True))
    equal(table.sql('SELECT COUNT(*) FROM common_lock'), '0')


@for_both
def row_is_as_the_other_libraries_have_it(box, kind):
    name, digest = 'jobs/ä', hashlib.md5('jobs/ä'.encode()).digest()
    table = Table(box, kind, 'shedlock')
    until, by = table.while_held(name, f"SELECT lock_until > {UTC[kind]}, locked_by FROM shedlock "
                                       f"WHERE name = '{name}'")
    equal((until in '1t', by[:9]), (True, 'holdfast-'))
    equal(table.sql(f'SELECT COUNT(*) FROM shedlock WHERE lock_until <= {UTC[kind]}'), '1',
          'the row is never deleted')
    table.use('laravel')
    seconds, = table.while_held(name, f'SELECT expiration - {UNIX[kind]} FROM cache_locks')
    equal(28 <= int(seconds) <= 34, True, seconds)
    equal(table.sql('SELECT COUNT(*) FROM cache_locks'), '0')
    table.use('symfony')
    key, length, seconds = table.while_held(
        name, f'SELECT key_id, length(key_token), key_expiration - {UNIX[kind]} FROM lock_keys')
    equal((key, int(length) <= 44), (hashlib.sha256(name.encode()).hexdigest(), True))
    equal(28 <= int(seconds) <= 33, True, seconds)
    equal(table.sql('SELECT COUNT(*) FROM lock_keys'), '0')
    table.use('int_lock')
    query = f'SELECT LOCK_KEY, REGION, EXPIRED_AFTER > {UTC[kind]}, CLIENT_ID FROM INT_LOCK'
    key, region, after, client = table.while_held(name, query)
    equal((key, region, after in '1t'), (str(uuid.UUID(bytes=digest, version=3)), 'DEFAULT', True))
    equal(len(client), 36)
    verbatim = 'F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6'
    equal(table.while_held(verbatim, query)[0], verbatim.lower())
    equal(table.sql('SELECT COUNT(*) FROM INT_LOCK'), '0')


@for_both
def row_of_another_library_ends_when_it_says(box, kind):
    table = Table(box, kind, 'shedlock')
    for layout, insert in foreign_rows(kind).items():
        table.use(layout)
        table.sql(insert.format(60))
        equal(table.run('job'), BUSY, layout)
        equal(table.holdfast('held', 'job').code, 0, layout)
        equal(table.holdfast('break', '-y', 'job').code, 0, layout)
        equal(table.run('job'), 0, layout)
        relation = insert.split()[2]
        table.sql(f'DELETE FROM {relation}')
        table.sql(insert.format(-60))
        equal(table.holdfast('held', 'job').code, 1, layout)
        equal(table.run('job'), 0, layout)
        table.sql(f'DELETE FROM {relation}')
        table.sql(insert.format(-60))
        kept = layout == 'shedlock'
        equal(json.loads(table.holdfast('gc', '--json').out), {'removed': 0 if kept else 1}, layout)


@for_both
def table_becomes_the_full_set(box, kind):
    table = Table(box, kind, 'method_lock')
    table.insert_by_hand('job', 'long ' * 200)
    table.insert_by_hand('other')
    equal(json.loads(table.holdfast('schema', 'migrate', '--json').out), {'copied': 2})
    equal(json.loads(table.holdfast('schema', 'migrate', '--json').out), {'copied': 2}, 'again')
    table.use('common_lock')
    table.sql("INSERT INTO common_lock (id, entry_count, thread_id, host_ip) "
              "VALUES (42, 1, 7, '10.0.0.1')")
    equal(json.loads(table.holdfast('schema', 'migrate', '--json').out), {'copied': 1})
    table.options = ''
    for name in ('job', 'other', '42'):
        equal(table.run(name), BUSY, name)
    shown = table.holdfast('show').out
    contains(shown, 'by hand')
    contains(shown, 'thread 7, entered 1 times')
    equal(table.holdfast('try', '--shared', 'readers', '--', 'true').code, 0)
    equal(table.holdfast('try', '--fair', 'in order', '--', 'true').code, 0)
    equal(table.holdfast('break', '-y', 'job').code, 0)
    equal(table.run('job'), 0)


@for_both
def migrate_copies_what_is_held_in_every_layout(box, kind):
    table = Table(box, kind, 'shedlock')
    for layout, insert in foreign_rows(kind).items():
        table.use(layout)
        table.sql(insert.format(60))
        equal(json.loads(table.holdfast('schema', 'migrate', '--json').out), {'copied': 1}, layout)
    table.options = ''
    # Symfony's and Spring's names are digests.
    equal(table.run('job'), BUSY)
    equal(table.sql('SELECT COUNT(*) FROM hf_lock'), '3')


@for_both
def layout_tells_what_it_does_not_have(box, kind):
    table = Table(box, kind, 'method_lock')
    for words in (['try', '--shared', 'x', '--', 'true'], ['try', '--fair', 'x', '--', 'true']):
        result = table.holdfast(*words)
        equal(result.code, 64, result)
        contains(result.err, 'postgres with a layout' if kind == 'postgres' else 'mysql with')
    result = box.run('-e', table.database.url('?layout=nothing'), 'try', 'x', '--', 'true')
    equal(result.code, 64)
    contains(result.err, 'layout is one of')

# As bytes: the tables of text cannot have all of them.
HOSTILE = [os.fsdecode(name) for name in (
    b"'; DROP TABLE method_lock; --", b"x' OR '1'='1", b'$1', b'?', b'%', b'_', b'\\', b'"', b'`',
    b':name_text', b'\x01\x7f', b"' UNION SELECT 1; -- " + b'x' * 1000, bytes(range(1, 256)),
    bytes(range(1, 256)) * 4 + b'last', b"\xbf' OR 1=1 -- ", b'\xff' * 1024)]


@for_both
def hostile_name_is_a_lock_or_refused_in_every_layout(box, kind):
    table = Table(box, kind, 'method_lock')
    for layout in LAYOUTS:
        table.use(layout)
        url, refused = table.database.url(table.options), 0
        for name in HOSTILE:
            result = table.holdfast('run', name, '--', 'env', '-i', COMMAND, '-e', url, 'try', name,
                                    '--', 'true')
            equal(result.code in (BUSY, 64), True, (layout, name, result))
            refused += result.code == 64
            contains(result.err, 'SQL at ' if result.code == 64 else 'is held by ')
        print(f'# {kind}, {layout}: {len(HOSTILE) - refused} names, {refused} refused', flush=True)
        equal(refused <= 5, True, layout)
        equal(json.loads(table.holdfast('show', '--json').out), [], 'nothing is left')


main()
