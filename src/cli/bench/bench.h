/* SPDX-License-Identifier: Apache-2.0 */
/* What bench's files share: the subjects (ways to lock), the processes that try them, the figures.
 */
#ifndef HF_CLI_BENCH_BENCH_H
#define HF_CLI_BENCH_BENCH_H

#include "cli/cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    CLI_BENCH_NAMES = 4, /* the first is measured, the others keep the store busy meanwhile */
    CLI_BENCH_PROCESSES = 16,
    CLI_BENCH_ROUNDS = 5,
    CLI_BENCH_SERIES = 32, /* runs that one series may have */
    CLI_BENCH_SUBJECTS = 8,
    CLI_BENCH_ROWS = 48,
    CLI_BENCH_SAMPLES = 1 << 16
};

/* What the parent and the processes of one run share, in memory that all of them map. */
struct cli_bench_shared {
    /* The first failure, and the exit code for it. */
    atomic_bool failed;
    int exit_code;
    char sentence[400];
    /* What the probe saw of the store. */
    char url[512];
    unsigned caps;
    bool lease_free; /* no lease limits a hold: death is noticed as such */
    /* One run: all processes begin together, and end at the deadline. */
    atomic_uint opened, expected;
    atomic_bool stop;
    _Atomic(int64_t) deadline_ns;
    atomic_bool waiting[2];
    atomic_int holder;
    _Atomic(int64_t) released_ns;
    volatile uint64_t guarded; /* changed by the holder of the lock only */
    uint64_t counts[CLI_BENCH_PROCESSES];
    int64_t longest_ns[CLI_BENCH_PROCESSES]; /* from one lock of a process to its next */
    uint32_t sample_count;
    int64_t samples[CLI_BENCH_SAMPLES]; /* nanoseconds */
    pthread_mutex_t mutexes[CLI_BENCH_NAMES];
};

/* How long to measure. */
struct cli_bench_plan {
    unsigned rounds, crowd_rounds, deaths; /* deaths: in each round */
    int64_t run_ms, crowd_ms;
};

enum cli_bench_measure {
    CLI_BENCH_PAIR,
    CLI_BENCH_REENTRY,
    CLI_BENCH_HANDOVER,
    CLI_BENCH_TAKEOVER,
    CLI_BENCH_CROWD
};

/* What came out for one subject in one measurement. */
struct cli_bench_row {
    enum cli_bench_measure measure;
    const struct cli_bench_subject *subject;
    const char *instead; /* why there are no figures, or NULL */
    uint64_t runs;
    double min_ns, p50_ns, p99_ns, max_ns;
    /* CLI_BENCH_CROWD: locks a second. */
    unsigned processes;
    double total, least, mean, most, longest_ns;
};

struct cli_bench;

/* A lock as one process has it open. Every subject's own struct begins with this. */
struct cli_bench_lock {
    struct cli_bench *bench;
    const struct cli_bench_subject *subject;
};

/* A way to lock. The functions run in the measuring processes and do not return when they fail. */
struct cli_bench_subject {
    const char *key, *title;
    unsigned batch;   /* pairs between two looks at the clock */
    unsigned hold_us; /* hand-over: hold longer by up to this, at random; see cli_bench_sqlite */
    const char *no_takeover; /* why a holder's death is not measured, or NULL */
    hf_mode mode;
    hf_driver driver;
    /* Optional, before the processes begin. False: it has been said why not. */
    bool (*prepare)(struct cli_bench *bench);
    struct cli_bench_lock *(*open)(struct cli_bench *bench,
                                   const struct cli_bench_subject *subject);
    void (*lock)(struct cli_bench_lock *lock, unsigned name);
    void (*unlock)(struct cli_bench_lock *lock, unsigned name);
    void (*close)(struct cli_bench_lock *lock);
};

struct cli_bench {
    struct cli_settings *settings;
    struct cli_bench_plan plan;
    char *url;
    char directory[256]; /* ours, removed at the end */
    bool local;          /* the store is the embedded engine: the baselines are comparable */
    struct cli_bench_subject plain, fair; /* holdfast itself; the same mode if it has no fair one */
    struct cli_bench_shared *shared;
    pid_t children[CLI_BENCH_PROCESSES];
    unsigned child_count;
    sigset_t original, watched;
    int64_t give_up_ms;
    double load; /* of the machine, before we began */
    int exit_code;
    struct cli_bench_row rows[CLI_BENCH_ROWS];
    unsigned row_count;
};

/* One of the processes of a run. */
struct cli_bench_child {
    struct cli_bench *bench;
    const struct cli_bench_subject *subject;
    unsigned index;
    struct cli_bench_lock *lock;
    int64_t run_ms;
};

