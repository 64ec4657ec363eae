/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim at the server, from top to bottom: a request leaves; its reply is a word of
 * core/known.h, and the word a verdict; what cannot be granted is withdrawn; what was granted is
 * released, or goes back under the key that it was attached by. */
#include "base/clock.h"
#include "engines/common/poll.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

static void send_request(struct connection *connection, struct redis_request *request);

/* NULL: out of memory, and op->out.error says so. */
static struct redis_request *new_request(struct redis *redis, struct hf_op *op, enum hf_asked asked)
{
    struct redis_request *request = hf__request_new(redis);
    if (!request) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
        return NULL;
    }
    request->op = op;
    request->kind = hf__redis_kind(redis, op->in.mode);
    request->asked = asked;
    request->send = send_request;
    return request;
}

static void set_lease(struct redis *redis, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms)
{
    struct hf_lease *lease = &op->engine.own_lease;
    lease->engine = &redis->front->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->in.lease_ms > 0 || op->in.attach_key;
    op->out.rests_on = lease;
}

/* ---- requests leave ---- */

/* Whatever kind of thing was left under the key. `back`: it goes back under it. */
static void write_attach(struct connection *connection, struct redis_request *request, bool back)
{
    const struct hf_op *op = request->op;
    struct command command;
    if (request->kind->attach) {
        request->kind->attach(connection, &command, op, back);
    } else {
        hf__keys_script(connection, &command, REDIS_ATTACH, REDIS_CHANNEL_SEMAPHORE, op->in.name,
                        op->in.name_length);
        hf__command_add(&command, op->in.attach_key, hf__fair_field_length(op->in.attach_key));
        hf__redis_add_field(connection->redis, &command, op);
        hf__semaphore_add_prefix(connection->redis, &command, op);
        if (back)
            hf__command_print(&command, "back");
    }
    hf__connection_write(connection, request, &command);
}

void hf__lock_write_way_out(struct connection *connection, struct redis_request *request)
{
    const struct hf_op *op = request->op;
    struct command command;
    if (op->in.attach_key) { /* mutant: what-was-attached-unheard */
        write_attach(connection, request, true);
        return;
    }
    request->kind->release(connection, &command, op);
    hf__connection_write(connection, request, &command);
}

static void attempt_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply);
static void life_left_answered(struct connection *connection, struct redis_request *request,
                               const redisReply *reply);

static void send_request(struct connection *connection, struct redis_request *request)
{
    const struct hf_op *op = request->op;
    struct command command;
    hf__batch_leaves(connection, request);
    if (request->asked == HF_ASKED_ATTACH) {
        write_attach(connection, request, false);
    } else if (request->asked > HF_ASKED_ATTACH) {
        hf__lock_write_way_out(connection, request);
    } else if (hf__fast_enqueue_ask(connection, request)) {
        request->answered = life_left_answered;
    } else {
        request->answered = attempt_answered;
        request->kind->acquire(connection, &command, op);
        hf__connection_write(connection, request, &command);
    }
    hf__known_sent(&request->op->engine.known, request->asked);
}

/* ---- replies get a verdict ---- */

/* Replies on a connection are in order. What was sent on the one before is executed no more, if the
 * server has ended that first. A node of a cluster that sends a request elsewhere has done nothing.
 */
static void hear(struct connection *connection, struct redis_request *request,
                 const redisReply *reply)
{
    struct hf_known *known = &request->op->engine.known;
    request->op->out.contacted = reply != NULL;
    if (known->asked && !request->item.sent)
        hf__known_reply(known, HF_WORD_NEVER);
    else if (reply && connection->last_one_ended && !hf__reply_is_open(reply))
        hf__known_settled(known);
}

static void complete(struct redis *redis, struct redis_request *request)
{
    struct hf_op *op = request->op;
    enum hf_verdict verdict = op->out.verdict;
    if (verdict != HF_REFUSED && verdict != HF_REFUSED_NOT_QUEUED && verdict != HF_NO_ANSWER)
        hf__waiter_leave(op);
    hf__request_free(redis, request);
    redis->sink->op_done(&redis->base, op);
}

static void set_verdict(struct redis *redis, struct redis_request *request, enum hf_word word)
{
    struct hf_op *op = request->op;
    struct hf_known *known = &op->engine.known;
    hf__op_set_verdict(op, hf__known_found(known, request->asked, word));
    if (word == HF_WORD_REFUSED && op->out.verdict == HF_REFUSED && request->kind->grants)
        op->out.verdict = HF_REFUSED_NOT_QUEUED;
    /* An attempt that is still on its way to the server finds by the kind's record that it is too
     * late. Without the right to end the connection that it is on, the record stays until it
     * expires. */
    bool heard = word == HF_WORD_GRANTED || word == HF_WORD_DONE || word == HF_WORD_MISSING;
    if (heard && request->kind->settled && !(known->now & HF_KNOWN_MAY_COME))
        request->kind->settled(redis, op);
}

