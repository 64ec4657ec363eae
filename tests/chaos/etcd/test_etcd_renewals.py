#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lock with a lease of its own: moves of its key to a lease whose replies are lost, or that etcd
executes after the client has given them up.

usage: test_etcd_renewals.py PEER [NAME...]
"""

import sys

from stage import FOR_EVER, equal, main, relayed, wait_until

OWN_MS, LONGER_MS = 120000, 300000
# Only what puts a key has it.
NOTE = b"holdfast mutex*1"
# The session, and the lease of the lock's own.
LEASES = 2


def leased(directory):
    stage, relay, side = relayed(directory)
    side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, OWN_MS)
    return stage, relay, side


def lease_of(stage, name):
    (_, lease), = stage.keys(name)
    return lease


def fail_a_renewal(side):
    """To be answered when its connection ends."""
    said = side.answer("b")
    assert said.startswith("failed: HF_UNREACHABLE: "), said


def lose_the_reply_to_a_move(stage, relay, side):
    """The key rests on another lease then, and the client does not know."""
    before = lease_of(stage, "one")
    relay.holds = NOTE
    side.tell("b", "renew", "one", LONGER_MS)
    relay.wait_for_held()
    relay.pass_on(mute=True)
    wait_until(lambda: lease_of(stage, "one") != before, "the key has moved")


def end_connection(relay, side):
    relay.mute = False
    relay.cut()
    fail_a_renewal(side)


def keep_back_a_move(relay, side):
    relay.holds = NOTE
    side.tell("b", "renew", "one", LONGER_MS)
    relay.wait_for_held()
    relay.leave()
    fail_a_renewal(side)


def end_with_nothing_left(stage, side):
    side.want("ok", "b", "unlock", "mutex", "one")
    stage.wait_for_keys("one", 0)
    wait_until(lambda: len(stage.leases()) == LEASES - 1, "the session's lease alone is left")
    stage.end()


def renewal_whose_reply_was_lost_can_be_asked_again(directory):
    stage, relay, side = leased(directory)
    for _ in range(2):
        lose_the_reply_to_a_move(stage, relay, side)
        end_connection(relay, side)
        side.want("1", "b", "holds", "mutex", "one")
        moved_to = lease_of(stage, "one")
        side.want("ok", "b", "renew", "one", LONGER_MS)
        side.want("1", "b", "holds", "mutex", "one")
        assert lease_of(stage, "one") != moved_to, "it has not moved again"
        wait_until(lambda: len(stage.leases()) == LEASES, "the earlier leases are revoked")
    end_with_nothing_left(stage, side)


def release_after_a_renewal_without_a_reply_leaves_no_lease(directory):
    stage, relay, side = leased(directory)
    lose_the_reply_to_a_move(stage, relay, side)
    end_connection(relay, side)
    end_with_nothing_left(stage, side)


def renewal_of_a_broken_lock_is_lost(directory):
    """It was broken after the renewal whose reply was lost."""
    stage, relay, side = leased(directory)
    other = stage.side("the other client")
    lose_the_reply_to_a_move(stage, relay, side)
    other.want("ok", "a", "force", "mutex", "one")
    other.want("ok", "a", "lock", "mutex", "one", 0, 0)
    end_connection(relay, side)
    side.want("lost", "b", "renew", "one", LONGER_MS)
    side.want("0", "b", "holds", "mutex", "one")
    side.want("lost", "b", "unlock", "mutex", "one")
    other.want("1", "a", "holds", "mutex", "one")
    stage.end()


def renewal_that_comes_late_moves_nothing_back(directory):
    stage, relay, side = leased(directory)
    keep_back_a_move(relay, side)
    side.want("ok", "b", "renew", "one", LONGER_MS)
    before = stage.keys("one")
    relay.deliver()
    equal(stage.keys("one"), before, "the key after the late request")
    wait_until(lambda: len(stage.leases()) == LEASES, "the earlier leases are revoked")
    end_with_nothing_left(stage, side)


def renewal_that_comes_between_leaves_the_lock_held(directory):
    """The next one has begun, and its move is under way."""
    stage, relay, side = leased(directory)
    keep_back_a_move(relay, side)
    relay.holds = NOTE
    side.tell("b", "renew", "one", LONGER_MS)
    relay.wait_for_held()
    relay.deliver()
    relay.pass_on()
    equal(side.answer("b"), "ok", "what the client hears")
    wait_until(lambda: len(stage.leases()) == LEASES, "the earlier leases are revoked")
    end_with_nothing_left(stage, side)


def acquire_that_moves_late_is_granted_once(directory):
    """The key of a claim that asks again moves by its earlier request: it is the claim's still."""
    stage, relay, side = relayed(directory)
    relay.holds = NOTE
    side.tell("b", "lock", "mutex", "one", FOR_EVER, OWN_MS)
    relay.wait_for_held()
    relay.pass_on(holds=NOTE)
    stage.wait_for_keys("one", 1)
    created, = stage.keys("one")
    relay.wait_for_held()
    relay.leave(holds=NOTE)
    relay.wait_for_held()
    relay.deliver()
    relay.pass_on()
    equal(side.answer("b"), "ok", "what the client hears")
    equal([key for key, _ in stage.keys("one")], [created[0]], "its keys")
    wait_until(lambda: len(stage.leases()) == LEASES, "the earlier leases are revoked")
    end_with_nothing_left(stage, side)


def acquire_that_moved_before_its_session_ended_does_not_wait_for_itself(directory):
    """Its first key does not end with the session, as it rests on a lease of its own."""
    stage, relay, side = relayed(directory, lease_ms=2000)
    relay.holds = NOTE
    side.tell("b", "lock", "mutex", "one", FOR_EVER, OWN_MS)
    relay.wait_for_held()
    relay.pass_on(holds=NOTE)
    stage.wait_for_keys("one", 1)
    session = lease_of(stage, "one")
    relay.wait_for_held()
    relay.pass_on(mute=True, holds=b"")
    wait_until(lambda: lease_of(stage, "one") != session, "the key has moved")
    wait_until(lambda: not stage.keys("first"), "the session has ended")
    relay.mute = False
    relay.leave()
    equal(side.answer("b"), "ok", "what the client hears")
    stage.wait_for_keys("one", 1)
    end_with_nothing_left(stage, side)


TESTS = (renewal_whose_reply_was_lost_can_be_asked_again,
         release_after_a_renewal_without_a_reply_leaves_no_lease,
         renewal_of_a_broken_lock_is_lost,
         renewal_that_comes_late_moves_nothing_back,
         renewal_that_comes_between_leaves_the_lock_held,
         acquire_that_moves_late_is_granted_once,
         acquire_that_moved_before_its_session_ended_does_not_wait_for_itself)

sys.exit(main(TESTS))
