# SPDX-License-Identifier: Apache-2.0
"""Scenes about what two sides share without a mutex: a number that a single permit or unit
protects; and about who is let in by nothing but a message."""

import pathlib

from sides import FOR_EVER, LONG_LEASE_MS, equal


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


def a_downgrade_of_ours_lets_readers_in(stage, one, other, name):
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


def an_upgrader_of_ours_reads_beside_readers_and_then_writes(stage, one, other, name):
    """To the other side it is a reader, and then a writer, which waits for its last reader."""
    one.want("ok", "a", "lock", "upgrade", name, 0, LONG_LEASE_MS)
    other.want("ok", "a", "lock", "read", name, 0, LONG_LEASE_MS)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    one.want("busy", "b", "lock", "upgrade", name, 0, LONG_LEASE_MS)
    one.want("busy", "a", "upgrade", name, 0)
    one.tell("a", "upgrade", name, FOR_EVER)
    stage.wait_for_a_listener(name, "redisson_rwlock")
    other.want("ok", "a", "unlock", "read", name)
    equal(one.answer("a"), "ok", f"{one.what} who upgrades")
    other.want("busy", "b", "lock", "read", name, 0, 0)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    other.tell("b", "lock", "read", name, FOR_EVER, LONG_LEASE_MS)
    stage.wait_for_a_listener(name, "redisson_rwlock")
    one.want("ok", "a", "unlock", "upgrade", name)
    equal(other.answer("b"), "ok", f"{other.what} who waits to read")
    other.want("ok", "b", "unlock", "read", name)
    stage.check_free(name)


def a_redisson_that_reads_what_it_writes_is_a_writer_to_us(stage, one, other, name):
    """Until it stops writing, which is how it downgrades: it tells nobody, so ours has to look.
    From then on it is a reader, also when ours has come and gone."""
    other.want("ok", "a", "lock", "write", name, 0, LONG_LEASE_MS)
    other.want("ok", "a", "lock", "read", name, 0, LONG_LEASE_MS)
    one.want("busy", "b", "lock", "read", name, 0, 0)
    one.want("busy", "b", "lock", "write", name, 0, 0)
    one.tell("b", "lock", "read", name, FOR_EVER, LONG_LEASE_MS)
    stage.wait_for_a_listener(name, "redisson_rwlock")
    other.want("ok", "a", "unlock", "write", name)
    equal(one.answer("b"), "ok", f"{one.what} who waits to read")
    one.want("busy", "c", "lock", "write", name, 0, 0)
    one.want("ok", "b", "unlock", "read", name)
    one.want("busy", "c", "lock", "write", name, 0, 0)
    other.want("ok", "a", "unlock", "read", name)
    one.want("ok", "c", "lock", "write", name, 0, LONG_LEASE_MS)
    one.want("ok", "c", "unlock", "write", name)
    stage.check_free(name)


def what_we_break_wakes_who_waits(stage, one, other, name):
    """Whoever holds it. The lease is longer than anybody's patience, and a Redisson waits for the
    message alone."""
    del other
    ours, theirs = stage.holdfast, stage.redisson
    for _ in range(3):
        one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
        theirs.tell("b", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name)
        ours.want("ok", "x", "force", "mutex", name)
        equal(theirs.answer("b"), "ok", f"{theirs.what} who waits")
        one.want("lost", "a", "unlock", "mutex", name)
        theirs.want("1", "b", "holds", "mutex", name)
        theirs.want("ok", "b", "unlock", "mutex", name)
    stage.check_free(name)


# (function, whether it is played with the sides exchanged, too)
COUNTS = [(both_count_with_one_permit, False), (both_count_with_one_unit, False)]
SCENES = [*COUNTS, (a_downgrade_of_ours_lets_readers_in, False),
          (an_upgrader_of_ours_reads_beside_readers_and_then_writes, False),
          (a_redisson_that_reads_what_it_writes_is_a_writer_to_us, False),
          (what_we_break_wakes_who_waits, True)]
