/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks, all or nothing, without blocking: each is asked for by the callback of the one
 * before it. A request is counted in at all clients until its callback has returned. */
#include "recipes/lock_all.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/testing.h"
#include "core/api/calls.h"

#include <stdlib.h>
#include <string.h>

/* Under the set's mutex, but for what does not change. */
struct hf_all_request {
    struct hf_hold_set *set;
    hf_all_done_cb *done;
    void *arg;
    int64_t wait_ms, until_ms;
    int64_t left_ms; /* the wait of the request that is out */
    size_t next;     /* the member that is asked for */
    size_t count;
    hf_client **clients;
    char *texts;         /* all that items and options name */
    hf_lock_item *items; /* copies, as the options */
    hf_lock_options options;
    hf_lock_options own[]; /* the options of single items */
};

/* ---- copies ---- */

static void request_free(struct hf_all_request *request)
{
    if (!request)
        return;
    free(request->texts);
    free(request->clients);
    free(request->items);
    free(request);
}

/* Options of a caller that was built with an older header are shorter. */
static hf_lock_options known_options(const hf_lock_options *given)
{
    hf_lock_options known = HF_LOCK_OPTIONS_INIT;
    if (given)
        memcpy(&known, given, given->size < sizeof known ? given->size : sizeof known);
    return known;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *lock_all_async_copy_text(char **at, const char *text)
{
    char *copy = *at;
    if (text)
        memcpy(copy, text, size_of(text));
    *at += size_of(text);
    return text ? copy : NULL;
}

static void copy_texts(struct hf_all_request *request)
{
    char *at = request->texts;
    request->options.owner_text = lock_all_async_copy_text(&at, request->options.owner_text);
    for (size_t i = 0; i < request->count; i++) {
        request->items[i].name = lock_all_async_copy_text(&at, request->items[i].name);
        request->own[i].owner_text = lock_all_async_copy_text(&at, request->own[i].owner_text);
    }
}

static struct hf_all_request *request_new(const hf_lock_item *items, size_t count,
                                          const hf_lock_options *options)
{
    struct hf_all_request *request =
        hf__calloc(1, sizeof *request + count * sizeof request->own[0]);
    if (!request)
        return NULL;
    request->count = count;
    request->items = hf__calloc(count, sizeof *items);
    request->clients = hf__calloc(count, sizeof *request->clients);
    request->options = known_options(options);
    size_t size = size_of(request->options.owner_text);
    for (size_t i = 0; request->items && i < count; i++) {
        request->items[i] = items[i];
        request->own[i] = known_options(items[i].options);
        if (items[i].options)
            request->items[i].options = &request->own[i];
        size += size_of(items[i].name) + size_of(request->own[i].owner_text);
    }
    request->texts = hf__calloc(1, size);
    if (request->items && request->clients && request->texts) {
        copy_texts(request);
        return request;
    }
    request_free(request);
    return NULL;
}

/* ---- asking ---- */

/* Not a code: the request goes on, and may be gone already. */
#define GOES_ON (-1)

/* Nothing knows the request afterwards, nor the set, unless all are held. The clients stay until
 * `done` has returned; it is NULL for what the call itself returns. */
static void request_end(struct hf_all_request *request, int code, hf_all_done_cb *done)
{
    struct hf_hold_set *set = request->set;
    hf_error why = *hf_last_error();
    size_t count = set->member_count;
    for (size_t i = 0; i < count; i++)
        request->clients[i] = set->members[i].item->client;
    if (code != HF_OK) {
        hf__set_release(set);
        hf__set_free(set);
    }
    if (done)
        done(request->arg, code, code == HF_OK ? set : NULL, code == HF_OK ? NULL : &why);
    for (size_t i = 0; i < count; i++)
        hf__call_ended(request->clients[i]);
    request_free(request);
    if (code != HF_OK)
        hf__error_keep(&why);
}

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error);

/* Under the mutex, so that the answer waits until the request's number is there. */
static int ask_next(struct hf_all_request *request)
{
    struct hf_hold_set *set = request->set;
    struct hf_set_member *member = &set->members[request->next];
    if (request->next == set->member_count)
        return hf__set_check_all(set);
    if (request->wait_ms == 0 && hf__clock_ms() >= request->until_ms)
        return hf__set_too_late(set, member);
    int64_t left_ms = hf__set_time_left_ms(request->wait_ms, request->until_ms);
    pthread_mutex_lock(&set->mutex);
    request->left_ms = left_ms;
    hf__call_answers_later(true);
    int code = hf_lock_async(member->item->client, member->item->name, left_ms, &member->options,
                             note_answer, request, &set->out);
    hf__call_answers_later(false);
    set->out_client = member->item->client;
    if (code == HF_OK && set->lost)
        hf_cancel(set->out_client, set->out);
    pthread_mutex_unlock(&set->mutex);
    return code == HF_OK ? GOES_ON : hf__set_judge(set, member, code, left_ms);
}

