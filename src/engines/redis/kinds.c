/* The kinds of locks, by what an op asks for. */
#include "redis.h"

#include <assert.h>

const struct redis_kind *hf__redis_kind(const struct redis *redis, hf_mode mode)
{
    static const struct redis_kind *const kinds[] = {
        [HF_MUTEX] = &hf__redis_mutex,
    };
    if (redis->settings.simple)
        return &hf__redis_simple;
    /* The core asks for nothing that is not among the engine's capabilities. */
    assert((unsigned)mode < sizeof kinds / sizeof *kinds && kinds[mode]);
    return kinds[mode];
}
