/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: a timer for each lease, in the loop's heap, so that watching one cannot fail. */
#include "core/lease/lease.h"

#include "core/api/explain.h"
#include "core/claim/claim_fsm.h"
#include "core/engine_tap.h"

#include <assert.h>

static struct hf_client *client_of(const struct hf_lease *lease)
{
    return lease->engine->host->core;
}

static void lease_look_at(struct hf_timer *timer);

static void schedule_renewal(struct hf_lease *lease)
{
    int64_t due_ms =
        lease->fixed ? hf__lease_valid_until(lease) : lease->asked_at_ms + lease->lease_ms / 3;
    lease->renewing = false;
    lease->refusal = NULL; /* mutant: lease-that-was-renewed-since */
    hf__timer_start(&client_of(lease)->loop, &lease->timer, due_ms);
}

static void stop(struct hf_lease *lease)
{
    hf__timer_stop(&client_of(lease)->loop, &lease->timer);
    lease->watched = false;
}

static void lose(struct hf_lease *lease, const char *reason)
{
    stop(lease);
    lease->lost = true;
    struct hf_link *link;
    while ((link = hf__list_pop(&lease->holders))) {
        struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, lease_link);
        claim->watched = NULL;
        claim->client->driver->lease_lost(claim, reason);
    }
}

static void lose_late(struct hf_lease *lease)
{
    lose(lease, lease->fixed     ? "its lease is over"
                : lease->refusal ? lease->refusal
                                 : "its lease could not be renewed in time");
}

static void test_point(struct hf_lease *lease, const char *point)
{
    struct hf_link *first = hf__list_first(&lease->holders);
    if (first)
        hf__point(client_of(lease), point,
                  HF_CONTAINER(first, struct hf_claim, lease_link)->op.in.name);
}

/* Compacted leases that are due wait until those that are being renewed have an answer. */
static void end_renewal(struct hf_lease *lease)
{
    HF_LIST_FOREACH (link, following, &lease->holders) {
        struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, lease_link);
        if (claim->fetched) /* mutant: owner-is-not-heard-of-keeps */
            claim->client->driver->lease_unheard(claim);
    }
}

/* A refusal is a reply: the watchdog does not report the store as unresponsive. */
static void lease_refused(struct hf_lease *lease, const char *reason, bool ready)
{
    bool known = lease->refusal == reason;
    lease->refusal = reason;
    lease->renewing = false; /* mutant: owner-refuses-to-renew */
    if (ready)
        hf__client_heard(client_of(lease), true, NULL);
    if (known)
        return;
    HF_LIST_FOREACH (link, following, &lease->holders) {
        const struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, lease_link);
        if (claim->store_mode != HF_KEEP_NOTHING)
            hf__host_event(&claim->client->host, HF_EVENT_NOT_RENEWED, claim->op.in.name,
                           atomic_load(&claim->grant->token), reason);
    }
}

/* Asks for a renewal, and again a sixth of the lease later if there is silence, until it is over.
 */
static void lease_look_at(struct hf_timer *timer)
{
    struct hf_lease *lease = HF_CONTAINER(timer, struct hf_lease, timer);
    struct hf_loop *loop = &client_of(lease)->loop;
    int64_t now_ms = hf__loop_now(loop);
    int64_t valid_until = hf__lease_valid_until(lease);
    if (now_ms >= valid_until) {
        lose_late(lease);
        return;
    }
    int64_t again = now_ms + (lease->lease_ms / 6 > 5 ? lease->lease_ms / 6 : 5);
    if (lease->renewing) {
        hf__client_heard(client_of(lease), false, NULL);
        end_renewal(lease);
    }
    lease->renewing = true;
    hf__timer_start(loop, timer, again < valid_until ? again : valid_until);
    test_point(lease, "before_renew");
    hf__count(client_of(lease)->counts, HF_COUNT_REQUESTS, 1);
    client_of(lease)->ops->renew(client_of(lease)->engine, lease);
}

void hf__lease_follow(struct hf_claim *claim)
{
    struct hf_lease *lease = claim->op.out.rests_on;
    if (claim->watched == lease) /* mutant: claim-stays-linked-to-first */
        return;
    hf__lease_unwatch(claim);
    if (!lease)
        return;
    if (!lease->watched) {
        /* The engine has filled the lease; what is ours in it may be zero, or from an earlier
         * grant. */
        assert(lease->engine && lease->lease_ms > 0);
        hf__link_init(&lease->holders);
        hf__timer_init(&lease->timer, lease_look_at);
        lease->watched = true;
        lease->lost = false;
        schedule_renewal(lease);
    }
    hf__list_append(&lease->holders, &claim->lease_link);
    claim->watched = lease;
}

