/* SPDX-License-Identifier: Apache-2.0 */
/* Elections: a leadership is a hold of a lock, and its holder, as the store shows it, the leader.
 * A watch asks again and again, on a thread of its own, and tells what has changed. */
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "core/api/calls.h"

#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVERY_MS 1000
#define EVERY_MIN_MS 10

struct hf_watch {
    hf_client *client;
    hf_leader_cb *changed;
    void *arg;
    int64_t every_ms;
    hf_leader leader; /* the last that was told */
    pid_t process;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ends;
    bool ended;
    bool ended_by_itself; /* by `changed`: the thread frees the watch */
    char name[];
};

#define election_fail(code, ...) hf__error_set(hf__error_last(), code, 0, __VA_ARGS__)

/* ---- campaigns ---- */

/* A wrong size is left to hf_lock, which says what is wrong with it. */
static const hf_lock_options *candidacy(hf_lock_options *own, const hf_lock_options *given)
{
    if (given && (given->size < offsetof(hf_lock_options, no_reentry) || given->size > sizeof *own))
        return given;
    *own = (hf_lock_options)HF_LOCK_OPTIONS_INIT;
    if (given)
        memcpy(own, given, given->size);
    own->mode = HF_LEADER;
    if (!own->owner) /* mutant: candidate-is-the-thread */
        own->owner = HF_OWNER_NEW;
    return own;
}

int hf_campaign(hf_client *client, const char *name, int64_t wait_ms,
                const hf_lock_options *options, hf_hold **ret)
{
    hf_lock_options own;
    return hf_lock(client, name, wait_ms, candidacy(&own, options), ret);
}

int hf_campaign_async(hf_client *client, const char *name, int64_t wait_ms,
                      const hf_lock_options *options, hf_done_cb *done, void *arg, hf_request *ret)
{
    hf_lock_options own;
    return hf_lock_async(client, name, wait_ms, candidacy(&own, options), done, arg, ret);
}

int hf_resign(hf_hold *leadership)
{
    return hf_unlock(leadership);
}

/* ---- the leader ---- */

struct look {
    hf_leader leader;
    bool other_kind;
};

static bool election_look_at(void *arg, const hf_entry *entry)
{
    struct look *look = arg;
    hf_leader *leader = &look->leader;
    if (entry->kind != HF_KIND_FREE && entry->kind != HF_KIND_FAIR && entry->kind != HF_KIND_MUTEX)
        look->other_kind = true;
    else if (entry->role == HF_ROLE_WAITER)
        leader->candidates++;
    else if (entry->role == HF_ROLE_HOLDER && !leader->leads) {
        leader->leads = true;
        leader->token = entry->token;
        leader->since_ms = entry->since_ms;
        snprintf(leader->owner_key, sizeof leader->owner_key, "%s", entry->owner_key);
        /* Redis: a client that cannot be asked is shown by its key. */
        if (strcmp(entry->owner_text, entry->owner_key) != 0)
            snprintf(leader->text, sizeof leader->text, "%s", entry->owner_text);
    }
    return !look->other_kind;
}

static int find_leader(hf_client *client, const char *name, hf_leader *ret)
{
    struct look look = { .leader = { .size = sizeof look.leader } };
    int code = name ? hf_inspect(client, name, election_look_at, &look)
                    : election_fail(HF_EINVAL, "the election's name is NULL");
    if (code == HF_OK && look.other_kind)
        code = election_fail(HF_EKIND,
                             "\"%.200s\" is in use as another kind of object, not as an "
                             "election",
                             name);
    if (!look.leader.leads)
        look.leader.candidates = 0;
    *ret = look.leader;
    return code;
}

int hf_election_leader(hf_client *client, const char *name, hf_leader *ret)
{
    hf_leader leader;
    if (!ret || ret->size != sizeof *ret)
        return election_fail(HF_EINVAL, "ret is NULL, or its size is not sizeof(hf_leader)");
    int code = find_leader(client, name, &leader);
    *ret = leader;
    return code;
}

/* ---- watching ---- */

/* A text that is not known for a while is no change. */
static bool is_same(const hf_leader *now, const hf_leader *told)
{
    /* mutant: each-look-is-a-change */
    return now->leads == told->leads && now->token == told->token &&
           strcmp(now->owner_key, told->owner_key) == 0 &&
           (!*now->text || strcmp(now->text, told->text) == 0);
}