static void finish_request(struct redis *redis, struct redis_request *request, enum hf_word word)
{
    set_verdict(redis, request, word);
    complete(redis, request);
}

/* If it has been granted, it rests on a lease, after which the server has forgotten it. How long
 * one is that was left under a key, the reply would have said. What is raised has its lease. */
static void no_reply(struct redis *redis, struct redis_request *request)
{
    struct hf_op *op = request->op;
    if (request->item.sent && request->kind->leased && !op->in.attach_key && !hf__redis_raises(op))
        set_lease(redis, op, request->item.sent_at_ms, hf__redis_lease_ms(redis, op));
    finish_request(redis, request, HF_WORD_OPEN);
}

/* ---- what cannot be granted is withdrawn ---- */

/* Where the server refuses that as well, there is nothing more to say. */
static void undone(struct connection *connection, struct redis_request *request,
                   const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    bool definite;
    hear(connection, request, reply);
    if (!reply || hf__request_code(redis, reply) == HF_UNREACHABLE) {
        hf__request_failed(connection, request, reply, op->in.name, &op->out.error, &definite);
        no_reply(redis, request);
        return;
    }
    bool lowers = request->asked == HF_ASKED_LOWER;
    bool done = reply->type == REDIS_REPLY_INTEGER;
    bool missing = done && lowers && reply->integer <= 0;
    set_verdict(redis, request, missing ? HF_WORD_MISSING : done ? HF_WORD_DONE : HF_WORD_NEVER);
    if (!lowers) {
        hf__known_forget(&op->engine.known); /* mutant: voting-server-that-refused */
        op->engine.word[1] = 0;
    }
    op->out.verdict = HF_FAILED;
    complete(redis, request);
}

/* Nothing new is left when the failure is told. An undoing without a reply is repeated, like any.
 */
static void undo(struct connection *connection, struct redis_request *request)
{
    struct hf_op *op = request->op;
    /* mutant: refused-raise-keeps-what-it-held */
    bool lowers = hf__redis_raises(op) && op->in.keep != HF_KEEP_NOTHING;
    request->asked = lowers ? HF_ASKED_LOWER : op->in.attach_key ? HF_ASKED_UNDO : HF_ASKED_RELEASE;
    request->many = NULL;
    request->repeats = request->hops = 0;
    request->asks = false;
    request->send = send_request;
    request->answered = undone;
    op->engine.word[1] &= ~(uint64_t)REDIS_CONTENDED; /* its release hands nothing over */
    hf__connection_ask(connection, request);
}

/* For a reply that is missing, an error, or nonsense. */
static void attempt_unanswered(struct connection *connection, struct redis_request *request,
                               const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    struct hf_known *known = &op->engine.known;
    bool definite;
    hf__request_failed(connection, request, reply, op->in.name, &op->out.error, &definite);
    if (!definite) {
        no_reply(redis, request);
        return;
    }
    /* The server does not roll back a script that it stops on its way. */
    if (reply && !request->unmapped) { /* mutant: owner-may-not-have-map-asks */
        hf__request_executed(request);
        undo(connection, request); /* mutant: what-script-has-done */
        return;
    }
    /* No message reaches a client that is not let in. So its place is passed over. */
    if (!hf__known_holds(known) && !hf__known_is_open(known))
        hf__known_forget(known);
    finish_request(redis, request, HF_WORD_NEVER);
}

/* It can never be granted. */
static void refuse_for_good(struct connection *connection, struct redis_request *request)
{
    struct hf_op *op = request->op;
    enum hf_known_verdict verdict = hf__known_reply(&op->engine.known, HF_WORD_NEVER);
    if (verdict == HF_KNOWN_WITHDRAW) { /* mutant: owner-cannot-wait-any-more */
        undo(connection, request);
        return;
    }
    hf__op_set_verdict(op, verdict);
    complete(connection->redis, request);
}

/* ---- attempts ---- */

static void look_later(struct redis *redis, struct redis_request *request, int64_t left_ms,
                       enum hf_word word)
{
    struct hf_op *op = request->op;
    if (!hf__redis_raises(op)) /* mutant: refused-raise-keeps-its-lease */
        op->out.rests_on = NULL;
    /* At its last millisecond the key is still there. */
    op->out.retry_at_ms = hf__clock_add(hf__loop_now(redis->base.host->loop) + 1,
                                        hf__waiter_pause_ms(redis, request, left_ms));
    finish_request(redis, request, word);
}

