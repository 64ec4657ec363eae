/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot verbs at a quorum: breaking, forgetting, and a longer lease. All servers are asked at
 * once. A lease is longer when most of them have made it so; breaking and forgetting wait a while
 * for all, so that what they answer is what all reachable servers have said. */
#include "base/testing.h"
#include "quorum.h"

#include <string.h>

/* Most servers have broken the lock; the others are asked, and are waited for no longer than this.
 */
#define LAST_WORD_MS 1000

struct poll;

struct part {
    struct hf_oneshot change; /* what one server is asked */
    struct poll *poll;
};

struct poll {
    struct hf_link link; /* in quorum->polls */
    struct quorum *quorum;
    struct hf_oneshot *change;   /* the core's; NULL: it has been told */
    struct quorum_claim *ballot; /* NULL: it is not about a claim */
    unsigned out;
    struct hf_timer last_word; /* runs while breaking waits for the rest */
    char *name, *key;          /* copies (key may be NULL): the core's go when it has been told */
    struct part parts[];
};

static unsigned count(const struct poll *poll, int code)
{
    unsigned found = 0;
    for (unsigned i = 0; i < poll->quorum->count; i++)
        found += poll->parts[i].change.code == code;
    return found;
}

static const hf_error *first_error(const struct poll *poll)
{
    for (unsigned i = 0; i < poll->quorum->count; i++)
        if (poll->parts[i].change.error)
            return poll->parts[i].change.error;
    return NULL;
}

static void tell_result(struct poll *poll, int code)
{
    struct hf_oneshot *change = poll->change;
    const hf_error *why = first_error(poll);
    poll->change = NULL;
    change->code = code;
    if (code != HF_OK && code != HF_BUSY && code != HF_LOST)
        hf__explain(&change->error, code, why ? why->native : 0, "%u servers are needed: %.300s",
                    poll->quorum->majority,
                    why ? why->text : "a server failed, and gave no reason");
    hf__oneshot_done(&poll->quorum->base, change);
}

/* What went wrong where it did; HF_OK if most servers have done it. */
static int failure(const struct poll *poll, unsigned done)
{
    const hf_error *why = first_error(poll);
    if (done >= poll->quorum->majority)
        return HF_OK;
    return why ? why->code : HF_UNREACHABLE;
}

static void judge_lease(struct poll *poll)
{
    const struct quorum *quorum = poll->quorum;
    unsigned longer = count(poll, HF_OK), lost = count(poll, HF_LOST);
    if (longer >= quorum->majority) /* mutant: lease-is-longer-when-one */
        tell_result(poll, HF_OK);
    else if (lost > quorum->count - quorum->majority)
        tell_result(poll, HF_LOST);
    else if (poll->out == 0)
        tell_result(poll, first_error(poll) ? failure(poll, longer) : HF_LOST);
}

/* The lock is one, however many servers had it. */
static void judge_break(struct poll *poll)
{
    unsigned broken = 0;
    int code = failure(poll, count(poll, HF_OK) + count(poll, HF_BUSY));
    for (unsigned i = 0; i < poll->quorum->count; i++)
        if (poll->parts[i].change.code == HF_OK && poll->parts[i].change.result > broken)
            broken = poll->parts[i].change.result;
    poll->change->result = broken;
    tell_result(poll, code == HF_OK && broken == 0 && count(poll, HF_BUSY) > 0 ? HF_BUSY : code);
}

static struct hf_loop *quorum_loop_of(const struct poll *poll)
{
    return poll->quorum->base.host->loop;
}

static void wait_no_longer(struct hf_timer *timer)
{
    struct poll *poll = HF_CONTAINER(timer, struct poll, last_word);
    if (poll->change)
        judge_break(poll);
}

static void broken_at_one(struct poll *poll)
{
    unsigned done = count(poll, HF_OK) + count(poll, HF_BUSY);
    if (poll->out == 0)
        judge_break(poll);
    /* mutant: breaking-waits-for-server */
    else if (done >= poll->quorum->majority && !poll->last_word.started)
        hf__timer_start(quorum_loop_of(poll), &poll->last_word,
                        hf__loop_now(quorum_loop_of(poll)) + LAST_WORD_MS);
}

