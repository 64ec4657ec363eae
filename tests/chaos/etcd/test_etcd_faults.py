#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of etcd servers, and of the way to them, while locks are held and waited for.

usage: test_etcd_faults.py PEER [NAME...]
"""

import re
import sys
import time

from stage import (FOR_EVER, PATIENCE, Stage, equal, etcd_server, hand_over, holder_and_waiter,
                   main, relayed, wait_until)

# Its first renewal comes after 40 s: what is noticed before that is noticed by a watch.
LONG_LEASE_MS = 120000
SOON_S = 30


def leader_killed_costs_no_lock(directory):
    stage = Stage(directory, members=3)
    holder, waiter = holder_and_waiter(stage, "one")
    stage.leader().kill()
    hand_over(stage, holder, waiter, "one")
    stage.end()


def leader_that_stands_still_costs_no_lock(directory):
    stage = Stage(directory, members=3)
    holder, waiter = holder_and_waiter(stage, "one", lease_ms=20000)
    leader = stage.leader()
    leader.stop()
    holder.want("ok", "a", "unlock", "mutex", "one")
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    leader.go_on()
    waiter.want("ok", "b", "unlock", "mutex", "one")
    stage.wait_for_keys("one", 0)
    stage.end()


def compaction_wakes_no_waiter_and_loses_none(directory):
    stage = Stage(directory)
    holder, waiter = holder_and_waiter(stage, "one")
    for _ in range(3):
        said = stage.cluster.control("put", "elsewhere", "x", "-w", "json").stdout
        stage.cluster.control("compact", re.search(r'"revision":(\d+)', said)[1])
    hand_over(stage, holder, waiter, "one")
    stage.end()


def waiter_whose_lease_is_revoked_queues_again(directory):
    stage = Stage(directory)
    holder, waiter = holder_and_waiter(stage, "one", lease_ms=LONG_LEASE_MS)
    before = stage.keys("one")
    begun = time.monotonic()
    stage.cluster.control("lease", "revoke", f"{int(before[1][1]):x}")
    wait_until(lambda: len(stage.keys("one")) == 2 and stage.keys("one") != before,
               "the waiter has another key")
    took = time.monotonic() - begun
    assert took < SOON_S, f"only after {took:.0f} s, by its renewal"
    hand_over(stage, holder, waiter, "one")
    stage.end()


def keys_deleted_at_once_let_no_waiter_in_without_a_key(directory):
    """The waiter finds nothing in its way, and not its own key either."""
    stage = Stage(directory)
    holder, waiter = holder_and_waiter(stage, "one", lease_ms=LONG_LEASE_MS)
    stage.cluster.control("del", etcd_server.PREFIX + "one/", "--prefix")
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    equal(len(stage.keys("one")), 1, "keys")
    holder.want("lost", "a", "unlock", "mutex", "one")
    waiter.want("ok", "b", "unlock", "mutex", "one")
    stage.end()


def holder_whose_lease_is_revoked_is_told_by_its_watch(directory):
    stage = Stage(directory)
    side = stage.side("the holder", lease_ms=LONG_LEASE_MS)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    side.want("1", "a", "holds", "mutex", "one")
    begun = time.monotonic()
    stage.cluster.control("lease", "revoke", f"{int(stage.keys('one')[0][1]):x}")
    wait_until(lambda: side.ask("a", "holds", "mutex", "one") == "0", "it is told")
    took = time.monotonic() - begun
    assert took < SOON_S, f"only after {took:.0f} s, by its renewal"
    side.want("lost", "a", "unlock", "mutex", "one")
    side.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    stage.end()


def key_deleted_by_hand_is_a_loss(directory):
    stage = Stage(directory)
    side = stage.side("the holder", lease_ms=LONG_LEASE_MS)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    side.want("1", "a", "holds", "mutex", "one")
    stage.cluster.control("del", stage.keys("one")[0][0])
    wait_until(lambda: side.ask("a", "holds", "mutex", "one") == "0", "it is told")
    side.want("lost", "a", "unlock", "mutex", "one")
    stage.end()


def release_of_a_key_that_has_gone_is_a_loss(directory):
    """Also before a watch has told of it: a key is watched once it is held for a moment."""
    stage = Stage(directory)
    side = stage.side("the holder", lease_ms=LONG_LEASE_MS)
    prefix = etcd_server.PREFIX + "one/"
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    stage.cluster.control("del", prefix, "--prefix")
    side.want("lost", "a", "unlock", "mutex", "one")
    stage.end()


def silent_server_is_unreachable_and_serves_again(directory):
    stage = Stage(directory)
    side = stage.side("the client")
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    side.want("ok", "a", "unlock", "mutex", "one")
    stage.cluster.members[0].stop()
    said = side.ask("a", "lock", "mutex", "one", 1500, 0)
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    stage.cluster.members[0].go_on()
    side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    side.want("ok", "b", "unlock", "mutex", "one")
    stage.wait_for_keys("one", 0)
    stage.end()


def killed_server_that_comes_back_has_the_lock_still(directory):
    stage = Stage(directory)
    holder, waiter = holder_and_waiter(stage, "one", lease_ms=20000)
    member = stage.cluster.members[0]
    member.kill()
    member.again()
    assert member.becomes_ready(), "the server does not come back"
    hand_over(stage, holder, waiter, "one")
    stage.end()


def acquire_without_its_reply_is_recognised(directory):
    stage, relay, side = relayed(directory)
    relay.mute = True
    side.tell("a", "lock", "mutex", "one", FOR_EVER, 0)
    stage.wait_for_keys("one", 1)
    relay.cut()
    relay.mute = False
    equal(side.answer("a"), "ok", "what the client hears")
    equal(len(stage.keys("one")), 1, "keys")
    assert relay.lost > 0, "nothing was lost"
    side.want("ok", "a", "unlock", "mutex", "one")
    stage.wait_for_keys("one", 0)
    stage.end()


def release_without_its_reply_is_no_loss(directory):
    stage, relay, side = relayed(directory)
    relay.mute = True
    side.tell("a", "unlock", "mutex", "first")
    stage.wait_for_keys("first", 0)
    relay.cut()
    relay.mute = False
    equal(side.answer("a"), "ok", "what the client hears")
    stage.end()


def wait_given_up_without_a_reply_leaves_no_key(directory):
    stage, relay, side = relayed(directory)
    relay.mute = True
    said = side.ask("a", "lock", "mutex", "one", 1500, 0)
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    relay.cut()
    relay.mute = False
    stage.wait_for_keys("one", 0)
    side.want("ok", "a", "unlock", "mutex", "first")
    stage.end()


def let_pass(seconds, what):
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until, what)


def waits_that_begin_while_no_server_is_there_are_granted_when_it_is_back(directory):
    """The session is alive, as far as the client knows, and is asked about first: there is nothing
    else that would bring a connection up."""
    stage = Stage(directory)
    server, side = stage.cluster.members[0], stage.side("the client", lease_ms=3000)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    side.want("ok", "a", "unlock", "mutex", "one")
    let_pass(1.7, "it is not known any more")
    server.kill()
    names = [f"n{number}" for number in range(12)]
    for name in names:
        side.tell(name, "lock", "mutex", name, FOR_EVER, 0)
    let_pass(0.7, "all of them have asked, some while it pauses")
    server.again()
    for name in names:
        equal(side.answer(name), "ok", f"what {name} hears")
    stage.end()


def client_that_leaves_while_its_break_is_out_leaks_nothing(directory):
    """A sanitizer says so."""
    stage, relay, side = relayed(directory)
    side.want("ok", "a", "unlock", "mutex", "first")
    stage.side("the holder").want("ok", "a", "lock", "mutex", "one", 0, 0)
    key = stage.keys("one")[0][0].encode()
    relay.holds = b"\x1a" + bytes([len(key)]) + key  # of a comparison: what only looks has none
    side.tell("a", "force", "mutex", "one")
    relay.wait_for_held()
    side.tell("main", "close")
    equal(side.process.wait(timeout=PATIENCE), 0, "the client's exit status")
    stage.end()


def lock_under_a_key_that_is_too_long_for_ours_is_broken(directory):
    stage = Stage(directory)
    stage.cluster.control("put", etcd_server.PREFIX + "one/" + 3200 * "0", "of another program")
    stage.side("the client").want("ok", "a", "force", "all", "one")
    stage.wait_for_keys("one", 0)
    stage.end()


TESTS = (leader_killed_costs_no_lock,
         leader_that_stands_still_costs_no_lock,
         compaction_wakes_no_waiter_and_loses_none,
         waiter_whose_lease_is_revoked_queues_again,
         keys_deleted_at_once_let_no_waiter_in_without_a_key,
         holder_whose_lease_is_revoked_is_told_by_its_watch,
         key_deleted_by_hand_is_a_loss,
         release_of_a_key_that_has_gone_is_a_loss,
         silent_server_is_unreachable_and_serves_again,
         killed_server_that_comes_back_has_the_lock_still,
         acquire_without_its_reply_is_recognised,
         release_without_its_reply_is_no_loss,
         wait_given_up_without_a_reply_leaves_no_key,
         client_that_leaves_while_its_break_is_out_leaks_nothing,
         lock_under_a_key_that_is_too_long_for_ours_is_broken,
         waits_that_begin_while_no_server_is_there_are_granted_when_it_is_back)

sys.exit(main(TESTS))
