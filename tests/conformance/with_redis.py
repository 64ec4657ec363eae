#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with $HOLDFAST_TEST_URL naming a Redis server of its own, which ends with it.

usage: with_redis.py [--without-engine | --place KIND] PROGRAM...

KIND is unix, tcp, unfenced (no tokens), tls, acl (a user who may do no more than he needs), simple
(plain locks, as such a user), sentinel (the server is found by one), sync (a replica has to confirm
each grant), cluster, secured-cluster (TLS and an ACL user), quorum (of three servers) or
two-of-three (the third is dead).
"""

import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import redis_cluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from certificate import make_certificate  # noqa: E402
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PATIENCE = 20 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
# What docs/engines/redis.md says that a user needs.
ACL_RULES = ("on >not-a-secret ~* resetchannels &redisson_* &holdfast:* -@all "
             "+eval +evalsha +subscribe +unsubscribe +ping +client +scan +select "
             "+type +hlen +hexists +hget +hgetall +hscan +hset +hdel +hkeys +del +exists +get +set "
             "+incrby +decrby +pttl +pexpire +pexpireat +persist +rename +zadd +zrem +zcard "
             "+zrange +zrangebyscore +zscore +zpopmin +lindex +lpop +lrange +lrem +rpush +publish "
             "+pubsub +time +mget")
# No test here has a server that is silent, but machines are slow: looking at ten thousand readers
# has taken more than the three seconds that are the default.
PATIENT = "timeout=60000"
# And the same for a cluster.
ACL_RULES_OF_CLUSTERS = "+cluster|slots +asking +ssubscribe +sunsubscribe +spublish"


servers = []


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def run(*arguments):
    server = subprocess.Popen(["redis-server", *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    servers.append(server)
    return server


def answers(family, address, question, answer):
    with socket.socket(family) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(address)
            connection.sendall(question + b"\r\n")
            return connection.recv(100).startswith(answer)
        except OSError:
            return False


def await_answer(family, address, question, answer):
    until = time.monotonic() + PATIENCE
    while not answers(family, address, question, answer):
        if time.monotonic() > until:
            sys.exit(f"with_redis: the server at {address} does not answer as it must")
        time.sleep(0.05)


def free_port():
    """Below those that the kernel gives to whoever connects, so that it stays free."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def sentinel(directory, master):
    """Starts one that knows the master; the URL by which it is asked."""
    port = free_port()
    with open(f"{directory}/sentinel.conf", "w", encoding="utf-8") as file:
        file.write(f"port {port}\nbind 127.0.0.1\ndir {directory}\n"
                   f"logfile {directory}/sentinel.log\n"
                   f"sentinel monitor main 127.0.0.1 {master} 1\n")
    run(f"{directory}/sentinel.conf", "--sentinel")
    await_answer(socket.AF_INET, ("127.0.0.1", port), b"PING", b"+PONG")
    return f"redis+sentinel://127.0.0.1:{port}/main?{PATIENT}"


def replica(directory, master):
    """Starts one, and waits until its master hears of it; the URL of the master."""
    run("--port", "0", "--unixsocket", f"{directory}/replica.sock", "--dir", directory,
        "--dbfilename", "replica.rdb", "--save", "", "--logfile", f"{directory}/replica.log",
        "--replicaof", "127.0.0.1", str(master))
    await_answer(socket.AF_UNIX, f"{directory}/redis.sock", b"WAIT 1 1000", b":1")
    return f"redis+unix://{directory}/redis.sock?sync=1&{PATIENT}"


# What begins when the server runs: given the directory and its port, answers the URL.
FOLLOWERS = {"sentinel": sentinel, "sync": replica}


def place(kind, directory):
    """More arguments for the server, and the URL by which it is reached."""
    path = f"{directory}/redis.sock"
    if kind == "tls":
        make_certificate(directory)
        port = free_port()
        certificate = f"{directory}/server.crt"
        return (["--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file",
                 f"{directory}/server.key", "--tls-auth-clients", "no"],
                f"rediss://127.0.0.1:{port}?ca={certificate}&{PATIENT}")
    if kind in ("acl", "simple"):
        options = "&format=simple" if kind == "simple" else ""
        return (["--user", "locks", *ACL_RULES.split(), "--user", "default", "off"],
                f"redis+unix://locks:not-a-secret@{path}?{PATIENT}{options}")
    if kind in ("tcp", "unfenced"):
        port = free_port()
        options = "&fence=off" if kind == "unfenced" else ""
        return ["--port", str(port)], f"redis://127.0.0.1:{port}?{PATIENT}{options}"
    trace = "trace:" if kind == "trace" else ""
    return [], f"{trace}redis+unix://{path}?{PATIENT}"


def cluster(directory):
    return f"redis+cluster://{redis_cluster.start(directory, die_with_parent, servers)}?{PATIENT}"


def secured_cluster(directory):
    """With TLS, and a user who may do what he needs."""
    make_certificate(directory)
    certificate = f"{directory}/server.crt"
    options = ["--tls-cert-file", certificate, "--tls-key-file", f"{directory}/server.key",
               "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no",
               "--user", "locks", *ACL_RULES.split(), *ACL_RULES_OF_CLUSTERS.split()]
    hosts = redis_cluster.start(directory, die_with_parent, servers, options)
    return f"rediss+cluster://locks:not-a-secret@{hosts}?ca={certificate}&{PATIENT}"


CLUSTERS = {"cluster": cluster, "secured-cluster": secured_cluster}


def start(directory, arguments):
    server = run("--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "",
                 "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--dir", directory,
                 "--logfile", f"{directory}/log", *arguments)
    until = time.monotonic() + PATIENCE
    while not os.path.exists(f"{directory}/redis.sock"):
        if server.poll() is not None or time.monotonic() > until:
            sys.exit(f"with_redis: redis-server does not start; status {server.poll()}")
        time.sleep(0.01)
    return server


def quorum(directory, dead):
    """Three servers on their own, of which some are killed again; the URL of all."""
    for number in range(3):
        os.mkdir(f"{directory}/{number}")
        start(f"{directory}/{number}", [])
    for server in servers[:dead]:
        server.kill()
        server.wait()
    return "quorum:" + ",".join(f"redis+unix://{directory}/{n}/redis.sock" for n in range(3))


def main():
    arguments, kind = sys.argv[1:], "unix"
    if arguments[0] == "--without-engine":
        skip("this build has no engine for Redis: hiredis was not found")
    if arguments[0] == "--place":
        kind, arguments = arguments[1], arguments[2:]
    if not shutil.which("redis-server"):
        skip("there is no redis-server")
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-", dir=scratch_place()) as directory:
        try:
            if kind in FOLLOWERS:
                port = free_port()
                start(directory, ["--port", str(port)])
                url = FOLLOWERS[kind](directory, port)
            elif kind in CLUSTERS:
                url = CLUSTERS[kind](directory)
            elif kind in ("quorum", "two-of-three"):
                url = quorum(directory, 0 if kind == "quorum" else 1)
            else:
                more, url = place(kind, directory)
                start(directory, more)
            status = subprocess.call(arguments, env=dict(os.environ, HOLDFAST_TEST_URL=url),
                                     preexec_fn=die_with_parent)
        finally:
            for server in reversed(servers):
                server.kill()
                server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
