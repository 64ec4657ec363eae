#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sharing locks with Redisson: each scene is played twice, with the sides exchanged.

usage: test_redisson.py VERSION PEER POM DIRECTORY [cluster | tls | sentinel]

On a plain server, and with `cluster` in a cluster, too; else only where the last argument says.
Keeps in DIRECTORY what it was told by Maven, which takes long to say it."""

import os
import statistics
import sys
import time

import failover
import holders
import killed
import places
import shared
from maven import java_command
from sides import (FOR_EVER, LEASE_MS, LONG_LEASE_MS, Cluster, Server, Side, Skip, equal, need, run,
                   scratch, skip_all, wait_until)
from waiting import check_next, wait_for_places

# (function, whether it is played with the sides exchanged, too)
SCENES = []


def scene(function):
    SCENES.append((function, True))
    return function


def scene_of_both(function):
    SCENES.append((function, False))
    return function


class Stage:
    """A server, or a cluster, and both sides on it."""

    def __init__(self, directory, server, version, peer, java):
        self.directory, self.server = directory, server
        self.version, self.peer, self.java = version, peer, java
        self.holdfast, self.redisson = self.another_holdfast(), self.another_redisson()

    def another_holdfast(self):
        return Side("holdfast", [self.peer, self.server.url, str(LEASE_MS)])

    def another_redisson(self):
        return Side(f"Redisson {self.version}", [self.java[0], *self.server.java_options,
                                                *self.java[1:], self.server.url, str(LEASE_MS)])

    def stop(self):
        for thing in (self.holdfast, self.redisson, self.server):
            thing.stop()

    def wait_for_a_listener(self, name, prefix="redisson_lock__channel"):
        channel = f"{prefix}:{{{name}}}"
        wait_until(lambda: self.server.listeners(channel) > 0, f"somebody waits for {name}")

    def check_free(self, name):
        equal(self.server.ask("EXISTS", name), b":0\r\n", f"whether {name} is left")


@scene
def they_lock_each_other_out(stage, one, other, name):
    one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
    other.want("busy", "a", "lock", "mutex", name, 0, 0)
    other.want("busy", "a", "lock", "mutex", name, 1500, 0)
    other.want("yes", "a", "locked", "mutex", name)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("no", "a", "locked", "mutex", name)
    other.want("ok", "a", "lock", "mutex", name, 0, 0)
    one.want("busy", "a", "lock", "mutex", name, 0, 0)
    other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene
def a_release_wakes_the_other(stage, one, other, name):
    """The lease is longer than anybody's patience, so nothing else ends the wait in time."""
    for _ in range(3):
        one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
        other.tell("a", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name)
        one.want("ok", "a", "unlock", "mutex", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits")
        other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene
def a_nested_hold_is_one_until_the_last(stage, one, other, name):
    one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
    one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
    one.want("2", "a", "holds", "mutex", name)
    other.want("0", "a", "holds", "mutex", name)
    one.want("busy", "b", "lock", "mutex", name, 0, 0)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("yes", "a", "locked", "mutex", name)
    other.want("busy", "a", "lock", "mutex", name, 0, 0)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("ok", "a", "lock", "mutex", name, 0, 0)
    other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene
def a_lease_that_ends_frees_it(stage, one, other, name):
    one.want("ok", "a", "lock", "mutex", name, FOR_EVER, 1000)
    other.want("ok", "a", "lock", "mutex", name, FOR_EVER, LONG_LEASE_MS)
    one.want("0", "a", "holds", "mutex", name)
    one.want("lost", "a", "unlock", "mutex", name)
    other.want("1", "a", "holds", "mutex", name)
    other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene_of_both
def a_watchdog_keeps_what_is_held(stage, one, other, name):
    del stage
    sides = ((one, other, f"{name}/one"), (other, one, f"{name}/other"))
    for mine, _, held in sides:
        mine.want("ok", "a", "lock", "mutex", held, 0, 0)
    time.sleep(1.5 * LEASE_MS / 1000)
    for mine, yours, held in sides:
        yours.want("busy", "a", "lock", "mutex", held, 0, 0)
        mine.want("1", "a", "holds", "mutex", held)
        mine.want("ok", "a", "unlock", "mutex", held)


@scene
def names_may_have_braces(stage, one, other, name):
    braced = f"a{{{name}}}:b"
    one.want("ok", "a", "lock", "mutex", braced, 0, LONG_LEASE_MS)
    other.tell("a", "lock", "mutex", braced, FOR_EVER, LONG_LEASE_MS)
    channel = f"redisson_lock__channel:{braced}"
    wait_until(lambda: stage.server.listeners(channel) > 0, f"somebody waits for {braced}")
    one.want("ok", "a", "unlock", "mutex", braced)
    equal(other.answer("a"), "ok", f"{other.what} who waits")
    other.want("ok", "a", "unlock", "mutex", braced)


@scene
def several_locks_are_all_or_none(stage, one, other, name):
    """Redisson's MultiLock, and hf_lock_all."""
    first, second, third = (f"{name}/{part}" for part in "abc")
    one.want("ok", "a", "lock", "multi", f"{first},{second}", 5000, LONG_LEASE_MS)
    for held in (first, second):
        other.want("busy", "a", "lock", "mutex", held, 0, 0)
    other.want("busy", "a", "lock", "multi", f"{second},{third}", 1000, LONG_LEASE_MS)
    wait_until(lambda: stage.server.ask("EXISTS", third) == b":0\r\n", f"{third} is given back")
    one.want("ok", "a", "unlock", "multi", f"{first},{second}")
    other.want("ok", "a", "lock", "multi", f"{second},{third}", 5000, LONG_LEASE_MS)
    one.want("busy", "a", "lock", "multi", f"{first},{second}", 1000, LONG_LEASE_MS)
    other.want("ok", "a", "unlock", "multi", f"{second},{third}")
    for free in (first, second, third):
        stage.check_free(free)


@scene_of_both
def both_count_under_two_locks(stage, one, other, name):
    shared.count_up(stage, (one, other), f"{name}/a,{name}/b", "multi", "abc", 20)
    stage.check_free(f"{name}/a")
    stage.check_free(f"{name}/b")


def count_on_both_sides(stage, sides, name, kind, threads, times):
    shared.count_up(stage, sides, name, kind, threads, times)
    stage.check_free(name)


@scene_of_both
def both_count_to_the_same_number(stage, one, other, name):
    count_on_both_sides(stage, (one, other), name, "mutex", "abc", 60)


@scene_of_both
def both_count_fairly(stage, one, other, name):
    count_on_both_sides(stage, (one, other), name, "fair", "abc", 40)


@scene
def a_fair_mutex_goes_to_who_came_first(stage, one, other, name):
    """Whichever side that is: each has a place before the next one comes. Of the threads of one
    client of holdfast one has a place, for all of them."""
    ours, theirs = stage.holdfast, stage.redisson
    for _ in range(2):
        one.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
        waiting = []
        for side, thread in ((theirs, "b"), (ours, "c"), (theirs, "d"), (theirs, "e")):
            side.tell(thread, "lock", "fair", name, FOR_EVER, LONG_LEASE_MS)
            waiting.append((side, thread))
            wait_for_places(stage, name, len(waiting), f"{thread} has a place")
        other.want("busy", "a", "lock", "fair", name, 0, 0)
        one.want("ok", "a", "unlock", "fair", name)
        while waiting:
            check_next(waiting, name)
        stage.check_free(name)


@scene
def a_fair_mutex_is_held_through_one_sides_nested_holds(stage, one, other, name):
    one.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
    one.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
    other.want("busy", "a", "lock", "fair", name, 1500, 0)
    one.want("ok", "a", "unlock", "fair", name)
    other.want("busy", "a", "lock", "fair", name, 0, 0)
    one.want("ok", "a", "unlock", "fair", name)
    other.want("ok", "a", "lock", "fair", name, FOR_EVER, 0)
    other.want("ok", "a", "unlock", "fair", name)
    stage.check_free(name)


@scene
def fair_and_plain_are_one_lock(stage, one, other, name):
    one.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
    other.want("busy", "a", "lock", "mutex", name, 0, 0)
    one.want("ok", "a", "unlock", "fair", name)
    one.want("ok", "a", "lock", "mutex", name, 0, LONG_LEASE_MS)
    other.want("busy", "a", "lock", "fair", name, 0, 0)
    one.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene
def readers_share_and_writers_do_not(stage, one, other, name):
    one.want("ok", "a", "lock", "read", name, 0, LONG_LEASE_MS)
    other.want("ok", "a", "lock", "read", name, 0, LONG_LEASE_MS)
    one.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("ok", "a", "unlock", "read", name)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    one.want("ok", "a", "unlock", "read", name)
    other.want("ok", "b", "lock", "write", name, 0, LONG_LEASE_MS)
    one.want("busy", "a", "lock", "read", name, 0, 0)
    one.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("ok", "b", "unlock", "write", name)
    stage.check_free(name)


@scene
def a_writer_that_leaves_wakes_readers(stage, one, other, name):
    for _ in range(3):
        one.want("ok", "a", "lock", "write", name, 0, LONG_LEASE_MS)
        other.tell("a", "lock", "read", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name, "redisson_rwlock")
        if other.what.startswith("Redisson"):
            wait_until(lambda: other.ask("parked", "a") == "yes", "Redisson's reader sleeps")
        one.want("ok", "a", "unlock", "write", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits to read")
        other.want("ok", "a", "unlock", "read", name)
    stage.check_free(name)


@scene
def the_last_reader_wakes_a_writer(stage, one, other, name):
    for _ in range(3):
        one.want("ok", "a", "lock", "read", name, 0, LONG_LEASE_MS)
        other.want("ok", "b", "lock", "read", name, 0, LONG_LEASE_MS)
        other.tell("a", "lock", "write", name, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(name, "redisson_rwlock")
        other.want("ok", "b", "unlock", "read", name)
        one.want("ok", "a", "unlock", "read", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits to write")
        other.want("ok", "a", "unlock", "write", name)
    stage.check_free(name)


@scene
def many_readers_share_with_a_writer_behind_them(stage, one, other, name):
    readers = [(side, f"r{number}") for number in range(8) for side in (one, other)]
    for side, thread in readers:
        side.want("ok", thread, "lock", "read", name, 0, LONG_LEASE_MS)
    one.tell("w", "lock", "write", name, FOR_EVER, LONG_LEASE_MS)
    stage.wait_for_a_listener(name, "redisson_rwlock")
    for side, thread in readers:
        equal(one.queue_of("w").empty(), True, f"{one.what} waits to write")
        side.want("ok", thread, "unlock", "read", name)
    equal(one.answer("w"), "ok", f"{one.what} who waits to write")
    for side, thread in readers[:2]:
        side.want("busy", thread, "lock", "read", name, 0, 0)
    one.want("ok", "w", "unlock", "write", name)
    stage.check_free(name)


@scene
def a_lost_reader_frees_it_for_writers(stage, one, other, name):
    one.want("ok", "a", "lock", "read", name, 0, 1000)
    other.want("ok", "a", "lock", "write", name, FOR_EVER, LONG_LEASE_MS)
    one.want("0", "a", "holds", "read", name)
    one.want("lost", "a", "unlock", "read", name)
    other.want("1", "a", "holds", "write", name)
    other.want("ok", "a", "unlock", "write", name)
    stage.check_free(name)


@scene_of_both
def a_watchdog_keeps_what_is_read(stage, one, other, name):
    for side in (one, other):
        side.want("ok", "a", "lock", "read", name, 0, 0)
    time.sleep(1.5 * LEASE_MS / 1000)
    for side in (one, other):
        side.want("busy", "b", "lock", "write", name, 0, 0)
        side.want("1", "a", "holds", "read", name)
    for side in (one, other):
        side.want("ok", "a", "unlock", "read", name)
    stage.check_free(name)


@scene_of_both
def both_write_the_same_number(stage, one, other, name):
    count_on_both_sides(stage, (one, other), name, "write", "ab", 40)


@scene
def permits_are_shared(stage, one, other, name):
    one.want("ok", "a", "permits", name, 2)
    one.want("ok", "a", "lock", "permit", name, 0, LONG_LEASE_MS)
    other.want("ok", "a", "lock", "permit", name, 0, LONG_LEASE_MS)
    other.want("busy", "b", "lock", "permit", name, 0, LONG_LEASE_MS)
    other.tell("b", "lock", "permit", name, FOR_EVER, LONG_LEASE_MS)
    stage.wait_for_a_listener(name, "redisson_sc")
    one.want("ok", "a", "unlock", "permit", name)
    equal(other.answer("b"), "ok", f"{other.what} who waits")
    for thread in ("a", "b"):
        other.want("ok", thread, "unlock", "permit", name)
    equal(stage.server.ask("GET", name), b"$1\r\n2\r\n", "the free permits")
    equal(stage.server.ask("EXISTS", f"{{{name}}}:timeout"), b":0\r\n", "whether one is out")


@scene
def permits_that_ran_out_come_back(stage, one, other, name):
    del stage
    one.want("ok", "a", "permits", name, 1)
    one.want("ok", "a", "lock", "permit", name, 0, 1000)
    other.want("ok", "a", "lock", "permit", name, FOR_EVER, LONG_LEASE_MS)
    one.want("lost", "a", "unlock", "permit", name)
    other.want("ok", "a", "unlock", "permit", name)


@scene
def units_are_shared(stage, one, other, name):
    one.want("ok", "a", "give", name, 3)
    other.want("3", "a", "units", name)
    other.want("ok", "a", "take", name, 2, 0)
    one.want("busy", "a", "take", name, 2, 0)
    one.tell("b", "take", name, 2, FOR_EVER)
    stage.wait_for_a_listener(name, "redisson_sc")
    other.want("ok", "a", "give", name, 1)
    equal(one.answer("b"), "ok", f"{one.what} who waits")
    other.want("0", "a", "units", name)


@scene
def a_latch_opens_for_both(stage, one, other, name):
    one.want("ok", "a", "latch", name, 2)
    other.want("busy", "a", "latch", name, 2)
    other.want("busy", "a", "await", name, 0)
    for side in (one, other):
        side.tell("b", "await", name, FOR_EVER)
    channel = f"redisson_countdownlatch__channel__{{{name}}}"
    wait_until(lambda: stage.server.listeners(channel) == 2, f"both wait for {name}")
    one.want("ok", "a", "down", name)
    other.want("ok", "a", "down", name)
    for side in (one, other):
        equal(side.answer("b"), "ok", f"{side.what} who waits")
        side.want("ok", "a", "await", name, 0)
    stage.check_free(name)


@scene
def how_long_a_wake_takes_is_noted(stage, one, other, name):
    """From the order to unlock to the other's word that it has it."""
    for kind in ("mutex", "fair"):
        times = []
        for _ in range(15):
            one.want("ok", "a", "lock", kind, name, FOR_EVER, LONG_LEASE_MS)
            other.tell("a", "lock", kind, name, FOR_EVER, LONG_LEASE_MS)
            if kind == "mutex":
                stage.wait_for_a_listener(name)
            else:
                wait_for_places(stage, name, 1, "it has a place")
            begun = time.monotonic()
            one.tell("a", "unlock", kind, name)
            equal(other.answer("a"), "ok", f"{other.what} who waits")
            times.append(1000 * (time.monotonic() - begun))
            equal(one.answer("a"), "ok", f"{one.what} who lets go")
            other.want("ok", "a", "unlock", kind, name)
        print(f"# {kind}, {one.what} wakes {other.what}: median "
              f"{statistics.median(times):.1f} ms, longest {max(times):.1f} ms", flush=True)


# What is different in a cluster: who is woken, and by which message.
IN_A_CLUSTER = (a_release_wakes_the_other, both_count_to_the_same_number,
                a_fair_mutex_goes_to_who_came_first, a_writer_that_leaves_wakes_readers,
                the_last_reader_wakes_a_writer, permits_are_shared, units_are_shared,
                a_latch_opens_for_both, a_watchdog_keeps_what_is_held, names_may_have_braces)

# What is so at one place is so at any, and on either side of a failover.
ANYWHERE = [(they_lock_each_other_out, True), (failover.who_waits_is_told, True)]
FAILOVER = [*ANYWHERE, (failover.holders_and_waiters_go_on, False),
            (failover.fair_queues_go_on, False), *ANYWHERE]
NEWEST = "4.7.0"
EVERYWHERE = killed.ANYWHERE + shared.COUNTS + [(holders.both_count_with_tokens, False)]


def tests_on(stage, where, scenes):
    one, other = stage.holdfast, stage.redisson
    for act, exchanged in scenes:
        orders = [(one, other, "holdfast first"), (other, one, "Redisson first")]
        for first, second, who in orders if exchanged else orders[:1]:
            name = f"{act.__name__}/{who.split()[0]}"
            yield (f"{where}{act.__name__}: {who}" if exchanged else f"{where}{act.__name__}",
                   lambda a=act, o=first, p=second, n=name: a(stage, o, p, n))


def plays(place, version):
    """(how the place is made, what its tests begin with, which scenes are played there)"""
    # Those take long, so of the versions only the newest is tried with them at other places.
    again = EVERYWHERE if version == NEWEST else []
    if place == "tls":
        return [(places.Secured, "", SCENES + ANYWHERE[1:] + again),
                (lambda directory: places.Watched(directory, tls=True), "sentinel: ", FAILOVER)]
    if place == "sentinel":
        return [(places.Watched, "", SCENES + FAILOVER[1:] + again)]
    more = killed.SCENES + shared.SCENES + holders.scenes_with(version)
    plain = (Server, "", SCENES + more)
    cluster = (Cluster, "cluster: ", [entry for entry in SCENES if entry[0] in IN_A_CLUSTER])
    return [plain, cluster] if place == "cluster" else [plain]


def play_all(directory, place, version, peer, java):
    tests, stages = [], []
    try:
        for number, (make, where, scenes) in enumerate(plays(place, version)):
            os.mkdir(f"{directory}/{number}")
            stages.append(Stage(directory, make(f"{directory}/{number}"), version, peer, java))
            tests += tests_on(stages[-1], where, scenes)
        return run(tests, lambda test: test())
    finally:
        for stage in stages:
            stage.stop()


def main():
    version, peer, pom, kept, place = (*sys.argv[1:], "")[:5]
    try:
        need("redis-server")
        if place == "tls":
            places.need_tls()
        os.makedirs(kept, exist_ok=True)
        java = java_command("Redisson", version, pom, kept)
    except Skip as reason:
        skip_all(reason)
    with scratch() as directory:
        sys.exit(play_all(directory, place, version, peer, java))


main()
