"""Scenes in which one server takes another's place, and one that tells whether a wake is a message
or the waiter's own looking."""

import time

from sides import FOR_EVER, LONG_LEASE_MS, equal
from waiting import CHANNELS

# Where no message comes, a waiter of ours looks every three seconds, and Redisson's for as good as
# never: it sleeps for as long as the lease goes.
TOLD_S = 2


def who_waits_is_told(stage, one, other, name):
    """The quickest of a few, as the machine may be slow."""
    quickest = FOR_EVER
    for _ in range(3):
        one.want("ok", "a", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
        other.tell("a", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name)
        begun = time.monotonic()
        one.want("ok", "a", "unlock", "mutex", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits")
        seconds = time.monotonic() - begun
        quickest = seconds if quickest < 0 else min(quickest, seconds)
        other.want("ok", "a", "unlock", "mutex", name)
    equal(quickest < TOLD_S, True, f"after {quickest:.1f} s at best, whether {other.what} was told")
    stage.check_free(name)


def each_holds_and_each_waits(stage, one, other, name):
    """(who holds it, who waits for it, kind, name)"""
    bargains = [(mine, yours, kind, f"{name}/{kind}/{mine.what.split()[0]}")
                for mine, yours in ((one, other), (other, one)) for kind in CHANNELS]
    for mine, yours, kind, held in bargains:
        if kind == "permit":
            mine.want("ok", "a", "permits", held, 1)
        mine.want("ok", "a", "lock", kind, held, 0, LONG_LEASE_MS)
        yours.tell(kind, "lock", kind, held, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(held, CHANNELS[kind])
    return bargains


def holders_and_waiters_go_on(stage, one, other, name):
    """Nothing but a message ends a wait of Redisson's, so each is seen to listen at the new master,
    and to be still waiting, before anybody lets go."""
    bargains = each_holds_and_each_waits(stage, one, other, name)
    stage.server.fail_over()
    for _, yours, kind, held in bargains:
        stage.wait_for_a_listener(held, CHANNELS[kind])
        yours.want("busy", "a", "lock", kind, held, 0, LONG_LEASE_MS)
        equal(yours.queue_of(kind).empty(), True, f"{yours.what} waits for {held}")
    for mine, yours, kind, held in bargains:
        mine.want("ok", "a", "unlock", kind, held)
        equal(yours.answer(kind), "ok", f"{yours.what} who waits for {held}")
        yours.want("ok", kind, "unlock", kind, held)
