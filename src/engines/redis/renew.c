/* Renewing: what falls due in one turn of the loop goes to the server together, in one call for
 * each kind's script. */
#include "base/testing.h"
#include "redis.h"

struct renewals {
    struct hf_link link; /* in redis->gathering, then in redis->renewals until they are answered */
    enum redis_script script;
    unsigned count;
    struct hf_op *ops[REDIS_RENEWALS]; /* NULL: it has left meanwhile */
};

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
    if (!(op->engine_word[1] & REDIS_RENEWING))
        return;
    op->engine_word[1] &= ~(uint64_t)REDIS_RENEWING;
    forget(&redis->renewals, op);
    forget(&redis->gathering, op);
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
        if (!op || word < 0)
            continue;
        /* The lease that a grant began with is a short one. */
        if (word == 1)
            op->own_lease.lease_ms = hf__redis_lease_ms(connection->redis, op);
        hf__lease_renewed(&op->own_lease, question->sent_at_ms, word == 1);
    }
    hf__link_remove(&renewals->link);
    hf__question_free(connection->redis, question);
}

static void drop_those_who_left(struct renewals *renewals)
{
    unsigned left = 0;
    for (unsigned i = 0; i < renewals->count; i++)
        if (renewals->ops[i])
            renewals->ops[left++] = renewals->ops[i];
    renewals->count = left;
}

static void send(struct connection *connection, struct question *question)
{
    struct renewals *renewals = question->memory;
    struct command command;
    drop_those_who_left(renewals);
    hf__connection_script(connection, &command, renewals->script, renewals->count);
    for (unsigned i = 0; i < renewals->count; i++)
        hf__command_add(&command, renewals->ops[i]->name, renewals->ops[i]->name_length);
    for (unsigned i = 0; i < renewals->count; i++) {
        const struct hf_op *op = renewals->ops[i];
        hf__redis_kind(connection->redis, op->mode)->renewal(connection->redis, &command, op);
    }
    hf__connection_write(connection, question, &command);
}

static void flush(struct redis *redis, struct renewals *renewals)
{
    struct question *question = hf__question_new(redis);
    hf__link_remove(&renewals->link);
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
    struct redis *redis = HF_CONTAINER(task, struct redis, send_renewals);
    HF_LIST_FOREACH (link, following, &redis->gathering)
        flush(redis, HF_CONTAINER(link, struct renewals, link));
}

static struct renewals *gathered_for(struct redis *redis, enum redis_script script)
{
    HF_LIST_FOREACH (link, following, &redis->gathering) {
        struct renewals *renewals = HF_CONTAINER(link, struct renewals, link);
        if (renewals->script == script)
            return renewals;
    }
    struct renewals *renewals = hf__calloc(1, sizeof *renewals);
    if (!renewals)
        return NULL;
    renewals->script = script;
    hf__list_append(&redis->gathering, &renewals->link);
    return renewals;
}

void hf__redis_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct redis *redis = (struct redis *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, own_lease);
    struct renewals *renewals = gathered_for(redis, hf__redis_kind(redis, op->mode)->renew);
    if (!renewals)
        return;
    op->engine_word[1] |= REDIS_RENEWING;
    renewals->ops[renewals->count++] = op;
    if (renewals->count == REDIS_RENEWALS)
        flush(redis, renewals);
    else
        hf__loop_defer(redis->base.host->loop, &redis->send_renewals);
}

void hf__renewals_open(struct redis *redis)
{
    hf__link_init(&redis->renewals);
    hf__link_init(&redis->gathering);
    hf__task_init(&redis->send_renewals, turn_ends);
}

void hf__renewals_close(struct redis *redis)
{
    struct hf_link *link;
    hf__link_remove(&redis->send_renewals.link);
    while ((link = hf__list_pop(&redis->gathering)))
        free(HF_CONTAINER(link, struct renewals, link));
}
