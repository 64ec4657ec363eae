/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot verbs: break by force, prolong a lease of one's own, leave a lock to its lease. */
#include "memcached.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mc_request *hf__mc_oneshot_request(struct memcached *mc, struct hf_oneshot *oneshot)
{
    struct mc_request *request = hf__mc_request_new(mc);
    oneshot->code = HF_ENOMEM;
    if (!request)
        return NULL;
    request->oneshot = oneshot;
    if (hf__mc_write_key(request->key, mc->settings.format, oneshot->name, oneshot->name_length))
        return request;
    hf__explain(&oneshot->error, HF_EINVAL, 0, "\"%.200s\": no key of this format can carry it",
                oneshot->name);
    oneshot->code = HF_EINVAL;
    hf__mc_request_free(mc, request);
    return NULL;
}

void hf__mc_oneshot_ends(struct mc_server *server, struct mc_request *request, int code)
{
    struct hf_oneshot *oneshot = request->oneshot;
    oneshot->contacted = request->got > 0;
    oneshot->code = code;
    hf__mc_request_free(server->mc, request);
    hf__oneshot_done(&server->mc->base, oneshot);
}

static void unanswered(struct mc_server *server, struct mc_request *request)
{
    hf__mc_oneshot_ends(server, request, hf__mc_explain_silence(server, &request->oneshot->error));
}

static void changes_all_the_time(struct mc_server *server, struct mc_request *request)
{
    hf__explain(&request->oneshot->error, HF_UNREACHABLE, 0,
                "memcached at %.100s: the item changes all the time, or its clock jumps",
                server->shown);
    hf__mc_oneshot_ends(server, request, HF_UNREACHABLE);
}

static void mc_send_look(struct mc_server *server, struct mc_request *request)
{
    hf__mc_write(server, "mg %s v c t\r\n", request->key);
}

/* ---- break ---- */

static void break_looked(struct mc_server *server, struct mc_request *request, bool heard);

static void send_deletion(struct mc_server *server, struct mc_request *request)
{
    if (!hf__mc_cas_is_known(server, request)) {
        request->answered = break_looked;
        mc_send_look(server, request);
        return;
    }
    hf__mc_write(server, "md %s C%" PRIu64 "\r\n", request->key, request->cas);
}

static void break_deleted(struct mc_server *server, struct mc_request *request, bool heard)
{
    if (!heard) {
        unanswered(server, request);
    } else if (request->replies[0].kind == MC_DONE) {
        request->oneshot->result = 1;
        hf__mc_oneshot_ends(server, request, HF_OK);
    } else if (++request->repeats > MC_REPEATS_MAX) {
        changes_all_the_time(server, request);
    } else {
        request->send = mc_send_look;
        request->answered = break_looked;
        hf__mc_ask(server, request);
    }
}

static void break_looked(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *now = &request->replies[0];
    struct hf_oneshot *change = request->oneshot;
    if (!heard) {
        unanswered(server, request);
    } else if (now->kind != MC_VALUE) {
        hf__mc_oneshot_ends(server, request, HF_OK);
    } else if (change->key && !hf__mc_value_is_of(server->mc->settings.format, now->value,
                                                  now->length, change->key)) {
        hf__mc_oneshot_ends(server, request, HF_BUSY);
    } else if (!hf__mc_has_id(server, now, &change->error)) {
        hf__mc_oneshot_ends(server, request, HF_ENOTSUP);
    } else {
        hf__mc_note_cas(server, request, now->cas);
        request->send = send_deletion;
        request->answered = break_deleted;
        hf__mc_ask(server, request);
    }
}

/* ---- a lease of one's own ---- */

/* Never shorter than what it has left. */
static int64_t wanted_ms(const struct mc_server *server, const struct hf_oneshot *change)
{
    const struct hf_lease *lease = &change->op->engine.own_lease;
    int64_t left_ms = lease->asked_at_ms + lease->lease_ms - hf__mc_now(server->mc);
    int64_t wanted = change->lease_ms > left_ms ? change->lease_ms : left_ms;
    return wanted < MC_LEASE_MAX_MS ? wanted : MC_LEASE_MAX_MS;
}

static void send_renewal(struct mc_server *server, struct mc_request *request)
{
    request->ttl = hf__mc_ttl(wanted_ms(server, request->oneshot));
    hf__mc_send_renewal(server, request);
}

static void mc_renewal_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *done = &request->replies[1], *now = &request->replies[2];
    struct hf_op *op = request->oneshot->op;
    if (!heard) {
        if (request->item.sent)
            hf__mc_op_set_cas(server, op, 0);
        unanswered(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request);
    bool stored = done->kind == MC_STORED || done->kind == MC_DONE;
    if (!hf__mc_is_ours(server->mc, op, now)) {
        hf__mc_oneshot_ends(server, request, HF_LOST);
        return;
    }
    hf__mc_op_set_cas(server, op, now->cas);
    if (stored && right)
        hf__mc_oneshot_ends(server, request, HF_OK);
    else if (!hf__mc_has_id(server, now, &request->oneshot->error))
        hf__mc_oneshot_ends(server, request, HF_ENOTSUP);
    else if (!hf__mc_renew_again(server, request, right))
        changes_all_the_time(server, request);
}

/* ---- leaving it to its lease ---- */

/* Nothing at the server depends on this process: the exptime alone keeps what is detached. */
void hf__mc_detach(struct hf_engine *engine, struct hf_oneshot *change)
{
    const struct memcached *mc = (const struct memcached *)engine;
    hf__mc_write_owner(mc, change->op, change->key_out);
    change->code = HF_OK;
    hf__oneshot_done(engine, change);
}

/* ---- asking ---- */

void hf__mc_change(struct memcached *mc, struct hf_oneshot *change)
{
    bool renews = change->verb == HF_ONESHOT_RENEW;
    if (renews && !hf__mc_lease_fits(change->lease_ms)) {
        hf__explain(&change->error, HF_EINVAL, 0, "\"%.200s\": " MC_LEASE_RULE, change->name);
        change->code = HF_EINVAL;
        hf__oneshot_done(&mc->base, change);
        return;
    }
    struct mc_request *request = hf__mc_oneshot_request(mc, change);
    if (!request) {
        hf__oneshot_done(&mc->base, change);
        return;
    }
    if (change->op)
        hf__mc_use_cas_of(request, change->op);
    request->send = renews ? send_renewal : mc_send_look;
    request->answered = renews ? mc_renewal_answered : break_looked;
    hf__mc_ask(hf__mc_server_of(mc, change->name, change->name_length), request);
}
