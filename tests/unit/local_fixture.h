/* SPDX-License-Identifier: Apache-2.0 */
/* One client of the embedded engine, asked by the thread of the test itself. */
#ifndef TESTS_UNIT_LOCAL_FIXTURE_H
#define TESTS_UNIT_LOCAL_FIXTURE_H

#include "../crash/state.h"
#include "base/clock.h"
#include "test.h"

#include <stdlib.h>

extern struct local *local;

/* A claim on "name"; `limit` is what a semaphore has. */
struct hf_op local_op(hf_mode mode, uint64_t owner, uint32_t limit);
enum hf_verdict ask(struct hf_op *op);
void give(struct hf_op *op);
/* Both answer when it is done. Takes "name" away from all who hold it. */
struct hf_oneshot break_all(struct local *breaker);
/* Makes "name" a semaphore of so many permits. */
struct hf_oneshot set_permits(struct local *setter, uint32_t total);
/* Nothing may be left, and the file must be sound. */
void end(void);

#endif
