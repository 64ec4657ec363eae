/* SPDX-License-Identifier: Apache-2.0 */
/* Ending calls that block: by another thread, by a signal's handler, by a question. A part of the
 * topic `cancel`. */
#include "conformance.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Calls that are no hf_lock of a mode. */
#define LOCK_ALL ((hf_mode)-1)
#define RATE ((hf_mode)-2)

/* A thread that waits in one call, until a stop ends it. */
struct stopped {
    struct thread thread;
    hf_client *client;
    hf_hold *hold; /* to be upgraded */
    hf_mode mode;
    const char *name;
    hf_stop *stop;
    int64_t wait_ms;
    _Atomic int code;
    _Atomic bool ended;
};

static int wait_for_all(const struct stopped *stopped)
{
    hf_lock_item items[] = { { .client = stopped->client, .name = stopped->name },
                             { .client = stopped->client, .name = name_of("a-free-one") } };
    hf_hold_set *set;
    int code = hf_lock_all(items, 2, HF_FOREVER, LOCK_OPTIONS(.stop = stopped->stop), &set);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    return code;
}

static void wait_until_stopped(void *arg)
{
    struct stopped *stopped = arg;
    hf_hold *hold = NULL;
    if (stopped->hold)
        stopped->code = hf_upgrade_stoppable(stopped->hold, stopped->wait_ms, stopped->stop);
    else if (stopped->mode == LOCK_ALL)
        stopped->code = wait_for_all(stopped);
    else if (stopped->mode == RATE)
        stopped->code =
            hf_rate_take(stopped->client, stopped->name,
                         &HF_RATE(.permits = 1, .period_ms = 3600 * 1000, .stop = stopped->stop), 1,
                         stopped->wait_ms, NULL);
    else
        stopped->code = hf_lock(
            stopped->client, stopped->name, stopped->wait_ms,
            LOCK_OPTIONS(.mode = stopped->mode, .owner = HF_OWNER_NEW, .stop = stopped->stop),
            &hold);
    CHECK((hold != NULL) == (stopped->code == HF_OK && !stopped->hold));
    if (hold)
        give_back(hold);
    stopped->ended = true;
}

static void begin_stopped(struct stopped *stopped)
{
    stopped->wait_ms = HF_FOREVER;
    thread_start(&stopped->thread, wait_until_stopped, stopped);
}

/* It waits now, as far as another thread can see that. */
static void check_it_waits(const struct stopped *stopped)
{
    let_pass_ms(30);
    CHECK(!stopped->ended);
}

static void check_stopped(struct stopped *stopped)
{
    thread_join(&stopped->thread);
    CHECK_CODE(stopped->code, HF_CANCELED);
}

/* Stops what waits for the name, after one look at how long it waits. */
static void stop_a_wait(hf_client *client, hf_mode mode, const char *name, hf_hold *hold)
{
    hf_stop stop = HF_STOP_INIT;
    struct stopped waits = {
        .client = client, .mode = mode, .name = name, .hold = hold, .stop = &stop
    };
    begin_stopped(&waits);
    check_it_waits(&waits);
    int64_t began_us = monotonic_us();
    hf_stop_set(&stop);
    check_stopped(&waits);
    test_note("mode %d: stopped after %lld us", (int)mode, (long long)(monotonic_us() - began_us));
}

static void stop_each_wait(hf_client *client, hf_client *other)
{
    const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    const unsigned caps[] = { HF_CAP_MUTEX, HF_CAP_FAIR, HF_CAP_RW };
    /* A place that a stopped wait takes late goes again, but its name is of its kind until then. */
    const char *names[] = { name_of("a-mutex"), name_of("a-fair-one"), name_of("a-written-one") };
    for (int i = 0; i < 3; i++) {
        if (!(hf_caps(client) & caps[i]))
            continue;
        hf_hold *hold = take(other, names[i], modes[i], 0);
        stop_a_wait(client, modes[i], names[i], NULL);
        if (i == 0)
            stop_a_wait(client, LOCK_ALL, names[i], NULL);
        give_back(hold);
        if (hf_fd(client) < 0) /* else only closing, or dispatching, finishes what was stopped */
            check_nothing_left(other, names[i]);
    }
    hf_close(client);
    for (int i = 0; i < 3; i++)
        check_nothing_left(other, names[i]);
    check_nothing_left(other, name_of("a-free-one"));
}

