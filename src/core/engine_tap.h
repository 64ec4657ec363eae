/* SPDX-License-Identifier: Apache-2.0 */
/* For an engine that stands before another one, and shows what passes between it and the core
 * (engines/trace). It hands the core's questions on itself; a tap shows it the answers. */
#ifndef HF_CORE_ENGINE_TAP_H
#define HF_CORE_ENGINE_TAP_H

#include "core/engine.h"

/* All slots are filled. Each is called before the core takes what it says, on the thread that says
 * it: the loop, but for op_done and oneshot_done, which may be called from inside the question. The
 * answers of engine_sync.h are return values, and pass no tap. */
struct hf_tap {
    void (*op_done)(struct hf_tap *tap, const struct hf_op *op);
    void (*op_woken)(struct hf_tap *tap, const struct hf_op *op);
    void (*op_lost)(struct hf_tap *tap, const struct hf_op *op, const char *reason);
    void (*lease_answer)(struct hf_tap *tap, const struct hf_lease *lease, int64_t asked_at_ms,
                         enum hf_lease_answer answer, int64_t length_ms, const char *reason);
    void (*oneshot_done)(struct hf_tap *tap, const struct hf_oneshot *oneshot);
};

/* From inside `open`: the client's answers pass this tap until its end. */
void hf__host_set_tap(const struct hf_host *host, struct hf_tap *tap);

/* The engine for the URL's scheme, loaded if it is in a module. HF_EINVAL: *error says what is
 * wrong with the scheme, or with the module. */
int hf__engine_find(const struct hf_engine_ops **ret, struct hf_url *url, hf_error *error);

#endif
