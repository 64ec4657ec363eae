/* SPDX-License-Identifier: Apache-2.0 */
/* Database servers of a sandbox, by the packages of the distribution: MariaDB and PostgreSQL. Each
 * makes its data when it starts for the first time, and writes each commit to disk. */
#include "torture/run.h"

#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENT = 200, WORDS_MAX = 24, ANSWER_MS = 1000, GREETING = 5, PROTOCOL = 10 };

#define POSTGRES_PROGRAMS "/usr/lib/postgresql/*/bin"

/* The URL names the port, so it stays the same for as long as clients go by it. */
static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    if (!sandbox->url[0])
        server->port = torture_sandbox_port();
    return server->port != 0;
}

/* execv changes none of them. */
static char *const *arguments_of(const char *const *words)
{
    union {
        const char *const *words;
        char *const *arguments;
    } same = { words };
    return same.arguments;
}

/* Runs a program to its end. */
static bool run(const char *const *words)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[0], arguments_of(words));
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fputs(text, file);
    return fclose(file) == 0;
}

/* Of what the server says first, or after the question. */
static size_t read_answer(const struct torture_sandbox *sandbox,
                          const struct torture_server *server, const char *question, size_t size,
                          unsigned char answer[GREETING])
{
    int fd = torture_sandbox_connect(sandbox, server);
    struct pollfd poll_for = { fd, POLLIN, 0 };
    ssize_t length = 0;
    if (fd < 0)
        return 0;
    if (send(fd, question, size, MSG_NOSIGNAL) == (ssize_t)size &&
        poll(&poll_for, 1, ANSWER_MS) > 0)
        length = recv(fd, answer, GREETING, 0);
    close(fd);
    return length > 0 ? (size_t)length : 0;
}

/* ---- MariaDB ---- */

static void become_mariadb(const struct torture_sandbox *sandbox,
                           const struct torture_server *server)
{
    char data[ARGUMENT], log[ARGUMENT], socket[ARGUMENT], port[40], begin[ARGUMENT];
    char address[ARGUMENT], pid[ARGUMENT];
    const char *root = geteuid() == 0 ? "--user=root" : NULL;

    snprintf(data, sizeof data, "--datadir=%s/data", server->directory);
    snprintf(log, sizeof log, "--log-error=%s/log", server->directory);
    snprintf(socket, sizeof socket, "--socket=%s", server->socket);
    snprintf(pid, sizeof pid, "--pid-file=%s/pid", server->directory);
    snprintf(port, sizeof port, "--port=%u", server->port);
    snprintf(address, sizeof address, "--bind-address=%s",
             torture_sandbox_address(sandbox, server));
    snprintf(begin, sizeof begin, "%s/begin.sql", server->directory);
    if (access(begin, F_OK) != 0) {
        const char *install[] = { "mariadb-install-db",
                                  "--no-defaults",
                                  data,
                                  "--skip-test-db",
                                  "--auth-root-authentication-method=normal",
                                  "--innodb-log-file-size=8M",
                                  root,
                                  NULL };
        if (!run(install) || !write_file(begin, "CREATE DATABASE IF NOT EXISTS holdfast;\n"))
            _exit(1);
    }
    snprintf(begin, sizeof begin, "--init-file=%s/begin.sql", server->directory);
    const char *words[] = { "mariadbd",
                            "--no-defaults",
                            data,
                            log,
                            socket,
                            pid,
                            port,
                            address,
                            begin,
                            "--innodb-buffer-pool-size=16M",
                            "--innodb-log-file-size=8M",
                            "--innodb-flush-log-at-trx-commit=1",
                            "--skip-log-bin",
                            "--skip-name-resolve",
                            "--max-connections=500",
                            root,
                            NULL };
    execvp(words[0], arguments_of(words));
    execv("/usr/sbin/mariadbd", arguments_of(words));
}

/* It greets with the version of its protocol, or says why it does not. */
static bool is_mariadb_ready(const struct torture_sandbox *sandbox,
                             const struct torture_server *server)
{
    unsigned char greeting[GREETING] = { 0 };
    return read_answer(sandbox, server, "", 0, greeting) == GREETING &&
           greeting[GREETING - 1] == PROTOCOL;
}

