/* SPDX-License-Identifier: Apache-2.0 */
/* Which lists of servers the clients of a server have. Clients whose lists differ look for one name
 * at different servers, and no server notices. So each client that takes locks adds its list to an
 * item, and doctor compares: an item of "HASH SERVERS;" for each list. It decides nothing. A client
 * that looks at what exists, as doctor does, leaves none, though it may take a lock to measure. */
#include "base/rand.h"
#include "memcached.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LISTS_KEY "%hf.lists"
/* A list that no client has any more is forgotten after a day. */
#define LISTS_TTL_S 86400
#define HASH_DIGITS 16
#define ENTRY_SIZE (HASH_DIGITS + MC_LIST_SHOWN + 3)

/* The order of the servers decides nothing, nor does the spelling of a server that is alone. */
static uint64_t hash_list(const struct memcached *mc)
{
    uint64_t hash = 0;
    for (unsigned i = 0; mc->server_count > 1 && i < mc->server_count; i++)
        hash += hf__hash(mc->servers[i].shown, strlen(mc->servers[i].shown));
    return hash;
}

/* The servers are cut: they are for people. */
static void write_entry(const struct memcached *mc, char entry[ENTRY_SIZE])
{
    size_t end = (size_t)snprintf(entry, ENTRY_SIZE, "%016" PRIx64 " ", hash_list(mc));
    for (unsigned i = 0; i < mc->server_count && end < ENTRY_SIZE - 2; i++) {
        size_t room = ENTRY_SIZE - 1 - end;
        int length = snprintf(entry + end, room, "%s%s", i > 0 ? "," : "", mc->servers[i].shown);
        end += (size_t)length < room ? (size_t)length : room - 1;
    }
    memcpy(entry + end, ";", 2);
}

/* The empty item makes room for entries of several clients that come at the same moment. */
static void send_entry(struct mc_server *server, struct mc_request *request)
{
    char entry[ENTRY_SIZE];
    (void)request;
    write_entry(server->mc, entry);
    hf__mc_write(server, "add %s 0 %d 0\r\n\r\n", LISTS_KEY, LISTS_TTL_S);
    hf__mc_write(server, "append %s 0 0 %zu\r\n%s\r\n", LISTS_KEY, strlen(entry), entry);
}

static void entry_added(struct mc_server *server, struct mc_request *request, bool heard)
{
    (void)heard;
    hf__mc_request_free(server->mc, request);
}

/* Whether an entry is this client's own; if it is another list, it is noted. */
static bool is_own(struct mc_server *server, const char *entry, const char *own)
{
    char *other = server->facts.other_list;
    if (strncmp(entry, own, HASH_DIGITS + 1) == 0)
        return true;
    if (strlen(entry) > HASH_DIGITS && !*other)
        snprintf(other, sizeof server->facts.other_list, "%.*s",
                 (int)strcspn(entry + HASH_DIGITS + 1, ";"), entry + HASH_DIGITS + 1);
    return false;
}

void hf__mc_list_send(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "mg %s v\r\n", LISTS_KEY);
}

void hf__mc_list_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *lists = &request->replies[0];
    const char *entry = lists->kind == MC_VALUE ? lists->value : "";
    char own[ENTRY_SIZE];
    bool known = false;
    write_entry(server->mc, own);
    while (heard && *entry) {
        known |= is_own(server, entry, own);
        entry += strcspn(entry, ";");
        entry += *entry == ';';
    }
    /* What is longer than a reply keeps has lists enough. */
    bool missing = heard && !known && !lists->cut;
    bool leaves = server->mc->claims > 0 && !server->mc->base.host->existing_only;
    server->list_is_missing = missing && !leaves;
    if (!missing || !leaves) {
        hf__mc_request_free(server->mc, request);
        return;
    }
    request->send = send_entry;
    request->answered = entry_added;
    hf__mc_send(server, request);
}

void hf__mc_list_claims(struct mc_server *server)
{
    struct mc_request *request = NULL;
    bool leaves = !server->mc->base.host->existing_only;
    if (leaves && server->list_is_missing && hf__peer_is_ready(&server->peer))
        request = hf__mc_request_new(server->mc);
    if (!request)
        return;
    server->list_is_missing = false;
    request->send = hf__mc_list_send;
    request->answered = hf__mc_list_answered;
    hf__mc_send(server, request);
}
