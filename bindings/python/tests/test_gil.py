# SPDX-License-Identifier: Apache-2.0
"""Each call that may block lets the GIL go: another thread of Python runs while it waits.

The interpreter is told not to take the GIL away from a thread. So the test's thread runs again only
once the call has let it go, and then sees that the call has begun and has not ended.
"""

import contextlib
import signal
import sys
import threading
import time
import unittest

import holdfast
from holdfast import Mode, _holdfast
from stores import PATIENCE, SOON, OnRedis, OnStore

NEVER = 1000.0  # seconds; longer than any test


class Call(threading.Thread):
    """One call on a thread of its own."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.begun, self.ended, self.failure = call, [], [], None

    def run(self):
        try:
            self.begun.append(1)
            self.call()
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure
        finally:
            self.ended.append(1)


class Letting(OnStore):
    """The tests of both tables."""

    def blocks_without_the_gil(self, call, end):
        """`end` is called while the call waits, and makes it return."""
        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        sys.setswitchinterval(NEVER)
        thread = Call(call)
        thread.start()
        while not thread.begun:
            time.sleep(0.001)
        waits = not thread.ended
        sys.setswitchinterval(before)
        end()
        thread.join(2 * PATIENCE)
        self.assertTrue(thread.ended, "the call did not return")
        self.assertIsNone(thread.failure)
        self.assertTrue(waits, "the call kept the GIL until it had ended")


def hold_of(test, mode=Mode.MUTEX, lease=60):
    return test.client.try_lock("held", mode=mode, lease=lease)


def detached(test):
    key = hold_of(test).detach()
    return lambda: test.client.attach("held", key)


def detaching(test):
    """It asks nothing here, but waits for a change of the hold that has not ended."""
    hold = hold_of(test, Mode.UPGRADE)
    test.stop()
    with contextlib.suppress(holdfast.Busy, holdfast.Unreachable):
        hold.upgrade(0.1)
    return hold.detach


def closing(test):
    client = holdfast.Client(test.url, request_timeout=PATIENCE)
    client.lock("held").acquire()
    return client.close


# What is asked for while the server is stopped, by the function of the extension that asks. Each
# value gets the test, prepares, and returns the call.
ASKS = {
    "Client.acquire": lambda test: test.client.lock("name").acquire,
    "Client.attach": detached,
    "Client.semaphore_set": lambda test: lambda: test.client.semaphore("pool").set(2),
    "Client.counter_set": lambda test: lambda: test.client.counter("stock").set(2),
    "Client.counter_add": lambda test: test.client.counter("stock").add,
    "Client.counter_get": lambda test: test.client.counter("stock").get,
    "Client.counter_remove": lambda test: test.client.counter("stock").remove,
    "Client.latch_set": lambda test: lambda: test.client.latch("start").set(1),
    "Client.latch_get": lambda test: test.client.latch("start").get,
    "Client.latch_down": lambda test: test.client.latch("start").down,
    "Client.break_": lambda test: lambda: test.client.break_("name"),
    "Client.forget": lambda test: lambda: test.client.forget("name"),
    "Client.inspect": lambda test: lambda: test.client.inspect("name"),
    "Client.election_leader": lambda test: test.client.election("boss").leader,
    "Client.rate_take": lambda test: test.client.rate("mail", 9, 1).take,
    "Client.close": closing,
    "Hold.release": lambda test: hold_of(test).release,
    "Hold.renew": lambda test: lambda hold=hold_of(test): hold.renew(60),
    "Hold.upgrade": lambda test: hold_of(test, Mode.UPGRADE).upgrade,
    "Hold.downgrade": lambda test: lambda hold=hold_of(test, Mode.WRITE): hold.downgrade(Mode.READ),
    "Hold.detach": detaching,
}

# The rest of the extension: what asks no server on the calling thread, and what WAITS has.
ASKS_NOT = {
    "Client.ask", "Client.begin", "Client.stats", "Hold.cancel", "Hold.done", "Hold.guard",
    "Hold.release_async", "Hold.release_nowait", "Hold.result", "Hold.wait_lost",
}


class AskingOnRedis(OnRedis, Letting):
    def setUp(self):
        super().setUp()
        self.client = holdfast.Client(self.url, request_timeout=PATIENCE)
        self.addCleanup(self.client.close)
        for name in ("name", "held"):  # the connection is there, and nothing of other tests is held
            self.client.break_(name)
        self.client.latch("start").down()

    def stop(self):
        self.addCleanup(self.go_on)
        self.server.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.server.process.send_signal(signal.SIGCONT)

    def ask(self, name):
        call = ASKS[name](self)
        self.stop()
        self.blocks_without_the_gil(call, self.go_on)

    def test_table_has_each_function_of_the_extension(self):
        there = {f"{kind.__name__}.{name}" for kind in (_holdfast.Client, _holdfast.Hold)
                 for name in dir(kind) if not name.startswith("_")
                 and callable(getattr(kind, name))}
        self.assertEqual(there, set(ASKS) | ASKS_NOT)


for each in ASKS:
    setattr(AskingOnRedis, f"test_{each.replace('.', '_').lower()}_lets_the_gil_go",
            lambda self, name=each: self.ask(name))


# What waits for another owner: each value returns the call, and what ends its wait.
def for_a_lock(test, mode=Mode.MUTEX):
    hold = test.client.try_lock("held", mode=mode)
    return test.client.lock("held", mode=mode).acquire, hold.release


def for_all_locks(test):
    hold = test.client.try_lock("held")
    return test.client.lock_all(["a", "held"]).acquire, hold.release


def for_readers(test):
    reader = test.client.try_lock("held", mode=Mode.READ)
    return test.client.try_lock("held", mode=Mode.UPGRADE).upgrade, reader.release


def for_a_counter(test):
    counter = test.client.counter("stock")
    return counter.take, counter.add


def for_a_latch(test):
    latch = test.client.latch("start")
    latch.set(1)
    return latch.wait, latch.down


def for_leadership(test):
    election = test.client.election("boss")
    leader = election.campaign()
    leader.acquire()
    return election.campaign().acquire, leader.resign


def for_a_rate(test):
    rate = test.client.rate("mail", 1, 2)
    rate.take()
    return rate.take, lambda: None  # it ends by itself, after two seconds


def for_a_loss(test):
    hold = test.client.try_lock("held")

    def break_it():
        with holdfast.Client(test.url) as other:
            other.break_("held")
    return (lambda: test.assertTrue(hold.lost.wait(PATIENCE))), break_it


WAITS = {
    "lock": for_a_lock,
    "fair_lock": lambda test: for_a_lock(test, Mode.FAIR),
    "lock_all": for_all_locks,
    "upgrade": for_readers,
    "counter": for_a_counter,
    "latch": for_a_latch,
    "campaign": for_leadership,
    "rate": for_a_rate,
    "loss": for_a_loss,
}


class Waiting(Letting):
    pass


for each in WAITS:
    setattr(Waiting, f"test_wait_for_{each}_lets_the_gil_go",
            lambda self, name=each: self.blocks_without_the_gil(*WAITS[name](self)))


class WaitingOnRedis(OnRedis, Waiting):
    lease = SOON


if __name__ == "__main__":
    unittest.main()
