# SPDX-License-Identifier: Apache-2.0
"""Scenes in which one server takes another's place, and one that tells whether a wake is a message
or the waiter's own looking."""

import itertools
import time

from sides import FOR_EVER, LONG_LEASE_MS, equal, wait_until
from waiting import CHANNELS, check_next, fields_in_line, take_a_place, wait_for_a_listener_at

# Where no message comes, a waiter of ours looks every three seconds, and Redisson's for as good as
# never: it sleeps for as long as the lease goes.
TOLD_S = 2

# Ours has a place in a fair lock's queue for ten seconds, and looks after it every three.
PLACE_LEFT_MS = 5000


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


class Line:
    """A fair lock that somebody holds, and those who wait for it, each in a thread of its own."""

    def __init__(self, stage, holder, sides, name):
        self.stage, self.holder, self.name = stage, holder, name
        self.waiting = [(side, f"{name}/{place}") for place, side in enumerate(sides, 1)]
        holder.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
        self.channels = [take_a_place(stage, side, thread, name, place)
                         for place, (side, thread) in enumerate(self.waiting, 1)]
        self.order = fields_in_line(stage, name)

    def all_have_places(self):
        """Those that nobody has looked after for long do not count."""
        soon_ms = 1000 * time.time() + PLACE_LEFT_MS
        kept = self.stage.server.ask("ZCOUNT", f"redisson_lock_timeout:{{{self.name}}}",
                                     f"({soon_ms:.0f}", "+inf")
        return (kept == b":%d\r\n" % len(self.order) and
                sorted(fields_in_line(self.stage, self.name)) == sorted(self.order))

    def goes_on(self):
        """Waits until all are in line at the new master, and can be told. Who comes too late for
        its place there is the last one; but behind a living one everybody keeps its place."""
        for (side, thread), channel in zip(self.waiting, self.channels):
            wait_for_a_listener_at(self.stage, side, thread, channel)
        wait_until(self.all_have_places, f"all wait for {self.name}")
        order = fields_in_line(self.stage, self.name)
        if self.waiting[0][0] is self.stage.redisson:
            equal(order, self.order, f"who waits for {self.name}")
        self.waiting = [self.waiting[self.order.index(field)] for field in order]

    def is_served(self):
        """In its order, and one at a time."""
        for side, thread in self.waiting:
            equal(side.queue_of(thread).empty(), True, f"{side.what}, {thread}, waits")
        self.holder.want("ok", "a", "unlock", "fair", self.name)
        while self.waiting:
            check_next(self.waiting, self.name)
        self.stage.check_free(self.name)


def fair_queues_go_on(stage, one, other, name):
    """Whoever holds it, and whoever is first. A Redisson that misses its message sleeps for as long
    as the lease goes, so all are seen to listen at the new master before anybody lets go."""
    with stage.another_holdfast() as second:
        ours, theirs = stage.holdfast, stage.redisson
        orders = ((theirs, ours, theirs, second), (ours, theirs, second, theirs))
        bargains = itertools.product((one, other), orders)
        lines = [Line(stage, holder, sides, f"{name}/{number}")
                 for number, (holder, sides) in enumerate(bargains)]
        stage.server.fail_over()
        for line in lines:
            line.goes_on()
        for line in lines:
            line.is_served()
