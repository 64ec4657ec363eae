/* SPDX-License-Identifier: Apache-2.0 */
/* The library as something to be tortured, by its public interface. */
#include "torture/subject.h"

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    hf_client *client;
    const struct torture_setup *setup;
    /* Of the questions that are asked on the client's loop. */
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    _Atomic bool asking; /* a question is out at the store, as the sync points tell */
};

/* One that is asked there. */
struct question {
    struct session *session;
    hf_request request;
    bool has_answer;
    int code;
    hf_hold *hold;
    hf_error error;
};

struct torture_grip {
    hf_hold *hold;
    void (*on_lost)(void *arg);
    void *lost_arg;
};

/* The last sentence of a thread. */
static _Thread_local char complaint[sizeof((hf_error *)0)->text];

static enum torture_answer broken(const char *text)
{
    snprintf(complaint, sizeof complaint, "%s", text);
    return TORTURE_BROKEN;
}

static enum torture_answer answer_saying(int code, const char *text)
{
    switch (code) {
    case HF_OK:
        return TORTURE_GRANTED;
    case HF_BUSY:
    case HF_CANCELED:
        return TORTURE_BUSY;
    case HF_UNREACHABLE:
        return TORTURE_SILENT;
    case HF_LOST:
        return TORTURE_GONE;
    case HF_EKIND:
        return TORTURE_CHANGED;
    default:
        return broken(text);
    }
}

static enum torture_answer answer(int code)
{
    return answer_saying(code, hf_last_error()->text);
}

static const char *complain(void *session)
{
    (void)session;
    return complaint;
}

static void at_point(void *arg, const char *point, const char *name)
{
    struct session *session = arg;

    if (strcmp(point, "before_loss") == 0 && session->setup->losing)
        session->setup->losing(session->setup->point_arg, name);
    if (strcmp(point, "before_ask") == 0 || strcmp(point, "before_release") == 0)
        atomic_store(&session->asking, true);
    else if (strcmp(point, "queued") == 0 || strncmp(point, "after_", 6) == 0)
        atomic_store(&session->asking, false);
    session->setup->point(session->setup->point_arg, point);
}

static bool settled(void *arg)
{
    const struct session *session = arg;

    return !atomic_load(&session->asking);
}

static void *open_session(const struct torture_setup *setup)
{
    struct session *session = calloc(1, sizeof *session);
    pthread_condattr_t steady;
    hf_client_options options =
        HF_CLIENT_OPTIONS(.lease_ms = setup->lease_ms, .on_point = setup->point ? at_point : NULL,
                          .point_arg = session);

    if (!session) {
        broken("out of memory");
        return NULL;
    }
    session->setup = setup;
    pthread_mutex_init(&session->mutex, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&session->answered, &steady);
    pthread_condattr_destroy(&steady);
    if (hf_open(&session->client, setup->url, &options) == HF_OK)
        return session;
    broken(hf_last_error()->text);
    free(session);
    return NULL;
}

static void close_session(void *arg)
{
    struct session *session = arg;

    hf_close(session->client);
    pthread_cond_destroy(&session->answered);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

/* ---- locks ---- */

static void lost(void *arg, const hf_loss *loss)
{
    const struct torture_grip *grip = arg;

    (void)loss;
    grip->on_lost(grip->lost_arg);
}

static hf_mode mode_of(const struct torture_ask *ask)
{
    static const hf_mode shares[] = { HF_WRITE, HF_READ, HF_UPGRADE };

    if (ask->lock->form == TORTURE_RW)
        return shares[ask->share];
    if (ask->lock->form == TORTURE_SEMAPHORE)
        return HF_PERMIT;
    if (strcmp(ask->lock->label, TORTURE_ELECTION) == 0)
        return HF_LEADER;
    return ask->lock->flags & TORTURE_FIFO ? HF_FAIR : HF_MUTEX;
}

static void done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct question *question = arg;
    struct session *session = question->session;

    pthread_mutex_lock(&session->mutex);
    question->code = code;
    question->hold = hold;
    question->has_answer = true;
    if (error)
        question->error = *error;
    pthread_cond_broadcast(&session->answered);
    pthread_mutex_unlock(&session->mutex);
}

static int begin(struct question *question, struct session *session, const struct torture_ask *ask,
                 const hf_lock_options *options)
{
    *question = (struct question){ .session = session };
    int code = hf_lock_async(session->client, ask->lock->name, ask->wait_ms, options, done,
                             question, &question->request);
    /* Else the answer may have come already, on the loop. */
    if (code != HF_OK) {
        question->code = code;
        question->has_answer = true;
        question->error = *hf_last_error();
    }
    return code;
}

