/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks, all or nothing: taken one after the other in one order that all callers share. */
#include "recipes/lock_all.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "core/api/calls.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a loss ---- */

/* Runs on the loop of the client whose lock it is. The callback of the program may free the set. */
static void note_loss(void *arg, const hf_loss *loss)
{
    struct hf_hold_set *set = arg;
    pthread_mutex_lock(&set->mutex);
    bool first = !set->lost; /* mutant: each-loss-of-several-locks */
    hf_lost_cb *tell = first && set->state == SET_HELD ? set->on_lost : NULL;
    void *tell_arg = set->lost_arg;
    set->lost = true;
    if (first)
        snprintf(set->loss_text, sizeof set->loss_text, "\"%.200s\": %s", loss->name,
                 loss->reason ? loss->reason : "the lock was lost");
    pthread_cond_signal(&set->changed);
    if (set->out) /* mutant: loss-ends-the-asynchronous-wait */
        hf_cancel(set->out_client, set->out);
    pthread_mutex_unlock(&set->mutex);
    if (tell)
        tell(tell_arg, loss);
}

/* ---- the order ---- */

static int compare_members(const void *a, const void *b)
{
    const struct hf_set_member *one = a, *other = b;
    int urls = strcmp(one->url, other->url);
    /* mutant: several-locks-are-taken */
    return urls ? urls : strcmp(one->item->name, other->item->name);
}

static bool same_text(const char *one, const char *other)
{
    return one == other || (one && other && strcmp(one, other) == 0);
}

/* Which option is not the same; NULL: none. */
static const char *difference(const hf_lock_options *one, const hf_lock_options *other)
{
    if (one->mode != other->mode)
        return "mode";
    if (one->lease_ms != other->lease_ms)
        return "lease_ms";
    if (one->owner != other->owner)
        return "owner";
    if (!same_text(one->owner_text, other->owner_text))
        return "owner_text";
    return one->no_reentry != other->no_reentry ? "no_reentry" : NULL;
}

/* Two items that name the same lock are one lock, unless they want different things of it. */
static int merge_twins(struct hf_hold_set *set)
{
    size_t kept = 0;
    for (size_t i = 1; i < set->member_count; i++) {
        const struct hf_set_member *one = &set->members[kept], *other = &set->members[i];
        if (compare_members(one, other) != 0) {
            set->members[++kept] = set->members[i];
            continue;
        }
        const char *differs = difference(&one->options, &other->options);
        if (differs) /* mutant: twins-may-differ */
            return set_fail(HF_EINVAL,
                            "\"%.200s\" is there twice, and its %s is not the same: name it once",
                            one->item->name, differs);
        if (one->options.mode == HF_PERMIT)
            return set_fail(HF_EINVAL,
                            "\"%.200s\" is there twice: name it once, with all its permits",
                            one->item->name);
    }
    set->member_count = kept + 1;
    return HF_OK;
}

static void find_members(struct hf_hold_set *set, const hf_lock_item *items)
{
    for (size_t i = 0; i < set->item_count; i++) {
        struct hf_set_member wanted = { .item = &items[i], .url = hf_url(items[i].client) };
        const struct hf_set_member *found =
            bsearch(&wanted, set->members, set->member_count, sizeof wanted, compare_members);
        set->member_of[i] = (size_t)(found - set->members);
    }
}

/* ---- the arguments ---- */

/* Options of a caller that was built with an older header are shorter. */
static hf_lock_options copy_options(const hf_lock_options *given)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    if (given)
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    if (given && given->size >= sizeof given->size && given->size < sizeof options)
        options.size = sizeof options;
    return options;
}

