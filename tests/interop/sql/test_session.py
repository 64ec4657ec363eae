#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Session locks (layout=session) beside the statements of other programs, and under faults.

usage: test_session.py mariadb|postgres HOLDFAST

The other programs' keys are worked out here a second time, from what they publish."""

import hashlib
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "lib")]

from nothing_left import stop_child  # noqa: E402
from sides import Skip, equal, run, scratch, skip_all, wait_until  # noqa: E402
from sql_servers import (DATABASE, MARIADB_SOCKET, PASSWORD, USER, Server,  # noqa: E402
                         missing, program)

SOON_S = 60
BUSY = 75
# A command under a lock.
HOLDS = ["sh", "-c", "echo held; exec sleep 600"]


def ascii_key(name):
    """DistributedLock.Postgres: 7 bits a character, a zero, and ones up to 64 bits; as a pair."""
    bits = "".join(f"{ord(letter):07b}" for letter in name) + "0"
    return "%d, %d" % struct.unpack(">ii", int(bits.ljust(64, "1"), 2).to_bytes(8, "big"))


def sha1_key(name):
    return int.from_bytes(hashlib.sha1(name.encode()).digest()[:8], "little", signed=True)


def safe_name(name):
    """DistributedLock.MySql: a prefix, and 160 bits of SHA-512 in base32, from the low end."""
    bits = int.from_bytes(hashlib.sha512(name.encode()).digest()[:20], "little")
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    return name.lower()[:32] + "".join(letters[bits >> 5 * i & 31] for i in range(32))


def rails_key(database):
    return 2053462845 * zlib.crc32(database.encode())


def sha512_key(name):
    return int.from_bytes(hashlib.sha512(name.encode()).digest()[:8], "big", signed=True)


# lock_key, the name in holdfast, and the key in the other program's statement.
KEYS = {
    "postgres": [
        ("number", "12345", "12345"), ("number", str(2**63 - 1), 2**63 - 1),
        ("number", "1:2", "1, 2"),
        ("distributedlock", "short", ascii_key("short")),
        ("distributedlock", "ninechars", ascii_key("ninechars")),
        ("distributedlock", "a name that is longer", sha1_key("a name that is longer")),
        ("distributedlock", "00000000000000ff", 255),
        ("distributedlock", "00000001,ffffffff", "1, -1"),
        ("symfony", "the key", zlib.crc32(b"the key")),
        ("rails", "app_production", rails_key("app_production")),
        ("name", "any name", sha512_key("any name")),
    ],
    "mariadb": [
        ("number", "12345", "'12345'"), ("name", "cron:nightly", "'cron:nightly'"),
        ("name", "Capital", "'hf-" + hashlib.sha512(b"Capital").hexdigest()[:61] + "'"),
        ("distributedlock", "low", "'low'"),
        ("distributedlock", "Mixed Case", f"'{safe_name('Mixed Case')}'"),
        ("distributedlock", "x" * 70, f"'{safe_name('x' * 70)}'"),
        ("rails", "app_production", f"'{rails_key('app_production')}'"),
    ],
}


