/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a run's own: started, killed, and made primary. */
#include "torture/sandbox/sandbox.h"

#include "torture/cleanup_child.h"
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
enum { LOOK_AGAIN_MS = 5, TRIES = 5 };
enum { TIDY_TRIES = 50, TIDY_AGAIN_MS = 100 };

#define STOP (1u << TORTURE_SERVER_STOP)
#define KILL (1u << TORTURE_SERVER_KILL)
#define CLOCK (1u << TORTURE_STORE_CLOCK)
#define PARTITION (1u << TORTURE_PARTITION)
/* With 32 sessions each request of a client has a place in the queue. */
#define SESSION_LOCKS "?layout=session&sessions=32"

const struct torture_deployment *torture_deployment(unsigned index)
{
    static const struct torture_deployment all[] = {
        { "redis", "one server that writes each change to disk before it answers",
          &torture_redis_server, 1, true, STOP | KILL, STOP | KILL },
        { "redis-memory", "one server that keeps nothing on disk", &torture_redis_server, 1, false,
          STOP | KILL, STOP },
        { "redis-clock", "one server; its clock jumps ahead", &torture_redis_server, 1, false,
          STOP | CLOCK, STOP },
        { "redis-failover", "a server and a replica that takes its place", &torture_redis_server, 2,
          false, STOP | 1u << TORTURE_FAILOVER | PARTITION, STOP },
        { "zookeeper", "one ZooKeeper server that writes each change to disk before it answers",
          &torture_zookeeper_server, 1, true, STOP | KILL | CLOCK, STOP | KILL | CLOCK },
        { "zookeeper-ensemble", "three ZooKeeper servers, of which two are a majority",
          &torture_zookeeper_server, 3, true, STOP | KILL | PARTITION, STOP | KILL | PARTITION },
        { "etcd", "one etcd server that writes each change to disk before it answers",
          &torture_etcd_server, 1, true, STOP | KILL, STOP | KILL },
        { "etcd-cluster", "three etcd servers, of which two are a majority", &torture_etcd_server,
          3, true, STOP | KILL | PARTITION, STOP | KILL | PARTITION },
        { "mariadb", "one MariaDB server that writes each commit to disk before it answers",
          &torture_mariadb_server, 1, true, STOP | KILL, STOP | KILL },
        { "postgres", "one PostgreSQL server that writes each commit to disk before it answers",
          &torture_postgres_server, 1, true, STOP | KILL, STOP | KILL },
        { "mariadb-session", "the same, with the named locks of its sessions",
          &torture_mariadb_server, 1, true, STOP | KILL, STOP, SESSION_LOCKS },
        { "postgres-session", "the same, with the advisory locks of its sessions",
          &torture_postgres_server, 1, true, STOP | KILL, STOP, SESSION_LOCKS },
        { "memcached", "one memcached server, which keeps nothing on disk",
          &torture_memcached_server, 1, false, STOP | KILL, STOP },
    };

    return index < sizeof all / sizeof all[0] ? &all[index] : NULL;
}

/* ---- speaking to a server ---- */

/* False: it has ended, or takes too long. */
static bool wait_until_ready(const struct torture_sandbox *sandbox, struct torture_server *server)
{
    int64_t until_ns = torture_clock_ns() + PATIENCE_NS;

    while (!sandbox->deployment->kind->is_ready(sandbox, server)) {
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
    torture_sandbox_clock_use(sandbox->clock); /* mutant: servers-of-sandbox-go */
    if (sandbox->network &&
        !torture_network_be_server(sandbox->network, (unsigned)(server - sandbox->servers)))
        _exit(1);
    sandbox->deployment->kind->become(sandbox, server);
    _exit(127);
}

static bool spawn(const struct torture_sandbox *sandbox, struct torture_server *server)
{
    pid_t self = getpid();

    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0)
        be_server(sandbox, server, self);
    return server->pid > 0;
}

static bool complain(const struct torture_sandbox *sandbox, const struct torture_server *server,
                     char error[256])
{
    snprintf(error, 256, "%s does not start: is it installed? %.120s/log may say why",
             sandbox->deployment->kind->program, server->directory);
    return false;
}

bool torture_sandbox_restart(struct torture_sandbox *sandbox, unsigned number, char error[256])
{
    struct torture_server *server = &sandbox->servers[number];
    const struct torture_server_kind *kind = sandbox->deployment->kind;

    /* Another process may have taken the port meanwhile. */
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if ((tries > 0 || server->port == 0) && !kind->prepare(sandbox, server))
            break;
        if (spawn(sandbox, server) && wait_until_ready(sandbox, server))
            return true;
        torture_sandbox_kill(sandbox, number);
    }
    return complain(sandbox, server, error);
}

/* Servers that choose a leader wait for one another, and know each other's ports. */
static bool start_together(struct torture_sandbox *sandbox, char error[256])
{
    unsigned count = sandbox->deployment->servers, failed = 0;

    for (unsigned tries = 0; tries < TRIES; tries++) {
        bool fine = true;
        for (unsigned i = 0; i < count; i++)
            fine = sandbox->deployment->kind->prepare(sandbox, &sandbox->servers[i]) && fine;
        for (unsigned i = 0; fine && i < count; i++)
            fine = spawn(sandbox, &sandbox->servers[i]);
        for (unsigned i = 0; fine && i < count; i++) {
            fine = wait_until_ready(sandbox, &sandbox->servers[i]);
            failed = fine ? failed : i;
        }
        if (fine)
            return true;
        for (unsigned i = 0; i < count; i++)
            torture_sandbox_kill(sandbox, i);
    }
    return complain(sandbox, &sandbox->servers[failed], error);
}