static void free_poll(struct poll *poll)
{
    hf__timer_stop(quorum_loop_of(poll), &poll->last_word);
    hf__link_remove(&poll->link);
    for (unsigned i = 0; i < poll->quorum->count; i++) {
        hf__link_remove(&poll->parts[i].change.answer.link);
        free(poll->parts[i].change.error);
    }
    free(poll->name);
    free(poll->key);
    free(poll);
}

static void part_answered(struct hf_task *task)
{
    struct hf_oneshot *change = HF_CONTAINER(task, struct hf_oneshot, answer);
    struct poll *poll = HF_CONTAINER(change, struct part, change)->poll;
    poll->out--;
    if (poll->change)
        poll->change->contacted |= change->contacted;
    if (poll->change && poll->ballot)
        judge_lease(poll);
    else if (poll->change)
        broken_at_one(poll);
    if (poll->out > 0)
        return;
    if (poll->ballot)
        hf__quorum_ballot_unpin(poll->ballot);
    free_poll(poll);
}

/* The answers come when this has returned. */
static void ask_part(struct poll *poll, unsigned number)
{
    const struct hf_oneshot *whole = poll->change;
    struct hf_engine *server = poll->quorum->members[number];
    struct part *part = &poll->parts[number];
    part->poll = poll;
    part->change = (struct hf_oneshot){ .verb = whole->verb,
                                        .name = poll->name,
                                        .name_length = whole->name_length,
                                        .name_hash = whole->name_hash,
                                        .key = poll->key,
                                        .lease_ms = whole->lease_ms,
                                        .asked_at_ms = whole->asked_at_ms,
                                        .code = -1 };
    if (poll->ballot) {
        struct quorum_member *vote = &poll->ballot->votes[number];
        int64_t end_ms = whole->asked_at_ms + whole->lease_ms;
        part->change.op = &vote->op;
        vote->forgotten_ms = end_ms > vote->forgotten_ms ? end_ms : vote->forgotten_ms;
    }
    hf__task_init(&part->change.answer, part_answered);
    server->ops->oneshot(server, &part->change);
}

/* NULL: out of memory. */
static struct poll *new_poll(struct quorum *quorum, struct hf_oneshot *change)
{
    struct quorum_claim *ballot = change->op ? hf__quorum_ballot_of(change->op) : NULL;
    struct poll *poll = hf__calloc(1, sizeof *poll + quorum->count * sizeof *poll->parts);
    char *name = poll ? hf__copy_text(ballot ? ballot->name : change->name) : NULL;
    char *key = name && change->key ? hf__copy_text(change->key) : NULL;
    if (!name || (change->key && !key)) {
        free(name);
        free(poll);
        return NULL;
    }
    poll->quorum = quorum;
    poll->change = change;
    poll->name = name;
    poll->key = key;
    poll->ballot = ballot;
    poll->out = quorum->count;
    hf__timer_init(&poll->last_word, wait_no_longer);
    hf__list_append(&quorum->polls, &poll->link);
    return poll;
}

static void ask_all(struct hf_engine *engine, struct hf_oneshot *change)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    bool given_back = change->op && !hf__quorum_ballot_of(change->op);
    struct poll *poll = given_back ? NULL : new_poll(quorum, change);
    if (!poll) {
        change->code = given_back ? HF_LOST : HF_ENOMEM;
        hf__oneshot_done(engine, change);
        return;
    }
    if (poll->ballot)
        poll->ballot->pins++;
    for (unsigned i = 0; i < quorum->count; i++)
        ask_part(poll, i);
}

void hf__quorum_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    if (oneshot->verb == HF_ONESHOT_DIAGNOSE)
        hf__quorum_examine(engine, oneshot);
    else
        ask_all(engine, oneshot);
}

bool hf__polls_wanted(const struct quorum *quorum)
{
    HF_LIST_FOREACH (link, following, &quorum->polls)
        if (HF_CONTAINER(link, struct poll, link)->change)
            return true;
    return false;
}

void hf__polls_close(struct quorum *quorum)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&quorum->polls)))
        free_poll(HF_CONTAINER(link, struct poll, link));
}
