#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What locks on Redis cost, beside what one would use instead: make bench-redis.

usage: bench_redis.py WORKER DIRECTORY_FOR_OTHER_LIBRARIES [--quick] [--million] [--without-others]
                      [--one-processor] [--only SECTION]

SECTION is tcp, unix, threads, handover, crowd or held; several are separated by commas.

All rounds are interleaved on one server that this program starts; figures are medians of the
rounds. Other work on the machine changes times, ratios much less. How long the machine takes to
wake a processor that sleeps changes ratios, too: so what hangs on it is measured once more while
the server and all clients share one, which none of them has to wake, and what is compared is the
work they do. With --one-processor, only that is done."""

import os
import pathlib
import re
import subprocess
import statistics
import sys
import tempfile
import time

import things  # also says where the rest is
from figures import Figures, by_p50, by_rate, interleave, ratio
from programs import Run, load, processor_ns, schedule_ns

ROUNDS, RUN_MS, CROWD_MS, HANDOVER_MS = 5, 700, 1500, 700
# What is compiled while it runs needs that long.
WARM_UP_MS = 2000
THREADS, PROCESSES, RENEW_SECONDS = 64, 32, 10
# What is also measured on one processor.
WAKING = ("tcp", "unix", "threads", "handover", "crowd")
NOWHERE = "-"


class Bench(Run):
    """One run: its sections."""

    def __init__(self, worker, place, flags, directory):
        self.worker, self.place = worker, pathlib.Path(place).resolve()
        self.place.mkdir(parents=True, exist_ok=True)
        self.rounds = 1 if "--quick" in flags else ROUNDS
        self.million = "--million" in flags
        self.others_wanted = "--without-others" not in flags
        self.one_only = "--one-processor" in flags
        self.only = self.wanted_sections(flags)
        super().__init__(things.Server(directory))

    def sections(self):
        others = {"Redisson": things.redisson, "redis-py": things.redis_py,
                  "node-redlock": things.node_redlock}
        return {"tcp": lambda: self.single("TCP", self.server.address, others),
                "unix": lambda: self.single("Unix socket", self.server.path, {}),
                "threads": self.all_threads, "handover": self.handover, "crowd": self.crowd,
                "held": self.all_held}

    def wanted_sections(self, flags):
        wanted = list(self.sections())
        if "--only" in flags:
            place = flags.index("--only") + 1
            wanted = flags[place].split(",") if place < len(flags) else []
        unknown = [section for section in wanted if section not in self.sections()]
        if unknown or not wanted:
            raise SystemExit(f"bench-redis: --only takes some of {', '.join(self.sections())}"
                             + "".join(f"; there is no {section}" for section in unknown))
        return wanted

    def start(self, subject, address=None, options=""):
        """The options are those of the URL, with & between them."""
        worker = things.Worker(self.server, self.worker, subject, address or self.server.address,
                               HOLDFAST_BENCH_OPTIONS=options)
        return self.keep(worker)

    def start_all(self, *subjects, address=None, options=""):
        return {subject: self.start(subject, address, options) for subject in subjects}

    def start_others(self, others):
        return self.keep_others(others if self.others_wanted else {}, self.place, WARM_UP_MS)

    # ---- nobody else wants it ----

    def single(self, kind, address, others):
        self.table.head(f"LOCK + UNLOCK, one caller, {kind}", "us", "x bare", "client us",
                        "server us")
        workers = self.start_all("bare", "self", "thread", "nowait", address=address)
        workers |= self.start_others(others)
        figures = interleave(workers, self.rounds, "pairs", 1, RUN_MS)
        names = {"bare": "two bare round trips (hiredis)", "self": "holdfast, driven by the caller",
                 "thread": "holdfast, thread of its own",
                 "nowait": "holdfast, unlock not waited for"}
        for who, one in figures.items():
            times = ratio(one, figures["bare"], by_p50)
            self.table.row(names.get(who, who), f"{one.us():.1f}", f"{times:.2f}",
                           f"{one.per_pair('client_ns'):.1f}", f"{one.per_pair('server_ns'):.1f}")
        for who, limit in (("self", 1.15), ("thread", 1.3)):
            self.table.aim(f"{kind}, {names[who]}, x bare",
                           ratio(figures[who], figures["bare"], by_p50), limit)
        self.stop()

    # ---- many threads ----

    def public_tool(self, commands):
        """Pairs a second of redis-benchmark with 50 connections, one question out on each, on the
        scripts that the engine uses: lock and unlock apart, as it can do no other."""
        rates = []
        for words in commands:
            done = subprocess.run(
                ["redis-benchmark", "-p", str(self.server.port), "-c", "50", "-P", "1", "-n",
                 "20000", "-r", "100000", "--csv", *words],
                capture_output=True, text=True, check=True)
            rates.append(float(re.findall(r'"([\d.]+)"', done.stdout.splitlines()[-1])[0]))
        return 1 / sum(1 / rate for rate in rates)

    def learn_commands(self, options):
        """Loads the scripts, and says how the engine calls them, for redis-benchmark."""
        bare = self.start("bare", options=options)
        print("scripts", file=bare.process.stdin, flush=True)
        commands = [bare.process.stdout.readline().split() for _ in range(2)]
        self.stop()
        return commands

    def all_threads(self):
        self.threads("", {"Redisson": things.redisson, "redis-py": things.redis_py,
                          "node-redlock": things.node_redlock})
        self.threads("format=simple", {})
        # As redis-py, redsync and node-redlock have them.
        self.threads("format=simple&fence=off", {})

    def threads(self, options, others):
        # Tokens that others have left are counted on by those, too, who want none.
        self.server.ask("FLUSHALL")
        commands = self.learn_commands(options)
        words = ", ".join([f"{THREADS} threads", *filter(None, options.split("&"))])
        self.table.head(f"LOCK + UNLOCK, {words}", "pairs/s", "x benchmark", "client us",
                        "server us")
        workers = self.start_all("bare", "thread", "nowait", options=options)
        workers |= self.start_others(others)
        rounds = {who: [] for who in workers}
        tool = []
        for turn in range(self.rounds + 1):
            tool.append(self.public_tool(commands))
            for who, worker in workers.items():
                figures = worker.order("pairs", THREADS, RUN_MS)
                figures["x"] = figures["pairs"] / figures["ns"] * 1e9 / tool[-1]
                if turn > 0:
                    rounds[who].append(figures)
        names = {"bare": "a connection a thread (hiredis)", "thread": "holdfast, unlock waited for",
                 "nowait": "holdfast, unlock not waited for"}
        all_figures = {who: Figures(of) for who, of in rounds.items()}
        self.table.row("redis-benchmark -c 50 -P 1, same scripts",
                       f"{statistics.median(tool[1:]):.0f}", "1.00")
        for who, one in all_figures.items():
            self.table.row(names.get(who, who), f"{one.rate():.0f}",
                           f"{one.median(lambda f: f['x']):.2f}",
                           f"{one.per_pair('client_ns'):.1f}", f"{one.per_pair('server_ns'):.1f}")
        self.judge_threads(words, all_figures)
        self.stop()
        if "fence=off" in options and self.server.ask("KEYS", "redisson_lock_token:*") != "*0\r\n":
            raise SystemExit(f"bench-redis: {words}: tokens were kept that nobody wanted, and what"
                             " is said of locks without them is worth nothing")

    def judge_threads(self, words, figures):
        thread, relaxed, other = (figures.get(w) for w in ("thread", "nowait", "Redisson"))
        self.table.aim(f"{words}, waited for, x redis-benchmark",
                       thread.median(lambda f: f["x"]), 2, False)
        self.table.aim(f"{words}, not waited for, x redis-benchmark",
                       relaxed.median(lambda f: f["x"]), 4, False)
        if not other:
            return
        self.table.aim(f"{words}, waited for, x Redisson",
                       ratio(thread, other, by_rate), 3, False)
        self.table.aim(f"{words}, server time a pair, x Redisson",
                       ratio(thread, other, lambda f: f["server_ns"] / f["pairs"]), 0.65)

    # ---- one lock, several processes ----

    def handover(self):
        self.table.head("HAND-OVER between two processes", "us", "x floor", "p99 us")
        workers = self.start_all("bare", "thread", "self", "retry", "poll")
        java = self.start_others({"Redisson, two clients of a process": things.redisson})
        rounds = {who: [] for who in [*workers, *java]}
        for turn in range(self.rounds + 1):
            for who, worker in (workers | java).items():
                verb = "telling" if who == "bare" else "handover"
                # A hand-over takes as long as the pause between two looks.
                if who == "poll" and turn > 1:
                    continue
                figures = worker.order(verb, HANDOVER_MS)
                if turn > 0:
                    rounds[who].append(figures)
        names = {"bare": "floor: one publishes, the other is told",
                 "thread": "holdfast, thread of its own", "self": "holdfast, driven by the caller",
                 "retry": "told, and tries again (hiredis)", "poll": "looks every 100 ms (hiredis)"}
        figures = {who: Figures(of) for who, of in rounds.items()}
        for who, one in figures.items():
            self.table.row(names.get(who, who), f"{one.us():.1f}",
                           f"{ratio(one, figures['bare'], by_p50):.2f}",
                           f"{one.median(lambda f: f['p99']) / 1000:.0f}")
        self.table.aim("hand-over, x floor",
                       ratio(figures["thread"], figures["bare"], by_p50), 1.3)
        self.stop()

    def crowd(self):
        self.table.head(f"{PROCESSES} PROCESSES on one lock", "locks/s", "least", "most",
                        "server us each")
        rounds = {"retry": [], "thread": [], "poll": []}
        workers = self.start_all(*rounds)
        for _ in range(max(1, self.rounds - 2)):
            for who, worker in workers.items():
                rounds[who].append(worker.order("crowd", PROCESSES, CROWD_MS))
        names = {"retry": "told, and tries again (hiredis)", "thread": "holdfast",
                 "poll": "looks every 100 ms (hiredis)"}
        for who, of in rounds.items():
            one = Figures(of)
            self.table.row(names[who], f"{one.median(lambda f: f['locks'] / f['ms']) * 1000:.0f}",
                           f"{one.median(lambda f: f['least']):.0f}",
                           f"{one.median(lambda f: f['most']):.0f}",
                           f"{one.median(lambda f: f['server_ns'] / f['locks']) / 1000:.0f}")
        ours, base = Figures(rounds["thread"]), Figures(rounds["retry"])
        self.table.aim(f"{PROCESSES} processes, locks a second, x told-and-retry",
                       ratio(ours, base, lambda f: f["locks"]), 8, False)
        self.table.aim(f"{PROCESSES} processes, server time a lock, x told-and-retry",
                       ratio(ours, base, lambda f: f["server_ns"] / f["locks"]), 0.2)
        self.stop()

    # ---- many held locks ----

    def idle_cost(self):
        before = schedule_ns(self.server.process.pid)
        time.sleep(1)
        return schedule_ns(self.server.process.pid) - before

    def held(self, count):
        self.table.head(f"{count:,} HELD LOCKS, renewed every {RENEW_SECONDS} s", "server ns each",
                        "client ns each", "client bytes", "server bytes")
        idle = self.idle_cost()
        # How fast the machine is changes within a minute: ours are between two of theirs.
        batches = [self.batches(count)]
        for words, options in (("holdfast", ""), ("holdfast, format=simple", "format=simple")):
            server, bytes_each = self.hold(words, options, count, idle)
            batches.append(self.batches(count))
            self.table.aim(f"{count:,} held, {words}, server time a renewal, x Redisson's batch",
                           server / statistics.mean(batches[-2:]), 0.6)
        self.table.aim(f"{count:,} held, client bytes a lock", bytes_each, 256)

    def hold(self, words, options, count, idle):
        """What a renewal costs the server, and a lock the client's memory."""
        memory = self.server.memory()
        worker = self.start("thread", options=options)
        figures = worker.order("hold", count)
        kept = (self.server.memory() - memory) / count
        server, client = (schedule_ns(self.server.process.pid),
                          processor_ns(worker.process.pid))
        time.sleep(RENEW_SECONDS)
        server = schedule_ns(self.server.process.pid) - server - RENEW_SECONDS * idle
        client = processor_ns(worker.process.pid) - client
        self.table.row(words, f"{server / count:.0f}", f"{client / count:.0f}",
                       f"{figures['bytes_each']:.0f}", f"{kept:.0f}")
        beside = worker.order("beside", RENEW_SECONDS * 1000)
        self.table.row("  another lock of that client meanwhile",
                       f"p50 {beside['p50'] / 1000:.0f} us", f"p99 {beside['p99'] / 1e6:.1f} ms",
                       f"max {beside['max'] / 1e6:.0f} ms")
        if lost := worker.order("lost")["lost"]:
            raise SystemExit(f"bench-redis: {lost:.0f} of {count:,} locks that were held were lost:"
                             " the server was too slow for them, or was stopped, and what is said"
                             " of their renewals is worth nothing")
        self.stop()
        self.server.ask("FLUSHALL")
        return server / count, figures["bytes_each"]

    def batches(self, count):
        """The same in the format and batches of Redisson, by hiredis: one batch when the last one
        is answered, as its watchdog has it. Ours come as they fall due, in the order in which they
        were taken, so the server sleeps more often between them, which costs it more."""
        worker = self.start("bare")
        memory = self.server.memory()
        worker.order("fill", count)
        kept = (self.server.memory() - memory) / count
        each = statistics.median(worker.order("batches", count)["server_ns"] / count
                                 for _ in range(3))
        self.table.row("Redisson's script and format (hiredis)", f"{each:.0f}", NOWHERE, NOWHERE,
                       f"{kept:.0f}")
        self.stop()
        self.server.ask("FLUSHALL")
        return each

    def all_held(self):
        self.held(100_000)
        if self.million:
            self.held(1_000_000)

    # ---- all of it ----

    def share_one_processor(self):
        """From now on all do: what is started is where we are."""
        one = {max(os.sched_getaffinity(0))}
        for process in (0, self.server.process.pid):
            os.sched_setaffinity(process, one)
        self.others_wanted = False
        self.table.where = "one processor: "
        print("\nON ONE PROCESSOR, server and clients")

    def run(self):
        processors = len(os.sched_getaffinity(0))
        print(f"Redis {self.server.version()} on loopback; {self.rounds} rounds, medians; "
              f"{processors} processor{'s' * (processors != 1)}, load {load()}")
        sections = self.sections()
        for section in self.only if not self.one_only else ():
            sections[section]()
        if self.one_only or processors > 1:
            self.share_one_processor()
            for section in self.only:
                if section in WAKING or self.one_only:
                    sections[section]()
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
