/* What the server says about itself, and what about it endangers locks. A handful of commands at
 * once; each answer is judged by itself, the last one ends it. */
#include "base/testing.h"
#include "redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_SIZE 200
#define WORDS_MAX 7
/* Clocks that differ by less are as good as the same. */
#define CLOCK_TOLERANCE_MS 2000
/* Nobody listens here but whoever tries whether it is allowed. */
#define TRIED_CHANNEL REDIS_CHANNEL_PREFIX ":{holdfast-doctor}"
#define TRIED_INBOX REDIS_INBOX_PREFIX "doctor"

struct examiner;

/* A command, and what its answer means. */
struct probe {
    const char *words[WORDS_MAX]; /* ends with NULL */
    void (*judge)(struct examiner *examiner, const redisReply *reply);
};

/* A question's memory. */
struct asked {
    const struct probe *probe;
    struct examiner *examiner;
};

struct examiner {
    struct asked last; /* comes first: this is the last question's memory, which goes with it */
    struct hf_examination *examination;
    bool votes;              /* it is one of a quorum's servers */
    bool simple;             /* plain locks have no channels */
    bool syncs;              /* a grant waits for replicas */
    int64_t began_ms;        /* by the wall clock */
    char fsync[TEXT_SIZE];   /* appendfsync, or "" where we may not know */
    bool saves, saves_known; /* snapshots are configured */
};

/* ---- saying ---- */

static void remark_on(struct examiner *examiner, const hf_remark *remark)
{
    if (examiner->votes)
        hf__quorum_remark(examiner->examination, remark);
    else
        hf__examination_add(examiner->examination, remark);
}

