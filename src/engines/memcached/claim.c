/* SPDX-License-Identifier: Apache-2.0 */
/* The item of one claim: its key and its owner, and how a request about it ends. */
#include "memcached.h"

#include <inttypes.h>

bool hf__mc_key_of(const struct memcached *mc, char key[MC_KEY_MAX + 1], const char *name,
                   size_t length)
{
    return hf__mc_write_key(key, mc->settings.format, name, length);
}

bool hf__mc_item_of(const struct memcached *mc, struct mc_item *item, const struct hf_op *op)
{
    mc->settings.format->write_owner(item->owner, mc->base.host->id, hf__mc_op_claim(op));
    return hf__mc_key_of(mc, item->key, op->in.name, op->in.name_length);
}

bool hf__mc_is_ours(const struct memcached *mc, const struct mc_reply *reply,
                    const struct mc_item *item)
{
    return reply->kind == MC_VALUE &&
           hf__mc_value_is_of(mc->settings.format, reply->value, reply->length, item->owner);
}

_Static_assert(MC_LEASE_MIN_MS == 1000 && MC_LEASE_MAX_MS == 2591997000, "MC_LEASE_RULE");

bool hf__mc_lease_fits(int64_t lease_ms)
{
    return lease_ms >= MC_LEASE_MIN_MS && lease_ms <= MC_LEASE_MAX_MS;
}

int64_t hf__mc_op_lease_ms(const struct memcached *mc, const struct hf_op *op)
{
    return op->in.lease_ms ? op->in.lease_ms : mc->base.host->lease_ms;
}

struct mc_request *hf__mc_request_about(struct memcached *mc, struct hf_op *op)
{
    struct mc_request *request = hf__mc_request_new(mc);
    if (request)
        request->op = op;
    else
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
    return request;
}

/* Connections are answered in order. Of an earlier one, a server that was paused may execute what
 * it has read: such an item ends with its exptime. */
void hf__mc_finish(struct mc_server *server, struct mc_request *request, enum hf_word word)
{
    struct hf_op *op = request->op;
    struct hf_known *known = &op->engine.known;
    if (word != HF_WORD_OPEN)
        hf__known_settled(known);
    hf__op_set_verdict(op, hf__known_found(known, request->asked, word));
    op->out.contacted = request->item.sent;
    hf__mc_request_free(server->mc, request);
    hf__op_done(&server->mc->base, op);
}

void hf__mc_write_look(struct mc_server *server, const struct mc_item *item)
{
    hf__mc_write_clock(server);
    hf__mc_write(server, "mg %s v c t\r\nmg %s v c t\r\n", item->key, item->key);
}

void hf__mc_write_renewal(struct mc_server *server, const struct mc_item *item,
                          const struct hf_op *op, uint64_t cas, int64_t ttl, bool by_touch)
{
    const struct mc_format *format = server->mc->settings.format;
    char value[MC_OWNER_MAX + 1];
    size_t length =
        hf__mc_write_value(value, format, item->owner, op->out.token, op->in.owner_text);
    hf__mc_write_clock(server);
    if (by_touch)
        hf__mc_write(server, "md %s I T%" PRId64 " C%" PRIu64 "\r\n", item->key, ttl, cas);
    else
        hf__mc_write(server, "cas %s %" PRIu32 " %" PRId64 " %zu %" PRIu64 "\r\n%s\r\n", item->key,
                     format->flags, ttl, length, cas, value);
    hf__mc_write(server, "mg %s v c t\r\n", item->key);
}
