/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzzers of a whole engine: the core's side of core/engine.h, on a clock of its own, with one
 * lock that is wanted and one question about locks. */
#ifndef TESTS_FUZZ_CORE_SIDE_H
#define TESTS_FUZZ_CORE_SIDE_H

#include "core/engine.h"

struct core_side {
    struct hf_loop loop;
    struct hf_host host;
    struct hf_engine *engine;
    int64_t now_ms;
    struct hf_op op;
    struct hf_timer again;
    unsigned questions;          /* about the lock, so far */
    bool out, releasing, closed; /* an answer is awaited; the last question gave back */
    struct hf_oneshot query;
    struct hf_oneshot examination;
    size_t seen; /* of all that was shown */
};

void core_side_init(struct core_side *core);
/* HF_OK, and core->engine is open; or what is wrong with the URL. */
int core_side_open(struct core_side *core, const struct hf_engine_ops *ops, struct hf_url *url,
                   hf_error *error);
/* Closes the engine, if it is open, as often as that needs the clock to go on. */
void core_side_close(struct core_side *core);
/* A turn of the loop. */
void core_side_turn(struct core_side *core);
/* The clock goes to the next timer, or so far. */
void core_side_pass(struct core_side *core, int64_t most_ms);

/* Begins to want the lock "one", and goes on until it has had it, or a few questions. */
void core_side_want(struct core_side *core, hf_mode mode);
/* Asks who has the lock of this name; NULL: all of them. */
void core_side_inspect(struct core_side *core, const char *name);
void core_side_examine(struct core_side *core);

#endif
