/* SPDX-License-Identifier: Apache-2.0 */
/* A server that answers word for word as the test says: what is in pieces is put together, what
 * passes by itself is asked again, what does not is told as what it is. */
#include "conformance.h"
#include "redis_script.h"
#include "server.h"

#define REPLIES 8
#define GRANT "*2\r\n:1\r\n$2\r\n42\r\n"

struct actor {
    struct script script;
    bool in_pieces;
    /* To what comes after the greetings, on whichever connection; the last one again and again. */
    const char *says[REPLIES];
    int said;
};

static const char *reply_to(struct script *script, const struct script_call *call)
{
    struct actor *actor = script->arg;
    const char *reply = script_usual(call);

    if (reply)
        return reply;
    reply = actor->says[actor->said];
    if (actor->said + 1 < REPLIES && actor->says[actor->said + 1])
        actor->said++;
    return reply;
}

static hf_client *meet(struct actor *actor)
{
    hf_client *client = NULL;

    actor->script =
        (struct script){ .answer = reply_to, .arg = actor, .in_pieces = actor->in_pieces };
    script_start(&actor->script);
    CHECK_CODE(
        hf_open(&client, server_url(&(struct server){ .port = actor->script.port }, 20000), NULL),
        HF_OK);
    return client;
}

static void part(struct actor *actor, hf_client *client)
{
    hf_close(client);
    script_end(&actor->script);
}

TEST(an_answer_in_pieces_is_one)
{
    struct actor actor = { .in_pieces = true, .says = { GRANT, ":1\r\n" } };
    hf_client *client = meet(&actor);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    CHECK(hf_token(hold) == 42);
    give_back(hold);
    part(&actor, client);
}

TEST(what_passes_by_itself_is_asked_again)
{
    struct actor actor = {
        .says = { "-NOREPLICAS Not enough good replicas to write.\r\n",
                  "-LOADING Redis is loading the dataset in memory\r\n",
                  "-BUSY Redis is busy running a script. You can only call SCRIPT KILL\r\n",
                  "-NOSCRIPT No matching script. Please use EVAL.\r\n",
                  "-READONLY You can't write against a read only replica.\r\n",
                  "-MASTERDOWN Link with MASTER is down\r\n", GRANT, ":1\r\n" },
    };
    hf_client *client = meet(&actor);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK(hf_token(hold) == 42);
    give_back(hold);
    part(&actor, client);
}

#define KEYS "keys ~NAME ~{NAME}:* ~redisson_*{NAME}* ~holdfast_*{NAME}*"
#define CHANNELS "channels &redisson_*{NAME}* &holdfast:*"

static const struct {
    const char *says, *word;
    int code;
} finals[] = {
    { "-LOADING Redis is loading the dataset in memory\r\n", "LOADING", HF_UNREACHABLE },
    { "-BUSY Redis is busy running a script.\r\n", "BUSY", HF_UNREACHABLE },
    { "-READONLY You can't write against a read only replica.\r\n", "READONLY", HF_UNREACHABLE },
    { "-NOSCRIPT No matching script. Please use EVAL.\r\n", "NOSCRIPT", HF_EINTERNAL },
    { "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "OOM", HF_ELIMIT },
    { "-MISCONF Errors writing to the AOF file\r\n", "MISCONF", HF_ELIMIT },
    { "-NOREPLICAS Not enough good replicas to write.\r\n", "NOREPLICAS", HF_UNREACHABLE },
    { "-NOPERM this user has no permissions\r\n", "refuses this user: NOPERM", HF_DENIED },
    /* Of what, in the words of 6.2, 7.0 and 7.2, and of their scripts. */
    { "-NOPERM this user has no permissions to run the 'eval' command or its subcommand\r\n",
      "doctor", HF_DENIED },
    { "-NOPERM this user has no permissions to run the 'eval' command\r\n", "doctor", HF_DENIED },
    { "-NOPERM User a key has no permissions to run the 'eval' command\r\n", "doctor", HF_DENIED },
    { "-ERR The user executing the script can't run this command or subcommand\r\n", "doctor",
      HF_DENIED },
    { "-NOPERM ACL failure in script: User bob has no permissions to run the 'get' command\r\n",
      "doctor", HF_DENIED },
    { "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", KEYS,
      HF_DENIED },
    { "-NOPERM No permissions to access a key\r\n", KEYS, HF_DENIED },
    { "-ERR The user executing the script can't access at least one of the keys mentioned in the "
      "command arguments\r\n",
      KEYS, HF_DENIED },
    { "-NOPERM ACL failure in script: No permissions to access a key\r\n", KEYS, HF_DENIED },
    { "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
      CHANNELS, HF_DENIED },
    { "-NOPERM No permissions to access a channel\r\n", CHANNELS, HF_DENIED },
    { "-ERR The user executing the script can't publish to the channel mentioned in the "
      "command\r\n",
      CHANNELS, HF_DENIED },
    { "-NOPERM ACL failure in script: No permissions to access a channel\r\n", CHANNELS,
      HF_DENIED },
    { "-WRONGTYPE Operation against a key\r\n", "format=simple", HF_EKIND },
    { "-ERR max number of clients reached\r\n", "max number", HF_ELIMIT },
    { "*2\r\n:1\r\n$-1\r\n", "another shape", HF_EINTERNAL },
    { "*2\r\n:1\r\n$3\r\nabc\r\n", "another shape", HF_EINTERNAL },
};

static void meet_final(void *arg, int index)
{
    (void)arg;
    /* The last one is for a release of what may have been taken. */
    struct actor actor = { .says = { finals[index].says, ":0\r\n" } };
    if (finals[index].code == HF_EINTERNAL)
        actor.says[1] = NULL;
    hf_client *client = meet(&actor);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), finals[index].code);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, finals[index].word) != NULL);
    part(&actor, client);
}

TEST(each_refusal_is_told_as_what_it_is)
{
    processes_run(sizeof(finals) / sizeof(finals[0]), meet_final, NULL);
}
