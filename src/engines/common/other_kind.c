/* SPDX-License-Identifier: Apache-2.0 */
/* See other_kind.h. */
#include "engines/common/other_kind.h"

static const char *const kinds[] = {
    [HF_KIND_FREE] = "free",
    [HF_KIND_MUTEX] = "a mutex",
    [HF_KIND_FAIR] = "a fair mutex",
    [HF_KIND_RW] = "a read-write lock",
    [HF_KIND_SEMAPHORE] = "a semaphore",
    [HF_KIND_COUNTER] = "a counter",
    [HF_KIND_LATCH] = "a latch",
    [HF_KIND_RATE] = "a rate limiter",
};

/* A store may have the number of a kind that a later version has brought. */
static const char *text_of(hf_kind kind)
{
    return (unsigned)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "another kind of thing";
}

int hf__refuse_other_kind(hf_error **error, const char *name, hf_kind there, hf_kind wanted)
{
    hf__explain(error, HF_EKIND, 0, "\"%.200s\" is in use as %s, not as %s", name, text_of(there),
                text_of(wanted));
    return HF_EKIND;
}
