/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: timers against a sorted model, the order of tasks, and threads that post. */
#include "base/loop.h"

#include "test.h"

#define TIMERS 200

static int64_t clock_ms;
static _Atomic unsigned wakes;

static int64_t read_clock(void *arg)
{
    (void)arg;
    return clock_ms;
}

static void count_wake(void *arg)
{
    (void)arg;
    atomic_fetch_add(&wakes, 1);
}

static uint64_t random_state;

static unsigned random_below(unsigned limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % limit;
}

struct modelled {
    struct hf_timer timer;
    int64_t at_ms; /* HF_NEVER: not started */
};

static struct modelled timers[TIMERS];
static unsigned fired;

static void fire(struct hf_timer *timer)
{
    struct modelled *modelled = HF_CONTAINER(timer, struct modelled, timer);
    CHECK(!timer->started);
    CHECK(modelled->at_ms <= clock_ms);
    for (int i = 0; i < TIMERS; i++)
        CHECK(timers[i].at_ms >= modelled->at_ms);
    modelled->at_ms = HF_NEVER;
    fired++;
}

static int64_t earliest(void)
{
    int64_t first = HF_NEVER;
    for (int i = 0; i < TIMERS; i++)
        if (timers[i].at_ms < first)
            first = timers[i].at_ms;
    return first;
}

static void change_one(struct hf_loop *loop)
{
    struct modelled *timer = &timers[random_below(TIMERS)];
    if (random_below(3) == 0) {
        hf__timer_stop(loop, &timer->timer);
        timer->at_ms = HF_NEVER;
        return;
    }
    timer->at_ms = clock_ms + random_below(100);
    hf__timer_start(loop, &timer->timer, timer->at_ms);
}

static void run_model(struct hf_loop *loop, uint64_t seed)
{
    random_state = seed;
    for (int i = 0; i < TIMERS; i++) {
        hf__timer_init(&timers[i].timer, fire);
        timers[i].at_ms = HF_NEVER;
    }
    for (int round = 0; round < 2000; round++) {
        change_one(loop);
        if (random_below(4) == 0)
            clock_ms += random_below(10);
        CHECK(hf__loop_turn(loop) == earliest());
    }
    clock_ms += 1000;
    CHECK(hf__loop_turn(loop) == HF_NEVER);
}

TEST(timers_agree_with_a_sorted_model)
{
    struct hf_loop loop;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    for (uint64_t seed = 1; seed <= 20; seed++)
        run_model(&loop, seed);
    CHECK(fired > 1000);
}

struct numbered {
    struct hf_task task;
    int number;
};

static int order[256];
static unsigned order_count;
static struct hf_loop *running;
static struct numbered late;

static void note(struct hf_task *task)
{
    order[order_count++] = HF_CONTAINER(task, struct numbered, task)->number;
}

static void note_and_defer(struct hf_task *task)
{
    note(task);
    hf__loop_defer(running, &late.task);
}

TEST(tasks_run_in_order_and_once)
{
    struct hf_loop loop;
    struct numbered a = { .number = 1 }, b = { .number = 2 }, c = { .number = 3 };
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    running = &loop;
    late.number = 9;
    hf__task_init(&a.task, note_and_defer);
    hf__task_init(&b.task, note);
    hf__task_init(&c.task, note);
    hf__task_init(&late.task, note);
    hf__loop_defer(&loop, &a.task);
    hf__loop_defer(&loop, &b.task);
    hf__loop_defer(&loop, &a.task);
    hf__loop_post(&loop, &c.task);
    CHECK_INT(wakes, 1);
    hf__loop_turn(&loop);
    CHECK_INT(order_count, 4);
    CHECK_INT(order[0], 1);
    CHECK_INT(order[1], 2);
    CHECK_INT(order[2], 3);
    CHECK_INT(order[3], 9);
}

#define WOKEN 60

/* Its thread asks for more at once. */
static void wake_and_post(struct hf_task *task)
{
    static struct numbered posted[WOKEN];
    int number = HF_CONTAINER(task, struct numbered, task)->number;
    note(task);
    hf__loop_wake_batch_full(running);
    posted[number].number = WOKEN + number;
    hf__task_init(&posted[number].task, note_and_defer);
    hf__loop_post(running, &posted[number].task);
}

static int place_of(int number)
{
    for (unsigned i = 0; i < order_count; i++)
        if (order[i] == number)
            return (int)i;
    return -1;
}

/* With all that follows from it; but what is posted then waits, so that a turn has an end. */
TEST(who_is_woken_first_is_heard_before_the_last_is_woken)
{
    struct hf_loop loop;
    struct numbered woken[WOKEN];
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    running = &loop;
    order_count = 0;
    late.number = 1000;
    hf__task_init(&late.task, note);
    for (int i = 0; i < WOKEN; i++) {
        woken[i].number = i;
        hf__task_init(&woken[i].task, wake_and_post);
        hf__loop_defer(&loop, &woken[i].task);
    }
    CHECK_INT(hf__loop_turn(&loop), clock_ms);
    CHECK(place_of(WOKEN) > 0);
    CHECK(place_of(WOKEN) < place_of(1000));
    CHECK(place_of(1000) < place_of(WOKEN - 1));
    CHECK(place_of(WOKEN - 1) == (int)order_count - 1);
    CHECK(place_of(2 * WOKEN - 1) == -1);
    hf__loop_turn(&loop);
    CHECK(place_of(2 * WOKEN - 1) > 0);
    for (int i = 1; i < WOKEN; i++)
        CHECK(place_of(i - 1) < place_of(i) && place_of(WOKEN + i - 1) < place_of(WOKEN + i));
}

