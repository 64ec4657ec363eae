/* Locks that a release gives to who waits for them: whoever is killed, stopped, or does not hear of
 * it at the wrong moment keeps nobody else waiting for long, and never believes too much. */
#include "conformance.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTENDERS 3

/* A process with a client of its own, which locks and unlocks the name "one" as it is told. */
struct contender {
    struct child child;
    const struct server *server;
    hf_mode mode;
    int64_t lease_ms; /* 0: renewed */
    /* What it says of itself, in shared memory. */
    struct state {
        _Atomic bool holds;
        _Atomic uint64_t token;
    } * state;
};

struct scene {
    struct server server;
    struct contender contenders[CONTENDERS];
};

static void lock(struct contender *contender, hf_client *client, hf_hold **hold)
{
    CHECK_CODE(hf_lock(client, "one", HF_FOREVER,
                       LOCK_OPTIONS(.mode = contender->mode, .lease_ms = contender->lease_ms),
                       hold),
               HF_OK);
    contender->state->token = hf_token(*hold);
    contender->state->holds = hf_held(*hold);
}

/* Where the machine stood still for so long, the wait was over before the server had answered. */
static void give_up(const struct contender *contender, hf_client *client)
{
    hf_hold *hold = NULL;
    int code = hf_lock(client, "one", 500, LOCK_OPTIONS(.mode = contender->mode), &hold);

    CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
}

static void contend(void *arg)
{
    struct contender *contender = arg;
    hf_client *client;
    hf_hold *hold = NULL;
    char line[20];

    CHECK_CODE(hf_open(&client, server_url(contender->server, 3000), NULL), HF_OK);
    while (parent_hear(line, sizeof(line)) && strcmp(line, "end") != 0) {
        if (strcmp(line, "lock") == 0) {
            lock(contender, client, &hold);
        } else if (strcmp(line, "look") == 0) {
            parent_say(hf_lock(client, "one", 0, LOCK_OPTIONS(.mode = contender->mode), &hold) ==
                               HF_OK
                           ? "free"
                           : "busy");
        } else if (strcmp(line, "try") == 0) {
            give_up(contender, client);
            parent_say("refused");
        } else {
            contender->state->holds = false;
            CHECK_CODE(hf_unlock(hold), HF_OK);
            parent_say("released");
        }
    }
    hf_close(client);
}

static struct scene *begin_with(hf_mode mode, int64_t lease_ms)
{
    static struct scene scene;
    struct state *states = shared_memory(CONTENDERS * sizeof(*states));

    TEST_TIMEOUT(120);
    memset(&scene, 0, sizeof(scene));
    server_start(&scene.server);
    for (int i = 0; i < CONTENDERS; i++) {
        struct contender *contender = &scene.contenders[i];
        contender->server = &scene.server;
        contender->mode = mode;
        contender->lease_ms = lease_ms;
        contender->state = &states[i];
        child_start(&contender->child, contend, contender);
    }
    return &scene;
}

static struct scene *begin(hf_mode mode)
{
    return begin_with(mode, 0);
}

static void leave(struct contender *contender)
{
    child_say(&contender->child, "end");
    child_join(&contender->child);
}

/* What a script answers, which is a number. */
static int ask(const struct scene *scene, const char *script)
{
    char command[700], line[40];

    CHECK(snprintf(command, sizeof(command), "EVAL \"%s\" 0", script) < (int)sizeof(command));
    CHECK(server_tell(&scene->server, command, line, sizeof(line)));
    if (line[0] != ':')
        FAIL("%s: %s", script, line);
    return (int)strtol(line + 1, NULL, 10);
}

#define QUEUE "'holdfast_lock_queue:{one}'"

/* How many are in the queue and can be told. */
static int waiting(const struct scene *scene)
{
    int listen = ask(scene, "return #redis.call('pubsub', 'channels', 'holdfast:*')");
    int queued = ask(scene, "return redis.call('zcard', " QUEUE ") + "
                            "redis.call('llen', 'redisson_lock_queue:{one}')");

    return listen < queued ? listen : queued;
}

static void take_it(struct contender *contender)
{
    child_say(&contender->child, "lock");
    EVENTUALLY(contender->state->holds, SOON_MS);
}

static void wait_for_it(struct scene *scene, int place, struct contender *contender)
{
    child_say(&contender->child, "lock");
    EVENTUALLY(waiting(scene) == place, SOON_MS);
}

static void let_go(struct contender *contender)
{
    child_say(&contender->child, "unlock");
    child_wait_for(&contender->child, "released");
}

/* Nothing but tokens. */
static void check_nothing_is_left(const struct scene *scene)
{
    EVENTUALLY(ask(scene, "local n = 0 for _, k in ipairs(redis.call('keys', '*')) do "
                          "if not k:find('^redisson_lock_token') then n = n + 1 end end "
                          "return n") == 0,
               SOON_MS);
}

