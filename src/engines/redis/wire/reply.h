/* SPDX-License-Identifier: Apache-2.0 */
/* What a server says, as text and numbers, whatever shape it came in; and what its errors mean
 * (reply.c). Knows no connection. */
#ifndef HF_ENGINES_REDIS_WIRE_REPLY_H
#define HF_ENGINES_REDIS_WIRE_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reader that refuses what no answer to us can be: too long, too deep, too many elements. */
redisReader *hf__reply_reader(void);
/* Feeds the bytes; false: the reader is out of order, or a limit is reached. `*unread` counts the
 * bytes since the last whole reply. */
bool hf__reply_feed(redisReader *reader, const char *bytes, size_t length, size_t *unread);

/* Is it an array of at least `count` elements? */
bool hf__reply_is_array(const redisReply *reply, size_t count);
/* A number: an integer, or its digits. -1 for anything else. */
int64_t hf__reply_number(const redisReply *reply);
/* The text, or "" for what is none. */
const char *hf__reply_text(const redisReply *reply);

/* What INFO says, a line of "key:value"; "" where there is none. Returns `value`. */
const char *hf__reply_info(const redisReply *reply, const char *key, char *value, size_t size);
/* "standalone", "cluster" or "sentinel", as INFO says it. Valkey has a key of its own for it. */
const char *hf__reply_server_mode(const redisReply *reply, char *value, size_t size);

/* What an error reply means: an hf_code; HF_UNREACHABLE for those that pass by themselves, and for
 * those that are open. */
int hf__reply_code(const redisReply *error);
/* An error of which nothing is known, as a proxy's whose server has not replied to it: the request
 * may have been executed, or is going to be. It counts as a missing reply. */
bool hf__reply_is_open(const redisReply *reply);
/* Is a command missing at the server, as it is renamed or was never there? */
bool hf__reply_lacks_command(const redisReply *error);
bool hf__reply_says(const redisReply *reply, const char *word);

/* What an error reply says that the user may not use. */
enum reply_denial {
    REPLY_DENIES_NOTHING,
    REPLY_DENIES_COMMAND,
    REPLY_DENIES_KEYS,
    REPLY_DENIES_CHANNELS
};
enum reply_denial hf__reply_denial(const redisReply *error);

#endif
