#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program that the README shows in Python shares its locks with Redisson.

usage: test_python.py VERSION POM DIRECTORY PACKAGE

Keeps in DIRECTORY what it was told by Maven."""

import asyncio
import os
import pathlib
import sys
import threading

from maven import java_command
from sides import (FOR_EVER, LEASE_MS, LONG_LEASE_MS, PATIENCE, Server, Side, Skip, equal, need,
                   run, scratch, skip_all, wait_until)

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION, POM, KEPT, PACKAGE = sys.argv[1:]
sys.path.insert(0, PACKAGE)
TASKS, TIMES = 20, 5


def program_of_the_readme(url, **functions):
    """Its two functions, for threads and for tasks, and its client."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    program = page.split("```python\nimport holdfast\n")[1].split("```")[0]
    equal(program.count("redis://127.0.0.1:6379"), 1, "how often the URL is in the README")
    import holdfast
    names = {"holdfast": holdfast, **functions}
    exec(program.replace("redis://127.0.0.1:6379", url), names)
    return names


class Stage:
    def __init__(self, server, redisson, path):
        self.server, self.redisson, self.path = server, redisson, path
        names = program_of_the_readme(server.url, write_order=self.write, send_order=self.send)
        self.client, self.holdfast = names["client"], names["holdfast"]
        self.change_order, self.handle = names["change_order"], names["handle"]

    def write(self, number, token):
        """Nothing but the lock protects what is in the file."""
        del number, token
        self.path.write_text(str(int(self.path.read_text()) + 1))

    async def send(self, number, token):
        before = int(self.path.read_text())
        await asyncio.sleep(0.001)
        self.path.write_text(str(before + 1))

    def wait_for_a_listener(self, name):
        channel = f"redisson_lock__channel:{{{name}}}"
        wait_until(lambda: self.server.listeners(channel) > 0, f"a waiter listens for {name}")


def play_tasks(*tasks):
    async def main():
        await asyncio.wait_for(asyncio.gather(*(task() for task in tasks)), 5 * PATIENCE)
    asyncio.run(main())


def handler_is_refused_what_java_holds(stage):
    java = stage.redisson
    java.want("ok", "a", "lock", "mutex", "orders/1", 0, LONG_LEASE_MS)

    async def main():
        try:
            async with stage.client.alock("orders/1", wait=0.1):
                return "in"
        except stage.holdfast.Busy:
            return 409
    equal(asyncio.run(main()), 409, "what the handler answers")
    java.want("ok", "a", "unlock", "mutex", "orders/1")
    stage.path.write_text("0")
    play_tasks(lambda: stage.handle(1))
    equal(stage.path.read_text(), "1", "what the handler wrote once the lock was free")


def java_is_refused_what_python_holds(stage):
    java = stage.redisson
    with stage.client.lock("orders/2", wait=PATIENCE):
        java.want("busy", "a", "lock", "mutex", "orders/2", 0, 0)
        java.tell("a", "lock", "mutex", "orders/2", FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener("orders/2")
    equal(java.answer("a"), "ok", "Redisson's waiter after Python's release")
    java.want("ok", "a", "unlock", "mutex", "orders/2")


def task_waits_for_the_release_of_java(stage):
    java = stage.redisson
    java.want("ok", "a", "lock", "mutex", "orders/3", 0, LONG_LEASE_MS)

    async def release():
        await asyncio.to_thread(stage.wait_for_a_listener, "orders/3")
        await asyncio.to_thread(java.want, "ok", "a", "unlock", "mutex", "orders/3")

    async def wait():
        async with stage.client.alock("orders/3", wait=PATIENCE):
            pass
    play_tasks(wait, release)


def read_write_lock_is_shared(stage):
    java, mode = stage.redisson, stage.holdfast.Mode
    java.want("ok", "a", "lock", "read", "orders/4", 0, LONG_LEASE_MS)
    with stage.client.lock("orders/4", wait=PATIENCE, mode=mode.READ):
        java.want("busy", "b", "lock", "write", "orders/4", 0, 0)
    equal(stage.client.try_lock("orders/4", mode=mode.WRITE), None, "a writer beside the reader")
    java.want("ok", "a", "unlock", "read", "orders/4")
    with stage.client.lock("orders/4", wait=PATIENCE, mode=mode.WRITE):
        java.want("busy", "b", "lock", "read", "orders/4", 0, 0)


def tasks_threads_and_java_never_overlap(stage):
    """The README waits five seconds; here each caller waits for many others."""
    java = stage.redisson
    stage.path.write_text("0")

    async def count():
        for _ in range(TIMES):
            async with stage.client.alock("orders/5", wait=5 * PATIENCE) as hold:
                await stage.send(5, hold.token)

    def count_in_a_thread():
        for _ in range(TIMES):
            with stage.client.lock("orders/5", wait=5 * PATIENCE) as hold:
                stage.write(5, hold.token)
    for thread in "abc":
        java.tell(thread, "count", "mutex", "orders/5", stage.path, TIMES)
    threads = [threading.Thread(target=count_in_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    play_tasks(*[count] * TASKS)
    for thread in threads:
        thread.join()
    for thread in "abc":
        equal(java.answer(thread), "ok", f"Redisson, {thread}")
    equal(stage.path.read_text(), str(TIMES * (TASKS + 6)), "the number")


TESTS = (handler_is_refused_what_java_holds, java_is_refused_what_python_holds,
         task_waits_for_the_release_of_java, read_write_lock_is_shared,
         tasks_threads_and_java_never_overlap)


def main():
    try:
        need("redis-server")
        os.makedirs(KEPT, exist_ok=True)
        java = java_command("Redisson", VERSION, POM, KEPT)
    except Skip as reason:
        skip_all(reason)
    with scratch() as directory:
        server = Server(directory)
        try:
            with Side(f"Redisson {VERSION}", [*java, server.url, str(LEASE_MS)]) as redisson:
                stage = Stage(server, redisson, pathlib.Path(directory, "number"))
                status = run([(test.__name__, test) for test in TESTS], lambda test: test(stage))
                stage.client.close()
                return status
        finally:
            server.stop()


sys.exit(main())
