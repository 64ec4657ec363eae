/* SPDX-License-Identifier: Apache-2.0 */
/* What INFO says of a server, and what of that endangers locks. */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *info(const redisReply *reply, const char *key, char value[TEXT_SIZE])
{
    return hf__reply_info(reply, key, value, TEXT_SIZE);
}

static long info_number(const redisReply *reply, const char *key)
{
    char value[TEXT_SIZE];
    return strtol(info(reply, key, value), NULL, 10);
}

static void judge_version(struct redis_survey *examiner, const redisReply *reply)
{
    char version[TEXT_SIZE], mode[TEXT_SIZE];
    /* Valkey says as its redis_version which commands of Redis it has. */
    bool valkey = *info(reply, "valkey_version", version);
    if (!valkey)
        info(reply, "redis_version", version);
    hf__finding_fact(&examiner->findings, "server", "%s %s, %s", valkey ? "Valkey" : "Redis",
                     *version ? version : "of an unknown version",
                     hf__reply_server_mode(reply, mode, sizeof mode));
    if (!examiner->clustered && strcmp(mode, "cluster") == 0)
        hf__finding_danger(&examiner->findings, "cluster-server",
                           "names that another server of the cluster has cannot be locked",
                           "say redis+cluster: in the URL instead of redis:",
                           "this server is part of a cluster, and the URL is no cluster's");
    if (!*version || strtol(version, NULL, 10) >= 6)
        return;
    hf__finding_danger(
        &examiner->findings, "old-version",
        "its faults are not mended any more; before version 5 scripts cannot ask for the time, "
        "and no lock is granted",
        "use a server of a version that is still looked after", "this is Redis %s", version);
}

static void judge_memory(struct redis_survey *examiner, const redisReply *reply)
{
    char policy[TEXT_SIZE], limit[TEXT_SIZE], what[2 * TEXT_SIZE];
    info(reply, "maxmemory_policy", policy);
    bool limited = info_number(reply, "maxmemory") > 0;
    hf__finding_fact(&examiner->findings, "memory", "%s used, limit %s, then %s",
                     info(reply, "used_memory_human", what),
                     limited ? info(reply, "maxmemory_human", limit) : "none", policy);
    if (!limited || strcmp(policy, "noeviction") == 0 || !*policy)
        return;
    hf__finding_danger(
        &examiner->findings, "eviction",
        "when memory runs short the server throws away locks that are held, and gives them to "
        "others",
        "CONFIG SET maxmemory-policy noeviction, or a server for locks alone",
        "maxmemory-policy is %s", policy);
}

/* A server before version 6.2 does not say how many it takes. */
static void judge_clients(struct redis_survey *examiner, const redisReply *reply)
{
    long connected = info_number(reply, "connected_clients"),
         most = info_number(reply, "maxclients");
    if (most <= 0 || connected < most - most / 10)
        return;
    hf__finding_danger(&examiner->findings, "clients-full",
                       "the server soon refuses connections (HF_ELIMIT), also new ones of clients "
                       "that hold locks; these are lost when their leases end",
                       "CONFIG SET maxclients to more, or end connections that are not needed "
                       "(CLIENT LIST shows them)",
                       "%ld of maxclients %ld connections are in use", connected, most);
}

