/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks, all or nothing: what the blocking form and the asynchronous one share. */
#ifndef HF_RECIPES_LOCK_ALL_H
#define HF_RECIPES_LOCK_ALL_H

#include "base/error.h"

#include <holdfast.h>

#include <pthread.h>

/* While ACQUIRING, a loss is the answer of hf_lock_all. While HELD, it is told to on_lost. */
enum hf_set_state { SET_ACQUIRING, SET_HELD, SET_RELEASING };

/* One lock. `hold` is NULL until it is granted. */
struct hf_set_member {
    const hf_lock_item *item; /* until all are granted: the caller's, or the request's */
    hf_lock_options options;
    const char *url;
    hf_hold *hold;
};

/* What a request for one lock has come to. */
struct hf_set_answer {
    bool given;
    int code;
    hf_hold *hold;
    hf_error why;
};

struct hf_hold_set {
    pthread_mutex_t mutex;  /* guards the state, the answer and what is known of a loss */
    pthread_cond_t changed; /* an answer, or a loss */
    enum hf_set_state state;
    struct hf_set_answer answer; /* of the request that is out */
    bool ends;                   /* a lock that is granted may end by time */
    bool lost;
    char loss_text[sizeof((hf_error *)NULL)->text];
    hf_lost_cb *on_lost;
    void *lost_arg;
    int64_t request_timeout_ms; /* the longest of its clients */
    /* Of hf_lock_all_async: the request that is out, and its client. A loss cancels it. 0: none. */
    hf_request out;
    hf_client *out_client;
    size_t item_count, member_count;
    size_t *member_of; /* which member carries an item: an item that is there twice is taken once */
    struct hf_set_member members[]; /* in the order in which they are taken */
};

#define set_fail(code, ...) hf__error_set(hf__error_last(), code, 0, __VA_ARGS__)

/* Checks the arguments. All that return a code have a sentence in hf_last_error. */
int hf__set_check(const hf_lock_item *items, size_t count, int64_t wait_ms,
                  const hf_lock_options *options);
/* The items live for as long as locks are asked for. `owner`: of those that name none. */
struct hf_hold_set *hf__set_new(const hf_lock_item *items, size_t count,
                                const hf_lock_options *options, uint64_t owner);
void hf__set_free(struct hf_hold_set *set);
/* Puts the locks in order, and counts the call in at each of their clients. `waits`: it blocks. */
int hf__set_begin(struct hf_hold_set *set, const hf_lock_item *items, bool waits);

/* When the wait for all of them is over, and how much of it is left. */
int64_t hf__set_until_ms(const struct hf_hold_set *set, int64_t wait_ms);
int64_t hf__set_time_left_ms(int64_t wait_ms, int64_t until_ms);
int hf__set_too_late(const struct hf_hold_set *set, const struct hf_set_member *member);
/* What the call is answered for a lock that was asked for with this wait. For the locks behind the
 * first one, that is what is left of the wait, which may be too short to judge a store by. */
int hf__set_judge(const struct hf_hold_set *set, const struct hf_set_member *member, int code,
                  int64_t wait_ms);
bool hf__set_is_lost(struct hf_hold_set *set);
int hf__set_lost(struct hf_hold_set *set);
/* HF_OK: all are held, and the set is. */
int hf__set_check_all(struct hf_hold_set *set);
/* Releases what was granted, without waiting. */
void hf__set_release(struct hf_hold_set *set);

#endif
