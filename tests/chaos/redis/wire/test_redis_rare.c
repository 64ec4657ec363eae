/* SPDX-License-Identifier: Apache-2.0 */
/* What a real server says too rarely for a test, said by one that answers word for word: answers
 * that come after another run of the server, from the wrong node, or not at all. */
#include "conformance.h"
#include "redis_script.h"
#include "server.h"

#include <stdio.h>
#include <unistd.h>

#define GRANT "*2\r\n:1\r\n$2\r\n42\r\n"
/* Far beyond any test's end: nothing goes by itself. */
#define LEASE_MS 600000

struct scene {
    struct script script;
    _Atomic int scripts, kills, maps;
    _Atomic int owner;   /* the port of the node that has all slots, by the map */
    _Atomic bool barred; /* who calls a script is cut off */
    _Atomic bool heard;  /* what the test waits for */
    char said[200];
};

/* As if nobody else were there. A mutex is taken by a script with three keys. */
static const char *agree(const struct script_call *call)
{
    return strcmp(call->words[2], "3") == 0 ? GRANT : ":1\r\n";
}

static hf_client *open_at(const char *url, int64_t lease_ms, hf_driver driver)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms, .driver = driver)),
               HF_OK);
    return client;
}

static hf_client *meet(struct scene *scene, script_answer *answer, int64_t lease_ms,
                       hf_driver driver)
{
    scene->script = (struct script){ .answer = answer, .arg = scene };
    script_start(&scene->script);
    return open_at(server_url(&(struct server){ .port = scene->script.port }, 20000), lease_ms,
                   driver);
}

/* ---- the number of a connection ---- */

/* The first connection is to one run of the server, the others are to the next; the second one ends
 * before its number is known. */
static const char *start_anew(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;
    bool anew = call->connection > 1;

    if (strcmp(call->words[0], "INFO") == 0) {
        snprintf(scene->said, sizeof(scene->said), "$42\r\n# Server\r\nrun_id:%023d\r\n\r\n", anew);
        return scene->said;
    }
    if (strcmp(call->words[0], "CLIENT") == 0 && strcmp(call->words[1], "KILL") == 0)
        scene->kills++;
    if (strcmp(call->words[0], "CLIENT") == 0 && strcmp(call->words[1], "ID") == 0 &&
        call->connection == 2)
        return NULL;
    if (script_is_called(call))
        return call->connection == 1 ? NULL : agree(call);
    return script_usual(call);
}

TEST(a_number_of_an_earlier_run_is_nobodys_in_this_one)
{
    struct scene scene = { 0 };
    hf_client *client = meet(&scene, start_anew, LEASE_MS, HF_DRIVE_THREAD);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", HF_FOREVER, NULL, &hold), HF_OK);
    CHECK(scene.script.connections >= 3);
    CHECK_INT(scene.kills, 0);
    give_back(hold);
    hf_close(client);
    script_end(&scene.script);
}

/* ---- a release that is asked again alone ---- */

/* Both are given back by plain commands, and somebody waits. The call for two then says of the
 * second one that its script has failed; asked alone, it says that there was nothing. */
static const char *fail_for_one(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (strcmp(call->words[0], "HDEL") == 0 || strcmp(call->words[0], "EXISTS") == 0)
        return ":1\r\n";
    if (!script_is_called(call))
        return script_usual(call);
    if (strcmp(call->words[2], "3") == 0)
        return GRANT;
    if (strcmp(call->words[2], "6") != 0)
        return ":0\r\n";
    scene->heard = true;
    return "*2\r\n:1\r\n$-1\r\n";
}

TEST(who_may_have_let_go_already_has_lost_nothing)
{
    struct scene scene = { 0 };
    /* Turns its loop itself, so that what we say before it turns is said in one turn. */
    hf_client *client = meet(&scene, fail_for_one, LEASE_MS, HF_DRIVE_CALLER);

    /* The second time the script is asked at once. */
    for (int i = 0; i < 2; i++) {
        hf_hold *one = take(client, "one", HF_MUTEX, 0), *two = take(client, "two", HF_MUTEX, 0);

        scene.heard = false;
        hf_unlock_nowait(one);
        CHECK_CODE(hf_unlock(two), HF_OK);
        CHECK(scene.heard);
    }
    /* With nothing before it, the same answer is a loss. */
    CHECK_CODE(hf_unlock(take(client, "three", HF_MUTEX, 0)), HF_LOST);
    hf_close(client);
    script_end(&scene.script);
}

/* ---- what is said until it is heard ---- */

/* What is to be undone must be heard of, however long the server is away. */
static void stay_away(struct scene *scene, int64_t lease_ms)
{
    let_pass_ms(3 * lease_ms);
    CHECK(!scene->heard);
    scene->barred = false;
    EVENTUALLY(scene->heard, SOON_MS);
}

