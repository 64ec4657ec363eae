/* SPDX-License-Identifier: Apache-2.0 */
/* Renewing: what falls due at about the same time goes to the server together, in one call for each
 * kind's script. Of very many leases some wait for the answers of others, so that a claim that
 * wants a lock meanwhile does not wait for all of them. In a cluster neither waits: a call is for
 * one slot, for which there is hardly ever company, and a server that hangs must not keep the
 * leases of others waiting. All leases of a client that are renewed have its length. */
#include "base/testing.h"
#include "engines/redis/kinds/kinds.h"
#include "engines/redis/topology/cluster.h"

#include <stdio.h>
#include <string.h>

/* In a cluster, locks that were taken together mostly have slots of their own: it is not worth
 * looking for company among more of them. */
#define LOOK_BACK_MAX 16

/* Calls that are out at a time: as many as keep a server busy that is near, and answers one in two
 * milliseconds at the least; more if the answers come from further away. */
#define OUT_MIN 4u
#define OUT_MAX 32u
#define OUT_EACH_MS 2

/* This number of full calls does not wait for more: all that wait are looked through when one
 * leaves. The core asks for the renewal of 2,048 at a time if very many are held, which are twice
 * as many calls. */
#define FULL_MAX 8u

/* The number of permits renewed together: the server does nothing else meanwhile. */
#define PERMITS_MAX 1000u

/* In a cluster a call is mostly for one. */
#define FEW 4u

/* A lease waits for company for such a part of its length, and no longer than this: to the server a
 * call for one costs as much as ten in a call of many, and calls that come one behind the other
 * two thirds of calls between which it has slept. The lease has two thirds left. */
#define COMPANY_PART 100
#define COMPANY_MAX_MS 250

struct renewals {
    struct hf_link link; /* in redis->gathering, then in redis->renewals until they are answered */
    enum redis_script script;
    unsigned slot; /* in a cluster, all are of one */
    bool ripe;     /* has waited for company as long as it may */
    unsigned count, permits, room;
    struct hf_op *ops[]; /* NULL: it has left meanwhile */
};

static struct renewals *new_renewals(struct redis *redis, enum redis_script script, unsigned slot,
                                     unsigned room)
{
    struct renewals *renewals = hf__calloc(1, sizeof *renewals + room * sizeof renewals->ops[0]);
    if (!renewals)
        return NULL;
    renewals->script = script;
    renewals->slot = slot;
    renewals->room = room;
    hf__list_append(&redis->gathering, &renewals->link);
    return renewals;
}

/* NULL: out of memory. */
static struct renewals *with_room(struct redis *redis, struct renewals *renewals)
{
    if (!renewals || renewals->count < renewals->room)
        return renewals;
    struct renewals *wide = new_renewals(redis, renewals->script, renewals->slot, REDIS_RENEWALS);
    if (!wide)
        return NULL;
    wide->ripe = renewals->ripe;
    wide->count = renewals->count;
    wide->permits = renewals->permits;
    memcpy(wide->ops, renewals->ops, renewals->count * sizeof renewals->ops[0]);
    hf__link_remove(&renewals->link);
    free(renewals);
    return wide;
}

static void add(struct renewals *renewals, struct hf_op *op)
{
    renewals->ops[renewals->count++] = op;
    renewals->permits += op->in.permits;
}

static void forget(struct hf_link *list, const struct hf_op *op)
{
    HF_LIST_FOREACH (link, following, list) {
        struct renewals *renewals = HF_CONTAINER(link, struct renewals, link);
        for (unsigned i = 0; i < renewals->count; i++)
            if (renewals->ops[i] == op)
                renewals->ops[i] = NULL;
    }
}

/* From here on the op's memory may belong to another claim. */
void hf__renewals_forget(struct redis *redis, struct hf_op *op)
{
    if (!(op->engine.word[1] & REDIS_RENEWING))
        return;
    op->engine.word[1] &= ~(uint64_t)REDIS_RENEWING;
    forget(&redis->front->renewals, op);
    forget(&redis->front->gathering, op);
}

/* On one connection, asking again for what is out already would change nothing. */
static bool asks_once(const struct redis *redis)
{
    return !redis->front->cluster;
}

static void may_be_asked_again(const struct redis *redis, struct hf_op *op)
{
    if (asks_once(redis))
        op->engine.word[1] &= ~(uint64_t)REDIS_RENEWING;
}

