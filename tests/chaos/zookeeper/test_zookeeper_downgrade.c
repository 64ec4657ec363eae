/* SPDX-License-Identifier: Apache-2.0 */
/* A writer becomes a reader while its lease ends, or while answers are lost: no node is left. */
#include "conformance.h"
#include "zookeeper_script.h"

/* No test lasts as long. */
#define SESSION_MS 300000
/* Long enough for a downgrade to be asked for within it, and shorter than the request time-out. */
#define LEASE_MS 3000

static hf_hold *take_writer(hf_client *client, int64_t lease_ms)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE, .lease_ms = lease_ms),
                       &hold),
               HF_OK);
    return hold;
}

static void check_that_nothing_outlives_the_lease(struct script *script, hf_client *client)
{
    hf_hold *hold = take_writer(client, LEASE_MS);

    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_LOST);
    CHECK(!hf_held(hold));
    EVENTUALLY(script->there == 0, SOON_MS);
    hf_hold *next = take_writer(client, 0);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(next));
    give_back(next);
    CHECK_INT(script->there, 0);
}

/* The writer's node is deleted at the end of the lease, while the reader's is made. */
TEST(a_lease_that_ends_while_the_reader_is_made_leaves_no_node)
{
    static struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.late_readers = 1;
    check_that_nothing_outlives_the_lease(&script, client);
    CHECK_INT(script.late_readers, 0);
    hf_close(client);
    script_end(&script);
}

/* The end of the lease finds that the downgrade itself has just deleted the writer's node. */
TEST(a_lease_that_ends_while_the_writer_is_deleted_leaves_no_node)
{
    static struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.late_deletes = 1;
    check_that_nothing_outlives_the_lease(&script, client);
    CHECK_INT(script.late_deletes, 0);
    hf_close(client);
    script_end(&script);
}

/* The reader's node is made, and the answer to that lost. It is asked for again after the end. */
TEST(a_reader_made_again_after_the_lease_leaves_no_node)
{
    static struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);

    script.late_readers = 1;
    script.lost_readers = 1;
    check_that_nothing_outlives_the_lease(&script, client);
    CHECK_INT(script.lost_readers, 0);
    hf_close(client);
    script_end(&script);
}

/* The node was made, and the answer to that lost. When it is asked for again, the server has too
 * much to do. */
TEST(a_reader_made_without_an_answer_is_not_forgotten_after_an_error)
{
    static struct script script;
    script_start(&script, SESSION_MS);
    hf_client *client = script_open(&script, SESSION_MS);
    hf_hold *hold = take_writer(client, 0);

    script.lost_readers = 1;
    script.busy_readers = 1;
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_INT(script.lost_readers, 0);
    CHECK_INT(script.busy_readers, 0);
    CHECK_INT(script.there, 1);
    give_back(hold);
    CHECK_INT(script.there, 0);
    hf_close(client);
    script_end(&script);
}