static void lead_to_mariadb(struct torture_sandbox *sandbox)
{
    snprintf(sandbox->url, sizeof sandbox->url, "mariadb://root:@%s:%u/holdfast%s",
             torture_sandbox_address(sandbox, &sandbox->servers[0]), sandbox->servers[0].port,
             sandbox->deployment->options ? sandbox->deployment->options : "");
}

const struct torture_server_kind torture_mariadb_server = {
    .program = "mariadbd (Debian's package mariadb-server)",
    .prepare = prepare,
    .become = become_mariadb,
    .is_ready = is_mariadb_ready,
    .lead = lead_to_mariadb,
};

/* ---- PostgreSQL ---- */

/* It refuses to run as root. */
static bool leave_root(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    const struct passwd *account = getpwnam("postgres");
    if (geteuid() != 0)
        return true;
    if (!account)
        account = getpwnam("nobody");
    return account && chmod(sandbox->directory, 0711) == 0 &&
           chown(server->directory, account->pw_uid, account->pw_gid) == 0 &&
           setgroups(0, NULL) == 0 && setgid(account->pw_gid) == 0 && setuid(account->pw_uid) == 0;
}

/* The newest version's: "/usr/lib/postgresql/15/bin". */
static bool find_programs(char folder[ARGUMENT])
{
    glob_t found = { 0 };
    bool fine = glob(POSTGRES_PROGRAMS, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (fine)
        snprintf(folder, ARGUMENT, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return fine;
}

static void become_postgres(const struct torture_sandbox *sandbox,
                            const struct torture_server *server)
{
    char folder[ARGUMENT], initdb[2 * ARGUMENT], program[2 * ARGUMENT], data[ARGUMENT];
    char version[ARGUMENT], address[ARGUMENT], socket[ARGUMENT], log[ARGUMENT], port[20];
    pid_t parent = getppid();

    if (!find_programs(folder) || !leave_root(sandbox, server) || chdir("/") != 0)
        _exit(1);
    /* Another account forgets it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    snprintf(initdb, sizeof initdb, "%s/initdb", folder);
    snprintf(program, sizeof program, "%s/postgres", folder);
    snprintf(data, sizeof data, "%s/data", server->directory);
    snprintf(version, sizeof version, "%s/data/postgresql.auto.conf", server->directory);
    snprintf(log, sizeof log, "log_directory=%s", server->directory);
    snprintf(socket, sizeof socket, "unix_socket_directories=%s", server->directory);
    snprintf(address, sizeof address, "listen_addresses=%s",
             torture_sandbox_address(sandbox, server));
    snprintf(port, sizeof port, "%u", server->port);
    const char *install[] = { initdb,     "-D", data, "-A",   "trust",      "-U",
                              "postgres", "-N", "-E", "UTF8", "--locale=C", NULL };
    if (access(version, F_OK) != 0 && !run(install))
        _exit(1);
    const char *words[] = { program,
                            "-D",
                            data,
                            "-p",
                            port,
                            "-c",
                            log,
                            "-c",
                            socket,
                            "-c",
                            address,
                            "-c",
                            "log_filename=log",
                            "-c",
                            "logging_collector=on",
                            "-c",
                            "shared_buffers=16MB",
                            "-c",
                            "max_connections=300",
                            NULL };
    execv(program, arguments_of(words));
}

/* It asks for nothing, and lets in: 'R'. While it starts it refuses: 'E'. */
static bool is_postgres_ready(const struct torture_sandbox *sandbox,
                              const struct torture_server *server)
{
    static const char question[] = "\0\0\0\x29\0\3\0\0user\0postgres\0database\0postgres\0";
    unsigned char answer[GREETING] = { 0 };
    return read_answer(sandbox, server, question, sizeof question, answer) > 0 && answer[0] == 'R';
}

static void lead_to_postgres(struct torture_sandbox *sandbox)
{
    snprintf(sandbox->url, sizeof sandbox->url, "postgres://postgres@%s:%u/postgres%s",
             torture_sandbox_address(sandbox, &sandbox->servers[0]), sandbox->servers[0].port,
             sandbox->deployment->options ? sandbox->deployment->options : "");
}

const struct torture_server_kind torture_postgres_server = {
    .program = "postgres (Debian's package postgresql)",
    .prepare = prepare,
    .become = become_postgres,
    .is_ready = is_postgres_ready,
    .lead = lead_to_postgres,
};
