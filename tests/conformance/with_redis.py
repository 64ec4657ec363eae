#!/usr/bin/env python3
"""Runs a program with $HOLDFAST_TEST_URL naming a Redis server of its own, which ends with it."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
PATIENCE = 20
TMPFS = "/dev/shm"


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(directory):
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "",
         "--appendonly", "no", "--dir", directory, "--logfile", f"{directory}/log"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    until = time.monotonic() + PATIENCE
    while not os.path.exists(f"{directory}/redis.sock"):
        if server.poll() is not None or time.monotonic() > until:
            sys.exit(f"with_redis: redis-server does not start; status {server.poll()}")
        time.sleep(0.01)
    return server


def main():
    if sys.argv[1] == "--without-engine":
        skip("this build has no engine for Redis: hiredis was not found")
    if not shutil.which("redis-server"):
        skip("there is no redis-server")
    where = TMPFS if os.access(TMPFS, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-", dir=where) as directory:
        server = start(directory)
        environment = dict(os.environ, HOLDFAST_TEST_URL=f"redis+unix://{directory}/redis.sock")
        status = subprocess.call(sys.argv[1:], env=environment)
        server.kill()
        server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
