#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Database servers of a test's own: MariaDB, MySQL, PostgreSQL, and PgBouncer before a PostgreSQL.

usage: sql_servers.py run mariadb|mysql|postgres DIRECTORY PORT [OPTION...]
       sql_servers.py run pgbouncer DIRECTORY PORT PORT-OF-THE-SERVER
       sql_servers.py missing mariadb|mysql|postgres|pgbouncer

MySQL is where tools/with-newer-server has put it.

`missing` prints why there is no such server here, or nothing. With `run`, the process becomes the
server, so that its id is the server's. It listens at the port on the loopback interface and at a
socket in the directory. The data that is there stays. New data is copied from a template in
$HOLDFAST_TEST_TEMPLATES, which the first caller makes, or is made where that names no folder. The
database is `holdfast`, its owner is `locks`.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import pwd
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from nothing_left import PR_SET_PDEATHSIG, PRCTL, scratch_place

PATIENCE_S = 60 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))
STARTS = 5
DATABASE, USER, PASSWORD = "holdfast", "locks", "not-a-secret"
MARIADB_SOCKET = "mariadb.sock"
# Accounts can be made once the server has read those that there are.
MARIADB_SETUP = (f"flush privileges;\ncreate database {DATABASE};\n"
                 f"create user '{USER}'@'%' identified by '{PASSWORD}';\n"
                 f"create user '{USER}'@'localhost' identified by '{PASSWORD}';\n"
                 f"grant all on {DATABASE}.* to '{USER}'@'%';\n"
                 f"grant all on {DATABASE}.* to '{USER}'@'localhost';\n")
POSTGRES_SETUP = (f"create role {USER} login password '{PASSWORD}'\n"
                  f"create database {DATABASE} owner {USER}\n")
# MySQL reads it at each start.
MYSQL_SETUP = (MARIADB_SETUP.replace("flush privileges;\n", "")
               .replace("create database ", "create database if not exists ")
               .replace("create user ", "create user if not exists ")
               + f"grant select on performance_schema.* to {USER}@'%', {USER}@localhost;\n")