static void wait_for_answer(struct question *question)
{
    struct session *session = question->session;

    pthread_mutex_lock(&session->mutex);
    while (!question->has_answer)
        pthread_cond_wait(&session->answered, &session->mutex);
    pthread_mutex_unlock(&session->mutex);
}

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Asks, and takes the question back if there is no answer in time. */
static int ask_and_cancel(struct session *session, const struct torture_ask *ask,
                          const hf_lock_options *options, hf_hold **ret, hf_error *error)
{
    struct timespec limit = after_ms(ask->cancel_ms);
    struct question question;
    int code = begin(&question, session, ask, options);

    if (code != HF_OK) {
        *error = question.error;
        return code;
    }
    pthread_mutex_lock(&session->mutex);
    while (!question.has_answer &&
           pthread_cond_timedwait(&session->answered, &session->mutex, &limit) == 0)
        continue;
    pthread_mutex_unlock(&session->mutex);
    hf_cancel(session->client, question.request);
    wait_for_answer(&question);
    *ret = question.hold;
    *error = question.error;
    return question.code;
}

static bool is_over(void *arg)
{
    const struct timespec *limit = arg;
    struct timespec now = after_ms(0);

    return now.tv_sec != limit->tv_sec ? now.tv_sec > limit->tv_sec : now.tv_nsec >= limit->tv_nsec;
}

/* The same on this thread, which is asked every 100 ms whether it waits on. */
static int wait_and_stop(struct session *session, const struct torture_ask *ask,
                         hf_lock_options options, hf_hold **ret)
{
    struct timespec limit = after_ms(ask->cancel_ms);
    hf_stop stop = { .size = sizeof stop, .interrupted = is_over, .interrupted_arg = &limit };

    options.stop = &stop;
    return hf_lock(session->client, ask->lock->name, ask->wait_ms, &options, ret);
}

static struct torture_grip *new_grip(const struct torture_ask *ask)
{
    struct torture_grip *grip = calloc(1, sizeof *grip);

    if (grip) {
        grip->on_lost = ask->on_lost;
        grip->lost_arg = ask->lost_arg;
    }
    return grip;
}

static hf_lock_options options_of(const struct torture_ask *ask, struct torture_grip *grip)
{
    hf_mode mode = mode_of(ask);

    return HF_LOCK_OPTIONS(.mode = mode, .permits = ask->permits,
                           .limit = mode == HF_PERMIT ? ask->lock->permits : 0,
                           .lease_ms = ask->lease_ms, .owner = ask->owner, .on_lost = lost,
                           .lost_arg = grip);
}

static enum torture_answer acquire(void *arg, const struct torture_ask *ask,
                                   struct torture_grip **ret)
{
    struct session *session = arg;
    struct torture_grip *grip = new_grip(ask);
    hf_lock_options options = options_of(ask, grip);
    hf_error error;
    bool asks_and_cancels = ask->cancel_ms > 0 && ask->cancel_ms % 2 == 0;
    int code;

    *ret = NULL;
    if (!grip)
        return broken("out of memory");
    /* A bare try that was refused passes no further point. */
    atomic_store(&session->asking, false);
    if (ask->cancel_ms <= 0)
        code = hf_lock(session->client, ask->lock->name, ask->wait_ms, &options, &grip->hold);
    else if (asks_and_cancels)
        code = ask_and_cancel(session, ask, &options, &grip->hold, &error);
    else
        code = wait_and_stop(session, ask, options, &grip->hold);
    if (code != HF_OK) {
        free(grip);
        return answer_saying(code, asks_and_cancels ? error.text : hf_last_error()->text);
    }
    *ret = grip;
    return TORTURE_GRANTED;
}

/* At most as many as a thread asks for. */
enum { SEVERAL_MAX = 8 };

static void acquire_several(void *arg, const struct torture_ask *asks, unsigned count,
                            enum torture_answer *answers, struct torture_grip **grips)
{
    struct question questions[SEVERAL_MAX];

    for (unsigned i = 0; i < count; i++) {
        grips[i] = new_grip(&asks[i]);
        hf_lock_options options = options_of(&asks[i], grips[i]);
        questions[i] = (struct question){ .code = HF_ENOMEM,
                                          .has_answer = true,
                                          .error.text = "out of memory" };
        if (grips[i])
            begin(&questions[i], arg, &asks[i], &options);
    }
    for (unsigned i = 0; i < count; i++) {
        if (questions[i].session)
            wait_for_answer(&questions[i]);
        answers[i] = answer_saying(questions[i].code, questions[i].error.text);
        if (answers[i] == TORTURE_GRANTED) {
            grips[i]->hold = questions[i].hold;
            continue;
        }
        free(grips[i]);
        grips[i] = NULL;
    }
}

/* What was lost in between has no hold any more. */
static enum torture_answer leave_and_return(void *arg, const struct torture_lock *lock,
                                            struct torture_grip *grip)
{
    const struct session *session = arg;
    char key[HF_OWNER_KEY_SIZE];
    int code = hf_detach(grip->hold, key);