static int check_item(const hf_lock_item *item, hf_mode mode, const hf_lock_item *first)
{
    if (!item->name || !*item->name)
        return set_fail(HF_EINVAL, "a name is NULL or empty: say what to lock");
    if (!item->client)
        return set_fail(HF_EINVAL, "the client of \"%.200s\" is NULL", item->name);
    if (mode == HF_COUNTER || mode == HF_LATCH)
        return set_fail(HF_EINVAL,
                        "\"%.200s\": a counter or a latch leaves no hold, so it cannot be one of "
                        "several locks that are taken together",
                        item->name);
    if (item->options && item->options->on_lost)
        return set_fail(HF_EINVAL,
                        "\"%.200s\": on_lost belongs in the options of the call: it hears of all",
                        item->name);
    if (item->options && copy_options(item->options).stop)
        return set_fail(HF_EINVAL, "\"%.200s\": a stop belongs in the options of the call",
                        item->name);
    if (item->client != first->client &&
        (hf__call_runs_loop(item->client) || hf__call_runs_loop(first->client)))
        return set_fail(HF_EINVAL,
                        "\"%.200s\": several clients need threads of their own: with "
                        "HF_DRIVE_CALLER, none would be renewed while another is waited for",
                        item->name);
    return HF_OK;
}

void hf__set_free(struct hf_hold_set *set)
{
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->mutex);
    free(set->member_of);
    free(set);
}

struct hf_hold_set *hf__set_new(const hf_lock_item *items, size_t count,
                                const hf_lock_options *options, uint64_t owner)
{
    struct hf_hold_set *set = hf__calloc(1, sizeof *set + count * sizeof set->members[0]);
    size_t *member_of = hf__calloc(count, sizeof *member_of);
    if (!set || !member_of) {
        free(set);
        free(member_of);
        return NULL;
    }
    pthread_mutex_init(&set->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&set->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    set->member_of = member_of;
    set->item_count = set->member_count = count;
    hf_lock_options common = copy_options(options);
    set->on_lost = common.on_lost;
    set->lost_arg = common.lost_arg;
    for (size_t i = 0; i < count; i++) {
        struct hf_set_member *member = &set->members[i];
        *member = (struct hf_set_member){ .item = &items[i], .url = hf_url(items[i].client) };
        member->options = items[i].options ? copy_options(items[i].options) : common;
        if (!member->options.owner) /* mutant: several-locks-have-the-threads-owner */
            member->options.owner = owner;
        int64_t timeout_ms = hf__call_timeout_ms(items[i].client);
        if (set->request_timeout_ms < timeout_ms)
            set->request_timeout_ms = timeout_ms;
        member->options.on_lost = note_loss;
        member->options.lost_arg = set;
    }
    return set;
}

/* ---- calls: hf_close of a client waits until this one has left it ---- */

static void end_calls(struct hf_hold_set *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hf__call_ended(set->members[i].item->client);
}

static int begin_calls(struct hf_hold_set *set, bool waits)
{
    for (size_t i = 0; i < set->member_count; i++) {
        int code = hf__call_begin(set->members[i].item->client, waits);
        if (code != HF_OK) {
            end_calls(set, i);
            return code;
        }
    }
    return HF_OK;
}

int hf__set_begin(struct hf_hold_set *set, const hf_lock_item *items, bool waits)
{
    qsort(set->members, set->item_count, sizeof set->members[0], compare_members);
    int code = merge_twins(set);
    if (code == HF_OK)
        code = begin_calls(set, waits);
    if (code == HF_OK)
        find_members(set, items);
    return code;
}

/* ---- acquiring ---- */

/* Without waiting for the stores: the answer has a deadline, which their silence must not move. */
void hf__set_release(struct hf_hold_set *set)
{
    for (size_t i = set->member_count; i-- > 0;)
        if (set->members[i].hold)
            hf_unlock_nowait(set->members[i].hold);
}

/* Runs on the loop of the client that was asked. */
static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct hf_hold_set *set = arg;
    pthread_mutex_lock(&set->mutex);
    set->answer.given = true;
    set->answer.code = code;
    set->answer.hold = hold;
    if (error)
        set->answer.why = *error;
    pthread_cond_signal(&set->changed);
    pthread_mutex_unlock(&set->mutex);
}