static const char *take_over_unheard(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (!script_is_called(call))
        return script_usual(call);
    if (scene->barred)
        return NULL;
    scene->heard = strcmp(call->words[call->count - 1], "back") == 0;
    return "*1\r\n:1\r\n";
}

/* How long the lease is that was left under the key, nobody has heard. */
TEST(an_attach_without_an_answer_is_undone_however_long_it_takes)
{
    struct scene scene = { .barred = true };
    hf_client *client = meet(&scene, take_over_unheard, 500, HF_DRIVE_THREAD);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_attach(client, "one", "01234567-89ab-8def-8123-456789abcdef:1", &hold),
               HF_UNREACHABLE);
    stay_away(&scene, 500);
    hf_close(client);
    script_end(&scene.script);
}

/* Somebody else has it, for long; from the second question on a place is asked for, and nobody
 * hears whether it was given. */
static const char *queue_up_unheard(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;
    bool takes = script_is_called(call) && strcmp(call->words[2], "3") == 0;

    if (!script_is_called(call))
        return script_usual(call);
    if (takes && strcmp(call->words[call->count - 1], "0") == 0)
        return "*3\r\n:0\r\n:600000\r\n:0\r\n";
    scene->scripts++;
    if (scene->barred)
        return NULL;
    scene->heard = !takes;
    return ":0\r\n";
}

TEST(a_place_that_may_have_been_given_is_given_up_until_that_is_heard)
{
    struct scene scene = { .barred = true };
    struct outcome outcome = { 0 };
    hf_client *client = meet(&scene, queue_up_unheard, 500, HF_DRIVE_THREAD);
    hf_request request;

    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, &request),
               HF_OK);
    EVENTUALLY(scene.scripts > 0, SOON_MS);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    stay_away(&scene, 500);
    hf_close(client);
    script_end(&scene.script);
}

/* ---- word that comes late ---- */

#define SHORT_LEASE_MS 3000
#define GRANT_AGAIN "*2\r\n:1\r\n$2\r\n50\r\n"

/* The first answer takes longer than the lease that it grants, so it is given back and asked anew;
 * then somebody else has it, until the test says otherwise. */
static const char *grant_too_late(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (!script_is_called(call))
        return script_usual(call);
    if (strcmp(call->words[2], "1") == 0)
        return "*1\r\n:1\r\n";
    if (strcmp(call->words[2], "3") != 0)
        return ":1\r\n";
    if (++scene->scripts == 1) {
        let_pass_ms(SHORT_LEASE_MS + 100);
        return GRANT;
    }
    /* In the queue it can be told; its field is a UUID and the claim's number. */
    if (strcmp(call->words[call->count - 1], "1") == 0 && !scene->heard) {
        snprintf(scene->said, sizeof(scene->said), "%s", call->words[call->count - 3]);
        scene->heard = true;
    }
    return scene->barred ? "*3\r\n:0\r\n:600000\r\n:0\r\n" : GRANT_AGAIN;
}

static void push_grant(struct scene *scene, int token)
{
    const char *number = strrchr(scene->said, ':') + 1;
    int length = (int)(number - 1 - scene->said);
    char word[60], message[200];

    snprintf(word, sizeof(word), "%s %d 600000", number, token);
    snprintf(message, sizeof(message),
             "*3\r\n$7\r\nmessage\r\n$%d\r\nholdfast:%.*s\r\n$%zu\r\n%s\r\n", length + 9, length,
             scene->said, strlen(word), word);
    script_push(&scene->script, message);
}

TEST(late_word_of_what_was_given_back_is_not_believed)
{
    struct scene scene = { .barred = true };
    struct outcome outcome = { 0 };
    hf_client *client = meet(&scene, grant_too_late, SHORT_LEASE_MS, HF_DRIVE_THREAD);

    begin_wait(client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(scene.heard, SOON_MS);
    push_grant(&scene, 42);
    /* Should the word itself be too old by then, the question is answered like that. */
    scene.barred = false;
    push_grant(&scene, 50);
    await_grant(&outcome);
    CHECK(hf_token(outcome.hold) == 50);
    /* A machine that stands still for long may lose it again. */
    hf_unlock(outcome.hold);
    hf_close(client);
    script_end(&scene.script);
}

/* ---- nodes of a cluster ---- */

static const char *show_map(struct scene *scene)
{
    scene->maps++;
    snprintf(scene->said, sizeof(scene->said),
             "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", scene->owner);
    return scene->said;
}

static void be_node(struct scene *scene, script_answer *answer)
{
    scene->script = (struct script){ .answer = answer, .arg = scene };
    script_start(&scene->script);
    scene->owner = scene->script.port;
}

static const char *cluster_of(const struct scene *one, const struct scene *other)
{
    static char url[120];

    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?timeout=%d",
             one->script.port, other->script.port, 20000 * test_slow());
    return url;
}

