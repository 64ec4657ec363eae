#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts with the lock of OpenStack's tooz at memcached: tooz_peer.py PORT NAME FILE ROUNDS; with 0
rounds, is it free? 0 or 75. With "hold" for them, takes the lock, says so, and gives it back when a
line comes."""

import os
import random
import sys
import time

from tooz import coordination


def main():
    port, name, path, rounds = sys.argv[1:]
    member = f"member-{os.getpid()}".encode()
    coordinator = coordination.get_coordinator(f"memcached://127.0.0.1:{port}?lock_timeout=60",
                                               member)
    coordinator.start()
    lock = coordinator.get_lock(name.encode())
    if rounds in ("hold", "0"):
        if not lock.acquire(blocking=False):
            sys.exit(75)
        if rounds == "hold":
            print("held", flush=True)
            sys.stdin.readline()
        lock.release()
        sys.exit(0)
    for _ in range(int(rounds)):
        while not lock.acquire(blocking=False):
            time.sleep(random.uniform(0.001, 0.02))
        with open(path, "r+", encoding="ascii") as file:
            count = int(file.read())
            file.seek(0)
            file.write(f"{count + 1}\n")
        lock.release()
    coordinator.stop()


main()
