# SPDX-License-Identifier: Apache-2.0
"""kazoo's Lock, measured: usage peer.py PORT <ORDERS; knows the order "pairs THREADS MS"."""

import sys
import threading
import time

import kazoo.client


def run(lock, begin, end, times):
    begin.wait()
    before = time.perf_counter_ns()
    while before < end[0]:
        lock.acquire()
        lock.release()
        after = time.perf_counter_ns()
        times.append(after - before)
        before = after


def pairs(locks, ms):
    begin, end, times = threading.Barrier(len(locks) + 1), [0], []
    threads = [threading.Thread(target=run, args=(lock, begin, end, times)) for lock in locks]
    for thread in threads:
        thread.start()
    began = time.perf_counter_ns()
    end[0] = began + ms * 1_000_000
    begin.wait()
    for thread in threads:
        thread.join()
    spent = time.perf_counter_ns() - began
    times.sort()
    print(f"p50={times[len(times) // 2]} p99={times[len(times) * 99 // 100]} "
          f"pairs={len(times)} ns={spent}", flush=True)


def main():
    client = kazoo.client.KazooClient(hosts=f"127.0.0.1:{sys.argv[1]}", timeout=30)
    client.start()
    for line in sys.stdin:
        threads, ms = map(int, line.split()[1:])
        pairs([client.Lock(f"/bench/lock:python:{i}") for i in range(threads)], ms)


main()
