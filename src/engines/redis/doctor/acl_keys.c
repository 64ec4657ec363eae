/* SPDX-License-Identifier: Apache-2.0 */
/* May this user use the keys and channels of a name? Without a name that the user's programs lock
 * it cannot be known: doctor's own is a stranger to a user that may use some names only. */
#include "doctor.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/topology/cluster.h"
#include "engines/redis/wait/waiter.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAMES_TRIED 20000u
/* A longer name is not put into sentences. */
#define SHOWN_MAX 100u
#define SHOWN_SIZE (2 * SHOWN_MAX + 1)

/* The patterns that a user needs are made of these. */
struct shown_name {
    char name[SHOWN_SIZE];
    char braced[SHOWN_SIZE + 2]; /* it has braces, if need be around all of it */
};

/* ---- what is tried ---- */

/* No program locks a name like that. */
static void name_nothing(const struct redis *redis, char name[UNUSED_NAME_SIZE])
{
    const struct cluster *cluster = redis->cluster;
    for (unsigned i = 0; i < NAMES_TRIED; i++) {
        int length = snprintf(name, UNUSED_NAME_SIZE, "{holdfast-doctor-%u}", i);
        unsigned node = cluster ? cluster->owner[hf__slot_of(name, (size_t)length)] : 0;
        if (!cluster || (node > 0 && cluster->nodes[node - 1] == redis))
            return;
    }
}

void hf__redis_unused_name(const struct asked *asked, const struct redis *redis,
                           char name[UNUSED_NAME_SIZE])
{
    const char *of = asked->examiner->examination->name;
    if (of)
        snprintf(name, UNUSED_NAME_SIZE,
                 strchr(of, '{') ? "%s:holdfast-doctor" : "{%s}:holdfast-doctor", of);
    else
        name_nothing(redis, name);
}

static void add_braced_keys(struct command *command, const char *name, uint32_t length)
{
    hf__command_number(command, 2);
    hf__keys_permits(command, name, length);
    hf__command_print(
        command, strchr(name, '{') ? "%s:0:rwlock_timeout:1" : "{%s}:0:rwlock_timeout:1", name);
}

/* A latch's channel is missing: it is in another slot if the name has a brace, and allowed by the
 * same pattern. */
static void add_redisson_keys(struct command *command, const char *name, uint32_t length,
                              bool simple)
{
    hf__command_number(command, simple ? 1 : 6);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, name, length);
    if (simple)
        return;
    hf__command_derived(command, REDIS_FAIR_QUEUE_PREFIX, name, length);
    hf__command_derived(command, REDIS_FAIR_TIMES_PREFIX, name, length);
    hf__keys_channel(command, REDIS_CHANNEL_MUTEX, name, length);
    hf__keys_channel(command, REDIS_CHANNEL_RW, name, length);
    hf__keys_channel(command, REDIS_CHANNEL_SEMAPHORE, name, length);
}

static void add_our_keys(struct command *command, const char *name, uint32_t length)
{
    hf__command_number(command, 6);
    hf__command_own(command, REDIS_QUEUE_PREFIX, name, length);
    hf__command_own(command, REDIS_PLACES_PREFIX, name, length);
    hf__command_own(command, REDIS_ALIVE_PREFIX, name, length);
    hf__command_own(command, REDIS_MARK_PREFIX, name, length);
    hf__command_own(command, "holdfast_taken", name, length);
    hf__command_derived(command, "holdfast_sync", name, length);
}

