#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that etcd executes after the client has given them up, and clients that stand still.

usage: test_etcd_late.py PEER [NAME...]
"""

import signal
import sys

from stage import (FOR_EVER, History, Stage, equal, holder_and_waiter, main, relayed,
                   wait_until)
from nothing_left import stop_child

# No session of that length ends by itself while a test waits.
LONG_LEASE_MS = 600000


def keep_back_an_acquire(side, relay, *order):
    """The client has given up the connection that it left by; it has not arrived."""
    relay.holds = f"{order[1]}/".encode()
    side.tell("b", "lock", *order)
    relay.wait_for_held()
    relay.leave()


def late_acquire_after_its_release_leaves_no_key(directory):
    """The session goes on, for the sake of another lock: the key that comes is deleted."""
    stage, relay, side = relayed(directory)
    for kind, name, keys in (("mutex", "one", 1), ("write", "one-rw", 2), ("read", "one-r", 1)):
        side.want("ok", "a", "lock", "mutex", f"kept-{kind}", 0, 0)
        history = History(stage, name)
        keep_back_an_acquire(side, relay, kind, name, FOR_EVER, 0)
        equal(side.answer("b"), "ok", "what the client hears")
        side.want("ok", "b", "unlock", kind, name)
        history.wait_for_puts(keys)
        relay.deliver()
        history.wait_for_puts(2 * keys)
        stage.wait_for_keys(name, 0)
        history.end()
        side.want("1", "a", "holds", "mutex", f"kept-{kind}")
    side.want("1", "a", "holds", "mutex", "first")
    stage.end()


def late_acquire_after_a_downgrade_keeps_no_reader_out(directory):
    stage, relay, side = relayed(directory)
    other = stage.side("the other client")
    for name, wait in (("one", FOR_EVER), ("two", 0)):
        keep_back_an_acquire(side, relay, "write", name, wait, 0)
        said = side.answer("b")
        if said != "ok":  # a try has one request
            side.want("ok", "b", "lock", "write", name, FOR_EVER, 0)
        side.want("ok", "b", "downgrade", name, "read")
        relay.deliver()
        equal(len(stage.keys(name)), 1, f"keys of {name} after the late acquire")
        other.want("ok", "a", "lock", "read", name, 0, 0)
        other.want("ok", "a", "unlock", "read", name)
        side.want("1", "b", "holds", "read", name)
        side.want("ok", "b", "unlock", "read", name)
        stage.wait_for_keys(name, 0)
    stage.end()


def late_try_that_was_given_up_leaves_no_key(directory):
    stage, relay, side = relayed(directory)
    history, other = History(stage, "one"), stage.side("the other client")
    keep_back_an_acquire(side, relay, "mutex", "one", 0, 0)
    said = side.answer("b")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    # What withdraws it has left before.
    side.want("ok", "b", "lock", "mutex", "two", 0, 0)
    side.want("ok", "b", "unlock", "mutex", "two")
    relay.deliver()
    history.wait_for_puts(1)
    other.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    stage.wait_for_keys("one", 1)
    history.end()
    stage.end()


def late_acquire_of_a_client_without_locks_finds_no_session(directory):
    """Its session has ended, long before its time: nothing is put, and no watch is needed."""
    stage, relay, side = relayed(directory, lease_ms=LONG_LEASE_MS)
    side.want("ok", "a", "unlock", "mutex", "first")
    history = History(stage, "one")
    leases = stage.leases()
    equal(len(leases), 1, "sessions")
    keep_back_an_acquire(side, relay, "mutex", "one", FOR_EVER, 0)
    equal(side.answer("b"), "ok", "what the client hears")
    side.want("ok", "b", "unlock", "mutex", "one")
    wait_until(lambda: not stage.leases(), "the session has ended")
    relay.deliver()
    side.want("ok", "b", "lock", "mutex", "one", 0, 0)
    history.wait_for_puts(2)
    equal(len(stage.keys("one")), 1, "keys")
    equal(history.events.count("put"), 2, "keys that were put")
    history.end()
    stage.end()


def late_release_deletes_no_later_key(directory):
    """A release of a key whose revision is not known has no fence but its name."""
    stage, relay, side = relayed(directory)
    relay.mute = True
    side.tell("b", "lock", "mutex", "one", 1500, 0)
    stage.wait_for_keys("one", 1)
    said = side.answer("b")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    relay.mute, relay.holds = False, b"one/"
    relay.cut()
    relay.wait_for_held()
    relay.leave()
    stage.wait_for_keys("one", 0)
    side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    before = stage.keys("one")
    relay.deliver()
    equal(stage.keys("one"), before, "the keys after the late release")
    side.want("ok", "b", "unlock", "mutex", "one")
    stage.end()


def stopped_waiter_at_the_head_costs_its_lease(directory):
    stage = Stage(directory)
    holder, stopped = holder_and_waiter(stage, "one", lease_ms=2000)
    last = stage.side("the last in the queue")
    last.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    stage.wait_for_keys("one", 3)
    stop_child(stopped.process.pid)
    holder.want("ok", "a", "unlock", "mutex", "one")
    equal(last.answer("b"), "ok", "what the last one hears")
    stopped.process.send_signal(signal.SIGCONT)
    stage.wait_for_keys("one", 2)
    equal(stopped.queue_of("b").empty(), True, "the one that stood still waits still")
    last.want("ok", "b", "unlock", "mutex", "one")
    equal(stopped.answer("b"), "ok", "what the one hears that stood still")
    stage.end()


def loss_is_told_before_another_owner_can_be(directory):
    """The holder counts by its own clock, as no server tells it anything any more."""
    stage, relay, holder = relayed(directory, lease_ms=2000)
    waiter = stage.side("the waiter")
    waiter.tell("b", "lock", "mutex", "first", FOR_EVER, 0)
    stage.wait_for_keys("first", 2)
    equal(waiter.queue_of("b").empty(), True, "the holder's lease is renewed")
    with relay.lock:  # what goes on is held at the same moment on both ways
        relay.holds, relay.mute = b"", True
    wait_until(lambda: not waiter.queue_of("b").empty(), "the waiter has it")
    holder.want("0", "a", "holds", "mutex", "first")
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    relay.holds, relay.mute = None, False
    relay.cut()
    holder.want("lost", "a", "unlock", "mutex", "first")
    waiter.want("1", "b", "holds", "mutex", "first")
    stage.end()


TESTS = (late_acquire_after_its_release_leaves_no_key,
         late_acquire_after_a_downgrade_keeps_no_reader_out,
         late_try_that_was_given_up_leaves_no_key,
         late_acquire_of_a_client_without_locks_finds_no_session,
         late_release_deletes_no_later_key,
         stopped_waiter_at_the_head_costs_its_lease,
         loss_is_told_before_another_owner_can_be)

sys.exit(main(TESTS))
