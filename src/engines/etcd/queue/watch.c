/* SPDX-License-Identifier: Apache-2.0 */
/* Watches, all on one stream. A name that is contended has one for all its keys, which stays for a
 * while after its last waiter; a key that is held for longer than a moment has one of its own. A
 * watch tells what happens after it has begun: a claim that relies on it looks once more then. It
 * asks for no revision, so that the server counts it among those that it tells at once, and no
 * compaction can end it. */
#include "engines/etcd/kinds/kinds.h"

#include "base/rand.h"

#include <string.h>

/* A name that is contended will be again. */
#define IDLE_MS 10000
/* A key that a request without a reply may still put is watched for as long as its session lasts:
 * the time between looks whether it does, and the number that is watched. */
#define ORPHAN_MS 10000
#define ORPHANS_MAX 1000u
/* A lock that is held for longer is watched. */
#define MOMENT_MS 200
/* How many of them begin to be watched at a time. */
#define HELD_BATCH 200u
/* The pause before a watch is asked for again that the server has given up. */
#define GIVEN_UP_MS 5000

static struct etcd_bytes key_of(const struct etcd_watch *watch)
{
    return hf__etcd_bytes(watch->key, watch->length);
}

static struct etcd_bytes other_key_of(const struct etcd_watch *watch)
{
    return hf__etcd_bytes(watch->other, watch->other_length);
}

/* ---- the list of them ---- */

static struct hf_link *bucket_of_id(struct etcd *etcd, int64_t id)
{
    return &etcd->watch_ids[(uint64_t)id % ETCD_WATCH_BUCKETS];
}

static struct hf_link *bucket_of_key(struct etcd *etcd, struct etcd_bytes key)
{
    return &etcd->watch_keys[hf__hash(key.bytes, key.length) % ETCD_WATCH_BUCKETS];
}

static struct etcd_watch *watch_find(struct etcd *etcd, int64_t id)
{
    struct hf_link *bucket = bucket_of_id(etcd, id);
    HF_LIST_FOREACH (link, following, bucket)
        if (HF_CONTAINER(link, struct etcd_watch, id_link)->id == id)
            return HF_CONTAINER(link, struct etcd_watch, id_link);
    return NULL;
}

static struct etcd_watch *watch_find_key(struct etcd *etcd, struct etcd_bytes key, bool prefix,
                                         bool puts)
{
    struct hf_link *bucket = bucket_of_key(etcd, key);
    HF_LIST_FOREACH (link, following, bucket) {
        struct etcd_watch *watch = HF_CONTAINER(link, struct etcd_watch, key_link);
        if (watch->prefix == prefix && watch->puts == puts && !watch->orphan &&
            watch->length == key.length && memcmp(watch->key, key.bytes, key.length) == 0)
            return watch;
    }
    return NULL;
}

static void watch_free(struct etcd *etcd, struct etcd_watch *watch)
{
    HF_LIST_FOREACH (link, following, &watch->claims) {
        HF_CONTAINER(link, struct etcd_claim, watch_link)->watch = NULL;
        hf__link_remove(link);
    }
    hf__link_remove(&watch->id_link);
    hf__link_remove(&watch->key_link);
    hf__link_remove(&watch->pending_link);
    hf__link_remove(&watch->idle_link);
    hf__link_remove(&watch->given_up_link);
    etcd->watch_count--;
    if (watch->orphan)
        etcd->orphan_count--;
    hf__etcd_session_drop(watch->orphan);
    free(watch->other);
    free(watch);
}

bool hf__etcd_watches_any(const struct etcd *etcd)
{
    return etcd->watch_count > 0;
}

/* ---- asking ---- */

static bool open_stream(struct etcd *etcd);

static void send(struct etcd *etcd, const HfEtcd__WatchRequest *message)
{
    if (open_stream(etcd))
        hf__etcd_send(etcd, &etcd->watching, &message->base, false);
}