/* How often the calling thread is asked whether it is interrupted. */
#define QUESTION_MS 100

/* Until there is news, with the mutex locked. Without a thread of its own, the client gets news
 * only from its loop. Answers whether the call is interrupted. */
static bool await_news(struct hf_hold_set *set, hf_client *client, const hf_stop *stop)
{
    bool asks = stop && stop->interrupted;
    struct pollfd loop = { .fd = hf__call_runs_loop(client) ? hf_fd(client) : -1,
                           .events = POLLIN };
    struct timespec until;
    if (loop.fd < 0 && asks) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (until.tv_nsec + QUESTION_MS * 1000000L) / 1000000000;
        until.tv_nsec = (until.tv_nsec + QUESTION_MS * 1000000L) % 1000000000;
        pthread_cond_timedwait(&set->changed, &set->mutex, &until);
    } else if (loop.fd < 0) {
        pthread_cond_wait(&set->changed, &set->mutex);
    }
    pthread_mutex_unlock(&set->mutex);
    if (loop.fd >= 0) {
        poll(&loop, 1, asks ? QUESTION_MS : -1);
        hf_dispatch(client);
    }
    bool interrupted = asks && stop->interrupted(stop->interrupted_arg);
    pthread_mutex_lock(&set->mutex);
    return interrupted;
}

/* A request ends exactly once: after a loss it is canceled, and its answer is waited for. */
static struct hf_set_answer await_answer(struct hf_hold_set *set, hf_client *client,
                                         hf_request request, const hf_stop *stop)
{
    bool canceled = false, interrupted = false;
    pthread_mutex_lock(&set->mutex);
    while (!set->answer.given) {
        /* mutant: loss-ends-the-wait-for-others */
        if ((set->lost || interrupted) && !canceled) {
            canceled = true;
            pthread_mutex_unlock(&set->mutex);
            hf_cancel(client, request);
            pthread_mutex_lock(&set->mutex);
        } else {
            interrupted |= await_news(set, client, stop);
        }
    }
    struct hf_set_answer answer = set->answer;
    set->answer.given = false;
    pthread_mutex_unlock(&set->mutex);
    return answer;
}

/* What a store says of itself need not name the lock. */
static int name_the_lock(const struct hf_set_member *member, int code)
{
    hf_error why = *hf_last_error();
    char quoted[204];
    snprintf(quoted, sizeof quoted, "\"%.200s\"", member->item->name);
    if (!strstr(why.text, quoted))
        hf__error_set(hf__error_last(), code, why.native, "%s: %s", quoted, why.text);
    return code;
}

/* As long as no lock of the set may end by time, hf_lock alone will do, which needs no loop. It
 * also waits behind an earlier release of the same owner, where a request is refused. */
static int ask_for_member(struct hf_hold_set *set, struct hf_set_member *member, int64_t wait_ms)
{
    hf_client *client = member->item->client;
    const char *name = member->item->name;
    hf_request request;
    int code = HF_BUSY;
    if (set->ends) {
        hf__call_answers_later(true);
        code = hf_lock_async(client, name, wait_ms, &member->options, note_answer, set, &request);
        hf__call_answers_later(false);
    }
    if (!set->ends || code == HF_BUSY)
        return hf_lock(client, name, wait_ms, &member->options, &member->hold);
    if (code != HF_OK)
        return code;
    struct hf_set_answer answer = await_answer(set, client, request, member->options.stop);
    member->hold = answer.hold;
    if (answer.code != HF_OK)
        hf__error_keep(&answer.why);
    return answer.code;
}

int hf__set_judge(const struct hf_hold_set *set, const struct hf_set_member *member, int code,
                  int64_t wait_ms)
{
    /* mutant: rest-of-wait-is-judged */
    if (code == HF_UNREACHABLE && wait_ms > 0 && member != set->members)
        code = hf__call_judge(member->item->client, wait_ms);
    return code == HF_OK ? HF_OK : name_the_lock(member, code);
}