/* The watchdog asks again. */
static void get_no_word(const struct redis *redis, struct hf_op *op)
{
    may_be_asked_again(redis, op);
    redis->sink->lease_answer(&op->engine.own_lease, 0, HF_LEASE_NO_ANSWER, 0, NULL);
}

static void drop_those_who_left(struct renewals *renewals)
{
    unsigned left = 0;
    for (unsigned i = 0; i < renewals->count; i++)
        if (renewals->ops[i])
            renewals->ops[left++] = renewals->ops[i];
    renewals->count = left;
}

/* Only a cluster may have one key of a lease here and the other there. */
static bool names_pairs(const struct redis *redis, const struct hf_op *op)
{
    /* mutant: half-lease-is-taken-for-none */
    return redis->cluster && hf__redis_kind(redis, op->in.mode)->pair;
}

static void send(struct connection *connection, struct redis_request *request)
{
    struct redis *redis = connection->redis;
    struct renewals *renewals = request->memory;
    struct command command;
    drop_those_who_left(renewals);
    bool pairs = renewals->count > 0 && names_pairs(redis, renewals->ops[0]);
    hf__connection_script(connection, &command, renewals->script, renewals->count << pairs);
    for (unsigned i = 0; i < renewals->count; i++)
        hf__command_add(&command, renewals->ops[i]->in.name, renewals->ops[i]->in.name_length);
    for (unsigned i = 0; i < renewals->count && pairs; i++)
        hf__redis_kind(redis, renewals->ops[i]->in.mode)->pair(redis, &command, renewals->ops[i]);
    hf__command_number(&command, redis->base.host->lease_ms);
    for (unsigned i = 0; i < renewals->count; i++)
        hf__redis_kind(redis, renewals->ops[i]->in.mode)
            ->renewal(redis, &command, renewals->ops[i]);
    hf__connection_write(connection, request, &command);
}

static void redis_renewal_answered(struct connection *connection, struct redis_request *request,
                                   const redisReply *reply);

static void flush(struct redis *redis, struct renewals *renewals)
{
    hf__link_remove(&renewals->link);
    drop_those_who_left(renewals);
    struct redis_request *request = renewals->count > 0 ? hf__request_new(redis) : NULL;
    /* Without memory there is no word. */
    if (!request) {
        for (unsigned i = 0; i < renewals->count; i++)
            get_no_word(redis, renewals->ops[i]);
        free(renewals);
        return;
    }
    redis->renewals_out++;
    hf__list_append(&redis->renewals, &renewals->link);
    request->memory = renewals;
    request->send = send;
    request->answered = redis_renewal_answered;
    hf__redis_ask(redis, request, renewals->ops[0]->in.name, renewals->ops[0]->in.name_length);
}

/* While a slot goes from one node to another, each has some of its locks, and a call that names
 * several is not answered; neither is one that names a lock of which this user may know nothing. */
static bool says_nothing_of_all(const redisReply *reply)
{
    /* mutant: one-lock-that-server-refuses */
    return reply && (hf__reply_says(reply, "TRYAGAIN") || hf__reply_says(reply, "NOPERM"));
}

/* Those that are asked for anew are in other calls then. */
static void renew_one_by_one(struct redis *front, struct renewals *renewals)
{
    for (unsigned i = 0; i < renewals->count; i++) {
        struct renewals *one =
            renewals->ops[i] ? new_renewals(front, renewals->script, renewals->slot, 1) : NULL;
        if (!one)
            continue;
        add(one, renewals->ops[i]);
        one->ripe = true;
        renewals->ops[i] = NULL;
    }
}

static void take_word(const struct redis *redis, struct hf_op *op, int64_t asked_at_ms,
                      bool still_ours)
{
    int64_t lease_ms = redis->base.host->lease_ms;
    may_be_asked_again(redis, op);
    /* The lease that a grant began with is a short one. */
    bool grows = still_ours && op->engine.own_lease.lease_ms != lease_ms;
    redis->sink->lease_answer(&op->engine.own_lease, asked_at_ms,
                              still_ours ? HF_LEASE_RENEWED : HF_LEASE_GONE, grows ? lease_ms : 0,
                              NULL);
}

enum word { OURS, LOST, UNKNOWN };

/* What the answer says of each; nothing, if it is an error, or there is none. Returns what says why
 * the server refuses to renew some of them, NULL if it does not. */
