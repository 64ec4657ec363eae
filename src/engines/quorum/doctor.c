/* SPDX-License-Identifier: Apache-2.0 */
/* What the servers of a quorum say about themselves, and what about them together endangers locks.
 * All are asked at once, since each may be silent for as long as the whole may take, and shown one
 * after the other. A server that is silent does not spoil what the others say: however long its
 * timeout is, it is only waited for as long as the caller has the patience for. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/common/findings.h"
#include "quorum.h"

#include <stdio.h>
#include <string.h>

#define TEXT_SIZE 600
/* Well below what the caller waits for. */
#define LIMIT_MS 3000 /* mutant: doctor-waits-for-as-long */

/* What a server has said, until all have. */
struct held_remark {
    struct hf_link link; /* in part->remarks */
    hf_remark remark;
    char what[TEXT_SIZE], value[TEXT_SIZE], consequence[TEXT_SIZE], cure[TEXT_SIZE];
};

/* What one server is asked. */
struct part {
    struct round *round;
    struct hf_oneshot examination;
    struct hf_link remarks;
    bool answered;
};

struct round {
    struct hf_link link; /* in quorum->rounds */
    struct quorum *quorum;
    struct hf_oneshot *whole; /* the core's; NULL: it has been told */
    struct hf_timer limit;
    unsigned answered, silent;
    hf_error why; /* of the last one that was silent */
    struct part parts[QUORUM_MAX];
    char name[HF_NAME_MAX + 1]; /* that all are asked about, for longer than the caller waits */
};

static const char *shown(const struct quorum *quorum, unsigned number)
{
    return hf__redis_shown(quorum->members[number]);
}

static struct hf_findings findings_of(const struct round *round)
{
    return (struct hf_findings){ round->whole, NULL };
}

static const char *hold(char text[TEXT_SIZE], const char *from)
{
    if (!from)
        return NULL;
    snprintf(text, TEXT_SIZE, "%.599s", from);
    return text;
}

/* Whose it is has to be said: there are several. */
void hf__quorum_remark(struct hf_oneshot *examination, const hf_remark *remark)
{
    struct part *part = HF_CONTAINER(examination, struct part, examination);
    struct round *round = part->round;
    struct held_remark *held = hf__calloc(1, sizeof *held);
    if (!held) {
        if (round->whole)
            round->whole->code = HF_ENOMEM;
        return;
    }
    snprintf(held->what, sizeof held->what, "%.280s: %.300s",
             shown(round->quorum, (unsigned)(part - round->parts)), remark->what);
    held->remark = (hf_remark){ .size = sizeof(hf_remark),
                                .what = held->what,
                                .value = hold(held->value, remark->value),
                                .consequence = hold(held->consequence, remark->consequence),
                                .cure = hold(held->cure, remark->cure),
                                .id = remark->id };
    hf__list_append(&part->remarks, &held->link);
}

/* `whole` NULL: no caller wants to see them any more. */
static void show_part(struct part *part, struct hf_oneshot *whole)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&part->remarks))) {
        struct held_remark *held = HF_CONTAINER(link, struct held_remark, link);
        if (whole)
            hf__oneshot_remark(whole, &held->remark);
        free(held);
    }
}

static bool is_silent(const struct part *part)
{
    return !part->answered || part->examination.code != HF_OK;
}

static unsigned count_silent(const struct round *round)
{
    unsigned count = 0;
    for (unsigned i = 0; i < round->quorum->count; i++)
        count += is_silent(&round->parts[i]);
    return count;
}

/* What all that are silent mean together. */
static void write_consequence(const struct round *round, char text[TEXT_SIZE])
{
    const struct quorum *quorum = round->quorum;
    unsigned left = quorum->count - round->silent;
    if (left < quorum->majority)
        snprintf(text, TEXT_SIZE,
                 "no lock is granted: of the %u servers %u are needed, and %u answer%s",
                 quorum->count, quorum->majority, left, left == 1 ? "s" : "");
    else
        snprintf(text, TEXT_SIZE,
                 "of the %u servers %u are needed, so %u more may fail before no lock is granted",
                 quorum->count, quorum->majority, left - quorum->majority);
}

static void note_silence(struct round *round, const struct part *part)
{
    const struct quorum *quorum = round->quorum;
    const char *server = shown(quorum, (unsigned)(part - round->parts));
    char consequence[TEXT_SIZE];
    const struct hf_findings findings = findings_of(round);
    if (!part->answered)
        hf__error_set(&round->why, HF_UNREACHABLE, 0, "Redis at %.100s: no answer for %d ms",
                      server, LIMIT_MS);
    else if (part->examination.error)
        round->why = *part->examination.error;
    else
        hf__error_set(&round->why, part->examination.code, 0, "out of memory");
    write_consequence(round, consequence);
    hf__finding_danger(
        &findings, "server-silent", consequence,
        "see to it; if it forgot its locks, start it again only when the longest lease is over",
        "%.280s does not say what it is: %.240s", server, round->why.text);
}

