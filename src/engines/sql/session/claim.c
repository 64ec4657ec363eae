/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: their memory, and ends that no caller has asked for. */
#include "engines/sql/session/session.h"

#include "base/testing.h"

#include <string.h>

/* ---- memory ---- */

static void own_end_over(struct hf_own_end *end);

struct session_claim *hf__session_claim_new(struct sessions *all, struct hf_op *op)
{
    struct hf_link *link = hf__list_pop(&all->free_claims);
    struct session_claim *claim =
        link ? HF_CONTAINER(link, struct session_claim, link) : hf__calloc(1, sizeof *claim);
    if (!claim)
        return NULL;
    memset(claim, 0, sizeof *claim);
    claim->all = all;
    claim->op = op;
    claim->uses = 1;
    claim->shared = op->in.mode == HF_READ;
    hf__link_init(&claim->link);
    hf__link_init(&claim->queue_link);
    hf__own_end_init(&claim->end, &all->base, own_end_over);
    hf__timer_init(&claim->again, hf__session_cancel_again);
    op->engine.pointer = claim;
    return claim;
}

void hf__session_claim_use_ends(struct session_claim *claim)
{
    if (--claim->uses > 0)
        return;
    hf__link_remove(&claim->link);
    hf__list_append(&claim->all->free_claims, &claim->link);
}

void hf__session_claim_rest(struct session_claim *claim)
{
    hf__session_seat_leave(claim);
    hf__own_end_stop(&claim->end);
    hf__timer_stop(claim->all->base.host->loop, &claim->again);
    claim->state = SESSION_CLAIM_IDLE;
}

void hf__session_claim_leave(struct session_claim *claim)
{
    hf__session_claim_rest(claim);
    hf__link_remove(&claim->queue_link);
    hf__session_drop(claim->session);
    claim->session = NULL;
    claim->op->engine.pointer = NULL;
    claim->op->out.rests_on = NULL;
    claim->op = NULL;
    hf__session_claim_use_ends(claim);
}

void hf__session_claims_close(struct hf_link *claims)
{
    struct hf_link *link;
    while ((link = hf__list_first(claims)))
        hf__session_claim_leave(HF_CONTAINER(link, struct session_claim, link));
}

/* ---- ends that are not asked for ---- */

static void end_now(struct session_claim *claim)
{
    claim->over = true;
    if (claim->state == SESSION_CLAIM_HELD && !claim->session->over)
        hf__session_unlock(claim, 0);
}

static void own_end_over(struct hf_own_end *end)
{
    end_now(HF_CONTAINER(end, struct session_claim, end));
}

/* What has a request out hears by that. */
void hf__session_claim_lost(struct session_claim *claim)
{
    bool held = claim->state == SESSION_CLAIM_HELD;
    if (!held && claim->state != SESSION_CLAIM_GRANTED)
        return;
    claim->end.lease.asked_at_ms = claim->session ? claim->session->lease.asked_at_ms : 0;
    claim->confirming = false;
    hf__session_claim_rest(claim);
    hf__known_forget(&claim->op->engine.known);
    if (held)
        hf__op_lost(claim->op, "its session at the database has ended");
    else if (claim->asked)
        hf__session_finish(claim, HF_NO_ANSWER);
    else
        hf__op_wake(claim->op);
}

unsigned hf__session_take_away(struct sessions *all, const struct session_key *key, int64_t id)
{
    unsigned count = 0;
    for (unsigned i = 0; i < all->seat_count; i++)
        HF_LIST_FOREACH (link, following, &all->seats[i].claims) {
            struct session_claim *claim = HF_CONTAINER(link, struct session_claim, link);
            if (claim->state != SESSION_CLAIM_HELD || claim->session->id != id ||
                !hf__session_key_is(&claim->key, key))
                continue;
            count++;
            hf__op_lost(claim->op, "it was broken");
            end_now(claim);
        }
    return count;
}

void hf__session_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct session *session = HF_CONTAINER(lease, struct session, lease);
    if (session->over)
        hf__lease_answer(lease, hf__session_now((struct sessions *)engine), HF_LEASE_GONE, 0, NULL);
    else
        hf__session_beat(session);
}

void hf__session_extend(struct sessions *all, struct hf_oneshot *oneshot)
{
    struct session_claim *claim = oneshot->op->engine.pointer;
    bool held = claim && claim->state == SESSION_CLAIM_HELD && !claim->over &&
                hf__own_end_move(&claim->end, oneshot);
    hf__session_oneshot_ends(all, oneshot, held ? HF_OK : HF_LOST);
}
