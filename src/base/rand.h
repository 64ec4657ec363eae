/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers from the kernel, and one hash for everything. */
#ifndef HF_BASE_RAND_H
#define HF_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

/* Fills `out`; never fails and never blocks once the machine is up. */
void hf__random(void *out, size_t length);

/* From half of it to half as much again: not what everybody else gets at the same moment. */
int64_t hf__jitter_ms(int64_t ms);
/* How long to let a server alone that has failed `failures` times before: about 20 ms, twice as
 * long each time, and 1280 at most. */
int64_t hf__backoff_ms(unsigned failures);

/* A well-mixed 64-bit hash, the same in every process and on every machine: stores may keep it. */
uint64_t hf__hash(const void *bytes, size_t length);

#endif
