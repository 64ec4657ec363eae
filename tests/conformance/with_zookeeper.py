#!/usr/bin/env python3
"""Runs a program with $HOLDFAST_TEST_URL naming a ZooKeeper server of its own, ended with it."""

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
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PATIENCE = 120
STARTS = 5
JAR = "/usr/share/java/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def free_port():
    """None that the system gives away by itself: the server takes seconds to get to listening."""
    while True:
        port = random.randrange(16000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_ready(port):
    """Whether the server has read its data: "ruok" is answered before that, "srvr" is not."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b"Mode:" in answer


def start(directory):
    port = free_port()
    config = f"{directory}/zoo.cfg"
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"tickTime=600\ndataDir={directory}/data\nclientPort={port}\n"
                   "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
                   "4lw.commands.whitelist=srvr\n")
    server = subprocess.Popen(
        ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
         "-Dzookeeper.forceSync=no", "-cp", JAR, MAIN, config],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent)
    until = time.monotonic() + PATIENCE * float(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
    while not is_ready(port):
        if server.poll() is not None:
            return None, port
        if time.monotonic() > until:
            server.kill()
            sys.exit(f"with_zookeeper: the server is not ready after {PATIENCE} s")
        time.sleep(0.05)
    return server, port


def start_somewhere(directory):
    """Somebody may take the port between our looking for it and the server's listening."""
    for _ in range(STARTS):
        server, port = start(directory)
        if server:
            return server, port
    sys.exit("with_zookeeper: the server does not start")


def main():
    if not os.path.exists(JAR) or not shutil.which("java"):
        skip("there is no ZooKeeper server: install Debian's packages libzookeeper-java and "
             "default-jre-headless")
    with tempfile.TemporaryDirectory(prefix="holdfast-zookeeper-",
                                     dir=scratch_place()) as directory:
        server, port = start_somewhere(directory)
        environment = dict(os.environ, HOLDFAST_TEST_URL=f"zk://127.0.0.1:{port}/holdfast")
        status = subprocess.call(sys.argv[1:], env=environment)
        server.kill()
        server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
