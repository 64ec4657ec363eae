/* SPDX-License-Identifier: Apache-2.0 */
/* Read-write locks, permits, counters and latches on Redis, each broken at its worst moment. */
#include "relayed.h"

#include <stdio.h>

static hf_client *open_on(const struct server *server, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, server_url(server, 3000), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    return client;
}

static void tell(const struct server *server, const char *command)
{
    CHECK(server_tell(server, command, NULL, 0));
}

static long number(const struct server *server, const char *key)
{
    char expression[200];

    snprintf(expression, sizeof(expression), "tonumber(redis.call('get','%s') or '-1')", key);
    return value(server, expression);
}

static long messages(const struct server *server)
{
    return value(server, "tonumber(string.match(redis.call('info','commandstats'),"
                         "'cmdstat_publish:calls=(%d+)') or '0')");
}

static void ask(hf_client *client, const char *name, hf_mode mode, uint32_t permits,
                struct outcome *outcome, hf_request *request)
{
    CHECK_CODE(hf_lock_async(client, name, HF_FOREVER,
                             LOCK_OPTIONS(.mode = mode, .permits = permits), record_outcome,
                             outcome, request),
               HF_OK);
}

/* ---- answers that get lost after the server has done what was asked ---- */

TEST(a_permit_whose_answer_was_lost_is_taken_once)
{
    struct relayed relayed = { 0 };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, "sem", HF_PERMIT, 2, &outcome, NULL);
    EVENTUALLY(number(&relayed.server, "sem") == 3, SOON_MS);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK_INT(number(&relayed.server, "sem"), 3);
    CHECK_INT(value(&relayed.server, "redis.call('zcard','{sem}:timeout')"), 2);
    give_back(outcome.hold);
    CHECK_INT(number(&relayed.server, "sem"), 5);
    end_relayed(&relayed);
}

/* Asked again, it does not hear of the size that the semaphore has got meanwhile. */
TEST(a_permit_whose_answer_was_lost_is_had_though_the_semaphore_has_grown)
{
    struct relayed relayed = { 0 };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed);
    hf_client *other = open_on(&relayed.server, 0);
    relay_swallow(&relayed.relay);
    CHECK_CODE(hf_lock_async(relayed.client, "sem", HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 5), record_outcome, &outcome,
                             NULL),
               HF_OK);
    EVENTUALLY(number(&relayed.server, "sem") == 4, SOON_MS);
    CHECK_CODE(hf_semaphore_set(other, "sem", 7), HF_OK);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK_INT(number(&relayed.server, "sem"), 6);
    give_back(outcome.hold);
    CHECK_INT(number(&relayed.server, "sem"), 7);
    hf_close(other);
    end_relayed(&relayed);
}

TEST(units_whose_answer_was_lost_are_taken_once)
{
    struct relayed relayed = { 0 };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, "count", HF_COUNTER, 4, &outcome, NULL);
    EVENTUALLY(number(&relayed.server, "count") == 6, SOON_MS);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK_INT(number(&relayed.server, "count"), 6);
    EVENTUALLY(keys_like(&relayed.server, "holdfast_taken*") == 0, SOON_MS);
    end_relayed(&relayed);
}

TEST(what_was_given_up_while_its_answer_was_lost_comes_back)
{
    struct relayed relayed = { 0 };
    struct outcome permit = { 0 }, units = { 0 }, reader = { 0 };
    hf_request requests[3];

    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, "sem", HF_PERMIT, 2, &permit, &requests[0]);
    ask(relayed.client, "count", HF_COUNTER, 4, &units, &requests[1]);
    ask(relayed.client, "rw", HF_READ, 0, &reader, &requests[2]);
    EVENTUALLY(number(&relayed.server, "sem") == 3 && number(&relayed.server, "count") == 6 &&
                   keys_like(&relayed.server, "rw") == 1,
               SOON_MS);
    for (int i = 0; i < 3; i++)
        hf_cancel(relayed.client, requests[i]);
    WAIT_OUTCOME(&permit);
    WAIT_OUTCOME(&units);
    WAIT_OUTCOME(&reader);
    CHECK_CODE(permit.code, HF_CANCELED);
    CHECK_CODE(units.code, HF_CANCELED);
    CHECK_CODE(reader.code, HF_CANCELED);
    relay_cut(&relayed.relay);
    EVENTUALLY(number(&relayed.server, "sem") == 5 && number(&relayed.server, "count") == 10 &&
                   keys_like(&relayed.server, "*rw*") == 1 /* the token */,
               SOON_MS);
    EVENTUALLY(keys_like(&relayed.server, "holdfast_taken*") == 0, SOON_MS);
    end_relayed(&relayed);
}

