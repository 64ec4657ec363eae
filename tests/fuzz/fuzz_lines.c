/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a memcached server sends, in whatever pieces: nothing crashes, nothing is read beyond
 * what has come, and the pieces make no difference (pieces.h). */
#include "engines/memcached/codec.h"
#include "engines/memcached/format.h"

#include "pieces.h"

#include <string.h>

static void add(struct heard *heard, uint64_t value)
{
    heard->sum = heard->sum * 31 + value;
}

/* A value is read by each format, and the owner in it is the one of the item. */
static void look_at_value(struct heard *heard, const struct mc_reply *reply)
{
    for (int format = MC_HOLDFAST; format <= MC_TOOZ; format++) {
        struct mc_value value;
        hf__mc_read_value(&value, &hf__mc_formats[format], reply->value, reply->length);
        add(heard, strlen(value.owner) + value.token + strlen(value.text));
        bool whole = strlen(value.owner) < HF_OWNER_KEY_SIZE - 1;
        bool plain = !memchr(reply->value, 0, reply->length);
        if (whole && plain && *value.owner &&
            !hf__mc_value_is_of(&hf__mc_formats[format], reply->value, reply->length, value.owner))
            abort();
    }
}

static void look_at_name(struct heard *heard, const struct mc_reply *reply)
{
    char key[MC_KEY_MAX + 1];
    if (reply->length == 0 || memchr(reply->value, 0, reply->length))
        return;
    if (!hf__mc_write_key(key, &hf__mc_formats[MC_HOLDFAST], reply->value, reply->length))
        abort();
    for (const char *at = key; *at; at++)
        if (*at < 0x21 || *at > 0x7e)
            abort();
    add(heard, strlen(key));
}

static void look_at(struct heard *heard, const struct mc_reply *reply)
{
    const char *words;
    add(heard, (uint64_t)reply->kind + reply->cas + (uint64_t)reply->ttl + reply->flags);
    if (reply->value[reply->length] != 0)
        abort();
    for (size_t i = 0; i < reply->length; i++)
        add(heard, (unsigned char)reply->value[i]);
    add(heard, hf__mc_stat_is(reply, "time", &words));
    look_at_value(heard, reply);
    look_at_name(heard, reply);
    heard->count++;
}

/* As the engine does: what has come is kept until a reply is whole. */
static struct heard hear(const char *bytes, size_t length, size_t piece)
{
    struct heard heard = { 0 };
    char *input = malloc(length);
    size_t kept = 0;
    if (!input)
        abort();
    for (size_t at = 0; at < length && !heard.broken; at += piece) {
        size_t part = length - at < piece ? length - at : piece, used = 0;
        memcpy(input + kept, bytes + at, part);
        kept += part;
        long taken = 1;
        while (taken > 0 && used < kept) {
            struct mc_reply reply;
            char *exact = malloc(kept - used);
            if (!exact)
                abort();
            memcpy(exact, input + used, kept - used);
            taken = hf__mc_reply_read(&reply, exact, kept - used);
            free(exact);
            if (taken > 0)
                look_at(&heard, &reply);
            heard.broken = taken < 0;
            used += taken > 0 ? (size_t)taken : 0;
        }
        memmove(input, input + used, kept - used);
        kept -= used;
    }
    free(input);
    return heard;
}
