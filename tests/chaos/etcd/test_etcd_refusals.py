#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that refuse what they did before: a full database, a token that has expired, rights
that were taken away.

usage: test_etcd_refusals.py PEER [NAME...]
"""

import sys
import time

from stage import (FOR_EVER, LONG_LEASE_MS, Relay, Stage, equal, etcd_server, hand_over,
                   holder_and_waiter, main, wait_until)

TOKEN_LIFE_S = 1


def start_again(stage, *options, user=None):
    """It serves then, though with an alarm it is not well."""
    server = stage.cluster.members[0]
    server.kill()
    server.arguments += options
    server.again()
    wait_until(lambda: stage.cluster.control("get", "nothing", check=False,
                                             user=user).returncode == 0, "the server serves")


def full_database_refuses_acquires_and_does_releases(directory):
    """Its alarm is raised by the first write that finds no room."""
    stage = Stage(directory)
    holder, waiter = holder_and_waiter(stage, "one", lease_ms=20000)
    start_again(stage, "--quota-backend-bytes", "1")
    stage.cluster.control("put", "more", "data", check=False)
    assert "NOSPACE" in stage.cluster.control("alarm", "list").stdout, "there is no alarm"
    for kind, name in (("mutex", "two"), ("write", "two-rw")):
        said = waiter.ask("c", "lock", kind, name, 0, 0)
        assert said.startswith("failed: HF_ELIMIT: "), said
    hand_over(stage, holder, waiter, "one")
    said = holder.ask("a", "give", "count", 1)
    assert said.startswith("failed: HF_ELIMIT: "), said
    start_again(stage, "--quota-backend-bytes", "0")
    stage.cluster.control("alarm", "disarm")
    waiter.want("ok", "c", "lock", "mutex", "two", FOR_EVER, 0)
    stage.end()


def server_with_too_few_streams_says_so(directory):
    """Heartbeats and watches take two. A client that knows that, and one that learns it late."""
    stage = Stage(directory)
    for streams in (1, 2):
        start_again(stage, "--max-concurrent-streams", str(streams))
        side = stage.side(f"a client with {streams} streams")
        for order in (("lock", "mutex", "one", 0, 0), ("lock", "permit", "two", FOR_EVER, 0),
                      ("give", "three", 1)):
            said = side.ask("a", *order)
            assert said.startswith("failed: HF_ELIMIT: "), said
            assert "--max-concurrent-streams" in said, said
        side.want("0", "a", "units", "three")
        said = side.ask("a", "lock", "mutex", "one", FOR_EVER, 0)
        assert said.startswith("failed: HF_ELIMIT: "), said
        side.stop()
    start_again(stage, "--max-concurrent-streams", "3")
    holder, waiter = holder_and_waiter(stage, "one")
    holder.want("ok", "a", "give", "three", 1)
    hand_over(stage, holder, waiter, "one")
    stage.end()


def let_token_expire():
    until = time.monotonic() + 3 * TOKEN_LIFE_S
    wait_until(lambda: time.monotonic() > until, "tokens that were not used have expired")


def expired_token_is_replaced_while_locks_are_held_and_waited_for(directory):
    stage = Stage(directory, users=True)
    root = f"root:{etcd_server.ROOT_PASSWORD}"
    start_again(stage, "--auth-token-ttl", str(TOKEN_LIFE_S), user=root)
    holder = stage.side("the holder", lease_ms=60000)
    waiter = stage.side("the waiter", lease_ms=60000)
    holder.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    waiter.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    wait_until(lambda: len(stage.cluster.control("get", etcd_server.PREFIX, "--prefix",
                                                 "--keys-only", user=root).stdout.split()) == 2,
               "both have their keys")
    let_token_expire()
    holder.want("ok", "a", "unlock", "mutex", "one")
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    let_token_expire()
    waiter.want("ok", "b", "unlock", "mutex", "one")
    holder.want("ok", "a", "lock", "mutex", "one", 0, 0)
    stage.end()


def change_rights(stage, *words):
    stage.cluster.control("role", *words, user=f"root:{etcd_server.ROOT_PASSWORD}")


def take_rights_away(stage):
    change_rights(stage, "revoke-permission", "locks", etcd_server.PREFIX, "--prefix")


def give_rights_to(stage, prefix):
    change_rights(stage, "grant-permission", "locks", "readwrite", prefix, "--prefix")


def as_root(stage):
    return stage.side("root", url=stage.cluster.url(
        user=f"root:{etcd_server.ROOT_PASSWORD.replace('+', '%2B')}"))


def holder_without_rights_is_told_and_its_locks_end_by_lease(directory):
    """Neither its keys nor the lease below them can be removed by it any more."""
    stage, kinds = Stage(directory, users=True), {"one": "mutex", "two": "write", "three": "permit"}
    side, root = stage.side("the user", lease_ms=2000), as_root(stage)
    side.want("ok", "a", "permits", "three", 1)
    for name, kind in kinds.items():
        side.want("ok", "a", "lock", kind, name, 0, 0)
    take_rights_away(stage)
    root.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    for name, kind in kinds.items():
        said = side.ask("a", "unlock", kind, name)
        assert said.startswith("failed: HF_DENIED: "), said
        side.want("0", "a", "holds", kind, name)
    equal(root.answer("b"), "ok", "what another user hears")
    root.want("ok", "c", "lock", "write", "two", FOR_EVER, 0)
    said = side.ask("a", "lock", "mutex", "four", 0, 0)
    assert said.startswith("failed: HF_DENIED: "), said
    give_rights_to(stage, etcd_server.PREFIX)
    side.want("ok", "a", "lock", "mutex", "four", FOR_EVER, 0)
    side.want("ok", "a", "unlock", "mutex", "four")
    stage.end()


def lock_that_could_not_be_released_ends_once_the_others_are(directory):
    """They rest on one lease, which is not used for later locks."""
    stage = Stage(directory, users=True)
    side, root = stage.side("the user", lease_ms=2000), as_root(stage)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    side.want("ok", "a", "lock", "mutex", "two", 0, 0)
    give_rights_to(stage, etcd_server.PREFIX + "two/")
    take_rights_away(stage)
    said = side.ask("a", "unlock", "mutex", "one")
    assert said.startswith("failed: HF_DENIED: "), said
    side.want("1", "a", "holds", "mutex", "two")
    side.want("ok", "a", "unlock", "mutex", "two")
    root.tell("b", "lock", "mutex", "one", FOR_EVER, 0)
    side.want("ok", "a", "lock", "mutex", "two", FOR_EVER, 0)  # held from now on
    equal(root.answer("b"), "ok", "what another user hears")
    side.want("1", "a", "holds", "mutex", "two")
    stage.end()


def wait_for_keys(stage, name, count):
    """As root, where there are users."""
    wait_until(lambda: len(stage.cluster.control(
        "get", f"{etcd_server.PREFIX}{name}/", "--prefix", "--keys-only",
        user=f"root:{etcd_server.ROOT_PASSWORD}").stdout.split()) == count,
        f"{count} keys of {name}")


def waiter_without_rights_leaves_no_key_beyond_locks_of_its_session(directory):
    """Later locks rest on another session; a claim that waits on the old one does so again."""
    stage = Stage(directory, users=True)
    side, root = stage.side("the user", lease_ms=2000), as_root(stage)
    side.want("ok", "a", "lock", "mutex", "long", 0, 0)
    for number, name in enumerate(("one", "three")):
        root.want("ok", "a", "lock", "mutex", name, 0, 0)
        side.tell(f"b{number}", "lock", "mutex", name, FOR_EVER, 0)
        wait_for_keys(stage, name, 2)
    # In this order: a waiter that asks in between would be refused.
    for name in ("long", "two", "three"):
        give_rights_to(stage, f"{etcd_server.PREFIX}{name}/")
    take_rights_away(stage)
    said = side.answer("b0")
    assert said.startswith("failed: HF_DENIED: "), said
    side.want("ok", "a", "lock", "mutex", "two", FOR_EVER, 0)  # held from now on
    side.want("1", "a", "holds", "mutex", "long")
    side.want("ok", "a", "unlock", "mutex", "long")
    wait_for_keys(stage, "one", 1)
    root.want("ok", "a", "unlock", "mutex", "one")
    root.want("ok", "a", "lock", "mutex", "one", FOR_EVER, 0)
    root.want("ok", "a", "unlock", "mutex", "three")
    equal(side.answer("b1"), "ok", "what the other waiter hears")
    side.want("1", "a", "holds", "mutex", "two")
    stage.end()


def lock_is_watched_again_once_its_user_has_rights_again(directory):
    """A new connection asks for its watch while the user may not read its key."""
    stage = Stage(directory, users=True)
    relay = Relay(stage.cluster.members[0].port)
    url = stage.cluster.url().replace(str(relay.target), str(relay.port))
    side = stage.side("the user", lease_ms=LONG_LEASE_MS, url=url)
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    take_rights_away(stage)
    relay.cut()
    said = side.ask("b", "lock", "mutex", "two", 0, 0)
    assert said.startswith("failed: HF_DENIED: "), said
    side.want("1", "a", "holds", "mutex", "one")
    give_rights_to(stage, etcd_server.PREFIX)
    stage.cluster.control("del", f"{etcd_server.PREFIX}one/", "--prefix",
                          user=f"root:{etcd_server.ROOT_PASSWORD}")
    wait_until(lambda: side.ask("a", "holds", "mutex", "one") == "0", "the loss is told")
    stage.end()


sys.exit(main([full_database_refuses_acquires_and_does_releases,
               server_with_too_few_streams_says_so,
               expired_token_is_replaced_while_locks_are_held_and_waited_for,
               holder_without_rights_is_told_and_its_locks_end_by_lease,
               lock_that_could_not_be_released_ends_once_the_others_are,
               waiter_without_rights_leaves_no_key_beyond_locks_of_its_session,
               lock_is_watched_again_once_its_user_has_rights_again]))
