/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: rounds of counting down and waiting, each on a new one. */
#include "torture/workload/workload.h"

/* Records have 16 bits for the number of a lock; what there is of them is spread over the run. */
enum { ROUNDS_MAX = 60000 };

static bool is_due(const struct torture_client *client, uint32_t next)
{
    int64_t since_ns = torture_clock_ns() - client->arena->begin_ns;
    double part = (double)since_ns / 1e6 / (double)client->plan->time_ms;

    return next < ROUNDS_MAX && next <= (uint32_t)(ROUNDS_MAX * (part < 1 ? part : 1)) + 1;
}

/* The store has seen one more latch; the others learn of it by its number. A round whose setter was
 * killed, or heard nothing, is left out: its number is not used again. */
static void make_next(struct torture_client *client, uint32_t seen)
{
    struct torture_shared *arena = client->arena;
    uint32_t nobody = 0, round;
    struct torture_lock latch;
    uint16_t number;

    if (!atomic_compare_exchange_strong(&arena->latch_setter, &nobody, client->number + 1))
        return;
    if (atomic_load(&arena->latch_round) == seen) {
        round = atomic_fetch_add(&arena->latch_next, 1) + 1;
        number = torture_latch(arena, round, &latch);
        if (client->subject->latch_set(client->session, &latch, latch.permits) == TORTURE_GRANTED) {
            torture_write_lock(client->writer, &latch, number);
            atomic_store(&arena->latch_round, round);
        }
    }
    atomic_store(&arena->latch_setter, 0);
}

static enum torture_answer ask(struct torture_client *client, enum torture_verb verb,
                               const struct torture_lock *latch, int64_t wait_ms)
{
    const struct torture_subject *subject = client->subject;

    if (verb == TORTURE_COUNT_DOWN)
        return subject->count_down(client->session, latch);
    if (verb == TORTURE_AWAIT)
        return subject->await(client->session, latch, wait_ms);
    return subject->look(client->session, latch);
}

static enum torture_verb choose(struct torture_client *client)
{
    static const enum torture_verb verbs[] = { TORTURE_COUNT_DOWN, TORTURE_COUNT_DOWN,
                                               TORTURE_AWAIT, TORTURE_LOOK };

    return verbs[torture_between(&client->dice, 0, 3)];
}

bool torture_use_latch(struct torture_client *client)
{
    uint32_t round = atomic_load(&client->arena->latch_round);
    enum torture_verb verb = choose(client);
    struct torture_lock latch;
    struct torture_record record;
    enum torture_answer answer;
    int64_t wait_ms;

    if (round == client->latch_seen) {
        if (!is_due(client, atomic_load(&client->arena->latch_next)))
            return false;
        make_next(client, round);
        return true;
    }
    record = torture_about(client, verb, torture_latch(client->arena, round, &latch));
    wait_ms = torture_between(&client->dice, 1, client->plan->lease_ms / 2);
    torture_keep_to_the_rate(client);
    if (verb == TORTURE_AWAIT) {
        record.deadline_ns = (torture_clock_ns() / 1000000 + wait_ms) * 1000000;
        atomic_store(&client->seat->doing,
                     torture_doing_word(TORTURE_ASKING, record.lock, record.operation));
    }
    torture_begin(client, &record);
    record.deadline_ns = 0;
    answer = ask(client, verb, &latch, wait_ms);
    torture_end(client, &record, answer);
    atomic_store(&client->seat->doing, torture_doing_word(TORTURE_IDLE, 0, 0));
    if (verb != TORTURE_COUNT_DOWN && answer == TORTURE_GRANTED)
        client->latch_seen = round;
    return true;
}
