/* Taking and giving back: how an op becomes a script, and the script's answer a verdict. */
#include "base/clock.h"
#include "base/rand.h"
#include "kinds.h"
#include "names.h"
#include "redis.h"

#include <stdio.h>
#include <string.h>

void hf__redis_field(const struct redis *redis, const struct hf_op *op,
                     char field[REDIS_FIELD_SIZE])
{
    const size_t length = sizeof redis->uuid - 1;
    _Static_assert(sizeof redis->uuid + REDIS_DIGITS_MAX + 1 <= REDIS_FIELD_SIZE, "a field fits");
    memcpy(field, redis->uuid, length);
    field[length] = ':';
    size_t digits = hf__write_number(field + length + 1, op->engine_word[0]);
    field[length + 1 + digits] = 0;
}

void hf__redis_add_field(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    char field[REDIS_FIELD_SIZE];
    hf__redis_field(redis, op, field);
    hf__command_copy(command, field, strlen(field));
}

unsigned hf__redis_waits(const struct hf_op *op)
{
    if (!op->enqueue)
        return 0;
    if (op->engine_word[1] & (REDIS_QUEUED | REDIS_UNSURE))
        return 2;
    return op->engine_word[1] & REDIS_LISTENS ? 1 : 0;
}

int64_t hf__redis_lease_ms(const struct redis *redis, const struct hf_op *op)
{
    return op->lease_ms ? op->lease_ms : redis->base.host->lease_ms;
}

static void set_lease(struct redis *redis, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms)
{
    struct hf_lease *lease = &op->own_lease;
    lease->engine = &redis->front->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->lease_ms > 0 || op->attach_key;
    op->rests_on = lease;
}

static void finish(struct redis *redis, struct question *question, enum hf_verdict verdict)
{
    struct hf_op *op = question->op;
    if (verdict != HF_REFUSED && verdict != HF_NO_ANSWER)
        hf__waiter_leave(op);
    hf__question_free(redis, question);
    op->verdict = verdict;
    hf__op_done(&redis->base, op);
}

/* ---- the answers of an attempt ---- */

static void note_when_granted(const struct redis *redis, struct hf_op *op)
{
    op->engine_word[1] |= (uint64_t)hf__loop_now(redis->base.host->loop) << REDIS_GRANTED_SHIFT;
}

static void granted(struct redis *redis, struct question *question, int64_t lease_ms,
                    const redisReply *token)
{
    struct hf_op *op = question->op;
    int64_t number = hf__reply_number(token);
    op->token = number > 0 ? (uint64_t)number : 0;
    const struct redis_kind *kind = hf__redis_kind(redis, op->mode);
    /* What is held already may just be renewed. */
    op->engine_word[1] = REDIS_HOLDS | (op->engine_word[1] & (REDIS_CONTENDED | REDIS_RENEWING));
    if (!op->attach_key)
        note_when_granted(redis, op);
    op->rests_on = NULL;
    if (kind->leased)
        set_lease(redis, op, question->sent_at_ms, lease_ms);
    /* Replicas have confirmed what is taken over when it was granted. If one has not heard of the
     * new key, nobody else has the lock there. */
    if (redis->settings.replicas && !op->attach_key)
        hf__sync_wait(redis, question);
    else
        hf__attempt_confirmed(redis, question, true);
}

/* A grant that may be forgotten in a failover is none yet: the core asks again, or gives it back.
 */
void hf__attempt_confirmed(struct redis *redis, struct question *question, bool enough)
{
    const struct redis_kind *kind = hf__redis_kind(redis, question->op->mode);
    if (enough && kind->settled)
        kind->settled(redis, question->op);
    if (!enough)
        question->op->engine_word[1] |= REDIS_UNSURE;
    finish(redis, question, enough ? HF_GRANTED : HF_NO_ANSWER);
}

