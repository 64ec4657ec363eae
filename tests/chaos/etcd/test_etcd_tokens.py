#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens of users at etcd: long ones, which are signed, and ones that expire while requests are
under way.

usage: test_etcd_tokens.py PEER [NAME...]
"""

import contextlib
import subprocess
import sys
import threading
import time

from refuser import END_STREAM, HEADERS, Refuser, frames
from stage import (FOR_EVER, LONG_LEASE_MS, PATIENCE, Relay, Stage, equal, etcd_server, main,
                   wait_until)

TOKEN_LIFE_S = 2
THREADS = 12


def stage_with_signed_tokens(directory, bits, method):
    stage, key = Stage(directory, users=True), f"{directory}/key"
    subprocess.run(["openssl", "genrsa", "-out", key, str(bits)], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", f"{key}.pub"], check=True,
                   capture_output=True)
    server, root = stage.cluster.members[0], f"root:{etcd_server.ROOT_PASSWORD}"
    server.kill()
    server.arguments += ["--auth-token", f"jwt,pub-key={key}.pub,priv-key={key},"
                         f"sign-method={method},ttl={TOKEN_LIFE_S}s"]
    server.again()
    wait_until(lambda: stage.cluster.control("get", "nothing", check=False,
                                             user=root).returncode == 0, "the server serves")
    return stage


def let_token_expire():
    until = time.monotonic() + TOKEN_LIFE_S + 1
    wait_until(lambda: time.monotonic() > until, "tokens have expired")


def token_above_512_bytes_is_used_and_renewed(directory):
    for bits, method in ((3072, "RS256"), (4096, "RS512")):
        stage = stage_with_signed_tokens(f"{directory}/{bits}", bits, method)
        holder, waiter = stage.side("the holder", lease_ms=60000), stage.side("the waiter")
        holder.want("ok", "a", "lock", "mutex", "one", 0, 0)
        waiter.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
        let_token_expire()
        holder.want("ok", "a", "unlock", "mutex", "one")
        equal(waiter.answer("b"), "ok", "what the waiter hears")
        stage.end()


class OneReplyFirst(Relay):
    """Passes on one reply, and the others once the client has done something about that."""

    def __init__(self, port):
        self.armed, self.more = False, threading.Event()
        super().__init__(port)

    def is_held(self, way, data):
        self.more.set()
        return super().is_held(way, data)

    def move_requests(self, way):
        super().move_requests(way)
        self.more.set()

    def move_replies(self, way):
        with contextlib.suppress(OSError):
            for kind, flags, _, _, whole in frames(way.far):
                first = self.armed and kind == HEADERS and flags & END_STREAM
                if first:
                    self.armed = False
                    self.more.clear()
                way.near.sendall(whole)
                if first:
                    self.more.wait(PATIENCE)


def requests_under_way_when_the_token_has_expired_are_served(directory):
    """The first of them hears of it. A lock that is held, and a claim that waits, go on."""
    stage = stage_with_signed_tokens(directory, 2048, "RS256")
    relay = OneReplyFirst(stage.cluster.members[0].port)
    url = stage.cluster.url().replace(str(relay.target), str(relay.port))
    side = stage.side("the client", lease_ms=60000, url=url)
    other = stage.side("another client", lease_ms=60000)
    other.want("ok", "a", "lock", "mutex", "waited", 0, 0)
    side.want("ok", "held", "lock", "mutex", "held", 0, 0)
    side.tell("waiter", "lock", "mutex", "waited", FOR_EVER, 0)
    names = [f"n{number}" for number in range(THREADS)]
    let_token_expire()
    relay.holds = b""
    for name in names:
        side.tell(name, "lock", "mutex", name, 0, 0)
    wait_until(lambda: any(all(f"/{name}/".encode() in way.held for name in names)
                           for way in relay.ways), "all requests are under way")
    relay.armed = True
    relay.pass_on()
    equal([side.answer(name) for name in names], ["ok"] * THREADS, "what the threads hear")
    let_token_expire()
    for name in names:
        side.want("ok", name, "unlock", "mutex", name)
    equal(side.queue_of("waiter").empty(), True, "the waiter waits still")
    other.want("ok", "a", "unlock", "mutex", "waited")
    equal(side.answer("waiter"), "ok", "what the waiter hears")
    side.want("1", "held", "holds", "mutex", "held")
    stage.end()


def lock_whose_watch_is_refused_is_watched_again(directory):
    """The token of the stream expires while the watch is on its way. No request of the client
    meets the expired token: it holds one lock, and waits for none."""
    stage, root = stage_with_signed_tokens(directory, 2048, "RS256"), etcd_server.ROOT_PASSWORD
    refuser = Refuser(stage.cluster.members[0].port)
    url = stage.cluster.url().replace(str(refuser.target), str(refuser.port))
    side = stage.side("the client", lease_ms=LONG_LEASE_MS, url=url)
    other = stage.side("another client", lease_ms=LONG_LEASE_MS)
    other.want("ok", "a", "lock", "mutex", "waited", 0, 0)
    side.tell("waiter", "lock", "mutex", "waited", FOR_EVER, 0)  # its watch opens the stream
    wait_until(lambda: stage.cluster.control(
        "get", f"{etcd_server.PREFIX}waited/", "--prefix", "--keys-only",
        user=f"root:{root}").stdout.count("waited/") == 2, "a waiter has its key")
    other.want("ok", "a", "unlock", "mutex", "waited")
    equal(side.answer("waiter"), "ok", "what the waiter hears")
    side.want("ok", "waiter", "unlock", "mutex", "waited")
    key = f"{etcd_server.PREFIX}held/"
    refuser.keep_in_stream(key.encode())
    side.want("ok", "a", "lock", "mutex", "held", 0, 0)
    wait_until(lambda: refuser.kept, "the lock's watch is under way")
    let_token_expire()
    refuser.pass_messages_on()
    stage.cluster.control("del", key, "--prefix", user=f"root:{root}")
    wait_until(lambda: side.ask("a", "holds", "mutex", "held") == "0", "the loss is told")
    stage.end()


sys.exit(main([token_above_512_bytes_is_used_and_renewed,
               requests_under_way_when_the_token_has_expired_are_served,
               lock_whose_watch_is_refused_is_watched_again]))