TEST(a_reader_whose_answer_was_lost_is_one_reader)
{
    struct relayed relayed = { 0 };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, "rw", HF_READ, 0, &outcome, NULL);
    EVENTUALLY(keys_like(&relayed.server, "rw") == 1, SOON_MS);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK_INT(value(&relayed.server, "redis.call('hlen','rw')"), 2);
    CHECK_INT(keys_like(&relayed.server, "*rwlock_timeout*"), 1);
    give_back(outcome.hold);
    CHECK_INT(keys_like(&relayed.server, "rw"), 0);
    CHECK_INT(keys_like(&relayed.server, "*rwlock_timeout*"), 0);
    end_relayed(&relayed);
}

/* ---- latches that Java counts down ---- */

static void check_count(hf_client *client, const char *name, uint32_t wanted)
{
    uint32_t number_got = 0;
    CHECK_CODE(hf_counter_get(client, name, &number_got), HF_OK);
    CHECK_INT(number_got, wanted);
}

/* As Redisson does it: `countDown` and `delete` leave our mark, `trySetPermits` and `trySetCount`
 * set the number where there is none. */
TEST(number_of_java_under_the_name_of_a_latch_that_is_gone_is_another_thing)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);

    CHECK_CODE(hf_latch_set(client, "larger", 2), HF_OK);
    tell(&server, "DEL larger");
    tell(&server, "SET larger 5 NX");
    check_count(client, "larger", 5);
    tell(&server, "SET larger 1");
    check_count(client, "larger", 1);

    CHECK_CODE(hf_latch_set(client, "lower", 9), HF_OK);
    CHECK_CODE(hf_latch_down(client, "lower", 8, NULL), HF_OK);
    tell(&server, "DEL lower");
    tell(&server, "SET lower 2 NX");
    check_count(client, "lower", 2);

    CHECK_CODE(hf_latch_set(client, "seen", 2), HF_OK);
    tell(&server, "DEL seen");
    CHECK_CODE(hf_latch_wait(client, "seen", 0), HF_OK);
    tell(&server, "SET seen 1 NX");
    check_count(client, "seen", 1);

    CHECK_CODE(hf_counter_set(client, "counter", 5), HF_OK);
    tell(&server, "DEL counter");
    CHECK_CODE(hf_latch_wait(client, "counter", 0), HF_OK);
    tell(&server, "SET counter 3 NX");
    CHECK_CODE(hf_latch_wait(client, "counter", 0), HF_BUSY);

    hf_close(client);
    server_kill(&server);
}

/* What we have seen of a latch is known by its mark, also when Java counts it down. */
TEST(latch_that_java_counts_down_stays_a_latch)
{
    struct server server = { 0 };
    uint32_t number_got = 0;
    server_start(&server);
    hf_client *client = open_on(&server, 0);

    CHECK_CODE(hf_latch_set(client, "latch", 5), HF_OK);
    tell(&server, "DECR latch");
    CHECK_CODE(hf_counter_get(client, "latch", &number_got), HF_EKIND);
    CHECK_CODE(hf_latch_get(client, "latch", &number_got), HF_OK);
    CHECK_INT(number_got, 4);
    CHECK_CODE(hf_latch_wait(client, "latch", 0), HF_BUSY);
    CHECK_CODE(hf_counter_get(client, "latch", &number_got), HF_EKIND);
    hf_close(client);
    server_kill(&server);
}

