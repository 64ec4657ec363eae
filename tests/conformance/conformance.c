/* SPDX-License-Identifier: Apache-2.0 */
/* The store under test, checks of answers, and looking at who holds and waits. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Each thread has its own copy: several of them ask at once. */
const char *store_url(void)
{
    static _Thread_local char url[400];
    const char *given = getenv("HOLDFAST_TEST_URL");

    if (given && *given)
        return given;
    snprintf(url, sizeof(url), "local://%s", temp_dir());
    return url;
}

/* trace:URL names the store that URL names. */
static bool scheme_begins(const char *with)
{
    const char *url = store_url();

    if (strncmp(url, "trace:", 6) == 0)
        url += 6;
    return strncmp(url, with, strlen(with)) == 0;
}

bool store_is_local(void)
{
    return scheme_begins("local:");
}

bool store_keeps_texts(void)
{
    return !scheme_begins("redis");
}

bool store_has_plain_locks(void)
{
    return strstr(store_url(), "layout=session") != NULL;
}

bool store_has_sessions(void)
{
    return scheme_begins("zk") || store_has_plain_locks();
}

bool store_numbers_readers(void)
{
    return store_has_sessions() || scheme_begins("etcd");
}

bool store_has_threads(void)
{
    return scheme_begins("mysql:") || scheme_begins("mariadb:");
}

int store_rounds(int count)
{
    bool is_dear = scheme_begins("postgres") || store_has_threads() || scheme_begins("zk") ||
                   scheme_begins("etcd");

    return is_dear && !getenv("HOLDFAST_TEST_ALL_ROUNDS") ? count / 4 : count;
}

static long long started_at;

__attribute__((constructor)) static void prepare(void)
{
    started_at = (long long)time(NULL);
    /* The first loop of a process makes libuv's own pair of pipe ends, which stays. */
    test_fds_kept = 2;
}

const char *name_of(const char *stem)
{
    /* Of each thread: a name in use by one is not written by another. */
    static _Thread_local char names[32][128];
    static _Thread_local unsigned count;
    char *name = names[count++ % 32];

    /* All processes of a test are in one group. */
    snprintf(name, sizeof(names[0]), "test/%llx.%x/%s", started_at, (unsigned)getpgrp(), stem);
    return name;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORK_NEEDS_QUIET_THREADS
#endif
#endif

#ifdef FORK_NEEDS_QUIET_THREADS
static bool look_past(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return false;
}
#endif

/* The address sanitizer's allocator does not survive a fork() while another thread is inside it:
 * the client's thread has begun, and is at rest again, when it has answered something. */
static void let_thread_come_to_rest(hf_client *client)
{
#ifdef FORK_NEEDS_QUIET_THREADS
    if (hf_caps(client) & HF_CAP_INSPECT)
        EVENTUALLY(hf_inspect(client, "never/used", look_past, NULL) == HF_OK, SOON_MS);
#else
    (void)client;
#endif
}

int64_t client_lease_ms;

int64_t short_lease(int64_t lease_ms)
{
    bool counts_seconds = scheme_begins("memcached");

    return counts_seconds && lease_ms < 1000 ? 1000 : lease_ms;
}

int64_t long_lease(int64_t lease_ms)
{
    /* An item of memcached has 30 days at most. */
    const int64_t most_ms = INT64_C(2591997000);

    return scheme_begins("memcached") && lease_ms > most_ms ? most_ms : lease_ms;
}

hf_client *open_client_with(hf_client_options options)
{
    hf_client *client = NULL;

    /* A thread that is still connecting when its client is closed ends by itself. */
    test_fds_close_late = store_has_threads();
    options.size = sizeof(options);
    if (options.lease_ms == 0)
        options.lease_ms = client_lease_ms;
    /* What a stopped client has there ends with the session, which has to be soon. */
    if (options.lease_ms == 0 && store_has_plain_locks())
        options.lease_ms = SOON_MS / 2;
    CHECK_CODE(hf_open(&client, store_url(), &options), HF_OK);
    CHECK(client != NULL);
    let_thread_come_to_rest(client);
    return client;
}

hf_client *open_client(void)
{
    return open_client_with((hf_client_options)HF_CLIENT_OPTIONS_INIT);
}

void need(const hf_client *client, unsigned caps)
{
    unsigned missing = caps & ~hf_caps(client);

    if (missing)
        SKIP("%s lacks capabilities 0x%03x", hf_url(client), missing);
}

void need_forks_at_any_time(void)
{
#ifdef FORK_NEEDS_QUIET_THREADS
    if (!store_is_local())
        SKIP("the address sanitizer's allocator does not survive a fork while a lease is renewed");
#endif
}

void check_code(const char *file, int line, const char *text, int got, int wanted)
{
    if (got != wanted)
        test_fail(file, line, "%s: got %s, wanted %s (%s)", text, hf_code_name(got),
                  hf_code_name(wanted), got == HF_OK ? "" : hf_last_error()->text);
    test_check(file, line, true, text);
}

void check_in_vain(const char *file, int line, const char *text, int got)
{
    bool unanswered = got == HF_UNREACHABLE && !store_is_local();

    check_code(file, line, text, got, unanswered ? HF_UNREACHABLE : HF_BUSY);
}

void check_error(const char *file, int line, const char *text, int got, int wanted)
{
    hf_error error = *hf_last_error();

    check_code(file, line, text, got, wanted);
    if (error.code != wanted)
        test_fail(file, line, "%s: hf_last_error says %s", text, hf_code_name(error.code));
    if (strlen(error.text) < 10 || strchr(error.text, '\n') || strstr(error.text, "%s"))
        test_fail(file, line, "%s: no sentence: \"%s\"", text, error.text);
}

hf_hold *take(hf_client *client, const char *name, hf_mode mode, uint64_t owner)
{
    hf_hold *hold = NULL;
    const hf_lock_options *options = LOCK_OPTIONS(.mode = mode, .owner = owner);
    int code = hf_lock(client, name, 0, options, &hold);

    /* This machine may have stood still for as long as a server may be silent; then what was asked
     * in vain is given back first. */
    if (code == HF_UNREACHABLE)
        code = hf_lock(client, name, SOON_MS * test_slow(), options, &hold);
    CHECK_CODE(code, HF_OK);
    CHECK(hold != NULL);
    return hold;
}

hf_hold *take_patiently(hf_client *client, const char *name)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, name, SOON_MS * test_slow(), NULL, &hold), HF_OK);
    return hold;
}

