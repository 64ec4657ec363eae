/* SPDX-License-Identifier: Apache-2.0 */
/* What servers say too rarely to wait for it, or never: by one that does as it is told. */
#include "conformance.h"
#include "zookeeper_script.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* No test lasts as long; a belief in it is two thirds as long. */
#define SESSION_MS 300000

static void end_scene(struct script *script, hf_client *client)
{
    hf_close(client);
    script_end(script);
}

/* What is missing stands in front. */
TEST(a_list_that_ends_too_early_grants_nothing)
{
    struct script script;
    struct outcome outcome = { 0 };
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    snprintf(script.nodes[SCRIPT_NODES - 1], sizeof(script.nodes[0]),
             "/locks/one/_c_x-lock-0000000000");
    script.bad_lists = 1;
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(script.looks == 1, SOON_MS);
    CHECK_INT(script.bad_lists, 0);
    CHECK_INT(outcome.calls, 0);
    CHECK_INT(script.creates, 1);
    end_scene(&script, client);
    CHECK_CODE(outcome.code, HF_ECLOSED);
}

TEST(a_node_whose_answer_says_nothing_is_found_again)
{
    struct script script;
    hf_hold *hold = NULL;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.bad_creates = 1;
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(script.bad_creates, 0);
    CHECK_INT(script.creates, 1);
    CHECK_INT(hf_token(hold), 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    give_back(take(client, "one", HF_MUTEX, 0));
    CHECK_INT(script.creates, 2);
    end_scene(&script, client);
}

/* The answer to the create is lost, and then the answer about the node that was found. */
TEST(a_node_found_again_is_granted_with_its_token_after_two_lost_answers)
{
    struct script script;
    hf_hold *hold = NULL;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.lost_creates = 1;
    script.lost_exists = 1;
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(script.lost_creates, 0);
    CHECK_INT(script.lost_exists, 0);
    CHECK_INT(script.creates, 1);
    CHECK_INT(hf_token(hold), 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    end_scene(&script, client);
}

/* The first node is deleted while it waits. The token of the second one is larger than those that
 * were granted in between. */
TEST(a_second_node_is_never_granted_with_the_token_of_the_first)
{
    struct script script;
    struct outcome outcome = { 0 };
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    snprintf(script.nodes[SCRIPT_NODES - 1], sizeof(script.nodes[0]),
             "/locks/one/_c_x-lock-0000000000");
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(script.looks == 1, SOON_MS);
    script.lost_creates = 1;
    script.lost_exists = 1;
    script.nodes[1][0] = '\0';
    script.lose = SCRIPT_NODES;
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_INT(script.lost_creates, 0);
    CHECK_INT(script.lost_exists, 0);
    CHECK_INT(script.creates, 2);
    CHECK_INT(hf_token(outcome.hold), 2);
    give_back(outcome.hold);
    end_scene(&script, client);
}

/* A server counts on below zero, which sorts in front of all that came before. */
TEST(a_queue_whose_numbers_are_used_up_is_refused)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *hold = NULL;

    script.wrapped = 1;
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_ELIMIT);
    CHECK(strstr(hf_last_error()->text, "the numbers of its queue are used up") != NULL);
    CHECK_INT(script.there, 0);
    script.wrapped = 0;
    give_back(take(client, "one", HF_MUTEX, 0));
    end_scene(&script, client);
}

TEST(a_bare_try_hears_of_nonsense)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *hold = NULL;

    snprintf(script.nodes[0], sizeof(script.nodes[0]), "/locks/one/_c_x-lock-0000000000");
    script.bad_lists = 1;
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "cannot be read") != NULL);
    CHECK_INT(script.creates, 0);
    end_scene(&script, client);
}

/* When it has been granted, the client is connected anew. */
static void take_another(hf_client *client)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "three", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
}

/* The next server lets sessions be for a tenth of the time. */
TEST(a_session_that_became_shorter_is_believed_in_for_less)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0), *leased = NULL;

    CHECK_CODE(hf_lock(client, "two", SOON_MS, LOCK_OPTIONS(.lease_ms = 100000), &leased), HF_OK);
    CHECK(hf_remaining_ms(hold) > SESSION_MS / 15);
    script.timeout_ms = SESSION_MS / 10;
    script.cut = 1;
    EVENTUALLY(script.cut == 0, SOON_MS);
    take_another(client);
    CHECK(hf_remaining_ms(hold) <= SESSION_MS / 15);
    CHECK(hf_remaining_ms(leased) <= SESSION_MS / 15);
    /* It never becomes longer again: a leader that is new may know of the shorter time only. */
    script.timeout_ms = SESSION_MS;
    script.cut = 1;
    EVENTUALLY(script.cut == 0, SOON_MS);
    take_another(client);
    CHECK(hf_remaining_ms(hold) <= SESSION_MS / 15);
    give_back(leased);
    give_back(hold);
    end_scene(&script, client);
}

