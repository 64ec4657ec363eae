# SPDX-License-Identifier: Apache-2.0
"""Programs that are measured, what they cost, how other libraries are had, and the machine."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))

from figures import Table  # noqa: E402
from nothing_left import die_with_parent  # noqa: E402

INSTALL_SECONDS = 180
# Nothing that is measured takes so long, however busy the machine is.
PATIENCE = 300
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Missing(Exception):
    """Another library cannot be had here; the text says why."""


def schedule_ns(pid):
    """What a process with one busy thread has had of the processors."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def processor_ns(pid):
    """The same with all threads, and all children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) * TICK_NS


class Worker:
    """A program that measures what it is told to: an order a line, and so the answers."""

    def __init__(self, server, *command, quiet=False, **environment):
        self.server = server
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if quiet else None, env=os.environ | environment,
            preexec_fn=die_with_parent)

    def order(self, *words):
        """The figures of the answer, and what server and client had of the processors for it."""
        server, client = self.server.spent_ns(), processor_ns(self.process.pid)
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            raise SystemExit(f"bench: {self.process.args} has ended before its time")
        figures = {word: float(number) for word, number in (part.split("=") for part in answer)}
        figures["server_ns"] = self.server.spent_ns() - server
        figures["client_ns"] = processor_ns(self.process.pid) - client
        return figures

    def stop(self):
        self.process.kill()
        self.process.wait()


class Run:
    """A server, the table, and the programs that the present section has started."""

    def __init__(self, server):
        self.server, self.table, self.started = server, Table(), []

    def keep(self, worker):
        self.started.append(worker)
        return worker

    def keep_others(self, others, place, warm_up_ms):
        """Those that can be had, warm; why not, for the rest."""
        found = {}
        for who, start in others.items():
            try:
                found[who] = self.keep(start(self.server, place))
                found[who].order("pairs", 4, warm_up_ms)
            except Missing as reason:
                self.table.row(who, str(reason))
        return found

    def stop(self):
        for worker in self.started:
            worker.stop()
        self.started.clear()


def load():
    return pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[0]


def file_system(directory):
    return subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True,
                          check=True).stdout.strip()


def install(mark, what, *commands):
    if mark.exists():
        return
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  timeout=INSTALL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{what} cannot be installed: {type(error).__name__}") from error
        if done.returncode != 0:
            raise Missing(f"{what} cannot be installed: {command[0]} failed")
    mark.touch()
