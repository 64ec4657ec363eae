#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors of etcd that leave open whether the request is executed, and refusals of a server that has
too much to do.

usage: test_etcd_errors.py PEER [NAME...]
"""

import re
import subprocess
import sys
import time
import urllib.request

from refuser import EXHAUSTED, UNAVAILABLE, UNKNOWN, Refuser
from stage import (FOR_EVER, Relay, Stage, die_with_parent, equal, etcd_server, main, wait_until)

TIMED_OUT = UNAVAILABLE, "etcdserver: request timed out"
# Each leaves open what has become of the request: a limit, a proxy, an error of a later etcd.
OPEN = (TIMED_OUT, (UNAVAILABLE, "etcdserver: leader changed"), (4, "context deadline exceeded"),
        (1, "context canceled"), (UNKNOWN, "an error of its own"), (10, "aborted"),
        (13, "transport is closing"), (EXHAUSTED, "grpc: trying to send a message too large"),
        (UNAVAILABLE, "etcdserver: server stopped"), (UNAVAILABLE, "transport is closing"))
TOO_MANY = "etcdserver: too many requests"
# A waiter looks by itself after 5 s.
LOOKS_AGAIN_S = 4
FULL = EXHAUSTED, "etcdserver: mvcc: database space exceeded"


class Scene:
    """A client that reaches its server through a proxy, holds a lock, and one without a proxy."""

    def __init__(self, directory):
        self.stage = Stage(directory)
        port = self.stage.cluster.members[0].port
        self.refuser = Refuser(port)
        url = self.stage.cluster.url().replace(str(port), str(self.refuser.port))
        self.side = self.stage.side("the client", url=url, lease_ms=60000)
        self.other = self.stage.side("the other client")
        self.side.want("ok", "a", "lock", "mutex", "first", 0, 0)

    def refuse(self, name, error, **more):
        return self.refuser.refuse(f"{etcd_server.PREFIX}{name}/".encode(), *error, **more)

    def value(self, name):
        key = f"{etcd_server.PREFIX}{name}/counter"
        return self.stage.cluster.control("get", key, "--print-value-only").stdout.strip()

    def watchers(self):
        port = self.stage.cluster.members[0].port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as said:
            text = said.read().decode()
        return int(re.search(r"^etcd_debugging_mvcc_watcher_total (\d+)", text, re.M)[1])

    def end(self):
        self.side.want("1", "a", "holds", "mutex", "first")
        self.stage.end()


def try_with_open_error_that_was_executed_leaves_no_key(directory):
    scene = Scene(directory)
    for number, error in enumerate(OPEN):
        for kind in ("mutex", "write"):
            name = f"{kind}{number}"
            scene.refuse(name, error, done=True)
            said = scene.side.ask("b", "lock", kind, name, 0, 0)
            assert said.startswith("failed: HF_UNREACHABLE: "), said
            scene.stage.wait_for_keys(name, 0)
    scene.end()


def try_with_open_error_that_is_executed_later_leaves_no_key(directory):
    scene = Scene(directory)
    for number, error in enumerate(OPEN[:2]):
        name = f"late{number}"
        rule = scene.refuse(name, error)
        said = scene.side.ask("b", "lock", "mutex", name, 0, 0)
        assert said.startswith("failed: HF_UNREACHABLE: "), said
        scene.refuser.deliver(rule)
        scene.other.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
        scene.stage.wait_for_keys(name, 1)
    scene.end()


def wait_with_open_errors_is_granted_within_its_time(directory):
    scene = Scene(directory)
    scene.side.want("ok", "b", "permits", "permit", 1)
    for kind in ("mutex", "read", "write", "permit"):
        for done in (False, True):
            scene.refuse(kind, TIMED_OUT, times=2, done=done)
            scene.side.want("ok", "b", "lock", kind, kind, FOR_EVER, 0)
            scene.side.want("ok", "b", "unlock", kind, kind)
        scene.stage.wait_for_keys(kind, 1 if kind == "permit" else 0)
    scene.end()


def lock_that_is_always_answered_with_an_open_error_is_unreachable(directory):
    scene = Scene(directory)
    scene.refuse("one", (UNKNOWN, "an error of its own"), times=1000, done=True)
    said = scene.side.ask("b", "lock", "mutex", "one", 700, 0)
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    assert "an error of its own" in said, said
    scene.refuser.stop_refusing()
    scene.other.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    scene.stage.wait_for_keys("one", 1)
    scene.end()


def key_whose_withdrawal_comes_late_is_not_granted(directory):
    """It has met a lock of another kind, which is gone when it asks again."""
    scene = Scene(directory)
    scene.other.want("ok", "a", "lock", "read", "one", 0, 0)

    def is_withdrawal(body):
        if b"/one/" not in body or b"holdfast mutex" in body:
            return False
        scene.other.want("ok", "a", "unlock", "read", "one")
        return True

    rule = scene.refuser.refuse(is_withdrawal, *TIMED_OUT)
    scene.side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    scene.refuser.deliver(rule)
    equal(len(scene.stage.keys("one")), 1, "keys after the late deletion")
    scene.side.want("ok", "b", "unlock", "mutex", "one")
    scene.end()


def release_with_open_error_is_repeated_and_not_lost(directory):
    scene = Scene(directory)
    for number, error in enumerate(OPEN):
        for done in (False, True):
            name = f"one{number}{done}"
            scene.side.want("ok", "b", "lock", "mutex", name, FOR_EVER, 0)
            scene.refuse(name, error, done=done)
            scene.side.want("ok", "b", "unlock", "mutex", name)
            scene.stage.wait_for_keys(name, 0)
    scene.end()


def downgrade_with_open_error_is_repeated(directory):
    scene = Scene(directory)
    for done in (False, True):
        scene.side.want("ok", "b", "lock", "write", "one", FOR_EVER, 0)
        scene.refuse("one", TIMED_OUT, done=done)
        scene.side.want("ok", "b", "downgrade", "one", "read")
        scene.other.want("ok", "a", "lock", "read", "one", 0, 0)
        scene.other.want("ok", "a", "unlock", "read", "one")
        scene.side.want("ok", "b", "unlock", "read", "one")
    scene.end()


def downgrade_of_a_watched_key_with_open_error_is_no_loss(directory):
    """The watch tells of the writer's key before the repeated request has its reply."""
    scene = Scene(directory)
    scene.side.want("ok", "b", "lock", "write", "one", FOR_EVER, 0)
    wait_until(lambda: scene.watchers() == 2, "both keys are watched")
    scene.refuse("one", OPEN[2], done=True)
    scene.side.want("ok", "b", "downgrade", "one", "read")
    scene.side.want("1", "b", "holds", "read", "one")
    scene.side.want("ok", "b", "unlock", "read", "one")
    scene.stage.wait_for_keys("one", 0)
    scene.end()


