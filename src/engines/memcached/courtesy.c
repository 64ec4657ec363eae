/* SPDX-License-Identifier: Apache-2.0 */
/* Evenness among clients that poll. The one that releases a lock is the first to ask again, and the
 * others would never meet the lock free. So a waiter leaves a mark beside the lock, and a client
 * that finds it at its release waits for one pause of a waiter before it asks again. A client that
 * holds the lock itself leaves no mark for its own waiters: its release wakes them. */
#include "base/clock.h"
#include "base/rand.h"
#include "engines/common/poll.h"
#include "memcached.h"

#include <inttypes.h>
#include <string.h>

/* A mark that no release has found. */
#define MARK_TTL 2
/* No message tells of a release: the pause between two attempts begins with this, doubles, and is
 * doubled once more for a wait of many attempts. It is shorter than MC_COURTESY_MS mostly. */
#define POLL_FIRST_MS 1
#define POLL_MOST_MS 4
#define POLL_MANY 100u

int64_t hf__mc_poll_at_ms(const struct memcached *mc, struct hf_op *op, bool soon)
{
    uintptr_t refusals = (uintptr_t)op->engine.pointer;
    int64_t most_ms = refusals > POLL_MANY ? 2 * POLL_MOST_MS : POLL_MOST_MS;
    int64_t pause_ms = soon ? 1 : hf__poll_growing_ms(refusals, POLL_FIRST_MS, most_ms);
    op->engine.pointer = (void *)(refusals + 1);
    return hf__clock_add(hf__mc_now(mc), pause_ms);
}

static uint64_t mark_of(const char *key)
{
    return hf__hash(key, strlen(key));
}

void hf__mc_write_mark(struct mc_server *server, const char *key)
{
    hf__mc_write(server, "set %%hf.w.%016" PRIx64 " 0 %d 0\r\n\r\n", mark_of(key), MARK_TTL);
}

void hf__mc_write_unmark(struct mc_server *server, const char *key)
{
    hf__mc_write(server, "md %%hf.w.%016" PRIx64 "\r\n", mark_of(key));
}

static struct mc_courtesy *courtesy_of(struct memcached *mc, const struct hf_op *op)
{
    return &mc->courtesies[op->in.name_hash % MC_COURTESIES];
}

void hf__mc_note_own_mark(struct memcached *mc, const struct hf_op *op)
{
    courtesy_of(mc, op)->marked_hash = op->in.name_hash;
}

void hf__mc_note_mark(struct memcached *mc, struct hf_op *op, const struct mc_reply *reply)
{
    struct mc_courtesy *courtesy = courtesy_of(mc, op);
    bool own = courtesy->marked_hash == op->in.name_hash;
    courtesy->marked_hash = 0;
    if (reply->kind != MC_DONE || own) {
        hf__poll_released(&mc->hand_overs, op, hf__mc_now(mc));
        return;
    }
    courtesy->name_hash = op->in.name_hash;
    courtesy->until_ms = hf__mc_now(mc) + MC_COURTESY_MS;
}

int64_t hf__mc_courtesy_until(struct memcached *mc, const struct hf_op *op)
{
    struct mc_courtesy *courtesy = courtesy_of(mc, op);
    int64_t until_ms = courtesy->until_ms;
    /* mutant: memcached-courtesy */
    if (courtesy->name_hash != op->in.name_hash || until_ms <= hf__mc_now(mc))
        return 0;
    courtesy->until_ms = 0;
    return until_ms;
}