static const char *be_busy(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (strcmp(call->words[0], "PUBSUB") == 0 && call->connection == 1)
        return "-BUSY Redis is busy running a script. You can only call SCRIPT KILL\r\n";
    if (strcmp(call->words[0], "CLUSTER") == 0)
        return show_map(scene);
    if (!script_is_called(call))
        return script_usual(call);
    CHECK(call->connection > 1);
    scene->heard |= strstr(call->words[1], "spublish") != NULL;
    return agree(call);
}

/* Whether it knows channels of its own, it has not said. */
TEST(a_node_that_is_busy_is_asked_again_what_it_knows)
{
    struct scene scene = { 0 };

    be_node(&scene, be_busy);
    hf_client *client = open_at(cluster_of(&scene, &scene), LEASE_MS, HF_DRIVE_THREAD);
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "one", HF_FOREVER, NULL, &hold), HF_OK);
    give_back(hold);
    CHECK(scene.heard);
    hf_close(client);
    script_end(&scene.script);
}

static const char *be_member(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (strcmp(call->words[0], "CLUSTER") == 0)
        return show_map(scene);
    if (!script_is_called(call))
        return script_usual(call);
    return agree(call);
}

static const char *be_cut_off(struct script *script, const struct script_call *call)
{
    if (strcmp(call->words[0], "CLUSTER") == 0)
        return show_map(script->arg);
    return script_is_called(call) ? "-CLUSTERDOWN The cluster is down\r\n" : script_usual(call);
}

/* It goes on saying that all is its own, and the only other one has never been asked anything. */
TEST(a_node_that_is_cut_off_is_not_the_only_one_to_be_asked)
{
    struct scene lonely = { 0 }, other = { 0 };

    be_node(&lonely, be_cut_off);
    be_node(&other, be_member);
    hf_client *client = open_at(cluster_of(&lonely, &other), LEASE_MS, HF_DRIVE_THREAD);
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "one", SOON_MS * test_slow(), NULL, &hold), HF_OK);
    CHECK(lonely.maps > 0 && other.maps > 0);
    give_back(hold);
    hf_close(client);
    script_end(&lonely.script);
    script_end(&other.script);
}

/* One takes connections and never says a word; the map is not awaited from it while another one is
 * connected. The timeout is far beyond the test's end. */
TEST(a_node_that_was_never_connected_is_not_waited_for)
{
    struct scene deposed = { 0 }, next = { 0 };
    struct outcome outcome = { 0 };
    int silent_port, silent = listen_somewhere(&silent_port);
    char url[120];

    be_node(&deposed, be_cut_off);
    be_node(&next, be_member);
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?timeout=600000",
             deposed.script.port, silent_port);
    hf_client *client = open_at(url, LEASE_MS, HF_DRIVE_THREAD);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(deposed.maps > 3, SOON_MS);
    deposed.owner = next.script.port;
    give_back(await_grant(&outcome));
    hf_close(client);
    close(silent);
    script_end(&deposed.script);
    script_end(&next.script);
}

/* ---- a channel that goes while it wakes ---- */

/* The lock is somebody else's here, and its slot has gone elsewhere for all others. */
static const char *lose_slot(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (strcmp(call->words[0], "SSUBSCRIBE") == 0)
        scene->heard = true;
    if (strcmp(call->words[0], "CLUSTER") == 0)
        return show_map(scene);
    if (!script_is_called(call))
        return script_usual(call);
    if (strcmp(call->words[3], "{a}1") == 0)
        return "*3\r\n:0\r\n:600000\r\n:1\r\n";
    snprintf(scene->said, sizeof(scene->said), "-MOVED 15495 127.0.0.1:%d\r\n", scene->owner);
    return scene->said;
}

/* Who waits goes to the lock's new node as soon as it is woken, and leaves the old one's channel,
 * which is there for it alone. That it is not read any more then, the address sanitizer tells. */
TEST(who_is_woken_may_be_the_last_one_to_listen)
{
    struct scene old = { 0 }, next = { 0 };
    struct outcome outcome = { 0 };

    be_node(&old, lose_slot);
    be_node(&next, be_member);
    hf_client *client = open_at(cluster_of(&old, &old), LEASE_MS, HF_DRIVE_THREAD);
    begin_wait(client, "{a}1", HF_MUTEX, &outcome);
    EVENTUALLY(old.heard, SOON_MS);
    old.owner = next.script.port;
    give_back(take(client, "{a}2", HF_MUTEX, 0));
    script_push(&old.script, "*3\r\n$8\r\nsmessage\r\n$27\r\nredisson_lock__channel:{a}1\r\n"
                             "$1\r\n0\r\n");
    give_back(await_grant(&outcome));
    hf_close(client);
    script_end(&old.script);
    script_end(&next.script);
}
