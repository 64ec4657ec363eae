/* SPDX-License-Identifier: Apache-2.0 */
/* redis+cluster: with sync=1: each master's own replicas are heard about what it grants, and what
 * they say of a lock whose slot has left meanwhile is not believed. */
#include "cluster.h"
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

/* Less than a bare try waits for, which no slow machine gets more of: a third of it is for the
 * replicas. */
#define TRYING_MS 4000
/* More than any machine needs to hear of a replica. */
#define PATIENT_MS 300000

static hf_client *open_synced(const struct cluster *cluster, int timeout_ms)
{
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?timeout=%d&sync=1",
             cluster->nodes[0].port, cluster->nodes[1].port, timeout_ms);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 600000)), HF_OK);
    return client;
}

static void take_and_give_back(hf_client *client, const char *name)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, name, HF_FOREVER, NULL, &hold), HF_OK);
    give_back(hold);
}

static bool is_gone(struct cluster *cluster, const char *name)
{
    char command[100];

    snprintf(command, sizeof(command), "EXISTS %s", name);
    return server_says(&cluster->nodes[0], command, ":0");
}

TEST(each_masters_own_replica_confirms_what_it_grants)
{
    struct cluster cluster = { 0 };
    char names[CLUSTER_MASTERS][40], mark[60];
    hf_hold *hold = NULL;

    TEST_TIMEOUT(300);
    cluster_start(&cluster, 0);
    hf_client *patient = open_synced(&cluster, PATIENT_MS);
    hf_client *trying = open_synced(&cluster, TRYING_MS);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        cluster_name(&cluster, "synced", i * 5462, i * 5462 + 5000, names[i], sizeof(names[i]));
        take_and_give_back(patient, names[i]);
    }
    take_and_give_back(trying, names[0]);
    server_stop(&cluster.nodes[CLUSTER_MASTERS]);
    CHECK_ERROR(hf_lock(trying, names[0], 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "only 0 of 1 replicas") != NULL);
    EVENTUALLY(is_gone(&cluster, names[0]), SOON_MS);
    snprintf(mark, sizeof(mark), "holdfast_sync:{%s}", names[0]);
    EVENTUALLY(is_gone(&cluster, mark), SOON_MS);
    for (int i = 1; i < CLUSTER_MASTERS; i++)
        take_and_give_back(patient, names[i]);
    server_continue(&cluster.nodes[CLUSTER_MASTERS]);
    take_and_give_back(patient, names[0]);
    hf_close(patient);
    hf_close(trying);
    cluster_kill(&cluster);
}

/* ---- slots that leave before the replicas have said so ---- */

static void begin_to_lock(hf_client *client, const char *name, struct outcome *outcome)
{
    begin_wait(client, name, HF_MUTEX, outcome);
}

/* The number of the connection on which replicas are asked about, at the first master. */
static long asking_replicas(const struct cluster *cluster)
{
    char all[16000];
    long id = 0;

    CHECK(server_ask(&cluster->nodes[0], "CLIENT LIST", all, sizeof(all)));
    for (char *line = all, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (strstr(line, " name=holdfast:") && strstr(line, " cmd=wait "))
            id = strtol(line + strlen("id="), NULL, 10);
    }
    return id;
}

/* The replicas of the first two masters stand still, those of the first one with a question out, so
 * that what the first one grants now is confirmed together. Returns when that has been granted. */
static void grant_together(struct cluster *cluster, hf_client *client, const char *busy,
                           char *const names[2], struct outcome outcomes[3])
{
    struct server *master = &cluster->nodes[0];
    char command[100];

    server_stop(&cluster->nodes[CLUSTER_MASTERS]);
    server_stop(&cluster->nodes[CLUSTER_MASTERS + 1]);
    begin_to_lock(client, busy, &outcomes[2]);
    EVENTUALLY(server_awaits_replicas(master), SOON_MS);
    for (int i = 0; i < 2; i++) {
        begin_to_lock(client, names[i], &outcomes[i]);
        snprintf(command, sizeof(command), "EXISTS %s", names[i]);
        EVENTUALLY(server_says(master, command, ":1"), SOON_MS);
    }
    /* Its answer comes behind theirs. */
    CHECK_INT(holders(client, busy), 1);
}

static void leave_one(struct cluster *cluster, hf_client *client, const char *busy, int leaving)
{
    struct outcome outcomes[3] = { 0 };
    char names[2][40], *const both[2] = { names[0], names[1] };
    int staying = 1 - leaving;

    for (int i = 0; i < 2; i++)
        cluster_name(cluster, i == leaving ? "leaving" : "staying", 0, 5000, names[i],
                     sizeof(names[i]));
    if (leaving)
        cluster_name(cluster, "late", 0, 5000, names[1], sizeof(names[1]));
    grant_together(cluster, client, busy, both, outcomes);
    long connection = asking_replicas(cluster);
    unsigned slot = cluster_slot(cluster, names[leaving]);
    cluster_part(cluster, 0, 1, slot);
    cluster_arrive(cluster, 0, 1, slot);
    server_continue(&cluster->nodes[CLUSTER_MASTERS]);
    WAIT_OUTCOME(&outcomes[2]);
    await_grant(&outcomes[staying]);
    CHECK_INT(asking_replicas(cluster), connection);
    EVENTUALLY(server_awaits_replicas(&cluster->nodes[1]), SOON_MS);
    CHECK_INT(outcomes[leaving].calls, 0);
    server_continue(&cluster->nodes[CLUSTER_MASTERS + 1]);
    WAIT_OUTCOME(&outcomes[leaving]);
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(outcomes[i].code, HF_OK);
        give_back(outcomes[i].hold);
    }
}

TEST(a_slot_that_has_left_is_confirmed_where_it_is_and_holds_up_no_other)
{
    struct cluster cluster = { 0 };
    char busy[40];

    TEST_TIMEOUT(300);
    cluster_start(&cluster, 0);
    hf_client *client = open_synced(&cluster, PATIENT_MS);
    cluster_name(&cluster, "busy", 0, 5000, busy, sizeof(busy));
    take_and_give_back(client, busy);
    leave_one(&cluster, client, busy, 0);
    leave_one(&cluster, client, busy, 1);
    hf_close(client);
    cluster_kill(&cluster);
}