TEST(stop_ends_waits_for_locks)
{
    hf_client *other = open_client();
    stop_each_wait(open_client(), other);
    stop_each_wait(open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER }), other);
    hf_close(other);
}

TEST(stop_ends_waits_for_counters_and_latches)
{
    hf_client *client = open_client();
    need(client, HF_CAP_COUNTER | HF_CAP_LATCH);
    CHECK_CODE(hf_counter_set(client, name_of("counter"), 0), HF_OK);
    CHECK_CODE(hf_latch_set(client, name_of("latch"), 1), HF_OK);
    stop_a_wait(client, HF_COUNTER, name_of("counter"), NULL);
    stop_a_wait(client, HF_LATCH, name_of("latch"), NULL);
    CHECK_CODE(hf_counter_add(client, name_of("counter"), 1), HF_OK);
    CHECK_CODE(hf_counter_take(client, name_of("counter"), 1, 0), HF_OK);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    CHECK_CODE(hf_counter_remove(client, name_of("counter")), HF_OK);
    hf_close(client);
}

TEST(stop_ends_an_upgrade_and_keeps_the_hold)
{
    hf_client *client = open_client(), *other = open_client();
    need(client, HF_CAP_UPGRADE);
    hf_hold *hold = take(client, name_of("one"), HF_UPGRADE, 0);
    hf_hold *reader = take(other, name_of("one"), HF_READ, 0);
    for (int i = 0; i < 3; i++) {
        stop_a_wait(client, HF_WRITE, NULL, hold);
        CHECK(hf_held(hold));
        CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
    }
    give_back(reader);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

TEST(stop_ends_waits_of_several_threads_and_a_request)
{
    enum { COUNT = 8 };
    hf_client *client = open_client();
    hf_stop stop = HF_STOP_INIT;
    struct stopped waits[COUNT];
    struct outcome outcome = { 0 };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    for (int i = 0; i < COUNT; i++) {
        waits[i] = (struct stopped){ .client = client, .name = name_of("one"), .stop = &stop };
        begin_stopped(&waits[i]);
    }
    CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.stop = &stop),
                             record_outcome, &outcome, NULL),
               HF_OK);
    check_it_waits(&waits[0]);
    hf_stop_set(&stop);
    for (int i = 0; i < COUNT; i++)
        check_stopped(&waits[i]);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    CHECK_INT(outcome.calls, 1);
    give_back(hold);
    check_nothing_left(client, name_of("one"));
    hf_close(client);
}

/* No thread of theirs looks at the stop: all of them hear it by their client's loop alone. */
TEST(stop_ends_requests_of_several_clients)
{
    hf_client *clients[] = { open_client(), open_client() };
    hf_stop stop = HF_STOP_INIT;
    struct outcome outcomes[4] = { 0 };
    hf_hold *hold = take(clients[0], name_of("one"), HF_MUTEX, 0);
    for (int i = 0; i < 4; i++)
        CHECK_CODE(hf_lock_async(clients[i % 2], name_of("one"), HF_FOREVER,
                                 LOCK_OPTIONS(.stop = &stop), record_outcome, &outcomes[i], NULL),
                   HF_OK);
    hf_stop_set(&stop);
    for (int i = 0; i < 4; i++) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_CANCELED);
    }
    give_back(hold);
    check_nothing_left(clients[0], name_of("one"));
    hf_close(clients[1]);
    hf_close(clients[0]);
}

/* A request that its own thread has asked for, and that the loop has not got yet. */
struct between {
    hf_client *client;
    hf_stop stop;
    struct outcome request, after;
    pthread_t thread;
    _Atomic bool reached;
};

/* The library may not be called at a point, so another thread does that meanwhile. */
static void stop_from_elsewhere(void *arg)
{
    struct between *between = arg;

    CHECK_CODE(hf_lock_async(between->client, name_of("held"), HF_FOREVER,
                             LOCK_OPTIONS(.stop = &between->stop), record_outcome, &between->after,
                             NULL),
               HF_OK);
    hf_stop_set(&between->stop);
    WAIT_OUTCOME(&between->after);
}

