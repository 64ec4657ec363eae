# SPDX-License-Identifier: Apache-2.0
"""A ZooKeeper server of a test's own, and a look at what is in it that trusts no library."""

import os
import shutil
import socket
import struct
import subprocess
import time

from sides import PATIENCE, Skip, die_with_parent

JAR = "/usr/share/java/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
STARTS = 5
SESSION_MS = 40000
GET_DATA, GET_CHILDREN, SYNC, CLOSE = 4, 8, 9, -11
NO_NODE = -101


def need_a_server():
    if not os.path.exists(JAR) or not shutil.which("java"):
        raise Skip("there is no ZooKeeper server: install Debian's package zookeeper")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def text(string):
    return struct.pack(">i", len(string.encode())) + string.encode()


class Connection:
    """A session of a few questions, in the protocol itself."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.send(struct.pack(">iqiqi", 0, 0, SESSION_MS, 0, 16) + bytes(16) + b"\0")
        self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.ask(CLOSE, b"")
        self.stream.close()

    def send(self, payload):
        self.stream.sendall(struct.pack(">i", len(payload)) + payload)

    def exactly(self, count):
        got = b""
        while len(got) < count:
            more = self.stream.recv(count - len(got))
            if not more:
                raise OSError("the server has closed the connection")
            got += more
        return got

    def receive(self):
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def ask(self, operation, body):
        """What the server answers, or None: there is no such node."""
        self.send(struct.pack(">ii", 1, operation) + body)
        answer = self.receive()
        error = struct.unpack_from(">i", answer, 12)[0]
        if error not in (0, NO_NODE):
            raise OSError(f"the server answers with error {error}")
        return None if error else answer[16:]


class Keeper:
    """A standalone server. `settings` are lines for its configuration, `properties` for Java."""

    def __init__(self, directory, settings=(), properties=()):
        self.directory = directory
        for _ in range(STARTS):
            self.port = free_port()
            self.start(settings, properties)
            if self.comes_up():
                return
        raise AssertionError("the ZooKeeper server does not start")

    def start(self, settings, properties):
        config = f"{self.directory}/zoo.cfg"
        lines = [f"dataDir={self.directory}/data", f"clientPort={self.port}",
                 "clientPortAddress=127.0.0.1", "admin.enableServer=false",
                 "4lw.commands.whitelist=srvr", *settings]
        with open(config, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
             "-Dzookeeper.forceSync=no", "-Dzookeeper.nio.numWorkerThreads=0",
             *(f"-D{each}" for each in properties), "-cp", JAR, MAIN,
             config],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)

    def is_ready(self):
        """It answers "ruok" before it has read its data, but not "srvr"."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as stream:
                stream.sendall(b"srvr")
                said = b""
                while more := stream.recv(4096):
                    said += more
        except OSError:
            return False
        return b"Mode:" in said

    def comes_up(self):
        """False: it has ended, as it does when somebody else has the port."""
        until = time.monotonic() + 2 * PATIENCE
        while self.process.poll() is None:
            if self.is_ready():
                return True
            if time.monotonic() > until:
                self.stop()
                raise AssertionError("the ZooKeeper server is not ready in time")
            time.sleep(0.05)
        return False

    def children(self, path):
        """The names of the children, sorted; none if there is no such path."""
        with Connection(self.port) as connection:
            connection.ask(SYNC, text(path))
            answer = connection.ask(GET_CHILDREN, text(path) + b"\0")
        if answer is None:
            return []
        names, at = [], 4
        for _ in range(struct.unpack_from(">i", answer)[0]):
            length = struct.unpack_from(">i", answer, at)[0]
            names.append(answer[at + 4:at + 4 + length].decode())
            at += 4 + length
        return sorted(names)

    def data(self, path):
        """What is written in the node, or None: there is no such path."""
        with Connection(self.port) as connection:
            connection.ask(SYNC, text(path))
            answer = connection.ask(GET_DATA, text(path) + b"\0")
        if answer is None:
            return None
        length = struct.unpack_from(">i", answer)[0]
        return answer[4:4 + max(length, 0)]

    def stop(self):
        self.process.kill()
        self.process.wait()
