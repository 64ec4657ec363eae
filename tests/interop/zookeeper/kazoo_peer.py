# SPDX-License-Identifier: Apache-2.0
"""The side of kazoo in tests of sharing: a line an order, each done by the thread that it names.

    THREAD VERB ARGUMENT...        is answered by        THREAD ANSWER

The same orders as ../peer.c, so that every scene can be played with the sides exchanged.

usage: kazoo_peer.py HOST:PORT ROOT SESSION_MS PATTERN...

Each PATTERN is one more that marks a contender of a lock, beside kazoo's own."""

import os
import queue
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

ADDRESS, ROOT, SESSION_MS, *PATTERNS = sys.argv[1:]

saying = threading.Lock()


def answer(thread, said):
    with saying:
        print(thread, said, flush=True)


class Observer:
    """No candidate: it is told of each change of the queue, and looks who is its head."""

    def __init__(self, client, path):
        self.client, self.path, self.head = client, path, ""
        self.leaders, self.told = [], threading.Condition()
        client.ensure_path(path)
        client.ChildrenWatch(path, self.look)

    def look(self, nodes):
        head = min(nodes, key=lambda node: node[-10:], default=None)
        if head != self.head:
            self.head = head
            text = self.client.get(f"{self.path}/{head}")[0].decode() if head else "none"
            with self.told:
                self.leaders.append(text)
                self.told.notify_all()

    def seen(self, count):
        with self.told:
            self.told.wait_for(lambda: len(self.leaders) >= count)
            return ",".join(self.leaders)


observers, heard = {}, {}


class Worker(threading.Thread):
    """Does the orders for one name, in their order, with locks of its own."""

    def __init__(self, client, name):
        super().__init__(daemon=True)
        self.client, self.called = client, name
        self.orders, self.locks, self.terms = queue.Queue(), {}, {}
        self.start()

    def lock_of(self, kind, name):
        if kind != "mutex":
            raise ValueError(f"no such kind: {kind}")
        if name not in self.locks:
            self.locks[name] = self.client.Lock(f"{ROOT}/{name}", extra_lock_patterns=PATTERNS)
        return self.locks[name]

    def campaign(self, name):
        """Election.run leads for as long as the function does that it is given."""
        leads, over = threading.Event(), threading.Event()

        def serve():
            heard.setdefault(name, []).append("leads")
            leads.set()
            over.wait()
            heard[name].append("ends")

        election = self.client.Election(f"{ROOT}/{name}", "kazoo:80")
        term = threading.Thread(target=election.run, args=(serve,), daemon=True)
        term.start()
        leads.wait()
        self.terms[name] = term, over
        return "ok"

    def resign(self, name):
        term, over = self.terms.pop(name)
        over.set()
        term.join()
        return "ok"

    def leads(self, name):
        candidates = self.client.Election(f"{ROOT}/{name}").contenders()
        return candidates[0] if candidates else "none"

    def watch(self, name):
        observers[name] = Observer(self.client, f"{ROOT}/{name}")
        return "ok"

    def lock(self, kind, name, wait_ms, _lease_ms):
        if kind == "leader":
            return self.campaign(name)
        lock, wait_ms = self.lock_of(kind, name), int(wait_ms)
        try:
            if wait_ms == 0:
                taken = lock.acquire(blocking=False)
            else:
                taken = lock.acquire(timeout=None if wait_ms < 0 else wait_ms / 1000)
        except LockTimeout:
            taken = False
        return "ok" if taken else "busy"

    def unlock(self, kind, name):
        if kind == "leader":
            return self.resign(name)
        return "ok" if self.lock_of(kind, name).release() else "lost"

    def count(self, kind, name, path, times):
        """Nothing but the lock protects the number in the file."""
        for _ in range(int(times)):
            with self.lock_of(kind, name):
                with open(path, encoding="ascii") as file:
                    number = int(file.read())
                time.sleep(0)
                with open(path, "w", encoding="ascii") as file:
                    file.write(str(number + 1))
        return "ok"

    def latch(self, name, count):
        latch = self.client.Counter(f"{ROOT}/{name}", support_curator=True)
        if latch.value > 0:
            return "busy"
        latch += int(count)
        return "ok"

    def down(self, name, times=1):
        latch = self.client.Counter(f"{ROOT}/{name}", support_curator=True)
        for _ in range(int(times)):
            latch -= 1
        return "ok"

    def wait_for(self, name, wait_ms):
        opened = threading.Event()

        def look(data, _stat):
            if not data or int.from_bytes(data, "big") == 0:
                opened.set()
                return False
            return True

        self.client.DataWatch(f"{ROOT}/{name}", look)
        return "ok" if opened.wait(None if int(wait_ms) < 0 else int(wait_ms) / 1000) else "busy"

    def run(self):
        verbs = {"lock": self.lock, "unlock": self.unlock, "count": self.count,
                 "latch": self.latch, "down": self.down, "await": self.wait_for,
                 "leads": self.leads, "watch": self.watch,
                 "seen": lambda name, count: observers[name].seen(int(count)),
                 "heard": lambda name: ",".join(heard[name])}
        while True:
            verb, *words = self.orders.get()
            try:
                answer(self.called, verbs[verb](*words))
            except Exception as failure:  # whatever it is, the test hears of it
                answer(self.called, f"failed: {type(failure).__name__}: {failure}")


def main():
    client = KazooClient(hosts=ADDRESS, timeout=int(SESSION_MS) / 1000)
    client.start(timeout=120)
    workers = {}
    answer("main", "ready")
    for line in sys.stdin:
        name, *order = line.split()
        if name not in workers:
            workers[name] = Worker(client, name)
        workers[name].orders.put(order)
    # Whoever started us is gone, or wants us to be: locks go with the session.
    os._exit(0)


main()
