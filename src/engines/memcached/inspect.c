/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a lock: its item shows the holder, and how long it has left. Waiters poll, and are
 * nowhere in the store. */
#include "memcached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "user@host:pid program" */
static int64_t read_pid(const char *text, char *host, size_t size)
{
    const char *at = strchr(text, '@'), *colon = at ? strchr(at, ':') : NULL;
    host[0] = 0;
    if (!colon || colon[1] < '0' || colon[1] > '9')
        return 0;
    snprintf(host, size, "%.*s", (int)(colon - at - 1), at + 1);
    return strtoll(colon + 1, NULL, 10);
}

void hf__mc_show(const struct mc_server *server, struct hf_oneshot *oneshot, const char *name,
                 size_t length, const struct mc_reply *item)
{
    struct mc_value value;
    char host[128];
    hf_entry entry = { .size = sizeof entry,
                       .name = name,
                       .name_length = length,
                       .kind = HF_KIND_MUTEX,
                       .role = HF_ROLE_OBJECT,
                       .owner_key = "",
                       .owner_text = "",
                       .host = "",
                       .since_ms = -1,
                       .lease_left_ms = -1 };
    hf__mc_read_value(&value, server->mc->settings.format, item->value, item->length);
    entry.token = value.token ? value.token : server->token_base + item->cas;
    hf__oneshot_entry(oneshot, &entry);
    entry.role = HF_ROLE_HOLDER;
    entry.owner_key = value.owner;
    entry.owner_text = *value.text ? value.text : value.owner;
    entry.pid = read_pid(value.text, host, sizeof host);
    entry.host = host;
    /* The item lives longer than its lease; that of another library has no margin. */
    int64_t margin = server->mc->settings.format->has_text ? MC_TTL_MARGIN : 0;
    if (item->ttl >= 0)
        entry.lease_left_ms = item->ttl > margin ? (item->ttl - margin) * 1000 : 0;
    hf__oneshot_entry(oneshot, &entry);
}

static void item_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    int code = HF_OK;
    if (!heard)
        code = hf__mc_explain_silence(server, &request->oneshot->error);
    else if (request->replies[0].kind == MC_VALUE)
        hf__mc_show(server, request->oneshot, request->oneshot->name, request->oneshot->name_length,
                    &request->replies[0]);
    hf__mc_oneshot_ends(server, request, code);
}

/* "u": a look is no use of the item. */
static void mc_send_look(struct mc_server *server, struct mc_request *request)
{
    hf__mc_write(server, "mg %s v c t u\r\n", request->key);
}

void hf__mc_inspect(struct memcached *mc, struct hf_oneshot *oneshot)
{
    struct mc_request *request = hf__mc_oneshot_request(mc, oneshot);
    if (!request) {
        hf__oneshot_done(&mc->base, oneshot);
        return;
    }
    request->send = mc_send_look;
    request->answered = item_answered;
    hf__mc_ask(hf__mc_server_of(mc, oneshot->name, oneshot->name_length), request);
}
