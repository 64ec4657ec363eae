/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says about itself, and what about it endangers locks. A handful of commands at
 * once; each answer is judged by itself, the last one ends it. */
#include "base/testing.h"
#include "doctor.h"
#include "engines/redis/kinds/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No client listens here but one that tries whether it is allowed. */
#define TRIED_INBOX REDIS_INBOX_PREFIX "doctor"

static bool is_error(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR;
}

/* ---- what each answer says ---- */

/* A word of a line like "id=3 addr=127.0.0.1:4711 laddr=...". */
static const char *word_of(const char *line, const char *key, char word[TEXT_SIZE])
{
    const char *at = strstr(line, key);
    snprintf(word, TEXT_SIZE, "%.*s", at ? (int)strcspn(at + strlen(key), " \n") : 0,
             at ? at + strlen(key) : "");
    return word;
}

/* Over one TCP connection, both sides see the same two ends of it. */
static void judge_path(struct redis_survey *examiner, const redisReply *reply)
{
    char ours[HF_STREAM_END_SIZE], theirs[HF_STREAM_END_SIZE];
    char from[TEXT_SIZE], to[TEXT_SIZE];
    const char *line = hf__reply_text(reply);
    word_of(line, " addr=", from);
    word_of(line, " laddr=", to);
    if (is_error(reply) || !*from || !*to ||
        !hf__stream_ends(examiner->connection->peer.stream, ours, theirs))
        return;
    bool direct = strcmp(from, ours) == 0 && strcmp(to, theirs) == 0;
    hf__finding_fact(&examiner->findings, "connection", "%s",
                     direct ? "direct" : "by way of something else");
    if (direct)
        return;
    hf__finding_danger(
        &examiner->findings, "proxy",
        "a proxy, or an address of several servers, may lead to another one without a "
        "word. That one knows nothing of locks that are held, and sync=N confirms "
        "nothing there until the connection ends",
        "name the server itself, its sentinels or its cluster; what only translates "
        "addresses, as a container's port does, is harmless",
        "something stands between: we speak from %s to %s, the server hears from %s at %s", ours,
        theirs, from, to);
}

static void judge_fsync(struct redis_survey *examiner, const redisReply *reply)
{
    examiner->unknown_config = hf__reply_lacks_command(reply);
    if (hf__reply_is_array(reply, 2))
        snprintf(examiner->fsync, sizeof examiner->fsync, "%s", hf__reply_text(reply->element[1]));
}

static void judge_snapshots(struct redis_survey *examiner, const redisReply *reply)
{
    examiner->saves_known = hf__reply_is_array(reply, 2);
    examiner->saves = examiner->saves_known && *hf__reply_text(reply->element[1]);
}

static void judge_replicas_wanted(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_is_array(reply, 2))
        snprintf(examiner->replicas_wanted, sizeof examiner->replicas_wanted, "%.20s",
                 hf__reply_text(reply->element[1]));
}

/* The server looked at its clock at some time between the request and now. */
static void judge_clock(struct redis_survey *examiner, const redisReply *reply)
{
    if (!hf__reply_is_array(reply, 2))
        return;
    int64_t theirs = hf__finding_ms(hf__reply_number(reply->element[0])) +
                     hf__reply_number(reply->element[1]) / 1000;
    hf__finding_clock(
        &examiner->findings, "the server's", theirs, examiner->began_ms, hf__finding_wall_ms(),
        "one of them is wrong, and will jump when it is set right: a jump of the server's ends "
        "leases early or late. Java clients go by their own clocks in fair locks",
        "set both by NTP, the server's without jumps");
}

static void judge_inbox(struct redis_survey *examiner, const redisReply *reply)
{
    examiner->listens = !is_error(reply);
    if (!examiner->listens && !examiner->simple)
        hf__finding_danger(&examiner->findings, "channel-denied",
                           "no release hands a lock to a waiter; waiters poll once a "
                           "second",
                           hf__reply_denial(reply) == REPLY_DENIES_CHANNELS
                               ? "ACL SETUSER ... &" REDIS_INBOX_PREFIX "*"
                               : "ACL SETUSER ... +subscribe +unsubscribe &" REDIS_INBOX_PREFIX "*",
                           "this user may not listen to a channel of its own");
}

