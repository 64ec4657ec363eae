#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A member of a cluster that the others cannot reach while its clients can, and a client with a
clock that jumps.

usage: test_etcd_parted.py PEER [NAME...]
"""

import glob
import os
import re
import subprocess
import sys
import time

from stage import (FOR_EVER, Relay, Stage, equal, etcd_server, hand_over, holder_and_waiter,
                   main, wait_until)

FROM = re.compile(rb"X-Server-From: ([0-9a-f]+)")
AN_HOUR_MS = 3600 * 1000


class Island:
    """The member that nothing of the others reaches, and that reaches none."""

    def __init__(self):
        self.member, self.number = None, None


class PeerRelay(Relay):
    """What the other members send to one; they say who they are at the begin of a connection."""

    def __init__(self, member, island):
        self.member, self.island = member, island
        super().__init__(member.peer_port)
        member.seen_port = self.port

    def is_lost(self, way):
        island = self.island
        return island.member and (self.member is island.member or way.source == island.number)

    def is_held(self, way, data):
        if not way.source:
            found = FROM.search(data)
            way.source = found and found[1].decode()
        return bool(self.is_lost(way))


class PartedStage(Stage):
    """Three members, with a way between them that can be cut."""

    def __init__(self, directory):
        self.island, self.relays = Island(), []
        super().__init__(directory, members=3, before=self.put_relay_before)

    def put_relay_before(self, member):
        self.relays.append(PeerRelay(member, self.island))

    def cut_off(self, member):
        said = self.cluster.control("member", "list").stdout
        self.island.number = re.search(rf"^([0-9a-f]+), \w+, {member.name},", said, re.M)[1]
        self.island.member = member

    def reunite(self):
        self.island.member = None
        for relay in self.relays:
            relay.cut()

    def member_of(self, side):
        """The one to which it has its connection."""
        own = {os.readlink(path) for path in glob.glob(f"/proc/{side.process.pid}/fd/*")}
        for line in open(f"/proc/{side.process.pid}/net/tcp", encoding="ascii").readlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in own and words[3] == "01":
                port = int(words[2].split(":")[1], 16)
                return next(one for one in self.cluster.members if one.port == port)
        raise AssertionError("it has no connection")


def let_pass(seconds):
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until, "time passes")


def cannot_read_at(member):
    """It has no leader."""
    control = os.environ.get("HOLDFAST_ETCDCTL", "etcdctl")
    return subprocess.run([control, "--endpoints", f"http://127.0.0.1:{member.port}", "get", "x",
                           "--command-timeout=1s"], capture_output=True, check=False).returncode


def waiter_at_a_member_that_is_cut_off_is_served_by_another(directory):
    stage = PartedStage(directory)
    holder, waiter = holder_and_waiter(stage, "one")
    cut = stage.member_of(waiter)
    stage.cut_off(cut)
    wait_until(lambda: cannot_read_at(cut), "it is cut off")
    holder.want("ok", "a", "unlock", "mutex", "one")
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    waiter.want("ok", "b", "unlock", "mutex", "one")
    assert stage.member_of(waiter) is not cut, "it is there still"
    stage.end()


def holder_at_a_leader_that_is_cut_off_keeps_its_lock(directory):
    stage, lease_s = PartedStage(directory), 4
    holder = stage.side("the holder", lease_ms=1000 * lease_s)
    while True:  # clients choose a member by chance
        holder.want("ok", "a", "lock", "mutex", "one", 0, 0)
        if stage.member_of(holder) is stage.leader():
            break
        holder.stop()
        stage.wait_for_keys("one", 0)
        holder = stage.side("the holder", lease_ms=1000 * lease_s)
    cut = stage.member_of(holder)
    stage.cut_off(cut)
    let_pass(2 * lease_s)
    holder.want("1", "a", "holds", "mutex", "one")
    other = stage.side("another client")
    # A bare try at the member that is cut off is refused by that one.
    wait_until(lambda: other.ask("b", "lock", "mutex", "one", 0, 0) == "busy", "it is in use")
    stage.reunite()
    holder.want("ok", "a", "unlock", "mutex", "one")
    other.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    stage.end()


def clients_of_a_member_that_is_cut_off_alone_are_told(directory):
    """Its URL names no other: a lock is lost in time, and none can be acquired until it is back."""
    stage = PartedStage(directory)
    member = stage.leader()
    url = f"etcd://127.0.0.1:{member.port}/{etcd_server.PREFIX[:-1]}"
    side = stage.side("the client", lease_ms=3000, url=url)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    stage.cut_off(member)
    wait_until(lambda: side.ask("a", "holds", "mutex", "one") == "0", "it is lost")
    said = side.ask("b", "lock", "mutex", "two", 1500, 0)
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    side.want("lost", "a", "unlock", "mutex", "one")
    stage.reunite()
    side.want("ok", "b", "lock", "mutex", "two", FOR_EVER, 0)
    stage.end()


def side_at(stage, member, **more):
    """A client that has its connection there, and holds nothing."""
    while True:  # clients choose a member by chance
        side = stage.side("a client", **more)
        side.want("ok", "a", "lock", "mutex", "zero", FOR_EVER, 0)
        side.want("ok", "a", "unlock", "mutex", "zero")
        if member in (None, stage.member_of(side)):
            return side
        side.stop()


def bare_tries_at_a_member_without_leader_go_to_another(directory):
    """What has no time to wait is served within its call all the same, in whatever way it learns
    that there is no leader: by its own request, a heartbeat before it, or another request."""
    stage, lease_s = PartedStage(directory), 12
    kinds = {f"b{number}": ("mutex", "write", "read")[number % 3] for number in range(30)}
    one = side_at(stage, None, lease_ms=60000)  # it puts up with silence for a while
    cut = stage.member_of(one)
    other = side_at(stage, cut)
    stale, since = side_at(stage, cut, lease_ms=1000 * lease_s), time.monotonic()
    stage.cut_off(cut)
    one.tell("b", "lock", "mutex", "of-b", 0, 0)  # the member has not noticed yet, and is silent
    wait_until(lambda: cannot_read_at(cut), "it is cut off")
    for thread, kind in kinds.items():  # at the same moment
        one.tell(thread, "lock", kind, "of-" + thread, 0, 0)
    equal({one.answer(thread) for thread in ("b", *kinds)}, {"ok"}, "what its threads hear")
    other.want("busy", "a", "lock", "mutex", "of-b", 0, 0)
    assert cut not in (stage.member_of(one), stage.member_of(other)), "they are there still"
    # Nothing rests on its session, which is asked about first.
    wait_until(lambda: time.monotonic() > since + 0.6 * lease_s, "it is stale")
    assert stage.member_of(stale) is cut, "it has left already"
    stale.want("ok", "a", "lock", "mutex", "late", 0, 0)
    stage.end()


def bare_try_finds_no_leader_anywhere_and_is_told(directory):
    """There is no majority: the call ends, with the reason, long before its time is over."""
    stage = PartedStage(directory)
    side = side_at(stage, None)
    there = stage.member_of(side)
    others = [member for member in stage.cluster.members if member is not there]
    for member in others:
        member.kill()
    wait_until(lambda: cannot_read_at(there), "it is alone")
    said = side.ask("a", "lock", "mutex", "one", 0, 0)
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    others[0].again()
    side.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    stage.end()


def clock_of_a_client_that_jumps_costs_no_lock(directory):
    stage, since, lease_s = Stage(directory), f"{directory}/jumps", 2
    holder = stage.side("the holder", lease_ms=1000 * lease_s, environment=dict(
        os.environ, LD_PRELOAD=os.environ["HOLDFAST_SKEWED_CLOCK"], HOLDFAST_SKEWED_SINCE=since))
    waiter = stage.side("the waiter", lease_ms=1000 * lease_s)
    holder.want("ok", "a", "lock", "mutex", "one", 0, 0)
    waiter.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    stage.wait_for_keys("one", 2)
    with open(since, "w", encoding="ascii"):
        pass
    holder.want("ok", "c", "lock", "mutex", "two", 0, 0)
    note = stage.cluster.control("get", etcd_server.PREFIX + "two", "--prefix").stdout
    ahead_ms = int(re.search(r"since=(\d+)", note)[1]) - 1000 * time.time()
    assert ahead_ms > AN_HOUR_MS / 2, f"its clock is {ahead_ms:.0f} ms ahead"
    let_pass(2 * lease_s)
    holder.want("1", "a", "holds", "mutex", "one")
    hand_over(stage, holder, waiter, "one")
    stage.end()


TESTS = (waiter_at_a_member_that_is_cut_off_is_served_by_another,
         holder_at_a_leader_that_is_cut_off_keeps_its_lock,
         clients_of_a_member_that_is_cut_off_alone_are_told,
         bare_tries_at_a_member_without_leader_go_to_another,
         bare_try_finds_no_leader_anywhere_and_is_told,
         clock_of_a_client_that_jumps_costs_no_lock)

sys.exit(main(TESTS))
