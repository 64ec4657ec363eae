/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever servers say of where locks are and who has them: a whole engine, opened on one server, a
 * cluster, sentinels or a quorum, asks and hears it. The first byte of an input says which of them
 * and the second what is asked; the rest is what the servers say, one answer after the other, with
 * a
 * '~' between them. One that begins with '^' is said unasked to whoever listens; with '!', seconds
 * pass without a word; one of nothing ends its connection. */
#include "engines/quorum/quorum.h"
#include "engines/redis/topology/cluster.h"

#include "core_side.h"
#include "wires.h"

#include <stdlib.h>
#include <string.h>

/* What waits for its time is waited for so often. */
#define STEPS_MAX 400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *text;
    const struct hf_engine_ops *ops;
} stores[] = {
    { "redis://one", &hf__redis },
    { "redis+cluster://one,two:7000", &hf__redis },
    { "redis+sentinel://one,two/main", &hf__redis },
    { "quorum:redis://one,redis://two,redis://three", &hf__quorum },
};

static void begin(struct core_side *core, unsigned what)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
    bool quorum = core->engine->ops == &hf__quorum;
    if (what % 4 == 1 && !quorum)
        core_side_inspect(core, "one");
    else if (what % 4 == 2 && !quorum)
        core_side_inspect(core, NULL);
    else if (what % 4 == 3)
        core_side_examine(core);
    else
        core_side_want(core, quorum ? HF_MUTEX : modes[what / 4 % 4]);
}

/* What the map says of a slot is a node that is there. */
static void check_map(const struct core_side *core)
{
    const struct redis *redis = (const struct redis *)core->engine;
    if (core->engine->ops == &hf__quorum || !redis->cluster)
        return;
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (redis->cluster->owner[slot] > redis->cluster->node_count)
            abort();
}

static void settle(struct core_side *core, unsigned *steps)
{
    do
        core_side_turn(core);
    while (++*steps < STEPS_MAX && (wires_open() || wires_answer_usual()));
}

/* Until a question waits for an answer. False: nobody is going to ask any more. */
static bool wait_for_question(struct core_side *core, unsigned *steps)
{
    for (settle(core, steps); !wires_asked(); settle(core, steps)) {
        if (*steps >= STEPS_MAX || hf__loop_next(&core->loop) == HF_NEVER)
            return false;
        core_side_pass(core, HF_NEVER);
    }
    return true;
}

static bool say(struct core_side *core, const char *bytes, size_t length, size_t piece,
                unsigned *steps)
{
    settle(core, steps);
    if (length > 0 && *bytes == '^')
        wires_push(bytes + 1, length - 1, piece);
    else if (length > 0 && *bytes == '!')
        core_side_pass(core, 5000);
    else if (wait_for_question(core, steps))
        wires_answer(bytes, length, piece);
    else
        return false;
    return true;
}

static void play(struct core_side *core, const char *bytes, size_t length, size_t piece)
{
    const char *end = bytes + length;
    unsigned steps = 0;
    bool goes_on = true;
    while (goes_on && bytes < end) {
        const char *mark = memchr(bytes, '~', (size_t)(end - bytes));
        const char *part_end = mark ? mark : end;
        goes_on = say(core, bytes, (size_t)(part_end - bytes), piece, &steps);
        bytes = part_end + 1;
    }
    settle(core, &steps);
    check_map(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct core_side core;
    static struct hf_url url;
    hf_error error;
    if (size < 3)
        return 0;
    unsigned store = data[0] % 4u;
    size_t piece = data[0] / 4u % 2u ? 3 : size;
    core_side_init(&core);
    if (hf__url_parse(&url, stores[store].text, &error) != HF_OK ||
        core_side_open(&core, stores[store].ops, &url, &error) != HF_OK)
        abort();
    begin(&core, data[1]);
    play(&core, (const char *)data + 2, size - 2, piece);
    core_side_close(&core);
    wires_clear();
    return 0;
}
