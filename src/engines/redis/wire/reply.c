/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: read by hiredis within limits of ours, and taken apart without trusting their shape. */
#include "reply.h"

#include <holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No answer to us is longer, or has more elements in one array; hiredis limits the depth itself. */
#define REPLY_BYTES_MAX ((size_t)1 << 20)
#define REPLY_ELEMENTS_MAX 16384

#if HIREDIS_MAJOR < 1

/* hiredis allocates for as many elements as the server announces, whether or not they come. */
static redisReplyObjectFunctions limited;
static void *(*create_array)(const redisReadTask *, int);

static void *create_limited_array(const redisReadTask *task, int elements)
{
    return elements > REPLY_ELEMENTS_MAX ? NULL : create_array(task, elements);
}

/* The functions are the same for all readers. Nothing is allocated to learn them: what failed once
 * would have failed for the process. */
static void limit(redisReader *reader)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (!create_array) {
        create_array = reader->fn->createArray;
        limited = *reader->fn;
        limited.createArray = create_limited_array;
    }
    pthread_mutex_unlock(&mutex);
    reader->fn = &limited;
}

#else

static void limit(redisReader *reader)
{
    reader->maxelements = REPLY_ELEMENTS_MAX;
}

#endif

redisReader *hf__reply_reader(void)
{
    redisReader *reader = redisReaderCreate();
    if (reader)
        limit(reader);
    return reader;
}

bool hf__reply_feed(redisReader *reader, const char *bytes, size_t length, size_t *unread)
{
    *unread += length;
    /* mutant: answers-may-be-as-long-as-they */
    return *unread <= REPLY_BYTES_MAX && redisReaderFeed(reader, bytes, length) == REDIS_OK;
}

bool hf__reply_is_array(const redisReply *reply, size_t count)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= count;
}

static bool is_text(const redisReply *reply)
{
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                     reply->type == REDIS_REPLY_ERROR);
}

const char *hf__reply_text(const redisReply *reply)
{
    return is_text(reply) ? reply->str : "";
}

int64_t hf__reply_number(const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    const char *text = hf__reply_text(reply);
    char *end;
    long long number = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end ? number : -1;
}

bool hf__reply_says(const redisReply *reply, const char *word)
{
    return strncmp(hf__reply_text(reply), word, strlen(word)) == 0;
}

const char *hf__reply_info(const redisReply *reply, const char *key, char *value, size_t size)
{
    char line[80];
    snprintf(line, sizeof line, "\n%s:", key);
    const char *found = strstr(hf__reply_text(reply), line);
    const char *begin = found ? found + strlen(line) : "";
    snprintf(value, size, "%.*s", (int)strcspn(begin, "\r\n"), begin);
    return value;
}

const char *hf__reply_server_mode(const redisReply *reply, char *value, size_t size)
{
    hf__reply_info(reply, "redis_mode", value, size);
    return *value ? value : hf__reply_info(reply, "server_mode", value, size);
}

/* What is known of an error. The server has executed nothing, or has stopped a script on its way;
 * or it says the same until its state changes (HF_UNREACHABLE). Inside a script the word stands at
 * the begin or, with older servers, further behind. */
static const struct {
    const char *word;
    int code;
} meanings[] = {
    { "WRONGTYPE", HF_EKIND },
    { "WRONGPASS", HF_DENIED },
    { "NOAUTH", HF_DENIED },
    { "NOPERM", HF_DENIED },
    { "The user executing the script can't", HF_DENIED },
    { "ACL failure in script", HF_DENIED },
    { "invalid password", HF_DENIED },
    { "OOM ", HF_ELIMIT },
    { "MISCONF", HF_ELIMIT },
    { "NOREPLICAS", HF_UNREACHABLE },
    { "LOADING", HF_UNREACHABLE },
    { "BUSY ", HF_UNREACHABLE },
    { "MASTERDOWN", HF_UNREACHABLE },
    { "READONLY", HF_UNREACHABLE },
    { "TRYAGAIN", HF_UNREACHABLE },
    { "CLUSTERDOWN", HF_UNREACHABLE },
    { "MOVED ", HF_ENOTSUP },
    { "CROSSSLOT", HF_ENOTSUP },
    { "cluster support disabled", HF_ENOTSUP },
    { "non local key", HF_UNREACHABLE }, /* its slot is on its way */
    { "max number of clients", HF_ELIMIT },
    { "protected mode", HF_DENIED },
    { "nknown command", HF_ENOTSUP }, /* also where a script calls it */
    { "Unknown Redis command", HF_ENOTSUP },
    /* What the command itself is refused for, and scripts that the server stops on their way. */
    { "NOSCRIPT", HF_EINTERNAL },
    { "user_script", HF_EINTERNAL },
    { "running script", HF_EINTERNAL },
    { "compiling script", HF_EINTERNAL },
    { "wrong number of arguments", HF_EINTERNAL },
    { "syntax error", HF_EINTERNAL },
    { "ERR Protocol error", HF_EINTERNAL },
    { "EXECABORT", HF_EINTERNAL },
    { "nknown subcommand", HF_EINTERNAL },
    { "value is not", HF_EINTERNAL },
    { "invalid expire", HF_EINTERNAL },
    { "would overflow", HF_EINTERNAL },
    { "out of range", HF_EINTERNAL },
    { "invalid DB index", HF_EINTERNAL },
    { "any password configured", HF_EINTERNAL },
    { "no password is set", HF_EINTERNAL },
};

/* NULL: nothing is known of it. */
static const int *meaning_of(const redisReply *error)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strstr(hf__reply_text(error), meanings[i].word))
            return &meanings[i].code;
    return NULL;
}

bool hf__reply_is_open(const redisReply *reply)
{
    /* mutant: redis-error-of-a-proxy */
    return reply && reply->type == REDIS_REPLY_ERROR && !meaning_of(reply);
}

int hf__reply_code(const redisReply *error)
{
    if (hf__reply_is_open(error))
        return HF_UNREACHABLE;
    const int *code = meaning_of(error);
    return code ? *code : HF_EINTERNAL;
}

bool hf__reply_lacks_command(const redisReply *error)
{
    const char *text = hf__reply_text(error);
    return strstr(text, "nknown command") || strstr(text, "Unknown Redis command");
}

/* The sentences differ between versions, and between scripts and commands; these words do not. The
 * sentence about a command is looked for first: it may name a user called "key". */
enum reply_denial hf__reply_denial(const redisReply *error)
{
    const char *text = hf__reply_text(error);
    if (hf__reply_code(error) != HF_DENIED)
        return REPLY_DENIES_NOTHING;
    if (strstr(text, "permissions to run") || strstr(text, "can't run this command"))
        return REPLY_DENIES_COMMAND;
    if (strstr(text, " channel"))
        return REPLY_DENIES_CHANNELS;
    /* mutant: doctor-takes-keys */
    return strstr(text, " key") ? REPLY_DENIES_KEYS : REPLY_DENIES_NOTHING;
}
