/* SPDX-License-Identifier: Apache-2.0 */
/* A peer: a process with a client of its own, told over a pipe what to lock and to give back. */
#include "conformance.h"

#include <inttypes.h>
#include <stdio.h>

#define SLOTS 8

struct order {
    char verb;
    int slot, mode;
    int64_t wait_ms, lease_ms;
    uint64_t owner;
    uint32_t permits, limit;
    char name[200];
};

static struct order read_order(const char *line)
{
    struct order order = { 0 };

    if (sscanf(line, "%c %d %d %" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %199s",
               &order.verb, &order.slot, &order.mode, &order.wait_ms, &order.lease_ms, &order.owner,
               &order.permits, &order.limit, order.name) < 2 ||
        order.slot < 0 || order.slot >= SLOTS)
        FAIL("no order: %s", line);
    return order;
}

static void obey(hf_client *client, hf_hold **holds, const struct order *order)
{
    hf_hold **hold = &holds[order->slot];
    const hf_lock_options *options =
        LOCK_OPTIONS(.mode = (hf_mode)order->mode, .lease_ms = order->lease_ms,
                     .owner = order->owner, .permits = order->permits, .limit = order->limit);
    int code;

    switch (order->verb) {
    case 'L':
        code = hf_lock(client, order->name, order->wait_ms, options, hold);
        parent_say("%d %" PRIu64, code, *hold ? hf_token(*hold) : 0);
        break;
    case 'U':
        code = hf_unlock(*hold);
        *hold = NULL;
        parent_say("%d 0", code);
        break;
    case 'H':
        parent_say("%d 0", hf_held(*hold));
        break;
    default:
        FAIL("no such order: %c", order->verb);
    }
}

static void run_peer(void *arg)
{
    hf_hold *holds[SLOTS] = { NULL };
    hf_client *client = open_client();
    char line[600];

    (void)arg;
    parent_say("ready");
    while (parent_hear(line, sizeof(line)) && strcmp(line, "end") != 0) {
        struct order order = read_order(line);
        obey(client, holds, &order);
    }
    hf_close(client);
}

void peer_start(struct peer *peer)
{
    peer->token = 0;
    /* Both sides must mean the same directory. */
    store_url();
    child_start(&peer->child, run_peer, NULL);
    child_wait_for(&peer->child, "ready");
}

void peer_begin(struct peer *peer, int slot, const char *name, int64_t wait_ms,
                const hf_lock_options *options)
{
    hf_lock_options none = HF_LOCK_OPTIONS_INIT;

    if (!options)
        options = &none;
    child_say(&peer->child,
              "L %d %d %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %s", slot,
              (int)options->mode, wait_ms, options->lease_ms, options->owner, options->permits,
              options->limit, name);
}

int peer_answer(struct peer *peer)
{
    char line[100];
    uint64_t token;
    int code;

    if (!child_hear(&peer->child, line, sizeof(line)) ||
        sscanf(line, "%d %" SCNu64, &code, &token) != 2)
        FAIL("the peer has ended");
    if (token)
        peer->token = token;
    return code;
}

int peer_lock(struct peer *peer, int slot, const char *name, int64_t wait_ms,
              const hf_lock_options *options)
{
    peer_begin(peer, slot, name, wait_ms, options);
    return peer_answer(peer);
}

int peer_unlock(struct peer *peer, int slot)
{
    child_say(&peer->child, "U %d", slot);
    return peer_answer(peer);
}

bool peer_held(struct peer *peer, int slot)
{
    child_say(&peer->child, "H %d", slot);
    return peer_answer(peer) != 0;
}

void peer_end(struct peer *peer)
{
    child_say(&peer->child, "end");
    child_join(&peer->child);
}