/* At least a millisecond for each of them: a wait of 0 would be an attempt without a deadline. */
int64_t hf__set_time_left_ms(int64_t wait_ms, int64_t until_ms)
{
    int64_t left = until_ms - hf__clock_ms(); /* mutant: wait-begins-anew-for-each */
    if (wait_ms == 0 || wait_ms == HF_FOREVER)
        return wait_ms;
    return left > 1 ? left : 1;
}

bool hf__set_is_lost(struct hf_hold_set *set)
{
    pthread_mutex_lock(&set->mutex);
    bool lost = set->lost;
    pthread_mutex_unlock(&set->mutex);
    return lost;
}

int hf__set_lost(struct hf_hold_set *set)
{
    return set_fail(HF_LOST, "while the locks were taken, one was lost: %.300s", set->loss_text);
}

/* All are asked once more at the end, on the clock: the first may be lost by then, or its client be
 * closing. */
int hf__set_check_all(struct hf_hold_set *set)
{
    int code = HF_OK;
    for (size_t i = 0; i < set->member_count && code == HF_OK; i++) {
        code = hf__call_check(set->members[i].item->client); /* mutant: one-client-is-closed */
        if (code == HF_OK && !hf_held(set->members[i].hold))
            code = set_fail(HF_LOST, "while the locks were taken, \"%.200s\" was lost",
                            set->members[i].item->name);
    }
    if (code != HF_OK)
        return code;
    pthread_mutex_lock(&set->mutex);
    if (set->lost)
        code = HF_LOST;
    else
        set->state = SET_HELD;
    pthread_mutex_unlock(&set->mutex);
    return code == HF_OK ? HF_OK : hf__set_lost(set);
}

int hf__set_too_late(const struct hf_hold_set *set, const struct hf_set_member *member)
{
    return set_fail(HF_UNREACHABLE,
                    "\"%.200s\" and the locks after it were not asked for: those before it "
                    "have taken the request timeout of %lld ms",
                    member->item->name, (long long)set->request_timeout_ms);
}

int64_t hf__set_until_ms(const struct hf_hold_set *set, int64_t wait_ms)
{
    return hf__clock_add(hf__clock_ms(), wait_ms == 0 ? set->request_timeout_ms : wait_ms);
}

static int acquire_all(struct hf_hold_set *set, int64_t wait_ms)
{
    int64_t until_ms = hf__set_until_ms(set, wait_ms);
    for (size_t i = 0; i < set->member_count; i++) {
        struct hf_set_member *member = &set->members[i];
        if (wait_ms == 0 && hf__clock_ms() >= until_ms)
            return hf__set_too_late(set, member);
        int64_t left_ms = hf__set_time_left_ms(wait_ms, until_ms);
        int code = hf__set_judge(set, member, ask_for_member(set, member, left_ms), left_ms);
        if (hf__set_is_lost(set))
            return hf__set_lost(set);
        if (code != HF_OK)
            return code;
        set->ends |= hf_remaining_ms(member->hold) != INT64_MAX;
    }
    return hf__set_check_all(set);
}

int hf__set_check(const hf_lock_item *items, size_t count, int64_t wait_ms,
                  const hf_lock_options *options)
{
    if (!items || count == 0)
        return set_fail(HF_EINVAL, "there is no lock to take: name at least one");
    if (count > HF_LOCK_ALL_MAX)
        return set_fail(HF_EINVAL, "more than HF_LOCK_ALL_MAX locks in one call");
    if (wait_ms < 0 && wait_ms != HF_FOREVER)
        return set_fail(HF_EINVAL, "wait_ms is negative, and not HF_FOREVER");
    for (size_t i = 0; i < count; i++) {
        const hf_lock_options *own = items[i].options ? items[i].options : options;
        int code = check_item(&items[i], own ? own->mode : HF_MUTEX, &items[0]);
        if (code != HF_OK)
            return code;
    }
    return HF_OK;
}

