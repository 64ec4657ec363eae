# SPDX-License-Identifier: Apache-2.0
"""Locks of asyncio's tasks: exclusion, cancellation, loss, close."""

import asyncio
import contextlib
import gc
import signal
import threading
import time
import unittest

import holdfast
from stores import PATIENCE, ROOT, SOON, OnRedis, OnStore

RACES = 100
STRAIN = 2.0  # seconds
WAITS = """if True:
    import asyncio, holdfast, sys
    async def main():
        lock = holdfast.Client(sys.argv[1]).alock("name")
        task = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        print("waits", flush=True)
        await task
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


class Tasks(OnStore):
    def run_async(self, work):
        asyncio.run(asyncio.wait_for(work, 2 * PATIENCE))

    def test_twenty_tasks_on_one_name_never_overlap(self):
        inside, most, total = 0, 0, 0

        async def work():
            nonlocal inside, most, total
            for _ in range(5):
                async with self.client.alock("name") as hold:
                    assert hold.held and hold.token
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    total += 1
                    inside -= 1

        async def main():
            await asyncio.gather(*(work() for _ in range(20)))
        self.run_async(main())
        self.assertEqual((most, total), (1, 100))

    def test_task_that_no_variable_names_waits_and_gets_the_lock(self):
        """The event loop's own reference to a task is a weak one."""
        got, waiting = [], []

        async def work():
            waiting.append(True)
            async with self.client.alock("name"):
                got.append(True)

        async def main():
            async with self.client.alock("name"):
                for _ in range(10):
                    asyncio.get_running_loop().create_task(work())
                while len(waiting) < 10:
                    await asyncio.sleep(0)
                gc.collect()
            while len(got) < 10:
                await asyncio.sleep(0.01)
        self.run_async(main())

    def test_task_that_no_variable_names_waits_for_a_loss(self):
        told = []

        async def work():
            with contextlib.suppress(holdfast.Lost):
                async with self.client.alock("name") as hold:
                    told.append(False)
                    await hold.lost.wait()
                    told.append(True)

        async def main():
            asyncio.get_running_loop().create_task(work())
            while not told:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            gc.collect()
            await asyncio.to_thread(self.client.break_, "name")
            while told != [False, True]:
                await asyncio.sleep(0.01)
        self.run_async(main())

    def test_loops_threads_and_canceled_tasks_never_overlap_on_one_name(self):
        """Each way of asking at one moment; loops end with requests under way."""
        end, inside, seen = time.monotonic() + STRAIN, 0, []

        @contextlib.contextmanager
        def use(k):
            nonlocal inside
            inside += 1
            seen.append((inside, k))
            yield
            inside -= 1

        async def work(k):
            while time.monotonic() < end:
                async with self.client.alock("name"):
                    with use(k):
                        time.sleep(0)

        async def cancel_some(k):
            asyncio.get_running_loop().create_task(work(k))  # the loop's end cancels it
            for number in range(20):
                task = asyncio.create_task(work(k))
                await asyncio.sleep(0.0005 * (number % 5))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        def run_loops():
            while time.monotonic() < end:
                asyncio.run(cancel_some("loop"))

        def block():
            while time.monotonic() < end:
                with self.client.lock("name"), use("thread"):
                    time.sleep(0)
        threads = [threading.Thread(target=run_loops) for _ in range(2)]
        threads += [threading.Thread(target=block),
                    threading.Thread(target=lambda: asyncio.run(work("task")))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertFalse([thread for thread in threads if thread.is_alive()])
        self.assertEqual({count for count, _ in seen}, {1})
        self.assertEqual({who for _, who in seen}, {"loop", "task", "thread"})
        with self.client.lock("name", wait=PATIENCE):
            pass

    def test_busy_is_raised_after_the_wait(self):
        async def main():
            async with self.client.alock("name"):
                with self.assertRaises(holdfast.Busy):
                    async with self.client.alock("name", wait=0.2):
                        pass
                self.assertFalse(await self.client.alock("name", wait=0).acquire())
        self.run_async(main())

    def test_canceled_task_leaves_no_lock_behind(self):
        async def main():
            for number in range(RACES):
                lock = self.client.alock("name")
                async with self.client.alock("name"):
                    task = asyncio.create_task(lock.acquire())
                    await asyncio.sleep(0.001 * (number % 3))
                    if number % 2:
                        task.cancel()
                if not number % 2:
                    task.cancel()  # the grant may be on its way
                if not isinstance((await asyncio.gather(task, return_exceptions=True))[0],
                                  asyncio.CancelledError):
                    lock.release()
                assert not lock.locked()
            async with self.client.alock("name", wait=PATIENCE):
                pass
        self.run_async(main())

    def test_broken_lock_sets_the_event_and_its_exit_raises(self):
        async def main():
            with self.assertRaises(holdfast.Lost):
                async with self.client.alock("name") as hold:
                    await asyncio.to_thread(self.client.break_, "name")
                    await asyncio.wait_for(hold.lost.wait(), PATIENCE)
                    self.assertFalse(hold.held)
        self.run_async(main())

    def test_exit_raises_a_loss_that_no_event_has_told(self):
        async def main():
            with self.assertRaises(holdfast.Lost):
                async with self.client.alock("name"):
                    await self.client.ainspect("name")
                    other = holdfast.Client(self.url)
                    self.assertEqual(other.break_("name"), 1)
                    other.close()
            with self.assertRaises(holdfast.Lost):
                async with self.client.alock_all(["a", "b"], wait=PATIENCE):
                    self.client.break_("a")
            with self.assertRaises(KeyError):  # masks no exception of the body
                async with self.client.alock("name", wait=PATIENCE):
                    self.client.break_("name")
                    raise KeyError("body")
        self.run_async(main())

    def test_task_canceled_in_a_release_leaves_no_lock_behind(self):
        async def work():
            async with self.client.alock("name"):
                pass

        async def main():
            for number in range(RACES):
                task = asyncio.create_task(work())
                for _ in range(number % 4):
                    await asyncio.sleep(0.0003)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            async with self.client.alock("name", wait=PATIENCE):
                pass
        self.run_async(main())

    def test_counter_latch_and_entries_are_asked_for_by_tasks(self):
        async def main():
            counter, latch = self.client.counter("stock"), self.client.latch("start")
            await counter.aset(5)
            await asyncio.gather(*(counter.aadd(2) for _ in range(10)))
            self.assertEqual(await counter.aget(), 25)
            await counter.aremove()
            self.assertEqual(await counter.aget(), 0)
            await latch.aset(2)
            with self.assertRaises(holdfast.Busy):
                await latch.aset(3)
            self.assertEqual(await latch.adown(), 1)
            self.assertEqual(await latch.aget(), 1)
            self.assertEqual(await latch.adown(), 0)
            async with self.client.alock("name") as hold:
                entries = await self.client.ainspect("name")
                self.assertEqual([entry.role for entry in entries],
                                 [holdfast.Role.OBJECT, holdfast.Role.HOLDER])
                self.assertEqual(entries[1].token, hold.token)
            with self.assertRaises(holdfast.Invalid):
                await self.client.ainspect("x" * 2000)
        self.run_async(main())

    def test_task_that_is_canceled_does_not_wait_for_its_reply(self):
        async def main():
            task = asyncio.create_task(self.client.counter("canceled").aadd())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        self.run_async(main())

    def test_release_that_is_canceled_leaves_no_question_behind(self):
        async def main():
            for _ in range(20):
                holds = await self.client.alock_all(["a", "b", "c"], wait=PATIENCE).acquire()
                task = asyncio.create_task(holds.arelease())
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            gc.collect()
            self.assertLess(len(self.client._notes().known), 10)
        self.run_async(main())

    def test_stats_count_what_tasks_have_done(self):
        async def main():
            before = self.client.stats()
            for _ in range(3):
                async with self.client.alock("name"):
                    self.assertEqual(self.client.stats()["held"], 1)
            now = self.client.stats()
            self.assertEqual((now["granted"] - before["granted"], now["held"]), (3, 0))
            self.assertEqual(len(now["waits"]), len(now["holds"]))
        self.run_async(main())

    def test_close_ends_the_wait_of_a_task(self):
        async def main():
            other = holdfast.Client(self.url)
            async with self.client.alock("name"):
                task = asyncio.create_task(other.alock("name").acquire())
                await asyncio.sleep(0.2)
                await asyncio.to_thread(other.close)
                with self.assertRaises(holdfast.Closed):
                    await task
        self.run_async(main())

    def test_hold_that_is_forgotten_is_given_back(self):
        async def main():
            await self.client._notes().acquire(self.client.alock("name")._request, -1)
            async with self.client.alock("name", wait=PATIENCE):
                pass
        self.run_async(main())

    def test_lock_all_takes_all_or_none(self):
        async def main():
            async with self.client.alock_all(["b", "a"], wait=5) as holds:
                self.assertTrue(holds.held and holds["a"].held)
            async with self.client.alock("b"):
                with self.assertRaises(holdfast.Busy):
                    async with self.client.alock_all(["a", "b"], wait=0.2):
                        pass
            async with self.client.alock_all(["a", "b"], wait=PATIENCE):
                pass
        self.run_async(main())

    def test_counter_and_latch_are_waited_for(self):
        async def main():
            counter, latch = self.client.counter("stock"), self.client.latch("start")
            task = asyncio.create_task(counter.atake(wait=PATIENCE))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(counter.add)
            await task
            latch.set(1)
            task = asyncio.create_task(latch.await_open(PATIENCE))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(latch.down)
            await task
        self.run_async(main())

    def test_interrupt_ends_the_wait_of_a_task(self):
        with self.client.lock("name"):
            child = self.child(WAITS)
            self.assertEqual(child.stdout.readline(), "waits\n")
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=PATIENCE)[0], "interrupted\n")
        with self.client.lock("name", wait=PATIENCE):
            pass

    def test_loop_that_is_closed_with_a_waiter_leaves_nothing(self):
        async def main():
            asyncio.get_running_loop().create_task(self.client.alock("name").acquire())
            await asyncio.sleep(0.1)
        with self.client.lock("name"):
            asyncio.run(main())
        with self.client.lock("name", wait=PATIENCE):
            pass


