/* SPDX-License-Identifier: Apache-2.0 */
/* Bits that flip in the file: whatever the engine answers, it neither crashes nor hangs. */
#include "mix.h"
#include "state.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory;

static unsigned flip_seed;

/* Some anywhere, most where there is something. */
static void flip(unsigned char *bytes, size_t size)
{
    unsigned *used = malloc(size / 8 * sizeof(*used)), count = 0;
    CHECK(used != NULL);
    for (size_t i = 4096; i < size; i += 8) {
        if (memcmp(bytes + i, "\0\0\0\0\0\0\0", 8))
            used[count++] = (unsigned)i;
    }
    for (unsigned flips = 1 + (unsigned)rand_r(&flip_seed) % 40; flips; flips--) {
        size_t at = used[(unsigned)rand_r(&flip_seed) % count] + (unsigned)rand_r(&flip_seed) % 8;
        if (rand_r(&flip_seed) % 4 == 0)
            at = LOCAL_SEGMENTS_AT + (unsigned)rand_r(&flip_seed) % (size - LOCAL_SEGMENTS_AT);
        if (rand_r(&flip_seed) % 50 == 0)
            at = (unsigned)rand_r(&flip_seed) % 4096;
        bytes[at] ^= (unsigned char)(1u << rand_r(&flip_seed) % 8);
    }
    free(used);
}

static bool look(void *arg, const hf_entry *entry)
{
    *(size_t *)arg += entry->name_length + strlen(entry->owner_text) + strlen(entry->host);
    return true;
}

/* Whatever it answers, it answers. */
static void use_damaged(void *arg)
{
    hf_client *client;
    size_t length = 0;
    (void)arg;
    if (hf_open(&client, mix_url(directory), NULL) != HF_OK)
        return;
    for (int i = 0; i < MIX_NAMES; i++) {
        for (hf_mode mode = HF_MUTEX; mode <= HF_LATCH; mode++) {
            hf_lock_options options =
                HF_LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT ? 3 : 0);
            hf_hold *hold = NULL;
            if (hf_lock(client, mix_name(i), 1, &options, &hold) == HF_OK)
                hf_unlock(hold);
        }
        hf_inspect(client, mix_name(i), look, &length);
        hf_break(client, mix_name(i), NULL, NULL);
    }
    hf_inspect(client, NULL, look, &length);
    hf_close(client);
}

static void ignore(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)code, (void)hold, (void)error;
}

/* Leaves holders and waiters behind. */
static void hold_all(void *arg)
{
    (void)arg;
    hf_client *client = mix_open(directory);
    hf_hold *hold;
    for (int i = 0; i < MIX_NAMES; i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_READ, .owner = 1);
        any_code(hf_lock(client, mix_name(i), 0, &options, &hold));
        options.owner = 2;
        any_code(hf_lock(client, mix_name(i), 0, &options, &hold));
        options.mode = HF_WRITE;
        options.owner = 3;
        any_code(hf_lock_async(client, mix_name(i), HF_FOREVER, &options, ignore, NULL, NULL));
    }
    parent_say("held");
    parent_wait_for("never");
}

static void damage(unsigned seed)
{
    struct child holder, user;
    directory = temp_path("damaged");
    child_start(&holder, hold_all, NULL);
    child_wait_for(&holder, "held");
    if (seed % 2)
        child_stop(&holder);
    else
        child_kill(&holder);
    flip_seed = seed;
    state_rewrite(directory, flip);
    child_start(&user, use_damaged, NULL);
    int status = child_wait(&user);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        FAIL("seed %u ended with status %x", seed, (unsigned)status);
    if (seed % 2)
        child_kill(&holder);
    CHECK_INT(unlink(temp_path("damaged/default.hf")), 0);
}

TEST(damage_is_no_crash_and_no_hang)
{
    TEST_TIMEOUT(300);
    const char *from = getenv("HOLDFAST_TEST_SEED"), *count = getenv("HOLDFAST_TEST_SEEDS");
    unsigned seed = from ? (unsigned)strtoul(from, NULL, 10) : 1;
    for (unsigned i = 0; i < (count ? (unsigned)strtoul(count, NULL, 10) : 150u); i++)
        damage(seed + i);
}

/* ---- a word that cannot be, under a request that waits ---- */

struct answer {
    _Atomic bool given;
    int code;
};

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;
    (void)hold, (void)error;
    answer->code = code;
    atomic_store(&answer->given, true);
}

static void overwrite_waiting(struct local *local, unsigned state)
{
    unsigned found = 0;
    for (uint32_t i = 0; i < LOCAL_NODES; i++) {
        struct local_node *node = local_node_in(local, 0, i);
        uint64_t word = local_get(&node->state);
        if (local_state_state(word) != LOCAL_WAITING || local_state_mode(word) != HF_FAIR)
            continue;
        local_put(&node->state, (word & ~((uint64_t)0xff << 40)) | (uint64_t)state << 40);
        found++;
    }
    CHECK_INT(found, 1);
}

