/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a database server by tests/lib/sql_servers.py, and speaking to it by its own client. */
#include "sql_server.h"

#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 40000
#define STARTS 5

bool sql_server_is_mariadb(const struct sql_server *server)
{
    return strcmp(server->kind, "mariadb") == 0 || strcmp(server->kind, "mysql") == 0;
}

static void be_server(void *arg)
{
    struct sql_server *server = arg;
    const char *all[SQL_SERVER_OPTIONS + 7] = { "python3",    SQL_SERVERS,       "run",
                                                server->kind, server->directory, NULL };
    char port[8];

    snprintf(port, sizeof(port), "%d", server->port);
    all[5] = port;
    for (int i = 0; i < SQL_SERVER_OPTIONS && server->options[i]; i++)
        all[6 + i] = server->options[i];
    if (!freopen("/dev/null", "w", stdout))
        _exit(127);
    execvp("python3", (char *const *)(uintptr_t)all);
    _exit(127);
}

/* MariaDB greets with the version of its protocol. */
static bool mariadb_lets_in(int fd)
{
    char greeting[5];

    return recv(fd, greeting, sizeof(greeting), MSG_WAITALL) == sizeof(greeting) &&
           greeting[4] == 10;
}

/* PostgreSQL asks for a password, or refuses because it is starting. */
static bool postgres_lets_in(int fd)
{
    static const char hello[] =
        "\0\0\0\x26\0\3\0\0user\0" SQL_SERVER_USER "\0database\0" SQL_SERVER_DATABASE "\0";
    char reply;

    CHECK(sizeof(hello) == 38);
    return send(fd, hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) &&
           recv(fd, &reply, 1, 0) == 1 && reply == 'R';
}

static bool lets_in(const struct sql_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct timeval patience = { .tv_sec = 5 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    bool is_ready = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                    (sql_server_is_mariadb(server) ? mariadb_lets_in(fd) : postgres_lets_in(fd));
    close(fd);
    return is_ready;
}

static bool has_ended(const struct sql_server *server)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)server->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

static bool becomes_ready(const struct sql_server *server)
{
    bool ready = false;

    EVENTUALLY((ready = lets_in(server)) || has_ended(server), PATIENCE_MS);
    return ready;
}

static void need_server(const char *kind)
{
    char line[200] = "", command[300];

    snprintf(command, sizeof(command), "python3 %s missing %s", SQL_SERVERS, kind);
    FILE *said = popen(command, "r");
    CHECK(said != NULL);
    if (fgets(line, sizeof(line), said))
        line[strcspn(line, "\n")] = '\0';
    CHECK(pclose(said) == 0);
    if (*line)
        SKIP("%s", line);
}

void sql_server_start_again(struct sql_server *server)
{
    child_start(&server->process, be_server, server);
    CHECK(becomes_ready(server));
}

/* Another program may take its port before it does. */
void sql_server_start(struct sql_server *server, const char *kind)
{
    bool ready = false;

    need_server(kind);
    TEST_TIMEOUT(300);
    /* A thread that libmariadb keeps busy ends by itself when its client is closed. */
    test_fds_close_late = true;
    server->kind = kind;
    CHECK(chmod(temp_dir(), 0755) == 0);
    for (int i = 0, made = -1; made != 0; i++) {
        snprintf(server->directory, sizeof(server->directory), "%s", temp_path("%s%d", kind, i));
        made = mkdir(server->directory, 0755);
        CHECK(made == 0 || errno == EEXIST);
    }
    for (int i = 0; i < STARTS && !ready; i++) {
        server->port = free_port();
        child_start(&server->process, be_server, server);
        ready = becomes_ready(server);
        if (!ready)
            child_kill(&server->process);
    }
    CHECK(ready);
}

/* PostgreSQL's processes end with their first one, and at once by this signal. */
void sql_server_kill(struct sql_server *server)
{
    /* PgBouncer takes SIGQUIT as it was inherited, so a job in the background would ignore it. */
    if (strcmp(server->kind, "postgres") != 0) {
        child_kill(&server->process);
        return;
    }
    child_signal(&server->process, SIGQUIT);
    child_wait(&server->process);
}

