# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of an etcd server that replies to single requests with a status of its own. It
knows HTTP/2 as far as that takes: whole requests are passed on, or kept from the server."""

import contextlib
import socket
import struct
import threading

from stage import wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
TABLE_SIZE = 1  # of the headers' table, a setting
UNKNOWN, DENIED, EXHAUSTED, UNAVAILABLE = 2, 7, 8, 14


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def literal(name, value):
    """A header that no table remembers; names and values are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def reply_of(stream, status, text):
    return frame(HEADERS, END_HEADERS | END_STREAM, stream,
                 b"\x88" + literal(b"content-type", b"application/grpc") +
                 literal(b"grpc-status", b"%d" % status) + literal(b"grpc-message", text.encode()))


def without_table(body):
    """Settings that allow the headers of each request to be read by themselves."""
    pairs = [body[at:at + 6] for at in range(0, len(body), 6)]
    kept = [pair for pair in pairs if pair[:2] != struct.pack(">H", TABLE_SIZE)]
    return b"".join(kept) + struct.pack(">HI", TABLE_SIZE, 0)


def frames(stream):
    """Each frame that comes, whole, until the connection ends."""
    waiting = b""
    with contextlib.suppress(OSError):
        while more := stream.recv(1 << 18):
            waiting += more
            while len(waiting) >= 9:
                length = 9 + int.from_bytes(waiting[:3], "big")
                if len(waiting) < length:
                    break
                one, waiting = waiting[:length], waiting[length:]
                yield one[3], one[4], int.from_bytes(one[5:9], "big"), one[9:], one
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)


class Rule:
    """Requests that have these bytes in them are replied to with this status, so many times.
    `done`: the server executes them before that; it never does, or when it is told to, else.
    Without a status the server's own reply is kept back, until it is told to come."""

    def __init__(self, holds, status, text, times=1, done=False):
        self.holds = holds if callable(holds) else lambda request: holds in request
        self.status, self.text, self.left, self.done = status, text, times, done
        self.kept, self.ways = [], []

    def wait_for_message(self, holds):
        """While a reply is kept back, one with these bytes has come."""
        wait_until(lambda: any(holds in way.passed for way in self.ways), "a message has come")

    def pass_reply_on(self):
        for way in self.ways:
            way.pass_replies_on()


class Refuser:
    def __init__(self, port):
        self.target, self.rules, self.lock = port, [], threading.Lock()
        self.answered = []  # requests
        self.stream_holds, self.kept = None, []  # what messages of streams are kept back, and where
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def refuse(self, holds, status, text="", **more):
        rule = Rule(holds, status, text, **more)
        with self.lock:
            self.rules.append(rule)
        return rule

    def keep_in_stream(self, holds):
        """Of a stream that has begun, messages that have these bytes in them."""
        self.stream_holds = holds

    def is_kept(self, body):
        return self.stream_holds is not None and self.stream_holds in body

    def pass_messages_on(self):
        self.stream_holds = None
        while self.kept:
            way, whole = self.kept.pop(0)
            way.far.sendall(whole)

    def stop_refusing(self):
        with self.lock:
            self.rules.clear()

    def execute(self, request):
        """At a connection of its own, until the server has replied."""
        with socket.create_connection(("127.0.0.1", self.target)) as way:
            way.sendall(PREFACE + frame(SETTINGS, 0, 0) + b"".join(
                frame(kind, flags, 1, body) for kind, flags, body in request))
            for kind, flags, stream, _, _ in frames(way):
                if kind == SETTINGS and not flags & ACK:
                    way.sendall(frame(SETTINGS, ACK, 0))
                if stream == 1 and (flags & END_STREAM and kind == HEADERS or kind == RST_STREAM):
                    return
        raise AssertionError("the server does not reply to the late request")

    def deliver(self, rule):
        """What was kept arrives at the server."""
        wait_until(lambda: rule.kept, "a request was kept")
        while rule.kept:
            self.execute(rule.kept.pop(0))

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                continue
            way = Way(self, near, far)
            threading.Thread(target=way.move_requests, daemon=True).start()
            threading.Thread(target=way.move_replies, daemon=True).start()

    def rule_for(self, body):
        with self.lock:
            for rule in self.rules:
                if rule.left > 0 and rule.holds(body):
                    rule.left -= 1
                    return rule
        return None


class Way:
    """One connection through the proxy."""

    def __init__(self, refuser, near, far):
        self.refuser, self.near, self.far, self.lock = refuser, near, far, threading.Lock()
        self.open, self.asked, self.refused = {}, {}, set()
        self.delayed, self.behind = set(), []  # streams whose replies are kept back, and these
        self.passed = b""  # replies while others are kept back

    def move_requests(self):
        self.far.sendall(self.near.recv(len(PREFACE), socket.MSG_WAITALL))
        with contextlib.suppress(OSError):
            for kind, flags, stream, body, whole in frames(self.near):
                if stream in self.refused:
                    continue
                if kind in (HEADERS, CONTINUATION):
                    self.open.setdefault(stream, []).append((kind, flags, body))
                elif kind == DATA and stream in self.open:
                    self.open[stream].append((kind, flags, body))
                    self.decide(stream, self.open.pop(stream), flags)
                elif kind == DATA and self.refuser.is_kept(body):
                    self.refuser.kept.append((self, whole))
                else:
                    self.far.sendall(whole)
            self.far.shutdown(socket.SHUT_RDWR)

    def decide(self, stream, request, flags):
        """A call that goes on after its first message is a stream, and passes."""
        body = b"".join(part for kind, _, part in request if kind == DATA)
        rule = self.refuser.rule_for(body) if flags & END_STREAM else None
        if rule and rule.status is None:
            with self.lock:
                self.delayed.add(stream)
            rule.ways.append(self)
        if not rule or rule.status is None:
            self.asked[stream] = body
            self.far.sendall(b"".join(frame(kind, flag, stream, part)
                                      for kind, flag, part in request))
            return
        self.refused.add(stream)
        if rule.done:
            self.refuser.execute(request)
        else:
            rule.kept.append(request)
        with self.lock:
            self.near.sendall(reply_of(stream, rule.status, rule.text))

    def move_replies(self):
        with contextlib.suppress(OSError):
            for kind, flags, stream, body, whole in frames(self.far):
                if kind == SETTINGS and not flags & ACK:
                    whole = frame(SETTINGS, flags, stream, without_table(body))
                with self.lock:
                    if self.delayed and (kind in (HEADERS, CONTINUATION) or stream in self.delayed):
                        # The table of headers is in the order of their blocks.
                        self.delayed.add(stream)
                        self.behind.append(whole)
                    else:
                        self.near.sendall(whole)
                        if kind == HEADERS and flags & END_STREAM:
                            self.refuser.answered.append(self.asked.pop(stream))
                        self.passed += whole if self.delayed else b""
            self.near.shutdown(socket.SHUT_RDWR)

    def pass_replies_on(self):
        with self.lock:
            self.near.sendall(b"".join(self.behind))
            self.delayed, self.behind = set(), []
