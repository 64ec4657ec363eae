"""What a run of the benchmark is made of: servers, workers, other libraries, what they cost."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/lib"))
from nothing_left import die_with_parent  # noqa: E402

REDISSON, REDIS_PY, NODE = "4.7.0", "redis==5.0.8", ("redlock@4.2.0", "ioredis@5.4.1")
INSTALL_SECONDS = 180
# Nothing that is measured takes so long, however busy the machine is.
PATIENCE = 300
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Missing(Exception):
    """Another library cannot be had here; the text says why."""


def schedule_ns(pid):
    """What a process with one busy thread has had of the processors."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def processor_ns(pid):
    """The same with all threads, and all children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) * TICK_NS


class Server:
    """A Redis server of our own, which keeps nothing."""

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
            preexec_fn=die_with_parent)
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

    def version(self):
        lines = self.ask("INFO", "server").split("\r\n")
        return next(line[14:] for line in lines if line.startswith("redis_version:"))

    def stop(self):
        self.process.kill()
        self.process.wait()


class Worker:
    """A program that measures what it is told to: an order a line, and so the answers."""

    def __init__(self, server, *command, quiet=False, **environment):
        self.server = server
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if quiet else None, env=os.environ | environment,
            preexec_fn=die_with_parent)

    def order(self, *words):
        """The figures of the answer, and what server and client had of the processors for it."""
        server, client = schedule_ns(self.server.process.pid), processor_ns(self.process.pid)
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            raise SystemExit(f"bench-redis: {self.process.args} has ended before its time")
        figures = {word: float(number) for word, number in (part.split("=") for part in answer)}
        figures["server_ns"] = schedule_ns(self.server.process.pid) - server
        figures["client_ns"] = processor_ns(self.process.pid) - client
        return figures

    def stop(self):
        self.process.kill()
        self.process.wait()


def install(mark, what, *commands):
    if mark.exists():
        return
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  timeout=INSTALL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{what} cannot be installed: {type(error).__name__}") from error
        if done.returncode != 0:
            raise Missing(f"{what} cannot be installed: {command[0]} failed")
    mark.touch()


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
