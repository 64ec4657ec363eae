/* SPDX-License-Identifier: Apache-2.0 */
/* Names: any bytes but NUL, 1 to 1024 of them, and different names are different things. */
#include "conformance.h"

static void check_usable(hf_client *client, hf_client *other, const char *name)
{
    hf_hold *hold = take(client, name, HF_MUTEX, 0);

    CHECK_STR(hf_hold_name(hold), name);
    CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_BUSY);
    if (hf_caps(client) & HF_CAP_INSPECT)
        CHECK_INT(holders(other, name), 1);
    give_back(hold);
    CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
}

static void check_refused(hf_client *client, const char *name)
{
    hf_hold *hold = (hf_hold *)&hold;

    CHECK_ERROR(hf_lock(client, name, 0, NULL, &hold), HF_EINVAL);
    CHECK(hold == NULL);
}

TEST(names_have_1_to_1024_bytes)
{
    static char name[10001];
    hf_client *client = open_client(), *other = open_client();

    check_refused(client, "");
    check_refused(client, NULL);
    check_usable(client, other, "x");
    memset(name, 'n', 10000);
    name[HF_NAME_MAX] = '\0';
    check_usable(client, other, name);
    name[HF_NAME_MAX] = 'n';
    name[HF_NAME_MAX + 1] = '\0';
    check_refused(client, name);
    CHECK(strstr(hf_last_error()->text, "1024") != NULL);
    name[HF_NAME_MAX + 1] = 'n';
    check_refused(client, name);
    hf_close(client);
    hf_close(other);
}

TEST(the_longest_names_differ_in_any_byte)
{
    static char name[HF_NAME_MAX + 1], other[HF_NAME_MAX + 1];
    hf_client *client = open_client(), *prober = open_client();

    memset(name, 'n', HF_NAME_MAX);
    hf_hold *hold = take(client, name, HF_MUTEX, 0);
    for (int i = 0; i < HF_NAME_MAX; i += 31) {
        memcpy(other, name, sizeof(name));
        other[i] = 'm';
        CHECK_CODE(probe(prober, other, HF_MUTEX, 0), HF_OK);
    }
    memcpy(other, name, sizeof(name));
    other[HF_NAME_MAX - 1] = '\0';
    CHECK_CODE(probe(prober, other, HF_MUTEX, 0), HF_OK);
    give_back(hold);
    hf_close(client);
    hf_close(prober);
}

TEST(names_are_bytes)
{
    static const char *const names[] = {
        "grüße/注文/заказ/🔒",
        "two\nlines",
        "tab\there",
        " leading and trailing ",
        "%s%n%d",
        "a/b/../c",
        "..",
        "\\",
        "'\"; DROP TABLE locks; --",
        "{braces}",
        "*",
        "\xff\xfe\x80",
        "\x01\x02\x7f",
        "a:b",
        "~",
    };
    hf_client *client = open_client(), *other = open_client();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_usable(client, other, names[i]);
    hf_close(client);
    hf_close(other);
}

TEST(every_byte_makes_a_name_of_its_own)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *holds[256] = { NULL };
    char name[4] = "?";

    for (int byte = 1; byte < 256; byte++) {
        name[0] = (char)byte;
        holds[byte] = take(client, name, HF_MUTEX, 0);
    }
    for (int byte = 1; byte < 256; byte++) {
        name[0] = (char)byte;
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_BUSY);
        give_back(holds[byte]);
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
    }
    hf_close(client);
    hf_close(other);
}

TEST(similar_names_do_not_collide)
{
    static const char *const names[] = { "a",   "A",   "a/",     "/a",    "a ",       " a",
                                         "a/b", "a:b", "ab",     "a%2Fb", "{a}",      "a}",
                                         "{a",  "a\n", "lock:a", "á",     "a\xcc\x81" };
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    hf_client *client = open_client();
    hf_hold *holds[COUNT];

    for (int i = 0; i < COUNT; i++)
        holds[i] = take(client, names[i], HF_MUTEX, (uint64_t)i + 1);
    for (int i = 0; i < COUNT; i++)
        give_back(holds[i]);
    hf_close(client);
}

