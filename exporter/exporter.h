/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporter's files share: a view of the store, and the texts that are made of it.
 *
 * One thread asks the store and publishes views. Requests are answered from the last view, so none
 * of them waits for the store. */
#ifndef HF_EXPORTER_EXPORTER_H
#define HF_EXPORTER_EXPORTER_H

#include "cli/cli.h"

#include <pthread.h>

/* An owner that holds or waits. Strings belong to the view. */
struct exporter_owner {
    hf_role role;
    hf_mode mode;
    uint32_t permits, rank;
    int64_t since_ms; /* where the store does not know: since the exporter has seen it */
    int64_t pid;
    uint64_t id; /* of its key, which is not shown: unlock and break take it */
    const char *text, *host;
};

struct exporter_lock {
    const char *name;
    size_t name_length;
    uint64_t hash; /* of the name */
    hf_kind kind;
    uint32_t total, value, holders, waiters;
    int64_t oldest_hold_ms, oldest_wait_ms; /* 0: there is none */
    uint64_t token;
    size_t first_owner; /* its owners follow each other in the view */
};

/* Since when an owner has been seen with what it has; `hash` is of both. */
struct exporter_sight {
    uint64_t hash;
    int64_t since_ms;
};

struct exporter_chunk;

struct exporter_view {
    bool up;
    char error[400]; /* why not */
    int64_t taken_ms, answer_ms;
    int64_t valid_until_ms;           /* afterwards the store counts as silent */
    uint64_t names, holders, waiters; /* of the whole store */
    struct exporter_lock *locks;      /* those of --names, with the most waiters first */
    size_t lock_count, lock_room;
    size_t shown; /* of them are within --top */
    struct exporter_owner *owners;
    size_t owner_count, owner_room;
    struct exporter_sight *sights; /* sorted by hash */
    size_t sight_count, sight_room;
    uint64_t identity; /* changes with holders, waiters and tokens, and not with time */
    struct exporter_chunk *chunks;
    bool out_of_memory;
};

/* A text that several requests send. */
struct exporter_text {
    int references;
    size_t length;
    char *bytes;
};

#define EXPORTER_SAMPLES 300
#define EXPORTER_STRIPS 512
#define EXPORTER_FINDINGS 64
#define EXPORTER_CONNECTIONS 64

/* What became of a name in the last samples: free, held, held and waited for, or not known. */
struct exporter_strip {
    uint64_t hash;
    char *name;
    size_t name_length;
    char samples[EXPORTER_SAMPLES + 1]; /* the youngest last; ends with a NUL */
    const struct exporter_lock *lock;   /* in the view; NULL: it is free */
};

/* What the store has said of itself, as doctor shows it. */
struct exporter_findings {
    size_t count;
    char ids[EXPORTER_FINDINGS][48], whats[EXPORTER_FINDINGS][300];
};

/* A connection. */
struct exporter_place {
    int fd;           /* -1: the place is free */
    int64_t since_ms; /* it is waited for since then; 0: it streams, and may stay */
};

struct exporter {
    const struct cli_settings *settings;
    char *url, shown_url[512];
    char token[512]; /* "": none */
    int listen_fd;
    char own_url[128];
    bool is_public;         /* more than this machine reaches it */
    char host[256];         /* of this machine */
    pthread_mutex_t mutex;  /* protects what follows */
    pthread_cond_t changed; /* `version` is another one, or `stopping` is true */
    pthread_cond_t ends;    /* `stopping` is true */
    bool stopping;
    struct exporter_view *view;
    uint64_t version;                              /* of what the page shows */
    struct exporter_text *metrics, *state;         /* of `view`; NULL: not asked for yet */
    struct exporter_strip strips[EXPORTER_STRIPS]; /* sorted by hash */
    size_t strip_count;
    struct exporter_findings findings;
    unsigned watchers;
    struct exporter_place places[EXPORTER_CONNECTIONS];
};

/* ---- view.c ---- */

/* Asks the store. Never NULL but where memory is out: a store without an answer is a view, too.
 * `last` knows since when owners have been seen; it may be NULL. */
struct exporter_view *exporter_view_take(const struct exporter *exporter, hf_client *client,
                                         const struct exporter_view *last);
struct exporter_view *exporter_view_down(const char *error);
void exporter_view_free(struct exporter_view *view);

/* ---- poll.c ---- */

/* Publishes a first view, then one each --interval until `stopping`. CLI_OK, or an exit code having
 * said why: the URL cannot be opened at all. */
int exporter_poll_begin(struct exporter *exporter, pthread_t *thread);

/* ---- text.c ---- */

/* With the mutex: what is known now. A view that is too old is silent from here on. */
const struct exporter_view *exporter_view_now(struct exporter *exporter);
/* With the mutex: the text of the view, with one reference more. NULL: out of memory. */
struct exporter_text *exporter_metrics(struct exporter *exporter);
struct exporter_text *exporter_state(struct exporter *exporter);
/* With the mutex: the texts of an older view are made anew when they are asked for. */
void exporter_texts_forget(struct exporter *exporter);
/* With the mutex. */
void exporter_text_release(struct exporter_text *text);

/* ---- strips.c ---- */

/* With the mutex: adds a sample of the view to each name's strip. */
void exporter_strips_add(struct exporter *exporter, const struct exporter_view *view);

/* ---- server.c ---- */

struct MHD_Daemon;
/* Answers requests on `listen_fd`, without TLS if `cert` is NULL. NULL: it cannot, which has been
 * said. */
struct MHD_Daemon *exporter_server_start(struct exporter *exporter, char *cert, char *key);
/* Ends connections whose request takes too long; to be called each few seconds. */
void exporter_server_end_late(struct exporter *exporter);

#endif
