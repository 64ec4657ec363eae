#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values at etcd whose changes lose their replies, or come late: counters, latches, semaphores.

usage: test_etcd_values.py PEER
"""

import base64
import json
import socket
import sys

from stage import FOR_EVER, LEASE_MS, Relay, Stage, equal, etcd_server, main, wait_until

# What a write of a value has, and a read of it has once: a mark's key.
MARK = b"\0holdfast/"
# The note of a permit: its key is put, and not read.
PERMIT = b"holdfast permit"


class ChangeRelay(Relay):
    """Loses the reply of the next change of a value, or keeps the change back; or cuts the
    connection for each request about values."""

    def __init__(self, port):
        self.lose = self.keep = self.chop = False
        self.chopped = 0
        self.overtakers = []  # what is done before each request that puts a permit's key
        super().__init__(port)

    def is_held(self, way, data):
        change = data.count(MARK) > 2
        if PERMIT in data and self.overtakers:
            self.overtakers.pop(0)()
        if self.chop and MARK in data:
            self.chopped += 1
            way.near.shutdown(socket.SHUT_RDWR)
            return True
        if change and self.lose:
            self.mute = True
        return (change and self.keep) or super().is_held(way, data)


class Scene:
    """A client that reaches its server through a relay, and one that does directly."""

    def __init__(self, directory, lease_ms=20000):
        self.stage = Stage(directory)
        port = self.stage.cluster.members[0].port
        self.relay = ChangeRelay(port)
        url = self.stage.cluster.url().replace(str(port), str(self.relay.port))
        self.far = self.stage.side("the far client", url=url, lease_ms=lease_ms)
        self.near = self.stage.side("the near client", lease_ms=LEASE_MS)

    def value(self, name, word="counter"):
        key = f"{etcd_server.PREFIX}{name}/{word}"
        return self.stage.cluster.control("get", key, "--print-value-only").stdout.strip()

    def all_values(self, name):
        """Those of marks, too."""
        said = self.stage.cluster.control("get", etcd_server.PREFIX + name, "--prefix", "-w",
                                          "json")
        return [base64.b64decode(one.get("value", "")).decode()
                for one in json.loads(said.stdout).get("kvs", [])]

    def lose_reply(self, name, wanted, *order, word="counter"):
        """Until the server has done it."""
        self.relay.lose = True
        self.far.tell("a", *order)
        wait_until(lambda: self.value(name, word) == wanted, f"{name} is at {wanted}")
        wait_until(lambda: self.relay.lost > 0, "a reply was lost")
        self.relay.lose = False

    def mend(self):
        self.relay.mute = False
        self.relay.cut()

    def revision(self):
        """How many writes the servers have done."""
        said = self.stage.cluster.control("get", "nothing", "-w", "json").stdout
        return json.loads(said)["header"]["revision"]

    def end(self):
        self.stage.end()


def units_given_without_a_reply_are_given_once(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "give", "one", 5)
    scene.lose_reply("one", "8", "give", "one", 3)
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one"), "8", "the value")
    scene.end()


def units_taken_without_a_reply_are_taken_once(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "give", "one", 9)
    scene.lose_reply("one", "5", "take", "one", 4, FOR_EVER)
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one"), "5", "the value")
    scene.end()


def waiter_that_took_without_a_reply_has_taken_once(directory):
    scene = Scene(directory)
    scene.far.tell("a", "take", "one", 4, FOR_EVER)
    scene.stage.wait_for_keys("one", 1)
    scene.relay.lose = True
    scene.near.want("ok", "b", "give", "one", 9)
    wait_until(lambda: scene.value("one") == "5" and scene.relay.lost > 0, "it was taken")
    scene.relay.lose = False
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one"), "5", "the value")
    equal(len(scene.stage.keys("one")), 1, "the counter's key alone is left")
    scene.end()


def latch_counted_down_without_a_reply_is_counted_once(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "latch", "one", 3)
    scene.lose_reply("one", "2", "down", "one", word="latch")
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one", "latch"), "2", "what is left")
    scene.end()


def units_whose_taker_has_given_up_come_back(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "give", "one", 9)
    scene.lose_reply("one", "5", "take", "one", 4, 1500)
    said = scene.far.answer("a")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    scene.mend()
    wait_until(lambda: scene.value("one") == "9", "they have come back")
    scene.far.want("ok", "a", "give", "one", 1)
    equal(scene.value("one"), "10", "the value")
    scene.end()


def units_come_back_when_the_taker_has_lost_its_session(directory):
    """Its lease has ended meanwhile. The mark outlives it, so the take is known again."""
    scene = Scene(directory, lease_ms=2000)
    scene.far.want("ok", "a", "lock", "mutex", "held", 0, 0)
    scene.far.want("ok", "a", "give", "one", 9)
    scene.lose_reply("one", "5", "take", "one", 4, 1500)
    said = scene.far.answer("a")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    scene.stage.wait_for_keys("held", 0)
    scene.mend()
    wait_until(lambda: scene.value("one") == "9", "they have come back")
    scene.end()


def waiter_that_took_without_a_reply_and_lost_its_session_has_taken_once(directory):
    scene = Scene(directory, lease_ms=2000)
    scene.far.want("ok", "a", "lock", "mutex", "held", 0, 0)
    scene.far.tell("a", "take", "one", 4, FOR_EVER)
    scene.stage.wait_for_keys("one", 1)
    scene.relay.lose = True
    scene.near.want("ok", "b", "give", "one", 9)
    wait_until(lambda: scene.value("one") == "5" and scene.relay.lost > 0, "it was taken")
    scene.relay.lose = False
    scene.stage.wait_for_keys("held", 0)
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one"), "5", "the value")
    scene.end()


def change_that_comes_late_changes_nothing(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "give", "one", 5)
    scene.relay.keep = True
    scene.far.tell("a", "give", "one", 3)
    scene.relay.wait_for_held()
    scene.relay.keep = False
    scene.relay.leave()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    equal(scene.value("one"), "8", "the value")
    scene.relay.deliver()
    scene.near.want("ok", "b", "give", "one", 1)
    equal(scene.value("one"), "9", "the value")
    scene.end()


def take_that_was_given_up_and_comes_late_takes_nothing(directory):
    scene = Scene(directory)
    scene.far.want("ok", "a", "give", "one", 9)
    scene.relay.keep = True
    scene.far.tell("a", "take", "one", 4, 1500)
    scene.relay.wait_for_held()
    scene.relay.keep, scene.relay.chop = False, True
    scene.relay.leave()
    said = scene.far.answer("a")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    # An attempt asks five times at most, so a release asks by then.
    enough = scene.relay.chopped + 10
    wait_until(lambda: scene.relay.chopped >= enough, "it is being given up")
    scene.relay.chop = False
    wait_until(lambda: "0 0" in scene.all_values("one"), "the late request is fenced")
    scene.relay.deliver()
    scene.near.want("ok", "b", "give", "one", 1)
    equal(scene.value("one"), "10", "the value")
    scene.end()


def permits_come_back_when_their_owners_lease_ends(directory):
    scene = Scene(directory)
    scene.near.want("ok", "b", "permits", "one", 3)
    scene.near.want("ok", "b", "lock", "permit", "one", 0, 0)
    scene.near.want("ok", "c", "lock", "permit", "one", 0, 0)
    scene.near.want("ok", "d", "lock", "permit", "one", 0, 0)
    scene.far.tell("a", "lock", "permit", "one", FOR_EVER, 0)
    scene.stage.wait_for_keys("one", 5)
    equal(scene.far.queue_of("a").empty(), True, "the waiter waits still")
    scene.near.process.kill()
    equal(scene.far.answer("a"), "ok", "what the waiter hears")
    scene.stage.wait_for_keys("one", 2)
    scene.far.want("ok", "a", "unlock", "permit", "one")
    scene.end()


def permit_acquired_without_its_reply_is_one(directory):
    scene = Scene(directory)
    scene.near.want("ok", "b", "permits", "one", 2)
    scene.far.want("ok", "a", "lock", "mutex", "first", 0, 0)
    scene.relay.mute = True
    scene.far.tell("a", "lock", "permit", "one", FOR_EVER, 0)
    scene.stage.wait_for_keys("one", 2)
    scene.mend()
    equal(scene.far.answer("a"), "ok", "what the client hears")
    scene.near.want("ok", "b", "lock", "permit", "one", 0, 0)
    scene.near.want("busy", "c", "lock", "permit", "one", 0, 0)
    scene.far.want("ok", "a", "unlock", "permit", "one")
    scene.near.want("ok", "c", "lock", "permit", "one", 0, 0)
    scene.end()


def try_for_a_permit_that_another_takes_meanwhile_is_busy(directory):
    """It has looked, and seen one; what it sends then comes after another client's."""
    scene = Scene(directory)
    scene.near.want("ok", "b", "permits", "one", 1)
    scene.far.want("ok", "a", "lock", "mutex", "first", 0, 0)
    scene.relay.holds = PERMIT
    scene.far.tell("a", "lock", "permit", "one", 0, 0)
    scene.relay.wait_for_held()
    scene.near.want("ok", "b", "lock", "permit", "one", 0, 0)
    scene.relay.pass_on()
    equal(scene.far.answer("a"), "busy", "what the client hears")
    equal(len(scene.stage.keys("one")), 2, "the semaphore, and a permit")
    scene.end()


