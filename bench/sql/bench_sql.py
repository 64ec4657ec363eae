#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What locks in a database cost, beside what one would write by hand: make bench-sql.

usage: bench_sql.py WORKER DIRECTORY [--quick] [--only mariadb|postgres]

All rounds are interleaved on a server that this program starts, with the durability that it has by
default, in DIRECTORY: commits wait for that disk. Figures are medians of the rounds. Other work on
the machine changes times, ratios much less."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cells  # noqa: E402
from figures import by_p50, by_rate, interleave, ratio  # noqa: E402
from programs import Run, Worker, file_system, load, processor_ns  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))

from sql_servers import (DATABASE, MARIADB_SOCKET, PASSWORD, USER, Server,  # noqa: E402
                         missing, program)

ROUNDS, RUN_MS = 5, 1000
CLIENTS, THREADS = 16, 64
DURABILITY = {
    "mariadb": "SELECT CONCAT('innodb_flush_log_at_trx_commit = ', "
               "@@innodb_flush_log_at_trx_commit, ', innodb_flush_method = ', "
               "@@innodb_flush_method, ', log_bin = ', @@log_bin, ', version ', VERSION())",
    "postgres": "SELECT string_agg(name || ' = ' || setting, ', ') FROM pg_settings WHERE name IN "
                "('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', "
                "'server_version')",
}
NAMES = {
    "bare": "bare prepared statements, same commits",
    "self": "holdfast, driven by the caller",
    "thread": "holdfast, thread of its own",
    "session": {"mariadb": "GET_LOCK, RELEASE_LOCK (no lease, no commit)",
                "postgres": "advisory lock (no lease, no commit)"},
    "key": "insert, delete on a unique key",
    "eager": "insert, delete, again without a pause",
    "single": "holdfast, a client each",
    "polled": "bare statements, polled each 1 ms",
    "own-self": "holdfast, layout=session, by the caller",
    "own-single": "holdfast, layout=session, a client each",
    "own-lone": "the same, driven by its caller",
}
# The same program with another URL.
OPTIONS = {"own-": "&layout=session", "many-": "&connections=8"}


class Spent:
    """Of the server: what its processes have had is not told apart here."""

    def __init__(self, server):
        self.server = server

    def spent_ns(self):
        return processor_ns(self.server.process.pid)


