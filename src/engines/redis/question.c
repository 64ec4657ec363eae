/* Questions: their memory, and what it means when one is not answered as hoped. */
#include "base/testing.h"
#include "redis.h"

struct question *hf__question_new(struct redis *redis)
{
    struct hf_link *link = hf__list_pop(&redis->free_questions);
    struct question *question =
        link ? HF_CONTAINER(link, struct question, link) : hf__calloc(1, sizeof *question);
    if (question) {
        *question = (struct question){ .sent = false };
        hf__link_init(&question->link);
    }
    return question;
}

void hf__question_free(struct redis *redis, struct question *question)
{
    hf__link_remove(&question->link);
    free(question->memory);
    question->memory = NULL;
    hf__list_append(&redis->free_questions, &question->link);
}

void hf__question_ignored(struct connection *connection, struct question *question,
                          const redisReply *reply)
{
    (void)reply;
    hf__question_free(connection->redis, question);
}

/* What the user is to do about an error of the server's. */
static const char *advice(int code)
{
    switch (code) {
    case HF_EKIND:
        return "the name is in use as another kind of thing";
    case HF_DENIED:
        return "the server refuses this user; it needs the lock's keys and channels";
    case HF_ELIMIT:
        return "the server takes no more";
    case HF_ENOTSUP:
        return "this server is part of a cluster, which this engine does not speak to";
    case HF_UNREACHABLE:
        return "the server is not ready";
    default:
        return "the server's answer is not understood";
    }
}

int hf__question_failed(const struct connection *connection, const struct question *question,
                        const redisReply *reply, hf_error **error, bool *definite)
{
    const char *shown = connection->redis->settings.shown;
    if (!reply) {
        int code = connection->why.code;
        *definite = !question->sent && (code == HF_DENIED || code == HF_ENOTSUP);
        code = *definite ? code : HF_UNREACHABLE;
        hf__explain(error, code, connection->why.native, "%s", connection->why.text);
        return code;
    }
    int code = hf__reply_code(reply);
    hf__explain(error, code, 0, "Redis at %.100s: %s: %.150s", shown, advice(code),
                reply->type == REDIS_REPLY_ERROR ? reply->str : "a reply of another shape");
    *definite = code != HF_UNREACHABLE;
    return code;
}
