/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that a release gives to who waits for them: whoever is killed, stopped, or does not hear of
 * it at the wrong moment keeps nobody else waiting for long, and never believes too much. */
#include "contenders.h"

/* What was given to the dead is free after 4 s, and who waits looks every 3 s: with as much again
 * for a busy machine as a look takes. */
#define A_FEW_SECONDS_MS 10000

/* Where nobody but the release can have given it. */
static void check_granted_while_it_stands_still(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    wait_for_it(scene, 1, heir);
    child_stop(&heir->child);
    let_go(holder);
    CHECK_INT(ask(scene, "return redis.call('hlen', 'one')"), 1);
    CHECK(ask(scene, "return redis.call('pttl', 'one')") <= 4000);
    CHECK_INT(waiting(scene), 0);
    child_continue(&heir->child);
    EVENTUALLY(heir->state->holds, SOON_MS);
    CHECK(heir->state->token > holder->state->token);
    /* The lease that it begins with is made longer soon. */
    EVENTUALLY(ask(scene, "return redis.call('pttl', 'one')") > 4000, SOON_MS);
    let_go(heir);
    end(scene);
}

TEST(a_release_gives_a_mutex_to_who_waits)
{
    check_granted_while_it_stands_still(HF_MUTEX);
}

TEST(a_release_gives_a_fair_mutex_to_the_first)
{
    check_granted_while_it_stands_still(HF_FAIR);
}

/* It is told when its lease has been over for long, and somebody else has the lock. */
static void check_late_word(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *stopped = &scene->contenders[1],
                     *next = &scene->contenders[2];

    take_it(holder);
    wait_for_it(scene, 1, stopped);
    wait_for_it(scene, 2, next);
    child_stop(&stopped->child);
    let_go(holder);
    EVENTUALLY(next->state->holds, SOON_MS);
    child_continue(&stopped->child);
    EVENTUALLY(waiting(scene) == 1, SOON_MS);
    CHECK(!stopped->state->holds);
    let_go(next);
    EVENTUALLY(stopped->state->holds, SOON_MS);
    CHECK(stopped->state->token > next->state->token);
    let_go(stopped);
    end(scene);
}

TEST(a_mutex_that_was_granted_too_long_ago_is_not_believed_in)
{
    check_late_word(HF_MUTEX);
}

TEST(a_fair_mutex_that_was_granted_too_long_ago_is_not_believed_in)
{
    check_late_word(HF_FAIR);
}

static void check_killed_heir(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *killed = &scene->contenders[1],
                     *next = &scene->contenders[2];

    take_it(holder);
    wait_for_it(scene, 1, killed);
    wait_for_it(scene, 2, next);
    child_stop(&killed->child);
    let_go(holder);
    CHECK_INT(ask(scene, "return redis.call('hlen', 'one')"), 1);
    child_kill(&killed->child);
    killed->child.pid = 0;
    EVENTUALLY(next->state->holds, A_FEW_SECONDS_MS);
    let_go(next);
    end(scene);
}

TEST(a_mutex_that_was_granted_to_the_dead_is_free_again)
{
    check_killed_heir(HF_MUTEX);
}

TEST(a_fair_mutex_that_was_granted_to_the_dead_is_free_again)
{
    check_killed_heir(HF_FAIR);
}

/* The release itself finds that nobody hears it there, and gives the lock to the next. */
static void check_dead_waiter(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *killed = &scene->contenders[1],
                     *next = &scene->contenders[2];

    take_it(holder);
    wait_for_it(scene, 1, killed);
    wait_for_it(scene, 2, next);
    child_kill(&killed->child);
    killed->child.pid = 0;
    EVENTUALLY(ask(scene, "return #redis.call('pubsub', 'channels', 'holdfast:*')") == 1, SOON_MS);
    child_stop(&next->child);
    let_go(holder);
    CHECK_INT(waiting(scene), 0);
    CHECK_INT(ask(scene, "return redis.call('hlen', 'one')"), 1);
    child_continue(&next->child);
    EVENTUALLY(next->state->holds, SOON_MS);
    let_go(next);
    end(scene);
}

TEST(a_dead_waiter_for_a_mutex_is_passed_over)
{
    check_dead_waiter(HF_MUTEX);
}

TEST(a_dead_waiter_for_a_fair_mutex_is_passed_over)
{
    check_dead_waiter(HF_FAIR);
}

/* As if the word of a grant had been lost on its way. */
TEST(a_grant_that_nobody_told_of_is_found)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    wait_for_it(scene, 1, heir);
    CHECK_INT(ask(scene, "redis.call('del', 'one') "
                         "redis.call('hset', 'one', redis.call('zpopmin', " QUEUE ")[1], 1) "
                         "return redis.call('pexpire', 'one', 4000)"),
              1);
    EVENTUALLY(heir->state->holds, SOON_MS);
    let_go(heir);
    child_kill(&holder->child);
    holder->child.pid = 0;
    end(scene);
}

static void check_connections_killed(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    for (int i = 0; i < 5; i++) {
        struct contender *last = holder;
        wait_for_it(scene, 1, heir);
        CHECK(server_tell(&scene->server, "CLIENT KILL TYPE pubsub", NULL, 0));
        let_go(holder);
        EVENTUALLY(heir->state->holds, SOON_MS);
        holder = heir;
        heir = last;
    }
    let_go(holder);
    end(scene);
}

TEST(a_mutex_finds_its_waiter_without_a_connection)
{
    check_connections_killed(HF_MUTEX);
}