/* While it listens, a connection is good for nothing else: the answers that follow would be errors.
 */
static void judge_leaving(struct redis_survey *examiner, const redisReply *reply)
{
    if (!is_error(reply) || !examiner->listens)
        return;
    if (!examiner->simple)
        hf__finding_danger(&examiner->findings, "unsubscribe-denied",
                           "a client goes on hearing of locks that it does not wait for any more",
                           "ACL SETUSER ... +unsubscribe", "this user may not use UNSUBSCRIBE");
    /* mutant: doctor-leaves-connection */
    hf__peer_break(&examiner->connection->peer, HF_DENIED, 0, "this user may not use UNSUBSCRIBE");
}

static void judge_digests(struct redis_survey *examiner, const redisReply *reply)
{
    examiner->lacks_digests = hf__reply_says(reply, "NOPERM");
    examiner->unknown_digests = hf__reply_lacks_command(reply);
}

static void judge_killing(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        hf__finding_danger(
            &examiner->findings, "client-kill-denied",
            "a request on a connection that broke may be executed later, and occupy a lock "
            "without a holder until its lease ends",
            "ACL SETUSER ... +client", "this user may not use CLIENT KILL");
}

static void judge_scanning(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        hf__finding_danger(&examiner->findings, "scan-denied",
                           "`holdfast show` and hf_inspect without a name fail",
                           "ACL SETUSER ... +scan", "this user may not use SCAN");
}

static void judge_marking(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        hf__finding_danger(&examiner->findings, "sync-channel-denied", "no lock is granted",
                           "ACL SETUSER ... +publish &" REDIS_SYNC_CHANNEL,
                           "this user may not publish what sync needs to say to replicas");
}

static void judge_waiting(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        hf__finding_danger(
            &examiner->findings, "wait-denied",
            "with sync no lock is granted: the number of replicas that have it is not known",
            "ACL SETUSER ... +wait", "this user may not use WAIT");
}

/* ---- asking ---- */

/* What INFO is judged by comes before it; UNSUBSCRIBE goes with SUBSCRIBE, in one go. */
static const struct probe probes[] = {
    { { "CONFIG", "GET", "appendfsync" }, judge_fsync },
    { { "CONFIG", "GET", "save" }, judge_snapshots },
    { { "CONFIG", "GET", "min-replicas-to-write" }, judge_replicas_wanted },
    { { "INFO" }, hf__redis_judge_info },
    { .words = { "CONFIG", "GET", "cluster-require-full-coverage" },
      .judge = hf__redis_judge_coverage,
      .when = IN_A_CLUSTER },
    { .words = { "CLUSTER", "SLOTS" }, .judge = hf__redis_judge_map, .when = IN_A_CLUSTER },
    { { "TIME" }, judge_clock },
    { { "CLIENT", "INFO" }, judge_path },
    { { "CLIENT", "KILL", "ID", "0" }, judge_killing },
    { { "SCAN", "0", "MATCH", REDIS_TOKEN_PREFIX ":none", "COUNT", "1" }, judge_scanning },
    { { "EVALSHA", "0000000000000000000000000000000000000000", "0" }, judge_digests },
    { .judge = hf__redis_judge_calls, .begin = hf__redis_try_calls },
    { .judge = hf__redis_judge_keys, .begin = hf__redis_try_keys, .group = KEYS_OWN },
    { .judge = hf__redis_judge_keys,
      .begin = hf__redis_try_keys,
      .group = KEYS_BRACED,
      .when = IN_REDISSONS_FORMAT },
    { .judge = hf__redis_judge_keys, .begin = hf__redis_try_keys, .group = KEYS_REDISSON },
    { .judge = hf__redis_judge_keys,
      .begin = hf__redis_try_keys,
      .group = KEYS_HOLDFAST,
      .when = IN_REDISSONS_FORMAT },
    { .judge = hf__redis_judge_listening, .begin = hf__redis_try_listening },
    { .judge = hf__redis_judge_names, .begin = hf__redis_end_listening },
    { .words = { "PUBLISH", REDIS_SYNC_CHANNEL, "0" }, .judge = judge_marking, .when = WITH_MARKS },
    { .words = { "WAIT", "0", "0" }, .judge = judge_waiting, .when = WITH_REPLICAS },
    { { "SUBSCRIBE", TRIED_INBOX }, judge_inbox },
    { { "UNSUBSCRIBE", TRIED_INBOX }, judge_leaving },
};
#define PROBES (sizeof probes / sizeof *probes)

