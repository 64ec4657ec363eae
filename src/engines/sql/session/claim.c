/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: their memory, and what they leave on a session. */
#include "engines/sql/session/session.h"

#include "base/testing.h"

#include <string.h>

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
    op->engine.pointer = claim;
    return claim;
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

void hf__session_claims_close(struct sessions *all)
{
    struct hf_link *link;
    while ((link = hf__list_first(&all->queue)))
        /* mutant: claim-that-wants-seat-at-close */
        hf__session_claim_leave(HF_CONTAINER(link, struct session_claim, queue_link));
    for (unsigned i = 0; all->seats && i < all->seat_count; i++)
        while ((link = hf__list_first(&all->seats[i].claims)))
            hf__session_claim_leave(HF_CONTAINER(link, struct session_claim, link));
}

void hf__session_extend(struct sessions *all, struct hf_oneshot *oneshot)
{
    struct session_claim *claim = oneshot->op->engine.pointer;
    bool held = claim && claim->state == SESSION_CLAIM_HELD && !claim->over &&
                hf__own_end_move(&claim->end, oneshot);
    hf__session_oneshot_ends(all, oneshot, held ? HF_OK : HF_LOST);
}