/* A server looks at the keys that are announced before it runs a script: this one does nothing. */
void hf__redis_try_keys(const struct asked *asked, struct connection *connection,
                        struct command *command)
{
    char name[UNUSED_NAME_SIZE];
    if (asked->examiner->examination->name)
        snprintf(name, sizeof name, "%s", asked->examiner->examination->name);
    else
        hf__redis_unused_name(asked, connection->redis, name);
    uint32_t length = (uint32_t)strlen(name);
    hf__command_begin(command, "EVAL");
    hf__command_print(command, "return 0");
    switch (asked->probe->group) {
    case KEYS_OWN:
        hf__command_number(command, 1);
        hf__command_copy(command, name, length);
        break;
    case KEYS_BRACED:
        add_braced_keys(command, name, length);
        break;
    case KEYS_REDISSON:
        add_redisson_keys(command, name, length, asked->examiner->simple);
        break;
    case KEYS_HOLDFAST:
    case KEY_GROUPS:
    default:
        add_our_keys(command, name, length);
    }
}

/* No client says anything on the channel that is tried: the answers on this connection are
 * counted. */
static void add_channel(const struct asked *asked, const struct connection *connection,
                        struct command *command)
{
    char name[UNUSED_NAME_SIZE];
    hf__redis_unused_name(asked, connection->redis, name);
    hf__keys_channel(command, REDIS_CHANNEL_MUTEX, name, (uint32_t)strlen(name));
}

void hf__redis_try_listening(const struct asked *asked, struct connection *connection,
                             struct command *command)
{
    hf__command_begin(command, "SUBSCRIBE");
    add_channel(asked, connection, command);
}

void hf__redis_end_listening(const struct asked *asked, struct connection *connection,
                             struct command *command)
{
    hf__command_begin(command, "UNSUBSCRIBE");
    add_channel(asked, connection, command);
}

/* ---- what is said ---- */

/* As a pattern that allows nothing else, as far as one can: patterns have no spaces. */
static struct shown_name shown_name(const struct redis_survey *examiner)
{
    struct shown_name shown;
    const char *name = examiner->examination->name;
    char *at = shown.name;
    if (!name || strlen(name) > SHOWN_MAX)
        name = "NAME";
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            *at++ = '\\';
        *at++ = isspace((unsigned char)*name) ? '?' : *name;
    }
    *at = '\0';
    snprintf(shown.braced, sizeof shown.braced, strchr(shown.name, '{') ? "%s" : "{%s}",
             shown.name);
    return shown;
}

static size_t write_key(const struct redis_survey *examiner, enum key_group group, char *text,
                        size_t size)
{
    struct shown_name shown = shown_name(examiner);
    switch (group) {
    case KEYS_OWN:
        return (size_t)snprintf(text, size, " ~%s", shown.name);
    case KEYS_BRACED:
        return (size_t)snprintf(text, size, " ~%s:*", shown.braced);
    case KEYS_REDISSON:
        return (size_t)snprintf(
            text, size, examiner->simple ? " ~" REDIS_TOKEN_PREFIX ":%s" : " ~redisson_*%s*",
            shown.braced);
    case KEYS_HOLDFAST:
    case KEY_GROUPS:
    default:
        return (size_t)snprintf(text, size, " ~holdfast_*%s*", shown.braced);
    }
}

/* Those that allow the groups of `groups`, a space before each. Returns how much that is. */
static size_t write_keys(const struct redis_survey *examiner, unsigned groups,
                         char text[PATTERNS_SIZE])
{
    size_t used = 0;
    for (unsigned group = 0; group < KEY_GROUPS; group++)
        if (groups & (1u << group))
            used += write_key(examiner, (enum key_group)group, text + used, PATTERNS_SIZE - used);
    return used;
}

static size_t write_channels(const struct redis_survey *examiner, char *text, size_t size)
{
    struct shown_name shown = shown_name(examiner);
    return (size_t)snprintf(text, size, " &redisson_*%s*", shown.braced);
}

void hf__redis_judge_keys(struct redis_survey *examiner, const redisReply *reply)
{
    if (hf__reply_denial(reply) == REPLY_DENIES_KEYS)
        examiner->lacks_keys |= 1u << examiner->probe->group;
}

