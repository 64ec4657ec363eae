/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL says of a Redis: where it is, and how it is to be used (url.c). */
#ifndef HF_ENGINES_REDIS_SETTINGS_H
#define HF_ENGINES_REDIS_SETTINGS_H

#include "base/url.h"
#include "core/engine.h"
#include "net/stream.h"
#include "net/tls.h"

#define REDIS_PORT 6379
#define REDIS_SENTINEL_PORT 26379

extern const struct hf_engine_ops hf__redis, hf__redis_plain;

struct redis_settings {
    struct hf_stream_place place;
    const char *user, *password; /* NULL: none */
    int64_t database;
    int64_t timeout_ms; /* how long the server may be silent while a request is out */
    int64_t replicas;   /* sync: this many must have a grant before it is believed */
    const char *master; /* NULL: `place` is the server; else sentinels know it by this name */
    const struct hf_url_host *sentinels;
    unsigned sentinel_count;
    const char *sentinel_password;   /* NULL: none */
    const struct hf_url_host *seeds; /* NULL: `place` is the server; else nodes of a cluster */
    unsigned seed_count;
    uint32_t simple;   /* format=simple: plain locks, as SET NX PX makes them */
    uint32_t unfenced; /* fence=off: no tokens */
    char shown[280];   /* where it is, for sentences */
};

/* What `settings` has got by then is given back by hf__redis_settings_close, also after a failure.
 */
int hf__redis_settings(struct redis_settings *settings, struct hf_url *url, hf_error *error);
void hf__redis_settings_close(struct redis_settings *settings);

#endif
