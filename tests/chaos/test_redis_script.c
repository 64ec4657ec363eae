/* A server that answers word for word as the test says: what is in pieces is put together, what
 * passes by itself is asked again, what does not is told as what it is. */
#include "conformance.h"
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLIES 8
#define GRANT "*2\r\n:1\r\n$2\r\n42\r\n"

struct actor {
    struct child process;
    int port;
    bool in_pieces;
    /* To what comes after the greetings, on whichever connection; the last one again and again. */
    const char *says[REPLIES];
    int said;
};

static void say(const struct actor *actor, int fd, const char *text)
{
    size_t step = actor->in_pieces ? 1 : strlen(text);

    for (; *text; text += step)
        if (send(fd, text, step, MSG_NOSIGNAL) < 0)
            return;
}

/* The first two words of a command; false: there are no more. */
static bool hear(FILE *from, char words[2][40])
{
    static char word[65536];
    int count, length;

    if (fscanf(from, "*%d\r\n", &count) != 1)
        return false;
    words[0][0] = words[1][0] = '\0';
    for (int i = 0; i < count; i++) {
        if (fscanf(from, "$%d\r\n", &length) != 1 || length + 2 > (int)sizeof(word) ||
            fread(word, 1, (size_t)length + 2, from) != (size_t)length + 2)
            return false;
        if (i < 2)
            snprintf(words[i], sizeof(words[i]), "%.*s", length < 39 ? length : 39, word);
    }
    return true;
}

static const char *reply_to(struct actor *actor, char words[2][40])
{
    if (strcmp(words[0], "INFO") == 0)
        return "$-1\r\n";
    if (strcmp(words[0], "CLIENT") == 0)
        return strcmp(words[1], "ID") == 0 ? ":7\r\n" : "+OK\r\n";
    const char *reply = actor->says[actor->said];
    if (actor->said + 1 < REPLIES && actor->says[actor->said + 1])
        actor->said++;
    return reply;
}

static void serve(struct actor *actor, int fd)
{
    FILE *from = fdopen(fd, "r");
    char words[2][40];
    int yes = 1;

    CHECK(from != NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    while (hear(from, words))
        say(actor, fd, reply_to(actor, words));
    fclose(from);
}

static void act(void *arg)
{
    struct actor *actor = arg;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)actor->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(listener, 10) == 0);
    parent_say("ready");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            serve(actor, fd);
    }
}

static hf_client *meet(struct actor *actor)
{
    hf_client *client = NULL;

    actor->port = free_port();
    child_start(&actor->process, act, actor);
    child_wait_for(&actor->process, "ready");
    CHECK_CODE(hf_open(&client, server_url(&(struct server){ .port = actor->port }, 20000), NULL),
               HF_OK);
    return client;
}

static void part(struct actor *actor, hf_client *client)
{
    hf_close(client);
    child_kill(&actor->process);
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
        .says = { "-LOADING Redis is loading the dataset in memory\r\n",
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
    { "-NOREPLICAS Not enough good replicas to write.\r\n", "NOREPLICAS", HF_ELIMIT },
    { "-NOPERM this user has no permissions\r\n", "NOPERM", HF_DENIED },
    { "-WRONGTYPE Operation against a key\r\n", "WRONGTYPE", HF_EKIND },
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