    if (code != HF_OK)
        return answer(code);
    code = hf_attach(session->client, lock->name, key, &grip->hold);
    return answer(code);
}

static enum torture_answer release(void *session, struct torture_grip *grip)
{
    int code = grip->hold ? hf_unlock(grip->hold) : HF_LOST;

    (void)session;
    free(grip);
    return answer(code);
}

static bool still(void *session, const struct torture_grip *grip)
{
    (void)session;
    return grip->hold && hf_held(grip->hold);
}

static int64_t remaining_ms(void *session, const struct torture_grip *grip)
{
    (void)session;
    return grip->hold ? hf_remaining_ms(grip->hold) : 0;
}

static uint64_t token(void *session, const struct torture_grip *grip)
{
    (void)session;
    return grip->hold ? hf_token(grip->hold) : 0;
}

static enum torture_answer renew(void *session, struct torture_grip *grip, int64_t lease_ms)
{
    (void)session;
    return grip->hold ? answer(hf_renew(grip->hold, lease_ms)) : TORTURE_GONE;
}

static enum torture_answer upgrade(void *session, struct torture_grip *grip, int64_t wait_ms)
{
    (void)session;
    return answer(hf_upgrade(grip->hold, wait_ms));
}

static enum torture_answer downgrade(void *session, struct torture_grip *grip)
{
    (void)session;
    return answer(hf_downgrade(grip->hold, HF_READ));
}

/* ---- latches ---- */

static enum torture_answer latch_set(void *arg, const struct torture_lock *lock, uint32_t count)
{
    const struct session *session = arg;

    return answer(hf_latch_set(session->client, lock->name, count));
}

static enum torture_answer count_down(void *arg, const struct torture_lock *lock)
{
    const struct session *session = arg;

    return answer(hf_latch_down(session->client, lock->name, 1, NULL));
}

static enum torture_answer await(void *arg, const struct torture_lock *lock, int64_t wait_ms)
{
    const struct session *session = arg;

    return answer(hf_latch_wait(session->client, lock->name, wait_ms));
}

static enum torture_answer look(void *arg, const struct torture_lock *lock)
{
    const struct session *session = arg;
    uint32_t left = 0;
    int code = hf_latch_get(session->client, lock->name, &left);

    return code == HF_OK && left > 0 ? TORTURE_BUSY : answer(code);
}

/* ---- the end ---- */

static bool count_entry(void *arg, const hf_entry *entry)
{
    struct torture_left *left = arg;

    left->held += entry->role == HF_ROLE_HOLDER;
    left->waiting += entry->role == HF_ROLE_WAITER;
    return true;
}

static enum torture_answer inspect(void *arg, const struct torture_lock *lock,
                                   struct torture_left *ret)
{
    const struct session *session = arg;

    *ret = (struct torture_left){ 0 };
    return answer(hf_inspect(session->client, lock->name, count_entry, ret));
}

static void forget(void *arg, const struct torture_lock *lock)
{
    const struct session *session = arg;
    uint32_t left = 0;

    if (lock->form == TORTURE_SEMAPHORE)
        hf_semaphore_set(session->client, lock->name, 0);
    else if (lock->form == TORTURE_LATCH &&
             hf_latch_get(session->client, lock->name, &left) == HF_OK && left > 0)
        hf_latch_down(session->client, lock->name, left, NULL);
}

static unsigned forms_of(unsigned caps)
{
    return (caps & HF_CAP_MUTEX ? 1u << TORTURE_MUTEX : 0) |
           (caps & HF_CAP_RW ? 1u << TORTURE_RW : 0) |
           (caps & HF_CAP_PERMIT ? 1u << TORTURE_SEMAPHORE : 0) |
           (caps & HF_CAP_LATCH ? 1u << TORTURE_LATCH : 0);
}

struct torture_subject torture_holdfast(unsigned caps)
{
    return (struct torture_subject){
        .name = "holdfast",
        .open = open_session,
        .close = close_session,
        .complain = complain,
        .acquire = acquire,
        .acquire_several = acquire_several,
        .settled = settled,
        .release = release,
        .still = still,
        .remaining_ms = remaining_ms,
        .token = token,
        .leave_and_return = caps & HF_CAP_DETACH ? leave_and_return : NULL,
        .renew = renew,
        .upgrade = caps & HF_CAP_UPGRADE ? upgrade : NULL,
        .downgrade = downgrade,
        .latch_set = latch_set,
        .count_down = count_down,
        .await = await,
        .look = look,
        .forms = forms_of(caps),
        .fair = caps & HF_CAP_FAIR,
        .fences = caps & HF_CAP_TOKEN,
        .reenters = true,
        .inspect = caps & HF_CAP_INSPECT ? inspect : NULL,
        .forget = forget,
    };
}
