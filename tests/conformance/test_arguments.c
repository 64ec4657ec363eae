/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments are refused with a sentence that says which, and nothing happens. */
#include "conformance.h"

#include <stddef.h>

TEST(null_where_something_is_needed)
{
    hf_client *client = open_client();
    hf_hold *hold = NULL;
    uint32_t value;

    CHECK_ERROR(hf_open(NULL, store_url(), NULL), HF_EINVAL);
    CHECK_ERROR(hf_lock(NULL, "name", 0, NULL, &hold), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, NULL, 0, NULL, &hold), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, "name", 0, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_attach(client, "name", "key", NULL), HF_EINVAL);
    CHECK_ERROR(hf_attach(client, NULL, "key", &hold), HF_EINVAL);
    CHECK_ERROR(hf_inspect(client, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_inspect(NULL, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_examine(NULL, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_break(client, NULL, NULL, &value), HF_EINVAL);
    CHECK_ERROR(hf_break(NULL, "name", NULL, &value), HF_EINVAL);
    CHECK_ERROR(hf_counter_get(client, "name", NULL), HF_EINVAL);
    CHECK_ERROR(hf_counter_set(NULL, "name", 1), HF_EINVAL);
    CHECK_ERROR(hf_latch_wait(NULL, "name", 0), HF_EINVAL);
    CHECK_ERROR(hf_dispatch(NULL), HF_EINVAL);
    CHECK(hold == NULL);
    hf_close(client);
}

TEST(null_where_a_name_is_needed)
{
    hf_client *client = open_client();

    need(client, HF_CAP_COUNTER | HF_CAP_LATCH | HF_CAP_PERMIT);
    CHECK_ERROR(hf_counter_add(client, NULL, 1), HF_EINVAL);
    CHECK_ERROR(hf_latch_set(client, NULL, 1), HF_EINVAL);
    CHECK_ERROR(hf_semaphore_set(client, NULL, 1), HF_EINVAL);
    hf_close(client);
}

TEST(null_holds_are_refused_where_they_make_no_sense)
{
    char key[HF_OWNER_KEY_SIZE];

    CHECK_ERROR(hf_upgrade(NULL, 0), HF_EINVAL);
    CHECK_ERROR(hf_downgrade(NULL, HF_READ), HF_EINVAL);
    CHECK_ERROR(hf_renew(NULL, 100), HF_EINVAL);
    CHECK_ERROR(hf_detach(NULL, key), HF_EINVAL);
}

TEST(negative_times_are_refused)
{
    static const int64_t bad[] = { -2, -1000, INT64_MIN };
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_ERROR(hf_lock(client, name_of("one"), bad[i], NULL, &refused), HF_EINVAL);
        CHECK_ERROR(hf_latch_wait(client, name_of("latch"), bad[i]), HF_EINVAL);
        CHECK_ERROR(hf_counter_take(client, name_of("count"), 1, bad[i]), HF_EINVAL);
        CHECK_ERROR(
            hf_open(&(hf_client *){ NULL }, store_url(), &HF_CLIENT_OPTIONS(.lease_ms = bad[i])),
            HF_EINVAL);
    }
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(numbers_that_a_mode_has_no_use_for_are_refused)
{
    hf_client *client = open_client();
    hf_hold *hold;

    CHECK_ERROR(hf_lock(client, name_of("x"), 0, LOCK_OPTIONS(.permits = 2), &hold), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, name_of("x"), 0, LOCK_OPTIONS(.limit = 1), &hold), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "mutexes have none") != NULL);
    CHECK_CODE(hf_lock(client, name_of("x"), SOON_MS, LOCK_OPTIONS(.permits = 1), &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

TEST(enormous_times_are_fine)
{
    static const int64_t large[] = { INT64_MAX, INT64_MAX - 1, INT64_MAX / 2, INT64_C(1) << 40 };
    hf_client *client = open_client();

    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        struct outcome outcome = { 0 };
        hf_hold *hold;
        hf_request request;
        CHECK_CODE(hf_lock(client, name_of("one"), large[i], NULL, &hold), HF_OK);
        CHECK_CODE(hf_lock_async(client, name_of("one"), large[i], NULL, record_outcome, &outcome,
                                 &request),
                   HF_OK);
        let_pass_ms(5);
        CHECK_INT(outcome.calls, 0);
        hf_cancel(client, request);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_CANCELED);
        give_back(hold);
        /* What was canceled may still be on its way out of the queue. */
        CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS,
                           LOCK_OPTIONS(.lease_ms = long_lease(large[i])), &hold),
                   HF_OK);
        CHECK(hf_held(hold));
        CHECK(hf_remaining_ms(hold) > (store_has_sessions() ? 0 : 1000000));
        give_back(hold);
    }
    hf_close(client);
}