/* All of them, or none. */
static int take_all(struct hf_hold_set *set, const hf_lock_item *items, int64_t wait_ms)
{
    int code = hf__set_begin(set, items, true);
    if (code != HF_OK)
        return code;
    code = acquire_all(set, wait_ms);
    if (code != HF_OK) {
        hf_error why = *hf_last_error();
        hf__set_release(set); /* mutant: several-locks-are-kept */
        hf__error_keep(&why);
    }
    end_calls(set, set->member_count);
    return code;
}

int hf_lock_all(const hf_lock_item *items, size_t count, int64_t wait_ms,
                const hf_lock_options *options, hf_hold_set **ret)
{
    HF_NO_CANCELLATION;
    if (ret)
        *ret = NULL;
    if (!ret)
        return set_fail(HF_EINVAL, "ret is NULL: the locks could never be released");
    int code = hf__set_check(items, count, wait_ms, options);
    if (code != HF_OK)
        return code;
    struct hf_hold_set *set = hf__set_new(items, count, options, HF_OWNER_THREAD);
    if (!set)
        return set_fail(HF_ENOMEM, "out of memory for the locks");
    code = take_all(set, items, wait_ms);
    if (code == HF_OK)
        *ret = set;
    else
        hf__set_free(set);
    return code;
}

/* ---- releasing ---- */

/* All releases have one request timeout together. What is left then, or after a store that did not
 * reply, is released without waiting for it. */
static bool may_wait(bool *silent, int64_t until_ms)
{
    *silent |= hf__clock_ms() >= until_ms;
    return !*silent;
}

static int release_one(struct hf_hold *hold, bool waits)
{
    int code = HF_UNREACHABLE;
    if (waits)
        return hf_unlock(hold);
    if (hf_held(hold))
        set_fail(HF_UNREACHABLE, "\"%.200s\" is being released; its store was not waited for",
                 hf_hold_name(hold));
    else
        code = set_fail(HF_LOST, "\"%.200s\" was lost before it was released", hf_hold_name(hold));
    hf_unlock_nowait(hold);
    return code;
}

/* A loss outranks all other answers: on_lost may have told of it already. */
int hf_unlock_all(hf_hold_set *set)
{
    HF_NO_CANCELLATION;
    int result = HF_OK;
    bool silent = false;
    hf_error why = { 0 };
    if (!set)
        return HF_OK;
    pthread_mutex_lock(&set->mutex);
    set->state = SET_RELEASING;
    if (set->lost)
        result = set_fail(HF_LOST, "%s", set->loss_text);
    why = *hf_last_error();
    pthread_mutex_unlock(&set->mutex);
    int64_t until_ms = hf__clock_add(hf__clock_ms(), set->request_timeout_ms);
    for (size_t i = set->member_count; i-- > 0;) {
        int code = release_one(set->members[i].hold, may_wait(&silent, until_ms));
        silent |= code == HF_UNREACHABLE;
        if (code != HF_OK && (result == HF_OK || (code == HF_LOST && result != HF_LOST))) {
            result = code;
            why = *hf_last_error();
        }
    }
    hf__set_free(set);
    if (result != HF_OK)
        hf__error_keep(&why);
    return result;
}

/* ---- what they know ---- */

int64_t hf_all_remaining_ms(const hf_hold_set *set)
{
    int64_t least = set ? INT64_MAX : 0;
    for (size_t i = 0; set && i < set->member_count; i++) {
        int64_t left = hf_remaining_ms(set->members[i].hold);
        if (left < least)
            least = left;
    }
    return least;
}

bool hf_all_held(const hf_hold_set *set)
{
    return hf_all_remaining_ms(set) > 0;
}

hf_hold *hf_all_hold(const hf_hold_set *set, size_t index)
{
    return set && index < set->item_count ? set->members[set->member_of[index]].hold : NULL;
}
