# SPDX-License-Identifier: Apache-2.0
"""What a run of the benchmark is made of: its server, and the other libraries."""

import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from programs import (PATIENCE, Missing, Worker, die_with_parent, install,  # noqa: E402
                      processor_ns)

CURATOR, KAZOO = "5.9.0", "kazoo==2.11.0"
ANSWER_SECONDS = 20
JAR = "/usr/share/java/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def free_port():
    """None that the kernel gives to whoever connects, which would be ourselves while we look
    whether the server is there. Who takes it all the same makes the server end, and us say so."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A ZooKeeper server of our own, which syncs nothing; sessions may be as long as they like, so
    that those of a crowd say little while others are counted."""

    def __init__(self, directory):
        if not os.path.exists(JAR) or not shutil.which("java"):
            raise SystemExit("bench-zookeeper: there is no ZooKeeper server; install Debian's "
                             "packages libzookeeper-java and default-jre-headless")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        config = pathlib.Path(directory, "zoo.cfg")
        config.write_text(f"dataDir={directory}/data\nclientPort={self.port}\ntickTime=2000\n"
                          "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                          "maxClientCnxns=0\nmaxSessionTimeout=4000000\n"
                          "4lw.commands.whitelist=srvr,mntr\n", encoding="utf-8")
        self.process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-Xmx1g", "-Dzookeeper.forceSync=no", "-cp", JAR, MAIN,
             str(config)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        until = time.monotonic() + PATIENCE
        while "Mode:" not in self.ask("srvr"):
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"bench-zookeeper: the server does not start on {self.address}")
            time.sleep(0.05)

    def ask(self, word):
        answer = b""
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS) as stream:
                stream.sendall(word.encode())
                while more := stream.recv(65536):
                    answer += more
        return answer.decode(errors="replace")

    def counters(self):
        """What it has heard and said so far, with this question."""
        words = dict(line.split("\t", 1) for line in self.ask("mntr").splitlines() if "\t" in line)
        return int(words["zk_packets_received"]), int(words["zk_packets_sent"])

    def spent_ns(self):
        """In ticks of the kernel's, which are long: of use over many pairs only."""
        return processor_ns(self.process.pid)

    def version(self):
        return self.ask("srvr").split("version: ", 1)[-1].split("-", 1)[0]

    def stop(self):
        self.process.kill()
        self.process.wait()


def curator(server, place):
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            raise Missing(f"Curator: there is no {tool}")
    classes = place / "curator"
    install(place / f"curator-{CURATOR}", f"Curator {CURATOR}",
            ["mvn", "-q", "-B", "-f", str(HERE.parent.parent / "tests/interop/zookeeper/pom.xml"),
             f"-Dcurator.version={CURATOR}", f"-DoutputDirectory={classes}",
             "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"])
    return Worker(server, "java", "-Xmx512m", "-cp", f"{classes}/*", str(HERE / "Peer.java"),
                  server.address, quiet=True)


def kazoo(server, place):
    interpreter = place / "venv-kazoo/bin/python3"
    install(place / "kazoo", KAZOO, ["python3", "-m", "venv", str(place / "venv-kazoo")],
            [str(interpreter), "-m", "pip", "install", "-q", KAZOO])
    return Worker(server, str(interpreter), str(HERE / "peer.py"), str(server.port))
