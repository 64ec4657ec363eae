#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lock tables that are shared with hand-written programs, ShedLock, Symfony and Laravel: each
respects the others.

usage: test_sql.py mariadb|postgres HOLDFAST COUNTER POM BUILD_DIRECTORY
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "lib")]

from maven import java_command  # noqa: E402
from sides import Skip, equal, need, run, scratch, skip_all  # noqa: E402
from sql_servers import (DATABASE, MARIADB_SOCKET, PASSWORD, USER, Server,  # noqa: E402
                         missing, program)
from turns import SCENES, status  # noqa: E402

SHEDLOCK = "7.9.0"
# Debian's modules for databases are those of Debian's interpreter.
PYTHON = "/usr/bin/python3"
MODULES = {"mariadb": ("pymysql", "python3-pymysql"), "postgres": ("psycopg2", "python3-psycopg2")}
DRIVERS = {"mariadb": ("mysql", "php-mysql"), "postgres": ("pgsql", "php-pgsql")}
AUTOLOAD = {"symfony": ["Symfony/Component/Lock"],
            "laravel": ["Illuminate/Cache", "Illuminate/Database"]}
# Each as its users make it. Symfony makes its own.
TABLES = {
    "method_lock": {
        "mariadb": """CREATE TABLE method_lock (
            id int(11) NOT NULL AUTO_INCREMENT PRIMARY KEY,
            method_name varchar(64) NOT NULL DEFAULT '',
            `desc` varchar(1024) NOT NULL DEFAULT '',
            update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
            UNIQUE KEY uidx_method_name (method_name) USING BTREE) ENGINE=InnoDB""",
        "postgres": """CREATE TABLE method_lock (
            id serial PRIMARY KEY, method_name varchar(64) NOT NULL UNIQUE,
            "desc" varchar(1024) NOT NULL DEFAULT '',
            update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)""",
    },
    "common_lock": {
        kind: """CREATE TABLE common_lock (id int NOT NULL, entry_count int NOT NULL,
                 thread_id int NOT NULL, host_ip varchar(30) NOT NULL, PRIMARY KEY (id))"""
        for kind in ("mariadb", "postgres")
    },
    "shedlock": {
        "mariadb": """CREATE TABLE shedlock (name VARCHAR(64) NOT NULL,
            lock_until TIMESTAMP(3) NOT NULL,
            locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
            locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))""",
        "postgres": """CREATE TABLE shedlock (name VARCHAR(64) NOT NULL,
            lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL,
            locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))""",
    },
    "laravel": {
        "mariadb": """CREATE TABLE cache_locks (`key` varchar(255) COLLATE utf8mb4_unicode_ci
            NOT NULL PRIMARY KEY, owner varchar(255) COLLATE utf8mb4_unicode_ci NOT NULL,
            expiration int NOT NULL) DEFAULT CHARACTER SET utf8mb4""",
        "postgres": """CREATE TABLE cache_locks (key varchar(255) NOT NULL PRIMARY KEY,
            owner varchar(255) NOT NULL, expiration integer NOT NULL)""",
    },
    "symfony": {"mariadb": "", "postgres": ""},
}


def make_table(server, layout):
    """As its owner, so that the other program may use it."""
    environment = {**os.environ, "MYSQL_PWD": PASSWORD, "PGPASSWORD": PASSWORD}
    words = (["mariadb", "--no-defaults", "-u", USER, "-S", f"{server.directory}/{MARIADB_SOCKET}",
              DATABASE, "-e"] if server.kind == "mariadb" else
             [program("psql"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER, "-d",
              DATABASE, "-v", "ON_ERROR_STOP=1", "-qc"])
    subprocess.run([*words, TABLES[layout][server.kind]], env=environment, check=True)


class Box:
    """A table of one layout: the library's program, and holdfast."""

    def __init__(self, directory, server, layout):
        self.directory, self.server, self.layout = directory, server, layout
        self.holdfast, self.counter = sys.argv[2:4]
        self.name = "42" if layout == "common_lock" else "shared"
        self.url = (f"{server.kind}://{USER}:{PASSWORD}@127.0.0.1:{server.port}/{DATABASE}"
                    f"?layout={layout}")

    def php(self):
        need("php")
        driver, package = DRIVERS[self.server.kind]
        modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
        if f"pdo_{driver}" not in modules.split():
            raise Skip(f"PHP has no module for the database: install {package}")
        for part in AUTOLOAD[self.layout]:
            if not os.path.exists(f"/usr/share/php/{part}/autoload.php"):
                raise Skip(f"there is no {part} in /usr/share/php")
        return ["php", "-d", "display_errors=stderr", str(HERE / "counter.php"), self.layout,
                driver, str(self.server.port), USER, PASSWORD, DATABASE]

    def python(self):
        module, package = MODULES[self.server.kind]
        if not os.path.exists(PYTHON) or subprocess.run(
                [PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            raise Skip(f"{PYTHON} has no module {module}: install {package}")
        return [PYTHON, str(HERE / "hand_made.py"), self.server.kind, self.layout,
                str(self.server.port), USER, PASSWORD, DATABASE]

    def java(self):
        command = java_command("ShedLock", SHEDLOCK, sys.argv[4], sys.argv[5])
        return [*command, f"jdbc:{self.server.kind.replace('postgres', 'postgresql')}://127.0.0.1:"
                f"{self.server.port}/{DATABASE}", USER, PASSWORD]

    def peer(self, *arguments):
        commands = {"method_lock": self.python, "common_lock": self.python, "shedlock": self.java,
                    "symfony": self.php, "laravel": self.php}
        return [*commands[self.layout](), self.name, *arguments]

    def ours(self, *arguments):
        return [self.holdfast, "-e", self.url, *arguments]


def play(directory, server, played):
    layout, scene = played
    box = Box(directory, server, layout)
    first = box.peer("-", "0")
    if scene == SCENES[0] and TABLES[layout][server.kind]:
        make_table(server, layout)
    elif scene == SCENES[0]:
        # Of two first users of Symfony's, one may fail.
        equal(status(first), 0, "how its maker ends")
    scene(box)


def main():
    kind = sys.argv[1]
    pathlib.Path(sys.argv[5]).mkdir(parents=True, exist_ok=True)
    if missing(kind):
        skip_all(missing(kind))
    with scratch() as directory:
        os.chmod(directory, 0o755)
        server = Server(kind, f"{directory}/{kind}").start()
        try:
            return run([(f"{layout}_{scene.__name__}", (layout, scene))
                        for layout in TABLES for scene in SCENES],
                       lambda played: play(directory, server, played))
        finally:
            server.stop()


sys.exit(main())
