/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals: `cas` with our own value, which moves the item to the front of its class; a full server
 * gets a touch by CAS, which needs no memory. */
#include "memcached.h"

static struct mc_request *renewal_of(struct hf_link *link)
{
    return HF_CONTAINER(HF_CONTAINER(link, struct hf_pipeline_item, link), struct mc_request, item);
}

static void send_renewal(struct mc_server *server, struct mc_request *request);
static void send_touch(struct mc_server *server, struct mc_request *request);

static void write_renewal(struct mc_server *server, struct mc_request *request, bool by_touch)
{
    const struct hf_op *op = request->op;
    struct mc_item item;
    if (!op) {
        /* It was released meanwhile: replies all the same. */
        hf__mc_write_clock(server);
        hf__mc_write_clock(server);
        hf__mc_write_clock(server);
        return;
    }
    hf__mc_item_of(server->mc, &item, op);
    if (hf__mc_cas_is_known(server, request))
        hf__mc_write_renewal(server, &item, op, request->cas,
                             hf__mc_ttl(op->engine.own_lease.lease_ms), by_touch);
    else
        hf__mc_write_look(server, &item);
}

static void send_renewal(struct mc_server *server, struct mc_request *request)
{
    write_renewal(server, request, false);
}

static void send_touch(struct mc_server *server, struct mc_request *request)
{
    write_renewal(server, request, true);
}

static void renewal_ends(struct mc_server *server, struct mc_request *request,
                         enum hf_lease_answer answer)
{
    struct hf_op *op = request->op;
    int64_t asked_at_ms = request->item.sent_at_ms;
    hf__mc_request_free(server->mc, request);
    if (!op)
        return;
    op->engine.word[1] &= ~(uint64_t)MC_RENEWING;
    hf__lease_answer(&op->engine.own_lease, asked_at_ms, answer, 0, NULL);
}

/* The packet shows the item behind the renewal: its id is the next one's. */
static void renewal_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *clock = &request->replies[0], *done = &request->replies[1],
                          *now = &request->replies[2];
    struct hf_op *op = request->op;
    struct mc_item item;
    if (!heard || !op) {
        renewal_ends(server, request, HF_LEASE_NO_ANSWER);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request, clock);
    hf__mc_item_of(server->mc, &item, op);
    if (!hf__mc_is_ours(server->mc, now, &item)) {
        renewal_ends(server, request, HF_LEASE_GONE);
        return;
    }
    hf__mc_op_set_cas(server, op, now->cas);
    bool renewed = done->kind == MC_STORED || done->kind == MC_DONE;
    if (renewed && right) {
        renewal_ends(server, request, HF_LEASE_RENEWED);
    } else if (now->cas == 0 || request->repeats++ >= MC_REPEATS_MAX) {
        renewal_ends(server, request, HF_LEASE_NO_ANSWER);
    } else {
        hf__mc_note_cas(server, request, now->cas);
        if (done->kind == MC_REFUSED) /* mutant: memcached-touch-when-full */
            request->send = send_touch;
        if (right)
            hf__mc_ask(server, request);
        else
            hf__mc_ask_by_right_clock(server, request);
    }
}

void hf__mc_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct memcached *mc = (struct memcached *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    if (op->engine.word[1] & MC_RENEWING)
        return;
    struct mc_request *request = hf__mc_request_new(mc);
    if (!request) {
        hf__lease_answer(lease, 0, HF_LEASE_NO_ANSWER, 0, NULL);
        return;
    }
    op->engine.word[1] |= MC_RENEWING;
    request->op = op;
    hf__mc_use_cas_of(request, op);
    request->send = send_renewal;
    request->answered = renewal_answered;
    hf__mc_ask(hf__mc_server_of(mc, op->in.name, op->in.name_length), request);
}

void hf__mc_forget_renewals(struct memcached *mc, struct hf_op *op)
{
    if (!(op->engine.word[1] & MC_RENEWING))
        return;
    op->engine.word[1] &= ~(uint64_t)MC_RENEWING;
    struct mc_server *server = hf__mc_server_of(mc, op->in.name, op->in.name_length);
    struct hf_link *lists[] = { &server->pipeline.out, &server->pipeline.waiting,
                                &server->unbelieved };
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        HF_LIST_FOREACH (link, following, lists[i])
            if (renewal_of(link)->op == op)
                renewal_of(link)->op = NULL;
}

bool hf__mc_compact(struct hf_engine *engine, struct hf_op *op)
{
    hf__mc_forget_renewals((struct memcached *)engine, op);
    return true;
}