class TasksOnRedis(OnRedis, Tasks):
    lease = SOON


class Readme(OnRedis):
    def test_program_of_the_readme_locks_for_threads_and_tasks(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        program = text.split("```python\nimport holdfast\n")[1].split("```")[0]
        self.assertIn("redis://127.0.0.1:6379", program)
        names = {"holdfast": holdfast}
        exec(program.replace("redis://127.0.0.1:6379", self.server.url), names)
        self.addCleanup(names["client"].close)
        tokens = []

        def write_order(number, token):
            self.assertIsNone(self.client.try_lock(f"orders/{number}"))
            tokens.append(token)

        async def send_order(number, token):
            await asyncio.to_thread(write_order, number, token)
        names.update(write_order=write_order, send_order=send_order)
        names["change_order"](42)
        asyncio.run(asyncio.wait_for(names["handle"](42), PATIENCE))
        self.assertLess(tokens[0], tokens[1])
        with self.client.lock("orders/42", wait=PATIENCE):  # no reply was waited for
            pass


class Silent(OnRedis):
    def test_exit_tells_that_the_server_did_not_reply(self):
        async def main():
            client = holdfast.Client(self.url, lease=60, request_timeout=0.5)
            try:
                with self.assertRaises(holdfast.Unreachable):
                    async with client.alock("name") as hold:
                        self.server.stop()
                        self.assertTrue(hold.held)
            finally:
                await asyncio.to_thread(client.close)
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


class Stopped(OnRedis):
    def test_server_that_is_gone_ends_locks_and_waits(self):
        async def main():
            with self.assertRaises(holdfast.Lost):
                async with self.client.alock("name") as hold:
                    self.server.stop()
                    with self.assertRaises(holdfast.Unreachable):
                        async with self.client.alock("other", wait=2):
                            pass
                    await asyncio.wait_for(hold.lost.wait(), PATIENCE)
                    self.assertFalse(hold.held)
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


if __name__ == "__main__":
    unittest.main()
