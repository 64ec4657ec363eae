#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make bench-redis measures with goes on working: what it sends without the library, to
compare, are the words that the library sends."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tidy"))
import tap  # noqa: E402

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench/redis/bench_redis.py"


def one_round_comes_to_its_end():
    if len(sys.argv) < 2:
        raise tap.Skip("this build has no engine for Redis")
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        raise tap.Skip("there is no redis-server, or no redis-benchmark")
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([sys.executable, BENCH, sys.argv[1], place, "--without-others",
                               "--quick", "--only", "unix,threads"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.splitlines() if done.returncode else []


tap.run([("one_round_comes_to_its_end", one_round_comes_to_its_end)])
