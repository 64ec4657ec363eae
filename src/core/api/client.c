/* SPDX-License-Identifier: Apache-2.0 */
/* Opening clients, and what they know of themselves. */
#include "core/api/client.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rand.h"
#include "base/testing.h"
#include "core/api/args.h"
#include "core/api/close.h"
#include "core/api/explain.h"
#include "core/api/fork.h"
#include "core/api/owner.h"
#include "core/api/stop.h"
#include "core/claim/claim_fsm.h"
#include "core/engine_tap.h"
#include "core/loop/uv_loop.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include <stdio.h>
#include <string.h>

#define LEASE_MS_DEFAULT 30000
#define TOKEN_FLOOR_MAX (UINT64_C(1) << 62)
/* Of a URL's prefix, in bytes: sentences show the begin of a name, and the prefix is taken out. */
#define PREFIX_MAX 100

void hf__host_set_tap(const struct hf_host *host, struct hf_tap *tap)
{
    struct hf_client *client = host->core;
    client->host.tap = tap;
}

struct hf_client *hf__client_new(const hf_client_options *options)
{
    struct hf_client *client = NULL;
    if (posix_memalign((void **)&client, 64, sizeof *client) != 0)
        return NULL;
    memset(client, 0, sizeof *client);
    hf__link_init(&client->link);
    hf__link_init(&client->oneshots);
    pthread_mutex_init(&client->silence_mutex, NULL);
    hf__stops_open(client);
    client->request_timeout_ms = options && options->request_timeout_ms
                                     ? hf__args_lease(options->request_timeout_ms)
                                     : HF_REQUEST_TIMEOUT_MS;
    client->host.request_timeout_ms = client->request_timeout_ms;
    atomic_init(&client->suspended_at_ms, INT64_MIN / 2);
    client->on_event = options ? options->on_event : NULL;
    client->event_arg = options ? options->event_arg : NULL;
    client->on_point = options ? options->on_point : NULL;
    client->point_arg = options ? options->point_arg : NULL;
    hf__owner_describe(client, options ? options->owner_text : NULL);
    hf__random(client->host.id, sizeof client->host.id);
    client->host.loop = &client->loop;
    client->host.owner_text = client->owner_text;
    client->host.host_name = client->host_name;
    client->host.lease_ms =
        options && options->lease_ms ? hf__args_lease(options->lease_ms) : LEASE_MS_DEFAULT;
    client->host.token_floor = options ? options->token_floor : 0;
    client->host.existing_only = options && options->existing_only;
    client->host.turns_rarely = options && options->driver == HF_DRIVE_CALLER;
    client->host.core = client;
    client->host.reconnects = &client->reconnects;
    client->driver = &hf__claim_driver;
    client->prefix = "";
    if (hf__lock_table_open(client) != HF_OK) {
        hf__client_free(client);
        return NULL;
    }
    return client;
}

void hf__client_set_engine(struct hf_client *client, struct hf_engine *engine)
{
    client->engine = engine;
    client->ops = engine->ops;
    client->sync = engine->ops->sync;
    client->here = client->sync != NULL;
}

/* Copies the caller's options, which may be of an older header and so shorter. */
static int read_options(hf_client_options *known, const hf_client_options *options)
{
    *known = (hf_client_options)HF_CLIENT_OPTIONS_INIT;
    if (!options)
        return HF_OK;
    if (options->size < offsetof(hf_client_options, request_timeout_ms) ||
        options->size > sizeof *options)
        return hf__answer_fail(HF_EINVAL,
                               "the options' size is %zu; begin them with HF_CLIENT_OPTIONS_INIT, "
                               "of the header of this library's version",
                               options->size);
    memcpy(known, options, options->size);
    if ((unsigned)known->driver > HF_DRIVE_SHARED)
        return hf__answer_fail(HF_EINVAL, "driver %d is none; use an hf_driver",
                               (int)known->driver);
    if (known->lease_ms != 0 && known->lease_ms < 100)
        return hf__answer_fail(HF_EINVAL, "lease_ms is %lld; use 0 (the default) or at least 100",
                               (long long)known->lease_ms);
    if (known->token_floor > TOKEN_FLOOR_MAX)
        return hf__answer_fail(HF_EINVAL, "token_floor is %llu; the limit is 2^62",
                               (unsigned long long)known->token_floor);
    if (known->request_timeout_ms != 0 && known->request_timeout_ms < 10)
        return hf__answer_fail(HF_EINVAL,
                               "request_timeout_ms is %lld; use 0 (the default) or at least 10",
                               (long long)known->request_timeout_ms);
    return HF_OK;
}

