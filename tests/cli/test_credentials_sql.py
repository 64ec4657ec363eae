# SPDX-License-Identifier: Apache-2.0
"""Users and passwords of databases: read from the files of the client libraries, and shown
nowhere."""
import os
import subprocess

from clitest import contains, equal, file_of, main, test

from databases import DATABASE, PASSWORD, USER, Database

# What another program's connection needs. None of it is for ours.
FOREIGN = """host = 192.0.2.1
port = 1
protocol = socket
socket = /nowhere/mysql.sock
database = elsewhere
default-character-set = latin1
reconnect = 1
"""


def write_secret(path, text):
    with open(path, 'w', encoding='utf-8', opener=lambda name, flags: os.open(name, flags, 0o600)
              ) as file:
        file.write(text)


def url_without_password(database, user=''):
    user = user and f'{user}@'
    return database.url(user='X').replace('X@', user, 1)


def write_my_cnf(box, password, more=''):
    write_secret(box.file('.my.cnf'),
                 f'[client]\nuser = {USER}\npassword = "{password}"\n{more}')


@test
def password_file_of_mariadb_is_read(box):
    database = Database(box, 'mariadb')
    home = {'HOME': box.path}
    url = url_without_password(database)
    write_my_cnf(box, PASSWORD)
    equal(box.run('-e', url, 'try', 'x', '--', 'true', environment=home).code, 0)
    # What the URL says goes before what the file says.
    write_my_cnf(box, 'wrong')
    equal(box.run('-e', url, 'try', 'x', '--', 'true', environment=home).code, 77)
    equal(database.holdfast('try', 'x', '--', 'true', environment=home).code, 0)


@test
def password_file_of_mariadb_names_no_other_server(box):
    database = Database(box, 'mariadb')
    home = {'HOME': box.path}
    write_my_cnf(box, PASSWORD, FOREIGN)
    result = box.run('-e', url_without_password(database), 'try', 'x', '--', 'true',
                     environment=home)
    equal((result.code, result.err), (0, ''))
    equal(database.sql('SELECT COUNT(*) FROM hf_lock'), '1')


@test
def password_file_of_postgres_is_read(box):
    database = Database(box, 'postgres')
    home = {'HOME': box.path}
    url = url_without_password(database, USER)
    equal(box.run('-e', url, 'try', 'x', '--', 'true', environment=home).code, 77)
    write_secret(box.file('.pgpass'), f'127.0.0.1:{database.server.port}:{DATABASE}:{USER}:'
                 f'{PASSWORD}\n')
    equal(box.run('-e', url, 'try', 'x', '--', 'true', environment=home).code, 0)
    equal(box.run('-e', url_without_password(database), 'try', 'x', '--', 'true',
                  environment={**home, 'PGUSER': USER}).code, 0)
    write_secret(box.file('.pgpass'), f'*:*:*:{USER}:wrong\n')
    equal(box.run('-e', url, 'try', 'x', '--', 'true', environment=home).code, 77)
    equal(database.holdfast('try', 'x', '--', 'true', environment=home).code, 0)


def shows_no_password(box, kind):
    database = Database(box, kind)
    trace = 'trace:' + database.url()
    holder = box.start('-e', trace, 'run', 'x', '--', 'sh', '-c',
                       'echo ready; env; read line', stdin=subprocess.PIPE)
    equal(holder.line(), 'ready')
    seen = [file_of(holder.pid, 'cmdline')]
    for verb in (['show'], ['show', '--json'], ['doctor'], ['doctor', '--json'], ['gc'],
                 ['schema', 'print'], ['try', 'x', '--', 'true'], ['break', '-y', 'nothing'],
                 ['run', '-w', '100ms', 'x', '--', 'true']):
        for url in (database.url(), trace, database.url(database='elsewhere'),
                    database.url(user=f'nobody:{PASSWORD}'), database.url('?tls=verify'),
                    database.url('?nonsense=1')):
            result = box.run('-e', url, *verb)
            seen += [result.out, result.err]
    database.server.stop()
    for verb in ('show', 'doctor'):
        result = box.run('-e', database.url(), verb)
        equal(result.code, 69)
        seen += [result.out, result.err]
    ended = holder.end()
    seen += [ended.out, ended.err]
    contains(ended.err, 'trace: ')
    for text in seen:
        equal(PASSWORD in text, False, text)


@test
def mariadb_password_is_never_shown(box):
    shows_no_password(box, 'mariadb')


@test
def postgres_password_is_never_shown(box):
    shows_no_password(box, 'postgres')


main()
