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
from sides import (Skip, die_with_parent, need, run, scratch, skip_all,  # noqa: E402
                   wait_until)
from turns import SCENES  # noqa: E402

TOOZ = ("tooz==9.1.0", "pymemcache==4.0.0")
INSTALL_PATIENCE = 180
NAME = "shared"
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
        self.name = NAME
        self.url = f"memcached://127.0.0.1:{server.port}?format={library}"
        self.peers = peers

    def peer(self, *arguments):
        words = (str(self.server.port), NAME, *arguments)
        return (self.peers.tooz(*words) if self.library == "tooz"
                else self.peers.php(self.library, *words))

    def ours(self, *arguments):
        return [self.holdfast, "-e", self.url, *arguments]


def main():
    try:
        need("memcached")
    except Skip as reason:
        skip_all(reason)
    with scratch() as directory:
        server, peers = Server(), Peers(sys.argv[1])
        try:
            return run([(f"{library}_{test.__name__}", (library, test))
                        for library in ("symfony", "laravel", "tooz") for test in SCENES],
                       lambda played: played[1](Box(directory, server, peers, played[0])))
        finally:
            server.stop()


sys.exit(main())
