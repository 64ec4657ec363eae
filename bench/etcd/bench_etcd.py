#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What locks at etcd cost, beside bare transactions and Go's concurrency package: make bench-etcd.

usage: bench_etcd.py WORKER HOLDFAST DIRECTORY [--quick] [--without-others] [--no-fsync]

All rounds are interleaved on a server that this program starts, with its data in DIRECTORY; unless
--no-fsync is given, each commit waits for that disk. Figures are medians of the rounds. Other work
on the machine changes times, ratios much less. Go's client comes from Go's module proxy, in the
version that the tests use."""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(ROOT / "tests/lib"))

import cells  # noqa: E402
from figures import by_p50, by_rate, in_turn, interleave, ratio  # noqa: E402
from programs import (Missing, Run, Worker, file_system, install, load,  # noqa: E402
                      processor_ns)

import etcd_server  # noqa: E402

QUICK = "--quick" in sys.argv
ROUNDS, RUN_MS, COMMANDS = (1, 300, 5) if QUICK else (7, 1000, 40)
CALLERS = 64
ELECTION_MS = 1000
MODULE = ROOT / "tests/interop/etcd/peer"
GO = "Go's concurrency.Mutex"
NAMES = {"bare": "the bare transactions", "self": "holdfast, driven by the caller",
         "thread": "holdfast, thread of its own", "single": "holdfast", "go": GO}
# The last columns of two tables.
COSTS = cells.microseconds("p99"), cells.per_pair("client"), cells.per_pair("server")
METRIC = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


def by_time(figures):
    return figures["ns"] / figures["pairs"]


def by_client(figures):
    return figures["client_ns"] / figures["pairs"]


class Server:
    """etcd, for as long as this program lives."""

    def __init__(self, directory, syncs):
        self.member = etcd_server.Member(directory, "bench")
        self.member.start([self.member], ELECTION_MS, () if syncs else ("--unsafe-no-fsync",))
        if not self.member.becomes_ready():
            raise SystemExit("bench-etcd: the server does not start")
        self.endpoint = f"http://127.0.0.1:{self.member.port}"
        self.url = f"etcd://127.0.0.1:{self.member.port}/bench"

    def metrics(self):
        """The sum of each over its labels."""
        with urllib.request.urlopen(f"{self.endpoint}/metrics", timeout=20) as reply:
            sums = {}
            for name, value in METRIC.findall(reply.read().decode()):
                sums[name] = sums.get(name, 0) + float(value)
        return sums

    def requests(self):
        """Messages of all calls; a stream counts each of its own."""
        return self.metrics()["grpc_server_msg_received_total"]

    def sync_us(self):
        """The mean of all so far."""
        sums = self.metrics()
        name = "etcd_disk_wal_fsync_duration_seconds"
        return sums[name + "_sum"] / max(1, sums[name + "_count"]) * 1e6

    def spent_ns(self):
        return processor_ns(self.member.process.pid)


class Bench(Run):
    """One run, and its server."""

    def __init__(self, worker, holdfast, place, flags, directory):
        self.worker, self.holdfast, self.place = worker, holdfast, pathlib.Path(place)
        self.syncs = "--no-fsync" not in flags
        self.others_wanted = "--without-others" not in flags
        super().__init__(Server(directory, self.syncs))

    def start_go(self):
        """In the module of the tests, which has the version and the checksums."""
        source, program = HERE / "peer.go", self.place / "go-peer"
        there = ["env", "GOTOOLCHAIN=local", "go", "build", "-C", str(MODULE), "-buildvcs=false"]
        install(self.place / f"go-peer.{source.stat().st_mtime_ns}", GO,
                [*there, "-o", str(program), str(source)])
        return Worker(self.server, str(program), self.server.endpoint)

    def workers(self, *subjects):
        found = {}
        for who in subjects:
            try:
                if who != "go":
                    found[who] = self.keep(Worker(self.server, self.worker, who, self.server.url))
                elif self.others_wanted:
                    found[who] = self.keep(self.start_go())
            except Missing as reason:
                print(f"  {reason}")
        return found

    def one_caller(self):
        self.table.head("LOCK + UNLOCK, one caller", "us", "x bare", "p99 us", "client us",
                        "server us")
        figures = interleave(self.workers("bare", "self", "thread", "go"), ROUNDS, "pairs", 1,
                             RUN_MS)
        self.table.rows(figures, NAMES.get, cells.microseconds("p50", 1),
                        cells.times(figures["bare"], by_p50), *COSTS)
        self.table.aim("one caller, driven by itself, x bare",
                       ratio(figures["self"], figures["bare"], by_p50), 1.15)
        self.beside_go(figures, "thread", "one caller")
        self.stop()

    def beside_go(self, figures, ours, where):
        if "go" not in figures:
            return
        self.table.aim(f"{where}, pairs/s, x Go's",
                       ratio(figures[ours], figures["go"], by_rate), 1.3, False)
        self.table.aim(f"{where}, client CPU, x Go's",
                       ratio(figures[ours], figures["go"], by_client), 0.33)

    def in_flight(self):
        self.table.head(f"LOCK + UNLOCK, {CALLERS} in flight", "pairs/s", "x bare", "p99 us",
                        "client us", "server us")
        figures = interleave(self.workers("bare", "thread", "go"), ROUNDS, "pairs", CALLERS,
                             RUN_MS)
        self.table.rows(figures, NAMES.get, cells.rate(), cells.times(figures["bare"], by_rate),
                        *COSTS)
        self.table.aim(f"{CALLERS} in flight, bare, x holdfast",
                       ratio(figures["bare"], figures["thread"], by_rate), 1.15)
        self.beside_go(figures, "thread", f"{CALLERS} in flight")
        self.stop()

    def contend(self, worker, clients):
        before = self.server.requests()
        figures = worker.order("contention", clients, RUN_MS)
        figures["requests"] = self.server.requests() - before
        return figures

    def one_lock(self, clients):
        self.table.head(f"ONE LOCK, {clients} clients", "us a lock", "x holdfast", "requests",
                        "client us", "least", "most")
        figures = in_turn(self.workers("single", "go"), ROUNDS,
                          lambda _, worker: self.contend(worker, clients))
        self.table.rows(figures, NAMES.get,
                        lambda one: f"{one.median(by_time) / 1000:.0f}",
                        cells.times(figures["single"], by_time, 1),
                        lambda one: f"{one.median(lambda f: f['requests'] / f['pairs']):.1f}",
                        cells.per_pair("client", 0), cells.share("min", clients),
                        cells.share("max", clients))
        if "go" in figures and clients <= 8:
            self.table.aim(f"{clients} on one lock, Go's time, x holdfast's",
                           ratio(figures["go"], figures["single"], by_time), 10, False)
        self.stop()

    @staticmethod
    def command_figures(command):
        """Its time, and what it and its children had of the processors."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic_ns()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, ETCDCTL_API="3"))
        took, after = time.monotonic_ns() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9
        return {"p50": took, "client_ns": spent, "pairs": 1}

    def commands(self):
        self.table.head("A COMMAND under a lock, end to end", "ms", "x holdfast", "CPU ms")
        control = os.environ.get("HOLDFAST_ETCDCTL", "etcdctl")
        lines = {
            "holdfast run NAME -- true": [self.holdfast, "-e", self.server.url, "run", "command",
                                          "--", "true"],
            "etcdctl lock NAME true": [control, "--endpoints", self.server.endpoint, "lock",
                                       "bench/command", "true"],
        }
        figures = in_turn(lines, COMMANDS, lambda _, line: self.command_figures(line))
        ours = next(iter(figures.values()))
        self.table.rows(figures, str, lambda one: f"{one.us() / 1000:.1f}",
                        cells.times(ours, by_p50, 1),
                        lambda one: f"{one.median(by_client) / 1e6:.1f}")

    def run(self):
        version = subprocess.run([etcd_server.server_program(), "--version"], capture_output=True,
                                 text=True, check=True).stdout.split("\n", 1)[0]
        print(f"{version}, one server on loopback; fsync {'on' if self.syncs else 'off'}, data on "
              f"{file_system(self.server.member.directory)}; {ROUNDS} rounds, medians; "
              f"load {load()}", flush=True)
        self.one_caller()
        self.in_flight()
        for clients in (2, 8, 32):
            self.one_lock(clients)
        self.commands()
        print(f"\none fsync of the server's log: {self.server.sync_us():.0f} us in the mean")
        self.table.end()

    def end(self):
        self.stop()
        self.server.member.kill()


def main():
    worker, holdfast, place, *flags = sys.argv[1:]
    if etcd_server.missing():
        raise SystemExit(f"bench-etcd: {etcd_server.missing()}")
    place = os.path.abspath(place)
    os.makedirs(place, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=place) as directory:
        bench = Bench(worker, holdfast, place, flags, directory)
        try:
            bench.run()
        finally:
            bench.end()


main()
