# SPDX-License-Identifier: Apache-2.0
"""Lock tables of other programs: hand-written statements and holdfast exclude each other."""
import os
import pathlib
import subprocess
import sys
import threading

from clitest import Skip, equal, main, test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
import sql_servers  # noqa: E402

ROUNDS = 12
# What people write by hand: insert is acquire, a duplicate key is busy, delete is release.
BY_HAND = {
    'method_lock': ("INSERT INTO method_lock (method_name, `desc`) VALUES ('job', 'by hand')",
                    "DELETE FROM method_lock WHERE method_name = 'job'", 'job'),
    'common_lock': ("INSERT INTO common_lock (id, entry_count, thread_id, host_ip) "
                    "VALUES (42, 1, 7, '10.0.0.1')", "DELETE FROM common_lock WHERE id = 42", '42'),
}


class Table:
    """A MariaDB server of the test's own, with the table that the layout prints."""

    def __init__(self, box, layout):
        if os.environ['HOLDFAST_MYSQL'] != 'yes' or sql_servers.missing('mariadb'):
            raise Skip(sql_servers.missing('mariadb') or 'this build has no engine for MySQL')
        self.box, (self.take, self.give, self.name) = box, BY_HAND[layout]
        os.chmod(box.path, 0o755)
        self.server = sql_servers.Server('mariadb', f'{box.path}/mariadb').start()
        self.url = (f'mariadb://{sql_servers.USER}:{sql_servers.PASSWORD}@127.0.0.1:'
                    f'{self.server.port}/{sql_servers.DATABASE}?tls=off&layout={layout}')
        printed = self.holdfast('schema', 'print')
        equal(printed.returncode, 0, 'schema print')
        equal(self.sql(printed.stdout), True, 'the printed statements')

    def sql(self, statements):
        done = subprocess.run(['mariadb', '--no-defaults', '-BN', '-uroot', '-S',
                               f'{self.server.directory}/{sql_servers.MARIADB_SOCKET}',
                               sql_servers.DATABASE], input=statements, text=True, check=False,
                              capture_output=True)
        return done.returncode == 0

    def holdfast(self, *words):
        return subprocess.run([os.environ['HOLDFAST_COMMAND'], '-e', self.url, *words], text=True,
                              check=False, capture_output=True, stdin=subprocess.DEVNULL)


def both_are_busy_for_each_other(box, layout):
    table = Table(box, layout)
    equal(table.sql(table.take), True, 'taken by hand')
    equal(table.holdfast('try', table.name, '--', 'true').returncode, 75, 'holdfast is refused')
    equal(table.holdfast('held', table.name).returncode, 0, 'holdfast sees the holder')
    equal(table.sql(table.give), True, 'given back by hand')
    inside = f'mariadb --no-defaults -uroot -S {table.server.directory}/' \
             f'{sql_servers.MARIADB_SOCKET} {sql_servers.DATABASE} -e "{table.take}" 2>/dev/null'
    inside = inside.replace('`', '\\`')
    done = table.holdfast('run', table.name, '--', 'sh', '-c', f'{inside}; test $? -eq 1')
    equal(done.returncode, 0, 'by hand it is a duplicate key')
    equal(table.sql(table.take), True, 'nothing is left')
    table.server.stop()


def counted_to_the_last(box, layout):
    table = Table(box, layout)
    counter = f'{box.path}/counter'
    step = f'n=$(cat {counter}); echo $((n + 1)) >{counter}'
    with open(counter, 'w', encoding='utf-8') as file:
        file.write('0\n')

    def by_hand():
        for _ in range(ROUNDS):
            while not table.sql(table.take):
                pass
            subprocess.run(['sh', '-c', step], check=True)
            equal(table.sql(table.give), True, 'given back by hand')

    thread = threading.Thread(target=by_hand)
    thread.start()
    for _ in range(ROUNDS):
        equal(table.holdfast('run', table.name, '--', 'sh', '-c', step).returncode, 0, 'run')
    thread.join()
    with open(counter, encoding='utf-8') as file:
        equal(int(file.read()), 2 * ROUNDS, 'the counter')
    table.server.stop()


@test
def method_lock_by_hand_and_holdfast_are_busy_for_each_other(box):
    both_are_busy_for_each_other(box, 'method_lock')


@test
def common_lock_by_hand_and_holdfast_are_busy_for_each_other(box):
    both_are_busy_for_each_other(box, 'common_lock')


@test
def method_lock_is_counted_to_the_last(box):
    counted_to_the_last(box, 'method_lock')


@test
def common_lock_is_counted_to_the_last(box):
    counted_to_the_last(box, 'common_lock')


main()