/* How long until it is worth looking again where nobody is sure to tell. */
static int64_t next_look_ms(const struct redis *redis, const struct hf_op *op, int64_t left_ms)
{
    int64_t look_ms = REDIS_POLL_MS;
    if (!hf__redis_kind(redis, op->mode)->channel) {
        uint64_t salt;
        hf__random(&salt, sizeof salt);
        look_ms =
            REDIS_LOOK_LEAST_MS + (int64_t)(salt % (REDIS_LOOK_MOST_MS - REDIS_LOOK_LEAST_MS));
    }
    return left_ms >= 0 && left_ms < look_ms ? left_ms : look_ms;
}

/* It is given the lock, and told so, unless others than our clients have it. */
static void queue_up(struct redis *redis, struct hf_op *op, bool others)
{
    op->engine_word[1] = REDIS_CONTENDED | (hf__redis_waits(op) ? REDIS_QUEUED : 0);
    hf__inbox_join(redis, op);
    if (others)
        hf__channel_join(redis, op);
    else
        hf__channel_quit(op);
}

/* Without a sure wake it looks again after a while, and when the wake becomes sure it is woken. */
static int64_t pause_before_asking_again(struct redis *redis, const struct question *question,
                                         int64_t left_ms)
{
    struct hf_op *op = question->op;
    const struct waiter *waiter = op->engine_pointer;
    const struct redis_kind *kind = hf__redis_kind(redis, op->mode);
    bool queued = kind->grants && (op->engine_word[1] & REDIS_CONTENDED);
    /* From now on it can have a place. */
    if (queued && redis->inbox.confirmed && !question->listened)
        return 0;
    if (kind->queues && waiter && waiter->channel && hf__channel_sure(op))
        return left_ms >= 0 && left_ms < REDIS_PLACE_MS ? left_ms : REDIS_PLACE_MS;
    bool sure = waiter && left_ms >= 0 && (waiter->channel ? hf__channel_sure(op) : queued) &&
                (!queued || question->listened);
    if (!sure)
        return next_look_ms(redis, op, left_ms);
    return queued && left_ms > REDIS_QUEUE_LOOK_MS ? REDIS_QUEUE_LOOK_MS : left_ms;
}

static void refused(struct redis *redis, struct question *question, const redisReply *reply)
{
    struct hf_op *op = question->op;
    const redisReply *left = reply->element[1];
    int64_t left_ms = left->type == REDIS_REPLY_INTEGER ? left->integer : -1;
    op->rests_on = NULL;
    if (op->enqueue && hf__reply_is_array(reply, 3)) {
        queue_up(redis, op, hf__reply_number(reply->element[2]) == 1);
    } else {
        op->engine_word[1] = 0;
        if (op->enqueue)
            hf__channel_join(redis, op);
    }
    if (op->enqueue && hf__redis_kind(redis, op->mode)->queues)
        op->engine_word[1] |= REDIS_QUEUED;
    op->unplaced = hf__redis_kind(redis, op->mode)->grants && !(op->engine_word[1] & REDIS_QUEUED);
    /* At its last millisecond the key is still there. */
    op->retry_at_ms = hf__clock_add(hf__loop_now(redis->base.host->loop) + 1,
                                    pause_before_asking_again(redis, question, left_ms));
    finish(redis, question, HF_REFUSED);
}

/* It is told that it cannot be; its place in the queue goes at the same time. */
static void failed(struct connection *connection, struct question *question)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    bool heard = connection->state == CONNECTION_READY && !connection->failing;
    bool queued = op->engine_word[1] & REDIS_QUEUED;
    struct question *farewell = heard && queued ? hf__question_new(redis) : NULL;
    struct command command;
    if (farewell) {
        /* Nobody would say it again, so it goes with the script's text. */
        connection->known_scripts = 0;
        farewell->answered = hf__question_ignored;
        hf__redis_kind(redis, op->mode)->release(connection, &command, op);
        hf__connection_write(connection, farewell, &command);
    }
    finish(redis, question, HF_FAILED);
}