int probe(hf_client *client, const char *name, hf_mode mode, uint64_t owner)
{
    hf_hold *hold = NULL;
    int code = hf_lock(client, name, 0, LOCK_OPTIONS(.mode = mode, .owner = owner), &hold);

    if (code == HF_OK)
        give_back(hold);
    else
        CHECK(hold == NULL);
    return code;
}

void give_back(hf_hold *hold)
{
    CHECK_CODE(hf_unlock(hold), HF_OK);
}

void count_loss(void *arg, const hf_loss *loss)
{
    CHECK(strlen(loss->reason) > 5);
    ++*(_Atomic int *)arg;
}

hf_hold *take_watched(hf_client *client, const char *name, _Atomic int *losses)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, name, SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = losses), &hold),
               HF_OK);
    return hold;
}

void check_lock_all_told(const hf_lock_item *items, size_t count, int64_t wait_ms, int port)
{
    hf_hold_set *set;
    char place[40];
    int64_t began_ms = monotonic_ms();
    int code = hf_lock_all(items, count, wait_ms, NULL, &set);
    int64_t took_ms = monotonic_ms() - began_ms;

    CHECK_CODE(code, HF_UNREACHABLE);
    CHECK(set == NULL);
    CHECK(strstr(hf_last_error()->text, "\"one\"") != NULL);
    snprintf(place, sizeof(place), "%d", port);
    CHECK(strstr(hf_last_error()->text, place) != NULL);
    /* A second more than asked for, on a busy machine; request_timeout_ms would be five. */
    CHECK(took_ms < wait_ms + 1500 * test_slow());
}

static bool add_to_picture(void *arg, const hf_entry *entry)
{
    struct picture *picture = arg;

    picture->objects += entry->role == HF_ROLE_OBJECT;
    picture->holders += entry->role == HF_ROLE_HOLDER;
    picture->waiters += entry->role == HF_ROLE_WAITER;
    if (picture->count < (int)(sizeof(picture->seen) / sizeof(picture->seen[0]))) {
        struct seen *seen = &picture->seen[picture->count++];
        *seen = (struct seen){
            .kind = entry->kind,
            .role = entry->role,
            .total = entry->total,
            .value = entry->value,
            .permits = entry->permits,
            .rank = entry->rank,
            .token = entry->token,
            .mode = entry->mode,
            .pid = entry->pid,
            .since_ms = entry->since_ms,
            .lease_left_ms = entry->lease_left_ms,
        };
        snprintf(seen->name, sizeof(seen->name), "%s", entry->name);
        if (entry->role == HF_ROLE_OBJECT)
            return true;
        snprintf(seen->owner_key, sizeof(seen->owner_key), "%s", entry->owner_key);
        snprintf(seen->owner_text, sizeof(seen->owner_text), "%s", entry->owner_text);
        snprintf(seen->host, sizeof(seen->host), "%s", entry->host);
    }
    return true;
}