static const redisReply *read_words(const redisReply *reply, unsigned count, enum word words[])
{
    bool told = hf__reply_is_array(reply, 1) && hf__reply_number(reply->element[0]) == count;
    const redisReply *refusal = told ? NULL : reply;
    for (unsigned i = 0; i < count; i++)
        words[i] = told ? OURS : UNKNOWN;
    for (size_t i = 1; told && i < reply->elements; i++) {
        const redisReply *element = reply->element[i];
        bool refused = element->type == REDIS_REPLY_INTEGER && element->integer < 0;
        int64_t number = refused ? -element->integer : hf__reply_number(element);
        if (number >= 1 && number <= count)
            /* mutant: of-many-leases-lost-ones-go-on */
            words[number - 1] = refused ? UNKNOWN : LOST;
        else
            refusal = element;
    }
    return refusal;
}

/* Why the server does not let this client in, or NULL: it is only silent. */
static const char *why_shut_out(const struct connection *connection)
{
    int code = connection->peer.why.code;
    bool refused =
        code == HF_DENIED || code == HF_ELIMIT || code == HF_EINVAL || code == HF_ENOTSUP;
    /* mutant: holder-does-not-hear */
    return connection->peer.state != HF_PEER_READY && refused ? connection->peer.why.text : NULL;
}

/* A loss may be told with these words at any time, so they stay. NULL: there are none. */
static const char *keep_refusal(struct redis *front, const struct connection *connection,
                                const redisReply *said)
{
    char sentence[REDIS_REFUSAL_SIZE];
    const char *words = hf__reply_text(said), *shut_out = said ? NULL : why_shut_out(connection);
    if (!*words && !shut_out)
        return NULL;
    if (shut_out)
        snprintf(sentence, sizeof sentence, "its lease could not be renewed: %.340s", shut_out);
    else
        snprintf(sentence, sizeof sentence,
                 "its lease could not be renewed: Redis at %.100s says: %.200s",
                 front->settings.shown, words);
    for (unsigned i = 0; i < REDIS_REFUSALS_MAX; i++) {
        char *kept = front->refusals[i];
        if (!*kept)
            memcpy(kept, sentence, strlen(sentence) + 1);
        if (strcmp(kept, sentence) == 0)
            return kept;
    }
    /* Others have taken all the room. */
    return "its lease could not be renewed: the server refuses it";
}

static unsigned out_most(int64_t answer_took_ms)
{
    int64_t most = answer_took_ms / OUT_EACH_MS;
    return most < OUT_MIN ? OUT_MIN : most < OUT_MAX ? (unsigned)most : OUT_MAX;
}

/* Losing one may run callbacks that give back others of them, which leave the list then. */
static void redis_renewal_answered(struct connection *connection, struct redis_request *request,
                                   const redisReply *reply)
{
    struct redis *redis = connection->redis, *front = redis->front;
    struct renewals *renewals = request->memory;
    bool of_some = renewals->count > 1 && says_nothing_of_all(reply);
    if (of_some)
        renew_one_by_one(front, renewals);
    enum word words[REDIS_RENEWALS];
    const redisReply *said = read_words(reply, renewals->count, words);
    const char *why = of_some ? NULL : keep_refusal(front, connection, said);
    bool ready = said && hf__request_code(redis, said) != HF_UNREACHABLE; /* mutant: owner-says */
    int64_t now_ms = hf__loop_now(front->base.host->loop);
    int64_t asked_at_ms = request->item.sent ? request->item.sent_at_ms : now_ms;
    for (unsigned i = 0; i < renewals->count; i++) {
        struct hf_op *op = renewals->ops[i];
        if (!op)
            continue;
        if (words[i] != UNKNOWN) {
            /* mutant: of-many-leases-all-are-lost */
            take_word(redis, op, request->item.sent_at_ms, words[i] == OURS);
            continue;
        }
        if (why)
            redis->sink->lease_answer(&op->engine.own_lease, asked_at_ms,
                                      ready ? HF_LEASE_REFUSED : HF_LEASE_NOT_READY, 0, why);
        get_no_word(redis, op);
    }
    if (reply)
        front->renewals_out_most = out_most(now_ms - request->item.sent_at_ms);
    hf__link_remove(&renewals->link);
    hf__request_free(redis, request);
    front->renewals_out--;
    if (!hf__list_empty(&front->gathering))
        hf__loop_defer(front->base.host->loop, &front->send_renewals);
}