static void watch_ask(struct etcd *etcd, struct etcd_watch *watch)
{
    HfEtcd__WatchRequest__RequestUnionCase which =
        HF_ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    HfEtcd__WatchCreateRequest__Filter no_put = HF_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT;
    HfEtcd__WatchCreateRequest create;
    hf_etcd__watch_create_request__init(&create);
    HfEtcd__WatchRequest message;
    hf_etcd__watch_request__init(&message);
    char end[HF_URL_MAX + HF_NAME_MAX + 64];
    hf__link_remove(&watch->given_up_link);
    if (!hf__peer_is_ready(&etcd->peer)) {
        hf__peer_want(&etcd->peer);
        return; /* hf__etcd_watch_again follows */
    }
    create.key = hf__etcd_binary(key_of(watch));
    if (watch->prefix)
        create.range_end = hf__etcd_binary(
            hf__etcd_bytes(end, hf__etcd_prefix_end(watch->key, watch->length, end)));
    create.watch_id = watch->id;
    create.n_filters = watch->orphan || watch->puts ? 0 : 1;
    create.filters = &no_put;
    message.request_union_case = which;
    message.create_request = &create;
    hf__list_append(&etcd->pending, &watch->pending_link);
    send(etcd, &message);
}

/* Events that come before the server has heard of that find no watch. */
static void watch_end(struct etcd *etcd, struct etcd_watch *watch)
{
    HfEtcd__WatchCancelRequest cancel;
    hf_etcd__watch_cancel_request__init(&cancel);
    HfEtcd__WatchRequest message;
    hf_etcd__watch_request__init(&message);
    if (hf__link_linked(&watch->pending_link)) {
        watch->unwanted = true; /* replies come in the order of the questions */
        return;
    }
    cancel.watch_id = watch->id;
    message.request_union_case = HF_ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    message.cancel_request = &cancel;
    if (watch->registered && etcd->watching.channel)
        send(etcd, &message);
    watch_free(etcd, watch);
}

static struct etcd_watch *watch_new(struct etcd *etcd, struct etcd_bytes key, bool prefix,
                                    bool puts, struct etcd_session *orphan)
{
    struct etcd_watch *watch = hf__calloc(1, sizeof *watch + key.length);
    if (!watch)
        return NULL;
    hf__link_init(&watch->pending_link);
    hf__link_init(&watch->idle_link);
    hf__link_init(&watch->given_up_link);
    hf__link_init(&watch->id_link);
    hf__link_init(&watch->key_link);
    hf__link_init(&watch->claims);
    watch->id = ++etcd->last_watch_id;
    watch->prefix = prefix;
    watch->puts = puts;
    watch->orphan = orphan ? hf__etcd_session_use(orphan) : NULL;
    watch->length = key.length;
    memcpy(watch->key, key.bytes, key.length);
    hf__list_append(bucket_of_id(etcd, watch->id), &watch->id_link);
    hf__list_append(bucket_of_key(etcd, key), &watch->key_link);
    etcd->watch_count++;
    watch_ask(etcd, watch);
    return watch;
}

/* ---- what nothing needs any more ---- */

static void watch_rest(struct etcd *etcd, struct etcd_watch *watch, int64_t for_ms)
{
    watch->idle_at_ms = hf__etcd_now(etcd) + for_ms;
    hf__list_append(&etcd->idle, &watch->idle_link);
    if (!etcd->idle_due.started)
        hf__timer_start(hf__etcd_loop(etcd), &etcd->idle_due, watch->idle_at_ms);
}

static void orphan_deleted(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    (void)request;
    if (reply->status != HF_GRPC_OK)
        hf__etcd_sessions_are_stuck(etcd);
}

/* A request of ours that was given up may have been executed after all. Its keys are those of no
 * later claim, as a doubtful session gets none. */