TEST(a_fair_mutex_finds_its_waiter_without_a_connection)
{
    check_connections_killed(HF_FAIR);
}

static void check_queue_deleted(hf_mode mode, const char *script)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    wait_for_it(scene, 1, heir);
    CHECK_INT(ask(scene, script), 1);
    let_go(holder);
    EVENTUALLY(heir->state->holds, SOON_MS);
    let_go(heir);
    end(scene);
}

TEST(a_queue_that_was_deleted_is_made_again)
{
    check_queue_deleted(HF_MUTEX, "return redis.call('del', " QUEUE ")");
}

TEST(a_fair_queue_that_was_deleted_is_made_again)
{
    check_queue_deleted(HF_FAIR, "return redis.call('del', 'redisson_lock_queue:{one}')");
}

TEST(a_fair_queue_without_its_times_is_made_again)
{
    check_queue_deleted(HF_FAIR, "return redis.call('del', 'redisson_lock_timeout:{one}')");
}

static void check_giving_up(hf_mode mode)
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *impatient = &scene->contenders[1];

    take_it(holder);
    for (int i = 0; i < 3; i++) {
        child_say(&impatient->child, "try");
        child_wait_for(&impatient->child, "refused");
        EVENTUALLY(waiting(scene) == 0, SOON_MS);
    }
    let_go(holder);
    check_nothing_is_left(scene);
    end(scene);
}

TEST(who_gives_up_waiting_for_a_mutex_leaves_nothing)
{
    check_giving_up(HF_MUTEX);
}

TEST(who_gives_up_waiting_for_a_fair_mutex_leaves_nothing)
{
    check_giving_up(HF_FAIR);
}

/* What comes in an inbox and does not say of a claim, with nothing before or after it, its token
 * and how long the lease is. */
TEST(what_is_no_word_of_a_grant_is_not_believed)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    wait_for_it(scene, 1, heir);
    CHECK_INT(ask(scene, "local field = redis.call('zrange', " QUEUE ", 0, 0)[1] "
                         "local inbox, claim = 'holdfast:' .. field:sub(1, 36), field:sub(38) "
                         "local heard = 0 "
                         "for _, message in ipairs({'', 'x', '@', '@ ', '@ 7', '@ 7 ', '@ 7 x', "
                         "'@ 7 -4000', '@ +7 4000', '@ -7 4000', '@ 7 4000x', '@ 7 4000 ', "
                         "' @ 7 4000', '@  7 4000', '@ 7  4000', '@,7,4000', '@ 7.5 4000', "
                         "'@ 18446744073709551615 4000', '@ 99999999999999999999999 4000', "
                         "'@ 9223372036854775807 99999999999999999999999'}) do "
                         "heard = heard + redis.call('publish', inbox, (message:gsub('@', claim))) "
                         "end return heard"),
              20);
    let_go(holder);
    EVENTUALLY(heir->state->holds, SOON_MS);
    CHECK_INT(ask(scene, "return redis.call('get', 'redisson_lock_token:{one}') % 1000000"),
              (int)(heir->state->token % 1000000));
    let_go(heir);
    end(scene);
}

/* Nobody renews such a lease: it begins when the store has been asked. */
TEST(a_fixed_lease_is_whole_when_it_was_waited_for)
{
    struct scene *scene = begin_with(HF_MUTEX, 60000);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];

    take_it(holder);
    wait_for_it(scene, 1, heir);
    let_go(holder);
    EVENTUALLY(heir->state->holds, SOON_MS);
    CHECK(ask(scene, "return redis.call('pttl', 'one')") > 4000);
    let_go(heir);
    end(scene);
}

static int messages(const struct scene *scene)
{
    return ask(scene, "return tonumber(redis.call('info', 'commandstats')"
                      ":match('cmdstat_publish:calls=(%d+)'))");
}

/* A claim that waits plans its next look by the lease that it has seen. The heir sets a shorter one
 * than it was granted, and dies. */
static void check_shorter_lease(hf_mode mode,
                                void (*queue)(struct scene *, int, struct contender *))
{
    struct scene *scene = begin(mode);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1],
                     *next = &scene->contenders[2];

    take_it(holder);
    queue(scene, 1, heir);
    wait_for_it(scene, 2, next);
    child_stop(&heir->child);
    let_go(holder);
    int before = messages(scene);
    child_continue(&heir->child);
    EVENTUALLY(heir->state->holds, SOON_MS);
    /* On a machine that stood still for as long, the next one has it by now. */
    CHECK(ask(scene, "return redis.call('pttl', 'one')") <= SHORT_LEASE_MS || next->state->holds);
    /* To the next one; and of a mutex to Java's clients, too. */
    CHECK_INT(messages(scene) - before, mode == HF_FAIR ? 1 : 2);
    child_kill(&heir->child);
    heir->child.pid = 0;
    EVENTUALLY(next->state->holds, A_FEW_SECONDS_MS);
    let_go(next);
    end(scene);
}

TEST(waiter_is_told_of_a_shorter_lease_than_the_granted_one)
{
    check_shorter_lease(HF_MUTEX, wait_for_fixed_lease);
}

TEST(waiter_for_a_fair_mutex_is_told_of_a_shorter_lease_than_the_granted_one)
{
    check_shorter_lease(HF_FAIR, wait_for_fixed_lease);
}

TEST(waiter_is_told_where_the_client_has_a_shorter_lease_than_the_granted_one)
{
    check_shorter_lease(HF_MUTEX, wait_for_renewed_lease);
}