static unsigned crowd_fired;

static void count_fire(struct hf_timer *timer)
{
    (void)timer;
    crowd_fired++;
}

/* Who posts to a loop that is being turned need not wake it; what is posted before it rests keeps
 * it from resting. */
TEST(who_is_awake_is_not_woken)
{
    struct hf_loop loop;
    struct numbered a = { .number = 1 }, b = { .number = 2 };
    struct hf_timer timer;
    wakes = order_count = 0;
    clock_ms = 100;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    hf__task_init(&a.task, note);
    hf__task_init(&b.task, note);
    atomic_store(&loop.awake, true);
    hf__loop_post(&loop, &a.task);
    CHECK_INT(wakes, 0);
    CHECK(!hf__loop_rest(&loop));
    hf__loop_turn(&loop);
    CHECK_INT(order_count, 1);
    CHECK(hf__loop_rest(&loop));
    hf__loop_post(&loop, &b.task);
    CHECK_INT(wakes, 1);
    hf__loop_turn(&loop);
    hf__timer_init(&timer, count_fire);
    hf__timer_start(&loop, &timer, 100);
    CHECK(!hf__loop_rest(&loop));
    hf__timer_stop(&loop, &timer);
    CHECK(hf__loop_rest(&loop));
}

static int64_t seen_between, seen_within;

static void look_at_time(struct hf_task *task)
{
    (void)task;
    clock_ms += 5;
    seen_within = hf__loop_now(running);
}

/* Within a turn time stands still; between turns it does not. */
TEST(the_time_of_a_turn)
{
    struct hf_loop loop;
    struct hf_task task;
    clock_ms = 100;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    running = &loop;
    hf__task_init(&task, look_at_time);
    hf__loop_defer(&loop, &task);
    clock_ms = 200;
    seen_between = hf__loop_now(&loop);
    hf__loop_turn(&loop);
    CHECK_INT(seen_between, 200);
    CHECK_INT(seen_within, 200);
    CHECK_INT(hf__loop_now(&loop), 205);
}

static struct hf_task heard;

static void post_heard(struct hf_task *task)
{
    (void)task;
    hf__loop_post(running, &heard);
}

static void wake_one(struct hf_task *task)
{
    (void)task;
    clock_ms++;
    hf__loop_wake_batch_full(running);
}

/* What is heard from those who are woken does not begin in the past. */
TEST(the_time_of_what_is_heard_in_a_turn)
{
    struct hf_loop loop;
    struct hf_task poster, wakers[WOKEN];
    clock_ms = 100;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    running = &loop;
    hf__task_init(&heard, look_at_time);
    hf__task_init(&poster, post_heard);
    hf__loop_defer(&loop, &poster);
    for (int i = 0; i < WOKEN; i++) {
        hf__task_init(&wakers[i], wake_one);
        hf__loop_defer(&loop, &wakers[i]);
    }
    seen_within = 0;
    hf__loop_turn(&loop);
    CHECK(seen_within > 100);
    CHECK(seen_within < 100 + WOKEN);
}

#define CROWD 2500

static struct hf_timer crowd[CROWD];
static unsigned fired_before_the_task;

static void count_before(struct hf_task *task)
{
    (void)task;
    fired_before_the_task = crowd_fired;
}

/* However many are due, what is ready has its turn in between. */
TEST(very_many_timers_are_several_turns)
{
    struct hf_loop loop;
    struct hf_task task;
    unsigned turns = 0;
    clock_ms = 100;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    for (int i = 0; i < CROWD; i++) {
        hf__timer_init(&crowd[i], count_fire);
        hf__timer_start(&loop, &crowd[i], 50);
    }
    hf__task_init(&task, count_before);
    hf__loop_defer(&loop, &task);
    for (int64_t next_ms = 50; next_ms != HF_NEVER; turns++) {
        CHECK_INT(next_ms, 50);
        next_ms = hf__loop_turn(&loop);
    }
    CHECK_INT(turns, 3);
    CHECK_INT(crowd_fired, CROWD);
    CHECK_INT(fired_before_the_task, 1000);
}

#define POSTERS 4
#define POSTS 5000

static struct numbered posted[POSTERS][POSTS];
static int next_of[POSTERS];
static unsigned arrived;

static void arrive(struct hf_task *task)
{
    int number = HF_CONTAINER(task, struct numbered, task)->number;
    CHECK_INT(number % POSTS, next_of[number / POSTS]);
    next_of[number / POSTS]++;
    arrived++;
}

static void post_all(void *arg, int index)
{
    for (int i = 0; i < POSTS; i++)
        hf__loop_post(arg, &posted[index][i].task);
}

static void turn_until_all(void *arg)
{
    while (arrived < POSTERS * POSTS)
        hf__loop_turn(arg);
}

TEST(threads_post_in_their_order)
{
    struct hf_loop loop;
    struct thread turning;
    hf__loop_init(&loop, read_clock, count_wake, NULL);
    for (int p = 0; p < POSTERS; p++)
        for (int i = 0; i < POSTS; i++) {
            posted[p][i].number = p * POSTS + i;
            hf__task_init(&posted[p][i].task, arrive);
        }
    thread_start(&turning, turn_until_all, &loop);
    threads_run(POSTERS, post_all, &loop);
    thread_join(&turning);
    CHECK_INT(arrived, POSTERS * POSTS);
    CHECK(wakes >= 1);
}