TEST(modes_that_are_none_are_refused)
{
    static const int bad[] = { -1, 9, 99, INT32_MAX };
    hf_client *client = open_client();
    hf_hold *hold;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_ERROR(
            hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.mode = (hf_mode)bad[i]), &hold),
            HF_EINVAL);
        CHECK(hold == NULL);
    }
    hf_close(client);
}

TEST(options_without_their_size_are_refused)
{
    hf_client *client = open_client(), *second;
    hf_lock_options options = { .mode = HF_MUTEX };
    hf_hold *hold;

    CHECK_ERROR(hf_lock(client, name_of("one"), 0, &options, &hold), HF_EINVAL);
    CHECK_ERROR(hf_open(&second, store_url(), &(hf_client_options){ .driver = HF_DRIVE_THREAD }),
                HF_EINVAL);
    CHECK_ERROR(hf_open(&second, store_url(), &HF_CLIENT_OPTIONS(.driver = (hf_driver)7)),
                HF_EINVAL);
    hf_close(client);
}

/* What lies behind the size that they say is not read. */
TEST(options_of_an_older_header_are_accepted)
{
    hf_client_options client_options = HF_CLIENT_OPTIONS(.request_timeout_ms = -5);
    hf_lock_options lock_options = HF_LOCK_OPTIONS(.no_reentry = true);
    hf_client *client = NULL;
    hf_hold *first, *second;

    CHECK_ERROR(hf_open(&client, store_url(), &client_options), HF_EINVAL);
    client_options.size = offsetof(hf_client_options, request_timeout_ms);
    CHECK_CODE(hf_open(&client, store_url(), &client_options), HF_OK);
    first = take(client, name_of("one"), HF_MUTEX, 0);
    CHECK_ERROR(hf_lock(client, name_of("one"), 0, &lock_options, &second), HF_EDEADLK);
    lock_options.size = offsetof(hf_lock_options, no_reentry);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, &lock_options, &second), HF_OK);
    give_back(second);
    give_back(first);
    hf_close(client);
}

/* For languages without macros; what a caller of an older header has behind its options is kept. */
TEST(options_of_the_functions_are_those_of_the_macros)
{
    const hf_client_options client_defaults = HF_CLIENT_OPTIONS_INIT;
    const hf_lock_options lock_defaults = HF_LOCK_OPTIONS_INIT;
    hf_client_options client_options;
    hf_lock_options lock_options;

    memset(&client_options, 0xff, sizeof client_options);
    hf_client_options_init(&client_options, sizeof client_options);
    CHECK(memcmp(&client_options, &client_defaults, sizeof client_options) == 0);
    hf_lock_options_init(&lock_options, sizeof lock_options);
    CHECK(memcmp(&lock_options, &lock_defaults, sizeof lock_options) == 0);
    lock_options.no_reentry = true;
    hf_lock_options_init(&lock_options, offsetof(hf_lock_options, no_reentry));
    CHECK(lock_options.no_reentry);
}

TEST(options_of_a_newer_header_are_refused)
{
    hf_client_options client_options = { .size = sizeof(client_options) + 8 };
    hf_lock_options lock_options = { .size = sizeof(lock_options) + 8 };
    hf_client *client = open_client(), *second;
    hf_hold *hold;

    CHECK_ERROR(hf_open(&second, store_url(), &client_options), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, name_of("one"), 0, &lock_options, &hold), HF_EINVAL);
    hf_close(client);
}

TEST(the_last_error_is_about_the_last_call)
{
    hf_client *client = open_client();
    hf_hold *hold;

    CHECK(hf_last_error() != NULL);
    CHECK_CODE(hf_lock(client, "", 0, NULL, &hold), HF_EINVAL);
    hf_error first = *hf_last_error();
    CHECK_STR(hf_last_error()->text, first.text);
    CHECK_CODE(hf_lock(client, "x", -5, NULL, &hold), HF_EINVAL);
    CHECK(strcmp(hf_last_error()->text, first.text) != 0);
    CHECK(strstr(hf_last_error()->text, "-5") != NULL);
    hf_close(client);
}