TEST(a_name_is_copied)
{
    char name[] = "volatile";
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(client, name, HF_MUTEX, 0);

    memcpy(name, "changed!", 8);
    CHECK_STR(hf_hold_name(hold), "volatile");
    CHECK_CODE(probe(other, "volatile", HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

static unsigned cap_of(hf_mode mode)
{
    switch (mode) {
    case HF_MUTEX:
    case HF_LEADER:
        return HF_CAP_MUTEX;
    case HF_FAIR:
        return HF_CAP_FAIR;
    case HF_READ:
    case HF_WRITE:
        return HF_CAP_RW;
    case HF_UPGRADE:
        return HF_CAP_RW | HF_CAP_UPGRADE;
    case HF_PERMIT:
        return HF_CAP_PERMIT;
    case HF_COUNTER:
        return HF_CAP_COUNTER;
    case HF_LATCH:
        return HF_CAP_LATCH;
    }
    return 0;
}

static bool same_kind(hf_mode one, hf_mode other)
{
    bool one_rw = one == HF_READ || one == HF_UPGRADE || one == HF_WRITE;
    bool other_rw = other == HF_READ || other == HF_UPGRADE || other == HF_WRITE;
    /* A format that leases each lock by itself has one kind of thing for both. */
    bool mutexes = one <= HF_FAIR && other <= HF_FAIR && !store_is_local() && !store_has_sessions();

    return one == other || (one_rw && other_rw) || mutexes || store_has_plain_locks();
}

TEST(a_name_is_one_kind_at_a_time)
{
    hf_client *client = open_client(), *other = open_client();

    for (hf_mode mode = HF_MUTEX; mode <= HF_WRITE; mode++) {
        hf_hold *hold;
        if ((hf_caps(client) & cap_of(mode)) != cap_of(mode))
            continue;
        CHECK_CODE(hf_lock(client, name_of("kind"), 0, LOCK_OPTIONS(.mode = mode), &hold), HF_OK);
        for (hf_mode asked = HF_MUTEX; asked <= HF_PERMIT; asked++)
            if (!same_kind(mode, asked) && (hf_caps(client) & cap_of(asked)) == cap_of(asked)) {
                hf_hold *refused = hold;
                CHECK_ERROR(hf_lock(other, name_of("kind"), SOON_MS,
                                    LOCK_OPTIONS(.mode = asked, .limit = asked == HF_PERMIT),
                                    &refused),
                            HF_EKIND);
                CHECK(refused == NULL);
            }
        give_back(hold);
    }
    hf_close(client);
    hf_close(other);
}

TEST(the_holder_itself_meets_the_kind_too)
{
    hf_client *client = open_client();
    hf_hold *hold, *refused;

    need(client, HF_CAP_FAIR | HF_CAP_RW);
    hold = take(client, name_of("kind"), HF_MUTEX, 0);
    CHECK_CODE(hf_lock(client, name_of("kind"), 0, LOCK_OPTIONS(.mode = HF_FAIR), &refused),
               HF_EKIND);
    CHECK_CODE(hf_lock(client, name_of("kind"), 0, LOCK_OPTIONS(.mode = HF_WRITE), &refused),
               HF_EKIND);
    give_back(hold);
    hf_close(client);
}

TEST(an_idle_name_may_become_another_kind)
{
    hf_client *client = open_client();

    need(client, HF_CAP_FAIR | HF_CAP_RW);
    for (hf_mode mode = HF_MUTEX; mode <= HF_WRITE; mode++) {
        if (mode == HF_UPGRADE && !(hf_caps(client) & HF_CAP_UPGRADE))
            continue;
        give_back(take(client, name_of("changing"), mode, 0));
    }
    hf_close(client);
}

TEST(counters_and_latches_are_kinds_too)
{
    hf_client *client = open_client();
    uint32_t value = 0;

    need(client, HF_CAP_COUNTER | HF_CAP_LATCH | HF_CAP_PERMIT);
    CHECK_CODE(hf_counter_set(client, name_of("c"), 5), HF_OK);
    CHECK_CODE(hf_latch_set(client, name_of("l"), 5), HF_OK);
    CHECK_CODE(hf_semaphore_set(client, name_of("s"), 5), HF_OK);
    CHECK_ERROR(hf_latch_down(client, name_of("c"), 1, NULL), HF_EKIND);
    CHECK_ERROR(hf_counter_get(client, name_of("l"), &value), HF_EKIND);
    CHECK_ERROR(hf_semaphore_set(client, name_of("l"), 3), HF_EKIND);
    CHECK_ERROR(hf_counter_add(client, name_of("s"), 3), HF_EKIND);
    CHECK_CODE(probe(client, name_of("c"), HF_MUTEX, 0), HF_EKIND);
    CHECK_CODE(probe(client, name_of("l"), HF_MUTEX, 0), HF_EKIND);
    CHECK_CODE(probe(client, name_of("s"), HF_MUTEX, 0), HF_EKIND);
    CHECK_CODE(hf_counter_get(client, name_of("c"), &value), HF_OK);
    CHECK_INT(value, 5);
    hf_close(client);
}