static void send(struct connection *connection, struct redis_request *request)
{
    const struct asked *asked = request->memory;
    const struct probe *probe = asked->probe;
    struct command command;
    if (probe->begin)
        probe->begin(asked, connection, &command);
    else
        hf__command_begin(&command, probe->words[0]);
    for (unsigned i = 1; i < WORDS_MAX && probe->words[i]; i++)
        hf__command_add(&command, probe->words[i], strlen(probe->words[i]));
    hf__connection_write(connection, request, &command);
    /* It is about this server, and the others go with the last: none is sent on or asked again. */
    request->send = NULL;
}

static void survey_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct asked *asked = request->memory;
    struct redis_survey *examiner = asked->examiner;
    struct hf_oneshot *examination = examiner->examination;
    bool is_last = asked == &examiner->last, definite;
    /* A server that refuses a cluster's map says nothing of what this user may do. */
    bool failed = !reply || request->unmapped;
    examination->contacted |= !failed;
    if (failed && examination->code == HF_OK)
        examination->code =
            hf__request_failed(connection, request, reply, NULL, &examination->error, &definite);
    examiner->connection = connection;
    examiner->probe = asked->probe;
    if (!failed && asked->probe->judge)
        asked->probe->judge(examiner, reply);
    hf__request_free(redis, request);
    if (is_last)
        hf__oneshot_done(&redis->base, examination);
}

/* The last request's memory is the examiner itself. NULL: out of memory. */
static struct redis_request *new_question(struct redis *redis, struct redis_survey *examiner,
                                          size_t number)
{
    struct asked *asked =
        number == PROBES - 1 ? &examiner->last : hf__calloc(1, sizeof(struct asked));
    struct redis_request *request = asked ? hf__request_new(redis) : NULL;
    if (!request) {
        if (asked != &examiner->last)
            free(asked);
        return NULL;
    }
    *asked = (struct asked){ .probe = &probes[number], .examiner = examiner };
    request->memory = asked;
    request->send = send;
    request->answered = survey_answered;
    return request;
}

static bool concerns(const struct redis *redis, const struct probe *probe)
{
    switch (probe->when) {
    case IN_A_CLUSTER:
        return redis->cluster != NULL;
    case IN_REDISSONS_FORMAT:
        return !redis->settings.simple;
    case WITH_REPLICAS:
        return redis->settings.replicas > 0;
    case WITH_MARKS:
        return redis->settings.replicas > 0 && !redis->cluster;
    case ALWAYS:
    default:
        return true;
    }
}

void hf__redis_diagnose(struct hf_engine *engine, struct hf_oneshot *examination)
{
    struct redis *redis = (struct redis *)engine;
    struct redis_survey *examiner = hf__calloc(1, sizeof *examiner);
    struct redis_request *requests[PROBES] = { NULL };
    bool complete = examiner != NULL;
    for (size_t i = 0; i < PROBES && complete; i++)
        if (concerns(redis, &probes[i]))
            complete = (requests[i] = new_question(redis, examiner, i)) != NULL;
    if (!complete) {
        for (size_t i = 0; i < PROBES; i++)
            if (requests[i])
                hf__request_free(redis, requests[i]);
        free(examiner);
        examination->code = HF_ENOMEM;
        hf__oneshot_done(&redis->base, examination);
        return;
    }
    examiner->examination = examination;
    examiner->clustered = redis->cluster != NULL;
    examiner->votes = hf__redis_is_part(redis);
    examiner->findings = (struct hf_findings){ examination, redis->sink->remark };
    examiner->simple = redis->settings.simple;
    examiner->syncs = redis->settings.replicas > 0;
    examiner->marks = examiner->syncs && !redis->cluster;
    examiner->began_ms = hf__finding_wall_ms();
    for (size_t i = 0; i < PROBES; i++)
        if (requests[i])
            /* mutant: doctor-asks-any-server */
            hf__redis_ask(redis, requests[i], examination->name, examination->name_length);
}
