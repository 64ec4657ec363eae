/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server sends, in whatever pieces: nothing crashes, nothing is allocated beyond reason,
 * and the pieces make no difference (pieces.h). */
#include "engines/redis/show/client_names.h"

#include "pieces.h"

#include <stdlib.h>
#include <string.h>

static size_t look_for_owners(const redisReply *reply)
{
    struct owners owners = { 0 };
    hf__client_names_read(&owners, reply);
    const char *text = hf__client_names_find(&owners, hf__reply_text(reply));
    size_t sum = owners.count + (text ? strlen(text) : 0);
    hf__client_names_release(&owners);
    return sum;
}

static size_t look_at(const redisReply *reply, unsigned depth)
{
    size_t sum = (size_t)hf__reply_number(reply) + strlen(hf__reply_text(reply)) +
                 (size_t)hf__reply_says(reply, "NOSCRIPT");
    if (reply->type == REDIS_REPLY_ERROR)
        sum += (size_t)hf__reply_code(reply);
    if (depth > 32)
        abort();
    sum += look_for_owners(reply);
    for (size_t i = 0; hf__reply_is_array(reply, i + 1); i++)
        sum += look_at(reply->element[i], depth + 1);
    return sum;
}

static struct heard hear(const char *bytes, size_t length, size_t piece)
{
    struct heard heard = { 0 };
    redisReader *reader = hf__reply_reader();
    size_t unread = 0;
    if (!reader)
        abort();
    for (size_t at = 0; at < length && !heard.broken; at += piece) {
        size_t part = length - at < piece ? length - at : piece;
        void *reply = NULL;
        heard.broken = !hf__reply_feed(reader, bytes + at, part, &unread);
        while (!heard.broken) {
            heard.broken = redisReaderGetReply(reader, &reply) != REDIS_OK;
            if (heard.broken || !reply)
                break;
            heard.count++;
            heard.sum += look_at(reply, 0);
            freeReplyObject(reply);
        }
    }
    redisReaderFree(reader);
    return heard;
}
