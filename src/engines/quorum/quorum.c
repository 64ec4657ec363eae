/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `quorum:`: opening, closing, and its table. */
#include "quorum.h"
#include "base/error.h"
#include "base/testing.h"

/* Closing waits this time for servers that have not yet heard what is given back. */
#define FAREWELL_MS 250

static struct quorum *quorum_of(struct hf_engine *engine)
{
    return HF_CONTAINER(engine, struct quorum, base);
}

static void nothing_to_do(void *arg)
{
    (void)arg;
}

static void end_quorum(struct quorum *quorum)
{
    void (*closed)(void *arg) = quorum->closed;
    void *arg = quorum->closed_arg;
    hf__timer_stop(quorum->base.host->loop, &quorum->leaving);
    hf__polls_close(quorum);
    hf__rounds_close(quorum);
    hf__quorum_ballots_close(quorum);
    for (unsigned i = 0; i < quorum->count; i++)
        quorum->members[i]->ops->close(quorum->members[i], nothing_to_do, NULL);
    free(quorum);
    closed(arg);
}

static void waited_enough(struct hf_timer *timer)
{
    end_quorum(HF_CONTAINER(timer, struct quorum, leaving));
}

static void close_quorum(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct quorum *quorum = quorum_of(engine);
    hf__quorum_ballots_abandon(quorum);
    quorum->closed = closed;
    quorum->closed_arg = arg;
    /* What a change names goes with its caller. */
    if (hf__list_empty(&quorum->ballots) || hf__polls_wanted(quorum) || hf__rounds_wanted(quorum))
        end_quorum(quorum);
    else
        hf__timer_start(engine->host->loop, &quorum->leaving,
                        hf__loop_now(engine->host->loop) + FAREWELL_MS);
}

static int open_quorum(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                       hf_error *error)
{
    struct quorum *quorum = hf__calloc(1, sizeof *quorum);
    *ret = NULL;
    if (!quorum)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a quorum");
    quorum->base = (struct hf_engine){ .ops = &hf__quorum, .host = host };
    hf__link_init(&quorum->ballots);
    hf__link_init(&quorum->free_ballots);
    hf__link_init(&quorum->waiting);
    hf__link_init(&quorum->polls);
    hf__link_init(&quorum->rounds);
    hf__timer_init(&quorum->leaving, waited_enough);
    int code = hf__quorum_open_members(quorum, url, error);
    if (code == HF_OK)
        *ret = &quorum->base;
    else
        close_quorum(&quorum->base, nothing_to_do, NULL);
    return code;
}

static void quorum_forked(struct hf_engine *engine)
{
    struct quorum *quorum = quorum_of(engine);
    for (unsigned i = 0; i < quorum->count; i++)
        quorum->members[i]->ops->forked(quorum->members[i]);
}

static const char *const schemes[] = { "quorum", NULL };

const struct hf_engine_ops hf__quorum = {
    .name = "quorum",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_TOKEN | HF_CAP_BREAK,
    .raises_tokens = true,
    .open = open_quorum,
    .close = close_quorum,
    .attempt = hf__quorum_attempt,
    .release = hf__quorum_release,
    .renew = hf__quorum_renew,
    .forgets = true,
    .oneshot = hf__quorum_oneshot,
    .forked = quorum_forked,
    .why_silent = hf__quorum_decide_why_silent,
};
