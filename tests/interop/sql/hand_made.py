# SPDX-License-Identifier: Apache-2.0
"""The lock table that people write by hand: insert is acquire, a duplicate key is busy, delete is
release. A common_lock is entered twice, by its entry_count.

usage: hand_made.py mariadb|postgres TABLE PORT USER PASSWORD DATABASE NAME FILE ROUNDS
With 0 rounds: is it free? Exit code 0 or 75. With "hold" for them: takes the lock, says so, and
gives it back when a line comes."""

import os
import random
import sys
import time

KIND, TABLE, PORT, USER, PASSWORD, DATABASE, NAME, PATH, ROUNDS = sys.argv[1:]
BUSY = 75

if KIND == "mariadb":
    import pymysql
    connection = pymysql.connect(host="127.0.0.1", port=int(PORT), user=USER, password=PASSWORD,
                                 database=DATABASE, autocommit=True)
    DUPLICATE, DEADLOCK, QUOTE = pymysql.err.IntegrityError, pymysql.err.OperationalError, "`"
else:
    import psycopg2
    connection = psycopg2.connect(host="127.0.0.1", port=PORT, user=USER, password=PASSWORD,
                                  dbname=DATABASE)
    connection.autocommit = True
    DUPLICATE, QUOTE = psycopg2.errors.UniqueViolation, '"'
    DEADLOCK = psycopg2.errors.DeadlockDetected

cursor = connection.cursor()


def refused(error):
    """InnoDB answers with a deadlock (1213) where two insert and one deletes, by hand or not."""
    if KIND == "mariadb" and error.args[0] not in (1062, 1213):
        raise error
    return False


def execute(*statement):
    while True:
        try:
            cursor.execute(*statement)
            return
        except DEADLOCK as error:
            refused(error)


class MethodLock:
    def acquire(self):
        cursor.execute(f"INSERT INTO method_lock (method_name, {QUOTE}desc{QUOTE}) "
                       "VALUES (%s, 'by hand')", (NAME,))

    def release(self):
        execute("DELETE FROM method_lock WHERE method_name = %s", (NAME,))


class CommonLock:
    me = (int(NAME) if NAME.isdigit() else 0, os.getpid(), "10.0.0.1")

    def enter_again(self, change):
        execute(f"UPDATE common_lock SET entry_count = entry_count + {change} "
                "WHERE id = %s AND thread_id = %s AND host_ip = %s", self.me)
        assert cursor.rowcount == 1, "the row is gone, or belongs to another owner"

    def acquire(self):
        cursor.execute("INSERT INTO common_lock (id, entry_count, thread_id, host_ip) "
                       "VALUES (%s, 1, %s, %s)", self.me)
        self.enter_again(+1)

    def release(self):
        self.enter_again(-1)
        self.enter_again(-1)
        execute("DELETE FROM common_lock WHERE id = %s AND thread_id = %s AND host_ip = %s "
                "AND entry_count <= 0", self.me)


lock = {"method_lock": MethodLock, "common_lock": CommonLock}[TABLE]()


def take():
    try:
        lock.acquire()
        return True
    except (DUPLICATE, DEADLOCK) as error:
        return refused(error)


if ROUNDS in ("0", "hold"):
    if not take():
        sys.exit(BUSY)
    if ROUNDS == "hold":
        print("held", flush=True)
        sys.stdin.readline()
    lock.release()
    sys.exit()
for _ in range(int(ROUNDS)):
    while not take():
        time.sleep(random.uniform(0.001, 0.02))
    with open(PATH, encoding="ascii") as file:
        count = int(file.read())
    time.sleep(0.001)  # long enough for another holder, if there were one
    with open(PATH, "w", encoding="ascii") as file:
        file.write(f"{count + 1}\n")
    lock.release()
