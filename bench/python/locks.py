#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lock and unlock per second, beside filelock and redis-py, without contention and with 64 tasks.

usage: locks.py [REDIS_PORT]

Each pair is measured in turns, so that a busy machine slows both down. The second ratio is that of
the processor's time in Python, which other programs disturb less. On Redis two bare PINGs stand
for the least that a lock and its release cost. The last line has holdfast's smallest ratio by the
clock; the exit status is 1 if it is below three.
"""

import asyncio
import socket
import statistics
import sys
import tempfile
import time

import holdfast

ROUNDS, SECONDS, TASKS, WANTED = 7, 0.5, 64, 3.0
ratios = []


def use(lock):
    with lock:
        pass


def measured(work):
    """The rate that work() returns, and that by the processor's time."""
    used, begun = time.process_time(), time.perf_counter()
    result = work()
    used, took = time.process_time() - used, time.perf_counter() - begun
    return result, result * took / used


def rate(work):
    work()
    count, begun = 0, time.perf_counter()
    while (took := time.perf_counter() - begun) < SECONDS:
        for _ in range(20):
            work()
        count += 20
    return count / took


def tasks(make, count):
    """Rate of so many tasks, each with the lock that make(number) is."""
    async def one(number):
        for _ in range(10):
            async with make(number):
                pass

    async def main():
        done, begun = 0, time.perf_counter()
        while (took := time.perf_counter() - begun) < SECONDS:
            await asyncio.gather(*(one(number) for number in range(count)))
            done += 10 * count
        return done / took
    return asyncio.run(main())


def compare(ours, our_rate, theirs, their_rate):
    """The medians of rounds that take turns, and of their ratios."""
    pairs = [(measured(our_rate), measured(their_rate)) for _ in range(ROUNDS)]
    ratio = statistics.median(a[0] / b[0] for a, b in pairs)
    if ours.startswith("holdfast"):
        ratios.append((ratio, ours))
    print(f"{ours:30} {statistics.median(a[0] for a, _ in pairs):9,.0f} /s   "
          f"{theirs:24} {statistics.median(b[0] for _, b in pairs):9,.0f} /s   "
          f"{ratio:6.1f} times by the clock, "
          f"{statistics.median(a[1] / b[1] for a, b in pairs):6.1f} by the processor", flush=True)


def on_files():
    import filelock
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        with holdfast.Client(f"local://{directory}") as client:
            path = f"{directory}/lock"
            compare("holdfast, new object", lambda: rate(lambda: use(client.lock("bench"))),
                    "filelock, new object", lambda: rate(lambda: use(filelock.FileLock(path))))
            lock, other = client.lock("bench"), filelock.FileLock(path)
            compare("holdfast, one object", lambda: rate(lambda: use(lock)),
                    "filelock, one object", lambda: rate(lambda: use(other)))
            for count in (1, TASKS):
                compare(f"holdfast, {count} tasks",
                        lambda: tasks(lambda number: client.alock(f"bench/{number}"), count),
                        f"AsyncFileLock, {count} tasks",
                        lambda: tasks(lambda number: filelock.AsyncFileLock(f"{path}{number}"),
                                      count))


def ping_twice(server):
    for _ in range(2):
        server.sendall(b"PING\r\n")
        server.recv(16)


def ping_tasks(server):
    """Rate of one task that awaits two replies, each told by the event loop."""
    async def main():
        loop, done, begun = asyncio.get_running_loop(), 0, time.perf_counter()
        replies = []
        loop.add_reader(server, lambda: replies.pop().set_result(server.recv(16)))
        while (took := time.perf_counter() - begun) < SECONDS:
            for _ in range(20):
                replies.append(loop.create_future())
                server.sendall(b"PING\r\n")
                await replies[0]
            done += 10
        loop.remove_reader(server)
        return done / took
    return asyncio.run(main())


def on_redis(port):
    import redis
    import redis.asyncio
    server = redis.Redis(port=port)

    async def their_tasks(count):
        server = redis.asyncio.Redis(port=port)

        async def one(number):
            for _ in range(10):
                async with server.lock(f"theirs/{number}", timeout=30):
                    pass
        done, begun = 0, time.perf_counter()
        while (took := time.perf_counter() - begun) < SECONDS:
            await asyncio.gather(*(one(number) for number in range(count)))
            done += 10 * count
        await server.aclose()
        return done / took

    with holdfast.Client(f"redis://127.0.0.1:{port}") as client:
        compare("holdfast on Redis, new object", lambda: rate(lambda: use(client.lock("bench"))),
                "redis-py, new object",
                lambda: rate(lambda: use(server.lock("theirs", timeout=30))))
        lock, other = client.lock("bench"), server.lock("theirs", timeout=30)
        compare("holdfast on Redis, one object", lambda: rate(lambda: use(lock)),
                "redis-py, one object", lambda: rate(lambda: use(other)))
        for count in (1, TASKS):
            compare(f"holdfast on Redis, {count} tasks",
                    lambda: tasks(lambda number: client.alock(f"bench/{number}"), count),
                    f"redis.asyncio, {count} tasks", lambda: asyncio.run(their_tasks(count)))
    with socket.create_connection(("127.0.0.1", port)) as bare:
        compare("two PINGs by a socket", lambda: rate(lambda: ping_twice(bare)),
                "redis-py, one object", lambda: rate(lambda: use(other)))
        compare("two PINGs, 1 task", lambda: ping_tasks(bare),
                "redis.asyncio, 1 task", lambda: asyncio.run(their_tasks(1)))


def main():
    on_files()
    if len(sys.argv) > 1:
        on_redis(int(sys.argv[1]))
    smallest, what = min(ratios)
    print(f"the smallest ratio is {smallest:.1f} ({what}), wanted {WANTED:.1f}")
    sys.exit(smallest < WANTED)


main()