class Other:
    """Another program's session: the database's own client, which is told statements."""

    def __init__(self, server):
        words = (["mariadb", "--no-defaults", "-BN", "--unbuffered", "-u", "root", "-S",
                  f"{server.directory}/{MARIADB_SOCKET}", DATABASE] if server.kind == "mariadb" else
                 [program("psql"), "-h", server.directory, "-p", str(server.port), "-U", "postgres",
                  "-d", DATABASE, "-Atq"])
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, statement):
        self.process.stdin.write(statement + ";\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(SOON_S)


class Box:
    """A server, and holdfast as a user calls it."""

    def __init__(self, kind, holdfast, directory):
        self.kind, self.holdfast = kind, holdfast
        self.server = Server(kind, directory).start()
        scheme = "mysql" if kind == "mariadb" else "postgres"
        self.url = (f"{scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.server.port}/{DATABASE}"
                    "?tls=off&layout=session")

    def words(self, verb, *words, key="name"):
        return [self.holdfast, "-e", f"{self.url}&lock_key={key}", verb, *words]

    def status(self, verb, *words, key="name"):
        return subprocess.run(self.words(verb, *words, key=key), check=False, timeout=SOON_S,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def begin(self, *words, **more):
        """A command under a lock, which says when it runs."""
        process = subprocess.Popen(self.words("run", *words, "--", *HOLDS),
                                   stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                                   **more)
        return process

    def hold(self, name):
        process = self.begin(name)
        equal(process.stdout.readline().strip(), "held", f"{name} is held")
        return process

    def take(self, key):
        return f"SELECT GET_LOCK({key}, 0)" if self.kind == "mariadb" else \
            f"SELECT pg_try_advisory_lock({key})::int"

    def give(self, key):
        return f"SELECT RELEASE_LOCK({key})" if self.kind == "mariadb" else \
            f"SELECT pg_advisory_unlock({key})::int"

    def sessions(self, other):
        """Of holdfast, that have locked something: their numbers."""
        if self.kind == "mariadb":
            return other.ask("SELECT COALESCE(GROUP_CONCAT(ID SEPARATOR ' '), '') FROM "
                             f"information_schema.PROCESSLIST WHERE USER = '{USER}'").split()
        return other.ask("SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity "
                         "WHERE application_name LIKE 'holdfast%'").split()

    def end_session(self, other, number):
        if self.kind == "mariadb":
            other.ask(f"KILL {number}; SELECT 1")
        else:
            other.ask(f"SELECT pg_terminate_backend({number})")


def need(true, what):
    equal(bool(true), True, what)


def finish(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(SOON_S)


def keys_are_those_of_other_programs(box):
    other = Other(box.server)
    for form, name, key in KEYS[box.kind]:
        equal(other.ask(box.take(key)), "1", f"{form} {name}: the other program takes it")
        equal(box.status("try", name, "true", key=form), BUSY, f"{form} {name}: busy for holdfast")
        equal(other.ask(box.give(key)), "1", f"{form} {name}: it gives it back")
        equal(box.status("try", name, "true", key=form), 0, f"{form} {name}: free for holdfast")
    other.close()


def lock_of_holdfast_is_busy_for_other_program(box):
    other, key = Other(box.server), KEYS[box.kind][1]
    holder = subprocess.Popen(box.words("run", key[1], "--", *HOLDS, key=key[0]),
                              stdout=subprocess.PIPE, text=True)
    equal(holder.stdout.readline().strip(), "held", "it is held")
    equal(other.ask(box.take(key[2])), "0", "the other program is refused")
    finish(holder)
    wait_until(lambda: other.ask(box.take(key[2])) == "1", "it is free after the release")
    other.close()


def session_killed_while_held_is_a_loss(box):
    other, holder = Other(box.server), box.hold("killed-held")
    for number in box.sessions(other):
        box.end_session(other, number)
    need(holder.wait(SOON_S) != 0, "the command ends when the lock is lost")
    equal(box.status("try", "killed-held", "true"), 0, "the lock is free")
    other.close()


def session_killed_while_waiting_waits_again(box):
    other, holder = Other(box.server), box.hold("killed-waiting")
    before = set(box.sessions(other))
    waiter = box.begin("killed-waiting")
    wait_until(lambda: len(set(box.sessions(other)) - before) >= 2, "the waiter has two sessions")
    for number in set(box.sessions(other)) - before:
        box.end_session(other, number)
    finish(holder)
    equal(waiter.stdout.readline().strip(), "held", "the waiter gets the lock")
    finish(waiter)
    other.close()


def holder_stopped_past_the_limit_has_lost_it(box):
    """The lease of the command is 30 seconds, so this takes a little longer."""
    holder = box.hold("stopped")
    stop_child(holder.pid)
    started = time.monotonic()
    waiter = box.begin("stopped")
    until = started + 31 + SOON_S
    while waiter.poll() is None and not os.read(waiter.stdout.fileno(), 1):
        need(time.monotonic() < until, "the next one gets the lock")
    need(time.monotonic() - started >= 28, "not before the lease of the holder is over")
    holder.send_signal(signal.SIGCONT)
    need(holder.wait(SOON_S) != 0, "the holder has lost it")
    finish(waiter)


def short_idle_limit_of_the_server_ends_no_session(box):
    other = Other(box.server)
    if box.kind == "mariadb":
        other.ask("SET GLOBAL wait_timeout = 5; SELECT 1")
    else:
        other.ask(f"ALTER ROLE {USER} SET idle_session_timeout = '5s'; SELECT 1")
    holder = box.hold("idle")
    try:
        holder.wait(8)
    except subprocess.TimeoutExpired:
        pass
    equal(holder.poll(), None, "it still runs")
    equal(box.status("try", "idle", "true"), BUSY, "it is still held")
    finish(holder)
    if box.kind == "mariadb":
        other.ask("SET GLOBAL wait_timeout = 28800; SELECT 1")
    else:
        other.ask(f"ALTER ROLE {USER} RESET ALL; SELECT 1")
    other.close()


def server_restarted_ends_what_is_held(box):
    holder = box.hold("restarted")
    box.server.stop()
    box.server.start()
    need(holder.wait(SOON_S) != 0, "the command ends when the lock is lost")
    equal(box.status("run", "restarted", "true"), 0, "the lock can be had again")


def break_of_a_session_with_several_locks_needs_its_key(box):
    """One client holds both, so they are on one session."""
    other = Other(box.server)
    holder = subprocess.Popen(box.words("run", "first", "--",
                                        *box.words("run", "single", "--", *HOLDS)),
                              stdout=subprocess.PIPE, text=True)
    equal(holder.stdout.readline().strip(), "held", "both are held")
    equal(box.status("try", "first", "true"), BUSY, "the first is held")
    # Two clients have a session each: each has one lock, and may be broken.
    broken = box.status("break", "-y", "single")
    if box.kind == "mariadb":
        need(broken != 0, "MariaDB does not show what a session has locked")
    else:
        equal(broken, 0, "the only lock of its session is broken")
        wait_until(lambda: box.status("try", "single", "true") == 0, "it is free")
        for key in (1, 2):
            other.ask(box.take(key))
        need(box.status("break", "-y", "1", key="number") != 0, "two locks do not end")
        equal(other.ask(box.give(2)), "1", "it has both")
    finish(holder)
    other.close()


def pooler_is_refused_with_the_reason(box):
    if box.kind == "mariadb" or missing("pgbouncer"):
        raise Skip("there is no PgBouncer here")
    with scratch() as directory:
        os.chmod(directory, 0o755)
        pooler = Server("pgbouncer", directory, str(box.server.port)).start()
        url = box.url.replace(f":{box.server.port}/", f":{pooler.port}/")
        done = subprocess.run([box.holdfast, "-e", url, "try", "pooled", "true"], check=False,
                              capture_output=True, text=True, timeout=SOON_S)
        pooler.stop()
    need(done.returncode not in (0, BUSY), "it is refused")
    need("pooler in between lends sessions" in done.stderr, done.stderr)


SCENES = [keys_are_those_of_other_programs, pooler_is_refused_with_the_reason,
          break_of_a_session_with_several_locks_needs_its_key,
          lock_of_holdfast_is_busy_for_other_program,
          session_killed_while_held_is_a_loss, session_killed_while_waiting_waits_again,
          holder_stopped_past_the_limit_has_lost_it,
          short_idle_limit_of_the_server_ends_no_session, server_restarted_ends_what_is_held]


def main():
    kind, holdfast = sys.argv[1:]
    if missing(kind):
        skip_all(missing(kind))
    with scratch() as directory:
        os.chmod(directory, 0o755)
        box = Box(kind, holdfast, f"{directory}/{kind}")
        tests = [(scene.__name__, scene) for scene in SCENES]
        status = run(tests, lambda scene: scene(box))
        box.server.stop()
    sys.exit(status)


main()