__attribute__((format(printf, 3, 4))) static void fact(struct examiner *examiner, const char *what,
                                                       const char *format, ...)
{
    char value[2 * TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    remark_on(examiner, &(hf_remark){ .size = sizeof(hf_remark), .what = what, .value = value });
}

static void danger(struct examiner *examiner, const char *what, const char *consequence,
                   const char *cure)
{
    remark_on(examiner, &(hf_remark){ .size = sizeof(hf_remark),
                                      .what = what,
                                      .consequence = consequence,
                                      .cure = cure });
}

static bool is_error(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR;
}

/* ---- what INFO says ---- */

static const char *info(const redisReply *reply, const char *key, char value[TEXT_SIZE])
{
    return hf__reply_info(reply, key, value, TEXT_SIZE);
}

static long info_number(const redisReply *reply, const char *key)
{
    char value[TEXT_SIZE];
    return strtol(info(reply, key, value), NULL, 10);
}

static void judge_version(struct examiner *examiner, const redisReply *reply)
{
    char version[TEXT_SIZE], mode[TEXT_SIZE], what[2 * TEXT_SIZE];
    info(reply, "redis_version", version);
    fact(examiner, "server", "Redis %s, %s", *version ? version : "of an unknown version",
         info(reply, "redis_mode", mode));
    if (!*version || strtol(version, NULL, 10) >= 6)
        return;
    snprintf(what, sizeof what, "this is Redis %s", version);
    danger(examiner, what,
           "its faults are not mended any more; before version 5 scripts cannot ask for the time, "
           "and no lock is granted",
           "use a server of a version that is still looked after");
}

static void judge_memory(struct examiner *examiner, const redisReply *reply)
{
    char policy[TEXT_SIZE], limit[TEXT_SIZE], what[2 * TEXT_SIZE];
    info(reply, "maxmemory_policy", policy);
    bool limited = info_number(reply, "maxmemory") > 0;
    fact(examiner, "memory", "%s used, limit %s, then %s", info(reply, "used_memory_human", what),
         limited ? info(reply, "maxmemory_human", limit) : "none", policy);
    if (!limited || strcmp(policy, "noeviction") == 0 || !*policy)
        return;
    snprintf(what, sizeof what, "maxmemory-policy is %s", policy);
    danger(examiner, what,
           "when memory runs short the server throws away locks that are held, and gives them to "
           "others",
           "CONFIG SET maxmemory-policy noeviction, or a server for locks alone");
}

static void judge_writing(struct examiner *examiner, bool appends)
{
    const char *fsync = *examiner->fsync ? examiner->fsync : "unknown";
    bool always = strcmp(examiner->fsync, "always") == 0;
    fact(examiner, "on disk", "append-only file: %s, snapshots: %s", appends ? fsync : "none",
         !examiner->saves_known ? "unknown"
         : examiner->saves      ? "now and then"
                                : "none");
    bool votes = examiner->votes;
    if (appends && !always)
        danger(examiner, "the append-only file is not synced before the server answers",
               votes ? "a crash forgets its last votes: two may hold the same lock if the servers "
                       "that are left are no majority of those that granted it"
                     : "a crash forgets the last locks that were granted: two may hold the same, "
                       "until the first one's next renewal",
               "CONFIG SET appendfsync always, or start a crashed server again only when the "
               "longest lease is over");
    if (!appends)
        danger(examiner, "the server does not write what it is told to disk before it answers",
               votes ? "a restart forgets its votes: two may hold the same lock if the servers "
                       "that are left are no majority of those that granted it"
                     : "a restart forgets locks that are held: two may hold the same, until the "
                       "first one's next renewal",
               "appendonly yes and appendfsync always, or start it again only when the longest "
               "lease is over");
}

static void judge_disk(struct examiner *examiner, const redisReply *reply)
{
    char value[TEXT_SIZE];
    judge_writing(examiner, info_number(reply, "aof_enabled") == 1);
    bool failing = strcmp(info(reply, "aof_last_write_status", value), "err") == 0 ||
                   strcmp(info(reply, "rdb_last_bgsave_status", value), "err") == 0;
    if (failing)
        danger(examiner, "the server failed to write to disk",
               "it refuses to grant locks (HF_ELIMIT) as long as it is configured to stop then",
               "see its log; free some space, or mend the permissions of its directory");
}

static void judge_replicas(struct examiner *examiner, const redisReply *reply)
{
    char role[TEXT_SIZE], what[2 * TEXT_SIZE];
    long replicas = info_number(reply, "connected_slaves");
    info(reply, "role", role);
    fact(examiner, "replication", "%s, %ld replica%s", role, replicas, replicas == 1 ? "" : "s");
    if (strcmp(role, "slave") == 0)
        danger(examiner, "this server is a replica", "it grants no locks",
               "name the server that it follows");
    if (replicas <= 0 || examiner->syncs)
        return;
    snprintf(what, sizeof what, "%ld replica%s, and the server does not wait for %s", replicas,
             replicas == 1 ? " follows" : "s follow", replicas == 1 ? "it" : "them");
    danger(examiner, what,
           "a failover may forget a lock that was just granted, and give it, with the same token, "
           "to another",
           examiner->votes
               ? "a quorum needs no replicas: let none take the place of one of its servers"
               : "sync=1 in the URL makes that rarer; else use these locks for efficiency, not "
                 "for correctness, or let nothing fail over by itself");
}

static void judge_info(struct examiner *examiner, const redisReply *reply)
{
    if (is_error(reply)) {
        danger(examiner, "this user may not use INFO",
               "what else endangers locks here cannot be seen", "ACL SETUSER ... +info");
        return;
    }
    judge_version(examiner, reply);
    judge_memory(examiner, reply);
    judge_disk(examiner, reply);
    judge_replicas(examiner, reply);
}

/* ---- the rest ---- */

static void judge_fsync(struct examiner *examiner, const redisReply *reply)
{
    if (hf__reply_is_array(reply, 2))
        snprintf(examiner->fsync, sizeof examiner->fsync, "%s", hf__reply_text(reply->element[1]));
}

static void judge_snapshots(struct examiner *examiner, const redisReply *reply)
{
    examiner->saves_known = hf__reply_is_array(reply, 2);
    examiner->saves = examiner->saves_known && *hf__reply_text(reply->element[1]);
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The server looked at its clock at some time between the question and now. */
static void judge_clock(struct examiner *examiner, const redisReply *reply)
{
    char what[TEXT_SIZE];
    if (!hf__reply_is_array(reply, 2))
        return;
    int64_t theirs =
        hf__reply_number(reply->element[0]) * 1000 + hf__reply_number(reply->element[1]) / 1000;
    int64_t ahead = theirs - wall_ms(), behind = examiner->began_ms - theirs;
    int64_t off = ahead > 0 ? ahead : behind > 0 ? behind : 0;
    fact(examiner, "its clock", "%lld.%03lld s %s this machine's", (long long)off / 1000,
         (long long)off % 1000,
         ahead > 0    ? "ahead of"
         : behind > 0 ? "behind"
                      : "off");
    if (off < CLOCK_TOLERANCE_MS)
        return;
    snprintf(what, sizeof what, "the server's clock is %lld s %s this machine's",
             (long long)off / 1000, ahead > 0 ? "ahead of" : "behind");
    danger(examiner, what,
           "one of them is wrong, and will jump when it is set right: a jump of the server's ends "
           "leases early or late. Java clients go by their own clocks in fair locks",
           "set both by NTP, the server's without jumps");
}

static void judge_listening(struct examiner *examiner, const redisReply *reply)
{
    if (is_error(reply) && !examiner->simple)
        danger(examiner, "this user may not listen to the locks' channels",
               "whoever waits for a Java client looks once a second instead of being woken",
               "ACL SETUSER ... +subscribe +unsubscribe &redisson_*");
}

static void judge_inbox(struct examiner *examiner, const redisReply *reply)
{
    if (is_error(reply) && !examiner->simple)
        danger(examiner, "this user may not listen to a channel of its own",
               "nobody can be given a lock, and whoever waits looks once a second",
               "ACL SETUSER ... +subscribe +unsubscribe &" REDIS_INBOX_PREFIX "*");
}

static void judge_killing(struct examiner *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        danger(examiner, "this user may not use CLIENT KILL",
               "what was asked for on a connection that broke may be done later, and hold a lock "
               "that nobody believes in until its lease is over",
               "ACL SETUSER ... +client");
}

static void judge_scanning(struct examiner *examiner, const redisReply *reply)
{
    if (hf__reply_says(reply, "NOPERM"))
        danger(examiner, "this user may not use SCAN",
               "`holdfast show` and hf_inspect without a name fail", "ACL SETUSER ... +scan");
}

/* ---- asking ---- */

/* What INFO is judged by comes before it; UNSUBSCRIBE goes with SUBSCRIBE, in one go. */
static const struct probe probes[] = {
    { { "CONFIG", "GET", "appendfsync" }, judge_fsync },
    { { "CONFIG", "GET", "save" }, judge_snapshots },
    { { "INFO" }, judge_info },
    { { "TIME" }, judge_clock },
    { { "CLIENT", "KILL", "ID", "0" }, judge_killing },
    { { "SCAN", "0", "MATCH", REDIS_TOKEN_PREFIX ":none", "COUNT", "1" }, judge_scanning },
    { { "SUBSCRIBE", TRIED_CHANNEL }, judge_listening },
    { { "UNSUBSCRIBE", TRIED_CHANNEL }, NULL },
    { { "SUBSCRIBE", TRIED_INBOX }, judge_inbox },
    { { "UNSUBSCRIBE", TRIED_INBOX }, NULL },
};
#define PROBES (sizeof probes / sizeof *probes)

static void send(struct connection *connection, struct question *question)
{
    const struct asked *asked = question->memory;
    struct command command;
    hf__command_begin(&command, asked->probe->words[0]);
    for (unsigned i = 1; i < WORDS_MAX && asked->probe->words[i]; i++)
        hf__command_add(&command, asked->probe->words[i], strlen(asked->probe->words[i]));
    hf__connection_write(connection, question, &command);
}

/* One server of a quorum is not the store. */
static void done(struct redis *redis, struct hf_examination *examination)
{
    if (redis->quorum)
        hf__loop_defer(redis->base.host->loop, &examination->answer);
    else
        hf__examination_done(&redis->base, examination);
}

static void answered(struct connection *connection, struct question *question,
                     const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct asked *asked = question->memory;
    struct examiner *examiner = asked->examiner;
    struct hf_examination *examination = examiner->examination;
    bool is_last = asked == &examiner->last, definite;
    if (!reply && examination->code == HF_OK)
        examination->code =
            hf__question_failed(connection, question, NULL, &examination->error, &definite);
    else if (reply && asked->probe->judge)
        asked->probe->judge(examiner, reply);
    hf__question_free(redis, question);
    if (is_last)
        done(redis, examination);
}

/* The last question's memory is the examiner itself. NULL: out of memory. */
static struct question *new_question(struct redis *redis, struct examiner *examiner, size_t number)
{
    struct asked *asked =
        number == PROBES - 1 ? &examiner->last : hf__calloc(1, sizeof(struct asked));
    struct question *question = asked ? hf__question_new(redis) : NULL;
    if (!question) {
        if (asked != &examiner->last)
            free(asked);
        return NULL;
    }
    *asked = (struct asked){ .probe = &probes[number], .examiner = examiner };
    question->memory = asked;
    question->send = send;
    question->answered = answered;
    return question;
}

void hf__redis_examine(struct hf_engine *engine, struct hf_examination *examination)
{
    struct redis *redis = (struct redis *)engine;
    struct examiner *examiner = hf__calloc(1, sizeof *examiner);
    struct question *questions[PROBES] = { NULL };
    size_t count = 0;
    while (examiner && count < PROBES &&
           (questions[count] = new_question(redis, examiner, count)) != NULL)
        count++;
    if (count < PROBES) {
        for (size_t i = 0; i < count; i++)
            hf__question_free(redis, questions[i]);
        free(examiner);
        examination->code = HF_ENOMEM;
        done(redis, examination);
        return;
    }
    examiner->examination = examination;
    examiner->votes = redis->quorum != NULL;
    examiner->simple = redis->settings.simple;
    examiner->syncs = redis->settings.replicas > 0;
    examiner->began_ms = wall_ms();
    for (size_t i = 0; i < PROBES; i++)
        hf__redis_ask(redis, questions[i], NULL, 0);
}
