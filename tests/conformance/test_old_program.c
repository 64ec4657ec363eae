/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was compiled with the header before the option structs grew (frozen/holdfast.h),
 * linked to the library of today. Behind its structs lies memory that cannot be read. */
#include "new_sizes.h"
#include "test.h"

#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first loop of a process makes libuv's own pair of pipe ends, which stays. */
__attribute__((constructor)) static void prepare(void)
{
    test_fds_kept = 2;
}

static const char *store_url(void)
{
    const char *url = getenv("HOLDFAST_TEST_URL");
    static char own[200];

    if (url)
        return url;
    snprintf(own, sizeof(own), "local://%s", temp_dir());
    return own;
}

/* A copy that ends where a page without any access begins. */
static void *before_a_wall(const void *options, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(pages != MAP_FAILED);
    CHECK_INT(mprotect(pages + page, page, PROT_NONE), 0);
    return memcpy(pages + page - size, options, size);
}

static void count_event(void *arg, const hf_event *event)
{
    CHECK(event->size >= sizeof(*event));
    ++*(_Atomic int *)arg;
}

static hf_client *open_old(hf_client_options options)
{
    hf_client *client = NULL;

    CHECK_INT(hf_open(&client, store_url(), before_a_wall(&options, sizeof(options))), HF_OK);
    return client;
}

static hf_hold *take(hf_client *client, const char *name, hf_lock_options options)
{
    hf_hold *hold = NULL;

    CHECK_INT(hf_lock(client, name, 0, before_a_wall(&options, sizeof(options)), &hold), HF_OK);
    return hold;
}

TEST(option_structs_have_grown_since)
{
    CHECK(sizeof(hf_client_options) < new_client_options_size);
    CHECK(sizeof(hf_lock_options) < new_lock_options_size);
    CHECK(sizeof(hf_entry) < new_entry_size);
}

TEST(old_options_open_a_client_and_lock)
{
    _Atomic int events = 0;
    hf_client *client =
        open_old(HF_CLIENT_OPTIONS(.lease_ms = 20000, .owner_text = "an old program",
                                   .on_event = count_event, .event_arg = &events));
    hf_hold *hold = take(client, "old", HF_LOCK_OPTIONS(.mode = HF_MUTEX, .lease_ms = 5000));

    CHECK(hf_held(hold));
    CHECK(hf_remaining_ms(hold) > 0 && hf_remaining_ms(hold) <= 5000);
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK(events > 0);
    hf_close(client);
}

TEST(fields_that_old_options_lack_have_their_defaults)
{
    hf_client *client = open_old(HF_CLIENT_OPTIONS(.driver = HF_DRIVE_THREAD));
    hf_hold *first = take(client, "again", HF_LOCK_OPTIONS(.mode = HF_MUTEX));
    hf_hold *second = take(client, "again", HF_LOCK_OPTIONS(.mode = HF_MUTEX));

    CHECK_INT(hf_unlock(second), HF_OK);
    CHECK_INT(hf_unlock(first), HF_OK);
    hf_close(client);
}

static void keep_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    CHECK_INT(code, HF_OK);
    CHECK(!error);
    *(hf_hold **)arg = hold;
}

TEST(old_options_serve_an_asynchronous_request)
{
    hf_client *client = open_old(HF_CLIENT_OPTIONS(.driver = HF_DRIVE_MYSELF));
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_MUTEX, .owner = 7);
    hf_hold *hold = NULL;

    CHECK_INT(hf_lock_async(client, "later", 10000, before_a_wall(&options, sizeof(options)),
                            keep_answer, &hold, NULL),
              HF_OK);
    while (!hold)
        CHECK_INT(hf_dispatch(client), HF_OK);
    hf_unlock_nowait(hold);
    hf_close(client);
}

static bool keep_holder(void *arg, const hf_entry *entry)
{
    if (entry->role == HF_ROLE_HOLDER)
        *(hf_entry *)arg = *entry;
    return true;
}

TEST(entries_begin_as_they_always_did)
{
    hf_client *client = open_old(HF_CLIENT_OPTIONS(.owner_text = "an old program"));
    hf_hold *hold = take(client, "seen", HF_LOCK_OPTIONS(.mode = HF_MUTEX));
    hf_entry holder = { 0 };

    if (!(hf_caps(client) & HF_CAP_INSPECT))
        SKIP("the engine shows no holders");
    CHECK_INT(hf_inspect(client, "seen", keep_holder, &holder), HF_OK);
    CHECK(holder.size >= sizeof(holder));
    CHECK_INT(holder.kind, HF_KIND_MUTEX);
    CHECK_INT(holder.mode, HF_MUTEX);
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(client);
}

/* All names are there, or this does not link. */
TEST(all_functions_of_the_old_header_exist)
{
#define FUNCTION(name) (void (*)(void)) name
    static void (*const functions[])(void) = {
        FUNCTION(hf_attach),
        FUNCTION(hf_break),
        FUNCTION(hf_cancel),
        FUNCTION(hf_caps),
        FUNCTION(hf_close),
        FUNCTION(hf_code_name),
        FUNCTION(hf_code_text),
        FUNCTION(hf_counter_add),
        FUNCTION(hf_counter_get),
        FUNCTION(hf_counter_remove),
        FUNCTION(hf_counter_set),
        FUNCTION(hf_counter_take),
        FUNCTION(hf_detach),
        FUNCTION(hf_dispatch),
        FUNCTION(hf_downgrade),
        FUNCTION(hf_examine),
        FUNCTION(hf_fd),
        FUNCTION(hf_held),
        FUNCTION(hf_hold_mode),
        FUNCTION(hf_hold_name),
        FUNCTION(hf_inspect),
        FUNCTION(hf_last_error),
        FUNCTION(hf_latch_down),
        FUNCTION(hf_latch_get),
        FUNCTION(hf_latch_set),
        FUNCTION(hf_latch_wait),
        FUNCTION(hf_lock),
        FUNCTION(hf_lock_async),
        FUNCTION(hf_open),
        FUNCTION(hf_remaining_ms),
        FUNCTION(hf_renew),
        FUNCTION(hf_token),
        FUNCTION(hf_semaphore_set),
        FUNCTION(hf_unlock),
        FUNCTION(hf_upgrade),
        FUNCTION(hf_unlock_nowait),
        FUNCTION(hf_url),
        FUNCTION(hf_version),
    };

    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        CHECK(functions[i] != NULL);
}
