/* SPDX-License-Identifier: Apache-2.0 */
/* Everything by which a client says something at its Redis server, done while others wait for it.
 */
#include "deeds.h"

#define LONG_MS 600000

struct deed {
    const char *name;
    hf_mode held, waits; /* counters and latches nobody holds */
    int (*act)(hf_client *doer, const char *name, hf_hold *hold);
    int unlock;    /* what hf_unlock answers afterwards; DONE: it has been given back by then */
    uint32_t left; /* of its number, when all is over */
};
#define DONE (-1)

struct wish {
    hf_hold *hold; /* the doer's */
    struct outcome outcome;
};

static int let_go(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)doer;
    (void)name;
    return hf_unlock(hold);
}

static int let_go_without_waiting(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)doer;
    (void)name;
    hf_unlock_nowait(hold);
    return HF_OK;
}

static int leave_and_come_back(hf_client *doer, const char *name, hf_hold *hold)
{
    char key[HF_OWNER_KEY_SIZE];

    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(doer, name, key, &hold), HF_OK);
    return hf_unlock(hold);
}

static int downgrade(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)doer;
    (void)name;
    return hf_downgrade(hold, HF_READ);
}

static int break_it(hf_client *doer, const char *name, hf_hold *hold)
{
    uint32_t broken = 0;

    (void)hold;
    int code = hf_break(doer, name, NULL, &broken);
    CHECK_INT(broken, 1);
    return code;
}

static int make_more(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)hold;
    return hf_semaphore_set(doer, name, 2);
}

static int add(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)hold;
    return hf_counter_add(doer, name, 3);
}

static int set(hf_client *doer, const char *name, hf_hold *hold)
{
    (void)hold;
    return hf_counter_set(doer, name, 3);
}

static int count_down(hf_client *doer, const char *name, hf_hold *hold)
{
    uint32_t left = 0;

    (void)hold;
    CHECK_CODE(hf_latch_down(doer, name, 1, &left), HF_OK);
    CHECK_INT(left, 1);
    int code = hf_latch_down(doer, name, 1, &left);
    CHECK_INT(left, 0);
    return code;
}

static const struct deed deeds[] = {
    { "unlocked", HF_MUTEX, HF_MUTEX, let_go, DONE, 0 },
    { "unlocked-soon", HF_MUTEX, HF_MUTEX, let_go_without_waiting, DONE, 0 },
    { "unlocked-later", HF_MUTEX, HF_MUTEX, leave_and_come_back, DONE, 0 },
    { "broken", HF_MUTEX, HF_MUTEX, break_it, HF_LOST, 0 },
    { "unlocked-fair", HF_FAIR, HF_FAIR, let_go, DONE, 0 },
    { "unlocked-fair-soon", HF_FAIR, HF_FAIR, let_go_without_waiting, DONE, 0 },
    { "unlocked-fair-later", HF_FAIR, HF_FAIR, leave_and_come_back, DONE, 0 },
    { "broken-fair", HF_FAIR, HF_FAIR, break_it, HF_LOST, 0 },
    { "written", HF_WRITE, HF_READ, let_go, DONE, 0 },
    { "written-soon", HF_WRITE, HF_WRITE, let_go_without_waiting, DONE, 0 },
    { "written-later", HF_WRITE, HF_WRITE, leave_and_come_back, DONE, 0 },
    { "broken-write", HF_WRITE, HF_WRITE, break_it, HF_LOST, 0 },
    { "downgraded", HF_WRITE, HF_READ, downgrade, HF_OK, 0 },
    { "read", HF_READ, HF_WRITE, let_go, DONE, 0 },
    { "read-soon", HF_READ, HF_WRITE, let_go_without_waiting, DONE, 0 },
    { "read-later", HF_READ, HF_WRITE, leave_and_come_back, DONE, 0 },
    { "broken-read", HF_READ, HF_WRITE, break_it, HF_LOST, 0 },
    { "permit", HF_PERMIT, HF_PERMIT, let_go, DONE, 1 },
    { "permit-soon", HF_PERMIT, HF_PERMIT, let_go_without_waiting, DONE, 1 },
    { "permit-later", HF_PERMIT, HF_PERMIT, leave_and_come_back, DONE, 1 },
    { "broken-permit", HF_PERMIT, HF_PERMIT, break_it, HF_LOST, 1 },
    { "more-permits", HF_PERMIT, HF_PERMIT, make_more, HF_OK, 2 },
    { "added", HF_COUNTER, HF_COUNTER, add, DONE, 2 },
    { "set", HF_COUNTER, HF_COUNTER, set, DONE, 2 },
    { "down", HF_LATCH, HF_LATCH, count_down, DONE, 0 },
};
#define DEEDS (sizeof(deeds) / sizeof(deeds[0]))

static void prepare(const struct deed *deed, hf_client *doer, struct wish *wish)
{
    if (deed->held == HF_PERMIT)
        CHECK_CODE(hf_semaphore_set(doer, deed->name, 1), HF_OK);
    if (deed->held == HF_COUNTER)
        CHECK_CODE(hf_counter_set(doer, deed->name, 0), HF_OK);
    else if (deed->held == HF_LATCH)
        CHECK_CODE(hf_latch_set(doer, deed->name, 2), HF_OK);
    else
        CHECK_CODE(hf_lock(doer, deed->name, 0,
                           LOCK_OPTIONS(.mode = deed->held, .lease_ms = LONG_MS), &wish->hold),
                   HF_OK);
}

static void begin_to_wait(const struct deed *deed, hf_client *other, struct wish *wish)
{
    CHECK_CODE(hf_lock_async(other, deed->name, HF_FOREVER, LOCK_OPTIONS(.mode = deed->waits),
                             record_outcome, &wish->outcome, NULL),
               HF_OK);
}

static uint32_t number_of(const struct deed *deed, hf_client *other)
{
    uint32_t number = 0;

    if (deed->held == HF_PERMIT)
        return look(other, deed->name)->seen[0].value;
    if (deed->held == HF_COUNTER)
        CHECK_CODE(hf_counter_get(other, deed->name, &number), HF_OK);
    else if (deed->held == HF_LATCH)
        CHECK_CODE(hf_latch_get(other, deed->name, &number), HF_OK);
    return number;
}

static void check_done_once(const struct deed *deed, hf_client *other, struct wish *wish)
{
    test_note("%s has been done", deed->name);
    WAIT_OUTCOME(&wish->outcome);
    CHECK_CODE(wish->outcome.code, HF_OK);
    if (wish->outcome.hold)
        give_back(wish->outcome.hold);
    if (deed->unlock != DONE)
        CHECK_CODE(hf_unlock(wish->hold), deed->unlock);
    check_nothing_left(other, deed->name);
    CHECK_INT(number_of(deed, other), deed->left);
}

void deeds_do(hf_client *doer, hf_client *other)
{
    static struct wish wishes[DEEDS];

    for (size_t i = 0; i < DEEDS; i++) {
        wishes[i] = (struct wish){ 0 };
        prepare(&deeds[i], doer, &wishes[i]);
        begin_to_wait(&deeds[i], other, &wishes[i]);
    }
    for (size_t i = 0; i < DEEDS; i++)
        EVENTUALLY(waiters(other, deeds[i].name) == 1, SOON_MS);
    for (size_t i = 0; i < DEEDS; i++) {
        int code = deeds[i].act(doer, deeds[i].name, wishes[i].hold);
        if (code != HF_OK)
            FAIL("%s: %s", deeds[i].name, hf_last_error()->text);
    }
    for (size_t i = 0; i < DEEDS; i++)
        check_done_once(&deeds[i], other, &wishes[i]);
}
