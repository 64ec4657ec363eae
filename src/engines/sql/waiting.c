/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that wait: which is notified, and when each looks by itself. A notification names the
 * claim by its number. Without notifications the first two of a queue poll, and the others say
 * from time to time that they are alive. */
#include "base/rand.h"
#include "base/testing.h"
#include "engines/common/poll.h"
#include "engines/sql/sql.h"

#include <stdlib.h>
#include <string.h>

/* The head polls from here on, later and later. */
#define POLL_MIN_MS 2
#define POLL_MAX_MS 25
/* MySQL's notifications may be lost without a sign: its heads look this often all the same. */
#define UNSURE_LOOK_MS 250
/* The digits of a claim's number. */
#define NUMBER_LENGTH 16u

struct waiter {
    struct hf_link link;
    struct hf_op *op;
    uint64_t number;
};

static struct hf_link *sql_bucket_of(struct sql *sql, uint64_t number)
{
    return &sql->waiters[number % SQL_WAITER_BUCKETS];
}

void hf__waiting_wake_all(struct sql *sql)
{
    for (unsigned i = 0; i < SQL_WAITER_BUCKETS; i++) {
        HF_LIST_FOREACH (link, following, &sql->waiters[i]) {
            struct waiter *waiter = HF_CONTAINER(link, struct waiter, link);
            waiter->op->engine.word[1] |= SQL_WOKEN;
            hf__op_wake(waiter->op);
        }
    }
}

bool hf__waiting_add(struct sql *sql, struct hf_op *op)
{
    if (op->engine.pointer)
        return false;
    struct waiter *waiter = hf__calloc(1, sizeof *waiter);
    /* Without memory it looks by itself. */
    if (!waiter)
        return false;
    waiter->op = op;
    waiter->number = op->engine.word[0];
    hf__list_append(sql_bucket_of(sql, waiter->number), &waiter->link);
    op->engine.pointer = waiter;
    sql->waiter_count++;
    return true;
}

void hf__waiting_remove(struct sql *sql, struct hf_op *op)
{
    struct waiter *waiter = op->engine.pointer;
    if (!waiter)
        return;
    hf__link_remove(&waiter->link);
    free(waiter);
    op->engine.pointer = NULL;
    sql->waiter_count--;
    op->engine.word[1] &= (UINT64_C(1) << SQL_POLLS_SHIFT) - 1;
}

void hf__waiting_notified(struct sql *sql, const char *payload, size_t length)
{
    char digits[NUMBER_LENGTH + 1] = "";
    if (length == 0)
        hf__waiting_wake_all(sql);
    if (length != NUMBER_LENGTH)
        return;
    memcpy(digits, payload, NUMBER_LENGTH);
    uint64_t number = strtoull(digits, NULL, 16);
    HF_LIST_FOREACH (link, following, sql_bucket_of(sql, number)) {
        struct waiter *waiter = HF_CONTAINER(link, struct waiter, link);
        if (waiter->number == number) {
            waiter->op->engine.word[1] |= SQL_WOKEN;
            hf__op_wake(waiter->op);
            return;
        }
    }
}

int64_t hf__waiting_retry_at(struct sql *sql, struct hf_op *op, int64_t rank, int64_t left_us)
{
    int64_t left_ms = left_us / 1000 + 1, wait_ms = SQL_LOOK_MS;
    uint64_t polls = op->engine.word[1] >> SQL_POLLS_SHIFT;
    if (!sql->listens && !sql->listening) {
        wait_ms = hf__poll_growing_ms(polls, POLL_MIN_MS, POLL_MAX_MS);
        /* The second looks as often as the head, whose place it takes without being told. Those
         * behind it cost the database less, each less than the one before. */
        wait_ms = rank > 2 ? wait_ms * (rank - 1) : wait_ms;
        op->engine.word[1] += UINT64_C(1) << SQL_POLLS_SHIFT;
    }
    if (wait_ms > SQL_LOOK_MS)
        wait_ms = SQL_LOOK_MS;
    if (sql->dialect == SQL_MYSQL && rank <= 1 && wait_ms > UNSURE_LOOK_MS)
        wait_ms = hf__jitter_ms(UNSURE_LOOK_MS);
    if (rank <= 1 && left_ms < wait_ms)
        wait_ms = left_ms;
    return hf__sql_now(sql) + wait_ms;
}

void hf__waiting_open(struct sql *sql)
{
    for (unsigned i = 0; i < SQL_WAITER_BUCKETS; i++)
        hf__link_init(&sql->waiters[i]);
}

void hf__waiting_close(struct sql *sql)
{
    for (unsigned i = 0; i < SQL_WAITER_BUCKETS; i++) {
        struct hf_link *link;
        while ((link = hf__list_pop(&sql->waiters[i])))
            free(HF_CONTAINER(link, struct waiter, link));
    }
}
