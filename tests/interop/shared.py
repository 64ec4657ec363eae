"""Scenes about what two sides share without a mutex: a number that a single permit or unit
protects; and about who is let in by nothing but a message."""

import pathlib
import socket

from sides import FOR_EVER, LONG_LEASE_MS, PATIENCE, equal


def count_up(stage, sides, name, kind, threads, times):
    """Nothing but the lock protects the number."""
    path = pathlib.Path(stage.directory, name.replace("/", "-"))
    path.write_text("0")
    for thread in threads:
        for side in sides:
            side.tell(thread, "count", kind, name, path, times)
    for thread in threads:
        for side in sides:
            equal(side.answer(thread), "ok", f"{side.what}, {thread}")
    equal(int(path.read_text()), times * 2 * len(threads), "the number")


def both_count_with_one_permit(stage, one, other, name):
    one.want("ok", "a", "permits", name, 1)
    count_up(stage, (one, other), name, "permit", "abc", 40)
    equal(stage.server.ask("GET", name), b"$1\r\n1\r\n", "the free permits")
    equal(stage.server.ask("EXISTS", f"{{{name}}}:timeout"), b":0\r\n", "whether one is out")


def both_count_with_one_unit(stage, one, other, name):
    one.want("ok", "a", "give", name, 1)
    count_up(stage, (one, other), name, "unit", "abc", 40)
    other.want("1", "a", "units", name)


def a_downgrade_lets_readers_in(stage, one, other, name):
    """The lease is longer than anybody's patience, so nothing but the message ends the wait of a
    Redisson in time."""
    for _ in range(3):
        one.want("ok", "a", "lock", "write", name, 0, LONG_LEASE_MS)
        other.tell("b", "lock", "read", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name, "redisson_rwlock")
        one.want("ok", "a", "downgrade", name, LONG_LEASE_MS)
        equal(other.answer("b"), "ok", f"{other.what} who waits to read")
        other.want("busy", "c", "lock", "write", name, 0, 0)
        one.want("ok", "a", "unlock", "read", name)
        other.want("ok", "b", "unlock", "read", name)
    stage.check_free(name)


class Ear:
    """Hears what is said on a channel."""

    def __init__(self, server, channel):
        self.stream = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        self.heard = b""
        self.stream.sendall(f"SUBSCRIBE {channel}\r\n".encode())
        self.hear(b":1\r\n")

    def hear(self, what):
        while what not in self.heard:
            more = self.stream.recv(4096)
            equal(more != b"", True, "whether the server goes on")
            self.heard += more

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stream.close()


def what_is_broken_wakes_who_waits(stage, one, other, name):
    """The lease is longer than anybody's patience. A Redisson waits for the message alone; ours
    looks from time to time, so that what it is told is heard here."""
    for _ in range(3):
        one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
        other.tell("b", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name)
        with Ear(stage.server, f"redisson_lock__channel:{{{name}}}") as ear:
            one.want("ok", "x", "force", "mutex", name)
            ear.hear(b"$7\r\nmessage\r\n")
        equal(other.answer("b"), "ok", f"{other.what} who waits")
        one.want("lost", "a", "unlock", "mutex", name)
        other.want("1", "b", "holds", "mutex", name)
        other.want("ok", "b", "unlock", "mutex", name)
    stage.check_free(name)


# (function, whether it is played with the sides exchanged, too)
COUNTS = [(both_count_with_one_permit, False), (both_count_with_one_unit, False)]
SCENES = [*COUNTS, (a_downgrade_lets_readers_in, True), (what_is_broken_wakes_who_waits, True)]
