/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim is called at the database, over which connection, and its lease there. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <string.h>

static void write_number(unsigned char *bytes, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
}

void hf__owner_write(const struct sql *sql, const struct hf_op *op,
                     unsigned char owner[SQL_OWNER_SIZE])
{
    write_number(owner, sql->id[0]);
    write_number(owner + 8, sql->id[1]);
    write_number(owner + 16, op->engine.word[0]);
}

void hf__owner_key(const unsigned char owner[SQL_OWNER_SIZE], char key[HF_OWNER_KEY_SIZE])
{
    for (unsigned i = 0; i < SQL_OWNER_SIZE; i++)
        snprintf(key + (size_t)2 * i, 3, "%02x", owner[i]);
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool hf__owner_read(const char *key, unsigned char owner[SQL_OWNER_SIZE])
{
    if (strlen(key) != (size_t)2 * SQL_OWNER_SIZE)
        return false;
    for (unsigned i = 0; i < SQL_OWNER_SIZE; i++) {
        int high = digit_of(key[2 * i]), low = digit_of(key[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        owner[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

struct sql *hf__sql_part(struct hf_engine *engine, const char *name, uint32_t length)
{
    struct sql *first = (struct sql *)engine;
    if (!name || first->settings.connections == 1)
        return first;
    /* The lower bits choose among the bits of `contended`. */
    return first->parts[(hf__hash(name, length) >> 32) % first->settings.connections];
}

hf_kind hf__kind_of(hf_mode mode)
{
    static const hf_kind kinds[] = {
        [HF_MUTEX] = HF_KIND_MUTEX,     [HF_FAIR] = HF_KIND_FAIR,   [HF_READ] = HF_KIND_RW,
        [HF_UPGRADE] = HF_KIND_RW,      [HF_WRITE] = HF_KIND_RW,    [HF_PERMIT] = HF_KIND_SEMAPHORE,
        [HF_COUNTER] = HF_KIND_COUNTER, [HF_LATCH] = HF_KIND_LATCH,
    };
    return kinds[mode];
}

int64_t hf__op_lease_ms(const struct sql *sql, const struct hf_op *op)
{
    return op->in.lease_ms ? op->in.lease_ms : sql->base.host->lease_ms;
}

void hf__op_set_lease(struct sql *sql, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms)
{
    struct hf_lease *lease = &op->engine.own_lease;
    lease->engine = &sql->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->in.lease_ms > 0 || op->in.attach_key;
    op->out.rests_on = lease;
}

bool hf__lease_fits(const struct sql *sql, int64_t lease_ms, hf_error **error)
{
    if (!sql->settings.layout || lease_ms <= SQL_LAYOUT_LEASE_MAX_MS)
        return true;
    hf__explain(error, HF_EINVAL, 0,
                "lease_ms is %lld; in a table of other programs it is %lld (30 years) at most",
                (long long)lease_ms, SQL_LAYOUT_LEASE_MAX_MS);
    return false;
}