/* At zero, Redisson's script deletes the number alone. */
TEST(the_mark_of_a_latch_has_an_end_that_its_use_moves)
{
    struct server server = { 0 };
    uint32_t number_got = 0;
    server_start(&server);
    hf_client *client = open_on(&server, 0);

    CHECK_CODE(hf_latch_set(client, "batch", 2), HF_OK);
    CHECK(value(&server, "redis.call('pttl','holdfast_kind:{batch}')") > 1800000);
    for (int i = 0; i < 3; i++) {
        tell(&server, "PEXPIRE holdfast_kind:{batch} 60000");
        if (i == 0)
            CHECK_CODE(hf_latch_get(client, "batch", &number_got), HF_OK);
        else if (i == 1)
            CHECK_CODE(hf_latch_wait(client, "batch", 0), HF_BUSY);
        else
            CHECK_CODE(hf_latch_down(client, "batch", 1, NULL), HF_OK);
        CHECK(value(&server, "redis.call('pttl','holdfast_kind:{batch}')") > 1800000);
    }
    /* What Redisson makes of the name next looks like the latch; the documents say what ends it. */
    tell(&server, "DEL batch");
    tell(&server, "SET batch 1");
    CHECK_CODE(hf_counter_get(client, "batch", &number_got), HF_EKIND);
    tell(&server, "DEL holdfast_kind:{batch}");
    CHECK_CODE(hf_counter_get(client, "batch", &number_got), HF_OK);
    tell(&server, "DEL batch");
    CHECK_CODE(hf_latch_set(client, "batch", 1), HF_OK);
    tell(&server, "DEL batch");
    tell(&server, "PEXPIRE holdfast_kind:{batch} 1");
    EVENTUALLY(keys_like(&server, "*") == 0, SOON_MS);
    tell(&server, "SET batch 5");
    CHECK_CODE(hf_counter_get(client, "batch", &number_got), HF_OK);
    CHECK_INT(number_got, 5);
    hf_close(client);
    server_kill(&server);
}

/* ---- readers that die ---- */

static void read_until_killed(void *arg)
{
    hf_client *client = open_on(arg, 1000);

    take(client, "rw", HF_READ, 0);
    parent_say("reading");
    parent_wait_for("the end");
}

TEST(a_reader_killed_among_readers_is_waited_for_and_no_longer)
{
    struct server server = { 0 };
    struct child child;
    struct outcome outcome = { 0 };
    server_start(&server);
    child_start(&child, read_until_killed, &server);
    child_wait_for(&child, "reading");
    hf_client *client = open_on(&server, 600000), *other = open_on(&server, 30000);
    hf_hold *reader = take(client, "rw", HF_READ, 0);

    child_kill(&child);
    CHECK_CODE(probe(other, "rw", HF_WRITE, 0), HF_BUSY);
    ask(other, "rw", HF_WRITE, 0, &outcome, NULL);
    EVENTUALLY(keys_like(&server, "*rwlock_timeout*") == 1, SOON_MS);
    CHECK_INT(outcome.calls, 0);
    CHECK(hf_held(reader));
    give_back(reader);
    give_back(await_grant(&outcome));
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* The lock's own time to live says an hour; its only reader was dead long before. */
TEST(a_dead_reader_of_java_is_seen_through)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);

    tell(&server, "HSET rw mode read 12345678-1234-4123-8123-123456789012:1 2");
    tell(&server, "PEXPIRE rw 3600000");
    tell(&server, "SET {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:2 1 PX 3600000");
    CHECK_CODE(probe(client, "rw", HF_WRITE, 0), HF_BUSY);
    tell(&server, "DEL {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:2");
    CHECK_CODE(probe(client, "rw", HF_WRITE, 0), HF_OK);
    hf_close(client);
    server_kill(&server);
}

