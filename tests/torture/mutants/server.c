/* SPDX-License-Identifier: Apache-2.0 */
/* The store's scripts as commands of a real Redis server, as far as a mutex needs them. What a lock
 * of a beginner does is done literally: DEL, GET and then DEL, INCR beside the grant. */
#include "server.h"

#include "mutants.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { WORDS = 8, REQUEST = 2048, ANSWER = 64 };

/* Who is refused looks again after so long: there is nothing that would tell. */
enum { LOOK_AGAIN_MS = 4 };

/* Grants with a token, also again to who has it: the answer is the token, or 0. */
static const char take_text[] = "local holder = redis.call('get', KEYS[1])\n"
                                "if holder and holder ~= ARGV[1] then return 0 end\n"
                                "if ARGV[2] == '0' then redis.call('set', KEYS[1], ARGV[1])\n"
                                "else redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) end\n"
                                "return redis.call('incr', KEYS[2])";

static const char give_text[] = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                "return redis.call('del', KEYS[1])";

static const char renew_text[] = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                 "return redis.call('pexpire', KEYS[1], ARGV[2])";

int server_connect(const char *url)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = strstr(url, "://");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (path && fd >= 0) {
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path + 3);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- one command ---- */

static void give_up(const char *why)
{
    fprintf(stderr, "torture-mutants: the Redis server of the sandbox: %s\n", why);
    abort();
}

static void say(int fd, const char *const words[])
{
    char request[REQUEST];
    unsigned count = 0;
    int length;

    while (words[count])
        count++;
    length = snprintf(request, sizeof request, "*%u\r\n", count);
    for (unsigned i = 0; i < count; i++)
        length += snprintf(request + length, sizeof request - (size_t)length, "$%zu\r\n%s\r\n",
                           strlen(words[i]), words[i]);
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        give_up("it takes no question");
}

/* One line of the answer, without what ends it. */
static void hear_line(int fd, char line[ANSWER])
{
    size_t length = 0;

    while (length < 2 || memcmp(line + length - 2, "\r\n", 2) != 0)
        if (length == ANSWER || recv(fd, line + length++, 1, 0) != 1)
            give_up("its answer has no end");
    line[length - 2] = '\0';
}

/* A number, or what is in a string; "" for one that is not there. */
static void ask_server(int fd, const char *const words[], char answer[ANSWER])
{
    say(fd, words);
    hear_line(fd, answer);
    if (answer[0] == '-')
        give_up(answer);
    if (answer[0] != '$')
        memmove(answer, answer + 1, strlen(answer));
    else if (strcmp(answer, "$-1") == 0)
        answer[0] = '\0';
    else
        hear_line(fd, answer);
}

/* ---- the scripts ---- */

/* The words of a script's command; each is kept by `text` if it is no constant. */
struct phrase {
    char token_key[112], owner[24], lease_ms[24];
    const char *words[WORDS];
};

static void put(struct phrase *phrase, const char *const words[WORDS])
{
    memcpy(phrase->words, words, sizeof phrase->words);
}

static void eval(struct phrase *phrase, const char *text, const char *name)
{
    put(phrase, (const char *const[WORDS]){ "EVAL", text, "2", name, phrase->token_key,
                                            phrase->owner, phrase->lease_ms });
}

static void choose_words(struct phrase *phrase, store_script *script, const char *name)
{
    if (script == script_take)
        eval(phrase, take_text, name);
    else if (script == script_give)
        eval(phrase, give_text, name);
    else if (script == script_renew)
        eval(phrase, renew_text, name);
    else if (script == script_extend)
        put(phrase, (const char *const[WORDS]){ "PEXPIRE", name, phrase->lease_ms });
    else if (script == script_delete)
        put(phrase, (const char *const[WORDS]){ "DEL", name });
    else if (script == script_is_owner)
        put(phrase, (const char *const[WORDS]){ "GET", name });
    else if (script == script_draw)
        put(phrase, (const char *const[WORDS]){ "INCR", phrase->token_key });
    else if (script == script_count)
        put(phrase, (const char *const[WORDS]){ "EXISTS", name });
    else if (script == script_forget)
        put(phrase, (const char *const[WORDS]){ "DEL", name, phrase->token_key });
    else
        give_up("there is no such script for it");
}

struct store_answer server_ask(int fd, store_script *script, const char *name,
                               const struct store_question *question)
{
    static const struct store_question nobody;
    struct phrase phrase = { .words = { NULL } };
    char answer[ANSWER];
    uint64_t number;

    if (!question)
        question = &nobody;
    snprintf(phrase.token_key, sizeof phrase.token_key, "%s:token", name);
    snprintf(phrase.owner, sizeof phrase.owner, "%" PRIx64, question->owner);
    snprintf(phrase.lease_ms, sizeof phrase.lease_ms, "%" PRId64,
             question->immortal && script == script_take ? 0 : question->lease_ns / MS);
    choose_words(&phrase, script, name);
    ask_server(fd, phrase.words, answer);
    if (script == script_is_owner)
        return (struct store_answer){ .yes = strcmp(answer, phrase.owner) == 0 };
    number = strtoull(answer, NULL, 10);
    return (struct store_answer){ .yes = number > 0,
                                  .token = number,
                                  .held = script == script_count ? (unsigned)number : 0,
                                  .retry_ns = torture_clock_ns() + LOOK_AGAIN_MS * MS };
}