static void delete_orphan(struct etcd *etcd, struct etcd_watch *watch)
{
    struct etcd_txn txn;
    struct etcd_request *request = NULL;
    watch->came = hf__etcd_claim_find(etcd, key_of(watch)) ||
                  (watch->other && hf__etcd_claim_find(etcd, other_key_of(watch)));
    if (!watch->came)
        request = hf__etcd_request(etcd, &hf__etcd_txn, orphan_deleted);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_delete(&txn, ETCD_THEN, key_of(watch));
    /* mutant: etcd-late-writer-has-two-keys */
    if (watch->other)
        hf__etcd_txn_delete(&txn, ETCD_THEN, other_key_of(watch));
    hf__etcd_ask(etcd, request, &txn.message.base);
}

static void look_at_orphan(struct etcd *etcd, struct etcd_watch *watch)
{
    if (watch->orphan->state >= ETCD_SESSION_ENDING) {
        watch_end(etcd, watch);
        return;
    }
    if (watch->came)
        delete_orphan(etcd, watch);
    watch_rest(etcd, watch, ORPHAN_MS);
}

static void idle_due(struct hf_timer *timer)
{
    struct etcd *etcd = HF_CONTAINER(timer, struct etcd, idle_due);
    int64_t now_ms = hf__etcd_now(etcd);
    struct hf_link *first;
    while ((first = hf__list_first(&etcd->idle))) {
        struct etcd_watch *watch = HF_CONTAINER(first, struct etcd_watch, idle_link);
        if (watch->idle_at_ms > now_ms) {
            hf__timer_start(hf__etcd_loop(etcd), timer, watch->idle_at_ms);
            return;
        }
        hf__link_remove(&watch->idle_link);
        if (watch->orphan)
            look_at_orphan(etcd, watch);
        else
            watch_end(etcd, watch);
    }
}

void hf__etcd_watch_leave(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_watch *watch = claim->watch;
    hf__link_remove(&claim->held_link);
    if (!watch)
        return;
    claim->watch = NULL;
    hf__link_remove(&claim->watch_link);
    if (!hf__list_empty(&watch->claims))
        return;
    if (watch->prefix)
        watch_rest(etcd, watch, IDLE_MS);
    else
        watch_end(etcd, watch);
}

static bool watch_join(struct etcd *etcd, struct etcd_claim *claim, struct etcd_bytes key,
                       bool prefix)
{
    /* Those that wait for a number hear of it when it is put. */
    bool puts = prefix && claim->layout;
    struct etcd_watch *watch = watch_find_key(etcd, key, prefix, puts);
    if (watch && watch->unwanted)
        watch->unwanted = false;
    if (!watch)
        watch = watch_new(etcd, key, prefix, puts, NULL);
    if (!watch)
        return false;
    hf__link_remove(&watch->idle_link);
    hf__list_append(&watch->claims, &claim->watch_link);
    claim->watch = watch;
    return true;
}

/* ---- claims ---- */

bool hf__etcd_watch_wait(struct etcd *etcd, struct etcd_claim *claim, bool *ret_registered)
{
    struct etcd_bytes name = hf__etcd_bytes(claim->key, claim->prefix_length);
    if (!claim->watch && !watch_join(etcd, claim, name, true))
        return false;
    *ret_registered = claim->watch->registered;
    return true;
}

void hf__etcd_watch_orphan(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_session *session = claim->session;
    if (etcd->closing || session->state >= ETCD_SESSION_ENDING || claim->orphaned ||
        etcd->orphan_count == ORPHANS_MAX)
        return;
    /* Without memory, the key would stay for the session, should it come. */
    char other[ETCD_KEY_SIZE];
    size_t other_length = hf__etcd_claim_other_key(claim, other);
    struct etcd_watch *watch = watch_new(etcd, hf__etcd_key_of(claim), false, false, session);
    if (!watch)
        return;
    claim->orphaned = true;
    etcd->orphan_count++;
    watch->other = other_length ? hf__calloc(1, other_length) : NULL;
    if (watch->other) {
        memcpy(watch->other, other, other_length);
        watch->other_length = other_length;
    }
    watch_rest(etcd, watch, ORPHAN_MS);
}

