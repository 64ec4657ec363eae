/* SPDX-License-Identifier: Apache-2.0 */
/* All locks: each server lists its keys, all of them, and those with our prefix are looked at. The
 * connection does nothing else meanwhile. */
#include "base/testing.h"
#include "memcached.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    struct hf_oneshot *oneshot;
    unsigned server; /* which one is asked */
    char *keys;      /* found there, each with its NUL */
    size_t length, room;
    size_t looked; /* what of it has been looked at */
    bool failed;
};

static void list_server(struct memcached *mc, struct listing *listing);

static void listing_ends(struct memcached *mc, struct listing *listing)
{
    struct hf_oneshot *oneshot = listing->oneshot;
    free(listing->keys);
    free(listing);
    oneshot->engine_pointer = NULL;
    hf__oneshot_done(&mc->base, oneshot);
}

static void listing_fails(struct listing *listing, int code)
{
    listing->failed = true;
    listing->oneshot->code = code;
}

/* ---- one key after the other ---- */

static void look_on(struct mc_server *server, struct listing *listing);

static void mc_send_look(struct mc_server *server, struct mc_request *request)
{
    const struct listing *listing = request->oneshot->engine_pointer;
    hf__mc_write(server, "mg %s v c t u\r\n", listing->keys + listing->looked);
}

static void looked(struct mc_server *server, struct mc_request *request, bool heard)
{
    struct listing *listing = request->oneshot->engine_pointer;
    struct hf_oneshot *oneshot = listing->oneshot;
    const char *key = listing->keys + listing->looked;
    const char *name = key + strlen(server->mc->settings.format->prefix);
    if (!heard)
        listing_fails(listing, hf__mc_explain_silence(server, &oneshot->error));
    else if (request->replies[0].kind == MC_VALUE)
        hf__mc_show(server, oneshot, name, strlen(name), &request->replies[0]);
    hf__mc_request_free(server->mc, request);
    listing->looked += strlen(key) + 1;
    hf__oneshot_progress(oneshot);
    look_on(server, listing);
}

/* Asks for one thing more about the server; false: out of memory. */
static bool ask_for_list(struct mc_server *server, struct listing *listing,
                         void (*send)(struct mc_server *, struct mc_request *),
                         void (*answered)(struct mc_server *, struct mc_request *, bool),
                         void (*line)(struct mc_server *, struct mc_request *,
                                      const struct mc_reply *))
{
    struct mc_request *request = hf__mc_request_new(server->mc);
    if (!request) {
        listing_fails(listing, HF_ENOMEM);
        return false;
    }
    request->oneshot = listing->oneshot;
    request->send = send;
    request->answered = answered;
    request->line = line;
    hf__mc_ask(server, request);
    return true;
}

static void look_on(struct mc_server *server, struct listing *listing)
{
    struct memcached *mc = server->mc;
    bool more = listing->looked < listing->length;
    if (!listing->failed && !listing->oneshot->unwanted && more &&
        ask_for_list(server, listing, mc_send_look, looked, NULL))
        return;
    listing->server++;
    listing->length = listing->looked = 0;
    if (listing->failed || listing->oneshot->unwanted || listing->server == mc->server_count)
        listing_ends(mc, listing);
    else
        list_server(mc, listing);
}

/* ---- the keys of a server ---- */

static void send_list(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "lru_crawler metadump all\r\n");
}

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    const char *found = digit ? strchr(digits, digit) : NULL;
    return found ? (int)(found - digits) % 16 : -1;
}

/* The key as it is; what the server has encoded may be anything. */
static size_t decode(char *key, const char *text)
{
    size_t length = 0;
    for (; *text && length < MC_KEY_MAX; text++, length++) {
        int high = *text == '%' ? hex_digit(text[1]) : -1;
        int low = high >= 0 ? hex_digit(text[2]) : -1;
        key[length] = low >= 0 ? (char)(high << 4 | low) : *text;
        text += low >= 0 ? 2 : 0;
    }
    key[length] = 0;
    return length;
}

/* What another client has stored under a key that no command can name is not looked at. */
static bool is_lock(const struct mc_server *server, const char *key, size_t length)
{
    const char *prefix = server->mc->settings.format->prefix;
    for (size_t i = 0; i < length; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return false;
    return length > strlen(prefix) && strncmp(key, prefix, strlen(prefix)) == 0 &&
           strncmp(key, "%hf.", 4) != 0;
}

static void note_key(struct mc_server *server, struct mc_request *request,
                     const struct mc_reply *reply)
{
    struct listing *listing = request->oneshot->engine_pointer;
    char key[MC_KEY_MAX + 1];
    size_t size = decode(key, reply->value) + 1;
    hf__oneshot_progress(listing->oneshot);
    if (listing->failed || !is_lock(server, key, size - 1))
        return;
    if (listing->length + size > listing->room) {
        size_t room = 2 * listing->room + 4096;
        char *wider = hf__realloc(listing->keys, room);
        if (!wider) {
            listing_fails(listing, HF_ENOMEM);
            return;
        }
        listing->keys = wider;
        listing->room = room;
    }
    memcpy(listing->keys + listing->length, key, size);
    listing->length += size;
}

static void listed(struct mc_server *server, struct mc_request *request, bool heard)
{
    struct listing *listing = request->oneshot->engine_pointer;
    if (!heard) {
        listing_fails(listing, hf__mc_explain_silence(server, &listing->oneshot->error));
    } else if (request->replies[0].kind != MC_END) {
        hf__explain(&listing->oneshot->error, HF_UNREACHABLE, 0,
                    "memcached at %.100s cannot list its keys now: %.100s", server->shown,
                    request->replies[0].value);
        listing_fails(listing, HF_UNREACHABLE);
    }
    listing->oneshot->contacted |= heard;
    hf__mc_request_free(server->mc, request);
    look_on(server, listing);
}

static void list_server(struct memcached *mc, struct listing *listing)
{
    struct mc_server *server = &mc->servers[listing->server];
    if (!ask_for_list(server, listing, send_list, listed, note_key))
        listing_ends(mc, listing);
}

void hf__mc_list(struct memcached *mc, struct hf_oneshot *oneshot)
{
    struct listing *listing = NULL;
    if (!mc->settings.format->has_text) {
        hf__explain(&oneshot->error, HF_ENOTSUP, 0,
                    "locks of this format are not to be told from other items: ask for one by its "
                    "name");
        oneshot->code = HF_ENOTSUP;
    } else {
        listing = hf__calloc(1, sizeof *listing);
        oneshot->code = listing ? HF_OK : HF_ENOMEM;
    }
    if (!listing) {
        hf__oneshot_done(&mc->base, oneshot);
        return;
    }
    listing->oneshot = oneshot;
    oneshot->engine_pointer = listing;
    list_server(mc, listing);
}
