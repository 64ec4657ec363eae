#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that refuse what they did before: a full database, a token that has expired.

usage: test_etcd_refusals.py PEER [NAME...]
"""

import sys
import time

from stage import (FOR_EVER, Stage, equal, etcd_server, hand_over, holder_and_waiter, main,
                   wait_until)

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


sys.exit(main([full_database_refuses_acquires_and_does_releases,
               expired_token_is_replaced_while_locks_are_held_and_waited_for]))