static void stop_when_refused(void *arg, const char *point, const char *name)
{
    struct between *between = arg;
    struct thread thread;

    if (strcmp(point, "queued") != 0 || strcmp(name, name_of("one")) != 0 ||
        !pthread_equal(pthread_self(), between->thread) || between->reached)
        return;
    between->reached = true;
    thread_start(&thread, stop_from_elsewhere, between);
    thread_join(&thread);
}

TEST(stop_ends_a_start_that_goes_to_the_loop)
{
    struct between between = { .stop = HF_STOP_INIT, .thread = pthread_self() };
    hf_client *other = open_client();
    hf_hold *one = take(other, name_of("one"), HF_MUTEX, 0), *never = NULL;
    hf_hold *held = take(other, name_of("held"), HF_MUTEX, 0);

    between.client = open_client_with(
        (hf_client_options){ .on_point = stop_when_refused, .point_arg = &between });
    CHECK_CODE(hf_lock_start(between.client, name_of("one"), HF_FOREVER,
                             LOCK_OPTIONS(.stop = &between.stop), record_outcome, &between.request,
                             NULL, &never),
               HF_OK);
    CHECK(never == NULL);
    CHECK(between.reached == store_is_local());
    hf_stop_set(&between.stop);
    WAIT_OUTCOME(&between.request);
    CHECK_CODE(between.request.code, HF_CANCELED);
    hf_close(between.client);
    give_back(one);
    give_back(held);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
    CHECK_INT(between.request.calls, 1);
}

TEST(stop_that_is_set_ends_calls_that_begin)
{
    hf_client *client = open_client();
    hf_stop stop = HF_STOP_INIT;
    hf_hold *hold;
    hf_hold_set *set;
    struct outcome outcome = { 0 };
    hf_lock_options options = { .size = sizeof(options), .stop = &stop };
    hf_lock_item item = { .client = client, .name = name_of("one") };
    hf_stop_set(&stop);
    CHECK(hf_stop_is_set(&stop));
    CHECK_ERROR(hf_lock(client, name_of("one"), HF_FOREVER, &options, &hold), HF_CANCELED);
    CHECK_ERROR(hf_lock_all(&item, 1, HF_FOREVER, &options, &set), HF_CANCELED);
    CHECK_ERROR(
        hf_lock_async(client, name_of("one"), HF_FOREVER, &options, record_outcome, &outcome, NULL),
        HF_CANCELED);
    hf_stop_clear(&stop);
    CHECK_CODE(hf_lock(client, name_of("one"), HF_FOREVER, &options, &hold), HF_OK);
    hf_stop_set(&stop);
    CHECK(hf_held(hold));
    give_back(hold);
    CHECK_INT(outcome.calls, 0);
    hf_stop_set(NULL);
    stop.size = 1;
    hf_stop_clear(&stop);
    CHECK_ERROR(hf_lock(client, name_of("one"), 0, &options, &hold), HF_EINVAL);
    hf_close(client);
}

static hf_stop signal_stop = HF_STOP_INIT;

static void set_signal_stop(int number)
{
    int error = errno;
    (void)number;
    errno = EDOM;
    hf_stop_set(&signal_stop);
    if (errno != EDOM)
        abort();
    errno = error;
}

/* The handler runs on the thread that waits, in whatever it is doing. */
TEST(stop_set_by_a_handler_ends_the_wait_it_interrupts)
{
    hf_client *client = open_client(), *other = open_client();
    struct sigaction action = { .sa_handler = set_signal_stop };
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 50; i++) {
        struct stopped waits = { .client = client, .name = name_of("one"), .stop = &signal_stop };
        hf_stop_clear(&signal_stop);
        begin_stopped(&waits);
        let_pass_ms(i % 5);
        while (!waits.ended) {
            pthread_kill(waits.thread.id, SIGUSR1);
            let_pass_ms(1);
        }
        check_stopped(&waits);
    }
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

struct question {
    pthread_t thread;
    _Atomic int asked;
    int yes_at;
};

static bool answer_question(void *arg)
{
    struct question *question = arg;
    question->thread = pthread_self();
    return ++question->asked >= question->yes_at;
}

static void check_question(hf_client *client, const char *name, hf_mode mode)
{
    struct question question = { .yes_at = 3 };
    hf_stop stop = { sizeof(stop), answer_question, &question, 0 };
    struct stopped waits = { .client = client, .name = name, .mode = mode, .stop = &stop };
    begin_stopped(&waits);
    check_stopped(&waits);
    CHECK(question.asked >= 3);
    CHECK(!pthread_equal(question.thread, pthread_self()));
    CHECK(!hf_stop_is_set(&stop));
}

