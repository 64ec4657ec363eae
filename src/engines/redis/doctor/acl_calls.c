/* SPDX-License-Identifier: Apache-2.0 */
/* May this user call what our scripts call? Without some of them locks are lost that are held. */
#include "doctor.h"
#include "engines/redis/kinds/keys.h"

#include <stdio.h>
#include <string.h>

#define NAMES_SIZE 400

/* It is asked once, so it goes with the script's text. No key is announced: a server that refuses
 * one would not look at the script at all, and what a script calls is refused before its key. */
void hf__redis_try_calls(const struct asked *asked, struct connection *connection,
                         struct command *command)
{
    char name[UNUSED_NAME_SIZE];
    hf__redis_unused_name(asked, connection->redis, name);
    connection->known_scripts &= ~(UINT64_C(1) << REDIS_DOCTOR_CALLS);
    hf__connection_script(connection, command, REDIS_DOCTOR_CALLS, 0);
    hf__command_number(command, connection->redis->settings.simple);
    hf__command_print(command, REDIS_TOKEN_PREFIX ":%s", name);
}

/* The names behind the text, each with `mark` before it, as far as there is room. */
static void add_names(char text[NAMES_SIZE], const redisReply *names, const char *mark)
{
    size_t used = strlen(text);
    for (size_t i = 0; hf__reply_is_array(names, i + 1) && used < NAMES_SIZE; i++)
        used += (size_t)snprintf(text + used, NAMES_SIZE - used, " %s%s", mark,
                                 hf__reply_text(names->element[i]));
}

/* How many there are is only known to a user that may use INFO, and how many it wants by CONFIG. */
static void judge_followers(struct redis_survey *examiner)
{
    char wanted[NUMBER_SIZE + 8] = "", there[NUMBER_SIZE + 16] = "";
    if (*examiner->replicas_wanted)
        snprintf(wanted, sizeof wanted, " is %s", examiner->replicas_wanted);
    if (*examiner->replicas_good)
        snprintf(there, sizeof there, " (%s)", examiner->replicas_good);
    hf__finding_danger(
        &examiner->findings, "replicas-missing",
        "no lock is granted, renewed or released (HF_UNREACHABLE), and one that is held is lost "
        "when its lease ends",
        "bring back replicas that lag by no more than min-replicas-max-lag, or CONFIG SET "
        "min-replicas-to-write to as many as there are",
        "the server refuses all writes, as fewer good replicas%s follow it than it wants: "
        "min-replicas-to-write%s",
        there, wanted);
}

/* A server may refuse whatever it would have to keep, to every user. */
static void judge_room(struct redis_survey *examiner, const redisReply *words)
{
    if (strstr(hf__reply_text(words), "OOM "))
        hf__finding_danger(
            &examiner->findings, "memory-full",
            "no lock is granted, to new requests or to waiters (HF_ELIMIT)",
            "CONFIG SET maxmemory to more, or free memory: delete what is not needed, or use a "
            "server for locks alone",
            "the server's memory is full: more than maxmemory is used");
    else if (strstr(hf__reply_text(words), "MISCONF") && !examiner->fails_to_write)
        hf__finding_danger(
            &examiner->findings, "writes-stopped",
            "no lock is granted, renewed or released (HF_ELIMIT)",
            "see its log; free some space, or repair the permissions of its directory",
            "the server refuses all writes, as it failed to write to disk");
    else if (strstr(hf__reply_text(words), "NOREPLICAS"))
        judge_followers(examiner);
}

static bool are_for_telling(const redisReply *names)
{
    for (size_t i = 0; i < names->elements; i++) {
        const char *name = hf__reply_text(names->element[i]);
        if (strcmp(name, "publish") != 0 && strcmp(name, "spublish") != 0)
            return false;
    }
    return true;
}

/* Nor is it seen then which keys it may use; and a user that may use all cannot be given some. */
static void say_no_scripts(struct redis_survey *examiner)
{
    char needs[PATTERNS_SIZE] = " the keys that the manual names", cure[PATTERNS_SIZE + TEXT_SIZE];
    bool named = examiner->examination->name;
    if (named)
        hf__redis_write_needs(examiner, needs);
    snprintf(cure, sizeof cure,
             "ACL SETUSER ... +eval +evalsha, with%s%s; then look again: what scripts may not call "
             "is seen by a script",
             needs, named ? ", unless it may use all keys and channels" : "");
    hf__finding_danger(&examiner->findings, "eval-denied",
                       "no lock can be taken, renewed or released", cure,
                       "this user may not use EVAL or EVALSHA");
}

void hf__redis_judge_calls(struct redis_survey *examiner, const redisReply *reply)
{
    char what[NAMES_SIZE] = "this user may not call what our scripts do:";
    char cure[NAMES_SIZE] = "ACL SETUSER ...";
    if (hf__reply_says(reply, "NOPERM")) {
        say_no_scripts(examiner);
        return;
    }
    if (hf__reply_lacks_command(reply) || examiner->unknown_digests) {
        hf__finding_danger(&examiner->findings, "eval-unknown",
                           "no lock can be taken, renewed or released (HF_ENOTSUP)",
                           "take rename-command for them out of its configuration; if others must "
                           "not use them, forbid that by ACL",
                           "the server does not know EVAL or EVALSHA");
        return;
    }
    if (examiner->lacks_digests) /* mutant: without-evalsha-nothing */
        hf__finding_danger(&examiner->findings, "evalsha-denied",
                           "a lock is neither renewed nor, later, released, and is lost when its "
                           "first lease ends",
                           "ACL SETUSER ... +evalsha", "this user may not use EVALSHA");
    if (!hf__reply_is_array(reply, 3))
        return;
    judge_room(examiner, reply->element[0]);
    const redisReply *names = reply->element[1];
    if (!hf__reply_is_array(names, 1))
        return;
    add_names(what, names, "");
    if (hf__reply_is_array(reply->element[2], 1)) {
        size_t used = strlen(what);
        snprintf(what + used, sizeof what - used, "; what could not be tried:");
        add_names(what, reply->element[2], "");
    }
    add_names(cure, names, "+");
    add_names(cure, reply->element[2], "+");
    hf__finding_danger(&examiner->findings, "scripts-denied",
                       are_for_telling(names) /* mutant: what-user-may-tell-none */
                           ? NOBODY_IS_TOLD
                           : "what needs them fails: locks are not taken, are not released, or are "
                             "lost when their first lease ends",
                       cure, "%s", what);
}
