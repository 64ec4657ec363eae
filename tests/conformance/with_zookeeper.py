#!/usr/bin/env python3
"""Runs a program with $HOLDFAST_TEST_URL naming a ZooKeeper server of its own, ended with it.

usage: with_zookeeper.py [--place tls] PROGRAM...
"""

import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PATIENCE = 120
STARTS = 5
JAVA = "/usr/share/java"
JAR = f"{JAVA}/zookeeper.jar"
# What Debian's jar forgets to name, and TLS needs.
JARS = f"{JAVA}/netty-codec.jar:{JAVA}/netty-resolver.jar:{JAR}"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def free_port():
    """None that the system gives away by itself: the server takes seconds to get to listening."""
    while True:
        port = random.randrange(16000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def connect(port, trusted):
    """With TLS, a machine's first handshake takes long: clients are not to wait for that."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    if not trusted:
        return connection
    context = ssl.create_default_context(cafile=trusted)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def is_ready(port, trusted):
    """Whether the server has read its data: "ruok" is answered before that, "srvr" is not."""
    try:
        with connect(port, trusted) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b"Mode:" in answer


def secure(directory, port):
    """What the server has to be told to listen at that port with TLS."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=server",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{directory}/server.key",
                    "-out", f"{directory}/server.crt"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(f"{directory}/shown.pem", "w", encoding="utf-8") as shown:
        for part in ("key", "crt"):
            with open(f"{directory}/server.{part}", encoding="utf-8") as file:
                shown.write(file.read())
    return (f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={directory}/shown.pem\nssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={directory}/server.crt\nssl.trustStore.type=PEM\n"
            "ssl.clientAuth=none\n")


def start(directory, secured):
    """The server, or None if it has ended at once, and the URL by which it is reached."""
    port, secure_port, trusted = free_port(), free_port(), f"{directory}/server.crt"
    url = f"zk://127.0.0.1:{port}/holdfast"
    if secured:
        url = f"zks://127.0.0.1:{secure_port}/holdfast?ca={trusted}"
    config = f"{directory}/zoo.cfg"
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"tickTime=600\ndataDir={directory}/data\nclientPort={port}\n"
                   "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
                   "4lw.commands.whitelist=srvr\n")
        file.write(secure(directory, secure_port) if secured else "")
    server = subprocess.Popen(
        ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
         "-Dzookeeper.forceSync=no", "-cp", JARS, MAIN, config],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent)
    until = time.monotonic() + PATIENCE * float(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
    while not (is_ready(secure_port, trusted) if secured else is_ready(port, None)):
        if server.poll() is not None:
            return None, url
        if time.monotonic() > until:
            server.kill()
            sys.exit(f"with_zookeeper: the server is not ready after {PATIENCE} s")
        time.sleep(0.05)
    return server, url


def start_somewhere(directory, secured):
    """Somebody may take the port between our looking for it and the server's listening."""
    for _ in range(STARTS):
        server, url = start(directory, secured)
        if server:
            return server, url
    sys.exit("with_zookeeper: the server does not start")


def main():
    arguments = sys.argv[1:]
    secured = arguments[:2] == ["--place", "tls"]
    if not os.path.exists(JAR) or not shutil.which("java"):
        skip("there is no ZooKeeper server: install Debian's packages libzookeeper-java and "
             "default-jre-headless")
    with tempfile.TemporaryDirectory(prefix="holdfast-zookeeper-",
                                     dir=scratch_place()) as directory:
        server, url = start_somewhere(directory, secured)
        environment = dict(os.environ, HOLDFAST_TEST_URL=url)
        status = subprocess.call(arguments[2:] if secured else arguments, env=environment,
                                 preexec_fn=die_with_parent)
        server.kill()
        server.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
