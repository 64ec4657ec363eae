/* Renewing: what falls due in one turn of the loop goes to the server in one script. */
#include "base/testing.h"
#include "redis.h"

struct renewals {
    struct hf_link link; /* in redis->renewals, until they are answered */
    unsigned count;
    struct hf_op *ops[REDIS_RENEWALS]; /* NULL: it has left meanwhile */
};

static void forget(struct renewals *renewals, const struct hf_op *op)
{
    for (unsigned i = 0; i < renewals->count; i++)
        if (renewals->ops[i] == op)
            renewals->ops[i] = NULL;
}

/* From here on the op's memory may belong to another claim. */
void hf__renewals_forget(struct redis *redis, struct hf_op *op)
{
    if (!(op->engine_word[1] & REDIS_RENEWING))
        return;
    op->engine_word[1] &= ~(uint64_t)REDIS_RENEWING;
    HF_LIST_FOREACH (link, following, &redis->renewals)
        forget(HF_CONTAINER(link, struct renewals, link), op);
    if (redis->gathered)
        forget(redis->gathered, op);
}

static void answered(struct connection *connection, struct question *question,
                     const redisReply *reply)
{
    struct renewals *renewals = question->memory;
    /* An error is no word on the leases, and neither is silence. */
    bool whole = hf__reply_is_array(reply, renewals->count);
    for (unsigned i = 0; whole && i < renewals->count; i++) {
        struct hf_op *op = renewals->ops[i];
        int64_t word = hf__reply_number(reply->element[i]);
        if (op && word >= 0)
            hf__lease_renewed(&op->own_lease, question->sent_at_ms, word == 1);
    }
    hf__link_remove(&renewals->link);
    hf__question_free(connection->redis, question);
}

/* Those who have left meanwhile are asked about all the same: nothing comes of it. */
static void send(struct connection *connection, struct question *question)
{
    const struct renewals *renewals = question->memory;
    struct redis *redis = connection->redis;
    struct command command;
    hf__connection_script(connection, &command, REDIS_RENEW, renewals->count);
    for (unsigned i = 0; i < renewals->count; i++) {
        const struct hf_op *op = renewals->ops[i];
        hf__command_add(&command, op ? op->name : "-", op ? op->name_length : 1);
    }
    for (unsigned i = 0; i < renewals->count; i++) {
        const struct hf_op *op = renewals->ops[i];
        char field[REDIS_FIELD_SIZE] = "";
        if (op)
            hf__redis_field(redis, op, field);
        hf__command_print(&command, "%s", field);
        hf__command_print(&command, "%lld", op ? (long long)op->own_lease.lease_ms : 0);
    }
    hf__connection_write(connection, question, &command);
}

static void flush(struct redis *redis)
{
    struct renewals *renewals = redis->gathered;
    struct question *question = renewals ? hf__question_new(redis) : NULL;
    redis->gathered = NULL;
    /* Without memory there is no word, and the watchdog asks again. */
    if (!question) {
        free(renewals);
        return;
    }
    hf__list_append(&redis->renewals, &renewals->link);
    question->memory = renewals;
    question->send = send;
    question->answered = answered;
    hf__connection_ask(&redis->asking, question);
}

static void turn_ends(struct hf_task *task)
{
    flush(HF_CONTAINER(task, struct redis, send_renewals));
}

void hf__redis_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct redis *redis = (struct redis *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, own_lease);
    if (!redis->gathered)
        redis->gathered = hf__calloc(1, sizeof *redis->gathered);
    struct renewals *renewals = redis->gathered;
    if (!renewals)
        return;
    op->engine_word[1] |= REDIS_RENEWING;
    renewals->ops[renewals->count++] = op;
    if (renewals->count == REDIS_RENEWALS)
        flush(redis);
    else
        hf__loop_defer(redis->base.host->loop, &redis->send_renewals);
}

void hf__renewals_open(struct redis *redis)
{
    hf__link_init(&redis->renewals);
    hf__task_init(&redis->send_renewals, turn_ends);
}

void hf__renewals_close(struct redis *redis)
{
    hf__link_remove(&redis->send_renewals.link);
    free(redis->gathered);
    redis->gathered = NULL;
}
