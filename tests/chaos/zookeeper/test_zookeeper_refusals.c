/* SPDX-License-Identifier: Apache-2.0 */
/* What a server refuses, or has no memory for us to ask: it is said as it is, and nothing stays. By
 * one that does as it is told. */
#include "conformance.h"
#include "zookeeper_script.h"

#include "base/testing.h"
#include "engines/zookeeper/zookeeper.h"

#include <stdio.h>

/* No test lasts as long. */
#define SESSION_MS 300000

static hf_client *begin_scene(struct script *script)
{
    script_start(script, SESSION_MS);
    return script_open(script, SESSION_MS);
}

static void end_scene(struct script *script, hf_client *client)
{
    hf_close(client);
    script_end(script);
}

TEST(a_path_that_may_not_be_made_is_denied)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *hold = NULL;

    script.barred = 1;
    CHECK_ERROR(hf_lock(client, "a/one", SOON_MS, NULL, &hold), HF_DENIED);
    CHECK(strstr(hf_last_error()->text, "refuses this user") != NULL);
    CHECK_ERROR(hf_latch_set(client, "a/latch", 3), HF_DENIED);
    CHECK_ERROR(hf_semaphore_set(client, "a/pool", 3), HF_DENIED);
    script.barred = 0;
    give_back(take(client, "a/one", HF_MUTEX, 0));
    end_scene(&script, client);
}

/* Each is told by its own code, and not asked for again. */
TEST(a_refusal_is_told_by_its_own_code_and_sentence)
{
    static const struct {
        int error, code;
        const char *part;
    } refusals[] = {
        { ZK_LOCAL_SESSION, HF_ENOTSUP, "its sessions are local" },
        { ZK_QUOTA_EXCEEDED, HF_ELIMIT, "a quota allows no more" },
        { ZK_USER_REQUIRED, HF_DENIED, "it serves authenticated users only" },
        { -199, HF_EINTERNAL, "unknown error" },
    };
    static struct script script;
    hf_client *client = begin_scene(&script);

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        hf_hold *hold = NULL;
        script.refusal = refusals[i].error;
        script.refused_creates = 1;
        CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), refusals[i].code);
        CHECK(strstr(hf_last_error()->text, refusals[i].part) != NULL);
        CHECK_INT(script.refused_creates, 0);
        CHECK_INT(script.there, 0);
    }
    script.refusal = 0;
    give_back(take(client, "one", HF_MUTEX, 0));
    end_scene(&script, client);
}

/* "connection loss", "operation timeout", and one that is not known: the server's own errors. */
TEST(error_that_leaves_open_whether_it_was_executed_is_no_reply)
{
    static const int errors[] = { -4, -7, -99 };
    static struct script script;
    hf_client *client = begin_scene(&script);

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        hf_hold *hold = NULL;
        script.refusal = errors[i];
        script.refused_creates = 1;
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        CHECK_INT(script.refused_creates, 0);
        give_back(hold);
        script.refused_creates = 1;
        CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
        CHECK(strstr(hf_last_error()->text, "leaves open") != NULL);
        EVENTUALLY(script.there == 0, SOON_MS);
    }
    script.refusal = 0;
    give_back(take_patiently(client, "one"));
    end_scene(&script, client);
}

TEST(permits_that_may_not_be_made_are_denied)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *hold = NULL;
    const hf_lock_options *two = LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 2);

    script.refused_leases = 1;
    CHECK_ERROR(hf_lock(client, "pool", SOON_MS, two, &hold), HF_DENIED);
    CHECK_INT(script.there, 0);
    CHECK_CODE(hf_lock(client, "pool", SOON_MS, two, &hold), HF_OK);
    CHECK_INT(script.there, 2);
    give_back(hold);
    CHECK_INT(script.there, 0);
    end_scene(&script, client);
}

/* Whoever is in front is somebody else's, who shows nobody what he has written. */
TEST(a_queue_that_cannot_be_read_is_denied)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *hold = NULL;

    snprintf(script.nodes[0], sizeof(script.nodes[0]), "/locks/one/_c_x-lock-0000000000");
    script.refused_reads = 1;
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_DENIED);
    CHECK_INT(script.creates, 1);
    CHECK_INT(script.there, 1);
    end_scene(&script, client);
}

/* Its claim is over, and what is taken next has nothing to do with it. */
TEST(a_release_that_is_refused_is_said_once)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *first = take(client, "one", HF_MUTEX, 0);

    script.refused_deletes = 1;
    CHECK_ERROR(hf_unlock(first), HF_DENIED);
    CHECK_INT(script.there, 1);
    for (int i = 0; i < 3; i++)
        give_back(take(client, "two", HF_MUTEX, 0));
    hf_hold *kept = take(client, "two", HF_MUTEX, 0);
    script.ended_sessions = 1;
    script.cut = 1;
    EVENTUALLY(!hf_held(kept), SOON_MS);
    CHECK_CODE(hf_unlock(kept), HF_LOST);
    give_back(take(client, "one", HF_MUTEX, 0));
    end_scene(&script, client);
}

