/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back: a lock, a place in a queue, or what a request without an answer may have taken. */
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

/* Units of a counter have no lease. So while the server takes no writes (MISCONF, OOM), their
 * release is repeated. */
static bool is_lost_without_release(const struct redis *redis, const struct hf_op *op)
{
    return hf__redis_kind(redis, op->in.mode)->settled &&
           (op->engine.word[1] & (REDIS_HOLDS | REDIS_UNSURE));
}

/* Does no message tell this client's waiters of the release? */
static bool polls(const struct redis *redis, const struct hf_op *op)
{
    return !hf__redis_is_part(redis) && !hf__redis_kind(redis, op->in.mode)->channel;
}

void hf__release_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    struct hf_op *op = request->op;
    op->out.contacted = reply != NULL;
    if (op->in.attach_key && hf__reply_is_array(reply, 1)) {
        hf__redis_finish(connection->redis, request, HF_GONE);
        return;
    }
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        /* An earlier request of the same kind may have done it, but has overwritten nothing. */
        bool gone = reply->integer == 0 && !(op->engine.word[1] & REDIS_UNSURE);
        bool overwritten = reply->integer == REDIS_OVERWRITTEN;
        op->out.lost = (gone || overwritten) && (op->engine.word[1] & REDIS_HOLDS);
        hf__redis_settle(connection->redis, op);
        hf__fast_enqueue_note(connection->redis, op, reply->integer == REDIS_HAS_HANDED_ON);
        if (polls(connection->redis, op))
            hf__poll_released(&connection->redis->front->hand_overs, op,
                              hf__loop_now(connection->redis->base.host->loop));
        hf__redis_finish(connection->redis, request, HF_GONE);
        return;
    }
    bool definite;
    int code =
        hf__request_failed(connection, request, reply, op->in.name, &op->out.error, &definite);
    if (request->item.sent)
        op->engine.word[1] |= REDIS_UNSURE;
    /* mutant: units-are-forgotten */
    if (code == HF_ELIMIT && is_lost_without_release(connection->redis, op))
        definite = false;
    /* The server that answers has ended the connection on which an earlier attempt was sent. */
    else if (reply && !hf__reply_is_open(reply))
        op->engine.word[1] &= ~(uint64_t)REDIS_OUTSTANDING;
    hf__redis_finish(connection->redis, request, definite ? HF_FAILED : HF_NO_ANSWER);
}

/* The server writes first to whom it has spoken last: with an answer of ours already on its way
 * when the lock goes to a waiter, the waiter hears of it before we hear that we have let go. What
 * the clock says may be of use when we come back (fast_enqueue.c). */
static void let_the_waiter_be_first(struct connection *connection)
{
    struct redis_request *request = hf__request_new(connection->redis);
    struct command command;
    if (!request)
        return;
    request->answered = hf__fast_enqueue_clock_answered;
    hf__command_begin(&command, "TIME");
    hf__connection_write(connection, request, &command);
}

void hf__release_leaves(struct connection *connection, struct redis_request *request)
{
    if (request->op->engine.word[1] & REDIS_CONTENDED)
        let_the_waiter_be_first(connection);
}

static void send_release(struct connection *connection, struct redis_request *request)
{
    const struct hf_op *op = request->op;
    struct command command;
    hf__release_leaves(connection, request);
    hf__redis_kind(connection->redis, op->in.mode)->release(connection, &command, op);
    hf__connection_write(connection, request, &command);
}

/* What was refused has left nothing at the server but an ear and perhaps a place in a queue. In a
 * line that is kept up by asking again it is forgotten if the server hears nothing of us for so
 * long. Where the lock is given to who waits it has no end: then the release is said until it is
 * heard. The same holds for an attempt without an answer. A server that was paused for longer than
 * a lease executes it when it goes on, and would grant a lock that no thread asks for any more. */
void hf__redis_release(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    hf__waiter_leave(op);
    hf__renewals_forget(redis, op);
    op->out.hands_over = hf__fast_enqueue_is_between_two(redis, op);
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    bool taken = op->engine.word[1] & (REDIS_UNSURE | REDIS_HOLDS);
    bool queued = op->engine.word[1] & REDIS_QUEUED;
    bool outstanding = op->engine.word[1] & REDIS_OUTSTANDING;
    if (outstanding || (kind->grants && queued)) /* mutant: owner-leaves-queue-is-done */
        op->out.rests_on = NULL;
    else if (queued && (kind->leased || !taken))
        hf__redis_set_lease(redis, op, hf__loop_now(redis->base.host->loop),
                            hf__redis_lease_ms(redis, op));
    bool is_there = op->engine.word[1] & (REDIS_HOLDS | REDIS_UNSURE | REDIS_QUEUED);
    struct redis_request *request = is_there ? hf__request_about(redis, op) : NULL;
    if (!request) {
        op->out.verdict = is_there ? HF_NO_ANSWER : HF_GONE;
        redis->sink->op_done(engine, op);
        return;
    }
    /* mutant: what-was-attached-unheard */
    request->send = op->in.attach_key ? hf__attach_send_back : send_release;
    request->answered = hf__release_answered;
    hf__batch_ask(redis, request, op->in.attach_key ? NULL : kind->give_many);
}

/* ---- releases that nobody waits for ---- */

/* Its answer is nobody's, and by then the op may be another claim's: so it is said but once, with
 * the script's text. */
static void send_dismissal(struct connection *connection, struct redis_request *request)
{
    connection->known_scripts = 0; /* mutant: what-hangs-is-told-to-forget */
    if (request->op->in.attach_key)
        hf__attach_send_back(connection, request);
    else
        send_release(connection, request);
    request->send = NULL;
}

static struct redis_request *dismissal_of(struct redis *redis, struct hf_op *op)
{
    struct redis_request *request = hf__request_new(redis);
    if (!request)
        return NULL;
    request->op = op;
    request->send = send_dismissal;
    request->answered = hf__request_ignored;
    return request;
}

void hf__redis_dismiss(struct hf_engine *server, struct hf_op *op)
{
    struct redis *redis = (struct redis *)server;
    struct redis_request *request = dismissal_of(redis, op);
    if (request)
        hf__redis_ask(redis, request, op->in.name, op->in.name_length);
}

/* An attempt on a connection that was given up may be executed behind it. */
void hf__redis_dismiss_early(struct hf_engine *server, struct hf_op *op)
{
    struct redis *redis = (struct redis *)server;
    struct redis_request *request = dismissal_of(redis, op);
    if (!request)
        return;
    op->engine.word[1] |= REDIS_OUTSTANDING;
    request->early = true;
    hf__redis_ask(redis, request, op->in.name, op->in.name_length);
}

static void send_last_release(struct connection *connection, struct redis_request *request)
{
    send_dismissal(connection, request);
    connection->redis->front->dismissals--;
}

/* It cannot leave, as there is no connection. */
static void last_release_ended(struct connection *connection, struct redis_request *request,
                               const redisReply *reply)
{
    (void)reply;
    connection->redis->front->dismissals -= !request->item.sent;
    hf__request_free(connection->redis, request);
}

void hf__redis_dismiss_at_close(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    /* Before its first attempt it has no number. */
    struct redis_request *request = op->engine.word[0] ? dismissal_of(redis, op) : NULL;
    if (!request)
        return;
    op->engine.word[1] |= REDIS_OUTSTANDING;
    request->early = true;
    request->send = send_last_release;
    request->answered = last_release_ended;
    redis->dismisses = true;
    redis->dismissals++;
    hf__redis_ask(redis, request, op->in.name, op->in.name_length);
}
