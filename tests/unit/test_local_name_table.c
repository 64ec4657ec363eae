/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the embedded engine: equal hashes, all lengths, forgetting and growing. */
#include "../crash/state.h"
#include "test.h"

#include <stdlib.h>

#include <stdio.h>

static struct local *local;

/* The reference of the lock `name`, or 0. */
static uint32_t find(const char *name, uint32_t length, uint64_t hash, bool create)
{
    struct txn visit;
    hf_error *error = NULL;
    if (hf__txn_name(&visit, local, name, length, hash, create, &error) != HF_OK)
        FAIL("%s", error->text);
    if (!visit.lock)
        return 0;
    uint32_t length_there;
    const char *bytes = hf__txn_name_bytes(&visit, &length_there);
    CHECK_INT(length_there, length);
    CHECK(bytes && !memcmp(bytes, name, length));
    hf__txn_leave(&visit);
    return visit.reference;
}

static void set_numbers(uint32_t reference, uint64_t numbers, uint64_t token)
{
    struct txn visit;
    hf_error *error = NULL;
    CHECK_INT(hf__txn_enter(&visit, local, reference, &error), HF_OK);
    local_put(&visit.lock->numbers, numbers);
    local_put(&visit.lock->shape, local_pair(HF_KIND_SEMAPHORE, 0));
    local_put(&visit.lock->token, token);
    hf__txn_leave(&visit);
}

TEST(names_of_all_lengths_are_found_again)
{
    char name[LOCAL_NAME_LONGEST];
    uint32_t references[LOCAL_NAME_LONGEST + 1];
    local = state_open(temp_dir());
    memset(name, 'x', sizeof(name));
    for (uint32_t length = 1; length <= LOCAL_NAME_LONGEST; length += 11)
        references[length] = find(name, length, length * UINT64_C(0x9e3779b97f4a7c15), true);
    for (uint32_t length = 1; length <= LOCAL_NAME_LONGEST; length += 11)
        CHECK_INT(find(name, length, length * UINT64_C(0x9e3779b97f4a7c15), false),
                  references[length]);
    state_close(local);
}

TEST(equal_hashes_are_different_names)
{
    static const char *const names[] = { "one", "two", "three", "two\n", "tw" };
    uint32_t references[5];
    local = state_open(temp_dir());
    for (unsigned hash = 0; hash < 3; hash++) {
        for (unsigned i = 0; i < 5; i++) {
            references[i] = find(names[i], (uint32_t)strlen(names[i]), hash, true);
            for (unsigned j = 0; j < i; j++)
                CHECK(references[i] != references[j]);
        }
        for (unsigned i = 0; i < 5; i++)
            CHECK_INT(find(names[i], (uint32_t)strlen(names[i]), hash, false), references[i]);
    }
    state_close(local);
}

TEST(what_is_not_there_is_not_made_by_looking)
{
    local = state_open(temp_dir());
    CHECK_INT(find("name", 4, 5, false), 0);
    CHECK(find("name", 4, 5, true) != 0);
    CHECK_INT(find("nama", 4, 5, false), 0);
    state_close(local);
}

/* The token of name "0". */
static uint64_t first_token;

static void make_numbered(uint64_t hash, unsigned from, unsigned count, bool keep)
{
    for (unsigned i = from; i < from + count; i++) {
        char name[20];
        int length = snprintf(name, sizeof(name), "%u", i);
        uint32_t reference = find(name, (uint32_t)length, hash, true);
        set_numbers(reference, keep ? local_pair(0, 1) : 0, first_token + i);
    }
}

TEST(idle_names_make_room_and_leave_their_tokens)
{
    local = state_open(temp_dir());
    struct local_header *header = local_header(local);
    first_token = local_get(&header->token_floor);
    make_numbered(9, 0, LOCAL_WINDOW, false);
    uint64_t floor = local_get(&header->token_floor);
    make_numbered(9, 100, 200, false);
    CHECK_INT(local_get(&header->segments), 1);
    CHECK(local_get(&header->token_floor) >= floor + LOCAL_WINDOW - 1);
    CHECK_INT(find("0", 1, 9, false), 0);
    state_check(local);
    state_close(local);
}

TEST(names_in_use_are_never_forgotten)
{
    local = state_open(temp_dir());
    make_numbered(9, 0, 3 * LOCAL_WINDOW, true);
    CHECK_INT(local_get(&local_header(local)->segments), 3);
    for (unsigned i = 0; i < 3 * LOCAL_WINDOW; i++) {
        char name[20];
        int length = snprintf(name, sizeof(name), "%u", i);
        CHECK(find(name, (uint32_t)length, 9, false) != 0);
    }
    state_check(local);
    state_close(local);
}

TEST(what_grew_is_seen_by_others)
{
    struct local *other = state_open(temp_dir());
    local = state_open(temp_dir());
    make_numbered(9, 0, 2 * LOCAL_WINDOW, true);
    struct local *mine = local;
    local = other;
    CHECK(find("31", 2, 9, false) != 0);
    state_close(other);
    state_close(mine);
}

/* With fewer addresses than others (ulimit -v), a part of the file cannot be seen. */
TEST(a_name_that_cannot_be_seen_is_not_made_again)
{
    struct txn visit;
    hf_error *error = NULL;
    local = state_open(temp_dir());
    make_numbered(9, 0, 3 * LOCAL_WINDOW - 1, true);
    make_numbered(9, 100, 1, false);
    struct local *other = state_open(temp_dir());
    unsigned limit = other->segments_limit;
    other->segments_limit = 1;
    CHECK_INT(hf__txn_name(&visit, other, "20", 2, 9, true, &error), HF_ENOMEM);
    CHECK(error && strstr(error->text, "ulimit"));
    CHECK_INT(hf__txn_name(&visit, other, "20", 2, 9, false, &error), HF_ENOMEM);
    CHECK_INT(hf__txn_name(&visit, other, "0", 1, 9, true, &error), HF_OK);
    hf__txn_leave(&visit);
    other->segments_limit = limit;
    free(error);
    state_close(other);
    state_close(local);
}

TEST(where_a_renaming_died_there_is_room_again)
{
    local = state_open(temp_dir());
    struct local_lock *lock = hf__local_lock(local, find("0", 1, 9, true));
    make_numbered(9, 1, LOCAL_WINDOW - 1, true);
    local_put(&lock->guard, (UINT64_C(999) << LOCAL_SESSION_BITS) | 5);
    local_put(&lock->hash, LOCAL_HASH_RENAMED);
    make_numbered(9, 100, 1, true);
    CHECK_INT(local_get(&local_header(local)->segments), 1);
    state_check(local);
    state_close(local);
}
