# SPDX-License-Identifier: Apache-2.0
"""Locks of threads and processes: exclusion, Ctrl-C, fork, loss, the interpreter's end."""

import asyncio
import os
import pickle
import signal
import sys
import threading
import time
import unittest
import warnings

import holdfast
from holdfast import Mode
from stores import PATIENCE, SOON, OnRedis, OnStore

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    interpreters = None
HOLDS = """if True:
    import holdfast, sys
    client = holdfast.Client(sys.argv[1], lease=60)
    lock = client.lock("name")
    lock.acquire()
    print("held", flush=True)
    sys.stdin.readline()
"""
CHILD_HOLDS = """if True:
    import holdfast, multiprocessing, sys
    inherited = holdfast.Client(sys.argv[1], lease=60)
    method = multiprocessing.get_context(sys.argv[2])
    if sys.argv[2] == "fork":
        child = method.Process(target=inherited.lock("name").acquire)
    else:
        child = method.Process(target=exec, args=(
            f"import holdfast; c = holdfast.Client({sys.argv[1]!r}, lease=60)\\n"
            "c.lock('name').acquire(); holdfast.kept = c",))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
WAITS = """if True:
    import holdfast, sys
    client = holdfast.Client(sys.argv[1])
    print("waits", flush=True)
    try:
        with client.lock("name", mode=holdfast.Mode[sys.argv[2]]):
            print("granted", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


class Threads(OnStore):
    def test_threads_on_one_name_never_overlap(self):
        inside, most, total = 0, 0, 0

        def work():
            nonlocal inside, most, total
            for _ in range(10):
                with self.client.lock("name"):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.0005)
                    total += 1
                    inside -= 1
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((most, total), (1, 80))

    def test_second_lock_of_a_thread_does_not_reenter(self):
        with self.client.lock("name"):
            with self.assertRaises(holdfast.Busy) as caught:
                with self.client.lock("name", wait=0):
                    pass
        self.assertEqual(caught.exception.code_name, "HF_BUSY")
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_hold_says_token_and_held_until_it_is_released(self):
        with self.client.lock("name") as first:
            self.assertTrue(first.held)
            self.assertEqual((first.name, first.mode), ("name", Mode.MUTEX))
            token = first.token
        self.assertFalse(first.held)
        with self.client.lock("name") as second:
            self.assertGreater(second.token, token)
        with self.assertRaises(RuntimeError):
            first.release()

    def test_lock_object_behaves_as_that_of_threading(self):
        lock = self.client.lock("name")
        self.assertFalse(lock.locked())
        self.assertTrue(lock.acquire())
        self.assertFalse(lock.acquire(blocking=False))
        self.assertFalse(lock.acquire(timeout=0.2))
        self.assertTrue(lock.locked())
        lock.release()
        self.assertRaises(RuntimeError, lock.release)

    def test_lock_whose_object_is_dropped_is_released_with_a_warning(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.client.lock("name").acquire()
        self.assertEqual([warning.category for warning in told], [ResourceWarning])
        self.assertIn('"name"', str(told[0].message))
        with warnings.catch_warnings(), self.client.lock("name", wait=PATIENCE):
            warnings.simplefilter("error")

    def test_condition_of_threading_takes_the_lock(self):
        condition, seen = threading.Condition(self.client.lock("name")), []

        def wait():
            with condition:
                seen.append("waits")
                condition.wait_for(lambda: "told" in seen, PATIENCE)
                seen.append("woken")
        thread = threading.Thread(target=wait)
        thread.start()
        while not seen:
            time.sleep(0.001)
        with condition:
            seen.append("told")
            condition.notify()
        thread.join()
        self.assertEqual(seen, ["waits", "told", "woken"])

    def test_readers_share_and_writer_excludes(self):
        with self.client.lock("rw", mode=Mode.READ), self.client.lock("rw", mode=Mode.READ):
            self.assertIsNone(self.client.try_lock("rw", mode=Mode.WRITE))
        with self.client.lock("rw", mode=Mode.WRITE) as hold:
            self.assertIsNone(self.client.try_lock("rw", mode=Mode.READ))
            hold.downgrade(Mode.READ)
            self.assertEqual(hold.mode, Mode.READ)
            reader = self.client.try_lock("rw", mode=Mode.READ)
            self.assertIsNotNone(reader)
            reader.release()

    def test_fair_lock_waits_for_its_turn(self):
        with self.client.lock("fair", mode=Mode.FAIR):
            self.assertIsNone(self.client.try_lock("fair", mode=Mode.FAIR))
            waiter = self.client.lock("fair", mode=Mode.FAIR)
            thread = threading.Thread(target=waiter.acquire)
            thread.start()
        thread.join()
        self.assertTrue(waiter.locked())
        self.assertIsNone(self.client.try_lock("fair", mode=Mode.FAIR))
        waiter.release()

    def test_semaphore_gives_out_its_permits(self):
        semaphore = self.client.semaphore("pool")
        semaphore.set(2)
        with semaphore.permit(), semaphore.permit():
            with self.assertRaises(holdfast.Busy):
                with semaphore.permit(wait=0):
                    pass
        with semaphore.permit(2, wait=PATIENCE):
            pass
        semaphore.set(0)

    def test_counter_and_latch_count(self):
        counter = self.client.counter("stock")
        counter.add(3)
        counter.take(2)
        self.assertEqual(counter.get(), 1)
        self.assertRaises(holdfast.Busy, counter.take, 2, wait=0.2)
        counter.remove()
        latch = self.client.latch("start")
        latch.set(2)
        self.assertEqual(latch.down(), 1)
        self.assertRaises(holdfast.Busy, latch.wait, 0.2)
        self.assertEqual(latch.down(), 0)
        latch.wait(PATIENCE)

    def test_lock_all_takes_all_or_none(self):
        with self.client.lock_all(["b", "a", "b"], wait=5) as holds:
            self.assertTrue(holds.held)
            self.assertEqual((len(holds), holds["a"].name), (2, "a"))
            self.assertIsNone(self.client.try_lock("a"))
        with self.client.lock("b"):
            with self.assertRaises(holdfast.Busy):
                with self.client.lock_all(["a", "b"], wait=0.2):
                    pass
        with self.client.lock_all(["a", "b"], wait=PATIENCE):
            pass

    def test_inspect_shows_the_holder(self):
        with self.client.lock("name") as hold:
            holders = [entry for entry in self.client.inspect("name")
                       if entry.role == holdfast.Role.HOLDER]
        self.assertEqual([(entry.name, entry.token) for entry in holders],
                         [("name", holders[0].token)])
        self.assertEqual(hold.name, "name")

    def test_stats_count_how_requests_have_ended(self):
        before = self.client.stats()
        with self.client.lock("name"):
            self.assertIsNone(self.client.try_lock("name"))
            with self.assertRaises(holdfast.Busy):
                self.client.lock("name", wait=0.05).__enter__()
            self.assertEqual(self.client.stats()["held"], before["held"] + 1)
        now = self.client.stats()
        self.assertEqual({key: now[key] - before[key] for key in ("granted", "busy", "timed_out")},
                         {"granted": 1, "busy": 1, "timed_out": 1})
        self.assertEqual(set(now), set(holdfast.Stats.__annotations__))
        self.assertEqual(sum(now["waits"]), now["granted"])
        self.assertEqual((now["held"], now["waiting"]), (before["held"], 0))

    def test_detached_lock_is_attached(self):
        hold = self.client.try_lock("name", lease=60)
        key = hold.detach()
        self.assertIsNone(self.client.try_lock("name"))
        again = self.client.attach("name", key)
        self.assertTrue(again.held)
        again.release()

    def test_loss_of_an_attached_lock_is_told(self):
        key = self.client.try_lock("name", lease=60).detach()
        hold = self.client.attach("name", key)
        self.assertFalse(hold.lost.is_set())
        hold.renew(60)
        hold.release()
        key = self.client.try_lock("name", lease=1).detach()
        hold = self.client.attach("name", key)
        self.assertTrue(hold.lost.wait(PATIENCE))
        self.assertTrue(hold.lost.is_set())
        self.assertRaises(holdfast.Lost, hold.release)

    def test_wrong_arguments_are_refused(self):
        self.assertRaises(holdfast.Invalid, holdfast.Client, "nothing://")
        self.assertRaises(holdfast.Invalid, self.client.lock("").acquire)
        self.assertRaises(ValueError, self.client.lock("a\0b").acquire)
        self.assertRaises(ValueError, self.client.lock, "a", wait=-1)
        self.assertRaises(ValueError, self.client.lock, "a", permits=2**32)
        self.assertRaises(ValueError, self.client.lock, "a", mode=Mode.COUNTER)
        self.assertRaises(ValueError, holdfast.Client, self.url, token_floor=2**64 + 5)
        for name in (None, 5, bytearray(b"a"), memoryview(b"a")):
            self.assertRaises(TypeError, self.client.lock, name)

    def test_name_with_a_nul_is_no_shorter_name(self):
        async def ask():
            for work in (self.client.counter("a\0b").aadd, self.client.counter("a\0b").aget):
                with self.assertRaises(ValueError):
                    await work()
            with self.assertRaises(ValueError):
                await self.client.ainspect("a\0b")
        asyncio.run(ask())
        self.assertRaises(ValueError, self.client.inspect, "a\0b")
        self.assertEqual(self.client.counter("a").get(), 0)

    @unittest.skipIf(interpreters is None, "this Python has no module for other interpreters")
    def test_second_interpreter_is_refused_and_changes_no_exception(self):
        other = interpreters.create()
        try:
            with self.assertRaises(interpreters.RunFailedError) as caught:
                interpreters.run_string(other, f"import sys; sys.path[:] = {sys.path}\n"
                                               "import holdfast")
            self.assertIn("ImportError", str(caught.exception))
        finally:
            interpreters.destroy(other)
        with self.client.lock("name"), self.assertRaises(holdfast.Busy):
            with self.client.lock("name", wait=0):
                pass

    def test_error_survives_pickle(self):
        error = pickle.loads(pickle.dumps(holdfast.errors.make(1, "busy", 7)))
        self.assertEqual((type(error), error.code, str(error), error.native),
                         (holdfast.Busy, 1, "busy", 7))


class Losing(OnStore):
    def break_it(self, hold):
        with holdfast.Client(self.url) as other:
            self.assertEqual(other.break_("name"), 1)
        self.assertTrue(hold.lost.wait(PATIENCE))
        self.assertFalse(hold.held)

    def test_broken_lock_is_told_and_its_exit_raises(self):
        with self.assertRaises(holdfast.Lost):
            with self.client.lock("name") as hold:
                self.assertFalse(hold.lost.is_set())
                self.break_it(hold)

    def test_loss_masks_no_exception_of_the_body(self):
        with self.assertRaises(KeyError) as caught:
            with self.client.lock("name") as hold:
                self.break_it(hold)
                raise KeyError("mine")
        if hasattr(caught.exception, "__notes__"):
            self.assertIn("holdfast", caught.exception.__notes__[0])


class Ending(OnStore):
    def interrupt(self, mode):
        with self.client.lock("name", mode=Mode[mode]):
            child = self.child(WAITS, mode)
            self.assertEqual(child.stdout.readline(), "waits\n")
            time.sleep(0.3)  # most children wait by then; one that does not ends as well
            begun = time.monotonic()
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), "interrupted\n", child.poll())
            took = time.monotonic() - begun
        self.assertEqual(child.wait(PATIENCE), 0)
        # What waits for the lock alone would wait for ever.
        self.assertLess(took, PATIENCE / 2)
        with self.client.lock("name", wait=PATIENCE, mode=Mode[mode]):
            pass

    def test_interrupt_ends_a_wait_for_a_mutex(self):
        self.interrupt("MUTEX")

    def test_interrupt_ends_a_wait_for_a_fair_lock(self):
        self.interrupt("FAIR")

    def test_end_of_the_interpreter_releases_what_is_held(self):
        child = self.child(HOLDS)
        self.assertEqual(child.stdout.readline(), "held\n")
        self.assertIsNone(self.client.try_lock("name"))
        output = child.communicate("\n", PATIENCE)
        self.assertEqual((child.returncode, output), (0, ("", "")))
        # The lease of 60 seconds has not ended.
        with self.client.lock("name", wait=10):
            pass

    def test_end_of_a_child_of_multiprocessing_releases_what_is_held(self):
        for method in ("fork", "forkserver", "spawn"):
            child = self.child(CHILD_HOLDS, method)
            self.assertEqual(child.communicate(timeout=PATIENCE), ("", ""))
            self.assertEqual(child.returncode, 0)
            with self.client.lock("name", wait=10):
                pass  # the lease of 60 seconds has not ended

    def test_thread_that_waits_does_not_hold_up_the_end_of_the_interpreter(self):
        child = self.child(HOLDS.replace("sys.stdin.readline()", """import threading, time
    threading.Thread(target=client.lock("name").acquire, daemon=True).start()
    time.sleep(0.3)"""))
        self.assertEqual(child.communicate(timeout=PATIENCE)[0], "held\n")
        self.assertEqual(child.returncode, 0)

    def test_close_ends_a_wait_of_another_thread(self):
        other, raised = holdfast.Client(self.url), []

        def wait():
            try:
                other.lock("name").acquire()
            except holdfast.Error as error:
                raised.append(type(error))
        with self.client.lock("name"):
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            other.close()
            thread.join(PATIENCE)
        self.assertEqual(raised, [holdfast.Closed])
        self.assertRaises(holdfast.Closed, other.lock("name").acquire)

    def test_child_of_a_fork_opens_anew_and_has_no_lock_of_its_parent(self):
        with self.client.lock("name") as hold:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    free = self.client.try_lock("other")
                    answers = [not hold.held, self.client.try_lock("name") is None, free.held]
                    free.release()
                    try:
                        hold.release()
                    except holdfast.Forked:
                        answers.append(True)
                    status = 0 if answers == [True] * 4 else 2
                    self.client.close()
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(hold.held)


class ThreadsOnRedis(OnRedis, Threads):
    pass


class LosingOnRedis(OnRedis, Losing):
    lease = SOON


class EndingOnRedis(OnRedis, Ending):
    pass


class Stopped(OnRedis):
    def test_server_that_is_gone_is_unreachable(self):
        self.server.stop()
        with self.assertRaises(holdfast.Unreachable) as caught:
            with self.client.lock("name", wait=2):
                pass
        self.assertIsInstance(caught.exception, ConnectionError)


class StoppedWhileHeld(OnRedis):
    lease = SOON

    def test_holder_learns_that_its_lease_has_ended(self):
        with self.assertRaises(holdfast.Lost):
            with self.client.lock("name") as hold:
                self.server.stop()
                self.assertTrue(hold.lost.wait(PATIENCE))
                self.assertFalse(hold.held)


if __name__ == "__main__":
    unittest.main()
