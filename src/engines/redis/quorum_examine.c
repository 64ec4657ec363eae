/* What the servers of a quorum say about themselves, one after the other, and what about them
 * together endangers locks. A server that is silent does not spoil what the others say. */
#include "base/testing.h"
#include "quorum.h"

#include <stdio.h>
#include <string.h>

#define TEXT_SIZE 600

struct round {
    struct hf_link link; /* in quorum->rounds */
    struct quorum *quorum;
    struct hf_examination *whole; /* the core's */
    struct hf_examination part;   /* what one server is asked */
    unsigned number;              /* of that server */
    unsigned silent;
    hf_error why; /* of the last one that was silent */
};

static const char *shown(const struct quorum *quorum, unsigned number)
{
    return quorum->members[number]->settings.shown;
}

static void warn(const struct round *round, const char *what, const char *consequence,
                 const char *cure)
{
    hf__examination_add(round->whole, &(hf_remark){ .size = sizeof(hf_remark),
                                                    .what = what,
                                                    .consequence = consequence,
                                                    .cure = cure });
}

/* Whose it is has to be said: there are several. */
void hf__quorum_remark(struct hf_examination *part, const hf_remark *remark)
{
    const struct round *round = HF_CONTAINER(part, struct round, part);
    char what[TEXT_SIZE];
    hf_remark named = *remark;
    snprintf(what, sizeof what, "%.280s: %.300s", shown(round->quorum, round->number),
             remark->what);
    named.what = what;
    hf__examination_add(round->whole, &named);
}

static void note_silence(struct round *round)
{
    const struct quorum *quorum = round->quorum;
    char what[TEXT_SIZE], consequence[TEXT_SIZE];
    const hf_error *why = round->part.error;
    round->silent++;
    if (why)
        round->why = *why;
    snprintf(what, sizeof what, "%.280s does not say what it is: %.240s",
             shown(quorum, round->number), why ? why->text : "out of memory");
    snprintf(consequence, sizeof consequence,
             "of the %u servers %u are needed, so %u more may fail before nobody gets a lock",
             quorum->count, quorum->majority,
             quorum->count - quorum->majority < round->silent
                 ? 0
                 : quorum->count - quorum->majority - round->silent);
    warn(round, what, consequence,
         "see to it; if it forgot its locks, start it again only when the longest lease is over");
    free(round->part.error);
    round->part.error = NULL;
}

/* By the number that each run of a server has. */
static void look_for_twins(const struct round *round)
{
    const struct quorum *quorum = round->quorum;
    char what[TEXT_SIZE];
    for (unsigned i = 0; i < quorum->count; i++)
        for (unsigned k = 0; k < i; k++) {
            const char *run = quorum->members[i]->asking.server_run;
            if (!*run || strcmp(run, quorum->members[k]->asking.server_run) != 0)
                continue;
            snprintf(what, sizeof what, "%.280s and %.280s are the same server", shown(quorum, k),
                     shown(quorum, i));
            warn(round, what,
                 "it has several votes, and when it fails or forgets, so does more than one of "
                 "the quorum",
                 "name each server once, and give each a machine of its own");
        }
}

static void end(struct round *round)
{
    struct quorum *quorum = round->quorum;
    struct hf_examination *whole = round->whole;
    look_for_twins(round);
    if (round->silent > quorum->count - quorum->majority) {
        whole->code = HF_UNREACHABLE;
        hf__explain(&whole->error, HF_UNREACHABLE, round->why.native,
                    "%u of the quorum's %u servers cannot be had, and %u are needed: %.240s",
                    round->silent, quorum->count, quorum->majority, round->why.text);
    }
    hf__link_remove(&round->link);
    free(round);
    hf__examination_done(&quorum->base, whole);
}

static void ask(struct round *round)
{
    struct hf_engine *server = &round->quorum->members[round->number]->base;
    round->part.code = HF_OK;
    server->ops->examine(server, &round->part);
}

static void answered(struct hf_task *task)
{
    struct hf_examination *part = HF_CONTAINER(task, struct hf_examination, answer);
    struct round *round = HF_CONTAINER(part, struct round, part);
    if (part->code != HF_OK)
        note_silence(round);
    if (++round->number < round->quorum->count)
        ask(round);
    else
        end(round);
}

void hf__quorum_examine(struct hf_engine *engine, struct hf_examination *examination)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct round *round = hf__calloc(1, sizeof *round);
    char text[TEXT_SIZE];
    if (!round) {
        examination->code = HF_ENOMEM;
        hf__examination_done(engine, examination);
        return;
    }
    round->quorum = quorum;
    round->whole = examination;
    hf__task_init(&round->part.answer, answered);
    hf__list_append(&quorum->rounds, &round->link);
    snprintf(text, sizeof text, "%u servers, of which %u are needed", quorum->count,
             quorum->majority);
    hf__examination_add(examination,
                        &(hf_remark){ .size = sizeof(hf_remark), .what = "quorum", .value = text });
    ask(round);
}

void hf__rounds_close(struct quorum *quorum)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&quorum->rounds))) {
        struct round *round = HF_CONTAINER(link, struct round, link);
        hf__link_remove(&round->part.answer.link);
        free(round->part.error);
        free(round);
    }
}