/* Runs on the loop of the client that was asked. */
static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct hf_all_request *request = arg;
    struct hf_hold_set *set = request->set;
    pthread_mutex_lock(&set->mutex);
    struct hf_set_member *member = &set->members[request->next++];
    member->hold = hold;
    set->out = 0;
    pthread_mutex_unlock(&set->mutex);
    if (error)
        hf__error_keep(error);
    code = hf__set_is_lost(set) ? hf__set_lost(set)
                                : hf__set_judge(set, member, code, request->left_ms);
    if (code == HF_OK)
        code = ask_next(request);
    if (code != GOES_ON)
        request_end(request, code, request->done);
}

static bool names_thread(const struct hf_all_request *request)
{
    bool names = request->options.owner == HF_OWNER_THREAD;
    for (size_t i = 0; i < request->count; i++)
        names |= request->own[i].owner == HF_OWNER_THREAD;
    return names;
}

static int begin(struct hf_all_request *request)
{
    struct hf_hold_set *set = request->set;
    int code = hf__set_begin(set, request->items, false);
    if (code != HF_OK) {
        hf__set_free(set);
        request_free(request);
        return code;
    }
    code = ask_next(request);
    if (code == GOES_ON)
        return HF_OK;
    request_end(request, code, NULL);
    return code;
}

int hf_lock_all_async(const hf_lock_item *items, size_t count, int64_t wait_ms,
                      const hf_lock_options *options, hf_all_done_cb *done, void *arg)
{
    HF_NO_CANCELLATION;
    if (!done)
        return set_fail(HF_EINVAL, "done is NULL: the locks could never be released");
    int code = hf__set_check(items, count, wait_ms, options);
    if (code != HF_OK)
        return code;
    struct hf_all_request *request = request_new(items, count, options);
    if (request && names_thread(request)) {
        request_free(request);
        return set_fail(HF_EINVAL, "HF_OWNER_THREAD is no owner of locks that a callback is given: "
                                   "use a number, or leave it 0");
    }
    if (request)
        request->set = hf__set_new(request->items, count, &request->options, 0);
    if (!request || !request->set) {
        request_free(request);
        return set_fail(HF_ENOMEM, "out of memory for the locks");
    }
    request->done = done;
    request->arg = arg;
    request->wait_ms = wait_ms;
    request->until_ms = hf__set_until_ms(request->set, wait_ms);
    return begin(request);
}

/* ---- releasing ---- */

struct release {
    pthread_mutex_t mutex; /* guards the rest; held while the releases are begun */
    size_t left;
    int code;
    hf_error why;
    hf_done_cb *done;
    void *arg;
};

/* A loss outranks all other answers. */
static void note_code(struct release *release, int code, const hf_error *error)
{
    if (code == HF_OK || (release->code != HF_OK && (code != HF_LOST || release->code == HF_LOST)))
        return;
    release->code = code;
    release->why = *error;
}

static void released(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct release *release = arg;
    (void)hold;
    pthread_mutex_lock(&release->mutex);
    note_code(release, code, error);
    bool last = --release->left == 0;
    pthread_mutex_unlock(&release->mutex);
    if (!last)
        return;
    release->done(release->arg, release->code, NULL, release->code == HF_OK ? NULL : &release->why);
    pthread_mutex_destroy(&release->mutex);
    free(release);
}

/* The first release begins, or nothing has changed. */
static int begin_releases(struct release *release, struct hf_hold_set *set)
{
    for (size_t i = set->member_count; i-- > 0;) {
        hf_hold *hold = set->members[i].hold;
        int code = hf_unlock_async(hold, released, release);
        if (code == HF_OK) {
            release->left++;
        } else if (release->left == 0) {
            return code;
        } else {
            note_code(release, code, hf_last_error());
            hf_unlock_nowait(hold);
        }
    }
    return HF_OK;
}

int hf_unlock_all_async(hf_hold_set *set, hf_done_cb *done, void *arg)
{
    HF_NO_CANCELLATION;
    if (!set || !done)
        return set_fail(HF_EINVAL, "%s is NULL", set ? "done" : "the set");
    struct release *release = hf__calloc(1, sizeof *release);
    if (!release)
        return set_fail(HF_ENOMEM, "out of memory for the answer");
    release->done = done;
    release->arg = arg;
    pthread_mutex_init(&release->mutex, NULL);
    pthread_mutex_lock(&set->mutex);
    set->state = SET_RELEASING;
    if (set->lost) {
        release->code = HF_LOST;
        hf__error_set(&release->why, HF_LOST, 0, "%s", set->loss_text);
    }
    pthread_mutex_unlock(&set->mutex);
    pthread_mutex_lock(&release->mutex);
    hf__call_answers_later(true);
    int code = begin_releases(release, set);
    hf__call_answers_later(false);
    pthread_mutex_unlock(&release->mutex);
    if (code == HF_OK) {
        hf__set_free(set);
        return HF_OK;
    }
    pthread_mutex_lock(&set->mutex);
    set->state = SET_HELD;
    pthread_mutex_unlock(&set->mutex);
    pthread_mutex_destroy(&release->mutex);
    free(release);
    return code;
}
