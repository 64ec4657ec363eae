# SPDX-License-Identifier: Apache-2.0
"""The end of a hold: while another thread changes it, after a loss, by Ctrl-C, of a whole set."""

import asyncio
import random
import signal
import sys
import threading
import time
import unittest

import holdfast
from holdfast import Mode
from stores import PATIENCE, OnRedis, OnStore

INTERRUPTS, THREADS = 200, 8


class Changing(OnStore):
    """Another thread renews or upgrades the hold that is released."""

    def setUp(self):
        super().setUp()
        self.other = holdfast.Client(self.url)
        self.addCleanup(self.other.close)

    def test_release_while_another_thread_renews_frees_the_lock(self):
        def renew(hold):
            try:
                while True:
                    hold.renew(60)
            except RuntimeError:  # it was released
                pass
        holds, threads = [], []
        for _ in range(20):
            with self.client.lock("name", wait=PATIENCE, lease=60) as hold:
                holds.append(hold)  # the exit releases it, not the garbage collector
                threads.append(threading.Thread(target=renew, args=(hold,)))
                threads[-1].start()
                time.sleep(0.001)
        for thread in threads:
            thread.join(PATIENCE)
        self.other.try_lock("name").release()

    def test_release_ends_an_upgrade_of_another_thread(self):
        raised = []

        def upgrade(hold):
            try:
                hold.upgrade()
            except holdfast.Error as error:
                raised.append(type(error))
        reader = self.other.try_lock("name", mode=Mode.READ)
        hold = self.client.try_lock("name", mode=Mode.UPGRADE)
        thread = threading.Thread(target=upgrade, args=(hold,))
        thread.start()
        time.sleep(0.3)
        hold.release()
        thread.join(PATIENCE)
        self.assertEqual(raised, [holdfast.Canceled])
        with self.other.lock("name", mode=Mode.UPGRADE, wait=PATIENCE):
            pass
        reader.release()

    def test_task_canceled_while_its_thread_upgrades_leaves_no_lock(self):
        async def work():
            async with self.client.alock("name", mode=Mode.UPGRADE) as hold:
                await asyncio.to_thread(hold.upgrade)

        async def main():
            task = asyncio.create_task(work())
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError) as caught:
                await task
            async with self.other.alock("name", mode=Mode.UPGRADE, wait=PATIENCE):
                pass
            self.assertIsNotNone(caught.exception)  # its traceback keeps the hold until here
        reader = self.other.try_lock("name", mode=Mode.READ)
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))
        reader.release()

    def test_forgotten_release_of_a_task_waits_for_no_thread(self):
        async def main():
            lock = self.client.alock("name", mode=Mode.UPGRADE)
            await lock.acquire()
            hold = lock._holds[asyncio.current_task()][0]
            thread = asyncio.create_task(asyncio.to_thread(hold.upgrade))
            await asyncio.sleep(0.3)
            lock.release()
            with self.assertRaises(holdfast.Canceled):
                await thread
            async with self.other.alock("name", mode=Mode.UPGRADE, wait=PATIENCE):
                pass
        reader = self.other.try_lock("name", mode=Mode.READ)
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))
        reader.release()


class After(OnStore):
    """A loss, or a release by hand, before."""

    def setUp(self):
        super().setUp()
        self.other = holdfast.Client(self.url)
        self.addCleanup(self.other.close)

    def test_release_for_the_old_owner_leaves_the_next_one_its_lock(self):
        lock, held = self.client.lock("name"), []
        old = threading.Thread(target=lock.acquire)
        old.start()
        old.join()
        self.other.break_("name")

        def be_next():
            with lock as hold:
                self.assertRaises(holdfast.Lost, threading_release, lock)
                held.append(hold.held)
        new = threading.Thread(target=be_next)
        new.start()
        new.join(PATIENCE)
        self.assertEqual(held, [True])

    def test_release_for_the_old_task_leaves_the_next_one_its_lock(self):
        async def main():
            lock = self.client.alock("name")
            await asyncio.create_task(lock.acquire())
            self.other.break_("name")
            async with lock as hold:
                with self.assertRaises(holdfast.Lost):
                    await asyncio.create_task(lock.arelease())
                self.assertTrue(hold.held)
        asyncio.run(asyncio.wait_for(main(), PATIENCE))

    def test_set_with_a_lock_released_by_hand_releases_the_others(self):
        with self.assertRaises(RuntimeError):
            with self.client.lock_all(["a", "b", "c"]) as holds:
                holds["b"].release()
        for name in "abc":
            self.other.try_lock(name).release()

        async def main():
            with self.assertRaises(RuntimeError):
                async with self.client.alock_all(["a", "b", "c"]) as holds:
                    await holds["b"].arelease()
        asyncio.run(main())
        for name in "abc":
            self.other.try_lock(name).release()

    def test_threads_release_what_another_one_has_acquired_each_once(self):
        lock, raised = self.client.lock("name", mode=Mode.READ), []
        start = threading.Barrier(THREADS)

        def release():
            start.wait()
            try:
                lock.release()
            except Exception as error:
                raised.append(error)
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)
        for _ in range(50):
            for _ in range(THREADS):
                lock.acquire()
            threads = [threading.Thread(target=release) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual((raised, lock.locked()), ([], False))


def threading_release(lock):
    """Releases it in a thread that has not acquired it. Raises what that has raised."""
    raised = []

    def release():
        try:
            lock.release()
        except Exception as error:
            raised.append(error)
    thread = threading.Thread(target=release)
    thread.start()
    thread.join(PATIENCE)
    for error in raised:
        raise error


# Python 3.9 runs handlers between a body and its __exit__, too: a threading.Lock stays locked then.
@unittest.skipIf(sys.version_info < (3, 10), "in Python 3.9 a handler may prevent __exit__")
class Interrupted(OnStore):
    """Handlers that raise, at any instruction."""

    def storm(self, lock):
        def interrupt(*_):
            if armed:
                raise KeyboardInterrupt
        armed, raised = False, 0
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        for number in range(INTERRUPTS):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, self.longest))
                for _ in range(1000):
                    with lock:
                        pass
                armed = False
            except KeyboardInterrupt:
                armed = False
                raised += 1
            self.assertEqual((lock._holds, number), ([], number))
        self.assertGreater(raised, INTERRUPTS / 2)

    longest = 0.0005

    def test_interrupt_around_a_with_leaves_no_lock_in_the_object(self):
        self.storm(self.client.lock("name", wait=PATIENCE))

    def test_interrupt_around_a_with_leaves_no_set_in_the_object(self):
        self.storm(self.client.lock_all(["a", "b"], wait=PATIENCE))


class InterruptedOnRedis(OnRedis, Interrupted):
    longest = 0.005


class AfterOnRedis(OnRedis, After):
    pass


class ChangingOnRedis(OnRedis, Changing):
    pass


if __name__ == "__main__":
    unittest.main()