static void end(struct scene *scene)
{
    for (int i = 0; i < CONTENDERS; i++)
        if (scene->contenders[i].child.pid > 0)
            leave(&scene->contenders[i]);
    check_nothing_is_left(scene);
    server_kill(&scene->server);
}

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
    EVENTUALLY(next->state->holds, SOON_MS);
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

/* ---- among clients of Redisson ---- */

#define JAVA "f81d4fae-7dec-41d0-a765-00a0c91e6bf6:"

/* A waiter of Java's, which only listens. */
static void listen_for_a_release(void *arg)
{
    const struct server *server = arg;
    int fd = server_listen(server, "redisson_lock__channel:{one}");
    char line[80];

    parent_say("listening");
    while (server_hear(fd, line, sizeof(line)))
        if (strcmp(line, "0") == 0)
            parent_say("released");
}

TEST(other_clients_have_their_turns)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];
    struct child java;
    char heard[20];

    child_start(&java, listen_for_a_release, &scene->server);
    child_wait_for(&java, "listening");
    take_it(holder);
    /* With every other release, on the average; the one that waits gets it in either case. */
    for (int i = 0; i < 30; i++) {
        struct contender *last = holder;
        wait_for_it(scene, 1, heir);
        let_go(holder);
        EVENTUALLY(heir->state->holds, SOON_MS);
        holder = heir;
        heir = last;
    }
    CHECK(child_hear(&java, heard, sizeof(heard)));
    let_go(holder);
    child_kill(&java);
    end(scene);
}

TEST(a_release_of_other_clients_is_heard)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *heir = &scene->contenders[1];

    CHECK_INT(ask(scene, "redis.call('hset', 'one', '" JAVA "7', 1) "
                         "return redis.call('pexpire', 'one', 600000)"),
              1);
    wait_for_it(scene, 1, heir);
    EVENTUALLY(ask(scene, "return redis.call('pubsub', 'numsub', "
                          "'redisson_lock__channel:{one}')[2]") == 1,
               SOON_MS);
    CHECK_INT(ask(scene, "redis.call('del', 'one') "
                         "return redis.call('publish', 'redisson_lock__channel:{one}', '0')"),
              1);
    EVENTUALLY(heir->state->holds, SOON_MS);
    let_go(heir);
    end(scene);
}

/* ---- among fair clients of Redisson ---- */

#define JAVA_QUEUES(seconds)                                                                       \
    "redis.call('rpush', 'redisson_lock_queue:{one}', '" JAVA "7') "                               \
    "return redis.call('zadd', 'redisson_lock_timeout:{one}', "                                    \
    "(redis.call('time')[1] + " seconds ") * 1000, '" JAVA "7')"

static void look_at_it(struct contender *contender, const char *answer)
{
    child_say(&contender->child, "look");
    child_wait_for(&contender->child, answer);
}

TEST(a_queue_of_the_dead_does_not_keep_the_lock)
{
    struct scene *scene = begin(HF_FAIR);

    CHECK_INT(ask(scene, JAVA_QUEUES("-1")), 1);
    look_at_it(&scene->contenders[0], "free");
    let_go(&scene->contenders[0]);
    /* Without a time, as when that key was thrown away. */
    CHECK_INT(ask(scene, "return redis.call('rpush', 'redisson_lock_queue:{one}', '" JAVA "8')"),
              1);
    look_at_it(&scene->contenders[0], "free");
    let_go(&scene->contenders[0]);
    end(scene);
}

TEST(a_java_client_before_us_is_served_first)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("300")), 1);
    child_say(&second->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == 2, SOON_MS);
    let_go(holder);
    look_at_it(holder, "busy");
    CHECK_INT(ask(scene, "return redis.call('exists', 'one')"), 0);
    CHECK(!second->state->holds);
    /* What Redisson does when its client takes the lock: all others' times come nearer. */
    CHECK_INT(ask(scene, "redis.call('lpop', 'redisson_lock_queue:{one}') local t = "
                         "'redisson_lock_timeout:{one}' redis.call('zrem', t, '" JAVA "7') "
                         "redis.call('zincrby', t, -300000, redis.call('zrange', t, 0, 0)[1]) "
                         "return redis.call('hset', 'one', '" JAVA "7', 1)"),
              1);
    look_at_it(holder, "busy");
    CHECK_INT(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')"), 1);
    /* And when it gives it back. */
    CHECK(ask(scene, "redis.call('del', 'one') local f = redis.call('lindex', "
                     "'redisson_lock_queue:{one}', 0) return redis.call('publish', "
                     "'redisson_lock__channel:{one}:' .. f, '0')") >= 0);
    EVENTUALLY(second->state->holds, SOON_MS);
    let_go(second);
    end(scene);
}

TEST(a_dead_java_client_before_us_is_passed_over)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("5")), 1);
    child_say(&second->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == 2, SOON_MS);
    let_go(holder);
    EVENTUALLY(second->state->holds, SOON_MS);
    let_go(second);
    end(scene);
}
