/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that examine a server share: the examiner, and how it says what it sees. */
#ifndef HF_ENGINES_REDIS_DOCTOR_DOCTOR_H
#define HF_ENGINES_REDIS_DOCTOR_DOCTOR_H

#include "engines/common/findings.h"
#include "engines/redis/redis.h"

#define TEXT_SIZE 200
#define PATTERNS_SIZE 1400
#define NUMBER_SIZE 24
#define UNUSED_NAME_SIZE (HF_NAME_MAX + 40)

#define WORDS_MAX 7

/* Where a user may not publish; nothing fails for it. */
#define NOBODY_IS_TOLD                                                                             \
    "waiters are not woken when this user releases, breaks or sets something: holdfast's poll "    \
    "within 3 seconds, Java's when a lease ends, or at a latch or a semaphore perhaps never"

struct asked;
struct redis_survey;

/* The keys that belong to a name, by the patterns that allow them. */
enum key_group { KEYS_OWN, KEYS_BRACED, KEYS_REDISSON, KEYS_HOLDFAST, KEY_GROUPS };

enum occasion { ALWAYS, IN_A_CLUSTER, IN_REDISSONS_FORMAT, WITH_REPLICAS, WITH_MARKS };

/* A command, and what its answer means. */
struct probe {
    const char *words[WORDS_MAX]; /* ends with NULL; or `begin` */
    void (*judge)(struct redis_survey *examiner, const redisReply *reply);
    void (*begin)(const struct asked *asked, struct connection *connection,
                  struct command *command);
    enum occasion when;
    enum key_group group;
};

/* A request's memory. */
struct asked {
    const struct probe *probe;
    struct redis_survey *examiner;
};

struct redis_survey {
    struct asked last; /* comes first: this is the last request's memory, which goes with it */
    struct hf_oneshot *examination;
    struct hf_findings findings;
    struct connection *connection; /* of the answer that is judged */
    const struct probe *probe;     /* likewise */
    unsigned lacks_keys;           /* a bit for each group that this user may not use */
    bool lacks_channels, lacks_digests;
    bool unknown_digests, unknown_config; /* such a command is not known there */
    bool listens;                         /* a channel of its own was allowed */
    bool clustered;                       /* the URL is a cluster's */
    bool votes;                           /* it is one of several servers that vote */
    bool simple;                          /* plain locks have no channels */
    bool syncs;                           /* a grant waits for replicas */
    bool marks;                           /* which hear what is said on a channel */
    int64_t began_ms;                     /* by the wall clock */
    char fsync[TEXT_SIZE];                /* appendfsync, or "" where we may not know */
    bool saves, saves_known;              /* snapshots are configured */
    char replicas_wanted[NUMBER_SIZE];    /* min-replicas-to-write, and how many good ones there */
    char replicas_good[NUMBER_SIZE];      /* are; or "" where we may not know */
    bool fails_to_write;                  /* to disk, as INFO says */
    bool all_or_nothing;                  /* a cluster without one of its masters is down */
};

/* ---- info.c ---- */

/* Judges the answer to INFO. */
void hf__redis_judge_info(struct redis_survey *examiner, const redisReply *reply);

/* ---- cluster.c ---- */

/* Judges the answer to CONFIG GET cluster-require-full-coverage. */
void hf__redis_judge_coverage(struct redis_survey *examiner, const redisReply *reply);
/* Judges the answer to CLUSTER SLOTS, which comes after that. */
void hf__redis_judge_map(struct redis_survey *examiner, const redisReply *reply);

/* ---- acl_keys.c ---- */

/* A name that no program locks, beside the one that is examined, or far from all others if it is
 * none. In a cluster its keys are at this server. */
void hf__redis_unused_name(const struct asked *asked, const struct redis *redis,
                           char name[UNUSED_NAME_SIZE]);
void hf__redis_try_keys(const struct asked *asked, struct connection *connection,
                        struct command *command);
void hf__redis_judge_keys(struct redis_survey *examiner, const redisReply *reply);
void hf__redis_try_listening(const struct asked *asked, struct connection *connection,
                             struct command *command);
void hf__redis_end_listening(const struct asked *asked, struct connection *connection,
                             struct command *command);
void hf__redis_judge_listening(struct redis_survey *examiner, const redisReply *reply);
/* Says what the answers to those say about the user, whatever the last one is. */
void hf__redis_judge_names(struct redis_survey *examiner, const redisReply *reply);
/* The patterns of all that a user of the name needs, a space before each. */
void hf__redis_write_needs(const struct redis_survey *examiner, char text[PATTERNS_SIZE]);

/* ---- acl_calls.c ---- */

void hf__redis_try_calls(const struct asked *asked, struct connection *connection,
                         struct command *command);
void hf__redis_judge_calls(struct redis_survey *examiner, const redisReply *reply);

#endif