/* It is refused, and may have its place in the queue. Other clients than ours may hold the lock. */
static void placed(struct redis *redis, struct redis_request *request, int64_t left_ms, bool others)
{
    struct hf_op *op = request->op;
    op->engine.word[1] = REDIS_CONTENDED;
    hf__grant_channel_join(redis, op);
    if (others)
        hf__release_channel_join(redis, op);
    else
        hf__release_channel_quit(op);
    /* It has asked for a place, as it could be told of a grant, or had one. */
    bool has_place = request->listened || (op->engine.known.before & ~HF_KNOWN_LOCK);
    look_later(redis, request, left_ms, has_place ? HF_WORD_QUEUED : HF_WORD_REFUSED);
}

static void refused(struct redis *redis, struct redis_request *request, const redisReply *reply)
{
    struct hf_op *op = request->op;
    const redisReply *left = reply->element[1];
    int64_t left_ms = left->type == REDIS_REPLY_INTEGER ? left->integer : -1;
    bool has_place = op->in.enqueue && request->kind->queues;
    if (op->in.enqueue && hf__reply_is_array(reply, 3)) {
        placed(redis, request, left_ms, hf__reply_number(reply->element[2]) == 1);
        return;
    }
    op->engine.word[1] &= REDIS_STAYS;
    if (op->in.enqueue)
        hf__release_channel_join(redis, op);
    /* mutant: place-in-line-is-not-given */
    look_later(redis, request, left_ms, has_place ? HF_WORD_QUEUED : HF_WORD_REFUSED);
}

/* The holder's lease may be much shorter than ours: it was granted by a release, or asked for less.
 * Only what the key has left says when the lock can be free without a release. */
static void life_left_answered(struct connection *connection, struct redis_request *request,
                               const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    if (!reply) {
        attempt_unanswered(connection, request, reply);
    } else if (request->placed && hf__reply_number(reply) >= 0) {
        /* mutant: place-is-looked-after */
        placed(redis, request, hf__reply_number(reply), false);
    } else {
        hf__fast_enqueue_note(redis, op, false);
        hf__request_executed(request); /* mutant: place-that-was-taken-without */
        hf__connection_ask(connection, request);
    }
}

static void note_when_granted(const struct redis *redis, struct hf_op *op)
{
    op->engine.word[1] |= (uint64_t)hf__loop_now(redis->base.host->loop) << REDIS_GRANTED_SHIFT;
}

/* A grant that may be forgotten in a failover is none yet: the core asks again, or releases it. */
static void confirmed(struct redis *redis, struct redis_request *request, bool enough)
{
    if (enough) {
        finish_request(redis, request, HF_WORD_GRANTED);
        return;
    }
    hf__request_executed(request);
    finish_request(redis, request, HF_WORD_OPEN);
}

/* The server has granted it. Where replicas are to confirm that, they are asked first. */
static void granted(struct redis *redis, struct redis_request *request, int64_t lease_ms,
                    const redisReply *token)
{
    struct hf_op *op = request->op;
    int64_t number = hf__reply_number(token);
    op->out.token = number > 0 ? (uint64_t)number : 0;
    /* What is held already may be about to be renewed. */
    op->engine.word[1] &= REDIS_CONTENDED | REDIS_STAYS;
    op->engine.word[1] |= op->in.mode == HF_WRITE ? REDIS_WRITES : 0;
    if (!op->in.attach_key) /* mutant: owner-has-taken-lock-over */
        note_when_granted(redis, op);
    if (!hf__redis_raises(op)) {
        op->out.rests_on = NULL;
        if (request->kind->leased)
            /* mutant: lease-counts-from-when-answer */
            set_lease(redis, op, request->item.sent_at_ms, lease_ms);
    }
    if (hf__token_floor_refuses(redis, op, op->out.token)) {
        hf__op_explain(op, HF_UNREACHABLE, 0,
                       "Redis at %.100s: the last token of \"%.200s\" could not be raised to the "
                       "client's token_floor",
                       redis->settings.shown, op->in.name);
        confirmed(redis, request, false);
        return;
    }
    /* Replicas have confirmed what is attached when it was granted. If one has not heard of the new
     * key, no other owner has the lock there. */
    if (redis->settings.replicas && !op->in.attach_key) /* mutant: in-cluster-no-replica-is-asked */
        hf__replica_wait_wait(redis, request, confirmed);
    else
        confirmed(redis, request, true);
}