const struct picture *look(hf_client *client, const char *name)
{
    static _Thread_local struct picture picture;

    memset(&picture, 0, sizeof(picture));
    CHECK_CODE(hf_inspect(client, name, add_to_picture, &picture), HF_OK);
    return &picture;
}

int holders(hf_client *client, const char *name)
{
    return look(client, name)->holders;
}

int waiters(hf_client *client, const char *name)
{
    return look(client, name)->waiters;
}

const struct seen *find_role(const struct picture *picture, hf_role role, int index)
{
    for (int i = 0; i < picture->count; i++)
        if (picture->seen[i].role == role && index-- == 0)
            return &picture->seen[i];
    FAIL("no entry of role %d", (int)role);
}

void check_nothing_left(hf_client *client, const char *name)
{
    if (!(hf_caps(client) & HF_CAP_INSPECT))
        return;
    EVENTUALLY(holders(client, name) == 0 && waiters(client, name) == 0, SOON_MS);
}

void record_outcome(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct outcome *outcome = arg;

    outcome->code = code;
    outcome->hold = hold;
    outcome->thread = pthread_self();
    CHECK((code == HF_OK) == (error == NULL));
    if (error) {
        CHECK_INT(error->code, code);
        CHECK(hold == NULL);
        snprintf(outcome->text, sizeof(outcome->text), "%s", error->text);
    }
    outcome->calls++;
}

void begin_wait(hf_client *client, const char *name, hf_mode mode, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, LOCK_OPTIONS(.mode = mode), record_outcome,
                             outcome, NULL),
               HF_OK);
}

hf_hold *await_grant(const struct outcome *outcome)
{
    WAIT_OUTCOME(outcome);
    CHECK_CODE(outcome->code, HF_OK);
    return outcome->hold;
}

/* ---- Many names at once ---- */

struct many_item {
    _Atomic int *done;
    hf_hold *hold;
};

static void note_hold(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct many_item *item = arg;

    if (code != HF_OK)
        FAIL("%s: %s", hf_code_name(code), error->text);
    item->hold = hold;
    ++*item->done;
}

struct left {
    const char *stem;
    int count;
};

static bool count_left(void *arg, const hf_entry *entry)
{
    struct left *left = arg;

    left->count += strncmp(entry->name, left->stem, strlen(left->stem)) == 0;
    return true;
}

/* Is none of these names in use? A store that cannot show them all grants each to another owner. */
static bool is_all_gone(hf_client *client, const char *stem, int count)
{
    struct left left = { .stem = stem };
    bool shown = hf_inspect(client, NULL, count_left, &left) == HF_OK;
    char name[HF_NAME_MAX + 1];

    for (int i = 0; i < count && !shown; i++) {
        snprintf(name, sizeof(name), "%s/%d", stem, i);
        left.count += probe(client, name, HF_MUTEX, HF_OWNER_NEW) != HF_OK;
    }
    return left.count == 0;
}

void lock_and_unlock_many(int count)
{
    if (store_has_plain_locks())
        SKIP("sessions bound how many of a database's own locks a client has");
    /* A server that replies one after the other takes long for the last, also for a renewal. */
    hf_client *client =
        open_client_with((hf_client_options){ .lease_ms = long_lease(INT64_C(120000) * test_slow()),
                                              .request_timeout_ms = INT64_C(60000) * test_slow() });
    const char *stem = name_of("many");
    struct many_item *items = calloc((size_t)count, sizeof(*items));
    _Atomic int locked = 0, unlocked = 0;
    char name[HF_NAME_MAX + 1];

    CHECK(items != NULL);
    for (int i = 0; i < count; i++) {
        items[i].done = &locked;
        snprintf(name, sizeof(name), "%s/%d", stem, i);
        CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, NULL, note_hold, &items[i], NULL),
                   HF_OK);
    }
    EVENTUALLY(locked == count, 3 * SOON_MS);
    for (int i = 0; i < count; i++) {
        items[i].done = &unlocked;
        CHECK_CODE(hf_unlock_async(items[i].hold, note_hold, &items[i]), HF_OK);
    }
    EVENTUALLY(unlocked == count, 3 * SOON_MS);
    EVENTUALLY(is_all_gone(client, stem, count), SOON_MS);
    hf_close(client);
    free(items);
}
