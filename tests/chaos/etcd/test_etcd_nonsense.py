#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that send what no etcd server sends, from the begin of a connection or in the middle of it:
they grant no lock and lose none, the client says what is wrong, and keeps its memory within limits.

usage: test_etcd_nonsense.py PEER [NAME...]
"""

import contextlib
import re
import socket
import struct
import sys
import threading

from stage import FOR_EVER, Relay, Stage, equal, main, wait_until

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 5, 6, 7, 8, 9)
END_STREAM = ACK = 1
END_HEADERS = 4
PREFACE = 24
OK = b"\x88"  # :status 200
GROWTH_MAX_KIB = 64 << 10
WAIT_MS = 800
LIES_MAX = 200  # meanwhile; without pauses they are thousands
FLOOD = 1 << 20  # bytes at a time


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def field(name, value):
    """A header that no table remembers."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


GRPC = field(b"content-type", b"application/grpc")
HEAD = OK + GRPC


def message(body):
    return b"\0" + struct.pack(">I", len(body)) + body


def answer(stream, data, trailers=field(b"grpc-status", b"0")):
    """As a server of gRPC frames it."""
    return (frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, 0, stream, data)
            + frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers))


def only_head(stream, head):
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, head)


class Liar(Relay):
    """The way to a server, or a peer that answers each call with the same lie."""

    def __init__(self, port):
        self.lie, self.told, self.deceived = None, 0, []
        super().__init__(port)

    def serve(self, near):
        if self.lie:
            self.deceived.append(near)
            threading.Thread(target=self.talk, args=(near, self.lie), daemon=True).start()
        else:
            super().serve(near)

    def talk(self, near, lie):
        with near, contextlib.suppress(OSError):
            if lie.greets:
                near.sendall(frame(SETTINGS, 0, 0))
            for stream in calls_on(near) if lie.waits else (1,):
                self.told += 1
                near.sendall(lie.text(stream))
                while lie.floods and self.lie is lie:
                    near.sendall(lie.floods)
                if not lie.waits:
                    while near.recv(65536):  # silent from now on
                        pass
        self.told += 1

    def begin(self, lie):
        self.lie, self.told = lie, 0
        self.cut()

    def end(self):
        self.lie = None
        for near in self.deceived:
            with contextlib.suppress(OSError):  # the client has ended it
                near.shutdown(socket.SHUT_RDWR)
        self.deceived.clear()

    def inject(self, text):
        """Between two replies of the server."""
        with self.lock:
            for way in self.ways:
                with contextlib.suppress(OSError):  # an earlier one, which has ended
                    way.near.sendall(text)


def calls_on(near):
    """The streams that the client has begun, each with its request."""
    seen = b""
    while more := near.recv(65536):
        seen += more
        at = PREFACE
        while len(seen) - at >= 9 and len(seen) - at >= 9 + int.from_bytes(seen[at:at + 3], "big"):
            kind, flags = seen[at + 3], seen[at + 4]
            stream = int.from_bytes(seen[at + 5:at + 9], "big")
            if kind == DATA and flags & END_STREAM:
                yield stream
            at += 9 + int.from_bytes(seen[at:at + 3], "big")
        seen = seen[:PREFACE] + seen[at:]


class Lie:
    """`text` of a stream, then `floods` without an end. Without `waits` it comes at once."""

    def __init__(self, says, text, floods=b"", waits=True, greets=True):
        self.says, self.floods, self.waits, self.greets = says, floods, waits, greets
        self.text = text if callable(text) else lambda stream: text


def many(text):
    return text * (FLOOD // len(text) + 1)


NONSENSE = {
    "http_1": Lie("HTTP/2", b"HTTP/1.1 400 Bad Request\r\n\r\n", waits=False, greets=False),
    "bytes": Lie("HTTP/2", bytes(range(256)) * 4, waits=False),
    "oversized_frame": Lie("HTTP/2", b"\xff\xff\xff\0\0\0\0\0\1"),
    "push": Lie("no answer", lambda stream: frame(PUSH_PROMISE, END_HEADERS, stream,
                                               struct.pack(">I", 2) + OK)),
    "window_that_overflows": Lie("HTTP/2",
                                 2 * frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff))),
    "stream_of_nobody": Lie("HTTP/2", frame(HEADERS, END_HEADERS, 99, HEAD)),
    "broken_header_block": Lie("HTTP/2", lambda stream: frame(HEADERS, END_HEADERS, stream,
                                                              b"\xff\xff\xff\xff\xff\xff")),
    "reset": Lie("HTTP/2 error 2", lambda stream: frame(RST_STREAM, 0, stream,
                                                        struct.pack(">I", 2))),
    "refused_stream": Lie("HTTP/2 error 7", lambda stream: frame(RST_STREAM, 0, stream,
                                                                 struct.pack(">I", 7))),
    "farewell": Lie("HTTP/2 error 7", frame(GOAWAY, 0, 0, struct.pack(">II", 0, 11))),
    "web_page": Lie("something else than gRPC", lambda stream: frame(
        HEADERS, END_HEADERS, stream, OK + field(b"content-type", b"text/html"))
        + frame(DATA, END_STREAM, stream, b"<html>")),
    "http_status": Lie("HTTP status 503", lambda stream: only_head(
        stream, b"\x08\x03503" + field(b"content-type", b"text/plain"))),
    "huge_message": Lie("larger than we accept", lambda stream: frame(
        HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, 0, stream, b"\0\xff\xff\xff\xff")),
    "compressed_message": Lie("compresses", lambda stream: answer(stream, b"\1\0\0\0\1x")),
    "two_messages": Lie("", lambda stream: answer(stream, 2 * message(b""))),
    "no_message": Lie("without a reply", lambda stream: answer(stream, b"")),
    "half_message": Lie("without a reply", lambda stream: answer(stream, b"\0\0\0\0\xffx")),
    "unreadable_message": Lie("cannot be read", lambda stream: answer(
        stream, message(b"\xff\xff\xff\xff\xff\xff"))),
    "no_status": Lie("HTTP/2 error 0", lambda stream: answer(stream, b"", field(b"x", b"y"))),
    "half_frame": Lie("no answer", b"\0\0\x20\1\4\0\0", waits=False),
    "silence": Lie("does not answer", b"", waits=False, greets=False),
    "silence_after_a_greeting": Lie("no answer", b"", waits=False),
}

