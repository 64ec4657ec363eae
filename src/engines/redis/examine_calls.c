/* May this user call what our scripts call? Without some of them locks are lost that are held. */
#include "cluster.h"
#include "examine.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

#define NAMES_SIZE 400
#define NAMES_TRIED 20000u

/* Nobody locks what is called so; in a cluster, it is one of the server's own. */
static void name_nothing(const struct redis *redis, char *name, size_t size)
{
    const struct cluster *cluster = redis->cluster;
    for (unsigned i = 0; i < NAMES_TRIED; i++) {
        int length = snprintf(name, size, REDIS_TOKEN_PREFIX ":{holdfast-doctor-%u}", i);
        unsigned node = cluster ? cluster->owner[hf__slot_of(name, (size_t)length)] : 0;
        if (!cluster || (node > 0 && cluster->nodes[node - 1] == redis))
            return;
    }
}

/* It is asked once, so it goes with the script's text. */
void hf__redis_try_calls(struct connection *connection, struct command *command)
{
    char name[80];
    name_nothing(connection->redis, name, sizeof name);
    connection->known_scripts &= ~(UINT64_C(1) << REDIS_DOCTOR_CALLS);
    hf__connection_script(connection, command, REDIS_DOCTOR_CALLS, 1);
    hf__command_copy(command, name, strlen(name));
    hf__command_number(command, connection->redis->settings.simple);
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

void hf__redis_judge_calls(struct examiner *examiner, const redisReply *reply)
{
    char what[NAMES_SIZE], cure[NAMES_SIZE];
    if (hf__reply_says(reply, "NOPERM")) {
        hf__redis_danger(examiner, "this user may not use EVAL or EVALSHA",
                         "no lock can be taken, renewed or given back",
                         "ACL SETUSER ... +eval +evalsha, with the keys that the manual names");
        return;
    }
    if (!hf__reply_is_array(reply, 1))
        return;
    list_names(what, sizeof what, "this user may not call what our scripts do:", reply, "");
    list_names(cure, sizeof cure, "ACL SETUSER ...", reply, "+");
    hf__redis_danger(examiner, what,
                     "what needs them fails: locks are not taken, are not given back, or are lost "
                     "when their first lease ends",
                     cure);
}
