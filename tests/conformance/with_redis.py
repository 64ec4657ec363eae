#!/usr/bin/env python3
"""Runs a program with $HOLDFAST_TEST_URL naming a Redis server of its own, which ends with it.

usage: with_redis.py [--without-engine | --place unix|tls|acl|simple] PROGRAM...
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
PATIENCE = 20
TMPFS = "/dev/shm"
# What docs/engines/redis.md says that a user needs.
ACL_RULES = ("on >not-a-secret ~* resetchannels &redisson_* &holdfast:* -@all "
             "+eval +evalsha +subscribe +unsubscribe +ping +client +scan +select "
             "+type +hlen +hexists +hget +hgetall +hscan +hset +hdel +hkeys +del +exists +get +set "
             "+incrby +decrby +pttl +pexpire +rename +zadd +zrem +zcard +zrange +zrangebyscore "
             "+zscore +zpopmin +lindex +lpop +lrange +lrem +rpush +publish +pubsub +time")


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificate(directory):
    openssl(directory, "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj",
            "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "server.key",
            "-out", "server.crt")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def place(kind, directory):
    """More arguments for the server, and the URL by which it is reached."""
    path = f"{directory}/redis.sock"
    if kind == "tls":
        make_certificate(directory)
        port = free_port()
        certificate = f"{directory}/server.crt"
        return (["--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file",
                 f"{directory}/server.key", "--tls-auth-clients", "no"],
                f"rediss://127.0.0.1:{port}?ca={certificate}")
    if kind == "acl":
        return (["--user", "locks", *ACL_RULES.split(), "--user", "default", "off"],
                f"redis+unix://locks:not-a-secret@{path}")
    options = "?format=simple" if kind == "simple" else ""
    return [], f"redis+unix://{path}{options}"


def start(directory, arguments):
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "",
         "--appendonly", "no", "--dir", directory, "--logfile", f"{directory}/log", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    until = time.monotonic() + PATIENCE
    while not os.path.exists(f"{directory}/redis.sock"):
        if server.poll() is not None or time.monotonic() > until:
            sys.exit(f"with_redis: redis-server does not start; status {server.poll()}")
        time.sleep(0.01)
    return server


def main():
    arguments, kind = sys.argv[1:], "unix"
    if arguments[0] == "--without-engine":
        skip("this build has no engine for Redis: hiredis was not found")
    if arguments[0] == "--place":
        kind, arguments = arguments[1], arguments[2:]
    if not shutil.which("redis-server"):
        skip("there is no redis-server")
    where = TMPFS if os.access(TMPFS, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-", dir=where) as directory:
        more, url = place(kind, directory)
        server = start(directory, more)
        status = subprocess.call(arguments, env=dict(os.environ, HOLDFAST_TEST_URL=url))
        server.kill()
        server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