static void attempt_failed(struct connection *connection, struct question *question,
                           const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    bool definite;
    hf__question_failed(connection, question, reply, &op->error, &definite);
    if (definite && !(op->engine_word[1] & REDIS_UNSURE)) {
        failed(connection, question);
        return;
    }
    /* Should it have been granted, it rests on a lease, after which the server has forgotten it.
     * How long one is that was left under a key, the answer would have said. */
    if (question->sent) {
        op->engine_word[1] |= REDIS_UNSURE;
        if (hf__redis_kind(redis, op->mode)->leased && !op->attach_key)
            set_lease(redis, op, question->sent_at_ms, hf__redis_lease_ms(redis, op));
    }
    finish(redis, question, HF_NO_ANSWER);
}

/* The code of an answer that says that it cannot be at all, else HF_OK. */
static int never(const redisReply *reply)
{
    int64_t word = hf__reply_is_array(reply, 2) ? reply->element[0]->integer : 0;
    return word == -1 ? HF_EKIND : word == -3 ? HF_EINVAL : HF_OK;
}

/* What it says to be the token, or NULL: it is not granted. Where many are asked together, that
 * alone is a grant. */
static const redisReply *token_in(const struct question *question, const redisReply *reply)
{
    if (question->many && reply && reply->type == REDIS_REPLY_INTEGER)
        return reply;
    bool granted = hf__reply_is_array(reply, 2) && hf__reply_number(reply->element[0]) == 1;
    return granted ? reply->element[1] : NULL;
}

static void attempt_answered(struct connection *connection, struct question *question,
                             const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    const redisReply *token = token_in(question, reply);
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int code;
    if (hf__reply_number(token) >= 0) {
        granted(redis, question, hf__redis_lease_ms(redis, op), token);
    } else if (word == 0 && hf__reply_is_array(reply, 2)) {
        refused(redis, question, reply);
    } else if ((code = never(reply)) != HF_OK) {
        hf__op_explain(op, code, 0, "\"%.200s\" %.100s", op->name,
                       hf__reply_text(reply->element[1]));
        failed(connection, question);
    } else {
        attempt_failed(connection, question, reply);
    }
}

void hf__attempt_leaves(struct connection *connection, struct question *question)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    const struct waiter *waiter = op->engine_pointer;
    if (waiter && waiter->redis != redis)
        hf__waiter_leave(op);
    question->listened = redis->inbox.confirmed;
    op->engine_word[1] &= ~(uint64_t)REDIS_LISTENS;
    op->engine_word[1] |= question->listened ? REDIS_LISTENS : 0;
    /* The word of a grant may come before the refusal that it follows. */
    if (question->listened && op->enqueue && hf__redis_kind(redis, op->mode)->grants)
        hf__inbox_join(redis, op);
}

static void send_attempt(struct connection *connection, struct question *question)
{
    struct hf_op *op = question->op;
    struct command command;
    hf__attempt_leaves(connection, question);
    hf__redis_kind(connection->redis, op->mode)->acquire(connection, &command, op);
    hf__connection_write(connection, question, &command);
}

/* ---- attaching ---- */

static void attach_answered(struct connection *connection, struct question *question,
                            const redisReply *reply)
{
    struct hf_op *op = question->op;
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int64_t left_ms =
        word == 1 && hf__reply_is_array(reply, 3) ? hf__reply_number(reply->element[2]) : -1;
    if (left_ms > 0) {
        if (hf__reply_is_array(reply, 5)) {
            op->mode = hf__redis_mode_of(reply->element[3]);
            op->permits = (uint32_t)hf__reply_number(reply->element[4]);
        }
        granted(connection->redis, question, left_ms, reply->element[1]);
    } else if (word == 0 || word == 1) {
        op->lost = true;
        hf__op_explain(op, HF_LOST, 0,
                       "nobody holds \"%.200s\" under the key %s; its lease may have run out",
                       op->name, op->attach_key);
        finish(connection->redis, question, HF_FAILED);
    } else {
        attempt_failed(connection, question, reply);
    }
}

