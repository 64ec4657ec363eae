/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a cluster, and asking it without the library. */
#include "cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 16384
#define READY_MS 60000

/* A master answers with three parts, a replica with five. */
bool is_master(const struct server *server)
{
    return server_says(server, "ROLE", "*3");
}

__attribute__((format(printf, 2, 3))) static void must(const struct server *server,
                                                       const char *format, ...)
{
    char command[300];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    EVENTUALLY(server_says(server, command, "+OK"), READY_MS);
}

/* All see all, and somebody has each slot. */
static bool is_whole(const struct server *server)
{
    return server_says(server,
                       "EVAL \"local i = redis.call('cluster', 'info') return "
                       "string.find(i, 'cluster_state:ok') and "
                       "string.find(i, 'cluster_known_nodes:6') and 1 or 0\" 0",
                       ":1");
}

static void id_of(const struct server *server, char id[48])
{
    char line[100] = "";

    CHECK(server_tell(server, "EVAL \"return {ok = redis.call('cluster', 'myid')}\" 0", line,
                      sizeof(line)));
    CHECK(line[0] == '+');
    snprintf(id, 48, "%.40s", line + 1);
}

static void start_node(struct cluster *cluster, int index, int patience_ms)
{
    const char *arguments[] = {
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        cluster->bus[index],
        "--cluster-config-file",
        cluster->file[index],
        "--cluster-node-timeout",
        cluster->patience,
        "--repl-diskless-sync-delay",
        "0",
        "--cluster-replica-no-failover",
        patience_ms ? "no" : "yes",
        NULL,
    };

    cluster->nodes[index].bus = cluster->bus[index];
    snprintf(cluster->file[index], sizeof(cluster->file[index]), "nodes-%d", index);
    memcpy(cluster->arguments[index], arguments, sizeof(arguments));
    const char **end = cluster->arguments[index] + sizeof(arguments) / sizeof(arguments[0]) - 1;
    for (const char *const *more = cluster->more; more && *more; more++)
        *end++ = *more;
    cluster->nodes[index].arguments = cluster->arguments[index];
    server_start(&cluster->nodes[index]);
}

void cluster_start(struct cluster *cluster, int patience_ms)
{
    struct server *nodes = cluster->nodes;
    char id[48];

    snprintf(cluster->patience, sizeof(cluster->patience), "%d",
             patience_ms ? patience_ms * test_slow() : 600000);
    for (int i = 0; i < CLUSTER_NODES; i++)
        start_node(cluster, i, patience_ms);
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        must(&nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", i * SLOTS / CLUSTER_MASTERS,
             (i + 1) * SLOTS / CLUSTER_MASTERS - 1);
    for (int i = 1; i < CLUSTER_NODES; i++)
        must(&nodes[0], "CLUSTER MEET 127.0.0.1 %d %s", nodes[i].port, cluster->bus[i]);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        id_of(&nodes[i], id);
        must(&nodes[CLUSTER_MASTERS + i], "CLUSTER REPLICATE %s", id);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        EVENTUALLY(is_whole(&nodes[i]), READY_MS);
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        EVENTUALLY(server_says(&nodes[i], "WAIT 1 1000", ":1"), READY_MS);
}

void cluster_kill(struct cluster *cluster)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (cluster->nodes[i].process.pid > 0)
            server_kill(&cluster->nodes[i]);
}

const char *cluster_url(const struct cluster *cluster, int timeout_ms)
{
    static _Thread_local char url[160];

    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?timeout=%d",
             cluster->nodes[0].port, cluster->nodes[1].port, cluster->nodes[2].port,
             timeout_ms * test_slow());
    return url;
}

struct server *cluster_owner(struct cluster *cluster, const char *name)
{
    char command[200], line[200] = "";

    snprintf(command, sizeof(command), "EXISTS %s", name);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct server *node = &cluster->nodes[i];
        if (node->process.pid <= 0 || node->stopped ||
            !server_tell(node, command, line, sizeof(line)))
            continue;
        if (line[0] == ':')
            return node;
        const char *colon = strrchr(line, ':');
        for (int j = 0; colon && j < CLUSTER_NODES; j++)
            if (cluster->nodes[j].port == strtol(colon + 1, NULL, 10))
                return &cluster->nodes[j];
    }
    FAIL("nobody knows who has \"%s\": %s", name, line);
}

unsigned cluster_slot(const struct cluster *cluster, const char *key)
{
    char command[200], line[40] = "";

    snprintf(command, sizeof(command), "CLUSTER KEYSLOT %s", key);
    CHECK(server_tell(&cluster->nodes[0], command, line, sizeof(line)) && line[0] == ':');
    return (unsigned)strtoul(line + 1, NULL, 10);
}

void cluster_name(const struct cluster *cluster, const char *stem, long first, long last,
                  char *name, size_t size)
{
    long slot = -1;

    for (int i = 0; slot < first || slot > last; i++) {
        snprintf(name, size, "%s-%d", stem, i);
        slot = cluster_slot(cluster, name);
    }
}

void cluster_part(struct cluster *cluster, int from, int to, unsigned slot)
{
    char ids[2][48];

    id_of(&cluster->nodes[from], ids[0]);
    id_of(&cluster->nodes[to], ids[1]);
    must(&cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, ids[0]);
    must(&cluster->nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, ids[1]);
}

void cluster_move_key(struct cluster *cluster, int from, int to, const char *key)
{
    char command[300], line[100] = "";

    snprintf(command, sizeof(command), "MIGRATE 127.0.0.1 %d %s 0 60000", cluster->nodes[to].port,
             key);
    CHECK(server_tell(&cluster->nodes[from], command, line, sizeof(line)));
    CHECK_STR(line, "+OK");
}

void cluster_arrive(struct cluster *cluster, int from, int to, unsigned slot)
{
    char command[300], id[48];

    /* Whatever is left is some keys: they go one by one, as nobody adds any meanwhile. */
    snprintf(command, sizeof(command),
             "redis-cli -p %d --raw cluster getkeysinslot %u 100 | "
             "xargs -r redis-cli -p %d migrate 127.0.0.1 %d '' 0 60000 keys >%s 2>&1",
             cluster->nodes[from].port, slot, cluster->nodes[from].port, cluster->nodes[to].port,
             temp_path("migrate.log"));
    CHECK_INT(system(command), 0);
    id_of(&cluster->nodes[to], id);
    must(&cluster->nodes[to], "CLUSTER SETSLOT %u NODE %s", slot, id);
    must(&cluster->nodes[from], "CLUSTER SETSLOT %u NODE %s", slot, id);
}

void cluster_reshard(struct cluster *cluster, int from, int to, int slots)
{
    char command[400], ids[2][48];

    /* Nothing is moved as long as somebody has not heard of what was moved before. */
    snprintf(command, sizeof(command), "redis-cli --cluster check 127.0.0.1:%d >%s 2>&1",
             cluster->nodes[from].port, temp_path("check.log"));
    EVENTUALLY(system(command) == 0, READY_MS);
    id_of(&cluster->nodes[from], ids[0]);
    id_of(&cluster->nodes[to], ids[1]);
    snprintf(command, sizeof(command),
             "redis-cli --cluster reshard 127.0.0.1:%d --cluster-from %s --cluster-to %s "
             "--cluster-slots %d --cluster-yes >%s 2>&1",
             cluster->nodes[from].port, ids[0], ids[1], slots, temp_path("reshard.log"));
    CHECK_INT(system(command), 0);
}
