#!/usr/bin/env python3
"""format=simple against the real redis-py and node-redlock: who holds is respected both ways.

usage: test_simple.py PEERS_DIRECTORY HOLDFAST COUNTER
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON_PEER = "redis==5.0.8"
NODE_PEERS = ("redlock@4.2.0", "ioredis@5.4.1")
ROUNDS = 60
PATIENCE = 300
INSTALL_PATIENCE = 120
NAME = "shared"
BUSY = 75


class Skip(Exception):
    """Why a test cannot run here."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def install(mark, what, *commands):
    """Runs the commands once; a peer that cannot be had is a reason to skip."""
    if mark.exists():
        return
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  timeout=INSTALL_PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Skip(f"{what} cannot be installed: {type(error).__name__}") from error
        if done.returncode != 0:
            raise Skip(f"{what} cannot be installed")
    mark.touch()


class Peers:
    """Where the other clients are, installed when first asked for."""

    def __init__(self, place):
        self.place = pathlib.Path(place).resolve()
        self.place.mkdir(parents=True, exist_ok=True)

    def python(self, *arguments):
        interpreter = self.place / "venv/bin/python3"
        install(self.place / "python.done", PYTHON_PEER,
                [sys.executable, "-m", "venv", str(self.place / "venv")],
                [str(interpreter), "-m", "pip", "install", "-q", PYTHON_PEER])
        return [str(interpreter), str(HERE / "counter.py"), *arguments]

    def node(self, *arguments):
        if not shutil.which("node"):
            raise Skip("there is no node")
        install(self.place / "node.done", NODE_PEERS[0],
                ["npm", "install", "--prefix", str(self.place), "--no-audit", "--no-fund",
                 *NODE_PEERS])
        return ["node", str(HERE / "counter.js"), *arguments]


class Server:
    """A Redis server of the test's own."""

    def __init__(self, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}?format=simple"
        self.process = subprocess.Popen(
            ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", directory, "--logfile", f"{directory}/log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        until = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit("test_simple: redis-server does not start")
            time.sleep(0.01)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", int(self.port)), PATIENCE) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()


def status(command):
    return subprocess.run(command, timeout=PATIENCE, check=False).returncode


def counts_exactly(box, *commands):
    path = pathlib.Path(box.directory) / "count"
    path.write_text("0\n")
    running = [subprocess.Popen(command(path), preexec_fn=die_with_parent)
               for command in commands for _ in range(2)]
    codes = [process.wait(PATIENCE) for process in running]
    assert not any(codes), f"they ended with {codes}"
    total = int(path.read_text())
    assert total == ROUNDS * len(running), f"{total}, not {ROUNDS * len(running)}"


def a_counter_shared_with_redis_py_is_exact(box):
    box.peers.python()
    counts_exactly(box, box.ours,
                   lambda path: box.peers.python(box.server.port, NAME, str(path), str(ROUNDS)))


def a_counter_shared_with_node_redlock_is_exact(box):
    box.peers.node()
    counts_exactly(box, box.ours,
                   lambda path: box.peers.node(box.server.port, NAME, str(path), str(ROUNDS)))


def each_sees_what_the_other_holds(box, peer):
    free = peer(box.server.port, NAME, "-", "0")
    assert status(free) == 0, "it is not free at the beginning"
    assert status([box.holdfast, "-e", box.server.url, "try", NAME, "--", *free]) == BUSY
    assert status(free) == 0, "it is not free afterwards"


def redis_py_is_refused_what_we_hold(box):
    each_sees_what_the_other_holds(box, box.peers.python)


def node_redlock_is_refused_what_we_hold(box):
    each_sees_what_the_other_holds(box, box.peers.node)


class Box:
    """What a test needs."""

    def __init__(self, directory):
        self.directory = directory
        self.peers = Peers(sys.argv[1])
        self.holdfast, self.counter = sys.argv[2:4]
        self.server = Server(directory)

    def ours(self, path):
        return [self.counter, self.server.url, NAME, str(path), str(ROUNDS)]


TESTS = (a_counter_shared_with_redis_py_is_exact, redis_py_is_refused_what_we_hold,
         a_counter_shared_with_node_redlock_is_exact, node_redlock_is_refused_what_we_hold)


def run(number, test, box):
    try:
        test(box)
    except Skip as reason:
        print(f"ok {number} - {test.__name__} # SKIP {reason}", flush=True)
        return True
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"# {error}\nnot ok {number} - {test.__name__}", flush=True)
        return False
    print(f"ok {number} - {test.__name__}", flush=True)
    return True


def main():
    if not shutil.which("redis-server"):
        print("1..0 # SKIP there is no redis-server")
        return 0
    os.environ["HOLDFAST_PEERS"] = os.path.abspath(sys.argv[1])
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-simple-", dir=where) as directory:
        box = Box(directory)
        print(f"1..{len(TESTS)}")
        results = [run(number, test, box) for number, test in enumerate(TESTS, 1)]
        box.server.stop()
    return 0 if all(results) else 1


sys.exit(main())
