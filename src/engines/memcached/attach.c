/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching: an item that was left under a key gets a new owner, or its first one back. */
#include "memcached.h"

#include <inttypes.h>

/* Is the item still under the key that it was left under? */
static bool is_left(const struct mc_server *server, const struct hf_op *op,
                    const struct mc_reply *item)
{
    return item->kind == MC_VALUE && hf__mc_value_is_of(server->mc->settings.format, item->value,
                                                        item->length, op->in.attach_key);
}

/* The item ends when it would have ended: the new value gets the seconds that are left. */
static void send_adoption(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    hf__mc_item_of(server->mc, &item, request->op);
    if (!hf__mc_cas_is_known(server, request)) {
        hf__mc_write_look(server, &item);
        return;
    }
    hf__known_sent(&request->op->engine.known, request->asked);
    hf__mc_write_renewal(server, &item, request->op, request->cas, request->ttl, false);
}

void hf__mc_attach_send(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    hf__mc_item_of(server->mc, &item, request->op);
    hf__mc_write_clock(server);
    hf__mc_write(server, "mg %s v c t\r\n", item.key);
}

static void adoption_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *clock = &request->replies[0], *done = &request->replies[1],
                          *now = &request->replies[2];
    if (!heard) {
        hf__mc_attempt_unanswered(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request, clock);
    if (done->kind == MC_REFUSED && is_left(server, request->op, now)) {
        hf__mc_no_memory(server, request, done);
        return;
    }
    /* The look that follows tells what has become of it. */
    request->send = hf__mc_attach_send;
    request->answered = hf__mc_attach_answered;
    hf__mc_ask_again(server, request, !right);
}

void hf__mc_attach_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *clock = &request->replies[0], *now = &request->replies[1];
    struct hf_op *op = request->op;
    struct mc_item item;
    if (!heard) {
        hf__mc_attempt_unanswered(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request, clock);
    hf__mc_item_of(server->mc, &item, op);
    bool ours = hf__mc_is_ours(server->mc, now, &item);
    bool left = is_left(server, op, now);
    if ((ours || left) && hf__mc_has_no_id(server, request, now))
        return;
    if ((!ours && !left) || (right && now->ttl <= MC_TTL_MARGIN)) {
        hf__mc_finish(server, request, HF_WORD_REFUSED);
    } else if (!right) {
        hf__mc_ask_again(server, request, true);
    } else if (ours) {
        hf__mc_granted(server, request, now, (now->ttl - MC_TTL_MARGIN) * 1000);
    } else {
        hf__mc_note_cas(server, request, now->cas);
        request->ttl = now->ttl;
        request->token = op->out.token = hf__mc_token_of(server, now);
        request->send = send_adoption;
        request->answered = adoption_answered;
        hf__mc_ask(server, request);
    }
}

/* ---- undoing it: no caller has heard of the adoption, so the key opens the item again ---- */

static void return_answered(struct mc_server *server, struct mc_request *request, bool heard);

void hf__mc_return_send(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    hf__mc_item_of(server->mc, &item, request->op);
    hf__mc_write(server, "mg %s v c t\r\n", item.key);
}

/* The item that the look has shown, with the seconds that it has left. */
static void send_return(struct mc_server *server, struct mc_request *request)
{
    const struct mc_format *format = server->mc->settings.format;
    const struct mc_reply *now = &request->replies[0];
    struct mc_item item;
    struct mc_value was;
    char value[MC_OWNER_MAX + 1];
    if (!hf__mc_cas_is_known(server, request)) {
        request->answered = hf__mc_return_looked;
        hf__mc_return_send(server, request);
        return;
    }
    hf__mc_item_of(server->mc, &item, request->op);
    hf__mc_read_value(&was, format, now->value, now->length);
    size_t length =
        hf__mc_write_value(value, format, request->op->in.attach_key, request->token, was.text);
    hf__known_sent(&request->op->engine.known, request->asked);
    hf__mc_write(server, "cas %s %" PRIu32 " %" PRId64 " %zu %" PRIu64 "\r\n%s\r\n", item.key,
                 format->flags, now->ttl, length, request->cas, value);
}

static void look_again(struct mc_server *server, struct mc_request *request)
{
    request->send = hf__mc_return_send;
    request->answered = hf__mc_return_looked;
    hf__mc_ask(server, request);
}

static void return_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *done = &request->replies[0];
    if (!heard)
        hf__mc_release_unanswered(server, request);
    else if (done->kind == MC_STORED)
        hf__mc_release_gone(server, request, HF_WORD_DONE);
    else if (done->kind == MC_REFUSED)
        hf__mc_no_memory(server, request, done);
    else if (++request->repeats > MC_REPEATS_MAX)
        hf__mc_release_overtaken(server, request);
    else
        look_again(server, request);
}

/* An item that is still under the key gets a new CAS id all the same: an adoption that a slow
 * server executes after this names the old one. */
void hf__mc_return_looked(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *now = &request->replies[0];
    struct hf_op *op = request->op;
    struct mc_item item;
    if (!heard) {
        hf__mc_release_unanswered(server, request);
        return;
    }
    hf__mc_item_of(server->mc, &item, op);
    bool ours = hf__mc_is_ours(server->mc, now, &item);
    /* Its last second ends by itself. */
    if ((!ours && !is_left(server, op, now)) || now->ttl <= 0) {
        hf__mc_release_gone(server, request, HF_WORD_MISSING);
        return;
    }
    if (!hf__mc_has_id(server, now, &op->out.error)) {
        hf__mc_finish(server, request, HF_WORD_OPEN);
        return;
    }
    hf__mc_note_cas(server, request, now->cas);
    request->token = hf__mc_token_of(server, now);
    request->send = send_return;
    request->answered = return_answered;
    hf__mc_ask(server, request);
}