/* By the number that each run of a server has. */
static void look_for_twins(const struct round *round)
{
    const struct quorum *quorum = round->quorum;
    const struct hf_findings findings = findings_of(round);
    for (unsigned i = 0; i < quorum->count; i++)
        for (unsigned k = 0; k < i; k++) {
            const char *run = hf__redis_run_id(quorum->members[i]);
            if (!*run || strcmp(run, hf__redis_run_id(quorum->members[k])) != 0)
                continue;
            hf__finding_danger(&findings, "one-server-twice",
                               "it has several votes, and when it fails or forgets, so does more "
                               "than one of the quorum",
                               "name each server once, and give each a machine of its own",
                               "%.280s and %.280s are the same server", shown(quorum, k),
                               shown(quorum, i));
        }
}

/* Takes it out of whatever list it is in. */
static void free_round(struct round *round)
{
    hf__timer_stop(round->quorum->base.host->loop, &round->limit);
    hf__link_remove(&round->link);
    for (unsigned i = 0; i < round->quorum->count; i++) {
        hf__link_remove(&round->parts[i].examination.answer.link);
        show_part(&round->parts[i], NULL);
        free(round->parts[i].examination.error);
    }
    free(round);
}

/* A server that has not answered by now is silent. */
static void tell_findings(struct round *round)
{
    struct quorum *quorum = round->quorum;
    struct hf_oneshot *whole = round->whole;
    round->silent = count_silent(round);
    whole->contacted = round->silent < quorum->count;
    for (unsigned i = 0; i < quorum->count; i++) {
        show_part(&round->parts[i], whole);
        if (is_silent(&round->parts[i]))
            note_silence(round, &round->parts[i]);
    }
    look_for_twins(round); /* mutant: doctor-takes-server */
    if (round->silent > quorum->count - quorum->majority) {
        whole->code = HF_UNREACHABLE;
        hf__explain(&whole->error, HF_UNREACHABLE, round->why.native,
                    "%u of the quorum's %u servers cannot be had, and %u are needed: %.240s",
                    round->silent, quorum->count, quorum->majority, round->why.text);
    }
    round->whole = NULL;
    hf__oneshot_done(&quorum->base, whole);
}

static void limit_over(struct hf_timer *timer)
{
    tell_findings(HF_CONTAINER(timer, struct round, limit));
}

static void part_answered(struct hf_task *task)
{
    struct hf_oneshot *examination = HF_CONTAINER(task, struct hf_oneshot, answer);
    struct part *part = HF_CONTAINER(examination, struct part, examination);
    struct round *round = part->round;
    part->answered = true;
    if (++round->answered < round->quorum->count) /* mutant: doctor-does-not-wait-for-all */
        return;
    if (round->whole)
        tell_findings(round);
    free_round(round);
}

static void ask_all(struct round *round)
{
    for (unsigned i = 0; i < round->quorum->count; i++) {
        struct hf_engine *server = round->quorum->members[i];
        server->ops->oneshot(server, &round->parts[i].examination);
    }
}

void hf__quorum_examine(struct hf_engine *engine, struct hf_oneshot *examination)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct round *round = hf__calloc(1, sizeof *round);
    if (!round) {
        examination->code = HF_ENOMEM;
        hf__oneshot_done(engine, examination);
        return;
    }
    round->quorum = quorum;
    round->whole = examination;
    if (examination->name)
        memcpy(round->name, examination->name, examination->name_length + 1);
    for (unsigned i = 0; i < quorum->count; i++) {
        round->parts[i].round = round;
        round->parts[i].examination.verb = HF_ONESHOT_DIAGNOSE;
        /* mutant: doctor-does-not-ask-servers */
        round->parts[i].examination.name = examination->name ? round->name : NULL;
        round->parts[i].examination.name_length = examination->name_length;
        hf__link_init(&round->parts[i].remarks);
        hf__task_init(&round->parts[i].examination.answer, part_answered);
    }
    hf__list_append(&quorum->rounds, &round->link);
    hf__timer_init(&round->limit, limit_over);
    hf__timer_start(quorum->base.host->loop, &round->limit,
                    hf__loop_now(quorum->base.host->loop) + LIMIT_MS);
    const struct hf_findings findings = findings_of(round);
    hf__finding_fact(&findings, "quorum", "%u servers, of which %u are needed", quorum->count,
                     quorum->majority);
    ask_all(round);
}

bool hf__rounds_wanted(const struct quorum *quorum)
{
    HF_LIST_FOREACH (link, following, &quorum->rounds)
        if (HF_CONTAINER(link, struct round, link)->whole)
            return true;
    return false;
}

void hf__rounds_close(struct quorum *quorum)
{
    struct hf_link *link;
    while ((link = hf__list_first(&quorum->rounds)))
        free_round(HF_CONTAINER(link, struct round, link));
}