/* One thread of theirs: for an hour, and then once more for less. */
TEST(a_reader_of_java_is_shown_by_its_longest_hold)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);

    tell(&server, "HSET rw mode read 12345678-1234-4123-8123-123456789012:1 2");
    tell(&server, "PEXPIRE rw 3600000");
    tell(&server, "SET {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:1 1 PX 3600000");
    tell(&server, "SET {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:2 1 PX 60000");
    for (int round = 0; round < 2; round++) {
        CHECK_CODE(probe(client, "rw", HF_WRITE, 0), HF_BUSY);
        const struct picture *picture = look(client, "rw");
        CHECK_INT(picture->holders, 1);
        CHECK(find_role(picture, HF_ROLE_HOLDER, 0)->lease_left_ms > 3000000);
        tell(&server, "DEL {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:2");
    }
    tell(&server, "DEL {rw}:12345678-1234-4123-8123-123456789012:1:rwlock_timeout:1");
    CHECK_INT(holders(client, "rw"), 0);
    CHECK_CODE(probe(client, "rw", HF_WRITE, 0), HF_OK);
    hf_close(client);
    server_kill(&server);
}

TEST(nobody_writes_while_a_reader_believes)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 1500), *other = open_on(&server, 30000);
    hf_hold *reader = take(client, "rw", HF_READ, 0);
    int64_t begun_ms = monotonic_ms();

    while (hf_held(reader) && monotonic_ms() < begun_ms + 4000) {
        bool alive = keys_like(&server, "*rwlock_timeout*") == 1;
        CHECK(alive || !hf_held(reader));
        int code = probe(other, "rw", HF_WRITE, 0);
        CHECK(code == HF_BUSY || !hf_held(reader));
        let_pass_ms(50);
    }
    hf_unlock(reader);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* ---- messages ---- */

/* Changed behind everybody's back: no message ever comes. */
TEST(who_is_told_nothing_looks_again)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);
    struct outcome permit = { 0 }, units = { 0 }, latch = { 0 }, reader = { 0 };

    CHECK_CODE(hf_semaphore_set(client, "sem", 1), HF_OK);
    tell(&server, "DECR sem");
    tell(&server, "ZADD {sem}:timeout 99999999999999 0123456789abcdef");
    CHECK_CODE(hf_counter_set(client, "count", 0), HF_OK);
    CHECK_CODE(hf_latch_set(client, "latch", 1), HF_OK);
    tell(&server, "HSET rw mode write 12345678-1234-4123-8123-123456789012:1:write 1");
    tell(&server, "PEXPIRE rw 3600000");
    ask(client, "sem", HF_PERMIT, 1, &permit, NULL);
    ask(client, "count", HF_COUNTER, 1, &units, NULL);
    ask(client, "latch", HF_LATCH, 0, &latch, NULL);
    ask(client, "rw", HF_READ, 0, &reader, NULL);
    EVENTUALLY(keys_like(&server, "holdfast_queue*") == 4, SOON_MS);
    tell(&server, "INCR sem");
    tell(&server, "ZREM {sem}:timeout 0123456789abcdef");
    tell(&server, "INCR count");
    tell(&server, "DEL latch rw");
    WAIT_OUTCOME(&permit);
    WAIT_OUTCOME(&units);
    WAIT_OUTCOME(&latch);
    WAIT_OUTCOME(&reader);
    CHECK_CODE(permit.code, HF_OK);
    CHECK_CODE(units.code, HF_OK);
    CHECK_CODE(latch.code, HF_OK);
    CHECK_CODE(reader.code, HF_OK);
    give_back(permit.hold);
    give_back(reader.hold);
    hf_close(client);
    server_kill(&server);
}

TEST(java_is_told_what_it_waits_for)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);
    hf_hold *hold = take(client, "rw", HF_WRITE, 0), *second;

    CHECK_INT(messages(&server), 0);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_INT(messages(&server), 1);
    second = take(client, "rw", HF_READ, 7);
    give_back(hold);
    CHECK_INT(messages(&server), 1);
    give_back(second);
    CHECK_INT(messages(&server), 2);
    give_back(take(client, "rw", HF_WRITE, 0));
    CHECK_INT(messages(&server), 3);
    CHECK_CODE(hf_latch_set(client, "latch", 2), HF_OK);
    CHECK_CODE(hf_latch_down(client, "latch", 1, NULL), HF_OK);
    CHECK_INT(messages(&server), 4);
    CHECK_CODE(hf_latch_down(client, "latch", 1, NULL), HF_OK);
    CHECK_INT(messages(&server), 5);
    CHECK_CODE(hf_counter_add(client, "count", 3), HF_OK);
    CHECK_INT(messages(&server), 6);
    CHECK_CODE(hf_semaphore_set(client, "sem", 3), HF_OK);
    CHECK_INT(messages(&server), 7);
    give_back(take(client, "sem", HF_PERMIT, 0));
    CHECK_INT(messages(&server), 8);
    hf_close(client);
    server_kill(&server);
}