/* Of several permits the first is refused, and the others are not. */
TEST(a_permit_that_is_not_taken_back_is_told)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "pool", SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3, .limit = 3), &hold),
               HF_OK);
    script.refused_deletes = 1;
    CHECK_ERROR(hf_unlock(hold), HF_DENIED);
    CHECK_INT(script.there, 1);
    end_scene(&script, client);
}

/* What was taken is cleared away, as far as that is allowed; the rest stays, and is told. */
TEST(a_turn_that_may_not_end_is_told)
{
    const hf_lock_options *two = LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 2);

    for (int refused = 1; refused <= 3; refused++) {
        static struct script script;
        hf_client *client = begin_scene(&script);
        hf_hold *hold = NULL;

        script.refused_deletes = refused;
        CHECK_ERROR(hf_lock(client, "pool", SOON_MS, two, &hold), HF_DENIED);
        CHECK_INT(script.there, refused);
        end_scene(&script, client);
    }
}

/* What a server could not do just now is asked for again. */
TEST(a_node_that_could_not_be_deleted_is_deleted_then)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *hold = NULL;

    script.data_at = "leases";
    script.data_size = 4;
    script.data = "\0\0\0\7";
    script.failed_deletes = 1;
    CHECK_ERROR(
        hf_lock(client, "pool", SOON_MS, LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 3), &hold),
        HF_EKIND);
    CHECK_INT(script.failed_deletes, 0);
    CHECK_INT(script.there, 0);
    /* Of three deletions of a turn with two permits, that have to begin anew. */
    for (int failed = 1; failed <= 3; failed++) {
        script.failed_deletes = failed;
        CHECK_CODE(
            hf_lock(client, "pool", SOON_MS, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2), &hold),
            HF_OK);
        CHECK_INT(script.failed_deletes, 0);
        CHECK_INT(script.there, 2);
        give_back(hold);
        CHECK_INT(script.there, 0);
    }
    end_scene(&script, client);
}

/* It goes on writing, and hears of it if somebody breaks it. */
TEST(a_downgrade_that_is_refused_leaves_a_writer)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    hf_hold *writer = take(client, "one", HF_WRITE, 0), *reader = NULL;

    EVENTUALLY(script.watches == 1, SOON_MS);
    CHECK_CODE(hf_lock(client, "one", 0, LOCK_OPTIONS(.mode = HF_READ), &reader), HF_OK);
    script.refused_creates = 1;
    CHECK_ERROR(hf_unlock(writer), HF_DENIED);
    CHECK(hf_held(reader));
    EVENTUALLY(script.watches == 2, SOON_MS);
    give_back(reader);
    CHECK_INT(script.there, 0);
    end_scene(&script, client);
}

TEST(the_loss_of_any_permit_is_heard_of)
{
    for (int lost = 1; lost <= 3; lost++) {
        static struct script script;
        _Atomic int losses = 0;
        hf_hold *hold = NULL;
        hf_client *client = begin_scene(&script);

        CHECK_CODE(hf_lock(client, "pool", SOON_MS,
                           LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3, .limit = 3,
                                        .on_lost = count_loss, .lost_arg = &losses),
                           &hold),
                   HF_OK);
        EVENTUALLY(script.watches == 3, SOON_MS);
        CHECK(hf_held(hold));
        /* The place in the queue came first, and is gone. */
        script.lose = 1 + 1 + lost;
        EVENTUALLY(losses == 1, SOON_MS);
        CHECK(!hf_held(hold));
        CHECK_CODE(hf_unlock(hold), HF_LOST);
        CHECK_INT(script.there, 0);
        end_scene(&script, client);
    }
}

TEST(a_node_of_another_program_is_no_latch)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    uint32_t count = 0;

    script.data_at = "latch";
    script.data_size = 5;
    script.data = "hello";
    CHECK_ERROR(hf_latch_set(client, "latch", 3), HF_EKIND);
    CHECK_ERROR(hf_latch_down(client, "latch", 1, &count), HF_EKIND);
    CHECK_ERROR(hf_latch_get(client, "latch", &count), HF_EKIND);
    CHECK_ERROR(hf_latch_wait(client, "latch", 0), HF_EKIND);
    CHECK_ERROR(hf_latch_wait(client, "latch", SOON_MS), HF_EKIND);
    CHECK_INT(script.changes, 0);
    CHECK_INT(script.there, 0);
    end_scene(&script, client);
}

TEST(a_count_that_others_change_is_tried_again)
{
    static struct script script;
    hf_client *client = begin_scene(&script);
    uint32_t count = 0;

    script.data_at = "latch";
    script.data_size = 4;
    script.data = "\0\0\0\7";
    script.old_versions = 20;
    CHECK_CODE(hf_latch_down(client, "latch", 2, &count), HF_OK);
    CHECK_INT(count, 5);
    CHECK_INT(script.changes, 21);
    end_scene(&script, client);
}

/* ---- out of memory ---- */

