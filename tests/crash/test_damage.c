/* Bits that flip in the file: whatever the engine answers, it neither crashes nor hangs. */
#include "mix.h"
#include "state.h"
#include "test.h"

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
            hf_lock_options options = { HF_LOCK_OPTIONS_INIT, .mode = mode,
                                        .limit = mode == HF_PERMIT ? 3 : 0 };
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
        hf_lock_options options = { HF_LOCK_OPTIONS_INIT, .mode = HF_READ, .owner = 1 };
        hf_lock(client, mix_name(i), 0, &options, &hold);
        options.owner = 2;
        hf_lock(client, mix_name(i), 0, &options, &hold);
        options.mode = HF_WRITE;
        options.owner = 3;
        hf_lock_async(client, mix_name(i), HF_FOREVER, &options, ignore, NULL, NULL);
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
