/* SPDX-License-Identifier: Apache-2.0 */
/* The own end of a claim that rests on a session. */
#include "own_end.h"

#include "base/clock.h"

static struct hf_loop *own_end_loop_of(const struct hf_own_end *end)
{
    return end->lease.engine->host->loop;
}

/* The holder has known since a moment ago; now the others may come. */
static void time_is_over(struct hf_timer *timer)
{
    struct hf_own_end *end = HF_CONTAINER(timer, struct hf_own_end, timer);
    hf__link_remove(&end->link);
    end->over(end); /* mutant: lease-of-one-own-does-not-end */
}

void hf__own_end_init(struct hf_own_end *end, struct hf_engine *engine,
                      void (*over)(struct hf_own_end *end))
{
    end->lease.engine = engine;
    end->over = over;
    hf__link_init(&end->link);
    hf__timer_init(&end->timer, time_is_over);
}

void hf__own_end_start(struct hf_own_end *end, const struct hf_op *op)
{
    int64_t end_ms = hf__clock_add(op->in.asked_at_ms, op->in.lease_ms);
    end->lease.fixed = true;
    /* mutant: own-end-is-believed-in */
    end->lease.ends_at_ms = end_ms - op->in.lease_ms / 100 - 2;
    hf__timer_start(own_end_loop_of(end), &end->timer, end_ms);
}

void hf__own_end_follow(struct hf_own_end *end, struct hf_link *ends,
                        const struct hf_lease *session, struct hf_op *op)
{
    hf__link_remove(&end->link);
    hf__list_append(ends, &end->link);
    end->session = session;
    end->lease.lease_ms = session->lease_ms;
    end->lease.asked_at_ms = session->asked_at_ms;
    op->out.rests_on = &end->lease;
}

bool hf__own_end_move(struct hf_own_end *end, const struct hf_oneshot *renewal)
{
    int64_t end_ms = hf__clock_add(renewal->asked_at_ms, renewal->lease_ms);
    if (end->timer.started && end->timer.at_ms < end_ms)
        hf__timer_start(own_end_loop_of(end), &end->timer, end_ms);
    return end->timer.started;
}

int64_t hf__own_end_longer_ms(const struct hf_own_end *end, const struct hf_oneshot *renewal)
{
    int64_t left_ms = end->timer.at_ms - renewal->asked_at_ms;
    return renewal->lease_ms > left_ms ? renewal->lease_ms : left_ms;
}

void hf__own_end_stop(struct hf_own_end *end)
{
    hf__link_remove(&end->link);
    hf__timer_stop(own_end_loop_of(end), &end->timer);
}

void hf__own_ends_confirm(struct hf_link *ends, const struct hf_lease *session, int64_t asked_at_ms,
                          int64_t length_ms)
{
    HF_LIST_FOREACH (link, following, ends) {
        struct hf_own_end *end = HF_CONTAINER(link, struct hf_own_end, link);
        /* A new length counts for one whose grant is still on its way to the core, too. */
        if (end->session == session && (end->lease.watched || length_ms != 0))
            hf__lease_answer(&end->lease, asked_at_ms, HF_LEASE_RENEWED, length_ms, NULL);
    }
}

void hf__own_ends_lose(struct hf_link *ends, const struct hf_lease *session)
{
    struct hf_link lost, *link;
    hf__link_init(&lost);
    HF_LIST_FOREACH (each, following, ends)
        /* mutant: own-end-of-another-session */
        if (HF_CONTAINER(each, struct hf_own_end, link)->session == session) {
            hf__link_remove(each);
            hf__list_append(&lost, each);
        }
    while ((link = hf__list_pop(&lost))) {
        struct hf_own_end *end = HF_CONTAINER(link, struct hf_own_end, link);
        if (end->lease.watched)
            hf__lease_answer(&end->lease, 0, HF_LEASE_GONE, 0, NULL);
    }
}

bool hf__session_lease_is_lost(struct hf_lease *session, int64_t now_ms)
{
    int64_t over_at_ms = session->asked_at_ms + session->lease_ms;
    if (!session->watched && now_ms >= over_at_ms) /* mutant: session-that-nothing-rests */
        session->lost = true;
    return session->lost;
}