/* Whatever was under the session before has gone with it, so a refusal is one. */
TEST(a_refusal_in_a_new_session_is_definite)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    struct outcome outcome = { 0 };
    hf_hold *hold = take(client, "one", HF_MUTEX, 1);

    snprintf(script.nodes[0], sizeof(script.nodes[0]), "/locks/two/_c_x-lock-0000000000");
    CHECK_CODE(hf_lock_async(client, "two", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(script.creates == 2, SOON_MS);
    script.refused_creates = 1;
    script.ended_sessions = 1;
    script.cut = 1;
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_DENIED);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    end_scene(&script, client);
}

static bool see_nothing(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

/* The last answer names the server, and what is missing. */
static void check_that_it_is_named(const struct script *script)
{
    char place[80];
    snprintf(place, sizeof(place), "ZooKeeper at 127.0.0.1:%d: no answer for ", script->port);
    if (strncmp(hf_last_error()->text, place, strlen(place)) != 0)
        FAIL("it is said: %s", hf_last_error()->text);
}

TEST(a_silent_server_is_named)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *hold = NULL;

    give_back(take(client, "one", HF_MUTEX, 0));
    script.silent = 1;
    CHECK_CODE(hf_lock(client, "one", 1100, NULL, &hold), HF_UNREACHABLE);
    check_that_it_is_named(&script);
    CHECK_CODE(hf_inspect(client, NULL, see_nothing, NULL), HF_UNREACHABLE);
    check_that_it_is_named(&script);
    end_scene(&script, client);
}

/* The client gives up after a while, and so does everything that would have asked again. */
TEST(closing_at_a_silent_server_ends)
{
    struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *leased = NULL;

    take(client, "one", HF_MUTEX, 0);
    /* Its end comes while the client says goodbye. */
    CHECK_CODE(hf_lock(client, "two", SOON_MS, LOCK_OPTIONS(.lease_ms = 5500), &leased), HF_OK);
    script.silent = 1;
    end_scene(&script, client);
}

/* ---- permits ---- */

/* The one permit comes back when the head has begun to watch, and has not yet heard how many are
 * free: it is told of that once, and before. */
TEST(a_head_hears_of_what_happens_between_two_answers)
{
    struct script script;
    struct outcome outcome = { 0 };
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.data_at = "leases";
    script.data_size = 4;
    script.data = "\0\0\0\1";
    script.taken = 2;
    script.freed = 1;
    CHECK_CODE(hf_lock_async(client, "pool", HF_FOREVER, LOCK_OPTIONS(.mode = HF_PERMIT),
                             record_outcome, &outcome, NULL),
               HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_INT(script.freed, 0);
    CHECK_INT(script.looks, 3);
    give_back(outcome.hold);
    end_scene(&script, client);
}

/* What was cleared away does not count for what is taken then. */
TEST(permits_whose_answer_was_lost_are_taken_again)
{
    struct script script;
    hf_hold *hold = NULL;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.last_lease = 2;
    CHECK_CODE(hf_lock(client, "pool", SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3, .limit = 3), &hold),
               HF_OK);
    CHECK_INT(script.last_lease, 0);
    CHECK_INT(script.creates, 1 + 2 + 3);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(script.there, 0);
    end_scene(&script, client);
}

/* ---- a child of a process that is asking ---- */

static bool hear_nothing(void *arg, const hf_remark *remark)
{
    (void)arg, (void)remark;
    FAIL("nobody has said anything");
}

static void ask_around(void *arg)
{
    CHECK_CODE(hf_examine(arg, NULL, hear_nothing, NULL), HF_UNREACHABLE);
}

static void live_on(void *arg)
{
    (void)arg;
    for (;;)
        pause();
}

static bool has_ended(int fd)
{
    char bytes[64];

    return recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0;
}

/* Its parent's connections end with the parent's own: the session's, and the one that doctor asks
 * on. */
