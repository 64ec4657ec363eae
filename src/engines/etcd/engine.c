/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `etcd:`: opening, closing, what its connection carries, and its table. */
#include "engines/etcd/kinds/kinds.h"

#include "base/error.h"

/* The time that a server may take to end our session before we leave. */
#define GOODBYE_MS 1000

static void close_now(struct etcd *etcd)
{
    void (*closed)(void *arg) = etcd->closed;
    void *arg = etcd->closed_arg;
    hf__timer_stop(hf__etcd_loop(etcd), &etcd->goodbye);
    hf__etcd_connection_close(etcd);
    hf__etcd_watches_close(etcd);
    hf__etcd_requests_free(etcd);
    hf__etcd_key_lists_free(etcd);
    hf__etcd_changes_free(etcd);
    HF_LIST_FOREACH (link, following, &etcd->claims) {
        struct etcd_claim *claim = HF_CONTAINER(link, struct etcd_claim, link);
        if (claim->op)
            claim->op->engine.pointer = NULL;
        hf__etcd_claim_drop(claim);
    }
    hf__etcd_claims_free(etcd);
    hf__etcd_sessions_free(etcd);
    hf__grpc_call_free(&etcd->authenticate);
    hf__grpc_call_free(&etcd->beats);
    hf__grpc_call_free(&etcd->watching);
    hf__grpc_close(&etcd->grpc);
    hf__etcd_arena_free(&etcd->arena);
    hf__endpoints_close(&etcd->settings.servers);
    free(etcd->packed);
    free(etcd->token);
    free(etcd);
    closed(arg);
}

static void goodbye_over(struct hf_timer *timer)
{
    close_now(HF_CONTAINER(timer, struct etcd, goodbye));
}

static void close_etcd(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct etcd *etcd = (struct etcd *)engine;
    etcd->closed = closed;
    etcd->closed_arg = arg;
    etcd->closing = true;
    hf__etcd_claims_close(etcd);
    hf__etcd_sessions_close(etcd);
    bool waits = etcd->goodbyes > 0 && hf__peer_is_ready(&etcd->peer);
    hf__timer_start(hf__etcd_loop(etcd), &etcd->goodbye,
                    hf__etcd_now(etcd) + (waits ? GOODBYE_MS : 0));
}

/* ---- what the connection carries ---- */

static void traffic_begins(struct etcd *etcd)
{
    hf__etcd_watch_again(etcd);
    hf__etcd_beat_again(etcd);
    hf__etcd_send_waiting(etcd);
}

/* Watches rely on the token that their stream has begun with. */
static void has_new_token(struct etcd *etcd)
{
    hf__grpc_cancel(&etcd->watching);
    hf__etcd_watches_disconnected(etcd);
    hf__etcd_watch_again(etcd);
    hf__etcd_send_waiting(etcd);
}

static void traffic_ends(struct etcd *etcd)
{
    hf__grpc_call_drop(&etcd->beats);
    hf__grpc_call_drop(&etcd->watching);
    hf__etcd_drop_done(etcd);
    hf__etcd_beats_forget(etcd);
    hf__etcd_watches_disconnected(etcd);
}

static bool is_wanted(const struct etcd *etcd)
{
    return !hf__list_empty(&etcd->waiting) || !hf__list_empty(&etcd->endings) ||
           /* mutant: etcd-session-that-is-asked-about-connects */
           hf__etcd_beats_are_wanted(etcd) || hf__etcd_watches_any(etcd);
}

static bool needs_streams(const struct etcd *etcd)
{
    return hf__etcd_session_is_granted(etcd) || hf__etcd_beats_are_wanted(etcd) ||
           hf__etcd_watches_any(etcd);
}

static int64_t etcd_oldest(struct etcd *etcd)
{
    int64_t beat_ms = hf__etcd_oldest_beat(etcd);
    struct hf_link *first = hf__list_first(&etcd->out);
    int64_t sent_ms = first ? HF_CONTAINER(first, struct etcd_request, link)->sent_at_ms : HF_NEVER;
    return sent_ms < beat_ms ? sent_ms : beat_ms;
}

static const struct etcd_traffic traffic = {
    .begins = traffic_begins,
    .has_new_token = has_new_token,
    .ends = traffic_ends,
    .leave_unanswered = hf__etcd_leave_unanswered,
    .is_wanted = is_wanted,
    .needs_streams = needs_streams,
    .oldest = etcd_oldest,
};

/* ---- the table ---- */

