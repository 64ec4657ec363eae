/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot verbs of semaphores, counters and latches: what each makes of the value. */
#include "change.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void ended(struct etcd_change *change, int code)
{
    struct hf_oneshot *oneshot = change->oneshot;
    oneshot->code = code;
    oneshot->contacted = change->contacted;
    oneshot->result = change->result;
    hf__oneshot_done(&change->etcd->base, oneshot);
}

static void set_object(struct etcd_change *change, const etcd_key_value *object, uint32_t value,
                       bool remove)
{
    struct etcd_write *write = &change->write;
    *write = (struct etcd_write){ .if_changed = object ? object->mod_revision : 0 };
    if (!remove)
        write->length = (size_t)snprintf(write->text, sizeof write->text, "%" PRIu32, value);
}

/* ---- semaphores ---- */

static void remove_semaphore(struct etcd_change *change, const struct etcd_state *state,
                             const struct etcd_total *total)
{
    if (hf__etcd_last_holder(state->claims, total) != 0) {
        hf__etcd_change_end(change, HF_BUSY);
        return;
    }
    set_object(change, state->object, 0, true);
    change->write.claims_before = state->revision + 1;
    hf__etcd_change_write(change);
}

static void decide_semaphore(struct etcd_change *change, const struct etcd_state *state)
{
    struct etcd_total total = hf__etcd_total_read(state->object);
    uint32_t value = change->oneshot->value;
    if (total.there && !total.readable && value != 0) {
        set_object(change, state->object, value, false);
        hf__etcd_change_write(change);
    } else if (total.there && value == 0) {
        remove_semaphore(change, state, &total);
    } else if (value == (total.there ? total.permits : 0)) {
        hf__etcd_change_end(change, HF_OK);
    } else {
        /* Claims that hold by now go on holding. */
        int64_t last = total.there ? hf__etcd_last_holder(state->claims, &total) : 0;
        int64_t held_until = value < total.permits ? last : total.held_until;
        set_object(change, state->object, value, false);
        change->write.length = hf__etcd_total_write(value, held_until, change->write.text);
        change->earlier = total;
        change->lowers = total.there && value < total.permits;
        change->held_until = held_until;
        hf__etcd_change_write(change);
    }
}

/* A waiter that was let in between the read and the write holds, too. */
static void semaphore_written(struct etcd_change *change, const etcd_range_reply *claims)
{
    int64_t last = change->lowers ? hf__etcd_last_holder(claims, &change->earlier) : 0;
    if (!change->lowers || last == change->held_until) {
        hf__etcd_change_end(change, HF_OK);
        return;
    }
    change->write.length = hf__etcd_total_write(change->oneshot->value, last, change->write.text);
    change->second = true;
    hf__etcd_change_write(change);
}

static const struct etcd_change_kind semaphore_set = { .decide = decide_semaphore,
                                                       .written = semaphore_written,
                                                       .ended = ended };

/* ---- counters ---- */

/* False: it has heard so. */
static bool verbs_read_number(struct etcd_change *change, const struct etcd_state *state,
                              uint32_t *ret_number)
{
    struct etcd_total value = hf__etcd_total_read(state->object);
    *ret_number = value.permits;
    if (!value.there || value.readable)
        return true;
    hf__etcd_change_fail(change, HF_EKIND, "\"%.200s\" is no number", change->oneshot->name);
    return false;
}

static void decide_counter_set(struct etcd_change *change, const struct etcd_state *state)
{
    set_object(change, state->object, change->oneshot->value, false);
    hf__etcd_change_write(change);
}

static void decide_counter_add(struct etcd_change *change, const struct etcd_state *state)
{
    uint32_t value, amount = change->oneshot->value;
    if (!verbs_read_number(change, state, &value))
        return;
    if (amount > UINT32_MAX - value) {
        hf__etcd_change_fail(change, HF_ELIMIT,
                             "the counter \"%.200s\" would exceed %" PRIu32 "; add less",
                             change->oneshot->name, UINT32_MAX);
        return;
    }
    set_object(change, state->object, value + amount, false);
    hf__etcd_change_write(change);
}

static void decide_counter_remove(struct etcd_change *change, const struct etcd_state *state)
{
    if (!state->object) {
        hf__etcd_change_end(change, HF_OK);
        return;
    }
    set_object(change, state->object, 0, true);
    hf__etcd_change_write(change);
}

static void decide_get(struct etcd_change *change, const struct etcd_state *state)
{
    if (verbs_read_number(change, state, &change->result))
        hf__etcd_change_end(change, HF_OK);
}

/* ---- latches: an open one has no object ---- */

static void decide_latch_set(struct etcd_change *change, const struct etcd_state *state)
{
    uint32_t count = change->oneshot->value;
    if (state->object || count == 0) {
        hf__etcd_change_end(change, state->object ? HF_BUSY : HF_OK);
        return;
    }
    set_object(change, NULL, count, false);
    hf__etcd_change_write(change);
}

static void decide_latch_down(struct etcd_change *change, const struct etcd_state *state)
{
    uint32_t left, amount = change->oneshot->value;
    if (!verbs_read_number(change, state, &left))
        return;
    change->result = left > amount ? left - amount : 0;
    if (!state->object) {
        hf__etcd_change_end(change, HF_OK);
        return;
    }
    set_object(change, state->object, change->result, change->result == 0);
    hf__etcd_change_write(change);
}

static const struct etcd_change_kind counter_set = { .decide = decide_counter_set, .ended = ended },
                                     counter_add = { .decide = decide_counter_add, .ended = ended },
                                     counter_remove = { .decide = decide_counter_remove,
                                                        .ended = ended },
                                     get = { .decide = decide_get,
                                             .ended = ended,
                                             .reads_only = true },
                                     latch_set = { .decide = decide_latch_set, .ended = ended },
                                     latch_down = { .decide = decide_latch_down, .ended = ended };

/* ---- the table ---- */

static const struct verb {
    const struct etcd_change_kind *kind;
    hf_mode mode;
} verbs[] = {
    [HF_ONESHOT_SEMAPHORE_SET] = { &semaphore_set, HF_PERMIT },
    [HF_ONESHOT_COUNTER_SET] = { &counter_set, HF_COUNTER },
    [HF_ONESHOT_COUNTER_ADD] = { &counter_add, HF_COUNTER },
    [HF_ONESHOT_COUNTER_GET] = { &get, HF_COUNTER },
    [HF_ONESHOT_COUNTER_REMOVE] = { &counter_remove, HF_COUNTER },
    [HF_ONESHOT_LATCH_SET] = { &latch_set, HF_LATCH },
    [HF_ONESHOT_LATCH_DOWN] = { &latch_down, HF_LATCH },
    [HF_ONESHOT_LATCH_GET] = { &get, HF_LATCH },
};

void hf__etcd_change(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    const struct verb *verb = &verbs[oneshot->verb];
    struct etcd_change *change = hf__etcd_change_new(
        etcd, verb->kind, oneshot->name, oneshot->name_length, hf__etcd_kind_word(verb->mode));
    if (!change) {
        hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
        oneshot->code = HF_ENOMEM;
        hf__oneshot_done(&etcd->base, oneshot);
        return;
    }
    change->oneshot = oneshot;
    change->error = &oneshot->error;
    hf__etcd_change_begin(change);
}
