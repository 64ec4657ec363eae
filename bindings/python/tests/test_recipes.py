# SPDX-License-Identifier: Apache-2.0
"""Elections, rate limiters, and circles of threads that wait for each other."""

import asyncio
import pickle
import signal
import threading
import time

import holdfast
from stores import PATIENCE, SOON, URL, OnRedis, OnStore

TAKES = """if True:
    import holdfast, sys
    rate = holdfast.Client(sys.argv[1]).rate(sys.argv[2], 1, 3600)
    try:
        print("takes", flush=True)
        rate.take()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
CLOSES = """if True:
    import holdfast, signal, sys
    client = holdfast.Client(sys.argv[1], lease=60)
    signal.signal(signal.SIGUSR1, lambda *_: client.close())
    held = client.try_lock("other")
    print("waits", flush=True)
    try:
        client.lock("name").acquire()
    except holdfast.Closed:
        print("closed", held.held, flush=True)
    sys.stdin.readline()
"""


class Elections(OnStore):
    def test_candidate_leads_once_the_leader_has_resigned(self):
        election = self.client.election("boss")
        self.assertIsNone(election.leader())
        follower = election.campaign(wait=PATIENCE)
        with election.campaign(wait=PATIENCE, text="one:80") as leadership:
            term, leader = leadership.token, election.leader()
            self.assertEqual(leader.token, term)
            if self.url.startswith("local:"):
                self.assertEqual(leader.text, "one:80")
            self.assertRaises(holdfast.Busy, election.campaign(wait=0).__enter__)
            thread = threading.Thread(target=follower.acquire)
            thread.start()
        thread.join()
        self.assertTrue(follower.locked())
        self.assertGreater(election.leader().token, term)
        follower.resign()
        self.assertIsNone(election.leader())

    def test_watch_yields_each_other_leader(self):
        election = self.client.election("boss")
        changes = election.watch(every=0.02)
        self.assertIsNone(next(changes))
        with election.campaign() as leadership:
            self.assertEqual(next(changes).token, leadership.token)
        self.assertIsNone(next(changes))

    def test_deposed_leader_is_told_and_its_exit_raises(self):
        election = self.client.election("boss")
        with self.assertRaises(holdfast.Lost):
            with election.campaign() as leadership:
                with holdfast.Client(self.url) as other:
                    self.assertEqual(other.break_("boss", election.leader().owner_key), 1)
                self.assertTrue(leadership.lost.wait(PATIENCE))

    def test_tasks_campaign_and_watch(self):
        async def main():
            election = self.client.election("boss")
            changes = election.awatch(every=0.02)
            self.assertIsNone(await changes.__anext__())
            async with election.acampaign(wait=PATIENCE) as leadership:
                self.assertEqual((await changes.__anext__()).token, leadership.token)
                self.assertFalse(await election.acampaign(wait=0).acquire())
            self.assertIsNone(await changes.__anext__())
            campaign = election.acampaign()
            self.assertTrue(await campaign.acquire())
            await campaign.resign()
            self.assertIsNone(await election.aleader())
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


class Rates(OnStore):
    def test_burst_goes_at_once_and_then_busy_says_when(self):
        rate = self.client.rate(self.id(), 2, 3600)
        rate.take()
        rate.take(wait=0)
        with self.assertRaises(holdfast.Busy) as caught:
            rate.take(wait=1)
        self.assertTrue(1 < caught.exception.retry <= 1800, caught.exception.retry)
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).retry,
                         caught.exception.retry)
        self.assertRaises(holdfast.Invalid, rate.take, 3)
        self.assertEqual(self.client.inspect(self.id())[0].kind, holdfast.Kind.RATE)

    def test_takers_wait_for_their_permits(self):
        rate = self.client.rate(self.id(), 5, 1, burst=1)
        begun = time.monotonic()
        rate.take()
        threads = [threading.Thread(target=rate.take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    def test_tasks_wait_for_their_permits(self):
        async def main():
            rate = self.client.rate(self.id(), 5, 1, burst=1)
            begun = time.monotonic()
            await asyncio.gather(*(rate.atake(wait=PATIENCE) for _ in range(7)))
            self.assertGreaterEqual(time.monotonic() - begun, 1)
            hourly = self.client.rate(self.id() + "/hourly", 1, 3600)
            await hourly.atake()
            with self.assertRaises(holdfast.Busy):
                await hourly.atake(wait=1)
        asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))

    def test_close_ends_the_wait_of_a_taker(self):
        other, raised = holdfast.Client(self.url), []
        rate = other.rate(self.id(), 1, 3600)
        rate.take()

        def take():
            try:
                rate.take()
            except holdfast.Error as error:
                raised.append(type(error))
        thread = threading.Thread(target=take)
        thread.start()
        time.sleep(0.2)  # mostly it waits by then; one that does not is told as well
        other.close()
        thread.join(PATIENCE)
        self.assertEqual(raised, [holdfast.Closed])

    def test_interrupt_ends_the_wait_of_a_taker(self):
        self.client.rate(self.id(), 1, 3600).take(wait=0)
        child = self.child(TAKES, self.id())
        self.assertEqual(child.stdout.readline(), "takes\n")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.communicate(timeout=PATIENCE)[0], "interrupted\n")


class Circles(OnStore):
    def threads_told(self, clients, deadlock):
        """What two threads are told that take two names in opposite orders."""
        barrier, told = threading.Barrier(2, timeout=PATIENCE), []

        def work(client, first, second):
            with client.lock(first, deadlock=deadlock):
                barrier.wait()
                try:
                    with client.lock(second, deadlock=deadlock):
                        pass
                except holdfast.Deadlock as error:
                    told.append(str(error))
        threads = [threading.Thread(target=work, args=(clients[0], "a", "b")),
                   threading.Thread(target=work, args=(clients[-1], "b", "a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return told

    def test_one_of_two_threads_in_a_circle_gets_deadlock(self):
        told = self.threads_told([self.client], 3600)
        self.assertEqual(len(told), 1)
        self.assertIn("waits for", told[0])

    def test_circle_over_two_clients_is_found_at_the_store(self):
        if URL:
            self.skipTest("not every store shows which thread waits")
        with holdfast.Client(self.url) as other:
            self.assertEqual(len(self.threads_told([self.client, other], 0.2)), 1)

    def test_second_lock_of_a_thread_gets_deadlock(self):
        with self.client.lock("name", deadlock=0):
            self.assertRaises(holdfast.Deadlock, self.client.lock("name", deadlock=0).acquire)
        with self.client.lock("name", deadlock=0, wait=PATIENCE):
            pass


class Handlers(OnStore):
    def test_handler_that_closes_the_client_ends_the_wait_in_it(self):
        with self.client.lock("name"):
            child = self.child(CLOSES)
            self.assertEqual(child.stdout.readline(), "waits\n")
            time.sleep(0.3)  # mostly it waits by then
            child.send_signal(signal.SIGUSR1)
            self.assertEqual(child.stdout.readline(), "closed False\n")
            with self.client.lock("other", wait=PATIENCE / 4):  # its lease has not ended
                pass
            child.communicate("\n", PATIENCE)


class ElectionsOnRedis(OnRedis, Elections):
    lease = SOON


class RatesOnRedis(OnRedis, Rates):
    pass


class CirclesOnRedis(OnRedis, Circles):
    pass


class HandlersOnRedis(OnRedis, Handlers):
    pass