/* The reply's token, or NULL: it is not granted. In a batch, that alone is a grant. */
static const redisReply *token_in(const struct redis_request *request, const redisReply *reply)
{
    if (request->many && reply &&
        (reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_STRING))
        return reply;
    bool granted = hf__reply_is_array(reply, 2) && hf__reply_number(reply->element[0]) == 1;
    return granted ? reply->element[1] : NULL;
}

static void attempt_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    const redisReply *token = token_in(request, reply);
    /* 0: refused; -1, -3: it can never be granted; -4: what is to be raised is gone */
    int64_t word = hf__reply_is_array(reply, 2) ? reply->element[0]->integer : -2;
    bool refuses = word == 0 && hf__reply_number(reply->element[0]) == 0;
    hear(connection, request, reply);
    if (hf__reply_number(token) >= 0) { /* mutant: grant-without-token-is */
        granted(redis, request, hf__redis_lease_ms(redis, op), token);
    } else if (refuses) {
        refused(redis, request, reply);
    } else if (word == -1 || word == -3) {
        hf__op_explain(op, word == -1 ? HF_EKIND : HF_EINVAL, 0, "\"%.200s\" %.100s", op->in.name,
                       hf__reply_text(reply->element[1]));
        refuse_for_good(connection, request);
    } else if (word == -4) {
        finish_request(redis, request, HF_WORD_MISSING);
    } else {
        attempt_unanswered(connection, request, reply);
    }
}

static void attach_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    struct hf_op *op = request->op;
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int64_t left_ms =
        word == 1 && hf__reply_is_array(reply, 3) ? hf__reply_number(reply->element[2]) : -1;
    hear(connection, request, reply);
    if (left_ms <= 0) {
        if (word == 0 || word == 1)
            finish_request(connection->redis, request, HF_WORD_REFUSED);
        else
            attempt_unanswered(connection, request, reply);
        return;
    }
    if (hf__reply_is_array(reply, 5)) {
        op->in.mode = hf__redis_mode_of(reply->element[3]);
        if (op->in.mode == HF_MUTEX && op->in.attach_key[hf__fair_field_length(op->in.attach_key)])
            op->in.mode = HF_FAIR; /* mutant: fair-mutex-is-attached */
        op->in.permits = (uint32_t)hf__reply_number(reply->element[4]);
        request->kind = hf__redis_kind(connection->redis, op->in.mode);
    }
    granted(connection->redis, request, left_ms, reply->element[1]);
}

/* A grant that was heard of is taken without asking, if there is time enough to renew its lease.
 * With a lease that is not renewed or is shorter than the granted one, or a loop that may stand
 * still, or with replicas to be heard, it is asked for as always; in a cluster, too, where word of
 * a grant may come by another node than the one that the pulse is taken of. After a failover the
 * pub/sub connection may still lead to the old master, whose grants count no more. */
static bool take_what_was_granted(struct redis *redis, struct hf_op *op)
{
    const struct hf_host *host = redis->base.host;
    const struct waiter *waiter = op->engine.pointer;
    /* mutant: lock-that-is-handed-over */
    if (op->in.lease_ms || host->turns_rarely || redis->settings.replicas || redis->cluster ||
        !waiter || !waiter->granted_token || host->lease_ms < waiter->granted_ms ||
        hf__token_floor_refuses(redis, op, waiter->granted_token) ||
        !hf__connections_surely_match(&redis->cmd, &redis->pubsub))
        return false;
    if (hf__loop_now(host->loop) - waiter->not_before_ms > waiter->granted_ms / 2)
        return false;
    op->out.token = waiter->granted_token;
    op->engine.word[1] = REDIS_CONTENDED;
    note_when_granted(redis, op);
    set_lease(redis, op, waiter->not_before_ms, waiter->granted_ms);
    hf__waiter_leave(op);
    hf__op_set_verdict(op, hf__known_found(&op->engine.known, HF_ASKED_ATTEMPT, HF_WORD_GRANTED));
    redis->sink->op_done(&redis->base, op);
    return true;
}

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    if (take_what_was_granted(redis, op))
        return;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    enum hf_asked asked = op->in.attach_key                        ? HF_ASKED_ATTACH
                          : op->in.enqueue || hf__redis_raises(op) ? HF_ASKED_ATTEMPT
                                                                   : HF_ASKED_TRY;
    struct redis_request *request = NULL;
    if (op->in.mode == HF_PERMIT && op->in.permits > REDIS_PERMITS_MAX)
        hf__op_explain(op, HF_EINVAL, 0,
                       "\"%.200s\": %u permits at once are too many; take up to %u", op->in.name,
                       op->in.permits, REDIS_PERMITS_MAX);
    else
        request = new_request(redis, op, asked);
    if (!request) {
        hf__op_set_verdict(op, hf__known_found(&op->engine.known, asked, HF_WORD_NEVER));
        redis->sink->op_done(engine, op);
        return;
    }
    if (!op->engine.word[0])
        op->engine.word[0] = hf__claim_number(op->in.owner, ++redis->front->claims);
    if (hf__redis_raises(op))
        op->engine.word[1] += UINT64_C(1) << REDIS_RAISES_SHIFT;
    request->answered = op->in.attach_key ? attach_answered : attempt_answered;
    hf__batch_ask(redis, request, op->in.attach_key ? NULL : kind->take_many);
}