/* By an owner that may hold it already. */
static void write_too(hf_client *client, const char *name, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, LOCK_OPTIONS(.mode = HF_WRITE, .owner = 1),
                             record_outcome, outcome, NULL),
               HF_OK);
}

/* To Java's clients neither is a release: they wait for the last reader. */
TEST(upgrade_that_waits_is_told_of_each_reader_that_leaves)
{
    struct server server = { 0 };
    struct outcome writer = { 0 }, upgrader = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0), *other = open_on(&server, 0);
    hf_hold *hold = take(client, "rw", HF_UPGRADE, 1);
    hf_hold *readers[2] = { take(other, "rw", HF_READ, 1), take(other, "rw", HF_READ, 2) };
    write_too(client, "rw", &writer);
    EVENTUALLY(waiters(client, "rw") == 1, SOON_MS);
    for (int i = 0; i < 2; i++) {
        long before = messages(&server);
        give_back(readers[i]);
        CHECK_INT(messages(&server), before + 1);
    }
    give_back(await_grant(&writer));
    readers[0] = take(other, "rw", HF_READ, 1);
    ask(other, "rw", HF_UPGRADE, 0, &upgrader, NULL);
    EVENTUALLY(waiters(client, "rw") == 1, SOON_MS);
    long before = messages(&server);
    give_back(hold);
    CHECK_INT(messages(&server), before + 1);
    give_back(await_grant(&upgrader));
    give_back(readers[0]);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* ---- places in line ---- */

/* As an upgrade, and by itself. */
static void wait_to_write(void *arg)
{
    hf_client *client = open_on(arg, 0);
    struct outcome outcomes[2] = { 0 };
    take(client, "up", HF_UPGRADE, 1);
    write_too(client, "up", &outcomes[0]);
    write_too(client, "rw", &outcomes[1]);
    await_grant(&outcomes[1]);
}

TEST(a_dead_writer_is_passed_over)
{
    static const char *const names[] = { "rw", "up" };
    struct server server = { 0 };
    struct child child;
    struct outcome outcomes[2] = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);
    hf_hold *readers[] = { take(client, "rw", HF_READ, 1), take(client, "up", HF_READ, 1) };

    child_start(&child, wait_to_write, &server);
    EVENTUALLY(waiters(client, "rw") == 1 && waiters(client, "up") == 1, SOON_MS);
    child_kill(&child);
    for (int i = 0; i < 2; i++)
        ask(client, names[i], HF_READ, 0, &outcomes[i], NULL);
    for (int i = 0; i < 2; i++) {
        give_back(await_grant(&outcomes[i]));
        CHECK_INT(waiters(client, names[i]), 0);
        give_back(readers[i]);
    }
    hf_close(client);
    server_kill(&server);
}

