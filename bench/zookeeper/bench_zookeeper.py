#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What locks on ZooKeeper cost, beside what one would use instead: make bench-zookeeper.

usage: bench_zookeeper.py WORKER DIRECTORY_FOR_OTHER_LIBRARIES [--quick] [--without-others]

All rounds are interleaved on one server that this program starts; figures are medians of the
rounds. Other work on the machine changes times, ratios much less."""

import pathlib
import resource
import sys
import tempfile

import things  # also says where the rest is
from figures import by_p50, by_rate, in_turn, interleave, ratio
from programs import Run, load

ROUNDS, RUN_MS, HANDOVER_MS = 5, 1000, 1000
# What is compiled while it runs needs that long.
WARM_UP_MS = 4000
CALLERS, WAITERS, RELEASES = 16, 5000, 200
DESCRIPTORS_KEPT, DESCRIPTORS_EACH = 100, 8
NOWHERE = "-"
CURATOR, KAZOO = f"Curator {things.CURATOR}", things.KAZOO.replace("==", " ")


class Bench(Run):
    """One run: its sections."""

    def __init__(self, worker, place, flags, directory):
        self.worker, self.place = worker, pathlib.Path(place).resolve()
        self.place.mkdir(parents=True, exist_ok=True)
        self.quick = "--quick" in flags
        self.rounds = 1 if self.quick else ROUNDS
        self.others_wanted = "--without-others" not in flags
        super().__init__(things.Server(directory))
        # Of every measurement beside the protocol itself: what, and how many times that.
        self.ratios = []

    def start(self, subject):
        return self.keep(things.Worker(self.server, self.worker, subject, self.server.address))

    def start_others(self, others):
        return self.keep_others(others if self.others_wanted else {}, self.place, WARM_UP_MS)

    def compare(self, what, who, figures, base, of):
        times = ratio(figures[who], figures[base], of)
        self.ratios.append((what, times))
        return times

    def single(self):
        self.table.head("LOCK + UNLOCK, one caller", "us", "x bare", "client us", "server us")
        workers = {who: self.start(who) for who in ("bare", "self", "thread", "nowait")}
        workers |= self.start_others({CURATOR: things.curator, KAZOO: things.kazoo})
        figures = interleave(workers, self.rounds, "pairs", 1, RUN_MS)
        names = {"bare": "create+list, delete (blocking client)",
                 "self": "holdfast, driven by the caller", "thread": "holdfast, thread of its own",
                 "nowait": "holdfast, unlock not waited for"}
        for who, one in figures.items():
            times = self.compare(f"one caller, {names.get(who, who)}, x bare", who, figures,
                                 "bare", by_p50)
            self.table.row(names.get(who, who), f"{one.us():.1f}", f"{times:.2f}",
                           f"{one.per_pair('client_ns'):.1f}", f"{one.per_pair('server_ns'):.1f}")
        self.table.aim("one caller, driven by the caller, x bare",
                       ratio(figures["self"], figures["bare"], by_p50), 1.15)
        if CURATOR in figures:
            for who in ("self", "thread", "nowait"):
                self.table.aim(f"one caller, Curator, x {names[who]}",
                               ratio(figures[CURATOR], figures[who], by_p50), 2, False)
        self.stop()

    def callers(self):
        self.table.head(f"LOCK + UNLOCK, {CALLERS} in flight", "pairs/s", "x bare", "client us",
                        "server us")
        workers = {who: self.start(who) for who in ("bare", "thread", "nowait")}
        workers |= self.start_others({CURATOR: things.curator, KAZOO: things.kazoo})
        verbs = {"bare": "pipeline"}
        figures = in_turn(workers, self.rounds, lambda who, worker: worker.order(
            verbs.get(who, "pairs"), CALLERS, RUN_MS))
        names = {"bare": "one connection, pipelined (bare)", "thread": "holdfast, 16 threads",
                 "nowait": "holdfast, unlock not waited for"}
        for who, one in figures.items():
            times = self.compare(f"{CALLERS} in flight, pairs/s, {names.get(who, who)}, x bare",
                                 who, figures, "bare", by_rate)
            self.table.row(names.get(who, who), f"{one.rate():.0f}", f"{times:.2f}",
                           f"{one.per_pair('client_ns'):.1f}", f"{one.per_pair('server_ns'):.1f}")
        self.stop()

    def handover(self):
        self.table.head("HAND-OVER between two sessions", "us", "x floor", "p99 us")
        workers = {"bare": self.start("bare"), "thread": self.start("thread")}
        workers |= self.start_others({CURATOR: things.curator})
        verbs = {"bare": "telling"}
        figures = in_turn(workers, self.rounds, lambda who, worker: worker.order(
            verbs.get(who, "handover"), HANDOVER_MS))
        names = {"bare": "delete, event, list (blocking client)",
                 "thread": "holdfast, two clients of a process"}
        for who, one in figures.items():
            times = self.compare(f"hand-over, {names.get(who, who)}, x floor", who, figures,
                                 "bare", by_p50)
            self.table.row(names.get(who, who), f"{one.us():.1f}", f"{times:.2f}",
                           f"{one.median(lambda f: f['p99']) / 1000:.0f}")
        self.stop()

    def gather(self, count):
        """In as many processes as their descriptors take; the first has the lock. What the last
        one says of itself."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        most = max(1, (limit - DESCRIPTORS_KEPT) // DESCRIPTORS_EACH)
        while count > 0:
            figures = self.start("self").order("waiters", min(count, most))
            count -= most
        return figures

    def waiters(self):
        count = WAITERS // 10 if self.quick else WAITERS
        self.table.head(f"{count:,} SESSIONS IN LINE for one lock", "us", "requests", "messages",
                        "bytes each")
        crowd = self.gather(count)
        heard, said = self.server.counters()
        released = self.started[0].order("releases", RELEASES)
        heard_after, said_after = self.server.counters()
        # The question itself is one; what else is heard are the beats of the crowd's sessions.
        requests = (heard_after - heard - 1) / RELEASES
        messages = (said_after - said) / RELEASES
        self.table.row("holdfast, each release", f"{released['p50'] / 1000:.0f}",
                       f"{requests:.2f}", f"{messages:.2f}", f"{crowd['bytes_each']:.0f}")
        self.table.aim(f"{count:,} in line, wakes of {RELEASES} releases",
                       released["woken"], RELEASES)
        self.table.aim(f"{count:,} in line, requests a release (delete, list)", requests, 2.2)
        self.stop()
        local = self.start("thread").order("local", count)
        self.table.row(f"holdfast, {count:,} requests of one client", NOWHERE, NOWHERE, NOWHERE,
                       f"{local['bytes_each']:.0f}")
        self.stop()

    def run(self):
        print(f"ZooKeeper {self.server.version()} on loopback, which syncs nothing; {self.rounds} "
              f"rounds, medians; load {load()}")
        self.single()
        self.callers()
        self.handover()
        self.waiters()
        self.table.head("RATIOS")
        for what, times in self.ratios:
            self.table.row(f"{what:80}", f"{times:.2f}")
        self.table.end()


def main():
    worker, place, *flags = sys.argv[1:]
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=memory) as directory:
        bench = Bench(worker, place, flags, directory)
        try:
            bench.run()
        finally:
            bench.stop()
            bench.server.stop()


main()
