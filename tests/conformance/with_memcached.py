#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with $HOLDFAST_TEST_URL naming a memcached server of its own, which ends with it.

usage: with_memcached.py [--place KIND] PROGRAM...

KIND is unix, tcp, tls, auth (a user and a password), several (three servers share the names),
symfony, laravel or tooz (the format of that library).
"""

import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from certificate import make_certificate  # noqa: E402
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PATIENCE = 20 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
# No test here has a server that is silent, but machines are slow.
PATIENT = "timeout=60000"

servers = []


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def free_port():
    """Below those that the kernel gives to a client, so that it stays free."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def start(family, address, *arguments):
    """A server that lets in at this address. A lock is small, so 16 MB are many."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    server = subprocess.Popen(["memcached", "-m", "16", "-t", "2", "-U", "0", *user, *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
    servers.append(server)
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket(family) as connection:
            try:
                connection.connect(address)
                return
            except OSError:
                if server.poll() is not None or time.monotonic() > until:
                    sys.exit(f"with_memcached: no memcached at {address}; status {server.poll()}")
                time.sleep(0.01)


def start_tcp(*arguments):
    port = free_port()
    start(socket.AF_INET, ("127.0.0.1", port), "-l", "127.0.0.1", "-p", str(port), *arguments)
    return port


def place(kind, directory):
    """Starts what is needed; the URL by which it is reached."""
    if kind == "tcp":
        return f"memcached://127.0.0.1:{start_tcp()}?{PATIENT}"
    if kind == "several":
        hosts = ",".join(f"127.0.0.1:{start_tcp()}" for _ in range(3))
        return f"memcached://{hosts}?{PATIENT}"
    if kind == "tls":
        make_certificate(directory)
        certificate, key = f"{directory}/server.crt", f"{directory}/server.key"
        port = start_tcp("-Z", "-o", f"ssl_chain_cert={certificate},ssl_key={key}")
        return f"memcacheds://127.0.0.1:{port}?ca={certificate}&{PATIENT}"
    path, more = f"{directory}/memcached.sock", []
    if kind == "auth":
        pathlib.Path(directory, "users").write_text("locks:not-a-secret\n", encoding="ascii")
        more = ["-Y", f"{directory}/users"]
    start(socket.AF_UNIX, path, "-s", path, *more)
    user = "locks:not-a-secret@" if kind == "auth" else ""
    options = f"&format={kind}" if kind in ("symfony", "laravel", "tooz") else ""
    return f"memcached+unix://{user}{path}?{PATIENT}{options}"


def main():
    arguments, kind = sys.argv[1:], "unix"
    if arguments[0] == "--place":
        kind, arguments = arguments[1], arguments[2:]
    if not shutil.which("memcached"):
        skip("there is no memcached")
    with tempfile.TemporaryDirectory(prefix="holdfast-memcached-",
                                     dir=scratch_place()) as directory:
        try:
            url = place(kind, directory)
            status = subprocess.call(arguments, env=dict(os.environ, HOLDFAST_TEST_URL=url),
                                     preexec_fn=die_with_parent)
        finally:
            for server in servers:
                server.kill()
                server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
