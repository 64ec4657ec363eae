# SPDX-License-Identifier: Apache-2.0
"""What a run of the benchmark is made of: its server, and the other libraries."""

import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from programs import (PATIENCE, Missing, Worker, die_with_parent, install,  # noqa: E402
                      schedule_ns)

REDISSON, REDIS_PY, NODE = "4.7.0", "redis==5.0.8", ("redlock@4.2.0", "ioredis@5.4.1")


class Server:
    """A Redis server of our own, which keeps nothing. As any daemon it has a session to itself: the
    kernel shares processors out by sessions, and would count it as one of the clients."""

    def __init__(self, directory):
        if not shutil.which("redis-server"):
            raise SystemExit("bench-redis: there is no redis-server")
        self.path = f"{directory}/redis.sock"
        # Whoever takes the port between these lines makes the server end, and us say so.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket",
             self.path, "--save", "", "--appendonly", "no", "--dir", directory, "--logfile",
             f"{directory}/log"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent, start_new_session=True)
        until = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"bench-redis: redis-server does not start on {self.address}")
            time.sleep(0.02)

    def answers(self):
        with contextlib.suppress(OSError):
            return f"process_id:{self.process.pid}" in self.ask("INFO", "server")
        return False

    def ask(self, *words):
        command = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as stream:
            stream.sendall(command.encode() + b"*1\r\n$4\r\nQUIT\r\n")
            answer = b""
            while more := stream.recv(65536):
                answer += more
        return answer.decode(errors="replace").removesuffix("+OK\r\n")

    def memory(self):
        lines = self.ask("INFO", "memory").split("\r\n")
        return next(int(line[12:]) for line in lines if line.startswith("used_memory:"))

    def spent_ns(self):
        return schedule_ns(self.process.pid)

    def version(self):
        lines = self.ask("INFO", "server").split("\r\n")
        return next(line[14:] for line in lines if line.startswith("redis_version:"))

    def stop(self):
        self.process.kill()
        self.process.wait()


def redisson(server, place):
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            raise Missing(f"Redisson: there is no {tool}")
    classes = place / "redisson"
    install(place / f"redisson-{REDISSON}", f"Redisson {REDISSON}",
            ["mvn", "-q", "-B", "-f", str(HERE.parent.parent / "tests/interop/redisson/pom.xml"),
             f"-Dredisson.version={REDISSON}", f"-DoutputDirectory={classes}",
             "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"])
    return Worker(server, "java", "-Xmx512m", "-cp", f"{classes}/*", str(HERE / "Peer.java"),
                  f"redis://{server.address}", quiet=True)


def redis_py(server, place):
    interpreter = place / "venv/bin/python3"
    install(place / "redis-py", REDIS_PY, ["python3", "-m", "venv", str(place / "venv")],
            [str(interpreter), "-m", "pip", "install", "-q", REDIS_PY])
    return Worker(server, str(interpreter), str(HERE / "peer.py"), str(server.port))


def node_redlock(server, place):
    if not shutil.which("node"):
        raise Missing("node-redlock: there is no node")
    install(place / "node", "node-redlock",
            ["npm", "install", "--silent", "--prefix", str(place), *NODE])
    return Worker(server, "node", str(HERE / "peer.js"), str(server.port),
                  NODE_PATH=str(place / "node_modules"))
