#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The database servers that tests start: they are reached in each way, and keep their data."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tidy"))
import tap  # noqa: E402
import sql_servers  # noqa: E402
from nothing_left import scratch_place  # noqa: E402

TABLE = "create table kept (number integer)"


def need(*kinds):
    for why in filter(None, map(sql_servers.missing, kinds)):
        raise tap.Skip(why)


def client(server, statement):
    """What the server's own client prints, over TCP and with the password."""
    if server.kind == "mariadb":
        words = ["mariadb", "--no-defaults", "-BN", "--protocol=tcp", "-h127.0.0.1",
                 f"-P{server.port}", f"-u{sql_servers.USER}", f"-p{sql_servers.PASSWORD}",
                 sql_servers.DATABASE, "-e", statement]
    else:
        words = ["psql", "-Xqtw", "-h", "127.0.0.1", "-p", str(server.port), "-U",
                 sql_servers.USER, sql_servers.DATABASE, "-c", statement]
    done = subprocess.run(words, text=True, capture_output=True, check=False,
                          env=dict(os.environ, PGPASSWORD=sql_servers.PASSWORD))
    return done.stdout.strip() if done.returncode == 0 else done.stderr


def kept(kind):
    """Killed, and started again in the same place."""
    need(kind)
    with tempfile.TemporaryDirectory(dir=scratch_place()) as directory:
        os.chmod(directory, 0o755)
        server = sql_servers.Server(kind, f"{directory}/{kind}").start()
        said = [client(server, TABLE), client(server, "insert into kept values (7)")]
        server.stop()
        refused = client(server, "select * from kept")
        server.start()
        found = client(server, "select * from kept")
        server.stop()
    return [f"{kind}: {said}, then {refused!r}, then {found!r}"] * (
        said != ["", ""] or found != "7" or refused == "7")


def mariadb_killed_keeps_data():
    return kept("mariadb")


def postgres_killed_keeps_data():
    return kept("postgres")


def pgbouncer_reaches_postgres():
    need("postgres", "pgbouncer")
    with tempfile.TemporaryDirectory(dir=scratch_place()) as directory:
        os.chmod(directory, 0o755)
        server = sql_servers.Server("postgres", f"{directory}/postgres").start()
        pooler = sql_servers.Server("pgbouncer", f"{directory}/pgbouncer",
                                    str(server.port)).start()
        found = client(pooler, "select current_user")
        pooler.stop()
        server.stop()
    return [f"through PgBouncer: {found!r}"] * (found != sql_servers.USER)


tap.run([(test.__name__, test) for test in
         (mariadb_killed_keeps_data, postgres_killed_keeps_data, pgbouncer_reaches_postgres)])
