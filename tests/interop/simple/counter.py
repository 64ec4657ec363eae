#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts with redis-py: counter.py PORT NAME FILE ROUNDS; with 0 rounds, is it free? 0 or 75. With
"hold" for them, takes the lock, says so, and gives it back when a line comes."""

import sys

import redis


def main():
    port, name, path, rounds = sys.argv[1:]
    client = redis.Redis(port=int(port))
    if rounds == "hold":
        with client.lock(name, timeout=60):
            print("held", flush=True)
            sys.stdin.readline()
        return
    if rounds == "0":
        lock = client.lock(name, timeout=60)
        if not lock.acquire(blocking=False):
            sys.exit(75)
        lock.release()
    for _ in range(int(rounds)):
        with client.lock(name, timeout=60, sleep=0.02):
            with open(path, "r+", encoding="ascii") as file:
                count = int(file.read())
                file.seek(0)
                file.write(f"{count + 1}\n")


main()