static void own_key_answered(struct etcd *etcd, struct etcd_request *request,
                             const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const HfEtcd__RangeResponse *range = reply->message;
    (void)etcd;
    if (!claim->op || !hf__etcd_holds(claim) || !claim->watch || reply->status != HF_GRPC_OK)
        return;
    if (range->n_kvs == 0 || range->kvs[0]->create_revision != claim->created)
        hf__etcd_claim_lost(claim, "it was broken: its key was deleted");
}

/* It may have gone before its watch had begun. */
static void look_at_own_key(struct etcd *etcd, struct etcd_claim *claim)
{
    HfEtcd__RangeRequest message;
    hf_etcd__range_request__init(&message);
    struct etcd_request *request =
        hf__etcd_claim_request(etcd, claim, &hf__etcd_range, own_key_answered);
    if (!request)
        return;
    message.key = hf__etcd_binary(hf__etcd_key_of(claim));
    message.keys_only = true;
    hf__etcd_ask(etcd, request, &message.base);
}

static void held_due(struct hf_timer *timer)
{
    struct etcd *etcd = HF_CONTAINER(timer, struct etcd, held_due);
    int64_t now_ms = hf__etcd_now(etcd);
    struct hf_link *first;
    for (unsigned count = 0; (first = hf__list_first(&etcd->unwatched)); count++) {
        struct etcd_claim *claim = HF_CONTAINER(first, struct etcd_claim, held_link);
        int64_t due_ms = claim->held_at_ms + MOMENT_MS;
        if (due_ms > now_ms || count == HELD_BATCH) {
            hf__timer_start(hf__etcd_loop(etcd), timer, due_ms > now_ms ? due_ms : now_ms + 1);
            return;
        }
        hf__link_remove(first);
        /* Without memory, its loss shows by its lease. */
        if (watch_join(etcd, claim, hf__etcd_key_of(claim), false) && claim->watch->registered)
            look_at_own_key(etcd, claim);
    }
}

void hf__etcd_watch_held(struct etcd *etcd, struct etcd_claim *claim, int64_t revision)
{
    if (claim->watch && claim->watch->registered) {
        /* It may have told of the end of the key before we knew that the claim holds. */
        /* mutant: etcd-key-that-went-before-its-grant-was-read */
        if (claim->watch->last_change > revision)
            look_at_own_key(etcd, claim);
        return;
    }
    hf__etcd_watch_leave(etcd, claim);
    claim->held_at_ms = hf__etcd_now(etcd);
    /* mutant: etcd-held-key-is-watched */
    hf__list_append(&etcd->unwatched, &claim->held_link);
    if (!etcd->held_due.started)
        hf__timer_start(hf__etcd_loop(etcd), &etcd->held_due, claim->held_at_ms + MOMENT_MS);
}

/* ---- what the server tells ---- */

static struct etcd *of_call(struct hf_grpc_call *call)
{
    return HF_CONTAINER(call, struct etcd, watching);
}

static void claim_notice(struct etcd_claim *claim, const etcd_key_value *changed)
{
    const ProtobufCBinaryData *key = &changed->key;
    bool own = hf__etcd_is_key(key, hf__etcd_key_of(claim));
    bool blocker = hf__etcd_is_key(key, hf__etcd_bytes(claim->blocker, claim->blocker_length));
    if (!claim->op)
        return;
    if (hf__etcd_holds(claim) && own)
        hf__etcd_claim_lost(claim, "it was broken: its key was deleted");
    else if (!hf__etcd_holds(claim) && (own || blocker || hf__etcd_takes_note(claim, changed)))
        hf__op_wake(claim->op);
}