void hf__lease_unwatch(struct hf_claim *claim)
{
    struct hf_lease *lease = claim->watched;
    if (!lease)
        return;
    hf__link_remove(&claim->lease_link);
    claim->watched = NULL;
    if (hf__list_empty(&lease->holders))
        stop(lease);
}

/* It has a new asking time, or a new length. */
static void moved(struct hf_lease *lease)
{
    HF_LIST_FOREACH (link, following, &lease->holders) {
        struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, lease_link);
        /* 0: it is lost, and on its way to be told. */
        if (!atomic_load(&claim->grant->lost) && atomic_load(&claim->grant->valid_until_ms) != 0)
            hf__claim_set_validity(claim);
    }
    schedule_renewal(lease);
    HF_LIST_FOREACH (link, following, &lease->holders)
        client_of(lease)->driver->lease_renewed(HF_CONTAINER(link, struct hf_claim, lease_link));
}

void hf__lease_extended(struct hf_lease *lease, int64_t asked_at_ms, int64_t lease_ms)
{
    int64_t ends_at_ms = asked_at_ms + lease_ms;
    bool own_end = lease->ends_at_ms != 0;
    int64_t before_ms = own_end ? lease->ends_at_ms : lease->asked_at_ms + lease->lease_ms;
    if (own_end)
        ends_at_ms -= hf__lease_margin_ms(lease_ms);
    if (!lease->watched || ends_at_ms <= before_ms) /* mutant: renewal-that-comes-late */
        return;
    if (own_end) {
        lease->ends_at_ms = ends_at_ms;
    } else {
        lease->asked_at_ms = asked_at_ms;
        lease->lease_ms = lease_ms;
    }
    moved(lease);
}

/* `length_ms`: 0, or the new length; then asked_at_ms counts even if it is older. */
static void lease_renewed(struct hf_lease *lease, int64_t asked_at_ms, int64_t length_ms)
{
    struct hf_client *client = client_of(lease);
    int64_t now_ms = hf__loop_now(&client->loop);
    bool moves = length_ms != 0 || asked_at_ms > lease->asked_at_ms;
    /* What hf_held has denied once it denies for good, whatever else was read after a pause. */
    bool over = now_ms >= hf__lease_valid_until(lease);
    lease->renewing = false; /* mutant: renewal-that-was-overtaken */
    if (over) {              /* mutant: longer-lease-that-is-confirmed */
        lose_late(lease);
    } else if (moves) {
        test_point(lease, "after_renew");
        int64_t late_ms = now_ms - lease->asked_at_ms - lease->lease_ms / 3;
        hf__count(client->counts, HF_COUNT_RENEWALS, 1);
        atomic_store_explicit(&client->renewal_late_ms, late_ms > 0 ? (uint64_t)late_ms : 0,
                              memory_order_relaxed);
        lease->asked_at_ms = asked_at_ms; /* mutant: renewal-counts-from-its-answer */
        if (length_ms != 0)
            lease->lease_ms = length_ms;
        moved(lease);
    }
}

void hf__lease_answer(struct hf_lease *lease, int64_t asked_at_ms, enum hf_lease_answer answer,
                      int64_t length_ms, const char *reason)
{
    struct hf_tap *tap = lease->engine->host->tap;
    if (tap)
        tap->lease_answer(tap, lease, asked_at_ms, answer, length_ms, reason);
    if (answer == HF_LEASE_RENEWED || answer == HF_LEASE_GONE)
        hf__client_heard(client_of(lease), true, NULL);
    if (answer == HF_LEASE_RENEWED && !lease->watched && length_ms != 0) {
        lease->asked_at_ms = asked_at_ms;
        lease->lease_ms = length_ms;
    }
    if (!lease->watched)
        return;
    switch (answer) {
    case HF_LEASE_RENEWED:
        lease_renewed(lease, asked_at_ms, length_ms);
        break;
    case HF_LEASE_GONE:
        lose(lease, "the store says that it is no longer ours");
        break;
    case HF_LEASE_REFUSED:
    case HF_LEASE_NOT_READY:
        if (asked_at_ms > lease->asked_at_ms) /* mutant: lease-that-store-refused */
            lease_refused(lease, reason, answer == HF_LEASE_REFUSED);
        end_renewal(lease);
        break;
    case HF_LEASE_NO_ANSWER:
        end_renewal(lease); /* mutant: renewal-without-answer-keeps */
        break;
    }
}