def change_of_a_value_with_open_error_is_made_once(directory):
    """A change has the name of its mark in it, which a read has once."""
    scene = Scene(directory)
    scene.side.want("ok", "b", "give", "one", 10)
    value = 10
    for error in OPEN:
        for done in (False, True):
            for order, by in ((("give", "one", 3), 3), (("take", "one", 1, 0), -1)):
                value += by
                scene.refuser.refuse(lambda body: body.count(b"\0holdfast/") > 2, *error, done=done)
                scene.side.want("ok", "b", *order)
                equal(scene.value("one"), str(value), f"the value after {order} and {error}")
    scene.end()


def change_of_a_value_without_room_is_made_once_or_never(directory):
    """The request that reaches the quota is executed, and refused all the same."""
    scene = Scene(directory)
    scene.side.want("ok", "b", "give", "one", 10)
    for done in (True, False):
        scene.refuser.refuse(lambda body: body.count(b"\0holdfast/") > 2, *FULL, done=done)
        said = scene.side.ask("b", "give", "one", 3)
        assert (said == "ok") if done else said.startswith("failed: HF_ELIMIT: "), said
        equal(scene.value("one"), "13", "the value")
    scene.end()


def lock_without_room_leaves_no_key(directory):
    """Each put is refused, a repeated one too: a loaded server may reply so late that the client
    repeats its request."""
    scene = Scene(directory)
    for wait_ms in (0, FOR_EVER):
        scene.refuser.refuse(lambda body: b"/one/" in body and b"holdfast mutex" in body, *FULL,
                             times=1000, done=True)
        said = scene.side.ask("b", "lock", "mutex", "one", wait_ms, 0)
        assert said.startswith("failed: HF_ELIMIT: "), said
        scene.stage.wait_for_keys("one", 0)
        scene.refuser.stop_refusing()
    scene.end()