/* A claim that is told may leave, and take others with it: they are not walked by the list. */
static void tell_claims(struct etcd_watch *watch, const etcd_key_value *key)
{
    HF_LIST_FOREACH (link, following, &watch->claims)
        claim_notice(HF_CONTAINER(link, struct etcd_claim, watch_link), key);
}

/* Of what is put, only a number lets a waiter in. */
static void take_put(struct etcd_watch *watch, const etcd_key_value *key)
{
    if (!hf__etcd_is_object(&key->key, watch->length))
        return;
    if (key->mod_revision > watch->last_change)
        watch->last_change = key->mod_revision;
    HF_LIST_FOREACH (link, following, &watch->claims) {
        struct etcd_claim *claim = HF_CONTAINER(link, struct etcd_claim, watch_link);
        if (claim->op && !hf__etcd_holds(claim) && hf__etcd_waits_for_object(claim, &key->key))
            hf__op_wake(claim->op);
    }
}

static void take_events(struct etcd *etcd, struct etcd_watch *watch, const etcd_watch_reply *reply)
{
    for (size_t i = 0; i < reply->n_events; i++) {
        const HfEtcd__Event *event = reply->events[i];
        if (!event->kv)
            continue;
        if (event->type != HF_ETCD__EVENT__TYPE__DELETE) {
            if (watch->orphan)
                delete_orphan(etcd, watch);
            else if (watch->puts)
                take_put(watch, event->kv);
            continue;
        }
        if (event->kv->mod_revision > watch->last_change)
            watch->last_change = event->kv->mod_revision;
        /* mutant: etcd-deletion-wakes */
        tell_claims(watch, event->kv);
    }
}

/* What it has not told, they see by themselves. */
static void look_at_claims(struct etcd *etcd, struct etcd_watch *watch)
{
    HF_LIST_FOREACH (link, following, &watch->claims) {
        struct etcd_claim *claim = HF_CONTAINER(link, struct etcd_claim, watch_link);
        if (hf__etcd_holds(claim))
            look_at_own_key(etcd, claim);
        else if (claim->op)
            hf__op_wake(claim->op);
    }
}

/* It tells what comes after this revision: a reply that shows an earlier one may be read when all
 * has changed. */
static void watch_registered(struct etcd *etcd, struct etcd_watch *watch, int64_t revision)
{
    watch->registered = true;
    if (revision > watch->last_change) /* mutant: etcd-watch-knows-its-beginning */
        watch->last_change = revision;
    if (watch->unwanted) {
        watch_end(etcd, watch);
        return;
    }
    if (watch->orphan) /* it may have come before */
        delete_orphan(etcd, watch);
    look_at_claims(etcd, watch);
}

static void given_up_due(struct hf_timer *timer)
{
    struct etcd *etcd = HF_CONTAINER(timer, struct etcd, given_up_due);
    int64_t now_ms = hf__etcd_now(etcd);
    struct hf_link *first;
    while ((first = hf__list_first(&etcd->given_up))) {
        struct etcd_watch *watch = HF_CONTAINER(first, struct etcd_watch, given_up_link);
        if (watch->again_at_ms > now_ms) {
            hf__timer_start(hf__etcd_loop(etcd), timer, watch->again_at_ms);
            return;
        }
        watch_ask(etcd, watch);
    }
}

/* The server gives it up: after a compaction, where we may not read, or where the token of its
 * stream has expired. Its claims look by themselves, and what they ask for meets the expired token;
 * a new one begins all watches again at once. The server may still know this one's number. */
