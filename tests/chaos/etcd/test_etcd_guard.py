#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guards: what a program's own transaction compares, which etcd refuses once the lock is lost.

usage: test_etcd_guard.py PEER [NAME...]
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from stage import FOR_EVER, LEASE_MS, Stage, equal, main, wait_until  # noqa: E402


def write(stage, guard, value):
    """A guarded write of etcdctl's: whether it was done."""
    key, _, revision = guard.rpartition("@")
    said = stage.cluster.control(
        "txn", input=f'create("{key}") = "{revision}"\n\nput data {value}\n\n\n').stdout
    return said.split()[0] == "SUCCESS"


def data(stage):
    return stage.cluster.control("get", "data", "--print-value-only").stdout.strip()


def stopped_holder_writes_nothing_when_it_wakes(directory):
    stage = Stage(directory)
    first, second = stage.side("the first"), stage.side("the second")
    first.want("ok", "a", "lock", "mutex", "one", 0, 0)
    early = first.ask("a", "guard", "one")
    equal(write(stage, early, "first"), True, "the holder's write")
    first.process.send_signal(19)
    second.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
    late = second.ask("b", "guard", "one")
    equal(write(stage, early, "late"), False, "the late write")
    equal(write(stage, late, "second"), True, "the next holder's write")
    first.process.send_signal(18)
    equal(write(stage, early, "late"), False, "the late write")
    equal(data(stage), "second", "what was written")
    stage.end()


def every_kind_of_hold_has_one(directory):
    stage = Stage(directory)
    side = stage.side("the client")
    side.want("ok", "a", "permits", "p", 2)
    for kind, name, lease_ms in (("mutex", "m", 0), ("mutex", "l", LEASE_MS), ("read", "r", 0),
                                 ("write", "w", 0), ("permit", "p", 0)):
        side.want("ok", "a", "lock", kind, name, 0, lease_ms)
        guard = side.ask("a", "guard", name)
        equal(write(stage, guard, kind), True, f"a write under {kind}")
        side.want("ok", "a", "unlock", kind, name)
        equal(write(stage, guard, "late"), False, f"a write after {kind}")
    stage.end()


def downgrade_gives_another(directory):
    stage = Stage(directory)
    side = stage.side("the client")
    side.want("ok", "a", "lock", "write", "one", 0, 0)
    writers = side.ask("a", "guard", "one")
    side.want("ok", "a", "downgrade", "one", "x")
    readers = side.ask("a", "guard", "one")
    equal(write(stage, writers, "late"), False, "a write as a writer")
    equal(write(stage, readers, "reader"), True, "a write as a reader")
    stage.end()


def lost_lock_has_none(directory):
    stage = Stage(directory)
    side = stage.side("the client")
    side.want("ok", "a", "lock", "mutex", "one", 0, 0)
    guard = side.ask("a", "guard", "one")
    stage.cluster.control("del", guard.rpartition("@")[0])
    wait_until(lambda: side.ask("a", "guard", "one") == "lost", "the client has heard of it")
    equal(write(stage, guard, "late"), False, "a late write")
    stage.end()


sys.exit(main([stopped_holder_writes_nothing_when_it_wakes, every_kind_of_hold_has_one,
               downgrade_gives_another, lost_lock_has_none]))
