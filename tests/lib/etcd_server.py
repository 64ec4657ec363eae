# SPDX-License-Identifier: Apache-2.0
"""etcd servers of a test's own: one, or a cluster, with TLS or users, ended with it."""
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

from certificate import make_certificate
from nothing_left import die_with_parent, stop_child

PATIENCE = 60
MEMBERS = 3
USER, PASSWORD = "locker", "of+locks"
ROOT_PASSWORD = "of+all"
PREFIX = "holdfast/"


def missing():
    """What a test needs and does not find, as a reason to skip it; None: nothing."""
    for program in ("etcd", "etcdctl"):
        if not shutil.which(os.environ.get("HOLDFAST_" + program.upper(), program)):
            return f"there is no {program}: install Debian's packages etcd-server and etcd-client"
    return None


def server_program():
    return os.environ.get("HOLDFAST_ETCD", "etcd")


def free_port():
    """None that the system gives away by itself."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Member:
    """One server, with its own folder."""

    def __init__(self, directory, name, secured=None):
        self.name, self.directory, self.secured = name, directory, secured
        self.port, self.peer_port = free_port(), free_port()
        self.seen_port = self.peer_port  # by the other members
        self.process, self.arguments = None, []
        os.makedirs(directory, exist_ok=True)

    def scheme(self):
        return "https" if self.secured else "http"

    def start(self, cluster, election_ms, more=("--unsafe-no-fsync",)):
        """`cluster`: all members; `more`: settings."""
        initial = ",".join(f"{member.name}=http://127.0.0.1:{member.seen_port}"
                           for member in cluster)
        here = f"{self.scheme()}://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{self.peer_port}"
        self.arguments = [
            server_program(), "--name", self.name, "--data-dir", f"{self.directory}/data",
            "--listen-client-urls", here, "--advertise-client-urls", here,
            "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.seen_port}",
            "--initial-cluster", initial, "--initial-cluster-state", "new",
            "--logger", "zap", "--log-outputs", f"{self.directory}/log",
            "--heartbeat-interval", str(election_ms // 10),
            "--election-timeout", str(election_ms), *more]
        if self.secured:
            self.arguments += ["--cert-file", f"{self.secured}/server.crt",
                               "--key-file", f"{self.secured}/server.key",
                               "--client-cert-auth",
                               "--trusted-ca-file", f"{self.secured}/server.crt"]
        self.again()

    def again(self):
        """After an end, at the same port with the same data."""
        self.process = subprocess.Popen(
            self.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def is_ready(self):
        context = None
        if self.secured:
            context = ssl.create_default_context(cafile=f"{self.secured}/server.crt")
            context.load_cert_chain(f"{self.secured}/server.crt", f"{self.secured}/server.key")
        try:
            with urllib.request.urlopen(f"{self.scheme()}://127.0.0.1:{self.port}/health",
                                        timeout=2, context=context) as reply:
                return json.load(reply).get("health") == "true"
        except (OSError, ValueError):
            return False

    def becomes_ready(self):
        """Whether it does, or ends instead."""
        until = time.monotonic() + PATIENCE * float(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        stop_child(self.process.pid)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """One server, or several, which are ready when this has been made."""

    def __init__(self, directory, members=1, secured=False, users=False, election_ms=None,
                 before=None):
        """`before` is called with each member before it starts."""
        self.users, self.secured = users, None
        election_ms = election_ms or (50 if members == 1 else 500)
        for turn in range(5):
            folder = f"{directory}/{turn}"
            os.makedirs(folder, exist_ok=True)
            if secured:
                make_certificate(folder)
                self.secured = folder
            self.members = [Member(f"{folder}/{number}", f"n{number}", self.secured)
                            for number in range(members)]
            for member in self.members:
                if before:
                    before(member)
            for member in self.members:
                member.start(self.members, election_ms)
            if all(member.becomes_ready() for member in self.members):
                break
            # Another program may have taken a port between our looking for it and listening.
            self.end()
        else:
            raise RuntimeError("the etcd server does not start")
        if users:
            self.add_users()

    def control(self, *words, user=None, check=True, **more):
        """etcdctl, as root where there are users."""
        command = [os.environ.get("HOLDFAST_ETCDCTL", "etcdctl"), "--endpoints",
                   ",".join(f"{member.scheme()}://127.0.0.1:{member.port}"
                            for member in self.members)]
        if self.secured:
            command += ["--cacert", f"{self.secured}/server.crt", "--cert",
                        f"{self.secured}/server.crt", "--key", f"{self.secured}/server.key"]
        if user:
            command += ["--user", user]
        return subprocess.run(command + list(words), check=check, capture_output=True, text=True,
                              env=dict(os.environ, ETCDCTL_API="3"), timeout=60, **more)

    def add_users(self):
        self.control("user", "add", f"root:{ROOT_PASSWORD}")
        self.control("user", "grant-role", "root", "root")
        self.control("role", "add", "locks")
        self.control("role", "grant-permission", "locks", "readwrite", PREFIX, "--prefix")
        self.control("user", "add", f"{USER}:{PASSWORD}")
        self.control("user", "grant-role", USER, "locks")
        self.control("auth", "enable")

    def url(self, user=None):
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        if self.users:
            user = user or f"{USER}:{PASSWORD.replace('+', '%2B')}"
        scheme = "etcds" if self.secured else "etcd"
        options = (f"?ca={self.secured}/server.crt&cert={self.secured}/server.crt"
                   f"&key={self.secured}/server.key" if self.secured else "")
        return f"{scheme}://{user + '@' if user else ''}{hosts}/{PREFIX[:-1]}{options}"

    def end(self):
        for member in self.members:
            if member.process and member.process.poll() is None:
                member.kill()
