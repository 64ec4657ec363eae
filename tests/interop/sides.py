# SPDX-License-Identifier: Apache-2.0
"""What tests of sharing have in common: a server of their own, programs that do as they are told, a
line an order, and TAP."""

import os
import pathlib
import queue
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from nothing_left import die_with_parent, scratch_place  # noqa: E402

# Seconds; only a failure waits so long.
SLOW = int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
PATIENCE = int(os.environ.get("HOLDFAST_PATIENCE", "60")) * SLOW
# Nobody who waits for this lease to end by itself is done before its patience is.
LONG_LEASE_MS = 1000 * (10 * PATIENCE)
FOR_EVER = -1
# Of holds without a lease of their own, on both sides: renewed every two seconds.
LEASE_MS = 6000


MASTERS, SLOTS = 3, 16384
DONE = b"+OK\r\n"


class Skip(Exception):
    """The test cannot run here; the text says why."""


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def wait_until(condition, what):
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"after {PATIENCE} s still not: {what}")
        time.sleep(0.01)


def command_of(words):
    parts = [f"*{len(words)}"]
    for word in words:
        parts += [f"${len(word.encode())}", word]
    return "".join(f"{part}\r\n" for part in parts).encode()


class Server:
    """A Redis server on a port that the kernel gives to nobody who only connects."""

    # What the test says before it asks anything, and what Java has to be told to come here.
    before, java_options = (), ()
    # What the test says at last, and the answer to that.
    last, farewell = "QUIT", DONE

    def __init__(self, directory, *options, environment=None):
        self.directory, self.options = directory, options
        for _ in range(20):
            self.port = random.randrange(10000, 30000)
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                env=environment, preexec_fn=die_with_parent)
            if self.comes_up():
                self.url = f"redis://127.0.0.1:{self.port}"
                return
        raise AssertionError("redis-server does not start")

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no", "--dir", self.directory, "--logfile",
                f"{self.directory}/log", *self.options, *self.more()]

    def more(self):
        """Options that are others each time it is tried."""
        return ()

    def comes_up(self):
        """False: it has ended, as it does when somebody else has the port."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            try:
                own = f"process_id:{self.process.pid}\r\n".encode()
                if own in self.ask("INFO", "server"):
                    return True
            except OSError:
                pass
            time.sleep(0.02)
        return False

    def ask(self, *words):
        """What the server answers, as it comes."""
        commands = b"".join(map(command_of, (*self.before, words, (self.last,))))
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as stream:
            stream.sendall(commands)
            answer = b""
            while more := stream.recv(65536):
                answer += more
                if self.last != "QUIT" and answer.endswith(self.farewell):
                    break
        return answer.removeprefix(DONE * len(self.before)).removesuffix(self.farewell)

    def listeners(self, channel):
        return int(self.ask("PUBSUB", "NUMSUB", channel).split(b"\r\n")[-2].lstrip(b":"))

    def stop(self):
        self.process.kill()
        self.process.wait()


class Node(Server):
    def more(self):
        # A bus port that nobody gets who only connects, either.
        self.bus = str(random.randrange(10000, 30000))
        return ("--cluster-enabled", "yes", "--cluster-port", self.bus,
                "--cluster-announce-ip", "127.0.0.1")

    def is_whole(self):
        info = self.ask("CLUSTER", "INFO")
        return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % MASTERS in info


class Cluster:
    """A Redis Cluster of masters: slots, and messages that are heard at a lock's own server."""

    java_options = ()

    def __init__(self, directory):
        self.nodes = []
        try:
            self.bring_up(directory)
        except BaseException:
            self.stop()
            raise
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis+cluster://{hosts}"

    def bring_up(self, directory):
        for number in range(MASTERS):
            os.mkdir(f"{directory}/{number}")
            self.nodes.append(Node(f"{directory}/{number}"))
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(number * SLOTS // MASTERS),
                     str((number + 1) * SLOTS // MASTERS - 1))
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), node.bus)
        for node in self.nodes:
            wait_until(node.is_whole, "the cluster is up")

    def ask(self, *words):
        """What the server answers that has the key."""
        for node in self.nodes:
            answer = node.ask(*words)
            if not answer.startswith(b"-MOVED"):
                return answer
        raise AssertionError(f"no server answers {words}")

    def listeners(self, channel):
        answers = [node.ask("PUBSUB", "SHARDNUMSUB", channel) for node in self.nodes]
        return sum(int(answer.split(b"\r\n")[-2].lstrip(b":")) for answer in answers)

    def stop(self):
        for node in self.nodes:
            node.stop()


class Side:
    """A program that does what it is told, in threads that have names."""

    def __init__(self, what, command, environment=None):
        self.what = what
        self.answers, self.lock = {}, threading.Lock()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment, preexec_fn=die_with_parent)
        threading.Thread(target=self.listen, daemon=True).start()
        equal(self.answer("main"), "ready", f"{what} at its start")

    def queue_of(self, thread):
        with self.lock:
            return self.answers.setdefault(thread, queue.Queue())

    def listen(self):
        for line in self.process.stdout:
            thread, _, answer = line.rstrip("\n").partition(" ")
            self.queue_of(thread).put(answer)

    def tell(self, thread, *words):
        self.process.stdin.write(" ".join([thread, *map(str, words)]) + "\n")
        self.process.stdin.flush()

    def answer(self, thread):
        try:
            return self.queue_of(thread).get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"{self.what} says nothing; its exit status is "
                                 f"{self.process.poll()}") from None

    def ask(self, thread, *words):
        self.tell(thread, *words)
        return self.answer(thread)

    def want(self, wanted, thread, *words):
        order = " ".join(map(str, words))
        equal(self.ask(thread, *words), wanted, f"{self.what}, {thread}: {order}")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stop()


def scratch():
    """A directory, on tmpfs where there is one, that goes when the program ends."""
    return tempfile.TemporaryDirectory(prefix="holdfast-interop-", dir=scratch_place())


def need(*commands):
    for command in commands:
        if not shutil.which(command):
            raise Skip(f"there is no {command}")


def run(tests, play):
    """Prints TAP. `play(test)` runs one, and raises what is wrong with it."""
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, (name, test) in enumerate(tests, 1):
        try:
            play(test)
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except Exception:  # whatever it is, it is a failure of this test
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {name}", flush=True)
            failed = True
    return 1 if failed else 0


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)
