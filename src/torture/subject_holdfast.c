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
    /* A question that can be taken back is asked on the client's loop. */
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool has_answer;
    _Atomic bool asking; /* a question is out at the store, as the sync points tell */
    int code;
    hf_hold *hold;
};

struct torture_grip {
    hf_hold *hold;
    void (*on_lost)(void *arg);
    void *lost_arg;
};

/* The last sentence: a client's process has one session, and complains once. */
static char complaint[sizeof((hf_error *)0)->text];

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

    (void)name;
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
    return ask->lock->flags & TORTURE_FIFO ? HF_FAIR : HF_MUTEX;
}

static void done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct session *session = arg;

    pthread_mutex_lock(&session->mutex);
    session->code = code;
    session->hold = hold;
    session->has_answer = true;
    (void)error;
    pthread_cond_signal(&session->answered);
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
                          const hf_lock_options *options, hf_hold **ret)
{
    struct timespec limit = after_ms(ask->cancel_ms);
    hf_request request;
    int code;

    session->has_answer = false;
    code = hf_lock_async(session->client, ask->lock->name, ask->wait_ms, options, done, session,
                         &request);
    if (code != HF_OK)
        return code;
    pthread_mutex_lock(&session->mutex);
    while (!session->has_answer &&
           pthread_cond_timedwait(&session->answered, &session->mutex, &limit) == 0)
        continue;
    pthread_mutex_unlock(&session->mutex);
    hf_cancel(session->client, request);
    pthread_mutex_lock(&session->mutex);
    while (!session->has_answer)
        pthread_cond_wait(&session->answered, &session->mutex);
    pthread_mutex_unlock(&session->mutex);
    *ret = session->hold;
    return session->code;
}

static enum torture_answer acquire(void *arg, const struct torture_ask *ask,
                                   struct torture_grip **ret)
{
    struct session *session = arg;
    struct torture_grip *grip = calloc(1, sizeof *grip);
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode_of(ask), .permits = ask->permits, .lease_ms = ask->lease_ms,
                        .owner = ask->owner, .on_lost = lost, .lost_arg = grip);
    int code;

    *ret = NULL;
    if (!grip)
        return broken("out of memory");
    if (options.mode == HF_PERMIT)
        options.limit = ask->lock->permits;
    grip->on_lost = ask->on_lost;
    grip->lost_arg = ask->lost_arg;
    /* A bare try that was refused passes no further point. */
    atomic_store(&session->asking, false);
    code = ask->cancel_ms > 0
               ? ask_and_cancel(session, ask, &options, &grip->hold)
               : hf_lock(session->client, ask->lock->name, ask->wait_ms, &options, &grip->hold);
    if (code != HF_OK) {
        free(grip);
        return answer_saying(code, ask->cancel_ms > 0 ? hf_code_text(code) : hf_last_error()->text);
    }
    *ret = grip;
    return TORTURE_GRANTED;
}

static enum torture_answer release(void *session, struct torture_grip *grip)
{
    int code = hf_unlock(grip->hold);

    (void)session;
    free(grip);
    return answer(code);
}

static bool still(void *session, const struct torture_grip *grip)
{
    (void)session;
    return hf_held(grip->hold);
}

static int64_t remaining_ms(void *session, const struct torture_grip *grip)
{
    (void)session;
    return hf_remaining_ms(grip->hold);
}

static uint64_t token(void *session, const struct torture_grip *grip)
{
    (void)session;
    return hf_token(grip->hold);
}

static enum torture_answer renew(void *session, struct torture_grip *grip, int64_t lease_ms)
{
    (void)session;
    return answer(hf_renew(grip->hold, lease_ms));
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
        .settled = settled,
        .release = release,
        .still = still,
        .remaining_ms = remaining_ms,
        .token = token,
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
