#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sharing locks with Curator and kazoo: each scene is played twice, with the sides exchanged.

usage: test_zookeeper.py curator VERSION PEER DIRECTORY
       test_zookeeper.py kazoo VERSION PEER DIRECTORY

Keeps the other library in DIRECTORY, or what Maven said about it."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from keeper import Keeper, need_a_server  # noqa: E402
from maven import java_command  # noqa: E402
from registry import fetch  # noqa: E402
from sides import (Side, Skip, equal, run, scratch, skip_all,  # noqa: E402
                   wait_until)

ROOT = "/shared"
FOR_EVER = -1
TICK_MS = 2000
# As long as the server gives them: who lives keeps his session, however slow the machine is.
LIVING_MS = 20 * TICK_MS
# Who is going to be killed has a short one, which the next holder has to wait for.
DYING_MS = min(LIVING_MS, 10000 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1")))
INSTALL_SECONDS = 120

# (function, whether it is played with the sides exchanged, too, and of which kind its lock is)
SCENES = []


def scene(kind="mutex", exchanged=True):
    def enlist(function):
        SCENES.append((function, exchanged, kind))
        return function
    return enlist


class Stage:
    """A server, both sides on it, and how more of them are started. `kinds`: what both have."""

    def __init__(self, title, keeper, start, kinds):
        self.title, self.keeper, self.start, self.kinds = title, keeper, start, kinds
        self.sides = {}

    def side(self, who):
        if who not in self.sides:
            self.sides[who] = self.another(who)
        return self.sides[who]

    def another(self, who, session_ms=LIVING_MS):
        return Side(who, *self.start[who](self.keeper, session_ms))

    def queue(self, name):
        return self.keeper.children(f"{ROOT}/{name}")

    def wait_for_queue(self, name, length):
        wait_until(lambda: len(self.queue(name)) == length, f"{length} nodes in {name}'s queue")

    def check_free(self, name):
        equal(self.queue(name), [], f"what is left of {name}")

    def stop(self):
        for side in self.sides.values():
            side.stop()


@scene()
def they_lock_each_other_out(stage, one, other, name):
    one.want("ok", "a", "lock", "mutex", name, 0, 0)
    other.want("busy", "a", "lock", "mutex", name, 0, 0)
    stage.wait_for_queue(name, 1)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
    one.want("busy", "a", "lock", "mutex", name, 0, 0)
    other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene()
def a_release_wakes_the_other(stage, one, other, name):
    """Nobody's session ends meanwhile, so nothing else ends the wait."""
    for _ in range(3):
        one.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
        other.tell("a", "lock", "mutex", name, FOR_EVER, 0)
        stage.wait_for_queue(name, 2)
        one.want("ok", "a", "unlock", "mutex", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits")
        other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene(exchanged=False)
def both_count_to_the_same_number(stage, one, other, name):
    """Three threads a side. Nothing but the lock protects the number."""
    count(stage, one, other, name, "mutex", 40, ("a", "b", "c"))


def count(stage, one, other, name, kind, times, threads):
    path = pathlib.Path(stage.keeper.directory, name)
    path.write_text("0")
    for thread in threads:
        for side in (one, other):
            side.tell(thread, "count", kind, name, path, times)
    for thread in threads:
        for side in (one, other):
            equal(side.answer(thread), "ok", f"{side.what}, {thread}")
    equal(int(path.read_text()), times * 2 * len(threads), "the number")
    stage.check_free(name)


@scene("reentrant")
def several_locks_are_all_or_none(stage, one, other, name):
    """Curator's InterProcessMultiLock, and hf_lock_all."""
    first, second, third = (f"{name}-{part}" for part in "abc")
    one.want("ok", "a", "lock", "multi", f"{first},{second}", 10000, 0)
    for held in (first, second):
        other.want("busy", "a", "lock", "mutex", held, 0, 0)
    other.want("busy", "a", "lock", "multi", f"{second},{third}", 0, 0)
    wait_until(lambda: stage.queue(third) == [], f"{third} is given back")
    one.want("ok", "a", "unlock", "multi", f"{first},{second}")
    other.want("ok", "a", "lock", "multi", f"{second},{third}", 10000, 0)
    one.want("busy", "a", "lock", "multi", f"{first},{second}", 0, 0)
    other.want("ok", "a", "unlock", "multi", f"{second},{third}")
    for free in (first, second, third):
        wait_until(lambda: stage.queue(free) == [], f"{free} is given back")


@scene("reentrant", exchanged=False)
def both_count_under_two_locks(stage, one, other, name):
    names = f"{name}-a,{name}-b"
    path = pathlib.Path(stage.keeper.directory, name)
    path.write_text("0")
    for thread in ("a", "b", "c"):
        for side in (one, other):
            side.tell(thread, "count", "multi", names, path, 20)
    for thread in ("a", "b", "c"):
        for side in (one, other):
            equal(side.answer(thread), "ok", f"{side.what}, {thread}")
    equal(int(path.read_text()), 120, "the number")


@scene(exchanged=False)
def waiters_get_their_turn_in_order(stage, one, other, name):
    """The threads of one holdfast process are one contender, so each place is a process."""
    more = [stage.another("holdfast") for _ in range(2)]
    line = [(one, "a"), (other, "a"), (more[0], "a"), (other, "b"), (more[1], "a")]
    other.want("ok", "c", "lock", "mutex", name, FOR_EVER, 0)
    for length, (side, thread) in enumerate(line, 2):
        side.tell(thread, "lock", "mutex", name, FOR_EVER, 0)
        stage.wait_for_queue(name, length)
    other.want("ok", "c", "unlock", "mutex", name)
    for side, thread in line:
        equal(side.answer(thread), "ok", f"{side.what}, {thread}, whose turn it is")
        side.want("ok", thread, "unlock", "mutex", name)
    for side in more:
        side.stop()
    stage.check_free(name)


@scene(exchanged=False)
def the_dead_make_way_for_the_others(stage, one, other, name):
    """Who dies holding, and who dies waiting: the nodes of both go with the session."""
    deaths = []
    for dying, living in ((one, other), (other, one)):
        mine, theirs = f"{name}-{dying.what}", f"{name}-{dying.what}-waits"
        victim = stage.another(dying.what, DYING_MS)
        victim.want("ok", "a", "lock", "mutex", mine, FOR_EVER, 0)
        equal(len(stage.queue(mine)), 1, f"nodes of {dying.what}")
        living.want("ok", "a", "lock", "mutex", theirs, FOR_EVER, 0)
        victim.tell("b", "lock", "mutex", theirs, FOR_EVER, 0)
        stage.wait_for_queue(theirs, 2)
        victim.stop()
        living.tell("b", "lock", "mutex", mine, FOR_EVER, 0)
        deaths.append((dying, living, mine, theirs))
    for dying, living, mine, theirs in deaths:
        equal(living.answer("b"), "ok", f"{living.what} behind the dead {dying.what}")
        living.want("ok", "b", "unlock", "mutex", mine)
        living.want("ok", "a", "unlock", "mutex", theirs)
        living.want("ok", "a", "lock", "mutex", theirs, FOR_EVER, 0)
        living.want("ok", "a", "unlock", "mutex", theirs)
        stage.check_free(mine)
        stage.check_free(theirs)


@scene("reentrant")
def a_nested_hold_is_one_until_the_last(stage, one, other, name):
    for _ in range(2):
        one.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("busy", "a", "lock", "mutex", name, 0, 0)
    one.want("ok", "a", "unlock", "mutex", name)
    other.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
    other.want("ok", "a", "unlock", "mutex", name)
    stage.check_free(name)


@scene("rw")
def readers_share_and_writers_do_not(stage, one, other, name):
    one.want("ok", "a", "lock", "read", name, FOR_EVER, 0)
    other.want("ok", "a", "lock", "read", name, FOR_EVER, 0)
    one.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("ok", "a", "unlock", "read", name)
    other.want("busy", "b", "lock", "write", name, 0, 0)
    one.want("ok", "a", "unlock", "read", name)
    other.want("ok", "b", "lock", "write", name, FOR_EVER, 0)
    one.want("busy", "a", "lock", "read", name, 0, 0)
    one.want("busy", "b", "lock", "write", name, 0, 0)
    other.want("ok", "b", "unlock", "write", name)
    stage.check_free(name)


@scene("rw")
def a_writer_that_leaves_wakes_readers(stage, one, other, name):
    for _ in range(2):
        one.want("ok", "a", "lock", "write", name, FOR_EVER, 0)
        other.tell("a", "lock", "read", name, FOR_EVER, 0)
        other.tell("b", "lock", "read", f"{name}-free", FOR_EVER, 0)
        equal(other.answer("b"), "ok", f"{other.what}: a lock that is free")
        stage.wait_for_queue(name, 2)
        one.want("ok", "a", "unlock", "write", name)
        equal(other.answer("a"), "ok", f"{other.what} who waits to read")
        other.want("ok", "a", "unlock", "read", name)
        other.want("ok", "b", "unlock", "read", f"{name}-free")
    stage.check_free(name)


@scene("rw")
def the_last_reader_wakes_a_writer(stage, one, other, name):
    one.want("ok", "a", "lock", "read", name, FOR_EVER, 0)
    other.want("ok", "b", "lock", "read", name, FOR_EVER, 0)
    other.tell("a", "lock", "write", name, FOR_EVER, 0)
    stage.wait_for_queue(name, 3)
    one.want("busy", "b", "lock", "read", name, 0, 0)
    other.want("ok", "b", "unlock", "read", name)
    one.want("ok", "a", "unlock", "read", name)
    equal(other.answer("a"), "ok", f"{other.what} who waits to write")
    other.want("ok", "a", "unlock", "write", name)
    stage.check_free(name)


@scene("rw", exchanged=False)
def both_write_the_same_number(stage, one, other, name):
    count(stage, one, other, name, "write", 30, ("a", "b"))


@scene("permit")
def permits_are_shared(stage, one, other, name):
    one.want("ok", "a", "permits", name, 2)
    one.want("ok", "a", "lock", "permit", name, FOR_EVER, 0)
    other.want("ok", "a", "lock", "permit", name, FOR_EVER, 0)
    one.want("busy", "b", "lock", "permit", name, 0, 0)
    other.want("busy", "b", "lock", "permit", name, 0, 0)
    other.tell("b", "lock", "permit", name, FOR_EVER, 0)
    stage.wait_for_queue(f"{name}/locks", 1)
    one.want("ok", "a", "unlock", "permit", name)
    equal(other.answer("b"), "ok", f"{other.what} who waits")
    for thread in ("a", "b"):
        other.want("ok", thread, "unlock", "permit", name)
    stage.check_free(f"{name}/leases")
    stage.check_free(f"{name}/locks")


@scene("permit")
def more_permits_let_the_other_in(stage, one, other, name):
    one.want("ok", "a", "permits", name, 1)
    one.want("ok", "a", "lock", "permit", name, FOR_EVER, 0)
    other.tell("a", "lock", "permit", name, FOR_EVER, 0)
    stage.wait_for_queue(f"{name}/locks", 1)
    one.want("ok", "b", "permits", name, 2)
    equal(other.answer("a"), "ok", f"{other.what} who waits")
    for side in (one, other):
        side.want("ok", "a", "unlock", "permit", name)
    stage.check_free(f"{name}/leases")


@scene("permit", exchanged=False)
def a_car_park_is_never_overfull(stage, one, other, name):
    threads, most = ("a", "b", "c"), 2
    inside = pathlib.Path(stage.keeper.directory, name)
    inside.mkdir()
    one.want("ok", "a", "permits", name, most)
    for thread in threads:
        for side in (one, other):
            side.tell(thread, "park", name, inside, 25, most)
    for thread in threads:
        for side in (one, other):
            equal(side.answer(thread), "ok", f"{side.what}, {thread}")
    stage.check_free(f"{name}/leases")
    stage.check_free(f"{name}/locks")


@scene("permit", exchanged=False)
def the_deads_permits_come_back(stage, one, other, name):
    victims = []
    for dying, living in ((one, other), (other, one)):
        mine = f"{name}-{dying.what}"
        living.want("ok", "b", "permits", mine, 1)
        victim = stage.another(dying.what, DYING_MS)
        victim.want("ok", "a", "lock", "permit", mine, FOR_EVER, 0)
        equal(len(stage.queue(f"{mine}/leases")), 1, f"leases of {dying.what}")
        victim.stop()
        living.tell("b", "lock", "permit", mine, FOR_EVER, 0)
        victims.append((dying, living, mine))
    for dying, living, mine in victims:
        equal(living.answer("b"), "ok", f"{living.what} after the dead {dying.what}")
        living.want("ok", "b", "unlock", "permit", mine)
        stage.check_free(f"{mine}/leases")


@scene("latch")
def a_latch_opens_for_both(stage, one, other, name):
    one.want("ok", "a", "latch", name, 2)
    other.want("busy", "a", "latch", name, 2)
    other.want("busy", "a", "await", name, 0)
    for side in (one, other):
        side.tell("b", "await", name, FOR_EVER)
    one.want("ok", "a", "down", name)
    equal(stage.keeper.data(f"{ROOT}/{name}"), bytes([0, 0, 0, 1]), "the count")
    other.want("ok", "a", "down", name)
    for side in (one, other):
        equal(side.answer("b"), "ok", f"{side.what} who waits")
        side.want("ok", "a", "await", name, FOR_EVER)
    one.want("ok", "a", "latch", name, 3)
    other.want("busy", "a", "await", name, 0)


@scene("latch", exchanged=False)
def both_count_down_to_the_last(stage, one, other, name):
    """Each count is seen by the next: none is lost."""
    threads, times = ("a", "b"), 20
    one.want("ok", "a", "latch", name, 2 * len(threads) * times + 5)
    for thread in threads:
        for side in (one, other):
            side.tell(thread, "down", name, times)
    for thread in threads:
        for side in (one, other):
            equal(side.answer(thread), "ok", f"{side.what}, {thread}")
    equal(stage.keeper.data(f"{ROOT}/{name}"), bytes([0, 0, 0, 5]), "the count")


@scene("leader")
def both_take_part_in_one_election(stage, one, other, name):
    """Each observer sees each leader, whose candidate it is."""
    def all_see(leader):
        for side in (one, other):
            side.want(leader, "b", "leads", name)

    one.want("ok", "a", "lock", "leader", name, FOR_EVER, 0)
    all_see(f"{one.what}:80")
    other.tell("a", "lock", "leader", name, FOR_EVER, 0)
    stage.wait_for_queue(name, 2)
    all_see(f"{one.what}:80")
    one.want("ok", "a", "unlock", "leader", name)
    equal(other.answer("a"), "ok", f"{other.what}, whose turn it is")
    all_see(f"{other.what}:80")
    other.want("ok", "a", "unlock", "leader", name)
    all_see("none")
    stage.check_free(name)


@scene("leader", exchanged=False)
def the_next_leads_after_a_dead_leader(stage, one, other, name):
    deaths = []
    for dying, living in ((one, other), (other, one)):
        mine = f"{name}-{dying.what}"
        victim = stage.another(dying.what, DYING_MS)
        victim.want("ok", "a", "lock", "leader", mine, FOR_EVER, 0)
        living.tell("c", "lock", "leader", mine, FOR_EVER, 0)
        stage.wait_for_queue(mine, 2)
        victim.stop()
        deaths.append((living, mine))
    for living, mine in deaths:
        equal(living.answer("c"), "ok", f"{living.what} behind the dead")
        living.want(f"{living.what}:80", "b", "leads", mine)
        living.want("ok", "c", "unlock", "leader", mine)
        stage.check_free(mine)


@scene("leader", exchanged=False)
def each_change_of_leader_is_told_once_and_in_order(stage, one, other, name):
    """Leaders of both follow each other after a gap, from the queue, after a forced break and after
    a death. Observers of both, which are no candidates, tell the same; the other library's own
    candidates are told of their own terms."""
    changes = ["none"]

    def leads(*more):
        changes.extend(more)
        for side in (one, other):
            side.want(",".join(changes), "w", "seen", name, len(changes))

    def take(side):
        side.want("ok", "a", "lock", "leader", name, FOR_EVER, 0)
        leads(f"{side.what}:80")

    def resign(side, followed=False):
        side.want("ok", "a", "unlock", "leader", name)
        if not followed:
            leads("none")

    def follow(side, end_term):
        side.tell("a", "lock", "leader", name, FOR_EVER, 0)
        stage.wait_for_queue(name, 2)
        for observer in (one, other):
            if observer.what == "Curator":
                observer.want("ok", "w", "knows", name, 2)
        end_term()
        equal(side.answer("a"), "ok", f"{side.what}, whose turn it is")
        leads(f"{side.what}:80")

    for side in (one, other):
        side.want("ok", "w", "watch", name)
    leads()
    for side in (one, other, one, one, other):
        take(side)
        resign(side)
    take(one)
    follow(other, lambda: resign(one, True))
    follow(one, lambda: resign(other, True))
    follow(other, lambda: one.want("ok", "b", "force", "all", name))
    one.want("lost", "a", "unlock", "leader", name)
    victim = stage.another(one.what, DYING_MS)
    follow(victim, lambda: resign(other, True))
    follow(other, victim.stop)
    resign(other)
    terms = changes.count(f"{other.what}:80")
    other.want(",".join(["leads", "ends"] * terms), "a", "heard", name)
    stage.check_free(name)


def tests_of(stage):
    first, second = stage.start
    tests = []
    for act, exchanged, kind in SCENES:
        if kind not in stage.kinds:
            continue
        orders = [(first, second), (second, first)]
        for one, other in orders if exchanged else orders[:1]:
            name = f"{stage.title}-{act.__name__}-{one}"
            title = f"{stage.title}: {act.__name__}" + (f": {one} first" if exchanged else "")
            tests.append((title, lambda a=act, o=one, p=other, n=name:
                          a(stage, stage.side(o), stage.side(p), n)))
    return tests


def play_all(make_stages):
    with scratch() as directory:
        keeper = Keeper(directory, [f"tickTime={TICK_MS}", "maxClientCnxns=0"])
        stages = make_stages(keeper)
        try:
            return run([each for stage in stages for each in tests_of(stage)],
                       lambda test: test())
        finally:
            for stage in stages:
                stage.stop()
            keeper.stop()


def holdfast_with(peer, options=""):
    return lambda keeper, session_ms: (
        [peer, f"zk://127.0.0.1:{keeper.port}{ROOT}{options}", str(session_ms)],)


def curator_stages(version, peer, kept):
    java = java_command("Curator", version, str(HERE / "pom.xml"), kept)
    return lambda keeper: [Stage("Curator", keeper, {
        "holdfast": holdfast_with(peer),
        "Curator": lambda keeper, session_ms: (
            [*java, f"127.0.0.1:{keeper.port}", ROOT, str(session_ms)],),
    }, ("mutex", "reentrant", "rw", "permit", "latch", "leader"))]


def install_kazoo(version, kept):
    """Where it is, for Python to look in."""
    place = pathlib.Path(kept, f"kazoo-{version}")
    mark = place / "done"
    if not mark.exists():
        fetch("PyPI", [[sys.executable, "-m", "pip", "install", "-q", "--retries", "0",
                        "--timeout", "15", "--disable-pip-version-check", "--target", str(place),
                        f"kazoo=={version}"]], INSTALL_SECONDS)
        mark.touch()
    return str(place)


def kazoo_stages(version, peer, kept):
    """Plain kazoo, beside our kazoo's names; and kazoo that was told of Curator's."""
    environment = dict(os.environ, PYTHONPATH=install_kazoo(version, kept))
    program = [sys.executable, str(HERE / "kazoo_peer.py")]

    def kazoo_with(*patterns):
        return lambda keeper, session_ms: (
            [*program, f"127.0.0.1:{keeper.port}", ROOT, str(session_ms), *patterns],
            environment)

    return lambda keeper: [
        Stage("plain", keeper, {"holdfast": holdfast_with(peer, "?names=kazoo"),
                                "kazoo": kazoo_with()}, ("mutex", "latch", "leader")),
        Stage("pattern", keeper, {"holdfast": holdfast_with(peer, "?parents=persistent"),
                                  "kazoo": kazoo_with("-lock-")}, ("mutex",)),
    ]


def main():
    library, version, peer, kept = sys.argv[1:]
    os.makedirs(kept, exist_ok=True)
    try:
        need_a_server()
        stages = {"curator": curator_stages, "kazoo": kazoo_stages}[library](version, peer, kept)
    except Skip as reason:
        skip_all(reason)
    sys.exit(play_all(stages))


main()