TEST(a_child_keeps_no_connection_of_doctors)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), heard[2];
    struct thread thread;
    struct child child;
    char url[80], byte;
    hf_client *client = NULL;

    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0);
    CHECK(listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(url, sizeof(url), "zk://127.0.0.1:%d?timeout=1000", ntohs(address.sin_port));
    setenv("HOLDFAST_TEST_URL", url, 1);
    need_forks_at_any_time();
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    thread_start(&thread, ask_around, client);
    /* Whoever says something knows that he is connected. */
    for (int i = 0; i < 2; i++) {
        CHECK((heard[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
        CHECK(recv(heard[i], &byte, 1, MSG_PEEK) >= 0);
    }
    child_start(&child, live_on, NULL);
    thread_join(&thread);
    for (int i = 0; i < 2; i++) {
        EVENTUALLY(has_ended(heard[i]), SOON_MS);
        close(heard[i]);
    }
    child_kill(&child);
    hf_close(client);
    close(listener);
}

/* ---- servers that answer words, and no greeting ---- */

#define TALKERS 2
#define SILENT_MAX 64

struct talkers {
    struct thread thread;
    int listeners[TALKERS], silent[SILENT_MAX];
    const char *const *answers[TALKERS]; /* to srvr, conf and cons */
    int ports[TALKERS], silent_count;
    _Atomic int ends;
};

static int listen_anywhere(int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0);
    CHECK(listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return listener;
}

/* Whoever does not say one of the words hears nothing. */
static void talk(struct talkers *talkers, int which, int fd)
{
    static const char *const words[] = { "srvr", "conf", "cons" };
    char word[4];
    bool whole = recv(fd, word, sizeof(word), MSG_WAITALL) == sizeof(word);

    for (int i = 0; whole && i < 3; i++) {
        const char *answer = talkers->answers[which][i];
        if (memcmp(word, words[i], sizeof(word)) != 0)
            continue;
        CHECK(send(fd, answer, strlen(answer), MSG_NOSIGNAL) >= 0);
        whole = false;
    }
    if (whole && talkers->silent_count < SILENT_MAX)
        talkers->silent[talkers->silent_count++] = fd;
    else
        close(fd);
}

static void be_talkers(void *arg)
{
    struct talkers *talkers = arg;

    while (!talkers->ends)
        for (int i = 0; i < TALKERS; i++) {
            struct pollfd ready = { .fd = talkers->listeners[i], .events = POLLIN };
            int fd = poll(&ready, 1, 10) > 0 ? accept4(ready.fd, NULL, NULL, SOCK_CLOEXEC) : -1;
            if (fd >= 0)
                talk(talkers, i, fd);
        }
}

static void talkers_end(struct talkers *talkers)
{
    talkers->ends = 1;
    thread_join(&talkers->thread);
    for (int i = 0; i < talkers->silent_count; i++)
        close(talkers->silent[i]);
    for (int i = 0; i < TALKERS; i++)
        close(talkers->listeners[i]);
}

static bool note_remark(void *arg, const hf_remark *remark)
{
    char *said = arg;

    snprintf(said + strlen(said), 4000 - strlen(said), "%s: %s\n", remark->what,
             remark->value ? remark->value : remark->consequence);
    return true;
}

/* That time ran out later is no reason for what was refused before. */
TEST(what_a_whitelist_lacks_is_named_though_a_greeting_is_late)
{
    static const char refused[] = "It is not executed because it is not in the whitelist.\n";
    static const char state[] = "Zookeeper version: 3.9.4-x, built on\nConnections: 9\n";
    static const char *const of_no_word[] = { state, refused, refused };
    static const char *const of_settings[] = { state, "maxClientCnxns=10\n", refused };
    static char said[4000], url[80];
    struct talkers talkers = { .answers = { of_no_word, of_settings } };
    hf_client *client = NULL;

    for (int i = 0; i < TALKERS; i++)
        talkers.listeners[i] = listen_anywhere(&talkers.ports[i]);
    thread_start(&talkers.thread, be_talkers, &talkers);
    snprintf(url, sizeof(url), "zk://127.0.0.1:%d,127.0.0.1:%d?timeout=1500", talkers.ports[0],
             talkers.ports[1]);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    hf_examine(client, NULL, note_remark, said);
    test_note("%s", said);
    CHECK(strstr(said, "not known: its 4lw.commands.whitelist has no conf; whether it") != NULL);
    CHECK(strstr(said, "cannot be seen: its 4lw.commands.whitelist has no cons") != NULL);
    hf_close(client);
    talkers_end(&talkers);
}