static void pause_watch(struct hf_watch *watch)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t now_ms = (int64_t)until.tv_sec * 1000 + until.tv_nsec / 1000000;
    int64_t at_ms = hf__clock_add(now_ms, watch->every_ms);
    until = (struct timespec){ at_ms / 1000, at_ms % 1000 * 1000000 };
    while (!watch->ended && pthread_cond_timedwait(&watch->ends, &watch->mutex, &until) == 0)
        ;
}

/* With the mutex locked. False: the watch was ended, and *leader is nothing. A question without an
 * answer is no change. */
static bool await_change(struct hf_watch *watch, hf_leader *leader)
{
    int code = HF_BUSY;
    while (!watch->ended && (code != HF_OK || is_same(leader, &watch->leader))) {
        pause_watch(watch);
        if (watch->ended)
            break;
        pthread_mutex_unlock(&watch->mutex);
        code = find_leader(watch->client, watch->name, leader);
        pthread_mutex_lock(&watch->mutex);
    }
    return !watch->ended;
}

static void watch_free(struct hf_watch *watch)
{
    pthread_cond_destroy(&watch->ends);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}

static void *run_watch(void *arg)
{
    struct hf_watch *watch = arg;
    hf_leader leader = watch->leader;
    pthread_mutex_lock(&watch->mutex);
    do {
        watch->leader = leader;
        pthread_mutex_unlock(&watch->mutex);
        watch->changed(watch->arg, &leader);
        pthread_mutex_lock(&watch->mutex);
    } while (await_change(watch, &leader));
    bool frees = watch->ended_by_itself;
    pthread_mutex_unlock(&watch->mutex);
    if (frees)
        watch_free(watch);
    return NULL;
}

static struct hf_watch *watch_new(const char *name)
{
    size_t size = strlen(name) + 1;
    struct hf_watch *watch = hf__calloc(1, sizeof *watch + size);
    pthread_condattr_t clock;
    if (!watch)
        return NULL;
    memcpy(watch->name, name, size);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->ends, &clock);
    pthread_condattr_destroy(&clock);
    watch->process = getpid();
    return watch;
}

/* Signals are the program's. `changed`, which may end the watch, finds it in *ret. */
static int start_thread(struct hf_watch *watch, hf_watch **ret)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&watch->mutex);
    int error = pthread_create(&watch->thread, NULL, run_watch, watch);
    *ret = error == 0 ? watch : NULL;
    pthread_mutex_unlock(&watch->mutex);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int check_watch(const hf_client *client, int64_t every_ms, hf_leader_cb *changed,
                       hf_watch **ret)
{
    if (!changed || !ret)
        return election_fail(HF_EINVAL, "changed or ret is NULL: no caller would hear of a change");
    if (every_ms != 0 && every_ms < EVERY_MIN_MS)
        return election_fail(HF_EINVAL, "every_ms is %" PRId64 "; use 0 (%d) or at least %d",
                             every_ms, EVERY_MS, EVERY_MIN_MS);
    if (hf__call_runs_loop(client))
        return election_fail(HF_EINVAL, "a watch has a thread of its own, and this client is its "
                                        "caller's alone (HF_DRIVE_CALLER); use hf_election_leader");
    return HF_OK;
}

int hf_election_watch(hf_client *client, const char *name, int64_t every_ms, hf_leader_cb *changed,
                      void *arg, hf_watch **ret)
{
    HF_NO_CANCELLATION;
    hf_leader leader;
    if (ret)
        *ret = NULL;
    int code = check_watch(client, every_ms, changed, ret);
    if (code == HF_OK)
        code = find_leader(client, name, &leader);
    if (code != HF_OK)
        return code;
    struct hf_watch *watch = watch_new(name);
    if (!watch)
        return election_fail(HF_ENOMEM, "out of memory for a watch");
    watch->client = client;
    watch->changed = changed;
    watch->arg = arg;
    watch->every_ms = every_ms ? every_ms : EVERY_MS;
    watch->leader = leader;
    int error = start_thread(watch, ret);
    if (error == 0)
        return HF_OK;
    watch_free(watch);
    return hf__error_set(hf__error_last(), HF_ELIMIT, error, "no thread for a watch: %s",
                         strerror(error));
}

void hf_watch_end(hf_watch *watch)
{
    HF_NO_CANCELLATION;
    if (!watch || watch->process != getpid()) {
        free(watch);
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    pthread_t thread = watch->thread;
    bool itself = pthread_equal(thread, pthread_self());
    watch->ended = true;
    watch->ended_by_itself = itself;
    pthread_cond_signal(&watch->ends);
    pthread_mutex_unlock(&watch->mutex);
    if (itself) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    watch_free(watch);
}