static void say_deaf(struct redis_survey *examiner, const char *what, const char *cure)
{
    hf__finding_danger(
        &examiner->findings, "channels-denied",
        examiner->lacks_channels
            ? "a waiter for a Java client's lock polls once a second instead of being "
              "woken; and " NOBODY_IS_TOLD
            : "a waiter for a Java client's lock polls once a second instead of being "
              "woken",
        cure, "%s", what);
}

void hf__redis_judge_listening(struct redis_survey *examiner, const redisReply *reply)
{
    char channels[PATTERNS_SIZE] = " &redisson_*", cure[PATTERNS_SIZE + TEXT_SIZE];
    if (reply->type != REDIS_REPLY_ERROR || examiner->simple)
        return;
    examiner->lacks_channels = hf__reply_denial(reply) == REPLY_DENIES_CHANNELS;
    if (examiner->lacks_channels)
        return;
    if (examiner->examination->name)
        write_channels(examiner, channels, sizeof channels);
    snprintf(cure, sizeof cure, "ACL SETUSER ... +subscribe +unsubscribe%s", channels);
    say_deaf(examiner, "this user may not listen to the locks' channels", cure);
}

void hf__redis_write_needs(const struct redis_survey *examiner, char text[PATTERNS_SIZE])
{
    unsigned plain = 1u << KEYS_OWN | 1u << KEYS_REDISSON;
    size_t used = write_keys(examiner, examiner->simple ? plain : ~0u, text);
    if (!examiner->simple) {
        used += write_channels(examiner, text + used, PATTERNS_SIZE - used);
        used += (size_t)snprintf(text + used, PATTERNS_SIZE - used, " &" REDIS_INBOX_PREFIX "*");
    }
    if (examiner->marks)
        snprintf(text + used, PATTERNS_SIZE - used, " &" REDIS_SYNC_CHANNEL);
}

/* No user is to blame: it may be as it should. */
static void say_limited(struct redis_survey *examiner)
{
    char what[TEXT_SIZE], cure[PATTERNS_SIZE + TEXT_SIZE], needs[PATTERNS_SIZE];
    hf__redis_write_needs(examiner, needs);
    snprintf(what, sizeof what, "this user may use the %s of some names only",
             !examiner->lacks_keys       ? "channels"
             : !examiner->lacks_channels ? "keys"
                                         : "keys and channels");
    snprintf(cure, sizeof cure,
             "run `holdfast doctor NAME` with a name that your program locks; a user needs%s for "
             "it",
             needs);
    hf__finding_danger(&examiner->findings, "some-names-only",
                       "whether it may do what the locks of those names need is not seen", cure,
                       "%s", what);
}

static void say_what_lacks(struct redis_survey *examiner)
{
    char what[2 * TEXT_SIZE], cure[PATTERNS_SIZE + TEXT_SIZE], lacks[PATTERNS_SIZE];
    const char *name = examiner->examination->name;
    if (examiner->lacks_keys) {
        write_keys(examiner, examiner->lacks_keys, lacks);
        snprintf(what, sizeof what, "this user may not use all keys of \"%.100s\"", name);
        snprintf(cure, sizeof cure, "ACL SETUSER ...%s", lacks);
        hf__finding_danger(
            &examiner->findings, "name-denied",
            "locks of this name, of some kinds or of all, cannot be taken, renewed or "
            "released",
            cure, "%s", what);
    }
    if (examiner->lacks_channels) {
        write_channels(examiner, lacks, sizeof lacks);
        snprintf(what, sizeof what, "this user may not listen to the channels of \"%.100s\"", name);
        snprintf(cure, sizeof cure, "ACL SETUSER ...%s", lacks);
        say_deaf(examiner, what, cure);
    }
}

void hf__redis_judge_names(struct redis_survey *examiner, const redisReply *reply)
{
    (void)reply;
    if (examiner->examination->name) /* mutant: doctor-does-not-say-what-lacks */
        say_what_lacks(examiner);
    else if (examiner->lacks_keys || examiner->lacks_channels)
        say_limited(examiner);
}
