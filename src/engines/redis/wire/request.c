/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: their memory, and what it means when one is not answered as hoped. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

/* Of the server's words, which may be long. */
#define WORDS_MAX 150
#define PREFIX_SIZE 90
/* A script's, in hexadecimal digits. */
#define DIGEST_LENGTH 40

struct redis_request *hf__request_new(struct redis *redis)
{
    struct redis_request *request =
        (struct redis_request *)hf__free_list_take(&redis->front->free_requests);
    if (request) {
        *request = (struct redis_request){ .memory = NULL };
        hf__link_init(&request->item.link);
        hf__link_init(&request->parts);
    }
    return request;
}

void hf__request_free(struct redis *redis, struct redis_request *request)
{
    struct hf_link *part;
    while ((part = hf__list_pop(&request->parts)))
        hf__request_free(redis, hf__request_at(part));
    hf__link_remove(&request->item.link);
    free(request->memory);
    request->memory = NULL;
    hf__free_list_put(&redis->front->free_requests, &request->item);
}

void hf__request_ignored(struct connection *connection, struct redis_request *request,
                         const redisReply *reply)
{
    (void)reply;
    hf__request_free(connection->redis, request);
}

void hf__request_executed(struct redis_request *request)
{
    struct hf_known *known = &request->op->engine.known;
    bool earlier_may_come = known->before & HF_KNOWN_MAY_COME;
    hf__known_reply(known, HF_WORD_OPEN);
    if (!earlier_may_come)
        hf__known_settled(known);
}

#define SEE "; `holdfast doctor NAME` says what lacks"

/* What a refused user has to be given (ACL). */
static const char *right_that_lacks(const struct redis *redis, const struct redis_request *request,
                                    const redisReply *reply)
{
    switch (hf__reply_denial(reply)) {
    case REPLY_DENIES_COMMAND:
        if (request->unmapped)
            return "in a cluster a user needs +cluster|slots";
        return "this user may not call a command that it needs; `holdfast doctor` lists them";
    case REPLY_DENIES_KEYS:
        return redis->settings.simple
                   ? "this user needs the keys ~NAME ~" REDIS_TOKEN_PREFIX ":{NAME} of a lock" SEE
                   : "this user needs the keys ~NAME ~{NAME}:* ~redisson_*{NAME}* "
                     "~holdfast_*{NAME}* of a lock" SEE;
    case REPLY_DENIES_CHANNELS:
        return "this user needs the channels &redisson_*{NAME}* &" REDIS_INBOX_PREFIX "*" SEE;
    case REPLY_DENIES_NOTHING:
    default:
        return "the server refuses this user";
    }
}

/* What the user is to do about an error of the server's. */
static const char *advice(const struct redis *redis, const struct redis_request *request, int code,
                          const redisReply *reply)
{
    if (hf__reply_lacks_command(reply))
        return "the server does not know a command that locks need; it is renamed there "
               "(rename-command), or this is not Redis";
    if (hf__reply_is_open(reply))
        return "an error that leaves open whether the request was executed";
    if (redis->cluster && code == HF_ENOTSUP)
        return "this server is not part of a cluster; redis: is the URL for it";
    switch (code) {
    case HF_EKIND:
        if (strstr(hf__reply_text(reply), "last token"))
            return "the key of its token, " REDIS_TOKEN_PREFIX ":{NAME}, has something else in it";
        return redis->settings.simple
                   ? "the name is in use as something else than a plain lock, which format=simple "
                     "is for"
                   : "the name is in use as another kind of thing; if that is a plain lock (SET NX "
                     "PX, as redis-py's), say format=simple";
    case HF_DENIED:
        return right_that_lacks(redis, request, reply);
    case HF_ELIMIT:
        return "the server takes no more";
    case HF_ENOTSUP:
        return "this server is part of a cluster; redis+cluster: is the URL for it";
    case HF_EINVAL:
        return "in a cluster a name has either no braces at all or a pair with something inside, "
               "and a latch's has none";
    case HF_UNREACHABLE:
        return hf__reply_says(reply, "NOREPLICAS")
                   ? "too few replicas follow the server, so it writes nothing "
                     "(min-replicas-to-write)"
                   : "the server is not ready";
    default:
        return "the server's answer is not understood";
    }
}

int hf__request_code(const struct redis *redis, const redisReply *reply)
{
    if (redis->cluster && (hf__reply_says(reply, "MOVED ") || hf__reply_says(reply, "ASK ")))
        return HF_UNREACHABLE;
    if (redis->cluster && hf__reply_says(reply, "CROSSSLOT"))
        return HF_EINVAL;
    return hf__reply_code(reply);
}

/* The server's words, without what Redis 7 adds to them: "... script: DIGEST, on LINE." says
 * nothing to a caller that wants a lock. Nor do the arguments of a command that is not known, which
 * may be a whole script. */
static int length_of_words(const char *words)
{
    static const char begin[] = " script: ";
    const char *arguments = strstr(words, ", with args");
    if (arguments && strstr(words, "nknown command"))
        return (int)(arguments - words);
    const char *added = strstr(words, begin);
    if (added && strspn(added + sizeof begin - 1, "0123456789abcdef") == DIGEST_LENGTH)
        return (int)(added - words);
    return (int)strlen(words);
}

/* `"NAME": ` where it matters which one it is, or "". */
static void write_prefix(int code, const char *name, char prefix[PREFIX_SIZE])
{
    *prefix = '\0';
    if (name && (code == HF_EKIND || code == HF_DENIED))
        snprintf(prefix, PREFIX_SIZE, "\"%.80s\": ", name);
}

int hf__request_failed(const struct connection *connection, const struct redis_request *request,
                       const redisReply *reply, const char *name, hf_error **error, bool *definite)
{
    const char *shown = connection->redis->settings.shown;
    char prefix[PREFIX_SIZE];
    if (!reply) {
        int code = connection->peer.why.code;
        *definite =
            !request->item.sent && (code == HF_DENIED || code == HF_EINVAL || code == HF_ENOTSUP);
        /* A server that is full may have room soon. */
        bool full = !request->item.sent && code == HF_ELIMIT;
        code = *definite || full ? code : HF_UNREACHABLE;
        hf__explain(error, code, connection->peer.why.native, "%s", connection->peer.why.text);
        return code;
    }
    int code = hf__request_code(connection->redis, reply);
    *definite = code != HF_UNREACHABLE;
    write_prefix(code, name, prefix);
    /* There the server's own words are of scripts and types. */
    if (code == HF_EKIND) { /* mutant: owner-meant-other-format */
        hf__explain(error, code, 0, "Redis at %.100s: %s%s", shown, prefix,
                    advice(connection->redis, request, code, reply));
        return code;
    }
    const char *words = reply->type == REDIS_REPLY_ERROR ? reply->str : "a reply of another shape";
    int length = length_of_words(words);
    hf__explain(error, code, 0, "Redis at %.100s: %s%s: %.*s", shown, prefix,
                advice(connection->redis, request, code, reply),
                length < WORDS_MAX ? length : WORDS_MAX, words);
    return code;
}