TEST(who_leaves_the_line_leaves_nothing)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0), *other = open_on(&server, 0);
    hf_hold *writer = take(client, "rw", HF_WRITE, 0);
    static const struct {
        const char *name;
        hf_mode mode;
    } wishes[] = {
        { "rw", HF_READ }, { "sem", HF_PERMIT }, { "count", HF_COUNTER }, { "latch", HF_LATCH }
    };
    struct outcome outcomes[4] = { 0 };
    hf_request requests[4];

    CHECK_CODE(hf_semaphore_set(client, "sem", 2), HF_OK);
    hf_hold *permit = take(client, "sem", HF_PERMIT, 0);
    CHECK_CODE(hf_latch_set(client, "latch", 1), HF_OK);
    for (int i = 0; i < 4; i++)
        ask(other, wishes[i].name, wishes[i].mode,
            wishes[i].mode == HF_PERMIT || wishes[i].mode == HF_COUNTER ? 2 : 1, &outcomes[i],
            &requests[i]);
    EVENTUALLY(keys_like(&server, "holdfast_queue*") == 4, SOON_MS);
    for (int i = 0; i < 4; i++)
        hf_cancel(other, requests[i]);
    for (int i = 0; i < 4; i++) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_CANCELED);
    }
    /* It waits for what is still out. */
    hf_close(other);
    CHECK_INT(keys_like(&server, "holdfast_queue*") + keys_like(&server, "holdfast_alive*"), 0);
    give_back(permit);
    give_back(writer);
    hf_close(client);
    server_kill(&server);
}

/* ---- leases that run out, and a server that forgets ---- */

TEST(permits_of_the_dead_come_back)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);
    hf_hold *hold;

    CHECK_CODE(hf_semaphore_set(client, "sem", 2), HF_OK);
    tell(&server, "DECRBY sem 2");
    tell(&server, "ZADD {sem}:timeout 1000 0123456789abcdef 2000 fedcba9876543210");
    CHECK_INT(look(client, "sem")->seen[0].value, 2);
    CHECK_CODE(hf_lock(client, "sem", 0, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2), &hold),
               HF_OK);
    CHECK_INT(number(&server, "sem"), 0);
    give_back(hold);
    CHECK_INT(number(&server, "sem"), 2);
    hf_close(client);
    server_kill(&server);
}

TEST(a_semaphore_that_is_gone_does_not_come_back_with_its_permits)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 0);
    hf_hold *hold;

    CHECK_CODE(hf_semaphore_set(client, "sem", 5), HF_OK);
    CHECK_CODE(hf_lock(client, "sem", 0, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2), &hold),
               HF_OK);
    tell(&server, "DEL sem");
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(value(&server, "redis.call('exists', 'sem')"), 0);
    CHECK_CODE(hf_lock(client, "sem", 0, LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 5), &hold),
               HF_OK);
    give_back(hold);
    CHECK_INT(number(&server, "sem"), 5);
    hf_close(client);
    server_kill(&server);
}

/* They are renewed in one call, and one of them cannot be. */
TEST(permits_that_went_wrong_do_not_take_others_with_them)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 9000 * (int64_t)test_slow());
    CHECK_CODE(hf_semaphore_set(client, "one", 2), HF_OK);
    CHECK_CODE(hf_semaphore_set(client, "two", 2), HF_OK);
    hf_hold *one = take(client, "one", HF_PERMIT, 0), *two = take(client, "two", HF_PERMIT, 0);

    tell(&server, "SET {one}:timeout something-else");
    EVENTUALLY(!hf_held(one), SOON_MS);
    int64_t ends_ms = monotonic_ms() + hf_remaining_ms(two);
    EVENTUALLY(monotonic_ms() + hf_remaining_ms(two) > ends_ms + 100 || !hf_held(two), SOON_MS);
    CHECK(hf_held(two));
    tell(&server, "DEL {one}:timeout");
    CHECK_CODE(hf_unlock(one), HF_LOST);
    give_back(two);
    hf_close(client);
    server_kill(&server);
}

TEST(an_empty_server_is_noticed_by_all)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 3000);
    CHECK_CODE(hf_semaphore_set(client, "sem", 2), HF_OK);
    hf_hold *reader = take(client, "rw", HF_READ, 0), *permit = take(client, "sem", HF_PERMIT, 0);

    server_kill(&server);
    server_start_again(&server);
    EVENTUALLY(!hf_held(reader) && !hf_held(permit), SOON_MS);
    CHECK_CODE(hf_unlock(reader), HF_LOST);
    CHECK_CODE(hf_unlock(permit), HF_LOST);
    CHECK_INT(keys_like(&server, "*"), 0);
    hf_close(client);
    server_kill(&server);
}