static void damage_waiter(unsigned state)
{
    hf_lock_options fair = HF_LOCK_OPTIONS(.mode = HF_FAIR);
    struct answer damaged = { .given = false }, sound = { .given = false };
    hf_hold *hold, *other;
    directory = temp_path("state-%u", state);
    hf_client *holder = mix_open(directory), *waiter = mix_open(directory);
    struct local *local = state_open(directory);
    CHECK_INT(hf_lock(holder, "it", 0, &fair, &hold), HF_OK);
    CHECK_INT(hf_lock(holder, "other", 0, NULL, &other), HF_OK);
    CHECK_INT(hf_lock_async(waiter, "it", HF_FOREVER, &fair, note_answer, &damaged, NULL), HF_OK);
    EVENTUALLY(state_claims(local) == 3, 10000);
    overwrite_waiting(local, state);
    CHECK_INT(hf_lock_async(waiter, "other", 100, NULL, note_answer, &sound, NULL), HF_OK);
    EVENTUALLY(atomic_load(&sound.given), 20000);
    CHECK_INT(sound.code, HF_BUSY);
    EVENTUALLY(atomic_load(&damaged.given), 20000);
    CHECK_STR(hf_code_name(damaged.code), "HF_ECORRUPT");
    state_close(local);
    hf_close(waiter);
    hf_close(holder);
}

TEST(damaged_state_of_a_waiter_is_an_answer)
{
    static const unsigned states[] = { LOCAL_FREE, LOCAL_PARKED, LOCAL_EVICTED, 7, 255 };
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        damage_waiter(states[i]);
}

/* ---- words that change under clients at work ---- */

enum { LIVING_ROUNDS = 30, USE_MS = 150, LIVING_FLIPS = 20, USED_MAX = 20000 };

static void use_briefly(hf_client *client)
{
    for (int i = 0; i < MIX_NAMES; i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = (hf_mode)(HF_MUTEX + i % 6),
                                                  .limit = HF_MUTEX + i % 6 == HF_PERMIT ? 3 : 0);
        hf_hold *hold = NULL;
        if (hf_lock(client, mix_name(i), 1, &options, &hold) == HF_OK)
            hf_unlock(hold);
    }
}

/* Holds, waits on its loop and on its threads, until the file has been damaged. */
static void live_on(void *arg)
{
    hf_client *client = mix_open(directory);
    hf_hold *hold;
    (void)arg;
    for (int i = 0; i < MIX_NAMES; i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = i % 2 ? HF_MUTEX : HF_READ, .owner = 1);
        any_code(hf_lock(client, mix_name(i), 0, &options, &hold));
        options.mode = i % 2 ? HF_MUTEX : HF_WRITE;
        for (options.owner = 2; options.owner < 5; options.owner++)
            any_code(hf_lock_async(client, mix_name(i), i == 3 ? 200 : HF_FOREVER, &options, ignore,
                                   NULL, NULL));
    }
    parent_say("waits");
    parent_wait_for("use");
    /* Those that wait look again within that time. */
    for (int64_t until_ms = monotonic_ms() + USE_MS; monotonic_ms() < until_ms;)
        use_briefly(client);
    hf_close(client);
}

/* The words that are not zero, other than the header's. */
static unsigned find_used_words(struct local *local, uint64_t *used[USED_MAX])
{
    uint64_t *words = (uint64_t *)(void *)local->map;
    unsigned count = 0;
    for (size_t i = LOCAL_SESSIONS_AT / 8; i < local_segment_at(1) / 8; i++) {
        if (words[i] && count < USED_MAX)
            used[count++] = &words[i];
    }
    return count;
}

static void flip_words(struct local *local)
{
    static uint64_t *used[USED_MAX];
    unsigned count = find_used_words(local, used);
    for (unsigned i = 0; i < LIVING_FLIPS; i++) {
        unsigned bit = (unsigned)rand_r(&flip_seed) % 64;
        __atomic_xor_fetch(used[(unsigned)rand_r(&flip_seed) % count], (uint64_t)1 << bit,
                           __ATOMIC_SEQ_CST);
    }
}

static void damage_living(unsigned seed)
{
    struct child clients[2];
    directory = temp_path("living-%u", seed);
    flip_seed = seed;
    for (unsigned i = 0; i < 2; i++) {
        child_start(&clients[i], live_on, NULL);
        child_wait_for(&clients[i], "waits");
    }
    struct local *local = state_open(directory);
    flip_words(local);
    state_close(local);
    for (unsigned i = 0; i < 2; i++)
        child_say(&clients[i], "use");
    for (unsigned i = 0; i < 2; i++) {
        int status = child_wait(&clients[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            FAIL("seed %u ended with status %x", seed, (unsigned)status);
    }
}

TEST(words_that_change_under_living_clients_are_no_crash_and_no_hang)
{
    TEST_TIMEOUT(300);
    const char *from = getenv("HOLDFAST_TEST_SEED"), *count = getenv("HOLDFAST_TEST_SEEDS");
    unsigned seed = from ? (unsigned)strtoul(from, NULL, 10) : 1;
    for (unsigned i = 0; i < (count ? (unsigned)strtoul(count, NULL, 10) : LIVING_ROUNDS); i++)
        damage_living(seed + i);
}
