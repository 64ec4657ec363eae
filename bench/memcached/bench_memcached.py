#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What locks at memcached cost, beside bare round trips and other libraries: make bench-memcached.

usage: bench_memcached.py WORKER [--quick]

All rounds are interleaved on a server that this program starts, at a Unix socket. Figures are
medians of the rounds. Other work on the machine changes times, ratios much less. What Symfony and
Laravel send is sent in C here: only the sequences of commands differ, not the languages."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cells  # noqa: E402
from figures import Figures, by_p50, interleave, ratio  # noqa: E402
from programs import Run, Worker, load, processor_ns  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))

from nothing_left import die_with_parent  # noqa: E402

QUICK = "--quick" in sys.argv
ROUNDS, RUN_MS, CONTENTION_MS = (1, 300, 500) if QUICK else (7, 1000, 3000)
PATIENCE_S = 20
NAMES = {
    "bare": "two bare round trips",
    "packets": "add, mg and clock; md (by hand)",
    "self": "holdfast, driven by the caller",
    "thread": "holdfast, thread of its own",
    "laravel": "Laravel's: add; get, delete",
    "symfony": "Symfony's: add; gets, cas, delete",
    "single": "holdfast",
}


def pairs_of(answer):
    return int(dict(part.split("=") for part in answer.split())["pairs"])


class Server:
    """memcached at a Unix socket, for as long as this program lives."""

    def __init__(self, directory):
        self.path = f"{directory}/memcached.sock"
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            ["memcached", "-s", self.path, "-m", "64", "-t", "2", *user],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        until = time.monotonic() + PATIENCE_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("bench: memcached does not start")
            time.sleep(0.01)

    def ask(self, command, end):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(self.path)
            stream.sendall(command + b"\r\n")
            said = b""
            while not said.endswith(end):
                said += stream.recv(65536)
            return said.decode()

    def answers(self):
        try:
            return self.ask(b"version", b"\r\n").startswith("VERSION")
        except OSError:
            return False

    def requests(self):
        """All that look at items: each poll has one for the clock, one for the lock."""
        words = dict(line.split()[1:3] for line in self.ask(b"stats", b"END\r\n").splitlines()
                     if line.startswith("STAT cmd_"))
        return int(words["cmd_get"])

    def spent_ns(self):
        return processor_ns(self.process.pid)


class Bench(Run):
    """One run, and its server."""

    def __init__(self, worker, directory):
        super().__init__(Server(directory))
        self.command = (worker,), (f"memcached+unix://{self.server.path}", self.server.path)

    def worker(self, who):
        return self.keep(Worker(self.server, *self.command[0], who, *self.command[1]))

    def one_caller(self):
        self.table.head("LOCK + UNLOCK, one caller", "us", "x bare", "p99 us", "client us",
                        "server us")
        figures = interleave({who: self.worker(who) for who in
                              ("bare", "packets", "self", "thread", "laravel", "symfony")},
                             ROUNDS, "pairs", 1, RUN_MS)
        self.table.rows(figures, NAMES.get, cells.microseconds("p50", 1),
                        cells.times(figures["bare"], by_p50), cells.microseconds("p99"),
                        cells.per_pair("client"), cells.per_pair("server"))
        self.table.aim("one caller, driven by itself, x bare",
                       ratio(figures["self"], figures["bare"], by_p50), 1.15)
        self.table.aim("one caller, driven by itself, x Symfony's",
                       ratio(figures["self"], figures["symfony"], by_p50), 0.6)
        self.stop()

    def processes(self, count):
        """Each takes the lock and gives it back for as long as the others do."""
        self.table.head(f"ONE LOCK, {count} processes", "locks/s", "least", "most", "client us",
                        "server us")
        for who in ("single", "symfony"):
            workers = [self.worker(who) for _ in range(count)]
            rounds = []
            for _ in range(1 if QUICK else 3):
                server = self.server.spent_ns()
                before = [processor_ns(worker.process.pid) for worker in workers]
                for worker in workers:
                    print("contention", 1, CONTENTION_MS, file=worker.process.stdin, flush=True)
                shares = [pairs_of(worker.process.stdout.readline()) for worker in workers]
                rounds.append({
                    "pairs": sum(shares), "ns": CONTENTION_MS * 1e6,
                    "least": count * min(shares) / sum(shares),
                    "most": count * max(shares) / sum(shares),
                    "server_ns": self.server.spent_ns() - server,
                    "client_ns": sum(processor_ns(worker.process.pid) - then
                                     for worker, then in zip(workers, before))})
            one = Figures(rounds)
            self.table.row(NAMES[who], f"{one.rate():.0f}",
                           f"{one.median(lambda f: f['least']):.2f}",
                           f"{one.median(lambda f: f['most']):.2f}",
                           f"{one.per_pair('client_ns'):.0f}", f"{one.per_pair('server_ns'):.0f}")
            if who == "single":
                self.table.aim(f"{count} processes, holdfast, the least share",
                               one.median(lambda f: f["least"]), 0.5, False)
            self.stop()
        print("  (least, most: a process's share, where 1 is even)")

    def handover(self):
        self.table.head("HAND-OVER to a client that waits", "us", "p99 us", "max us")
        figures = interleave({who: self.worker(who) for who in ("single", "symfony")},
                             1 if QUICK else 3, "handover", CONTENTION_MS)
        self.table.rows(figures, NAMES.get,
                        *(cells.microseconds(word) for word in ("p50", "p99", "max")))
        self.table.aim("hand-over, holdfast, p50 in ms", figures["single"].us() / 1000, 10)
        self.stop()

    def waiting(self):
        self.table.head("WAITING for a lock that stays held", "polls/s each", "client %",
                        "server %")
        for count in (1, 8, 32):
            worker = self.worker("single")
            worker.order("waiting", count, CONTENTION_MS)
            asked = self.server.requests()
            figures = worker.order("waiting", count, CONTENTION_MS)
            polls = (self.server.requests() - asked) / 2
            seconds = CONTENTION_MS / 1000
            self.table.row(f"{count} client{'s' * (count > 1)}", f"{polls / seconds / count:.0f}",
                           f"{figures['client_ns'] / seconds / 1e7 / count:.2f}",
                           f"{figures['server_ns'] / seconds / 1e7 / count:.2f}")
            self.stop()
        print("  (per cent of one processor, for each client that waits)")

    def run(self):
        version = self.server.ask(b"version", b"\r\n").split()[1]
        print(f"memcached {version} at a Unix socket; {ROUNDS} rounds, medians; load {load()}",
              flush=True)
        try:
            self.one_caller()
            self.processes(2)
            self.processes(8)
            self.handover()
            self.waiting()
            self.table.end()
        finally:
            self.stop()
            self.server.process.kill()
            self.server.process.wait()


def main():
    with tempfile.TemporaryDirectory(prefix="bench-memcached-") as directory:
        Bench(sys.argv[1], directory).run()


main()
