# SPDX-License-Identifier: Apache-2.0
"""Starts a Redis Cluster of three masters, with a replica each, for with_redis.py."""

import os
import socket
import subprocess
import sys
import time

SLOTS = 16384
MASTERS = 3
STARTS = 10
PATIENCE = 60 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))


def ask(port, *words):
    """A command on a connection of its own; the answer as far as it has come, or None."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(request.encode())
            answer = connection.recv(1 << 16)
            if answer.startswith(b"$"):
                head, _, rest = answer.partition(b"\r\n")
                while len(rest) < int(head[1:]) + 2:
                    more = connection.recv(1 << 16)
                    if not more:
                        return None
                    rest += more
                answer = rest
            return answer.decode(errors="replace").strip()
    except OSError:
        return None


def wait_until(true, what):
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            sys.exit(f"with_redis: the cluster does not come up: {what}")
        time.sleep(0.02)


def must(port, *words):
    wait_until(lambda: ask(port, *words) == "+OK", " ".join(words))


def free_port():
    """One that is free together with the port of the cluster's bus, 10000 above it; neither is
    given to whoever connects to somewhere."""
    while True:
        port = 10000 + int.from_bytes(os.urandom(2), "big") % 10000
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10000))
                return port
            except OSError:
                continue


def start_node(directory, number, prepare, processes, secured):
    """The port that it announces, and the one where we ask. Others where somebody was quicker."""
    for _ in range(STARTS):
        port = door = free_port()
        ports = ["--port", str(port)]
        if secured:
            door = free_port()
            ports = ["--port", str(door), "--tls-port", str(port), "--tls-cluster", "yes",
                     "--tls-replication", "yes", *secured]
        home = f"{directory}/{number}-{port}"
        os.mkdir(home)
        process = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", *ports, "--cluster-enabled", "yes",
             "--cluster-node-timeout", "15000", "--save", "", "--appendonly", "no", "--dir", home,
             "--repl-diskless-sync-delay", "0", "--logfile", f"{home}/log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=prepare)
        processes.append(process)
        wait_until(lambda: process.poll() is not None or ask(door, "PING") == "+PONG", "PING")
        if process.poll() is None:
            return port, door
    sys.exit("with_redis: a server of the cluster does not start")


def is_whole(port):
    info = ask(port, "CLUSTER", "INFO") or ""
    return "cluster_state:ok" in info and f"cluster_known_nodes:{2 * MASTERS}" in info


def start(directory, prepare, processes, secured=()):
    """All masters, as URLs name them. `secured`: more options for each server, which then has TLS,
    too. All that is started is added to the processes."""
    nodes = [start_node(directory, number, prepare, processes, secured)
             for number in range(2 * MASTERS)]
    ports, doors = [port for port, _ in nodes], [door for _, door in nodes]
    for number in range(MASTERS):
        # One by one: servers before version 7 know no ranges.
        must(doors[number], "CLUSTER", "ADDSLOTS",
             *map(str, range(number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS)))
    for port in ports[1:]:
        must(doors[0], "CLUSTER", "MEET", "127.0.0.1", str(port))
    ids = [ask(door, "CLUSTER", "MYID").splitlines()[-1] for door in doors]
    for number in range(MASTERS):
        must(doors[MASTERS + number], "CLUSTER", "REPLICATE", ids[number])
    for door in doors:
        wait_until(lambda: is_whole(door), "CLUSTER INFO")
    return ",".join(f"127.0.0.1:{port}" for port in ports[:MASTERS])