FLOODS = {
    "settings": Lie("", b"", many(frame(SETTINGS, 0, 0))),
    "pings": Lie("", b"", many(frame(PING, 0, 0, b"12345678"))),
    "headers": Lie("", lambda stream: frame(HEADERS, 0, stream, HEAD),
                   many(frame(CONTINUATION, 0, 1, 60 * field(b"x", 200 * b"y")))),
    "early_hints": Lie("", b"", many(frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"
                                           + 60 * field(b"x", 200 * b"y")))),
    "data": Lie("", lambda stream: frame(HEADERS, END_HEADERS, stream, HEAD),
                many(frame(DATA, 0, 1, 16000 * b"\0"))),
    "empty_data": Lie("", lambda stream: frame(HEADERS, END_HEADERS, stream, HEAD),
                      many(frame(DATA, 0, 1))),
    "resets": Lie("", b"", many(frame(RST_STREAM, 0, 1, struct.pack(">I", 2)))),
    "priorities": Lie("", b"", many(frame(2, 0, 1, b"\0\0\0\0\1"))),
    "unknown_frames": Lie("", b"", many(frame(200, 0, 1, 100 * b"x"))),
}


class Scene:
    """A client that a liar stands before."""

    def __init__(self, directory):
        self.stage = Stage(directory)
        self.liar = Liar(self.stage.cluster.members[0].port)
        url = self.stage.cluster.url().replace(str(self.liar.target), str(self.liar.port))
        self.side = self.stage.side("the client", url=url + "?timeout=500", lease_ms=20000)

    def memory_kib(self):
        with open(f"/proc/{self.side.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def suffer(self, what, lie):
        """Nothing is granted, and the next server is served as if nothing had been."""
        before = self.memory_kib()
        self.liar.begin(lie)
        said = self.side.ask("b", "lock", "mutex", "one", WAIT_MS, 0)
        assert said.startswith("failed: HF_UNREACHABLE: "), f"{what}: {said}"
        assert lie.says in said, f"{what}: {said}"
        wait_until(lambda: self.liar.told > 0, f"{what}: it has lied")
        assert self.liar.told < LIES_MAX, f"{what}: {self.liar.told} questions"
        grown = self.memory_kib() - before
        assert grown < GROWTH_MAX_KIB, f"{what}: memory grew by {grown} KiB"
        self.liar.end()
        self.side.want("ok", "b", "lock", "mutex", "one", FOR_EVER, 0)
        self.side.want("ok", "b", "unlock", "mutex", "one")


def nonsense_grants_nothing_and_is_named(directory):
    scene = Scene(directory)
    for what, lie in NONSENSE.items():
        scene.suffer(what, lie)
    scene.stage.end()


def floods_end_the_connection_within_memory(directory):
    scene = Scene(directory)
    for what, lie in FLOODS.items():
        scene.suffer(what, lie)
    scene.stage.end()


def nonsense_in_the_middle_costs_no_lock(directory):
    """The lock's session, its heartbeats and watches are there."""
    scene = Scene(directory)
    other = scene.stage.side("another client")
    scene.side.want("ok", "a", "lock", "mutex", "kept", 0, 0)
    for number, (what, lie) in enumerate(NONSENSE.items()):
        name = f"n{number}"
        other.want("ok", "b", "lock", "mutex", name, 0, 0)
        scene.side.tell("b", "lock", "mutex", name, FOR_EVER, 0)
        scene.stage.wait_for_keys(name, 2)
        scene.liar.inject(lie.text(1))
        other.want("ok", "b", "unlock", "mutex", name)
        equal(scene.side.answer("b"), "ok", f"what the waiter hears after {what}")
        scene.side.want("1", "a", "holds", "mutex", "kept")
        scene.side.want("ok", "b", "unlock", "mutex", name)
    scene.side.want("ok", "a", "unlock", "mutex", "kept")
    scene.stage.end()


TESTS = (nonsense_grants_nothing_and_is_named, floods_end_the_connection_within_memory,
         nonsense_in_the_middle_costs_no_lock)

sys.exit(main(TESTS))