/* ---- releases ---- */

static void release_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    const struct redis_kind *kind = request->kind;
    const struct hf_known *known = &op->engine.known;
    bool definite;
    hear(connection, request, reply);
    if (op->in.attach_key && hf__reply_is_array(reply, 1)) {
        bool found = hf__reply_number(reply->element[0]) == 1;
        finish_request(redis, request, found ? HF_WORD_DONE : HF_WORD_MISSING);
        return;
    }
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        hf__fast_enqueue_note(redis, op, reply->integer == REDIS_HAS_HANDED_ON);
        /* No message tells this client's waiters of the release. */
        if (!kind->channel && !hf__redis_is_part(redis))
            hf__poll_released(&redis->front->hand_overs, op, hf__loop_now(redis->base.host->loop));
        /* An earlier release without a reply may have done it, but has overwritten nothing. */
        bool overwritten = reply->integer == REDIS_OVERWRITTEN && hf__known_holds(known);
        set_verdict(redis, request, reply->integer > 0 ? HF_WORD_DONE : HF_WORD_MISSING);
        op->out.lost |= overwritten;
        complete(redis, request);
        return;
    }
    int code =
        hf__request_failed(connection, request, reply, op->in.name, &op->out.error, &definite);
    /* Units of a counter have no lease. So while the server takes no writes (MISCONF, OOM), their
     * release is repeated. */
    bool units = kind->settled && (known->now & (HF_KNOWN_LOCK | HF_KNOWN_MAY_HAVE));
    if (code == HF_ELIMIT && units) /* mutant: units-are-forgotten */
        definite = false;
    finish_request(redis, request, definite ? HF_WORD_NEVER : HF_WORD_OPEN);
}

/* What was refused has left nothing at the server but perhaps a place in a queue. In a line that is
 * kept up by asking again it is forgotten if the server hears nothing of it for a while. Where the
 * lock is given to a waiter, a place has no end: then the release is repeated until it is heard.
 * The same holds for an attempt without a reply. A server that was paused for longer than a lease
 * executes it when it goes on, and would grant a lock that no thread asks for any more. */
void hf__redis_release(struct hf_engine *engine, struct hf_op *op)
{
    static const enum hf_asked asked[] = { [HF_OUT_RELEASE] = HF_ASKED_RELEASE,
                                           [HF_OUT_LOWER] = HF_ASKED_LOWER,
                                           [HF_OUT_UNDO] = HF_ASKED_UNDO };
    struct redis *redis = (struct redis *)engine;
    const struct hf_known *known = &op->engine.known;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    hf__waiter_leave(op);
    hf__renewals_forget(redis, op);
    op->engine.word[1] &= ~(uint64_t)REDIS_WRITES;
    op->out.hands_over = hf__fast_enqueue_is_between_two(redis, op);
    bool taken = hf__known_holds(known) || hf__known_is_open(known);
    bool queued = hf__known_waits(known), may_come = known->now & HF_KNOWN_MAY_COME;
    bool keeps = op->in.keep != HF_KEEP_NOTHING; /* and what it keeps has its lease */
    /* mutant: owner-leaves-queue-is-done */
    if (!keeps && (may_come || (kind->grants && queued)))
        op->out.rests_on = NULL;
    else if (queued && !hf__known_holds(known) && (kind->leased || !taken))
        set_lease(redis, op, hf__loop_now(redis->base.host->loop), hf__redis_lease_ms(redis, op));
    enum hf_way_out out = hf__known_way_out(known, op->in.attach_key, keeps);
    struct redis_request *request = out ? new_request(redis, op, asked[out]) : NULL;
    if (!request) {
        op->out.verdict = out ? HF_NO_ANSWER : HF_GONE;
        redis->sink->op_done(engine, op);
        return;
    }
    request->answered = release_answered;
    hf__batch_ask(redis, request, op->in.attach_key ? NULL : kind->give_many);
}
