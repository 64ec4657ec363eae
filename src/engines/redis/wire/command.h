/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is told: a command is put together word by word, then written to a stream
 * (command.c). Most of them run a script, which REDIS_SCRIPTS numbers. */
#ifndef HF_ENGINES_REDIS_WIRE_COMMAND_H
#define HF_ENGINES_REDIS_WIRE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_stream;

enum redis_script {
#define HF_SCRIPT(name, sha, text, sharded_sha, sharded_text) REDIS_##name,
#include "engines/redis/scripts.inc"
#undef HF_SCRIPT
    REDIS_SCRIPTS
};

/* Leases renewed by one call. */
#define REDIS_RENEWALS 128u
/* The same for leases of which a second key has to be named, in a cluster. */
#define REDIS_PAIR_RENEWALS 8u
/* Of those a kind may add to the call for each lease, beside the lock's name. */
#define REDIS_RENEWAL_ARGUMENTS 2u
#define REDIS_ARGUMENTS ((1u + REDIS_RENEWAL_ARGUMENTS) * REDIS_RENEWALS + 4u)

#define REDIS_TEXT_SIZE 16384u

/* The arguments are not copied, but for those that the command itself makes into text. */
struct command {
    int count;
    const char *arguments[REDIS_ARGUMENTS];
    size_t lengths[REDIS_ARGUMENTS];
    size_t used;
    char text[REDIS_TEXT_SIZE];
};

void hf__command_begin(struct command *command, const char *word);
void hf__command_add(struct command *command, const char *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void hf__command_print(struct command *command,
                                                             const char *format, ...);
void hf__command_number(struct command *command, int64_t number); /* not below 0 */
/* The same with bytes that do not stay where they are. */
void hf__command_copy(struct command *command, const void *bytes, size_t length);
/* Redisson's rule for what belongs to a lock: "prefix:name" if the name has a brace, else
 * "prefix:{name}". */
void hf__command_derived(struct command *command, const char *prefix, const char *name,
                         uint32_t length);
/* For what is ours alone, and need not be the same for "name" and "{name}": "prefix::name" if the
 * name has a brace, else "prefix:{name}". */
void hf__command_own(struct command *command, const char *prefix, const char *name,
                     uint32_t length);

/* False: out of memory, or too much waits; nothing was queued. */
bool hf__command_write(const struct command *command, struct hf_stream *stream);
#define REDIS_DIGITS_MAX 20u
/* Writes its digits, without a NUL; returns how many they are. */
size_t hf__write_number(char *at, uint64_t number);

#endif
