/* SPDX-License-Identifier: Apache-2.0 */
/* One Redis server as a part of an engine that asks several. What the server would report to the
 * core goes to a sink of that engine. Such an engine sees this file alone: a server is a
 * `struct hf_engine`, asked through its slots, and what it has about an op is read here. */
#ifndef HF_ENGINES_REDIS_SINK_H
#define HF_ENGINES_REDIS_SINK_H

#include "core/engine.h"

struct redis_sink {
    /* op->out is set; by default hf__op_done. */
    void (*op_done)(struct hf_engine *server, struct hf_op *op);
    /* About op->engine.own_lease; by default hf__lease_answer. */
    void (*lease_answer)(struct hf_lease *lease, int64_t asked_at_ms, enum hf_lease_answer answer,
                         int64_t length_ms, const char *reason);
    /* A grant's token is not to be less. NULL: any will do. */
    uint64_t (*min_token)(const struct hf_op *op);
    /* A remark of the doctor's. NULL: it goes to the core. */
    void (*remark)(struct hf_oneshot *oneshot, const hf_remark *remark);
};

/* HF_OK, or a code with *error filled. `url` is that of one server, and lives as long as it. */
int hf__redis_open_part(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                        const struct redis_sink *sink, hf_error *error);

/* host:port, or the path of a socket: for messages. */
const char *hf__redis_shown(const struct hf_engine *server);
bool hf__redis_has_same_address(const struct hf_engine *one, const struct hf_engine *other);
/* A number that each run of a server has; "" while it is not known. */
const char *hf__redis_run_id(const struct hf_engine *server);
int64_t hf__redis_timeout_ms(const struct hf_engine *server);
/* For how long a grant of this op lasts at first. */
int64_t hf__redis_op_lease_ms(const struct hf_engine *server, const struct hf_op *op);

bool hf__redis_op_is_renewing(const struct hf_op *op);

/* A release whose reply is not read, behind what is out about the op. `early`: also where the
 * connection is still being made, when the client closes. */
void hf__redis_dismiss(struct hf_engine *server, struct hf_op *op, bool early);
/* No answer to a renewal of this op is wanted any more. */
void hf__redis_forget_renewal(struct hf_engine *server, struct hf_op *op);

#endif