/* ---- bench_holdfast.c, bench_kernel.c, bench_sqlite.c ---- */
extern const struct cli_bench_subject cli_bench_holdfast, cli_bench_fair, cli_bench_driven,
    cli_bench_flock, cli_bench_flock_open, cli_bench_ofd, cli_bench_mutex, cli_bench_sqlite;

/* Runs in a child: opens the store, and notes what it is. */
void cli_bench_probe(struct cli_bench_child *child);

/* ---- bench_process.c ---- */

int64_t cli_bench_now_ns(void);
/* In a measuring process: ends it, and with it the whole command, with this exit code. */
_Noreturn __attribute__((format(printf, 3, 4))) void
cli_bench_die(struct cli_bench *bench, int exit_code, const char *format, ...);
bool cli_bench_start(struct cli_bench *bench);
/* Forks `count` processes. Each opens the subject (if it is not NULL), waits until all of them
 * have, and runs `run`. */
bool cli_bench_fork(struct cli_bench *bench, const struct cli_bench_subject *subject,
                    unsigned count, int64_t run_ms, void (*run)(struct cli_bench_child *child));
/* Waits until `flag` is set. False: a process has failed, or we are to end. */
bool cli_bench_wait_for(struct cli_bench *bench, const atomic_bool *flag);
/* Waits for that time. False: as above. */
bool cli_bench_wait_ms(struct cli_bench *bench, int64_t ms);
/* Kills the process with this index, which is expected to be alive. */
void cli_bench_kill(struct cli_bench *bench, unsigned index);
/* Waits for all processes to end. False: one has failed, or we are to end. */
bool cli_bench_reap(struct cli_bench *bench);
/* In a measuring process: waits a little without burning the processor. */
void cli_bench_pause(void);

/* ---- bench_uncontended.c, bench_handover.c, bench_contention.c ---- */

/* Each runs a measurement for `count` subjects and adds a row for each. False: as above. */
bool cli_bench_pairs(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                     unsigned count);
bool cli_bench_reentry(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                       unsigned count);
bool cli_bench_handover(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                        unsigned count);
bool cli_bench_takeover(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                        unsigned count);
bool cli_bench_crowd(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                     unsigned count);

/* ---- bench_figures.c ---- */

/* The figures of some runs. */
struct cli_bench_series {
    unsigned rounds;
    uint64_t runs;
    double p50[CLI_BENCH_SERIES], p99[CLI_BENCH_SERIES], min, max;
};

/* Takes the samples of a run, each of which is about `batch` pairs. */
void cli_bench_collect(struct cli_bench_series *series, struct cli_bench_shared *shared,
                       unsigned batch);
void cli_bench_record(struct cli_bench_shared *shared, int64_t ns);
struct cli_bench_row *cli_bench_add_row(struct cli_bench *bench, enum cli_bench_measure measure,
                                        const struct cli_bench_subject *subject);
void cli_bench_add_series(struct cli_bench *bench, enum cli_bench_measure measure,
                          const struct cli_bench_subject *subject,
                          const struct cli_bench_series *series);
/* The row of a subject in a measurement with figures in it, or NULL. */
const struct cli_bench_row *cli_bench_find(const struct cli_bench *bench,
                                           enum cli_bench_measure measure,
                                           const struct cli_bench_subject *subject);
/* How many times as fast as flock with an open descriptor; 0: unknown. */
double cli_bench_speed(const struct cli_bench *bench, const struct cli_bench_row *row);

/* The crowd of that many processes, or NULL. */
const struct cli_bench_row *cli_bench_find_crowd(const struct cli_bench *bench,
                                                 const struct cli_bench_subject *subject,
                                                 unsigned processes);
/* Locks a second, times flock's in a crowd of as many; 0: unknown. */
double cli_bench_crowd_speed(const struct cli_bench *bench, const struct cli_bench_row *row);
/* The least busy process of a crowd against the mean: 1 is even. */
double cli_bench_evenness(const struct cli_bench_row *row);
/* "185 ns", "1.85 us", "18.5 us", "1.85 ms". */
void cli_bench_format_ns(char buffer[16], double ns);

/* ---- bench_targets.c ---- */
struct cli_bench_aim {
    const char *what, *wanted;
    double figure; /* nanoseconds, or a ratio */
    bool is_time, met;
};

enum { CLI_BENCH_AIMS = 16 };

/* Those aims for which there are figures. Answers how many. */
unsigned cli_bench_judge(const struct cli_bench *bench, struct cli_bench_aim aims[CLI_BENCH_AIMS]);

/* ---- bench_table.c, bench_json.c ---- */
void cli_bench_print_head(const struct cli_bench *bench);
void cli_bench_print_rows(const struct cli_bench *bench, enum cli_bench_measure measure);
void cli_bench_print_end(const struct cli_bench *bench);
void cli_bench_print_json(const struct cli_bench *bench);

#endif