/* Those that are ripe, in their order; or all. */
static void send_gathered(struct redis *redis, bool all)
{
    HF_LIST_FOREACH (link, following, &redis->gathering) {
        struct renewals *renewals = HF_CONTAINER(link, struct renewals, link);
        if (asks_once(redis) && redis->renewals_out >= redis->renewals_out_most)
            return;
        if (all || renewals->ripe)
            flush(redis, renewals);
    }
}

static void turn_ends(struct hf_task *task)
{
    struct redis *redis = HF_CONTAINER(task, struct redis, send_renewals);
    send_gathered(redis, !redis->renewals_due.started);
}

/* Some may not go now, and what comes after them must not overtake them. */
static void ripen(struct redis *redis)
{
    redis->renewals_full = 0;
    HF_LIST_FOREACH (link, following, &redis->gathering)
        HF_CONTAINER(link, struct renewals, link)->ripe = true;
}

static void due(struct hf_timer *timer)
{
    struct redis *redis = HF_CONTAINER(timer, struct redis, renewals_due);
    ripen(redis);
    send_gathered(redis, true);
}

static void await_company(struct redis *redis, int64_t lease_ms)
{
    struct hf_loop *loop = redis->base.host->loop;
    int64_t wait_ms = lease_ms / COMPANY_PART;
    if (!redis->renewals_due.started)
        hf__timer_start(loop, &redis->renewals_due,
                        hf__loop_now(loop) + (wait_ms < COMPANY_MAX_MS ? wait_ms : COMPANY_MAX_MS));
}

static struct renewals *gathered_for(struct redis *redis, const struct hf_op *op)
{
    enum redis_script script = hf__redis_kind(redis, op->in.mode)->renew;
    unsigned slot = redis->cluster ? hf__slot_of(op->in.name, op->in.name_length) : 0;
    unsigned most = names_pairs(redis, op) ? REDIS_PAIR_RENEWALS : REDIS_RENEWALS;
    struct hf_link *link = redis->gathering.prev;
    for (int i = 0; i < LOOK_BACK_MAX && link != &redis->gathering; i++, link = link->prev) {
        struct renewals *renewals = HF_CONTAINER(link, struct renewals, link);
        /* mutant: locks-of-several-slots */
        if (renewals->script == script && renewals->slot == slot && renewals->count < most &&
            renewals->permits + op->in.permits <= PERMITS_MAX) /* mutant: any-number-of-permits */
            return renewals;
    }
    return new_renewals(redis, script, slot, FEW);
}

void hf__redis_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct redis *redis = (struct redis *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    if (asks_once(redis) && (op->engine.word[1] & REDIS_RENEWING))
        return;
    struct renewals *renewals = with_room(redis, gathered_for(redis, op));
    if (!renewals) {
        get_no_word(redis, op);
        return;
    }
    add(renewals, op);
    op->engine.word[1] |= REDIS_RENEWING;
    /* When a loop that its program turns will have another turn is not known. */
    if (asks_once(redis) && !redis->base.host->turns_rarely)
        await_company(redis, lease->lease_ms);
    bool enough = renewals->count == REDIS_RENEWALS && ++redis->renewals_full == FULL_MAX;
    if (enough)
        ripen(redis);
    if (enough || !redis->renewals_due.started)
        hf__loop_defer(redis->base.host->loop, &redis->send_renewals);
}

/* In a cluster a node that hangs must not keep the others' leases waiting, and a lease that is set
 * aside waits for one that is being renewed. */
bool hf__redis_compact(struct hf_engine *engine, struct hf_op *op)
{
    const struct redis *redis = (const struct redis *)engine;
    return asks_once(redis) && !op->engine.pointer && !(op->engine.word[1] & REDIS_RENEWING) &&
           !hf__redis_may_wait(op);
}

void hf__renewals_open(struct redis *redis)
{
    hf__link_init(&redis->renewals);
    hf__link_init(&redis->gathering);
    redis->renewals_out_most = OUT_MIN;
    hf__task_init(&redis->send_renewals, turn_ends);
    hf__timer_init(&redis->renewals_due, due);
}

void hf__renewals_close(struct redis *redis)
{
    struct hf_link *link;
    hf__link_remove(&redis->send_renewals.link);
    hf__timer_stop(redis->base.host->loop, &redis->renewals_due);
    while ((link = hf__list_pop(&redis->gathering)))
        free(HF_CONTAINER(link, struct renewals, link));
}