static bool start_servers(struct torture_sandbox *sandbox, char error[256])
{
    if (sandbox->deployment->servers > 1 && sandbox->deployment->kind->find_leader)
        return start_together(sandbox, error);
    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        if (!torture_sandbox_restart(sandbox, i, error))
            return false;
    return true;
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
    return true;
}

static void tidy_up(const void *arg);

bool torture_sandbox_start(struct torture_sandbox *sandbox,
                           const struct torture_deployment *deployment, unsigned faults,
                           char error[256])
{
    *sandbox = (struct torture_sandbox){ .deployment = deployment };
    bool fine = make_directories(sandbox);
    if (!fine)
        snprintf(error, 256, "no directory for the servers of the sandbox: %s", strerror(errno));
    if (fine)
        sandbox->guardian = torture_cleanup_post(tidy_up, sandbox->directory);
    if (fine && deployment->faults & 1u << TORTURE_STORE_CLOCK) {
        sandbox->clock = torture_sandbox_clock_new();
        fine = sandbox->clock != NULL;
        if (!fine)
            snprintf(error, 256, "no clock for the servers of the sandbox: %s", strerror(errno));
    }
    if (fine && deployment->faults & faults & PARTITION)
        sandbox->network = torture_network_new(deployment->servers, sandbox->no_network);
    fine = fine && start_servers(sandbox, error);
    if (!fine)
        torture_sandbox_end(sandbox);
    else
        sandbox->deployment->kind->lead(sandbox);
    return fine;
}

/* ---- ending ---- */

void torture_sandbox_signal(const struct torture_server *server, int number)
{
    char path[80];
    int child;
    /* The one that starts others goes first; and last, once nothing finds its children by it. */
    if (number != SIGKILL)
        kill(server->pid, number);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", server->pid, server->pid);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        kill(child, number);
    if (file)
        fclose(file);
    if (number == SIGKILL)
        kill(server->pid, number);
}

void torture_sandbox_kill(struct torture_sandbox *sandbox, unsigned number)
{
    struct torture_server *server = &sandbox->servers[number];

    if (server->pid <= 0)
        return;
    /* Stopped, it starts no more of them. */
    torture_sandbox_signal(server, SIGSTOP);
    torture_sandbox_signal(server, SIGKILL);
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

static void remove_directory(const char *directory)
{
    nftw(directory, take_away, 8, FTW_DEPTH | FTW_PHYS); /* mutant: sandbox-leaves-its-directory */
}

/* The servers were killed with us, a moment ago: until then they may write. */
static void tidy_up(const void *arg)
{
    const char *directory = arg;

    for (unsigned tries = 0; tries < TIDY_TRIES && access(directory, F_OK) == 0; tries++) {
        if (tries > 0)
            poll(NULL, 0, TIDY_AGAIN_MS);
        remove_directory(directory);
    }
}

void torture_sandbox_end(struct torture_sandbox *sandbox)
{
    for (unsigned i = 0; i < TORTURE_SERVERS; i++)
        torture_sandbox_kill(sandbox, i);
    if (sandbox->directory[0])
        remove_directory(sandbox->directory);
    torture_cleanup_dismiss(sandbox->guardian);
    sandbox->guardian = 0;
    sandbox->directory[0] = '\0';
    torture_sandbox_clock_free(sandbox->clock);
    sandbox->clock = NULL;
    torture_network_free(sandbox->network);
    sandbox->network = NULL;
}

/* ---- the leader, and the sides of servers and clients ---- */

bool torture_sandbox_look_for_leader(struct torture_sandbox *sandbox)
{
    const struct torture_server_kind *kind = sandbox->deployment->kind;

    return !kind->find_leader || sandbox->deployment->servers == 1 ||
           kind->find_leader(sandbox, &sandbox->primary);
}

unsigned torture_sandbox_side(const struct torture_sandbox *sandbox, unsigned client)
{
    return sandbox && sandbox->network ? client % TORTURE_SIDES : 0;
}

/* ---- failing over ---- */

bool torture_sandbox_cut_replica(struct torture_sandbox *sandbox)
{
    const struct torture_server *replica = &sandbox->servers[1 - sandbox->primary];

    /* What it has been sent and has not read would still reach it: so its connection goes. */
    return kill(replica->pid, SIGSTOP) == 0 && /* mutant: replica-is-not-cut-off */
           sandbox->deployment->kind->cut_replicas(&sandbox->servers[sandbox->primary]);
}

bool torture_sandbox_promote(struct torture_sandbox *sandbox)
{
    unsigned next = 1 - sandbox->primary, was = sandbox->primary;
    struct torture_server *server = &sandbox->servers[next];

    kill(server->pid, SIGCONT);
    sandbox->primary = next;
    if (!sandbox->deployment->kind->promote(server) || !wait_until_ready(sandbox, server)) {
        sandbox->primary = was;
        return false;
    }
    return true;
}