MYSQL_HOME = os.environ.get("HOLDFAST_MYSQL_HOME", "")
# A client is trusted at the socket. Over TCP the server asks for the password, as in life.
POSTGRES_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
# Also where Debian keeps programs that are not for everybody's path.
PLACES = ["/usr/sbin", *filter(None, [os.environ.get("HOLDFAST_POSTGRES_PROGRAMS")]),
          *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
SIGNALS_TO_END = {"mariadb": signal.SIGKILL, "mysql": signal.SIGKILL, "postgres": signal.SIGQUIT,
                  "pgbouncer": signal.SIGKILL}
PROGRAMS = {"mariadb": ["mariadbd", "mariadb-install-db"], "postgres": ["initdb", "postgres"],
            "pgbouncer": ["pgbouncer"], "mysql": ["mysqld"]}
PACKAGES = {"mariadb": "mariadb-server", "postgres": "postgresql", "pgbouncer": "pgbouncer"}


def program(name):
    """PostgreSQL's own folder goes first: initdb looks for its sibling there."""
    path = os.pathsep.join([*PLACES[1:], os.environ.get("PATH", os.defpath), PLACES[0]])
    return shutil.which(name, path=path)


def missing(kind):
    """Why there is no such server here, or None."""
    if kind == "mysql" and not MYSQL_HOME:
        return "there is no MySQL: tools/with-newer-server mysql gets it"
    absent = [name for name in PROGRAMS[kind] if not program(name)]
    return f"there is no {absent[0]}: install Debian's package {PACKAGES[kind]}" if absent else None


def free_port():
    """None that the system gives away by itself: it has to stay free until the server listens."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


# ---- the process becomes the server ----

def account():
    """PostgreSQL and PgBouncer refuse to run as root: the account that they run as, or None."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def become(who):
    if who:
        os.setgroups([])
        os.setgid(who.pw_gid)
        os.setuid(who.pw_uid)


def quietly(*arguments, **more):
    """Runs it to its end; what it says is shown if it fails."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"sql_servers: {arguments[0]} ended with {done.returncode}:\n{done.stdout}")


def make_mariadb_data(place):
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as setup:
        setup.write(MARIADB_SETUP)
        setup.flush()
        quietly("mariadb-install-db", "--no-defaults", f"--datadir={place}", "--skip-test-db",
                "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M",
                f"--extra-file={setup.name}", *["--user=root"] * (os.geteuid() == 0))


def make_postgres_data(place):
    who = account()
    if who:
        os.makedirs(place)
        os.chown(place, who.pw_uid, who.pw_gid)
    options = {"preexec_fn": lambda: become(who), "cwd": "/"}
    quietly(program("initdb"), "-D", place, "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8",
            "--locale=C", "--no-instructions", **options)
    for statement in POSTGRES_SETUP.splitlines():
        done = subprocess.run([program("postgres"), "--single", "-D", place, "postgres"],
                              input=statement + "\n", text=True, capture_output=True, check=True,
                              **options)
        if "ERROR" in done.stderr:
            sys.exit(f"sql_servers: postgres says: {done.stderr}")
    with open(f"{place}/pg_hba.conf", "w", encoding="utf-8") as file:
        file.write(POSTGRES_HBA)


def mysql_command(place):
    return [program("mysqld"), "--no-defaults", f"--datadir={place}", f"--basedir={MYSQL_HOME}",
            f"--lc-messages-dir={MYSQL_HOME}/share/mysql", "--secure-file-priv=NULL",
            f"--character-sets-dir={MYSQL_HOME}/share/mysql/charsets",
            f"--plugin-dir={MYSQL_HOME}/lib/mysql/plugin",
            *["--user=root"] * (os.geteuid() == 0)]


def make_mysql_data(place):
    os.makedirs(place)
    quietly(*mysql_command(place), "--initialize-insecure")


DATA_MAKERS = {"mariadb": make_mariadb_data, "mysql": make_mysql_data,
               "postgres": make_postgres_data}


def template(kind, place):
    """The folder with a new server's data. Making it takes a second, copying it little."""
    version = subprocess.run([program(PROGRAMS[kind][0]), "--version"], text=True, check=True,
                             capture_output=True).stdout
    digest = hashlib.sha256((version + MARIADB_SETUP + POSTGRES_SETUP).encode()).hexdigest()[:8]
    made = f"{place}/{kind}-{digest}"
    os.makedirs(place, exist_ok=True)
    with open(f"{place}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(made):
            # Only what was made whole gets the name.
            with tempfile.TemporaryDirectory(dir=scratch_place()) as scratch:
                os.chmod(scratch, 0o755)
                DATA_MAKERS[kind](f"{scratch}/data")
                shutil.rmtree(made + ".part", ignore_errors=True)
                quietly("cp", "-a", f"{scratch}/data", made + ".part")
                os.rename(made + ".part", made)
    return made


def make_data(kind, place):
    templates = os.environ.get("HOLDFAST_TEST_TEMPLATES")
    if templates:
        quietly("cp", "-a", template(kind, templates), place)
    else:
        DATA_MAKERS[kind](place)


def become_server(arguments):
    """Changing the account has cleared what ends us with the parent, so that comes after it."""
    parent = os.getppid()
    if parent == 1:
        os._exit(1)
    PRCTL(PR_SET_PDEATHSIG, signal.SIGQUIT if arguments[0].endswith("postgres") else signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.execv(arguments[0], arguments)


def run_mariadb(directory, port, options):
    # A server that starts deletes all temporary tables in its tmpdir, also those of others.
    become_server([program("mariadbd"), "--no-defaults", f"--datadir={directory}/data",
                   f"--tmpdir={directory}",
                   f"--port={port}", "--bind-address=127.0.0.1",
                   f"--socket={directory}/{MARIADB_SOCKET}", f"--pid-file={directory}/mariadb.pid",
                   f"--log-error={directory}/mariadb.log", "--innodb-buffer-pool-size=16M",
                   "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=1",
                   "--performance-schema=OFF", "--skip-log-bin", "--skip-name-resolve",
                   "--max-connections=500", "--open-files-limit=4096",
                   *["--user=root"] * (os.geteuid() == 0 and NODE_USER not in options),
                   *options])


def run_mysql(directory, port, options):
    with open(f"{directory}/setup.sql", "w", encoding="utf-8") as file:
        file.write(MYSQL_SETUP)
    become_server([*mysql_command(f"{directory}/data"), f"--port={port}",
                   "--bind-address=127.0.0.1", f"--socket={directory}/{MARIADB_SOCKET}",
                   f"--pid-file={directory}/mysql.pid", f"--log-error={directory}/mysql.log",
                   f"--init-file={directory}/setup.sql", "--mysqlx=OFF", "--skip-log-bin",
                   "--performance-schema=OFF", "--innodb-buffer-pool-size=32M",
                   "--innodb-redo-log-capacity=16M", "--innodb-use-native-aio=0",
                   "--max-connections=500", *options])


def run_postgres(directory, port, options):
    who = account()
    if who:
        os.chown(directory, who.pw_uid, who.pw_gid)
    with open(f"{directory}/postgres.log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    become(who)
    os.chdir("/")
    become_server([program("postgres"), "-D", f"{directory}/data", "-p", port,
                   "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={directory}",
                   "-c", "shared_buffers=16MB", "-c", "max_connections=300",
                   "-c", "logging_collector=off", *options])


def run_pgbouncer(directory, port, options):
    """In transaction mode, with few connections to the server, so that clients share them."""
    who = account()
    config = f"{directory}/pgbouncer.ini"
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[databases]\n{DATABASE} = host=127.0.0.1 port={options[0]} user={USER} "
                   f"password={PASSWORD} dbname={DATABASE}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                   f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\n"
                   "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\n"
                   f"logfile = {directory}/pgbouncer.log\npidfile = {directory}/pgbouncer.pid\n")
    if who:
        os.chown(directory, who.pw_uid, who.pw_gid)
    become(who)
    become_server([program("pgbouncer"), "-q", config])


RUNS = {"mariadb": run_mariadb, "mysql": run_mysql, "postgres": run_postgres,
        "pgbouncer": run_pgbouncer}


def run(kind, directory, port, options):
    if kind in DATA_MAKERS and not os.path.isdir(f"{directory}/data"):
        make_data(kind, f"{directory}/data.part")
        os.rename(f"{directory}/data.part", f"{directory}/data")
    RUNS[kind](directory, port, options)


# ---- for programs that start servers ----

def mariadb_lets_in(port):
    """It greets with the version of its protocol, or says why it does not."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        return connection.recv(5)[4:] == b"\x0a"


def postgres_lets_in(port):
    """It asks for a password, or refuses because it is starting."""
    words = f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack("!II", 8 + len(words), 3 << 16) + words)
        return connection.recv(1) == b"R"


LETS_IN = {"mariadb": mariadb_lets_in, "mysql": mariadb_lets_in, "postgres": postgres_lets_in,
           "pgbouncer": postgres_lets_in}


GALERA = "/usr/lib/galera/libgalera_smm.so"
# The state goes to a node that joins by rsync, which gives up root.
NODE_USER = "--user=mysql"


class Server:
    """One that runs in a directory. Starting it again leaves its data and its port."""

    def __init__(self, kind, directory, *options):
        self.kind, self.directory, self.options = kind, directory, options
        self.port, self.process = free_port(), None
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)

    def start_once(self):
        """False: it has ended by itself, because another program has taken the port, say."""
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "run",
                                         self.kind, self.directory, str(self.port), *self.options],
                                        stdin=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            with contextlib.suppress(OSError):
                if LETS_IN[self.kind](self.port):
                    return True
            if time.monotonic() > until:
                self.stop()
                sys.exit(f"sql_servers: {self.kind} is not ready after {PATIENCE_S} s")
            time.sleep(0.01)
        return False

    def start(self):
        for _ in range(STARTS):
            if self.start_once():
                return self
            self.port = free_port()
        log = f"{self.directory}/{self.kind}.log"
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                print(file.read()[-2000:], file=sys.stderr)
        sys.exit(f"sql_servers: {self.kind} does not start")

    def stop(self):
        self.process.send_signal(SIGNALS_TO_END[self.kind])
        self.process.wait()


# ---- a cluster ----

def cluster_missing():
    """Why there is no Galera here, or None."""
    if not os.path.exists(GALERA):
        return f"there is no {GALERA}: install Debian's package galera-4"
    return missing("mariadb") or (None if shutil.which("rsync") else "there is no rsync")


def is_synced(server):
    """A node that joins does not answer until it has what the others have."""
    question = subprocess.run(
        ["mariadb", "--no-defaults", "-uroot", "-BNS", f"{server.directory}/{MARIADB_SOCKET}", "-e",
         "show status like 'wsrep_local_state_comment'"], text=True, capture_output=True,
        stdin=subprocess.DEVNULL, check=False)
    return question.stdout.split()[-1:] == ["Synced"]


def start_cluster(directory, count=3):
    """Nodes of a Galera cluster, each synced."""
    nodes, ports = [], [free_port() for _ in range(count)]
    members = ",".join(f"127.0.0.1:{port}" for port in ports)
    for number, port in enumerate(ports):
        place = f"{directory}/node-{number}"
        os.makedirs(place)
        make_data("mariadb", f"{place}/data")
        node = Server("mariadb", place, "--wsrep-on=ON", f"--wsrep-provider={GALERA}", NODE_USER,
                      "--wsrep-cluster-name=holdfast", "--binlog-format=ROW",
                      f"--wsrep-cluster-address=gcomm://{members if number else ''}",
                      f"--wsrep-node-name=node-{number}", "--wsrep-node-address=127.0.0.1",
                      "--wsrep-sst-method=rsync", "--innodb-autoinc-lock-mode=2",
                      f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
                      f"--wsrep-provider-options=base_port={port};gcache.size=16M;"
                      f"gmcast.listen_addr=tcp://127.0.0.1:{port};"
                      f"ist.recv_addr=127.0.0.1:{free_port()}")
        if os.geteuid() == 0:
            quietly("chown", "-R", "mysql", place)
        nodes.append(node.start())
        until = time.monotonic() + PATIENCE_S
        while not is_synced(node):
            if time.monotonic() > until:
                sys.exit(f"sql_servers: node {number} does not join")
            time.sleep(0.05)
    return nodes


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "missing" and sys.argv[2] in RUNS:
        print(missing(sys.argv[2]) or "", end="")
        sys.exit()
    if len(sys.argv) < 5 or sys.argv[1] != "run" or sys.argv[2] not in RUNS:
        sys.exit(__doc__)
    run(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