TEST(interrupted_is_asked_on_the_waiting_thread_and_ends_the_wait)
{
    hf_client *other = open_client(), *client = open_client();
    hf_client *driven = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    check_question(client, name_of("one"), HF_MUTEX);
    check_question(client, name_of("one"), LOCK_ALL);
    check_question(driven, name_of("one"), HF_MUTEX);
    hf_close(driven);
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

TEST(stop_races_with_the_grant)
{
    hf_client *client = open_client(), *other = open_client();
    int canceled = 0;
    for (int i = 0; i < 100; i++) {
        hf_stop stop = HF_STOP_INIT;
        struct stopped waits = { .client = client, .name = name_of("one"), .stop = &stop };
        hf_hold *hold = take_patiently(other, name_of("one"));
        begin_stopped(&waits);
        let_pass_ms(i % 3);
        if (i % 2)
            hf_stop_set(&stop);
        give_back(hold);
        hf_stop_set(&stop);
        thread_join(&waits.thread);
        canceled += waits.code == HF_CANCELED;
        CHECK(waits.code == HF_OK || waits.code == HF_CANCELED);
    }
    test_note("%d of 100 were stopped", canceled);
    check_nothing_left(client, name_of("one"));
    hf_close(client);
    hf_close(other);
}

/* ---- a silent store ---- */

/* 'T' for a thread that is stopped. 0: it has ended. */
static char state_of(pid_t process, const char *thread)
{
    char path[320], words[1024] = { 0 };
    snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)process, thread);
    FILE *stat = fopen(path, "r");
    size_t length = stat ? fread(words, 1, sizeof(words) - 1, stat) : 0;
    if (stat)
        fclose(stat);
    const char *after_name = length > 0 ? strrchr(words, ')') : NULL;
    return after_name ? after_name[2] : 0;
}

/* On a busy machine other threads of a process run on for a while after the signal. */
static bool is_stopped(pid_t process)
{
    char path[64];
    bool stopped = true;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        char state = entry->d_name[0] == '.' ? 0 : state_of(process, entry->d_name);
        stopped = stopped && (state == 0 || strchr("TtZX", state));
    }
    if (threads)
        closedir(threads);
    return stopped;
}

/* The servers of a test, and what they have started, are what its script has started besides the
 * program of this test. */
static void signal_servers(pid_t parent, pid_t program, int number)
{
    char path[64];
    pid_t child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *children = fopen(path, "r");
    for (int got = 0; children && (got = fscanf(children, "%d", &child)) == 1;) {
        if (child == program)
            continue;
        kill(child, number);
        if (number == SIGSTOP)
            EVENTUALLY(is_stopped(child), SOON_MS);
        signal_servers(child, program, number);
    }
    if (children)
        fclose(children);
}

static pid_t parent_of(pid_t process)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d %*s %*c %d", &parent) != 1)
        FAIL("%s cannot be read", path);
    fclose(stat);
    return parent;
}

static bool starts_servers(pid_t process)
{
    char path[64], words[4096] = { 0 };
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)process);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(words, 1, sizeof(words) - 1, file) : 0;
    if (file)
        fclose(file);
    return memmem(words, length, "/with_", 6) != NULL;
}

static void note_question(void *arg, const char *point, const char *name)
{
    (void)name;
    if (strcmp(point, "before_ask") == 0)
        ++*(_Atomic int *)arg;
}

/* What can wait, and what it needs. */
static const struct {
    const char *name;
    hf_mode mode;
    unsigned caps;
} waits_of[] = {
    { "mutex", HF_MUTEX, HF_CAP_MUTEX },    { "all", LOCK_ALL, HF_CAP_MUTEX },
    { "fair", HF_FAIR, HF_CAP_FAIR },       { "read", HF_READ, HF_CAP_RW },
    { "write", HF_WRITE, HF_CAP_RW },       { "upgraded", HF_UPGRADE, HF_CAP_UPGRADE },
    { "permit", HF_PERMIT, HF_CAP_PERMIT }, { "count", HF_COUNTER, HF_CAP_COUNTER },
    { "latch", HF_LATCH, HF_CAP_LATCH },    { "leader", HF_LEADER, HF_CAP_MUTEX },
    { "rate", RATE, HF_CAP_RATE },
};

