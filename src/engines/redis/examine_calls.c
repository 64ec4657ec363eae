/* May this user call what our scripts call? Without some of them locks are lost that are held. */
#include "cluster.h"
#include "examine.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

#define NAMES_SIZE 400
#define NAME_SIZE 40
#define KEY_SIZE 80
#define NAMES_TRIED 20000u

/* Nobody locks what is called so; in a cluster, it is one of the server's own. */
static void name_nothing(const struct redis *redis, char *name, size_t size)
{
    const struct cluster *cluster = redis->cluster;
    for (unsigned i = 0; i < NAMES_TRIED; i++) {
        int length = snprintf(name, size, "{holdfast-doctor-%u}", i);
        unsigned node = cluster ? cluster->owner[hf__slot_of(name, (size_t)length)] : 0;
        if (!cluster || (node > 0 && cluster->nodes[node - 1] == redis))
            return;
    }
}

static void add_key(struct command *command, const char *prefix, const char *name)
{
    char key[KEY_SIZE];
    int length = snprintf(key, sizeof key, "%s:%s", prefix, name);
    hf__command_copy(command, key, (size_t)length);
}

/* It is asked once, so it goes with the script's text. A server looks at the keys that are
 * announced before it looks at the script: one of each pattern that a lock of any name needs. */
void hf__redis_try_calls(struct connection *connection, struct command *command)
{
    char name[NAME_SIZE];
    bool simple = connection->redis->settings.simple;
    name_nothing(connection->redis, name, sizeof name);
    connection->known_scripts &= ~(UINT64_C(1) << REDIS_DOCTOR_CALLS);
    hf__connection_script(connection, command, REDIS_DOCTOR_CALLS, simple ? 1 : 2);
    add_key(command, REDIS_TOKEN_PREFIX, name);
    if (!simple)
        add_key(command, REDIS_MARK_PREFIX, name);
    hf__command_number(command, simple);
}

/* "what" and the names, each with `mark` before it, as far as there is room. */
static void list_names(char *text, size_t size, const char *what, const redisReply *names,
                       const char *mark)
{
    size_t used = (size_t)snprintf(text, size, "%s", what);
    for (size_t i = 0; i < names->elements && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %s%s", mark,
                                 hf__reply_text(names->element[i]));
}

/* No script was run at all. */
static void judge_denial(struct examiner *examiner, enum reply_denial denial)
{
    static const char consequence[] = "no lock can be taken, renewed or given back";
    if (denial == REPLY_DENIES_KEYS && examiner->simple)
        hf__redis_danger(examiner, "this user may not use the locks' keys " REDIS_TOKEN_PREFIX ":*",
                         consequence,
                         "ACL SETUSER ... ~NAME ~" REDIS_TOKEN_PREFIX ":*, for each NAME of a "
                         "lock");
    else if (denial == REPLY_DENIES_KEYS)
        hf__redis_danger(examiner,
                         "this user may not use all of the locks' keys redisson_* and holdfast_*",
                         consequence,
                         "ACL SETUSER ... ~NAME ~{NAME}:* ~redisson_* ~holdfast_*, for each NAME "
                         "of a lock");
    else
        hf__redis_danger(examiner, "this user may not use EVAL or EVALSHA", consequence,
                         "ACL SETUSER ... +eval +evalsha, with the keys that the manual names");
}

/* How many there are is only known to who may use INFO, and how many it wants by CONFIG. */
static void judge_followers(struct examiner *examiner)
{
    char what[TEXT_SIZE], wanted[NUMBER_SIZE + 8] = "", there[NUMBER_SIZE + 16] = "";
    if (*examiner->replicas_wanted)
        snprintf(wanted, sizeof wanted, " is %s", examiner->replicas_wanted);
    if (*examiner->replicas_good)
        snprintf(there, sizeof there, " (%s)", examiner->replicas_good);
    snprintf(what, sizeof what,
             "the server refuses all writes, as fewer good replicas%s follow it than it wants: "
             "min-replicas-to-write%s",
             there, wanted);
    hf__redis_danger(
        examiner, what,
        "no lock is granted, renewed or given back (HF_UNREACHABLE), and one that is held is lost "
        "when its lease ends",
        "bring back replicas that lag by no more than min-replicas-max-lag, or CONFIG SET "
        "min-replicas-to-write to as many as there are");
}

/* A server may refuse whatever it would have to keep, whoever asks. */
static void judge_room(struct examiner *examiner, const redisReply *words)
{
    if (strstr(hf__reply_text(words), "OOM "))
        hf__redis_danger(
            examiner, "the server's memory is full: more than maxmemory is used",
            "no lock is granted (HF_ELIMIT), neither to who asks nor to who waits",
            "CONFIG SET maxmemory to more, or free memory: delete what is not needed, or use a "
            "server for locks alone");
    else if (strstr(hf__reply_text(words), "MISCONF") && !examiner->fails_to_write)
        hf__redis_danger(examiner, "the server refuses all writes, as it failed to write to disk",
                         "no lock is granted, renewed or given back (HF_ELIMIT)",
                         "see its log; free some space, or mend the permissions of its directory");
    else if (strstr(hf__reply_text(words), "NOREPLICAS"))
        judge_followers(examiner);
}

void hf__redis_judge_calls(struct examiner *examiner, const redisReply *reply)
{
    char what[NAMES_SIZE], cure[NAMES_SIZE];
    if (hf__reply_says(reply, "NOPERM")) {
        judge_denial(examiner, hf__reply_denial(reply));
        return;
    }
    if (!hf__reply_is_array(reply, 2))
        return;
    judge_room(examiner, reply->element[0]);
    const redisReply *names = reply->element[1];
    if (!hf__reply_is_array(names, 1))
        return;
    list_names(what, sizeof what, "this user may not call what our scripts do:", names, "");
    list_names(cure, sizeof cure, "ACL SETUSER ...", names, "+");
    hf__redis_danger(examiner, what,
                     "what needs them fails: locks are not taken, are not given back, or are lost "
                     "when their first lease ends",
                     cure);
}