def refused_try_for_a_permit_writes_nothing_however_often_it_is_overtaken(directory):
    """Other tries would count its key, and be refused a permit that has come back."""
    scene = Scene(directory)
    scene.near.want("ok", "b", "permits", "one", 1)
    scene.far.want("ok", "a", "lock", "mutex", "first", 0, 0)

    def put(suffix):
        scene.stage.cluster.control("put", f"{etcd_server.PREFIX}one/permits/{suffix}", "")

    # The first ones want no permit, and the last one has it.
    scene.relay.overtakers = [lambda n=n: put(f"{n}.0") for n in range(7)] + [lambda: put("7.1")]
    before = scene.revision()
    equal(scene.far.ask("a", "lock", "permit", "one", 0, 0), "busy", "what the client hears")
    equal(scene.relay.overtakers, [], "others that come before it")
    equal(scene.revision() - before, 8, "writes of the others, and no more")
    scene.end()


TESTS = (units_given_without_a_reply_are_given_once, units_taken_without_a_reply_are_taken_once,
         waiter_that_took_without_a_reply_has_taken_once,
         latch_counted_down_without_a_reply_is_counted_once,
         units_whose_taker_has_given_up_come_back,
         units_come_back_when_the_taker_has_lost_its_session,
         waiter_that_took_without_a_reply_and_lost_its_session_has_taken_once,
         change_that_comes_late_changes_nothing,
         take_that_was_given_up_and_comes_late_takes_nothing,
         permits_come_back_when_their_owners_lease_ends, permit_acquired_without_its_reply_is_one,
         try_for_a_permit_that_another_takes_meanwhile_is_busy,
         refused_try_for_a_permit_writes_nothing_however_often_it_is_overtaken)

sys.exit(main(TESTS))