static _Atomic int allocations, fail_at;

static bool count_allocation(size_t size)
{
    (void)size;
    return script_is_here() || ++allocations != fail_at;
}

/* Fine, or out of memory; which may end the connection, and then it is not known what became of it.
 */
static void went_well(int code)
{
    CHECK(code == HF_OK || code == HF_ENOMEM || code == HF_UNREACHABLE);
}

static void use_verbs(hf_client *client)
{
    hf_hold *hold = NULL;
    uint32_t count;

    went_well(hf_latch_down(client, "a/latch", 1, &count));
    went_well(hf_semaphore_set(client, "a/pool", 7));
    int code = hf_lock(client, "a/pool", SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 7), &hold);
    went_well(code);
    if (code == HF_OK)
        went_well(hf_unlock(hold));
}

/* Each allocation fails once; the address sanitizer looks at what is left. */
TEST(verbs_out_of_memory_leave_nothing)
{
    static struct script script;
    bool failed = true;
    int n;

    TEST_TIMEOUT(120);
    script_start(&script, SESSION_MS);
    script.data_at = "latch";
    script.data_size = 4;
    script.data = "\0\0\0\7";
    for (n = 1; failed; n++) {
        char url[80];
        hf_client *client = NULL;
        snprintf(url, sizeof(url), "zk://127.0.0.1:%d/locks", script.port);
        allocations = 0;
        fail_at = n;
        hf__alloc_hook = count_allocation;
        int code = hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = SESSION_MS));
        went_well(code);
        if (code == HF_OK) {
            use_verbs(client);
            hf_close(client);
        }
        hf__alloc_hook = NULL;
        failed = allocations >= n;
        CHECK_INT(script.there, 0);
    }
    test_note("%d allocations failed, one by one", n - 2);
    script_end(&script);
}

static bool fail_request(size_t size)
{
    return script_is_here() || size != sizeof(struct zk_request) || ++allocations != fail_at;
}

static int leases_of(const struct script *script)
{
    int count = 0;

    for (int i = 0; i < SCRIPT_NODES; i++)
        count += strstr(script->nodes[i], "-lease-") != NULL;
    return count;
}

static void take_two(struct script *script, int64_t wait_ms, int nth)
{
    hf_hold *hold = NULL;
    hf_client *client = script_open(script, SESSION_MS);

    allocations = 0;
    fail_at = nth;
    int code = hf_lock(client, "pool", wait_ms,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 7), &hold);
    fail_at = 0;
    went_well(code);
    if (code == HF_OK) {
        CHECK_INT(leases_of(script), 2);
        CHECK_INT(script->there, 2);
        CHECK_CODE(hf_unlock(hold), HF_OK);
        CHECK_INT(script->there, 0);
    }
    hf_close(client);
    CHECK_INT(script->there, 0);
}

/* There is no memory for a request while the permits before it are still on their way: they are
 * made and told when they are already being cleared away, and none of them counts. */
TEST(permits_that_are_told_late_do_not_count)
{
    static struct script script;
    static const int64_t waits_ms[] = { 0, SOON_MS };

    TEST_TIMEOUT(120);
    hf__alloc_hook = fail_request; /* the server's thread looks at it, too */
    script_start(&script, SESSION_MS);
    script.data_at = "leases";
    script.data_size = 4;
    script.data = "\0\0\0\7";
    script.late_leases = 1;
    for (int i = 0; i < 2; i++) {
        int n = 0;
        do
            take_two(&script, waits_ms[i], ++n);
        while (allocations >= n);
        test_note("%d requests, of which one failed", n - 1);
    }
    script_end(&script);
    hf__alloc_hook = NULL;
}

/* ---- out of time ---- */

#define SHORT_MS 200

static bool take_long(size_t size)
{
    if (!script_is_here() && size == sizeof(struct zk_request) && ++allocations == fail_at)
        let_pass_ms(SHORT_MS);
    return true;
}

/* A session's belief ends while a request is made, so that the rest of the verb would be for
 * another session; the address sanitizer looks at what is answered to whom. */
TEST(a_verb_whose_session_ends_meanwhile_is_answered_once)
{
    static struct script script;
    bool taken = true;
    int n;

    TEST_TIMEOUT(120);
    hf__alloc_hook = take_long; /* the server's thread looks at it, too */
    script_start(&script, SHORT_MS);
    script.barred = 1;
    for (n = 1; taken; n++) {
        hf_client *client = script_open(&script, SESSION_MS);
        allocations = 0;
        fail_at = n;
        int latch = hf_latch_set(client, "a/b/latch", 3);
        int pool = hf_semaphore_set(client, "a/b/pool", 3);
        CHECK(latch == HF_DENIED || latch == HF_UNREACHABLE);
        CHECK(pool == HF_DENIED || pool == HF_UNREACHABLE);
        taken = allocations >= n;
        fail_at = 0;
        hf_close(client);
    }
    test_note("%d requests took long to make, one by one", n - 2);
    script_end(&script);
    hf__alloc_hook = NULL;
}