struct silence {
    hf_client *client, *other;
    pid_t script, program;
    int64_t longest_us;
};

/* A handler on the thread that waits ends the wait, and what it asked for is not there later. */
static void stop_in_silence(struct silence *silence, int kind)
{
    const char *name = name_of(waits_of[kind].name);
    struct stopped waits = {
        .client = silence->client, .mode = waits_of[kind].mode, .name = name, .stop = &signal_stop
    };
    hf_hold *hold = NULL;
    uint32_t left = 1;

    if (waits.mode == HF_UPGRADE)
        waits.hold = hold = take(silence->client, name, HF_UPGRADE, 0);
    if (waits.mode == HF_PERMIT)
        CHECK_CODE(hf_semaphore_set(silence->other, name, 1), HF_OK);
    if (waits.mode == HF_COUNTER)
        CHECK_CODE(hf_counter_set(silence->other, name, 1), HF_OK);
    signal_servers(silence->script, silence->program, SIGSTOP);
    hf_stop_clear(&signal_stop);
    begin_stopped(&waits);
    check_it_waits(&waits);
    int64_t began_us = monotonic_us();
    pthread_kill(waits.thread.id, SIGUSR1);
    check_stopped(&waits);
    int64_t took_us = monotonic_us() - began_us;
    signal_servers(silence->script, silence->program, SIGCONT);
    test_note("%s: stopped after %lld us", waits_of[kind].name, (long long)took_us);
    if (took_us > silence->longest_us)
        silence->longest_us = took_us;
    if (hold) {
        CHECK(hf_held(hold));
        CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
        give_back(hold);
    }
    if (waits.mode == HF_COUNTER && hf_fd(silence->client) < 0) {
        EVENTUALLY(hf_counter_get(silence->other, name, &left) == HF_OK && left == 1, SOON_MS);
    } else if (waits.mode != RATE && hf_fd(silence->client) < 0) {
        check_nothing_left(silence->other, name);
    }
}

static void stop_each_in_silence(hf_driver driver)
{
    struct sigaction action = { .sa_handler = set_signal_stop };
    pid_t program = getppid(), script = parent_of(program);

    if (!starts_servers(script))
        SKIP("the store has no server of this test's own");
    struct silence silence = { .client = open_client_with((hf_client_options){ .driver = driver }),
                               .other = open_client(),
                               .script = script,
                               .program = program };
    sigaction(SIGUSR1, &action, NULL);
    for (size_t i = 0; i < sizeof(waits_of) / sizeof(waits_of[0]); i++)
        if ((hf_caps(silence.client) & waits_of[i].caps) == waits_of[i].caps)
            stop_in_silence(&silence, (int)i);
    CHECK(silence.longest_us < 1000000 * (int64_t)test_slow());
    hf_close(silence.client);
    check_nothing_left(silence.other, name_of("mutex"));
    check_nothing_left(silence.other, name_of("a-free-one"));
    hf_close(silence.other);
}

TEST(handler_ends_each_wait_for_a_silent_store)
{
    stop_each_in_silence(HF_DRIVE_THREAD);
}

TEST(handler_ends_each_wait_of_a_driving_thread_for_a_silent_store)
{
    stop_each_in_silence(HF_DRIVE_CALLER);
}

TEST(stop_ends_a_wait_for_a_silent_store)
{
    _Atomic int asked = 0;
    hf_stop stop = HF_STOP_INIT;
    pid_t program = getppid(), script = parent_of(program);
    if (!starts_servers(script))
        SKIP("the store has no server of this test's own");
    hf_client *client =
        open_client_with((hf_client_options){ .on_point = note_question, .point_arg = &asked });
    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    int before = asked;
    struct stopped waits = { .client = client, .name = name_of("one"), .stop = &stop };
    signal_servers(script, program, SIGSTOP);
    begin_stopped(&waits);
    EVENTUALLY(asked > before, SOON_MS);
    check_it_waits(&waits);
    int64_t began_us = monotonic_us();
    hf_stop_set(&stop);
    check_stopped(&waits);
    test_note("stopped after %lld us", (long long)(monotonic_us() - began_us));
    signal_servers(script, program, SIGCONT);
    check_nothing_left(client, name_of("one"));
    hf_close(client);
}
