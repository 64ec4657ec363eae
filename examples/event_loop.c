/* SPDX-License-Identifier: Apache-2.0 */
/* Locking inside an event loop of your own: poll(2), a timer, a pipe, and the client's descriptor.
 */
#include <errno.h>
#include <holdfast.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 20
#define TICKS_OF_THE_OTHER 10 /* how long the other process keeps the lock, in our ticks */
#define TICKS_OF_WORK 5

#define PATIENCE_S 60

/* Everything the program is doing. No thread, no call that blocks: each event moves it on. */
struct program {
    hf_client *client;
    hf_hold *hold;
    int timer, other; /* other: the pipe that ends the other process' hold */
    int ticks, ticks_when_granted, ticks_of_work;
    bool answered, canceled, finished, failed;
};

static void fail(struct program *program, const char *text)
{
    fprintf(stderr, "event_loop: %s\n", text);
    program->failed = program->finished = true;
}

/* The second request is cancelled while it waits, and is answered all the same, once. */
static void on_second_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct program *program = arg;
    if (code != HF_CANCELED || hold != NULL || program->canceled)
        fail(program, error != NULL ? error->text : "the cancelled request was granted");
    program->canceled = true;
    puts("the second request was cancelled");
}

static void on_first_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct program *program = arg;
    hf_request second;
    if (code != HF_OK || program->answered) {
        fail(program, error != NULL ? error->text : "answered twice");
        return;
    }
    program->answered = true;
    program->hold = hold;
    program->ticks_when_granted = program->ticks;
    printf("granted after %d ticks of other work\n", program->ticks);
    /* Each asynchronous request is an owner of its own, so this one waits for the first. */
    if (hf_lock_async(program->client, "reports", HF_FOREVER, NULL, on_second_answer, program,
                      &second) != HF_OK)
        fail(program, hf_last_error()->text);
    else
        hf_cancel(program->client, second);
}

/* The work under the lock is done in slices, between which the loop sees to everything else. */
static void work(struct program *program)
{
    if (!hf_held(program->hold)) {
        fail(program, "the lock was lost");
        return;
    }
    if (++program->ticks_of_work < TICKS_OF_WORK || !program->canceled)
        return;
    hf_unlock_nowait(program->hold);
    program->hold = NULL;
    program->finished = true;
    printf("done after %d ticks of work under the lock\n", program->ticks_of_work);
}

static void on_tick(struct program *program)
{
    uint64_t expired;
    if (read(program->timer, &expired, sizeof(expired)) != sizeof(expired)) {
        fail(program, strerror(errno));
        return;
    }
    program->ticks++;
    if (program->ticks == TICKS_OF_THE_OTHER)
        close(program->other);
    if (program->hold != NULL)
        work(program);
}

/* This is the whole connection between the library and a loop: one descriptor, one call. */
static void turn(struct program *program)
{
    struct pollfd events[] = {
        { .fd = hf_fd(program->client), .events = POLLIN },
        { .fd = program->timer, .events = POLLIN },
    };
    if (poll(events, 2, -1) < 0) {
        fail(program, strerror(errno));
        return;
    }
    if (events[0].revents != 0 && hf_dispatch(program->client) != HF_OK)
        fail(program, hf_last_error()->text);
    if (events[1].revents != 0)
        on_tick(program);
}

/* The other process: takes the lock, says so, and keeps it until its pipe ends. */
static int hold_elsewhere(int until, int ready)
{
    hf_client *client;
    hf_hold *hold;
    char byte = 0;
    alarm(PATIENCE_S);
    if (hf_open(&client, NULL, NULL) != HF_OK ||
        hf_lock(client, "reports", 0, NULL, &hold) != HF_OK) {
        fprintf(stderr, "event_loop: %s\n", hf_last_error()->text);
        return 1;
    }
    bool good = write(ready, &byte, 1) == 1 && read(until, &byte, 1) == 0;
    good = hf_unlock(hold) == HF_OK && good;
    hf_close(client);
    return good ? 0 : 1;
}

static bool start_other(struct program *program)
{
    int until[2], ready[2];
    char byte;
    pid_t pid = -1;
    if (pipe(until) != 0 || pipe(ready) != 0 || (pid = fork()) < 0) {
        fail(program, strerror(errno));
        return false;
    }
    if (pid == 0) {
        close(until[1]);
        close(ready[0]);
        _exit(hold_elsewhere(until[0], ready[1]));
    }
    close(until[0]);
    close(ready[1]);
    program->other = until[1];
    bool started = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    return started;
}

static bool start(struct program *program)
{
    const hf_client_options options = HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER);
    const struct itimerspec each_tick = { .it_interval.tv_nsec = TICK_MS * 1000000,
                                          .it_value.tv_nsec = TICK_MS * 1000000 };
    program->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (program->timer < 0 || timerfd_settime(program->timer, 0, &each_tick, NULL) != 0) {
        fail(program, strerror(errno));
        return false;
    }
    if (hf_open(&program->client, NULL, &options) != HF_OK ||
        hf_lock_async(program->client, "reports", HF_FOREVER, NULL, on_first_answer, program,
                      NULL) != HF_OK) {
        fail(program, hf_last_error()->text);
        return false;
    }
    puts("asked; another process holds the lock");
    return true;
}

int main(void)
{
    struct program program = { .timer = -1, .other = -1 };
    int status = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(PATIENCE_S);
    if (!start_other(&program))
        return 1; /* one of the two has said why */
    if (start(&program)) {
        while (!program.finished)
            turn(&program);
    }
    hf_close(program.client);
    if (wait(&status) < 0 || status != 0)
        program.failed = true;
    if (program.ticks_when_granted < TICKS_OF_THE_OTHER)
        program.failed = true;
    return program.failed ? 1 : 0;
}
