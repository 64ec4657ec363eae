#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with $HOLDFAST_TEST_URL naming ZooKeeper servers of its own, ended with it.

usage: with_zookeeper.py [--place tls|ensemble] PROGRAM [ARGUMENT...]
       with_zookeeper.py [--place tls|ensemble] --each PROGRAM...

The place is one server, one that is reached by TLS, or an ensemble of three. Several programs run
one after another at the same servers, and what they print is one list of tests.
"""

import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from certificate import make_certificate  # noqa: E402
from each_program import run_each  # noqa: E402
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PATIENCE = 120
STARTS = 5
JAVA = "/usr/share/java"
# Another version's jars are all in one folder. Debian's own jar does not name what TLS needs.
OTHER = os.environ.get("HOLDFAST_ZOOKEEPER_JARS")
JAR = OTHER or f"{JAVA}/zookeeper.jar"
JARS = f"{OTHER}/*" if OTHER else f"{JAVA}/netty-codec.jar:{JAVA}/netty-resolver.jar:{JAR}"
MEMBERS = 3
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


def connect(port, trusted):
    """With TLS, a machine's first handshake takes long: clients are not to wait for that."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    if not trusted:
        return connection
    context = ssl.create_default_context(cafile=trusted)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def is_ready(port, trusted):
    """Whether the server has read its data: "ruok" is answered before that, "srvr" is not."""
    try:
        with connect(port, trusted) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b"Mode:" in answer


def secure(directory, port):
    """What the server has to be told to listen at that port with TLS."""
    make_certificate(directory)
    with open(f"{directory}/shown.pem", "w", encoding="utf-8") as shown:
        for part in ("key", "crt"):
            with open(f"{directory}/server.{part}", encoding="utf-8") as file:
                shown.write(file.read())
    return (f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={directory}/shown.pem\nssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={directory}/server.crt\nssl.trustStore.type=PEM\n"
            "ssl.clientAuth=none\n")


class Server:
    """One that is starting, with its own folder."""

    def __init__(self, directory, secured=False, member=None):
        self.port, self.secure_port = free_port(), free_port() if secured else None
        self.directory, self.process = directory, None
        self.trusted = f"{directory}/server.crt" if secured else None
        os.makedirs(f"{directory}/data", exist_ok=True)
        if member:
            with open(f"{directory}/data/myid", "w", encoding="utf-8") as file:
                file.write(f"{member}\n")

    def start(self, more=""):
        config = f"{self.directory}/zoo.cfg"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"tickTime=600\ndataDir={self.directory}/data\nclientPort={self.port}\n"
                       "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
                       f"4lw.commands.whitelist=srvr\n{more}")
            file.write(secure(self.directory, self.secure_port) if self.trusted else "")
        self.process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
             "-Dzookeeper.forceSync=no", "-Dzookeeper.nio.numWorkerThreads=0", "-cp", JARS, MAIN,
             config],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)

    def becomes_ready(self):
        """Whether it does, or ends instead."""
        until = time.monotonic() + PATIENCE * float(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
        while not is_ready(self.secure_port or self.port, self.trusted):
            if self.process.poll() is not None:
                return False
            if time.monotonic() > until:
                sys.exit(f"with_zookeeper: a server is not ready after {PATIENCE} s")
            time.sleep(0.05)
        return True

    def stop(self):
        self.process.kill()
        self.process.wait()

    def url(self):
        if self.trusted:
            return f"zks://127.0.0.1:{self.secure_port}/holdfast?ca={self.trusted}"
        return f"zk://127.0.0.1:{self.port}/holdfast"


def start_one(directory, secured):
    server = Server(directory, secured)
    server.start()
    return [server], server.url()


def start_ensemble(directory):
    servers = [Server(f"{directory}/{number + 1}", member=number + 1) for number in range(MEMBERS)]
    # How many ticks a member may take to join, and to follow: a loaded machine is slow.
    more = "initLimit=200\nsyncLimit=100\n" + "".join(
        f"server.{number + 1}=127.0.0.1:{free_port()}:{free_port()}\n" for number in range(MEMBERS))
    for server in servers:
        server.start(more)
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return servers, f"zk://{hosts}/holdfast"


def start_somewhere(directory, place):
    """Somebody may take a port between our looking for it and a server's listening."""
    for turn in range(STARTS):
        folder = f"{directory}/{turn}"
        servers, url = (start_ensemble(folder) if place == "ensemble" else
                        start_one(folder, place == "tls"))
        if all(server.becomes_ready() for server in servers):
            return servers, url
        for server in servers:
            server.stop()
    sys.exit("with_zookeeper: the server does not start")


def main():
    words = sys.argv[1:]
    place = None
    if words[0] == "--place":
        place, *words = words[1:]
    if not os.path.exists(JAR) or not shutil.which("java"):
        skip("there is no ZooKeeper server: install Debian's packages libzookeeper-java and "
             "default-jre-headless")
    with tempfile.TemporaryDirectory(prefix="holdfast-zookeeper-",
                                     dir=scratch_place()) as directory:
        servers, url = start_somewhere(directory, place)
        environment = dict(os.environ, HOLDFAST_TEST_URL=url)
        if words[0] == "--each":
            status = run_each(words[1:], environment)
        else:
            status = subprocess.call(words, env=environment, preexec_fn=die_with_parent)
        for server in servers:
            server.stop()
    sys.exit(status if status >= 0 else 128 - status)


main()
