#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make bench-redis, bench-memcached and bench-etcd measure with goes on working: what is sent
without the library, to compare, are the words that the library sends.

usage: check_bench.py STORE [WORKER...]
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tidy"))
import tap  # noqa: E402

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
STORE, WORKERS = sys.argv[1], sys.argv[2:]
PROGRAMS = {"redis": ("redis-server", "redis-benchmark"), "memcached": ("memcached",),
            "etcd": ("etcd", "etcdctl")}
# Each has the place of its data after the worker, but for memcached, which keeps none.
FLAGS = {"redis": ("--without-others", "--quick", "--only", "unix,threads"),
         "memcached": ("--quick",), "etcd": ("--without-others", "--quick", "--no-fsync")}


def one_round_comes_to_its_end():
    if not WORKERS:
        raise tap.Skip(f"this build has no engine for {STORE}")
    for program in PROGRAMS[STORE]:
        if not shutil.which(program):
            raise tap.Skip(f"there is no {program}")
    with tempfile.TemporaryDirectory() as place:
        places = [] if STORE == "memcached" else [place]
        done = subprocess.run([sys.executable, BENCH / STORE / f"bench_{STORE}.py", *WORKERS,
                               *places, *FLAGS[STORE]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.splitlines() if done.returncode else []


tap.run([("one_round_comes_to_its_end", one_round_comes_to_its_end)])
