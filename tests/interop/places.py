# SPDX-License-Identifier: Apache-2.0
"""Where both sides may meet but on a plain server: with TLS, as a user with a password, in another
database than the first, and where a sentinel says who the master is."""

import os
import random
import subprocess

from certificate import make_certificate
from sides import Server, Skip, need, wait_until

USER, PASSWORD, SENTINEL_PASSWORD = "locks", "not-a-secret", "nor-is-this"
DATABASE = "2"


def need_tls():
    need("openssl", "keytool")
    probe = subprocess.run(["redis-server", "--tls-port", "0", "--port", "none"], text=True,
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if "tls-port" in probe.stderr:
        raise Skip("this redis-server has no TLS")


class Trust:
    """A certificate for all servers of a place, and what Java has to be told to trust it."""

    def __init__(self, directory):
        make_certificate(directory)
        self.authority, store = f"{directory}/server.crt", f"{directory}/trust.p12"
        subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "server", "-file",
                        self.authority, "-keystore", store, "-storetype", "PKCS12", "-storepass",
                        PASSWORD], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.java_options = (f"-Djavax.net.ssl.trustStore={store}",
                             f"-Djavax.net.ssl.trustStorePassword={PASSWORD}")
        self.settings = {"tls-cert-file": self.authority,
                         "tls-key-file": f"{directory}/server.key",
                         "tls-ca-cert-file": self.authority, "tls-auth-clients": "no",
                         "tls-replication": "yes"}


class Member(Server):
    """A server with a port for those who want TLS, if there is trust; the test itself asks at the
    other."""

    def __init__(self, directory, trust, *options):
        os.makedirs(directory, exist_ok=True)
        self.trust = trust
        super().__init__(directory, "--repl-diskless-sync-delay", "0", *options)

    @property
    def meeting_port(self):
        return self.tls_port if self.trust else self.port

    def settings(self):
        """Those for TLS, with a port that is another one each time."""
        if not self.trust:
            return {}
        self.tls_port = random.randrange(10000, 30000)
        return {"tls-port": str(self.tls_port), **self.trust.settings}

    def more(self):
        return [word for name, value in self.settings().items() for word in (f"--{name}", value)]


class Secured(Member):
    """One server with TLS, for a user of its own; nobody else is let in."""

    before = (("AUTH", USER, PASSWORD), ("SELECT", DATABASE))

    def __init__(self, directory):
        trust = Trust(directory)
        super().__init__(directory, trust, "--user", USER, "on", f">{PASSWORD}", "~*", "&*",
                         "+@all", "--user", "default", "off")
        self.java_options = trust.java_options
        self.url = (f"rediss://{USER}:{PASSWORD}@127.0.0.1:{self.tls_port}/{DATABASE}"
                    f"?ca={trust.authority}")


class Replicated(Member):
    """A master, or a replica of one, with a password."""

    before = (("AUTH", PASSWORD), ("SELECT", DATABASE))

    def __init__(self, directory, trust, *options):
        super().__init__(directory, trust, "--requirepass", PASSWORD, "--masterauth", PASSWORD,
                         *options)

    def says(self, words, *command):
        """Whoever is connected while a sentinel gives a server another place is cut off."""
        try:
            return words in self.ask(*command)
        except OSError:
            return False

    def is_master(self):
        return self.says(b"master", "ROLE")

    def is_replica(self):
        return self.says(b"slave", "ROLE")

    def has_replica(self):
        return self.says(b":1\r\n", "WAIT", "1", "1000")


class Sentinel(Member):
    """Knows the master as "main"; has a password of its own, and no QUIT."""

    before, last, farewell = (("AUTH", SENTINEL_PASSWORD),), "PING", b"+PONG\r\n"

    def __init__(self, directory, trust, master):
        self.master = master
        super().__init__(directory, trust)

    def command(self):
        lines = [f"{name} {value}" for name, value in self.settings().items()]
        lines += [f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}",
                  f"logfile {self.directory}/log", f"requirepass {SENTINEL_PASSWORD}",
                  f"sentinel monitor main 127.0.0.1 {self.master.meeting_port} 1",
                  f"sentinel auth-pass main {PASSWORD}",
                  "sentinel failover-timeout main 10000"]
        path = f"{self.directory}/sentinel.conf"
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return ["redis-server", path, "--sentinel"]


class Watched:
    """A master, its replica and a sentinel, with TLS among all of them, or none. Each grant of ours
    has to be confirmed by the replica, as Redisson wants it for its own without being told."""

    def __init__(self, directory, tls=False):
        self.members, trust = [], Trust(directory) if tls else None
        self.java_options = trust.java_options if tls else ()
        try:
            self.bring_up(directory, trust)
        except BaseException:
            self.stop()
            raise
        self.url = (f"redis{'s' if tls else ''}+sentinel://:{PASSWORD}@127.0.0.1:"
                    f"{self.sentinel.meeting_port}/main?sentinel_password={SENTINEL_PASSWORD}"
                    f"&db={DATABASE}&sync=1{f'&ca={trust.authority}' if tls else ''}")

    def bring_up(self, directory, trust):
        first = Replicated(f"{directory}/first", trust)
        self.members.append(first)
        self.members.append(Replicated(f"{directory}/second", trust, "--replicaof", "127.0.0.1",
                                       str(first.meeting_port)))
        wait_until(first.has_replica, "there is a replica")
        self.sentinel = Sentinel(f"{directory}/sentinel", trust, first)
        self.members.append(self.sentinel)
        wait_until(lambda: self.sentinel.ask("SENTINEL", "REPLICAS", "main").startswith(b"*1"),
                   "the sentinel knows the replica")

    def servers(self):
        return self.members[:2]

    def master(self):
        return next(server for server in self.servers() if server.is_master())

    def ask(self, *words):
        return self.master().ask(*words)

    def listeners(self, channel):
        return self.master().listeners(channel)

    def fail_over(self):
        """Returns when the one has taken the other's place, and the other is its replica."""
        old = self.master()
        new = next(server for server in self.servers() if server is not old)
        wait_until(lambda: self.sentinel.ask("SENTINEL", "FAILOVER", "main") == b"+OK\r\n",
                   "the sentinel begins")
        wait_until(lambda: new.is_master() and old.is_replica(), "they have changed places")
        wait_until(new.has_replica, "there is a replica again")

    def stop(self):
        for member in self.members:
            member.stop()
