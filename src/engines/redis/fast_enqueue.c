/* SPDX-License-Identifier: Apache-2.0 */
/* A place in a mutex's queue, taken without a script. A release says whether it has given the lock
 * to a waiter: then a claim that comes back at once is going to be refused, and asks for its place
 * by plain commands, which cost the server half of what a script costs that looks first. The place
 * is asked for before the look: if the lock has a holder then, its release is still to come, and
 * finds the place. Where the look shows anything else than a holder of ours, the script is asked
 * after all, by which asking twice is asking once. */
#include "base/clock.h"
#include "base/rand.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

/* A claim that comes back later than that may find it free; and the two clocks may have gone
 * apart. */
#define AT_ONCE_US 1000000
/* Where the version of a UUID is, and what follows it in a field; ours have version 8. */
#define VERSION_AT 14u
#define COLON_AT 36u

static struct handed_on *note_of(struct redis *redis, const struct hf_op *op, uint64_t *name)
{
    *name = hf__hash(op->in.name, op->in.name_length);
    return &redis->handed_on[*name % REDIS_HANDED_ON];
}

static void clock_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    struct redis *redis = connection->redis;
    const int64_t most_s = INT64_MAX / 1000000 - 1;
    bool whole = hf__reply_is_array(reply, 2);
    int64_t seconds = whole ? hf__reply_number(reply->element[0]) : -1;
    int64_t us = whole ? hf__reply_number(reply->element[1]) : -1;
    bool sound = seconds >= 0 && seconds <= most_s && us >= 0 && us < 1000000;
    redis->server_us = sound ? seconds * 1000000 + us : 0;
    hf__request_free(redis, request);
}

/* A server writes first to the connection that it has spoken on last. With a reply to us already on
 * its way when the lock goes to a waiter, the waiter hears of it before we hear of our release. The
 * clock in that reply helps a claim that comes back at once. */
void hf__fast_enqueue_ask_clock(struct connection *connection)
{
    struct redis_request *request = hf__request_new(connection->redis);
    struct command command;
    if (!request)
        return;
    request->answered = clock_answered;
    hf__command_begin(&command, "TIME");
    hf__connection_write(connection, request, &command);
}

void hf__fast_enqueue_note(struct redis *redis, const struct hf_op *op, bool handed_on)
{
    uint64_t name;
    struct handed_on *note = note_of(redis, op, &name);
    if (handed_on && redis->server_us)
        *note = (struct handed_on){ name, hf__clock_us(), redis->server_us, op->out.token };
    else if (note->name == name)
        note->name = 0;
    redis->server_us = 0;
}

/* Has one other client at most had it since we last handed it on? The tokens of a lock that is
 * handed on are counted; where the clock has said one, the answer is no. */
bool hf__fast_enqueue_is_between_two(struct redis *redis, const struct hf_op *op)
{
    uint64_t name;
    const struct handed_on *note = note_of(redis, op, &name);
    return note->name == name && op->out.token > note->token && op->out.token - note->token <= 2;
}

/* The server's clock, if the lock is surely held, else 0. */
static int64_t when_it_comes(struct redis *redis, const struct hf_op *op)
{
    uint64_t name;
    const struct handed_on *note = note_of(redis, op, &name);
    int64_t since_us = hf__clock_us() - note->at_us;
    /* mutant: owner-comes-back-is-first */
    return note->name == name && since_us < AT_ONCE_US ? note->server_us + since_us : 0;
}

static void place_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    request->place_of->placed = reply && reply->type == REDIS_REPLY_INTEGER;
    hf__request_free(connection->redis, request);
}

static bool is_field_of_another_of_ours(const struct redis *redis, const struct hf_op *op,
                                        const redisReply *fields)
{
    char ours[REDIS_FIELD_SIZE];
    /* mutant: owner-holds-it-among-others */
    if (!hf__reply_is_array(fields, 1) || fields->elements != 1)
        return false;
    const char *field = hf__reply_text(fields->element[0]);
    hf__redis_field(redis, op, ours);
    /* mutant: java-client-is-taken-for-one */
    return strlen(field) > COLON_AT && field[VERSION_AT] == '8' && field[COLON_AT] == ':' &&
           strcmp(field, ours) != 0;
}

static void holder_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    struct redis_request *attempt = request->place_of;
    if (!reply || !is_field_of_another_of_ours(connection->redis, attempt->op, reply))
        /* mutant: place-that-was-refused */
        attempt->placed = false;
    hf__request_free(connection->redis, request);
}

static void write_place(struct connection *connection, struct redis_request *place,
                        const struct hf_op *op, int64_t comes_us)
{
    struct command command;
    hf__command_begin(&command, "ZADD");
    hf__command_own(&command, REDIS_QUEUE_PREFIX, op->in.name, op->in.name_length);
    hf__command_add(&command, "NX", 2);
    hf__command_number(&command, comes_us);
    hf__redis_add_field(connection->redis, &command, op);
    hf__connection_write(connection, place, &command);
}

static void write_about_name(struct connection *connection, struct redis_request *request,
                             const char *word, const struct hf_op *op)
{
    struct command command;
    hf__command_begin(&command, word);
    hf__command_add(&command, op->in.name, op->in.name_length);
    hf__connection_write(connection, request, &command);
}

static void write_life(struct connection *connection, struct redis_request *life,
                       const struct hf_op *op)
{
    struct command command;
    hf__command_begin(&command, "PEXPIRE"); /* mutant: queue-that-was-begun-without */
    hf__command_own(&command, REDIS_QUEUE_PREFIX, op->in.name, op->in.name_length);
    hf__command_number(&command, REDIS_QUEUE_MS);
    hf__connection_write(connection, life, &command);
}

bool hf__fast_enqueue_ask(struct connection *connection, struct redis_request *request)
{
    struct redis *redis = connection->redis;
    const struct hf_op *op = request->op;
    bool fresh = request->kind == &hf__redis_mutex && hf__redis_waits(op) == 1;
    int64_t comes_us = fresh && !redis->cluster ? when_it_comes(redis, op) : 0;
    if (!comes_us)
        return false;
    struct redis_request *place = hf__request_new(redis), *life = hf__request_new(redis);
    struct redis_request *holder = hf__request_new(redis);
    if (!place || !life || !holder) {
        struct redis_request *const made[] = { place, life, holder };
        for (unsigned i = 0; i < sizeof made / sizeof *made; i++)
            if (made[i])
                hf__request_free(redis, made[i]);
        return false;
    }
    place->place_of = holder->place_of = request;
    place->answered = place_answered;
    life->answered = hf__request_ignored;
    holder->answered = holder_answered;
    request->placed = false;
    write_place(connection, place, op, comes_us);
    write_life(connection, life, op);
    write_about_name(connection, holder, "HKEYS", op);
    write_about_name(connection, request, "PTTL", op);
    return true;
}