static void fail_in_thread(void *arg, int index)
{
    hf_hold *hold;

    (void)index;
    CHECK_CODE(hf_lock(arg, "x", -77, NULL, &hold), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "-77") != NULL);
}

TEST(each_thread_has_its_own_last_error)
{
    hf_client *client = open_client();
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, "", 0, NULL, &hold), HF_EINVAL);
    threads_run(4, fail_in_thread, client);
    CHECK(strstr(hf_last_error()->text, "-77") == NULL);
    hf_close(client);
}

TEST(busy_names_the_lock)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0), *refused;

    CHECK_ERROR(hf_lock(other, name_of("one"), 0, NULL, &refused), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, "one") != NULL);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

/* ---- hf_lock_all ---- */

TEST(several_locks_that_make_no_sense_are_refused)
{
    hf_client *client = open_client();
    const char *one = name_of("one");
    const hf_lock_item fine[] = { { client, one, NULL } };
    const hf_lock_item no_client[] = { { client, one, NULL }, { NULL, one, NULL } };
    const hf_lock_item no_name[] = { { client, one, NULL }, { client, "", NULL } };
    const hf_lock_item two_modes[] = { { client, one, LOCK_OPTIONS(.mode = HF_READ) },
                                       { client, one, LOCK_OPTIONS(.mode = HF_WRITE) } };
    const hf_lock_item permits[] = { { client, one, LOCK_OPTIONS(.mode = HF_PERMIT) },
                                     { client, one, LOCK_OPTIONS(.mode = HF_PERMIT) } };
    const hf_lock_item own_loss[] = { { client, one, LOCK_OPTIONS(.on_lost = count_loss) } };
    hf_hold_set *set = (hf_hold_set *)&set;

    CHECK_ERROR(hf_lock_all(NULL, 1, 0, NULL, &set), HF_EINVAL);
    CHECK(set == NULL);
    CHECK_ERROR(hf_lock_all(fine, 0, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(fine, 1, 0, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(fine, 1, -2, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(fine, HF_LOCK_ALL_MAX + 1, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(no_client, 2, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(no_name, 2, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(two_modes, 2, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(permits, 2, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(own_loss, 1, 0, NULL, &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(fine, 1, 0, LOCK_OPTIONS(.mode = HF_COUNTER), &set), HF_EINVAL);
    CHECK_ERROR(hf_lock_all(fine, 1, 0, LOCK_OPTIONS(.mode = HF_LATCH), &set), HF_EINVAL);
    CHECK_CODE(hf_unlock_all(NULL), HF_OK);
    CHECK(!hf_all_held(NULL));
    CHECK_INT(hf_all_remaining_ms(NULL), 0);
    CHECK(hf_all_hold(NULL, 0) == NULL);
    CHECK_CODE(probe(client, one, HF_MUTEX, 0), HF_OK);
    hf_close(client);
}

/* Either set of options would be dropped. */
TEST(name_that_is_there_twice_with_other_options_is_refused)
{
    const struct {
        const char *option;
        hf_lock_options one, other;
    } cases[] = {
        { "mode", HF_LOCK_OPTIONS(.mode = HF_MUTEX), HF_LOCK_OPTIONS(.mode = HF_FAIR) },
        { "lease_ms", HF_LOCK_OPTIONS(.lease_ms = 1000), HF_LOCK_OPTIONS(.lease_ms = 60000) },
        { "owner", HF_LOCK_OPTIONS(.owner = 1), HF_LOCK_OPTIONS(.owner = 2) },
        { "owner", HF_LOCK_OPTIONS(.owner = 0), HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW) },
        { "owner_text", HF_LOCK_OPTIONS(.owner_text = "a"), HF_LOCK_OPTIONS(.owner_text = "b") },
        { "owner_text", HF_LOCK_OPTIONS(.owner_text = NULL), HF_LOCK_OPTIONS(.owner_text = "b") },
        { "no_reentry", HF_LOCK_OPTIONS(.no_reentry = false), HF_LOCK_OPTIONS(.no_reentry = true) },
    };
    hf_client *client = open_client();
    hf_hold_set *set;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hf_lock_item items[] = { { client, name_of("one"), &cases[i].one },
                                       { client, name_of("one"), &cases[i].other } };
        CHECK_ERROR(hf_lock_all(items, 2, 0, NULL, &set), HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, cases[i].option) != NULL);
        CHECK(set == NULL);
    }
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
}
