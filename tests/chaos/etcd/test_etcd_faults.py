#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of etcd servers, and of the way to them, while locks are held and waited for.

usage: test_etcd_faults.py PEER
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "interop"))

from sides import FOR_EVER, Side, equal, run, scratch, skip_all, wait_until  # noqa: E402
import etcd_server  # noqa: E402

PEER = sys.argv[1]
LEASE_MS = 6000
# Its first renewal comes after 40 s: what is noticed before that is noticed by a watch.
LONG_LEASE_MS = 120000
SOON_S = 30


class Relay:
    """A way to a server that can lose the server's replies, and be cut."""

    def __init__(self, port):
        self.target, self.mute = port, False
        self.pairs, self.lock = [], threading.Lock()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with self.lock:
                self.pairs.append((near, far))
            threading.Thread(target=self.move, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.move, args=(far, near, True), daemon=True).start()

    def move(self, source, sink, replies):
        try:
            while data := source.recv(65536):
                if replies and self.mute:
                    self.lost += len(data)
                else:
                    sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        with self.lock:
            for pair in self.pairs:
                for end in pair:
                    end.close() if end.fileno() < 0 else end.shutdown(socket.SHUT_RDWR)
            self.pairs = []


class Stage:
    """Servers, and clients of ours in processes of their own."""

    def __init__(self, directory, members=1):
        self.cluster = etcd_server.Cluster(directory, members=members, election_ms=500)
        self.sides = []

    def side(self, what, lease_ms=LEASE_MS, url=None):
        side = Side(what, [PEER, url or self.cluster.url(), str(lease_ms)])
        self.sides.append(side)
        return side

    def leader(self):
        said = self.cluster.control("endpoint", "status", "-w", "json").stdout
        found = re.findall(r'"Endpoint":"[^"]*:(\d+)".*?"member_id":(\d+).*?"leader":(\d+)', said)
        for port, member, leader in found:
            if member == leader:
                return next(one for one in self.cluster.members if one.port == int(port))
        raise AssertionError(f"no leader: {said}")

    def keys(self, name):
        """Those of the queue, the oldest first, and the lease of each."""
        prefix = etcd_server.PREFIX + name + "/"
        said = self.cluster.control("get", prefix, "--prefix", "-w", "fields", "--order=ASCEND",
                                    "--sort-by=CREATE").stdout
        return re.findall(r'"Key" : "([^"]*)".*?"Lease" : (\d+)', said, re.DOTALL)

    def wait_for_keys(self, name, count):
        wait_until(lambda: len(self.keys(name)) == count, f"{count} keys of {name}")

    def end(self):
        for side in self.sides:
            side.stop()
        self.cluster.end()


def holder_and_waiter(stage, name, **more):
    holder, waiter = stage.side("the holder", **more), stage.side("the waiter", **more)
    holder.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
    waiter.tell("b", "lock", "mutex", name, FOR_EVER, 0)
    stage.wait_for_keys(name, 2)
    return holder, waiter


def hand_over(stage, holder, waiter, name):
    equal(waiter.queue_of("b").empty(), True, "the waiter waits still")
    holder.want("ok", "a", "unlock", "mutex", name)
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    waiter.want("ok", "b", "unlock", "mutex", name)
    stage.wait_for_keys(name, 0)


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
    stage.cluster.control("lease", "revoke", f"{int(before[1][1]):x}")
    wait_until(lambda: len(stage.keys("one")) == 2 and stage.keys("one") != before,
               "the waiter has another key")
    hand_over(stage, holder, waiter, "one")
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


def relayed(directory):
    stage = Stage(directory)
    relay = Relay(stage.cluster.members[0].port)
    url = stage.cluster.url().replace(str(relay.target), str(relay.port))
    side = stage.side("the client", url=url, lease_ms=20000)
    side.want("ok", "a", "lock", "mutex", "first", 0, 0)
    return stage, relay, side


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


TESTS = (leader_killed_costs_no_lock, leader_that_stands_still_costs_no_lock,
         compaction_wakes_no_waiter_and_loses_none, waiter_whose_lease_is_revoked_queues_again,
         holder_whose_lease_is_revoked_is_told_by_its_watch, key_deleted_by_hand_is_a_loss,
         release_of_a_key_that_has_gone_is_a_loss,
         silent_server_is_unreachable_and_serves_again,
         killed_server_that_comes_back_has_the_lock_still,
         acquire_without_its_reply_is_recognised, release_without_its_reply_is_no_loss,
         wait_given_up_without_a_reply_leaves_no_key)


def play(test):
    with scratch() as directory:
        test(directory)


def main():
    why = etcd_server.missing()
    if why:
        skip_all(why)
    os.environ["ETCDCTL_API"] = "3"
    return run([(test.__name__, test) for test in TESTS], play)


if __name__ == "__main__":
    sys.exit(main())