static int open_etcd(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                     hf_error *error)
{
    *ret = NULL;
    struct etcd *etcd = hf__calloc(1, sizeof *etcd);
    if (!etcd)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of etcd");
    int code = hf__etcd_settings(&etcd->settings, url, error);
    if (code != HF_OK) {
        free(etcd);
        return code;
    }
    etcd->base = (struct hf_engine){ .ops = &hf__etcd, .host = host };
    hf__link_init(&etcd->claims);
    hf__link_init(&etcd->spare_claims);
    hf__link_init(&etcd->leased);
    hf__link_init(&etcd->changes);
    hf__link_init(&etcd->key_lists);
    for (unsigned i = 0; i < ETCD_KEY_BUCKETS; i++)
        hf__link_init(&etcd->keys[i]);
    hf__timer_init(&etcd->goodbye, goodbye_over);
    hf__etcd_arena_init(&etcd->arena);
    hf__etcd_requests_open(etcd);
    hf__etcd_sessions_open(etcd);
    hf__etcd_watches_open(etcd);
    hf__etcd_connection_open(etcd, &traffic);
    *ret = &etcd->base;
    return HF_OK;
}

static void etcd_attempt(struct hf_engine *engine, struct hf_op *op)
{
    static etcd_go_on *const kinds[] = {
        [HF_MUTEX] = hf__etcd_mutex_go_on,     [HF_FAIR] = hf__etcd_mutex_go_on,
        [HF_READ] = hf__etcd_mutex_go_on,      [HF_UPGRADE] = hf__etcd_mutex_go_on,
        [HF_WRITE] = hf__etcd_mutex_go_on,     [HF_PERMIT] = hf__etcd_semaphore_go_on,
        [HF_COUNTER] = hf__etcd_counter_go_on, [HF_LATCH] = hf__etcd_latch_go_on,
    };
    hf__etcd_attempt((struct etcd *)engine, op, kinds[op->in.mode]);
}

static void etcd_release(struct hf_engine *engine, struct hf_op *op)
{
    struct etcd *etcd = (struct etcd *)engine;
    if (op->in.mode != HF_COUNTER || !hf__etcd_counter_release(etcd, op))
        hf__etcd_release_key(etcd, op);
}

static void dismiss(struct hf_engine *engine, struct hf_op *op)
{
    /* What was taken from a counter has no key. */
    if (op->engine.pointer && !hf__etcd_counter_is_taken(op))
        hf__etcd_delete_quietly((struct etcd *)engine, op->engine.pointer);
}

static void etcd_forked(struct hf_engine *engine)
{
    hf__peer_forked(&((struct etcd *)engine)->peer);
}

static void etcd_explain_silence(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    struct etcd *etcd = (struct etcd *)engine;
    (void)op;
    if (hf__list_empty(&etcd->paused))
        hf__peer_why_silent(&etcd->peer, error);
    else
        hf__explain(error, HF_UNREACHABLE, 0,
                    "etcd at %.200s: it has too much to do just now; try again later",
                    etcd->settings.servers.shown);
}

/* The core asks for nothing else: see `caps`. */
static void etcd_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    struct etcd *etcd = (struct etcd *)engine;
    if (oneshot->verb == HF_ONESHOT_RENEW) {
        hf__etcd_renew_own_lease(etcd, oneshot);
        return;
    }
    if (oneshot->verb == HF_ONESHOT_INSPECT || oneshot->verb == HF_ONESHOT_BREAK) {
        hf__etcd_look(etcd, oneshot);
        return;
    }
    if (oneshot->verb == HF_ONESHOT_DIAGNOSE) {
        hf__etcd_diagnose(etcd, oneshot);
        return;
    }
    if (oneshot->verb == HF_ONESHOT_GUARD) {
        hf__etcd_guard(etcd, oneshot);
        return;
    }
    if (oneshot->verb <= HF_ONESHOT_LATCH_GET) {
        hf__etcd_change(etcd, oneshot);
        return;
    }
    hf__explain(&oneshot->error, HF_ENOTSUP, 0, "this engine cannot do that");
    oneshot->code = HF_ENOTSUP;
    hf__oneshot_done(engine, oneshot);
}

static const char *const schemes[] = { "etcd", "etcds", NULL };

const struct hf_engine_ops hf__etcd = {
    .name = "etcd",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_PERMIT | HF_CAP_COUNTER | HF_CAP_LATCH |
            HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_INSPECT_ALL | HF_CAP_BREAK | HF_CAP_GUARD,
    .names_threads = true,
    .open = open_etcd,
    .close = close_etcd,
    .attempt = etcd_attempt,
    .release = etcd_release,
    .renew = hf__etcd_renew,
    .oneshot = etcd_oneshot,
    .dismiss = dismiss,
    .forked = etcd_forked,
    .why_silent = etcd_explain_silence,
};