static void watch_given_up(struct etcd *etcd, struct etcd_watch *watch)
{
    watch->registered = false;
    if (watch->unwanted || (hf__list_empty(&watch->claims) && !watch->orphan)) {
        watch_free(etcd, watch);
        return;
    }
    watch->id = ++etcd->last_watch_id;
    hf__link_remove(&watch->id_link);
    hf__list_append(bucket_of_id(etcd, watch->id), &watch->id_link);
    watch->again_at_ms = hf__etcd_now(etcd) + GIVEN_UP_MS;
    /* mutant: etcd-watch-given-up-is-asked-for-again */
    hf__list_append(&etcd->given_up, &watch->given_up_link);
    if (!etcd->given_up_due.started)
        hf__timer_start(hf__etcd_loop(etcd), &etcd->given_up_due, watch->again_at_ms);
    look_at_claims(etcd, watch);
}

static void watch_take(struct etcd *etcd, const etcd_watch_reply *reply)
{
    struct hf_link *first;
    struct etcd_watch *watch = watch_find(etcd, reply->watch_id);
    if (reply->created && (first = hf__list_pop(&etcd->pending)))
        watch = HF_CONTAINER(first, struct etcd_watch, pending_link);
    if (!watch)
        return;
    if (reply->canceled)
        watch_given_up(etcd, watch);
    else if (reply->created)
        watch_registered(etcd, watch, hf__etcd_revision(reply->header));
    else
        take_events(etcd, watch, reply);
}

static void message(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct etcd *etcd = of_call(call);
    const etcd_watch_reply *reply =
        hf__etcd_read(&etcd->arena, &hf_etcd__watch_response__descriptor, bytes, length);
    if (reply)
        watch_take(etcd, reply);
    else
        hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
}

static void ended(struct hf_grpc_call *call)
{
    hf__etcd_stream_ended(of_call(call), call, "watches");
}

static bool open_stream(struct etcd *etcd)
{
    static const struct hf_grpc_events events = { message, ended };
    etcd->watching.events = &events;
    etcd->watching.streaming = true;
    return etcd->watching.channel ||
           hf__etcd_begin_call(etcd, &etcd->watching, "/etcdserverpb.Watch/Watch", 0, true);
}

/* ---- connections come and go ---- */

void hf__etcd_watches_disconnected(struct etcd *etcd)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&etcd->pending)))
        ;
    for (unsigned i = 0; i < ETCD_WATCH_BUCKETS; i++)
        HF_LIST_FOREACH (each, following, &etcd->watch_ids[i]) {
            struct etcd_watch *watch = HF_CONTAINER(each, struct etcd_watch, id_link);
            watch->registered = false;
            if (watch->unwanted)
                watch_free(etcd, watch);
        }
}

void hf__etcd_watch_again(struct etcd *etcd)
{
    for (unsigned i = 0; i < ETCD_WATCH_BUCKETS; i++)
        HF_LIST_FOREACH (link, following, &etcd->watch_ids[i])
            watch_ask(etcd, HF_CONTAINER(link, struct etcd_watch, id_link));
}

void hf__etcd_watches_open(struct etcd *etcd)
{
    for (unsigned i = 0; i < ETCD_WATCH_BUCKETS; i++) {
        hf__link_init(&etcd->watch_ids[i]);
        hf__link_init(&etcd->watch_keys[i]);
    }
    hf__link_init(&etcd->pending);
    hf__link_init(&etcd->idle);
    hf__link_init(&etcd->unwatched);
    hf__link_init(&etcd->given_up);
    hf__timer_init(&etcd->given_up_due, given_up_due);
    hf__timer_init(&etcd->idle_due, idle_due);
    hf__timer_init(&etcd->held_due, held_due);
}

void hf__etcd_watches_close(struct etcd *etcd)
{
    hf__timer_stop(hf__etcd_loop(etcd), &etcd->given_up_due);
    hf__timer_stop(hf__etcd_loop(etcd), &etcd->idle_due);
    hf__timer_stop(hf__etcd_loop(etcd), &etcd->held_due);
    for (unsigned i = 0; i < ETCD_WATCH_BUCKETS; i++)
        HF_LIST_FOREACH (link, following, &etcd->watch_ids[i])
            watch_free(etcd, HF_CONTAINER(link, struct etcd_watch, id_link));
}