static void judge_writing(struct redis_survey *examiner, bool appends)
{
    const char *fsync = *examiner->fsync ? examiner->fsync : "unknown";
    bool always = strcmp(examiner->fsync, "always") == 0;
    hf__finding_fact(&examiner->findings, "on disk", "append-only file: %s, snapshots: %s",
                     appends ? fsync : "none",
                     !examiner->saves_known ? "unknown"
                     : examiner->saves      ? "now and then"
                                            : "none");
    bool votes = examiner->votes;
    if (appends && !*examiner->fsync) /* mutant: file-owners-syncing */
        hf__finding_danger(
            &examiner->findings, "config-denied",
            "whether the append-only file is synced before the server answers is not "
            "seen; if it is not, a crash forgets the last locks that were granted",
            examiner->unknown_config
                ? "see for yourself that appendfsync is always"
                : "ACL SETUSER ... +config|get, or see for yourself that appendfsync "
                  "is always",
            "%s",
            examiner->unknown_config ? "the server does not know CONFIG GET"
                                     : "this user may not use CONFIG GET");
    else if (appends && !always)
        hf__finding_danger(
            &examiner->findings, "aof-not-always",
            votes ? "a crash forgets its last votes: two may hold the same lock if the servers "
                    "that are left are no majority of those that granted it"
                  : "a crash forgets the last locks that were granted: two may hold the same, "
                    "until the first one's next renewal",
            "CONFIG SET appendfsync always, or start a crashed server again only when the "
            "longest lease is over",
            "the append-only file is not synced before the server answers");
    if (!appends)
        hf__finding_danger(
            &examiner->findings, "aof-off",
            votes ? "a restart forgets its votes: two may hold the same lock if the servers "
                    "that are left are no majority of those that granted it"
                  : "a restart forgets locks that are held: two may hold the same, until the "
                    "first one's next renewal",
            "appendonly yes and appendfsync always, or start it again only when the longest "
            "lease is over",
            "the server does not write what it is told to disk before it answers");
}

static void judge_disk(struct redis_survey *examiner, const redisReply *reply)
{
    char value[TEXT_SIZE];
    judge_writing(examiner, info_number(reply, "aof_enabled") == 1);
    examiner->fails_to_write = strcmp(info(reply, "aof_last_write_status", value), "err") == 0 ||
                               strcmp(info(reply, "rdb_last_bgsave_status", value), "err") == 0;
    if (examiner->fails_to_write)
        hf__finding_danger(
            &examiner->findings, "disk-write-failed",
            "it refuses to grant locks (HF_ELIMIT) as long as it is configured to stop then",
            "see its log; free some space, or mend the permissions of its directory",
            "the server failed to write to disk");
}

static void judge_number_for_sync(struct redis_survey *examiner, long replicas)
{
    unsigned wanted = (unsigned)examiner->connection->redis->settings.replicas;
    if (replicas >= (long)wanted)
        return;
    hf__finding_danger(&examiner->findings, "sync-replicas-missing",
                       "no lock is granted (HF_UNREACHABLE)",
                       "bring back the replicas, or say sync with as many as there are",
                       "sync=%u waits for more replicas than follow (%ld)", wanted, replicas);
}

static void judge_replicas(struct redis_survey *examiner, const redisReply *reply)
{
    char role[TEXT_SIZE];
    long replicas = info_number(reply, "connected_slaves");
    info(reply, "role", role);
    /* It says so where it wants some. */
    hf__reply_info(reply, "min_slaves_good_slaves", examiner->replicas_good,
                   sizeof examiner->replicas_good);
    hf__finding_fact(&examiner->findings, "replication", "%s, %ld replica%s", role, replicas,
                     replicas == 1 ? "" : "s");
    if (strcmp(role, "slave") == 0)
        hf__finding_danger(&examiner->findings, "replica", "it grants no locks",
                           "name the server that it follows", "this server is a replica");
    else
        judge_number_for_sync(examiner, replicas);
    if (replicas <= 0 || examiner->syncs)
        return;
    hf__finding_danger(
        &examiner->findings, "failover-forgets",
        "a failover may forget a lock that was just granted, and give it, with the same token, "
        "to another",
        examiner->votes
            ? "servers that vote need no replicas: let none take the place of one of them"
            : "sync=1 in the URL makes that rarer; else use these locks for efficiency, not "
              "for correctness, or let nothing fail over by itself",
        "%ld replica%s, and the server does not wait for %s", replicas,
        replicas == 1 ? " follows" : "s follow", replicas == 1 ? "it" : "them");
}

void hf__redis_judge_info(struct redis_survey *examiner, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        bool unknown = hf__reply_lacks_command(reply);
        hf__finding_danger(
            &examiner->findings, "info-denied", "what else endangers locks here cannot be seen",
            unknown ? "take rename-command for it out of its configuration"
                    : "ACL SETUSER ... +info",
            "%s", unknown ? "the server does not know INFO" : "this user may not use INFO");
        return;
    }
    judge_version(examiner, reply);
    judge_memory(examiner, reply);
    judge_clients(examiner, reply);
    judge_disk(examiner, reply);
    judge_replicas(examiner, reply);
}
