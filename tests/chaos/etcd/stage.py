# SPDX-License-Identifier: Apache-2.0
"""The stage of tests of faults: etcd servers, clients of ours in processes of their own, and ways
between them that can lose and delay what goes by.

usage of the tests: TEST PEER [NAME...]
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "interop"))

from sides import (FOR_EVER, LONG_LEASE_MS, PATIENCE, Side, die_with_parent, equal,  # noqa: E402
                   run, scratch, skip_all, wait_until)
import etcd_server  # noqa: E402

PEER = sys.argv[1]
LEASE_MS = 6000


HEADERS, END_STREAM = 1, 1  # of HTTP/2: a kind of frame, and a flag


class Way:
    """One connection through a relay."""

    def __init__(self, near, far):
        self.near, self.far, self.source = near, far, None
        self.held, self.late = b"", b""

    def late_replies(self):
        """How many streams the server has ended since the requests that were held are there."""
        count, rest = 0, self.late
        while len(rest) >= 9:
            count += rest[3] == HEADERS and rest[4] & END_STREAM
            rest = rest[9 + int.from_bytes(rest[:3], "big"):]
        return count


class Relay:
    """A way to a server that can lose the server's replies, keep requests back, and be cut."""

    def __init__(self, port):
        # `holds`: from the first request on that has this in it.
        self.target, self.mute, self.holds = port, False, None
        self.ways, self.left, self.lock = [], [], threading.Lock()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.serve(near)

    def serve(self, near):
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()  # nothing listens there, or not yet
            return
        way = Way(near, far)
        with self.lock:
            self.ways.append(way)
        threading.Thread(target=self.move_requests, args=(way,), daemon=True).start()
        threading.Thread(target=self.move_replies, args=(way,), daemon=True).start()

    def is_lost(self, way):
        """The replies on that one."""
        return self.mute

    def is_held(self, way, data):
        return self.holds is not None and self.holds in data

    def move_requests(self, way):
        try:
            while data := way.near.recv(65536):
                with self.lock:
                    if way.held or self.is_held(way, data):
                        way.held += data
                        continue
                way.far.sendall(data)
        except OSError:
            pass

    def move_replies(self, way):
        try:
            while data := way.far.recv(65536):
                with self.lock:
                    if way in self.left:
                        way.late += data
                        continue
                    if self.is_lost(way):
                        self.lost += len(data)
                        continue
                way.near.sendall(data)
        except OSError:
            pass

    def pass_on(self, mute=False, holds=None):
        """What was kept back arrives, and so does its reply, if not `mute`."""
        with self.lock:
            self.mute, self.holds = mute, holds
            for way in self.ways:
                held, way.held = way.held, b""
                way.far.sendall(held)

    def wait_for_held(self):
        wait_until(lambda: any(way.held for way in self.ways), "a request is kept back")

    def cut(self):
        """For the client and for the server."""
        with self.lock:
            ways, self.ways = self.ways, []
        for way in ways:
            for end in (way.near, way.far):
                with contextlib.suppress(OSError):  # it has ended already
                    end.shutdown(socket.SHUT_RDWR)

    def leave(self, holds=None):
        """Cuts it for the client alone, and lets new connections pass."""
        with self.lock:
            ways, self.ways, self.holds = self.ways, [], holds
            self.left += ways
        for way in ways:
            way.near.shutdown(socket.SHUT_RDWR)

    def deliver(self):
        """What was kept back arrives, and is answered."""
        with self.lock:
            ways = [way for way in self.left if way.held]
        assert ways, "no request was kept back"
        for way in ways:
            held, way.held = way.held, b""
            way.far.sendall(held)
        wait_until(lambda: all(way.late_replies() > 0 for way in ways),
                   "the late ones are answered")


class Stage:
    """Servers, and clients of ours in processes of their own."""

    def __init__(self, directory, members=1, **more):
        self.cluster = etcd_server.Cluster(directory, members=members, election_ms=500, **more)
        self.sides = []

    def side(self, what, lease_ms=LEASE_MS, url=None, **more):
        side = Side(what, [PEER, url or self.cluster.url(), str(lease_ms)], **more)
        self.sides.append(side)
        return side

    def leader(self):
        said = self.cluster.control("endpoint", "status", "-w", "json").stdout
        found = re.findall(r'"Endpoint":"[^"]*:(\d+)".*?"member_id":(\d+).*?"leader":(\d+)', said)
        for port, member, leader in found:
            if member == leader:
                return next(one for one in self.cluster.members if one.port == int(port))
        raise AssertionError(f"no leader: {said}")

    def keys(self, name):
        """Those of the queue, the oldest first, and the lease of each."""
        prefix = etcd_server.PREFIX + name + "/"
        said = self.cluster.control("get", prefix, "--prefix", "-w", "fields", "--order=ASCEND",
                                    "--sort-by=CREATE").stdout
        return re.findall(r'"Key" : "([^"]*)".*?"Lease" : (\d+)', said, re.DOTALL)

    def leases(self):
        return re.findall("^[0-9a-f]{8,}$", self.cluster.control("lease", "list").stdout, re.M)

    def wait_for_keys(self, name, count):
        wait_until(lambda: len(self.keys(name)) == count, f"{count} keys of {name}")

    def end(self):
        for side in self.sides:
            side.stop()
        self.cluster.end()


def holder_and_waiter(stage, name, **more):
    holder, waiter = stage.side("the holder", **more), stage.side("the waiter", **more)
    holder.want("ok", "a", "lock", "mutex", name, FOR_EVER, 0)
    waiter.tell("b", "lock", "mutex", name, FOR_EVER, 0)
    stage.wait_for_keys(name, 2)
    return holder, waiter


def hand_over(stage, holder, waiter, name):
    equal(waiter.queue_of("b").empty(), True, "the waiter waits still")
    holder.want("ok", "a", "unlock", "mutex", name)
    equal(waiter.answer("b"), "ok", "what the waiter hears")
    waiter.want("ok", "b", "unlock", "mutex", name)
    stage.wait_for_keys(name, 0)


def relayed(directory, lease_ms=20000):
    stage = Stage(directory)
    relay = Relay(stage.cluster.members[0].port)
    url = stage.cluster.url().replace(str(relay.target), str(relay.port))
    side = stage.side("the client", url=url, lease_ms=lease_ms)
    side.want("ok", "a", "lock", "mutex", "first", 0, 0)
    return stage, relay, side


class History:
    """What is put and deleted below a name, as the server tells it."""

    def __init__(self, stage, name):
        self.prefix, self.events = etcd_server.PREFIX + name + "/", []
        self.process = subprocess.Popen(
            [os.environ.get("HOLDFAST_ETCDCTL", "etcdctl"), "--endpoints",
             f"http://127.0.0.1:{stage.cluster.members[0].port}", "watch", self.prefix, "--prefix",
             "--rev", "1", "-w", "json"], stdout=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            for event in json.loads(line)["Events"]:
                self.events.append("del" if event.get("type") else "put")

    def wait_for_puts(self, count):
        wait_until(lambda: self.events.count("put") >= count, f"{count} keys have been put")

    def end(self):
        self.process.kill()
        self.process.wait()


def play(test):
    with scratch() as directory:
        test(directory)


def main(tests):
    """Those that the command line names, or all."""
    only = sys.argv[2:]
    why = etcd_server.missing()
    if why:
        skip_all(why)
    os.environ["ETCDCTL_API"] = "3"
    chosen = [test for test in tests if not only or test.__name__ in only]
    return run([(test.__name__, test) for test in chosen], play)
