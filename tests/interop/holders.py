# SPDX-License-Identifier: Apache-2.0
"""Scenes about what a holder gets, and what is taken from it: fencing tokens, and locks that are
broken."""

from shared import count_up
from sides import FOR_EVER, LONG_LEASE_MS, PATIENCE, equal, wait_until

# The version of Redisson with which RFencedLock came.
FENCED_SINCE = (3, 20)

# Redisson's lockAndGetToken does not hear of a release that comes between its last attempt and its
# listening for messages (seen with 3.20.0). It looks again when the lease that it saw is over.
FENCED_LEASE_MS = 1000 * PATIENCE // 4


def check_token(token, last, who):
    """Answers it, as a number."""
    equal(token.isdigit() and int(token) > last, True,
          f"whether the token {token} of {who} is more than {last}")
    return int(token)


def tokens_rise_across_both(stage, one, other, name):
    """Taken when it is free, and waited for. The counter lives as long as it does in Redisson if
    Redisson made it, and as ours do if we did."""
    last = 0
    for _ in range(3):
        for side in (one, other):
            last = check_token(side.ask("a", "fence", name, FENCED_LEASE_MS), last, side.what)
            side.want("ok", "a", "unlock", "fenced", name)
        for side, waiter in ((one, other), (other, one)):
            last = check_token(side.ask("a", "fence", name, FENCED_LEASE_MS), last, side.what)
            waiter.tell("b", "fence", name, FENCED_LEASE_MS)
            stage.wait_for_a_listener(name)
            side.want("ok", "a", "unlock", "fenced", name)
            last = check_token(waiter.answer("b"), last, f"{waiter.what}, who waits")
            waiter.want("ok", "b", "unlock", "fenced", name)
    left = stage.server.ask("TTL", f"redisson_lock_token:{{{name}}}")
    equal(left == b":-1\r\n", one.what == stage.redisson.what, "whether the counter lives for ever")
    stage.check_free(name)


def both_count_with_tokens(stage, one, other, name):
    count_up(stage, (one, other), name, "fenced", "abc", 40)
    stage.check_free(name)


def what_is_taken_away_goes_to_who_waits(stage, one, other, name):
    """The holder renews its lease, and would have it for ever. It is told by its next renewal, or
    by its unlock at the latest, which leaves the new holder alone."""
    one.want("ok", "a", "lock", "mutex", name, 0, 0)
    other.tell("b", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
    stage.wait_for_a_listener(name)
    other.want("ok", "a", "force", "mutex", name)
    equal(other.answer("b"), "ok", f"{other.what} who waits")
    wait_until(lambda: one.ask("a", "holds", "mutex", name) == "0", f"{one.what} knows of its loss")
    one.want("lost", "a", "unlock", "mutex", name)
    other.want("1", "b", "holds", "mutex", name)
    other.want("ok", "b", "unlock", "mutex", name)
    stage.check_free(name)


def scenes_with(version):
    """(function, whether it is played with the sides exchanged, too)"""
    scenes = [(what_is_taken_away_goes_to_who_waits, True)]
    if tuple(map(int, version.split("."))) >= FENCED_SINCE:
        scenes += [(tokens_rise_across_both, True), (both_count_with_tokens, False)]
    return scenes
