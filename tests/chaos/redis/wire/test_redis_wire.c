/* SPDX-License-Identifier: Apache-2.0 */
/* A server that says what no Redis says: nothing crashes, nothing hangs, and somebody is told. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* The greeting of a client without password and database: SETNAME, INFO, ID. */
#define GREETED "+OK\r\n$-1\r\n:7\r\n"

struct impostor {
    struct child process;
    int listener;
    const char *says;
    size_t length;
    bool endless;      /* says it again and again */
    int timeout_ms;    /* 0: a short one, which ends what would have no end */
    const char *words; /* in the sentence that the caller reads; NULL: any */
};

/* Answers every connection with its bytes, then hears whatever comes. */
static void serve(const struct impostor *impostor, int fd)
{
    char heard[4096];

    if (read(fd, heard, sizeof(heard)) <= 0)
        return;
    do {
        if (send(fd, impostor->says, impostor->length, MSG_NOSIGNAL) < 0)
            return;
    } while (impostor->endless);
    while (read(fd, heard, sizeof(heard)) > 0)
        continue;
}

static void be_impostor(void *arg)
{
    const struct impostor *impostor = arg;

    for (;;) {
        int connection = accept4(impostor->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        serve(impostor, connection);
        close(connection);
    }
}

/* What a bare try hears of it. */
static int meet(struct impostor *impostor)
{
    struct server place = { 0 };
    hf_client *client;
    hf_hold *hold = (hf_hold *)&hold;

    impostor->listener = listen_somewhere(&place.port);
    child_start(&impostor->process, be_impostor, impostor);
    close(impostor->listener);
    CHECK_CODE(hf_open(&client,
                       server_url(&place, impostor->timeout_ms ? impostor->timeout_ms : 500), NULL),
               HF_OK);
    int code = hf_lock(client, "one", 0, NULL, &hold);
    CHECK(hold == NULL);
    CHECK(strlen(hf_last_error()->text) > 10);
    test_note("%s", hf_last_error()->text);
    CHECK(!impostor->words || strstr(hf_last_error()->text, impostor->words));
    child_kill(&impostor->process);
    hf_close(client);
    return code;
}

static int hear(const char *says, size_t length)
{
    return meet(&(struct impostor){ .says = says, .length = length });
}

#define SAYING(text) .says = (text), .length = sizeof(text) - 1

static void meet_one(void *arg, int index)
{
    CHECK_CODE(meet((struct impostor *)arg + index), HF_UNREACHABLE);
}

/* All of them side by side: for a while, each client tries to give back what it may have got. */
static void meet_all(struct impostor *impostors, size_t count)
{
    processes_run((int)count, meet_one, impostors);
}

TEST(nonsense_is_no_answer)
{
    struct impostor impostors[] = {
        { SAYING("HTTP/1.1 400 Bad Request\r\n\r\n") },
        { SAYING(GREETED "@#!\r\n") },
        { SAYING("\0\0\0\0\0\0\r\n") },
        { SAYING(GREETED "$12"), .words = "no answer for" },
    };

    meet_all(impostors, sizeof(impostors) / sizeof(impostors[0]));
}

/* Its INFO has another key for it than that of Redis. */
TEST(sentinel_of_valkey_given_as_a_server_is_not_supported)
{
    struct impostor impostor = {
        SAYING("+OK\r\n$32\r\n# Server\r\nserver_mode:sentinel\r\n\r\n"),
        .words = "redis+sentinel:",
    };

    CHECK_CODE(meet(&impostor), HF_ENOTSUP);
}

TEST(an_answer_that_announces_too_much_is_refused)
{
    struct impostor impostors[] = {
        { SAYING(GREETED "*2000000000\r\n:1\r\n") },
        { SAYING(GREETED "*4294967295\r\n") },
        { SAYING(GREETED "$99999999999999999999\r\nx") },
        { SAYING(GREETED "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n") },
    };

    meet_all(impostors, sizeof(impostors) / sizeof(impostors[0]));
}

TEST(an_answer_without_an_end_is_refused)
{
    static char flood[65536];
    struct impostor impostor = { SAYING(flood), .endless = true, .timeout_ms = 30000,
                                 .words = "too long" };

    memset(flood, 'x', sizeof(flood));
    memcpy(flood, GREETED "$1000000000\r\n", strlen(GREETED "$1000000000\r\n"));
    impostor.length = sizeof(flood);
    CHECK_CODE(meet(&impostor), HF_UNREACHABLE);
}

TEST(answers_of_another_shape_are_no_grant)
{
    static const char *const shapes[] = {
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*2\r\n:2\r\n:5\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        ":1\r\n",
        "$1\r\n1\r\n",
        "*-1\r\n",
        "+OK\r\n",
        "-ERR something\r\n",
    };
    char says[100];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        int length = snprintf(says, sizeof(says), "%s%s", GREETED, shapes[i]);
        CHECK(hear(says, (size_t)length) != HF_OK);
    }
}

TEST(more_answers_than_questions_are_not_believed)
{
    static const char says[] = GREETED ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n";

    CHECK(hear(says, sizeof(says) - 1) != HF_OK);
}