def lease_of_its_own_with_open_errors_is_granted(directory):
    """One request for the lease, and one that moves the key there."""
    scene = Scene(directory)
    for done in (False, True):
        scene.refuser.refuse(lambda body: len(body) < 30, *TIMED_OUT, done=done)
        scene.side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 20000)
        scene.refuse("one", TIMED_OUT, done=done)
        scene.side.want("ok", "b", "unlock", "mutex", "one")
        scene.refuser.stop_refusing()
        scene.stage.wait_for_keys("one", 0)
    wait_until(lambda: len(scene.stage.leases()) <= 3, "leases that nothing needs are over")
    scene.end()


def server_with_too_much_to_do_is_asked_again(directory):
    """In all that a lock has to ask for, as etcd 3.4 says it and as newer ones do."""
    scene = Scene(directory)
    scene.side.want("ok", "b", "permits", "permit", 1)
    for status in (UNKNOWN, EXHAUSTED):
        error = status, TOO_MANY
        for kind in ("mutex", "write", "permit"):
            for wait_ms in (0, FOR_EVER):
                scene.refuse(kind, error, times=3)
                scene.side.want("ok", "b", "lock", kind, kind, wait_ms, 0)
                scene.refuse(kind, error, times=3)
                scene.side.want("ok", "b", "unlock", kind, kind)
            scene.stage.wait_for_keys(kind, 1 if kind == "permit" else 0)
        scene.refuse("counter", error, times=3)
        scene.side.want("ok", "b", "give", "counter", 1)
    equal(scene.value("counter"), "2", "the value")
    scene.end()


def withdrawal_from_a_server_with_too_much_to_do_leaves_no_key(directory):
    scene = Scene(directory)
    scene.other.want("ok", "a", "lock", "mutex", "one", 0, 0)
    scene.side.tell("b", "lock", "mutex", "one", 1000, 0)
    scene.stage.wait_for_keys("one", 2)
    # More than one request is repeated for: the deletion begins anew.
    scene.refuse("one", (UNKNOWN, TOO_MANY), times=18)
    assert scene.side.answer("b").startswith(("busy", "failed: HF_UNREACHABLE: ")), "what it hears"
    scene.stage.wait_for_keys("one", 1)
    scene.other.want("ok", "a", "unlock", "mutex", "one")
    scene.end()