/* Whatever kind of thing was left under the key. */
static void add_attach(struct connection *connection, struct command *command,
                       const struct hf_op *op, bool back)
{
    hf__names_script(connection, command, REDIS_ATTACH, REDIS_CHANNEL_SEMAPHORE, op->name,
                     op->name_length);
    hf__command_add(command, op->attach_key, strlen(op->attach_key));
    hf__redis_add_field(connection->redis, command, op);
    hf__semaphore_add_prefix(connection->redis, command, op);
    if (back)
        hf__command_print(command, "back");
}

static void write_attach(struct connection *connection, struct question *question, bool back)
{
    const struct hf_op *op = question->op;
    const struct redis_kind *kind = hf__redis_kind(connection->redis, op->mode);
    struct command command;
    if (kind->attach)
        kind->attach(connection, &command, op, back);
    else
        add_attach(connection, &command, op, back);
    hf__connection_write(connection, question, &command);
}

static void send_attach(struct connection *connection, struct question *question)
{
    write_attach(connection, question, false);
}

/* Nobody has heard that it was taken over, so it goes back to where it was found. */
static void send_back(struct connection *connection, struct question *question)
{
    write_attach(connection, question, true);
}

/* ---- asking ---- */

static struct question *new_question(struct redis *redis, struct hf_op *op)
{
    struct question *question = hf__question_new(redis);
    if (question) {
        question->op = op;
        return question;
    }
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a question");
    return NULL;
}

/* What we were told of is taken without asking, if there is time enough to renew its lease. With a
 * lease that nobody renews, or a loop that may stand still, or with replicas to be heard, it is
 * asked for as always; in a cluster, too, where word of a grant may come by another node than the
 * one that the pulse is taken of. */
static bool take_what_was_granted(struct redis *redis, struct hf_op *op)
{
    const struct hf_host *host = redis->base.host;
    const struct waiter *waiter = op->engine_pointer;
    if (op->lease_ms || host->turns_rarely || redis->settings.replicas || redis->cluster ||
        !waiter || !waiter->granted_token)
        return false;
    int64_t lease_ms = waiter->granted_ms < host->lease_ms ? waiter->granted_ms : host->lease_ms;
    if (hf__loop_now(host->loop) - waiter->not_before_ms > lease_ms / 2)
        return false;
    op->token = waiter->granted_token;
    op->engine_word[1] = REDIS_HOLDS | REDIS_CONTENDED;
    note_when_granted(redis, op);
    set_lease(redis, op, waiter->not_before_ms, lease_ms);
    hf__waiter_leave(op);
    op->verdict = HF_GRANTED;
    hf__op_done(&redis->base, op);
    return true;
}

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    if (take_what_was_granted(redis, op))
        return;
    struct question *question = new_question(redis, op);
    if (question && op->mode == HF_PERMIT && op->permits > REDIS_PERMITS_MOST) {
        hf__op_explain(op, HF_ELIMIT, 0,
                       "\"%.200s\": %u permits at once are too many; take up to %u", op->name,
                       op->permits, REDIS_PERMITS_MOST);
        finish(redis, question, HF_FAILED);
        return;
    }
    if (!question) {
        op->verdict = op->engine_word[1] & ~(uint64_t)REDIS_LISTENS ? HF_NO_ANSWER : HF_FAILED;
        hf__op_done(engine, op);
        return;
    }
    if (!op->engine_word[0])
        op->engine_word[0] = ++redis->front->claims;
    question->send = op->attach_key ? send_attach : send_attempt;
    question->answered = op->attach_key ? attach_answered : attempt_answered;
    hf__together_ask(redis, question,
                     op->attach_key ? NULL : hf__redis_kind(redis, op->mode)->take_many);
}

/* ---- giving back ---- */

