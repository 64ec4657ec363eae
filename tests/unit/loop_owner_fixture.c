/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the wheel have in common: see loop_owner_fixture.h. */
#include "loop_owner_fixture.h"

/* libuv has a pipe for signals, once a process. */
__attribute__((constructor)) static void keep_descriptors(void)
{
    test_fds_kept = 2;
}

hf_hold *take_as(const char *name, uint64_t owner)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = owner);
    CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

hf_hold *take(const char *name)
{
    return take_as(name, 0);
}

void lock_and_unlock(const char *name)
{
    CHECK_INT(hf_unlock(take(name)), HF_OK);
}

void begin_with(int64_t grace_ms)
{
    hf__loop_owner_grace_ms = grace_ms;
    fixture_begin_threaded();
}

void have_the_wheel(void)
{
    for (int64_t until = monotonic_ms() + SOON_MS * test_slow(); monotonic_ms() < until;) {
        lock_and_unlock("warm");
        if (hf__uv_loop_begin_push(fixture.client))
            return;
    }
    FAIL("still not so: the thread has parked");
}

void keep_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;
    (void)error;
    CHECK_INT(code, HF_OK);
    answer->hold = hold;
    answer->thread = pthread_self();
    answer->calls++;
}

void request(struct answer *answer, const char *name)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = OWNER);
    CHECK_INT(hf_lock_async(fixture.client, name, HF_FOREVER, &options, keep_answer, answer, NULL),
              HF_OK);
}

_Atomic pthread_t asked_by, renewed_by, released_by;

void note_thread(void *arg, const char *point, const char *name)
{
    (void)arg, (void)name;
    if (strcmp(point, "before_ask") == 0)
        asked_by = pthread_self();
    if (strcmp(point, "before_renew") == 0)
        renewed_by = pthread_self();
    if (strcmp(point, "before_release") == 0)
        released_by = pthread_self();
}