def proxy_of_etcd_that_loses_its_connection_leaves_no_key(directory):
    """etcd's own programs alone: `etcd grpc-proxy` replies with an error for what it has sent."""
    stage = Stage(directory)
    relay, port = Relay(stage.cluster.members[0].port), etcd_server.free_port()
    proxy = subprocess.Popen(
        [etcd_server.server_program(), "grpc-proxy", "start", f"--endpoints=127.0.0.1:{relay.port}",
         f"--listen-addr=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd=directory, preexec_fn=die_with_parent)
    side = stage.side("the client", lease_ms=60000,
                      url=stage.cluster.url().replace(str(relay.target), str(port)))
    wait_until(lambda: side.ask("a", "lock", "mutex", "first", 0, 0) == "ok", "the proxy serves")
    side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    lose_replies(stage, relay, lambda: side.tell("b", "unlock", "mutex", "one"), "one", 0)
    equal(side.answer("b"), "ok", "what the client hears of its release")
    lose_replies(stage, relay, lambda: side.tell("c", "lock", "mutex", "two", 0, 0), "two", 1)
    said = side.answer("c")
    assert said.startswith("failed: HF_UNREACHABLE: "), said
    stage.wait_for_keys("two", 0)
    side.want("1", "a", "holds", "mutex", "first")
    proxy.kill()
    proxy.wait()
    stage.end()


def lose_replies(stage, relay, ask, name, keys):
    """Until what was asked for is done; the proxy has no connection then."""
    relay.mute = True
    ask()
    stage.wait_for_keys(name, keys)
    relay.mute = False
    relay.cut()


def waiter_whose_reply_is_older_than_its_watch_looks_again(directory):
    """The watch is that of an earlier waiter. It begins after the lock has been released, and says
    so before the waiter's reply is there that shows it held."""
    scene = Scene(directory)
    wait_until(lambda: scene.watchers() == 1, "the stream of watches has begun")
    scene.other.want("ok", "a", "lock", "mutex", "one", 0, 0)
    scene.refuser.keep_in_stream(b"one/")
    scene.side.want("busy", "b", "lock", "mutex", "one", 1500, 0)
    scene.stage.wait_for_keys("one", 1)
    rule = scene.refuser.refuse(b"one/", None)
    scene.side.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    scene.stage.wait_for_keys("one", 2)
    scene.other.want("ok", "a", "unlock", "mutex", "one")
    wait_until(lambda: scene.watchers() == 1, "no waiter is watched")
    scene.refuser.pass_messages_on()
    wait_until(lambda: scene.watchers() == 2, "the waiter is watched")
    begun = time.monotonic()
    rule.pass_reply_on()
    equal(scene.side.answer("b"), "ok", "what the waiter hears")
    took = time.monotonic() - begun
    assert took < LOOKS_AGAIN_S, f"only after {took:.1f} s, by itself"
    scene.side.want("ok", "b", "unlock", "mutex", "one")
    scene.end()


def key_deleted_before_its_grant_is_read_is_a_loss(directory):
    """The watch has told of it, when the claim was a waiter still."""
    scene = Scene(directory)
    scene.other.want("ok", "a", "lock", "mutex", "one", 0, 0)
    scene.side.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    # It looks when it has its key, and when its watch has begun.
    wait_until(lambda: sum(b"one/" in request for request in scene.refuser.answered) == 2,
               "the waiter is watched")
    key = scene.stage.keys("one")[1][0]
    rule = scene.refuser.refuse(b"one/", None)
    scene.other.want("ok", "a", "unlock", "mutex", "one")
    wait_until(lambda: any(way.behind for way in rule.ways), "its grant is kept back")
    scene.side.want("1", "a", "holds", "mutex", "first")
    scene.stage.cluster.control("del", key)
    rule.wait_for_message(key.encode())
    rule.pass_reply_on()
    equal(scene.side.answer("b"), "ok", "what the waiter hears")
    wait_until(lambda: scene.side.ask("b", "holds", "mutex", "one") == "0", "it is told")
    scene.side.want("lost", "b", "unlock", "mutex", "one")
    scene.end()


TESTS = (waiter_whose_reply_is_older_than_its_watch_looks_again,
         key_deleted_before_its_grant_is_read_is_a_loss,
         try_with_open_error_that_was_executed_leaves_no_key,
         try_with_open_error_that_is_executed_later_leaves_no_key,
         wait_with_open_errors_is_granted_within_its_time,
         lock_that_is_always_answered_with_an_open_error_is_unreachable,
         key_whose_withdrawal_comes_late_is_not_granted,
         release_with_open_error_is_repeated_and_not_lost,
         downgrade_with_open_error_is_repeated,
         downgrade_of_a_watched_key_with_open_error_is_no_loss,
         change_of_a_value_with_open_error_is_made_once,
         change_of_a_value_without_room_is_made_once_or_never,
         lock_without_room_leaves_no_key,
         lease_of_its_own_with_open_errors_is_granted,
         server_with_too_much_to_do_is_asked_again,
         withdrawal_from_a_server_with_too_much_to_do_leaves_no_key,
         proxy_of_etcd_that_loses_its_connection_leaves_no_key)

sys.exit(main(TESTS))