static void release_answered(struct connection *connection, struct question *question,
                             const redisReply *reply)
{
    struct hf_op *op = question->op;
    if (op->attach_key && hf__reply_is_array(reply, 1)) {
        finish(connection->redis, question, HF_GONE);
        return;
    }
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        /* Unless an earlier question of the same kind may have done it. */
        op->lost = reply->integer == 0 && (op->engine_word[1] & REDIS_HOLDS) &&
                   !(op->engine_word[1] & REDIS_UNSURE);
        const struct redis_kind *kind = hf__redis_kind(connection->redis, op->mode);
        if (kind->settled)
            kind->settled(connection->redis, op);
        finish(connection->redis, question, HF_GONE);
        return;
    }
    bool definite;
    hf__question_failed(connection, question, reply, &op->error, &definite);
    if (question->sent)
        op->engine_word[1] |= REDIS_UNSURE;
    finish(connection->redis, question, definite ? HF_FAILED : HF_NO_ANSWER);
}

/* The server writes first to whom it has spoken last: with an answer of ours already on its way
 * when the lock goes to a waiter, the waiter hears of it before we hear that we have let go. */
static void let_the_waiter_be_first(struct connection *connection)
{
    struct question *question = hf__question_new(connection->redis);
    struct command command;
    if (!question)
        return;
    question->answered = hf__question_ignored;
    hf__command_begin(&command, "PING");
    hf__connection_write(connection, question, &command);
}

void hf__release_leaves(struct connection *connection, struct question *question)
{
    if (question->op->engine_word[1] & REDIS_CONTENDED)
        let_the_waiter_be_first(connection);
}

static void send_release(struct connection *connection, struct question *question)
{
    const struct hf_op *op = question->op;
    struct command command;
    hf__release_leaves(connection, question);
    hf__redis_kind(connection->redis, op->mode)->release(connection, &command, op);
    hf__connection_write(connection, question, &command);
}

/* What was refused has left nothing at the server but an ear and perhaps a place in a queue. In a
 * line that is kept up by asking again it is forgotten if the server hears nothing of us for so
 * long. Where the lock is given to who waits it has no end: then the release is said until it is
 * heard. */
void hf__redis_release(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    hf__waiter_leave(op);
    hf__renewals_forget(redis, op);
    const struct redis_kind *kind = hf__redis_kind(redis, op->mode);
    bool taken = op->engine_word[1] & (REDIS_UNSURE | REDIS_HOLDS);
    bool queued = op->engine_word[1] & REDIS_QUEUED;
    if (kind->grants && (queued || ((op->engine_word[1] & REDIS_UNSURE) && hf__redis_waits(op))))
        op->rests_on = NULL;
    else if (queued && (kind->leased || !taken))
        set_lease(redis, op, hf__loop_now(redis->base.host->loop), hf__redis_lease_ms(redis, op));
    bool is_there = op->engine_word[1] & (REDIS_HOLDS | REDIS_UNSURE | REDIS_QUEUED);
    struct question *question = is_there ? new_question(redis, op) : NULL;
    if (!question) {
        op->verdict = is_there ? HF_NO_ANSWER : HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    question->send = op->attach_key ? send_back : send_release;
    question->answered = release_answered;
    hf__together_ask(redis, question, op->attach_key ? NULL : kind->give_many);
}

/* Its answer is nobody's, and by then the op may be another claim's: so it is said but once, with
 * the script's text. */
static void send_dismissal(struct connection *connection, struct question *question)
{
    connection->known_scripts &= ~(UINT64_C(1) << REDIS_SIMPLE_RELEASE);
    send_release(connection, question);
    question->send = NULL;
}

void hf__redis_dismiss(struct redis *redis, struct hf_op *op)
{
    struct question *question = hf__question_new(redis);
    if (!question)
        return;
    question->op = op;
    question->send = send_dismissal;
    question->answered = hf__question_ignored;
    hf__redis_ask(redis, question, op->name, op->name_length);
}
