#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""format=simple and a quorum beside redis-py, node-redlock and redsync: each respects the others.

usage: test_simple.py PEERS_DIRECTORY HOLDFAST COUNTER
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from registry import build_with_go, fetch  # noqa: E402
from sides import (PATIENCE, Server, Skip, die_with_parent, equal, need, run, scratch,  # noqa: E402
                   skip_all)

PYTHON_PEER = "redis==5.0.8"
NODE_PEERS = ("redlock@4.2.0", "ioredis@5.4.1")
ROUNDS = 60
INSTALL_PATIENCE = 120
# They take turns by chance, and wait longer and longer in between.
LONG = 5 * PATIENCE
NAME = "shared"
BUSY = 75


def install(mark, registry, *commands):
    """Runs the commands once."""
    if not mark.exists():
        fetch(registry, commands, INSTALL_PATIENCE)
        mark.touch()


class Peers:
    """Where the other clients are, installed when first asked for."""

    def __init__(self, place):
        self.place = pathlib.Path(place).resolve()
        self.place.mkdir(parents=True, exist_ok=True)
        self.built = False

    def python(self, *arguments):
        interpreter = self.place / "venv/bin/python3"
        install(self.place / "python.done", "PyPI",
                [sys.executable, "-m", "venv", str(self.place / "venv")],
                [str(interpreter), "-m", "pip", "install", "-q", "--retries", "0", "--timeout",
                 "15", PYTHON_PEER])
        return [str(interpreter), str(HERE / "counter.py"), *arguments]

    def node(self, *arguments):
        need("node")
        install(self.place / "node.done", "npm's registry",
                ["npm", "install", "--prefix", str(self.place), "--no-audit", "--no-fund",
                 "--fetch-retries=0", "--fetch-timeout=30000", *NODE_PEERS])
        return ["node", str(HERE / "counter.js"), *arguments]

    def go(self, *arguments):
        program = self.place / "redsync"
        if not self.built:
            # What is there already is not fetched again: without a mark, the sources may change.
            build_with_go(str(HERE / "redsync"), program)
            self.built = True
        return [str(program), *arguments]


def status(command):
    return subprocess.run(command, timeout=LONG, check=False).returncode


def counts_exactly(box, *commands):
    path = pathlib.Path(box.directory) / "count"
    path.write_text("0\n")
    running = [subprocess.Popen(command(path), preexec_fn=die_with_parent)
               for command in commands for _ in range(2)]
    codes = [process.wait(LONG) for process in running]
    assert not any(codes), f"they ended with {codes}"
    total = int(path.read_text())
    assert total == ROUNDS * len(running), f"{total}, not {ROUNDS * len(running)}"


def a_counter_shared_with_redis_py_is_exact(box):
    box.peers.python()
    counts_exactly(box, box.ours,
                   lambda path: box.peers.python(box.port, NAME, str(path), str(ROUNDS)))


def a_counter_shared_with_node_redlock_is_exact(box):
    box.peers.node()
    counts_exactly(box, box.ours,
                   lambda path: box.peers.node(box.port, NAME, str(path), str(ROUNDS)))


def a_counter_shared_with_redsync_is_exact(box):
    box.peers.go()
    counts_exactly(box, box.ours,
                   lambda path: box.peers.go(box.port, NAME, str(path), str(ROUNDS)))


def a_counter_shared_with_node_redlock_at_a_quorum_is_exact(box):
    box.peers.node()
    counts_exactly(box, lambda path: box.ours(path, box.quorum_url),
                   lambda path: box.peers.node(box.quorum_ports, NAME, str(path), str(ROUNDS)))


def each_sees_what_the_other_holds(box, peer, ports=None, url=None):
    free = peer(ports or box.port, NAME, "-", "0")
    assert status(free) == 0, "it is not free at the beginning"
    assert status([box.holdfast, "-e", url or box.url, "try", NAME, "--", *free]) == BUSY
    assert status(free) == 0, "it is not free afterwards"


def redis_py_is_refused_what_we_hold(box):
    each_sees_what_the_other_holds(box, box.peers.python)


def node_redlock_is_refused_what_we_hold(box):
    each_sees_what_the_other_holds(box, box.peers.node)


def redsync_is_refused_what_we_hold(box):
    each_sees_what_the_other_holds(box, box.peers.go)


def node_redlock_is_refused_what_we_hold_at_a_quorum(box):
    each_sees_what_the_other_holds(box, box.peers.node, box.quorum_ports, box.quorum_url)


def we_are_refused_what_they_hold(box, peer, ports=None, url=None):
    """And whoever waits for it has it when they give it back."""
    ours = [box.holdfast, "-e", url or box.url]
    took = [*ours, "try", NAME, "--", "true"]
    assert status(took) == 0, "it is not free at the beginning"
    holder = subprocess.Popen(peer(ports or box.port, NAME, "-", "hold"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    equal(holder.stdout.readline(), "held\n", "what the holder says")
    assert status(took) == BUSY, "it is not refused"
    waiter = subprocess.Popen([*ours, "run", "-w", f"{LONG}s", NAME, "--", "true"],
                              preexec_fn=die_with_parent)
    assert status(took) == BUSY, "it is not refused any more"
    assert waiter.poll() is None, "who waits has it too early"
    holder.communicate("\n", timeout=LONG)
    equal(holder.returncode, 0, "how the holder ends")
    equal(waiter.wait(LONG), 0, "how the waiter ends")
    assert status(took) == 0, "it is not free afterwards"


def we_are_refused_what_redis_py_holds(box):
    we_are_refused_what_they_hold(box, box.peers.python)


def we_are_refused_what_node_redlock_holds(box):
    we_are_refused_what_they_hold(box, box.peers.node)


def we_are_refused_what_node_redlock_holds_at_a_quorum(box):
    we_are_refused_what_they_hold(box, box.peers.node, box.quorum_ports, box.quorum_url)


class Box:
    """What a test needs."""

    def __init__(self, directory):
        self.directory = directory
        self.peers = Peers(sys.argv[1])
        self.holdfast, self.counter = sys.argv[2:4]
        self.servers = [Server(directory) for _ in range(3)]
        self.url, self.port = self.servers[0].url + "?format=simple", str(self.servers[0].port)
        self.quorum_url = "quorum:" + ",".join(server.url for server in self.servers)
        self.quorum_ports = ",".join(str(server.port) for server in self.servers)

    def ours(self, path, url=None):
        return [self.counter, url or self.url, NAME, str(path), str(ROUNDS)]


TESTS = (a_counter_shared_with_redis_py_is_exact, redis_py_is_refused_what_we_hold,
         we_are_refused_what_redis_py_holds,
         a_counter_shared_with_node_redlock_is_exact, node_redlock_is_refused_what_we_hold,
         we_are_refused_what_node_redlock_holds,
         a_counter_shared_with_redsync_is_exact, redsync_is_refused_what_we_hold,
         a_counter_shared_with_node_redlock_at_a_quorum_is_exact,
         node_redlock_is_refused_what_we_hold_at_a_quorum,
         we_are_refused_what_node_redlock_holds_at_a_quorum)


def main():
    try:
        need("redis-server")
    except Skip as reason:
        skip_all(reason)
    os.environ["HOLDFAST_PEERS"] = os.path.abspath(sys.argv[1])
    with scratch() as directory:
        box = Box(directory)
        try:
            return run([(test.__name__, test) for test in TESTS], lambda test: test(box))
        finally:
            for server in box.servers:
                server.stop()


sys.exit(main())