/* PostgreSQL has a process for each connection. */
static void signal_all(const struct sql_server *server, const char *name)
{
    char command[200];

    snprintf(command, sizeof(command), "kill -%s %d $(cat /proc/%d/task/%d/children)", name,
             server->process.pid, server->process.pid, server->process.pid);
    CHECK(system(command) == 0);
}

/* Returns when no thread runs any more. */
void sql_server_stop(struct sql_server *server)
{
    char command[300];

    signal_all(server, "STOP");
    snprintf(command, sizeof(command),
             "cat /proc/%d/task/*/status $(sed 's|[0-9][0-9]*|/proc/&/task/*/status|g' "
             "/proc/%d/task/%d/children) | grep '^State:' | grep -qv '[[:space:]]T'",
             server->process.pid, server->process.pid, server->process.pid);
    EVENTUALLY(system(command) != 0, 20000);
}

void sql_server_continue(struct sql_server *server)
{
    signal_all(server, "CONT");
}

const char *sql_server_url(const struct sql_server *server, int port)
{
    static _Thread_local char url[160];
    char option[40] = "";

    if (server->connections > 0)
        snprintf(option, sizeof(option), "&connections=%d", server->connections);
    snprintf(url, sizeof(url),
             "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD "@127.0.0.1:%d/" SQL_SERVER_DATABASE
             "?tls=off%s",
             server->kind, port, option);
    return url;
}

hf_client *sql_open(const struct sql_server *server, int port, int timeout_ms, int64_t lease_ms)
{
    hf_client *client = NULL;
    char url[200], option[40] = "";

    if (timeout_ms > 0)
        snprintf(option, sizeof(option), "&timeout=%d", timeout_ms);
    snprintf(url, sizeof(url), "%s%s", sql_server_url(server, port), option);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

const char *sql_server_says(const struct sql_server *server, const char *format, ...)
{
    static _Thread_local char said[4000];
    char path[240], command[600];
    va_list arguments;

    snprintf(path, sizeof(path), "%s/%d.sql", server->directory, gettid());
    FILE *statements = fopen(path, "w");
    CHECK(statements != NULL);
    va_start(arguments, format);
    vfprintf(statements, format, arguments);
    va_end(arguments);
    CHECK(fclose(statements) == 0);
    if (sql_server_is_mariadb(server))
        snprintf(command, sizeof(command),
                 "mariadb --no-defaults -BN -uroot -S %.190s/mariadb.sock " SQL_SERVER_DATABASE
                 " <%.200s 2>&1",
                 server->directory, path);
    else
        /* What Debian has in /usr/bin is a script that finds it, and takes ten times as long. */
        snprintf(command, sizeof(command),
                 "PATH=$(printf '%%s:' /usr/lib/postgresql/*/bin)$PATH "
                 "psql -XqtAw -F '\t' -h %.190s -p %d -U postgres " SQL_SERVER_DATABASE
                 " -f %.200s 2>&1",
                 server->directory, server->port, path);
    FILE *client = popen(command, "r");
    CHECK(client != NULL);
    size_t length = fread(said, 1, sizeof(said) - 1, client);
    said[length] = '\0';
    if (pclose(client) != 0)
        FAIL("%s says: %s", server->kind, said);
    if (length > 0 && said[length - 1] == '\n')
        said[length - 1] = '\0';
    return said;
}

bool sql_server_shows(const struct sql_server *server, const char *statement, const char *wanted)
{
    return strcmp(sql_server_says(server, "%s", statement), wanted) == 0;
}

const char *sql_server_now_us(const struct sql_server *server)
{
    return sql_server_is_mariadb(server)
               ? "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
               : "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint";
}

long sql_server_logged(const struct sql_server *server, const char *words)
{
    char command[400];
    long count = 0;

    snprintf(command, sizeof(command), "grep -c '%s' %.200s/postgres.log", words,
             server->directory);
    FILE *counted = popen(command, "r");
    CHECK(counted != NULL);
    CHECK(fscanf(counted, "%ld", &count) == 1);
    pclose(counted);
    return count;
}