class Bench(Run):
    """One database, and its server."""

    def __init__(self, kind, worker, rounds, directory):
        super().__init__(Server(kind, directory).start())
        self.kind, self.worker, self.rounds = kind, worker, rounds
        socket = f"{directory}/{MARIADB_SOCKET}" if kind == "mariadb" else directory
        url = (f"{kind}://{USER}:{PASSWORD}@localhost:{self.server.port}/{DATABASE}"
               f"?socket={socket}&timeout=60000")
        self.arguments = (url, kind, socket, str(self.server.port))

    def name(self, who):
        name = NAMES[who]
        return name if isinstance(name, str) else name[self.kind]

    def start(self, who):
        url, *more = self.arguments
        prefix = next(filter(who.startswith, OPTIONS), "")
        return self.keep(Worker(Spent(self.server), self.worker, who.removeprefix(prefix),
                                url + OPTIONS.get(prefix, ""), *more))

    def workers(self, *subjects):
        return {who: self.start(who) for who in subjects}

    def settings(self):
        words = (["mariadb", "--no-defaults", "-BN", "-u", USER, f"-p{PASSWORD}", "-S",
                  self.arguments[2], "-e"] if self.kind == "mariadb" else
                 [program("psql"), "-h", self.arguments[2], "-p", str(self.server.port), "-U", USER,
                  "-d", DATABASE, "-Atc"])
        return subprocess.run([*words, DURABILITY[self.kind]], capture_output=True, text=True,
                              check=True).stdout.strip()

    def one_caller(self):
        self.table.head("LOCK + UNLOCK, one caller", "us", "x bare", "p99 us", "client us")
        figures = interleave(self.workers("bare", "self", "thread", "session", "own-self", "key"),
                             self.rounds, "pairs", 1, RUN_MS)
        self.table.rows(figures, self.name, cells.microseconds("p50", 1),
                        cells.times(figures["bare"], by_p50), cells.microseconds("p99"),
                        cells.per_pair("client"))
        for who in ("self", "thread"):
            self.table.aim(f"one caller, {NAMES[who]}, x bare",
                           ratio(figures[who], figures["bare"], by_p50), 1.2)
        self.table.aim("one caller, layout=session, x the bare calls",
                       ratio(figures["own-self"], figures["session"], by_p50), 1.15)
        self.stop()

    def one_lock(self):
        self.table.head(f"ONE LOCK, {CLIENTS} clients", "locks/s", "x key", "least", "most")
        figures = interleave(self.workers("key", "eager", "single", "session", "own-single",
                                          "own-lone", "polled"), self.rounds, "contention", CLIENTS,
                             RUN_MS)
        self.table.rows(figures, self.name, cells.rate(), cells.times(figures["key"], by_rate, 1),
                        cells.share("min", CLIENTS), cells.share("max", CLIENTS))
        print("  (least, most: a client's share, where 1 is even)")
        self.table.aim(f"{CLIENTS} on one lock, holdfast, x insert and delete",
                       ratio(figures["single"], figures["key"], by_rate), 10, False)
        self.table.aim(f"{CLIENTS} on one lock, holdfast, the least share",
                       figures["single"].share("min", CLIENTS), 0.5, False)
        self.table.aim(f"{CLIENTS} on one lock, layout=session, x the bare calls",
                       ratio(figures["own-single"], figures["session"], by_rate), 0.9, False)
        self.table.aim(f"{CLIENTS} on one lock, layout=session, the least share",
                       figures["own-single"].share("min", CLIENTS), 0.9, False)
        self.stop()

    def handover(self):
        self.table.head("HAND-OVER between two clients", "us", "x polled", "p99 us")
        figures = interleave(self.workers("polled", "single", "session", "own-single", "own-lone",
                                          "key"), self.rounds, "handover", RUN_MS)
        self.table.rows(figures, self.name, cells.microseconds("p50"),
                        cells.times(figures["polled"], by_p50), cells.microseconds("p99"))
        self.table.aim("hand-over, layout=session, x the bare calls",
                       ratio(figures["own-single"], figures["session"], by_p50), 1.3)
        self.stop()

    def threads(self):
        self.table.head(f"{THREADS} THREADS, a name each", "pairs/s", "x bare", "p99 us",
                        "client us")
        figures = interleave(self.workers("bare", "thread", "many-thread"), self.rounds, "pairs",
                             THREADS, RUN_MS)
        names = {"bare": f"bare statements, {THREADS} connections",
                 "thread": "holdfast, one client",
                 "many-thread": "holdfast, one client, connections=8"}
        self.table.rows(figures, names.get, cells.rate(), cells.times(figures["bare"], by_rate),
                        cells.microseconds("p99"), cells.per_pair("client"))
        self.table.aim(f"{THREADS} threads, connections=8, x one connection",
                       ratio(figures["many-thread"], figures["thread"], by_rate), 1.1, False)
        self.stop()

    def run(self):
        print(f"\n{self.kind}: {self.settings()}\nat a Unix socket; {self.rounds} rounds, medians; "
              f"load {load()}", flush=True)
        try:
            self.one_caller()
            self.one_lock()
            self.handover()
            self.threads()
            self.table.end()
        finally:
            self.stop()
            self.server.stop()


def main():
    worker, place, *flags = sys.argv[1:]
    kinds = [kind for kind in ("mariadb", "postgres")
             if "--only" not in flags or kind == flags[flags.index("--only") + 1]]
    place = os.path.abspath(place)
    os.makedirs(place, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sql-", dir=place) as directory:
        os.chmod(directory, 0o755)
        print(f"data on {file_system(directory)}", flush=True)
        for kind in kinds:
            if missing(kind):
                print(f"{kind}: {missing(kind)}")
            else:
                Bench(kind, worker, 1 if "--quick" in flags else ROUNDS,
                      f"{directory}/{kind}").run()


main()
