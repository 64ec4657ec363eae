#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs with $HOLDFAST_TEST_URL naming a database server of their own, ended with them.

usage: with_sql.py [--place PLACE] [--options WORDS] PROGRAM [ARGUMENT...]
       with_sql.py [--place PLACE] [--options WORDS] --each PROGRAM...

PLACE is mariadb, mysql or postgres (reached by a socket in the file system), mariadb-tcp,
mysql-tcp, postgres-tcp, mariadb-tls, postgres-tls, pgbouncer (in transaction mode, before a
PostgreSQL), or galera (three nodes of MariaDB). WORDS are added to the options of the URL. Several
programs run one after another at the same server, and what they print is one list of tests.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from certificate import make_certificate  # noqa: E402
from each_program import run_each  # noqa: E402
from nothing_left import die_with_parent, scratch_place  # noqa: E402
from sql_servers import (DATABASE, MARIADB_SOCKET, PASSWORD, USER, Server,  # noqa: E402
                         account, cluster_missing, missing, start_cluster)

# No server here is silent, but machines are slow.
PATIENT = "timeout=60000"
TLS_OPTIONS = {
    "mariadb": ["--ssl-cert={}/server.crt", "--ssl-key={}/server.key"],
    "postgres": ["-c", "ssl=on", "-c", "ssl_cert_file={}/server.crt", "-c",
                 "ssl_key_file={}/server.key"],
}


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def secure(directory, kind):
    """A certificate in a folder of the server's, whose account may read its key alone."""
    os.makedirs(directory)
    os.chmod(directory, 0o755)
    make_certificate(directory)
    who = account()
    if who and kind == "postgres":
        os.chown(f"{directory}/server.key", who.pw_uid, who.pw_gid)
    return [word.format(directory) for word in TLS_OPTIONS[kind]]


def start(directory, place):
    """The servers of a place, and the URL without options of ours."""
    kind, _, way = place.partition("-")
    if place == "galera":
        servers = start_cluster(directory)
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        return servers, f"mariadb://{USER}:{PASSWORD}@{hosts}/{DATABASE}?tls=off"
    kind = "postgres" if kind == "pgbouncer" else kind
    options = secure(f"{directory}/tls", kind) if way == "tls" else []
    # Which locks a session has is shown by a plug-in, or by the performance schema.
    if kind == "mariadb" and "layout=session" in sys.argv:
        options = [*options, "--plugin-load-add=metadata_lock_info"]
    if kind == "mysql" and "layout=session" in sys.argv:
        options = [*options, "--performance-schema=ON"]
    servers = [Server(kind, f"{directory}/{kind}", *options).start()]
    if place == "pgbouncer":
        servers.append(Server("pgbouncer", f"{directory}/pgbouncer", str(servers[0].port)).start())
    who, port = f"{kind}://{USER}:{PASSWORD}@", servers[-1].port
    if way == "tls":
        return servers, f"{who}127.0.0.1:{port}/{DATABASE}?ca={directory}/tls/server.crt"
    if way == "tcp" or place == "pgbouncer":
        return servers, f"{who}127.0.0.1:{port}/{DATABASE}?tls=off"
    socket = f"{directory}/{kind}" + ("" if kind == "postgres" else f"/{MARIADB_SOCKET}")
    port = f":{port}" if kind == "postgres" else ""
    return servers, f"{who}localhost{port}/{DATABASE}?socket={socket}"


def main():
    place, options, words = "mariadb", "", sys.argv[1:]
    while words[0] in ("--place", "--options"):
        place, options = (words[1], options) if words[0] == "--place" else (place, words[1])
        words = words[2:]
    kinds = ["postgres", "pgbouncer"] if place == "pgbouncer" else [place.partition("-")[0]]
    for why in filter(None, [cluster_missing()] if place == "galera" else map(missing, kinds)):
        skip(why)
    with tempfile.TemporaryDirectory(prefix="holdfast-sql-", dir=scratch_place()) as directory:
        # PostgreSQL has an account of its own.
        os.chmod(directory, 0o755)
        servers, url = start(directory, place)
        url = "&".join(filter(None, [url, PATIENT, options]))
        environment = dict(os.environ, HOLDFAST_TEST_URL=url)
        # The table of another program is not made by its first use.
        if "layout=" in options and "layout=session" not in options:
            subprocess.run([os.environ["HOLDFAST_COMMAND"], "-e", url, "schema", "create"],
                           check=True, preexec_fn=die_with_parent)
        if words[0] == "--each":
            status = run_each(words[1:], environment)
        else:
            status = subprocess.call(words, env=environment, preexec_fn=die_with_parent)
        for server in reversed(servers):
            server.stop()
    sys.exit(status if status >= 0 else 128 - status)


main()
