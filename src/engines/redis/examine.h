/* What the files that examine a server share: who examines, and how it says what it sees. */
#ifndef HF_ENGINES_REDIS_EXAMINE_H
#define HF_ENGINES_REDIS_EXAMINE_H

#include "redis.h"

#define TEXT_SIZE 200
#define NUMBER_SIZE 24

struct probe;
struct examiner;

/* A question's memory. */
struct asked {
    const struct probe *probe;
    struct examiner *examiner;
};

struct examiner {
    struct asked last; /* comes first: this is the last question's memory, which goes with it */
    struct hf_examination *examination;
    const struct connection *connection; /* of the answer that is judged */
    bool votes;                          /* it is one of a quorum's servers */
    bool simple;                         /* plain locks have no channels */
    bool syncs;                          /* a grant waits for replicas */
    int64_t began_ms;                    /* by the wall clock */
    char fsync[TEXT_SIZE];               /* appendfsync, or "" where we may not know */
    bool saves, saves_known;             /* snapshots are configured */
    char replicas_wanted[NUMBER_SIZE];   /* min-replicas-to-write, and how many good ones there */
    char replicas_good[NUMBER_SIZE];     /* are; or "" where we may not know */
    bool fails_to_write;                 /* to disk, as INFO says */
    bool all_or_nothing;                 /* a cluster without one of its masters is down */
};

/* ---- examine.c ---- */

__attribute__((format(printf, 3, 4))) void
hf__redis_fact(struct examiner *examiner, const char *what, const char *format, ...);
void hf__redis_danger(struct examiner *examiner, const char *what, const char *consequence,
                      const char *cure);

/* ---- examine_info.c ---- */

/* Judges the answer to INFO. */
void hf__redis_judge_info(struct examiner *examiner, const redisReply *reply);

/* ---- examine_cluster.c ---- */

/* Judges the answer to CONFIG GET cluster-require-full-coverage. */
void hf__redis_judge_coverage(struct examiner *examiner, const redisReply *reply);
/* Judges the answer to CLUSTER SLOTS, which comes after that. */
void hf__redis_judge_map(struct examiner *examiner, const redisReply *reply);

/* ---- examine_calls.c ---- */

void hf__redis_try_calls(struct connection *connection, struct command *command);
void hf__redis_judge_calls(struct examiner *examiner, const redisReply *reply);

#endif
