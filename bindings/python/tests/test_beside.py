# SPDX-License-Identifier: Apache-2.0
"""Beside other packages: redis-py takes the same locks, and filelock is a witness of exclusion."""

import asyncio
import pathlib
import threading
import time
import unittest

import holdfast
from stores import PATIENCE, OnRedis, OnStore

COUNTS = """if True:
    import filelock, holdfast, pathlib, sys
    url, directory = sys.argv[1:]
    number = pathlib.Path(directory, "number")
    witness = filelock.FileLock(f"{directory}/witness", timeout=0)
    with holdfast.Client(url) as client:
        for _ in range(25):
            with client.lock("name"), witness:  # Timeout if two processes are inside
                number.write_text(str(int(number.read_text()) + 1))
"""


class BesideRedisPy(OnRedis):
    def test_twenty_tasks_and_threads_of_redis_py_never_overlap(self):
        try:
            import redis
        except ImportError:
            self.skipTest("redis-py is not installed")
        inside, most, total = 0, 0, 0
        client = holdfast.Client(f"{self.server.url}?format=simple")
        self.addCleanup(client.close)

        def enter():
            nonlocal inside, most
            inside += 1
            most = max(most, inside)

        def leave():
            nonlocal inside, total
            total += 1
            inside -= 1

        def theirs():
            server = redis.Redis(port=self.server.port)
            for _ in range(5):
                with server.lock("name", timeout=10 * PATIENCE, sleep=0.01):
                    enter()
                    time.sleep(0.001)
                    leave()

        async def ours():
            for _ in range(2):
                async with client.alock("name"):
                    enter()
                    await asyncio.sleep(0.001)
                    leave()

        async def main():
            await asyncio.gather(*(ours() for _ in range(20)))
        threads = [threading.Thread(target=theirs) for _ in range(4)]
        for thread in threads:
            thread.start()
        asyncio.run(asyncio.wait_for(main(), 5 * PATIENCE))
        for thread in threads:
            thread.join()
        self.assertEqual((most, total), (1, 60))


class BesideFilelock(OnStore):
    def test_processes_with_a_lock_find_the_file_free(self):
        try:
            import filelock  # noqa: F401
        except ImportError:
            self.skipTest("filelock is not installed")
        number = pathlib.Path(self.directory, "number")
        number.write_text("0")
        children = [self.child(COUNTS, self.directory) for _ in range(4)]
        for child in children:
            self.assertEqual(child.communicate(timeout=5 * PATIENCE), ("", ""))
        self.assertEqual(number.read_text(), "100")


if __name__ == "__main__":
    unittest.main()
