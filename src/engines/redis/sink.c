/* SPDX-License-Identifier: Apache-2.0 */
/* A server as a part of another engine: what that engine may know of it. */
#include "sink.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

const struct redis_sink hf__redis_core_sink = {
    .op_done = hf__op_done,
    .lease_answer = hf__lease_answer,
};

static const struct redis *redis_of(const struct hf_engine *server)
{
    return (const struct redis *)server;
}

const char *hf__redis_shown(const struct hf_engine *server)
{
    return redis_of(server)->settings.shown;
}

bool hf__redis_has_same_address(const struct hf_engine *one, const struct hf_engine *other)
{
    const struct hf_stream_place *place = &redis_of(one)->settings.place;
    const struct hf_stream_place *second = &redis_of(other)->settings.place;
    if (place->path && second->path)
        return strcmp(place->path, second->path) == 0;
    return place->host && second->host && strcmp(place->host, second->host) == 0 &&
           place->port == second->port;
}

const char *hf__redis_run_id(const struct hf_engine *server)
{
    return redis_of(server)->cmd.server_run;
}

int64_t hf__redis_timeout_ms(const struct hf_engine *server)
{
    return redis_of(server)->settings.timeout_ms;
}

int64_t hf__redis_op_lease_ms(const struct hf_engine *server, const struct hf_op *op)
{
    return hf__redis_lease_ms(redis_of(server), op);
}

bool hf__redis_op_is_renewing(const struct hf_op *op)
{
    return op->engine.word[1] & REDIS_RENEWING;
}

void hf__redis_forget_renewal(struct hf_engine *server, struct hf_op *op)
{
    hf__renewals_forget((struct redis *)server, op);
}