static int open_engine(struct hf_client *client, hf_error *error)
{
    struct hf_engine *engine = NULL;
    const struct hf_engine_ops *ops;
    int code = hf__engine_find(&ops, &client->url, error);
    if (code != HF_OK)
        return code;
    code = ops->open(&engine, &client->host, &client->url, error);
    if (code != HF_OK)
        return code;
    hf__client_set_engine(client, engine);
    if (client->host.token_floor && !client->ops->raises_tokens)
        return hf__error_set(error, HF_ENOTSUP, 0, "token_floor is set, and the engine \"%s\" %s",
                             client->ops->name,
                             client->ops->caps & HF_CAP_TOKEN
                                 ? "cannot raise its tokens, which are the store's own numbers"
                                 : "grants no tokens");
    /* A store on this machine is ours alone, and its names are. */
    client->prefix = client->here ? "" : hf__url_option(&client->url, "prefix", "");
    client->prefix_length = (uint32_t)strlen(client->prefix);
    if (client->prefix_length > PREFIX_MAX)
        return hf__url_refuse(&client->url, error, "the prefix has %u bytes; the limit is %d",
                              client->prefix_length, PREFIX_MAX);
    const char *unused = hf__url_unused_option(&client->url);
    if (unused)
        return hf__url_refuse(&client->url, error,
                              "the engine \"%s\" has no option \"%.40s\"; holdfast-url(7) "
                              "lists them",
                              client->ops->name, unused);
    return HF_OK;
}

static int open_and_register(struct hf_client *client, hf_error *error)
{
    if (hf__fork_forbid() != HF_OK)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory");
    client->host.id[0] = hf__owner_client_id();
    int code = open_engine(client, error);
    if (code == HF_OK && hf__fork_register(client) != HF_OK)
        code = hf__error_set(error, HF_ENOMEM, 0, "out of memory");
    hf__fork_allow();
    return code;
}

static int open_parts(struct hf_client *client, const char *url, hf_driver driver)
{
    hf_error error = { 0 };
    enum hf_drive_kind kind =
        driver == HF_DRIVE_CALLER ? HF_DRIVE_KIND_CALLER : HF_DRIVE_KIND_THREAD;
    int code = hf__url_parse(&client->url, url, &error);
    if (code == HF_OK)
        code = hf__uv_loop_open(client, kind, driver == HF_DRIVE_SHARED, &error);
    if (code == HF_OK)
        code = open_and_register(client, &error);
    if (code == HF_OK)
        code = hf__uv_loop_start(client, &error);
    if (code != HF_OK)
        hf__error_keep(&error);
    return code;
}

int hf_open(hf_client **ret, const char *url, const hf_client_options *options)
{
    HF_NO_CANCELLATION;
    if (!ret)
        return hf__answer_fail(HF_EINVAL, "ret is NULL: there is nowhere to put the client");
    *ret = NULL;
    hf_client_options known;
    int code = read_options(&known, options);
    if (code != HF_OK)
        return code;
    if (!url)
        url = secure_getenv("HOLDFAST_URL"); /* no caller of a set-uid program chooses its store */
    if (!url)
        url = "local:";
    struct hf_client *client = hf__client_new(&known);
    if (!client)
        return hf__answer_fail(HF_ENOMEM, "out of memory for a client");
    code = open_parts(client, url, known.driver);
    if (code == HF_OK)
        *ret = client;
    else
        hf__client_close_parts(client);
    return code;
}

unsigned hf_caps(const hf_client *client)
{
    return client ? client->ops->caps : 0;
}

const char *hf_url(const hf_client *client)
{
    return client ? client->url.redacted : "";
}

#define NOT_DISPATCHED                                                                             \
    "this client has a thread of its own; open it with HF_DRIVE_CALLER or HF_DRIVE_SHARED"

int hf_fd(const hf_client *client)
{
    if (hf__args_client(client, false) != HF_OK)
        return -1;
    if (client->drive_kind == HF_DRIVE_KIND_CALLER || hf__uv_loop_is_shared(client))
        return hf__uv_loop_fd(client);
    hf__answer_fail(HF_EINVAL, NOT_DISPATCHED);
    return -1;
}

int hf_dispatch(hf_client *client)
{
    HF_NO_CANCELLATION;
    int code = hf__args_client(client, true);
    if (code != HF_OK)
        return code;
    if (hf__uv_loop_is_shared(client)) {
        bool turns = hf__uv_loop_begin_watched(client);
        hf__uv_loop_watched(client, turns);
        return turns ? HF_OK
                     : hf__answer_fail(HF_BUSY, "another thread runs the loop, and goes on to");
    }
    if (client->drive_kind != HF_DRIVE_KIND_CALLER)
        return hf__answer_fail(HF_EINVAL, NOT_DISPATCHED);
    hf__uv_loop_dispatch(client);
    return HF_OK;
}
