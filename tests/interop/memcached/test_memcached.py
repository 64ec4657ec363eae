#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks at memcached that are shared with Symfony, Laravel and tooz: each respects the others.

usage: test_memcached.py PEERS_DIRECTORY HOLDFAST COUNTER
"""

import os
import pathlib
import random
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from registry import fetch  # noqa: E402
from sides import (PATIENCE, Skip, die_with_parent, equal, need, run, scratch,  # noqa: E402
                   skip_all, wait_until)

TOOZ = ("tooz==9.1.0", "pymemcache==4.0.0")
ROUNDS = 60
INSTALL_PATIENCE = 180
# They take turns by chance, and wait longer and longer in between.
LONG = 5 * PATIENCE
NAME = "shared"
BUSY = 75
PHP = {"symfony": "/usr/share/php/Symfony/Component/Lock/autoload.php",
       "laravel": "/usr/share/php/Illuminate/Cache/autoload.php"}


class Server:
    """A memcached server on a free port."""

    def __init__(self):
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.port = random.randrange(10000, 30000)
        self.process = subprocess.Popen(
            ["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", *user],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        wait_until(lambda: self.ask("version").startswith(b"VERSION"), "memcached answers")

    def ask(self, command):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as stream:
                stream.sendall(command.encode() + b"\r\n")
                return stream.recv(4096)
        except OSError:
            return b""

    def stop(self):
        self.process.kill()
        self.process.wait()


class Peers:
    """The commands of the other libraries, installed when first asked for."""

    def __init__(self, place):
        self.place = pathlib.Path(place).resolve()
        self.place.mkdir(parents=True, exist_ok=True)

    def php(self, library, *arguments):
        need("php")
        if not os.path.exists(PHP[library]):
            raise Skip(f"there is no {PHP[library]}")
        modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
        if "memcached" not in modules.split():
            raise Skip("PHP has no module memcached")
        return ["php", str(HERE / "counter.php"), library, *arguments]

    def tooz(self, *arguments):
        interpreter, mark = self.place / "venv/bin/python3", self.place / "tooz.done"
        if not mark.exists():
            fetch("PyPI", [[sys.executable, "-m", "venv", str(self.place / "venv")],
                           [str(interpreter), "-m", "pip", "install", "-q", "--retries", "0",
                            "--timeout", "15", *TOOZ]], INSTALL_PATIENCE)
            mark.touch()
        return [str(interpreter), str(HERE / "tooz_peer.py"), *arguments]


class Box:
    """One library, and holdfast in its format, at one server."""

    def __init__(self, directory, server, peers, library):
        self.directory, self.server, self.library = directory, server, library
        self.holdfast, self.counter = sys.argv[2:4]
        self.url = f"memcached://127.0.0.1:{server.port}?format={library}"
        self.peers = peers

    def peer(self, *arguments):
        words = (str(self.server.port), NAME, *arguments)
        return (self.peers.tooz(*words) if self.library == "tooz"
                else self.peers.php(self.library, *words))

    def ours(self, *arguments):
        return [self.holdfast, "-e", self.url, *arguments]


def status(command):
    return subprocess.run(command, timeout=LONG, check=False).returncode


def a_shared_counter_is_exact(box):
    path = pathlib.Path(box.directory) / "count"
    path.write_text("0\n", encoding="ascii")
    commands = [box.peer(str(path), str(ROUNDS)),
                [box.counter, box.url, NAME, str(path), str(ROUNDS)]]
    running = [subprocess.Popen(command, preexec_fn=die_with_parent)
               for command in commands for _ in range(2)]
    equal([process.wait(LONG) for process in running], [0] * 4, "how they end")
    equal(int(path.read_text(encoding="ascii")), 4 * ROUNDS, "the count")


def the_peer_is_refused_what_we_hold(box):
    free = box.peer("-", "0")
    equal(status(free), 0, "whether it is free at the beginning")
    equal(status(box.ours("try", NAME, "--", *free)), BUSY, "what it answers while we hold it")
    equal(status(free), 0, "whether it is free afterwards")


def we_are_refused_what_the_peer_holds(box):
    """And the waiter has it when the peer gives it back."""
    took = box.ours("try", NAME, "--", "true")
    equal(status(took), 0, "whether it is free at the beginning")
    holder = subprocess.Popen(box.peer("-", "hold"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    equal(holder.stdout.readline(), "held\n", "what the holder says")
    equal(status(took), BUSY, "what we are answered")
    shown = subprocess.run(box.ours("show", NAME), capture_output=True, text=True, check=True)
    assert "held" in shown.stdout, shown.stdout
    waiter = subprocess.Popen(box.ours("run", "-w", f"{LONG}s", NAME, "--", "true"),
                              preexec_fn=die_with_parent)
    equal(status(took), BUSY, "what we are answered then")
    assert waiter.poll() is None, "the waiter has it too early"
    holder.communicate("\n", timeout=LONG)
    equal(holder.returncode, 0, "how the holder ends")
    equal(waiter.wait(LONG), 0, "how the waiter ends")
    equal(status(took), 0, "whether it is free afterwards")


TESTS = (a_shared_counter_is_exact, the_peer_is_refused_what_we_hold,
         we_are_refused_what_the_peer_holds)


def main():
    try:
        need("memcached")
    except Skip as reason:
        skip_all(reason)
    with scratch() as directory:
        server, peers = Server(), Peers(sys.argv[1])
        try:
            return run([(f"{library}_{test.__name__}", (library, test))
                        for library in ("symfony", "laravel", "tooz") for test in TESTS],
                       lambda played: played[1](Box(directory, server, peers, played[0])))
        finally:
            server.stop()


sys.exit(main())
