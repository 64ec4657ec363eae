/* Redis servers of a run's own: started, killed, and made primary. */
#include "torture/sandbox.h"

#include "torture/run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(30000000000)
enum { LOOK_AGAIN_MS = 5, TRIES = 5, ANSWER = 8192 };

static const unsigned stop_and_kill = 1u << TORTURE_SERVER_STOP | 1u << TORTURE_SERVER_KILL;

const struct torture_deployment *torture_deployment(unsigned index)
{
    static const struct torture_deployment all[] = {
        { "redis", "one server that writes each change to disk before it answers", 1, true,
          stop_and_kill, stop_and_kill },
        { "redis-memory", "one server that keeps nothing on disk", 1, false, stop_and_kill,
          1u << TORTURE_SERVER_STOP },
        { "redis-failover", "a server and a replica that takes its place", 2, false,
          1u << TORTURE_SERVER_STOP | 1u << TORTURE_FAILOVER, 1u << TORTURE_SERVER_STOP },
    };

    return index < sizeof all / sizeof all[0] ? &all[index] : NULL;
}

/* ---- speaking to a server ---- */

static int connect_to(const struct torture_server *server)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* One command, in words; true if its answer has `wanted` in it. */
static bool tell(const struct torture_server *server, const char *command, const char *wanted)
{
    char answer[ANSWER] = "";
    struct pollfd poll_for = { connect_to(server), POLLIN, 0 };
    size_t length = 0;
    bool found = false;

    if (poll_for.fd < 0)
        return false;
    if (send(poll_for.fd, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command))
        while (!found && length + 1 < sizeof answer && poll(&poll_for, 1, 1000) > 0) {
            ssize_t count = recv(poll_for.fd, answer + length, sizeof answer - length - 1, 0);
            if (count <= 0)
                break;
            length += (size_t)count;
            answer[length] = '\0';
            found = strstr(answer, wanted);
        }
    close(poll_for.fd);
    return found;
}

/* False: it has ended, or takes too long. */
static bool wait_until(struct torture_server *server, const char *command, const char *wanted)
{
    int64_t until_ns = torture_clock_ns() + PATIENCE_NS;

    while (!tell(server, command, wanted)) {
        if (torture_clock_ns() >= until_ns)
            return false;
        if (waitpid(server->pid, NULL, WNOHANG) != 0) {
            server->pid = 0;
            return false;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return true;
}

/* ---- starting ---- */

static _Noreturn void be_server(const struct torture_sandbox *sandbox,
                                const struct torture_server *server, pid_t parent)
{
    const struct torture_server *primary = &sandbox->servers[sandbox->primary];
    char port[8], primary_port[8];
    sigset_t none;
    int null = open("/dev/null", O_RDWR);

    /* A Ctrl-C is for the driver. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || null < 0)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    snprintf(port, sizeof port, "%u", server->port);
    snprintf(primary_port, sizeof primary_port, "%u", primary->port);
    bool is_replica = server != primary;
    execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port, "--unixsocket",
           server->socket, "--dir", server->directory, "--logfile", "log", "--save", "",
           "--appendonly", sandbox->deployment->durable ? "yes" : "no", "--appendfsync", "always",
           "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
           is_replica ? "--replicaof" : (char *)NULL, "127.0.0.1", primary_port, (char *)NULL);
    _exit(127);
}

/* That nobody listened on a moment ago. Replication needs one. */
static unsigned find_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0;

    if (fd >= 0)
        close(fd);
    return fine ? ntohs(address.sin_port) : 0;
}

bool torture_sandbox_restart(struct torture_sandbox *sandbox, unsigned number, char error[256])
{
    struct torture_server *server = &sandbox->servers[number];
    const char *wanted = number == sandbox->primary ? "role:master" : "master_link_status:up";
    pid_t self = getpid();

    /* Somebody else may have taken the port meanwhile. */
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if (tries > 0 || server->port == 0)
            server->port = find_port();
        fflush(NULL);
        server->pid = fork();
        if (server->pid == 0)
            be_server(sandbox, server, self);
        if (server->pid > 0 && wait_until(server, "INFO replication\r\n", wanted))
            return true;
        torture_sandbox_kill(sandbox, number);
    }
    snprintf(error, 256, "redis-server does not start: is it installed? %.120s/log may say why",
             server->directory);
    return false;
}

/* ---- the way to the primary ---- */

static bool lead_to_primary(const struct torture_sandbox *sandbox)
{
    char link[96], fresh[96];

    snprintf(link, sizeof link, "%s/primary", sandbox->directory);
    snprintf(fresh, sizeof fresh, "%s/next", sandbox->directory);
    return symlink(sandbox->servers[sandbox->primary].socket, fresh) == 0 &&
           rename(fresh, link) == 0;
}

static bool make_directories(struct torture_sandbox *sandbox)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(sandbox->directory, sizeof sandbox->directory, "%s/holdfast-sandbox-XXXXXX", parent);
    if (!mkdtemp(sandbox->directory)) {
        sandbox->directory[0] = '\0';
        return false;
    }
    for (unsigned i = 0; i < sandbox->deployment->servers; i++) {
        struct torture_server *server = &sandbox->servers[i];
        snprintf(server->directory, sizeof server->directory, "%s/%u", sandbox->directory, i);
        snprintf(server->socket, sizeof server->socket, "%s/%u/socket", sandbox->directory, i);
        if (mkdir(server->directory, 0700) != 0)
            return false;
    }
    snprintf(sandbox->url, sizeof sandbox->url, "redis+unix://%s/primary", sandbox->directory);
    return lead_to_primary(sandbox);
}

bool torture_sandbox_start(struct torture_sandbox *sandbox,
                           const struct torture_deployment *deployment, char error[256])
{
    *sandbox = (struct torture_sandbox){ .deployment = deployment };
    bool fine = make_directories(sandbox);
    if (!fine)
        snprintf(error, 256, "no directory for the servers of the sandbox: %s", strerror(errno));
    for (unsigned i = 0; fine && i < deployment->servers; i++)
        fine = torture_sandbox_restart(sandbox, i, error);
    if (!fine)
        torture_sandbox_end(sandbox);
    return fine;
}

/* ---- ending ---- */

void torture_sandbox_kill(struct torture_sandbox *sandbox, unsigned number)
{
    struct torture_server *server = &sandbox->servers[number];

    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    server->pid = 0;
}

static int take_away(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

void torture_sandbox_end(struct torture_sandbox *sandbox)
{
    for (unsigned i = 0; i < TORTURE_SERVERS; i++)
        torture_sandbox_kill(sandbox, i);
    if (sandbox->directory[0])
        nftw(sandbox->directory, take_away, 8, FTW_DEPTH | FTW_PHYS);
    sandbox->directory[0] = '\0';
}

/* ---- failing over ---- */

bool torture_sandbox_cut_replica(struct torture_sandbox *sandbox)
{
    const struct torture_server *replica = &sandbox->servers[1 - sandbox->primary];

    /* What it has been sent and has not read would still reach it: so its connection goes. */
    return kill(replica->pid, SIGSTOP) == 0 &&
           tell(&sandbox->servers[sandbox->primary], "CLIENT KILL TYPE replica\r\n", ":1");
}

bool torture_sandbox_promote(struct torture_sandbox *sandbox)
{
    unsigned next = 1 - sandbox->primary;

    kill(sandbox->servers[next].pid, SIGCONT);
    if (!wait_until(&sandbox->servers[next], "REPLICAOF NO ONE\r\n", "+OK"))
        return false;
    sandbox->primary = next;
    return lead_to_primary(sandbox);
}
