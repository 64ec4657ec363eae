/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a client, in its history: begun, ended, and not too often. */
#include "torture/workload/workload.h"

#include <stdio.h>
#include <unistd.h>

/* What an answer that never came may leave in a store: until its lease is over, or the library has
 * taken it back. */
#define FORGOTTEN_NS INT64_C(30000000000)
#define FORGOTTEN_LEASES 4
/* After an error in place of a reply the store answers, and no other fault comes meanwhile. */
#define CLEANED_UP_NS INT64_C(5000000000)

struct torture_record torture_about(const struct torture_client *client, enum torture_verb verb,
                                    uint16_t lock)
{
    return (struct torture_record){ .client = client->number,
                                    .process = (uint32_t)getpid(),
                                    .thread = client->thread,
                                    .owner = (uint64_t)client->number << 32 | client->incarnation,
                                    .verb = (uint8_t)verb,
                                    .lock = lock,
                                    .permits = 1 };
}

void torture_keep_to_the_rate(struct torture_client *client)
{
    int64_t now_ns = torture_clock_ns();

    if (client->next_at_ns > now_ns)
        torture_sleep_in_phase(client->arena, TORTURE_ROUGH, client->next_at_ns);
    else
        client->next_at_ns = now_ns;
}

uint64_t torture_begin(struct torture_client *client, struct torture_record *record)
{
    int64_t threads = client->plan->clients * torture_threads(client->plan);
    int64_t step_ns = INT64_C(1000000000) * threads / client->plan->rate;

    client->next_at_ns += torture_between(&client->dice, step_ns / 2, step_ns * 3 / 2);
    record->operation = atomic_fetch_add(&client->arena->operations, 1) + 1;
    client->errors = atomic_load(&client->seat->errors);
    if (!record->hold)
        record->hold = record->operation;
    record->kind = TORTURE_INVOKE;
    record->at_ns = 0;
    torture_write(client->writer, record);
    return record->operation;
}

_Noreturn void torture_give_up(struct torture_client *client, const char *sentence)
{
    snprintf(client->seat->sentence, sizeof client->seat->sentence, "%s", sentence);
    atomic_store(&client->seat->broken, true);
    _exit(1);
}

/* Which of the questions that threads ask through one session is not answered yet is not known. But
 * a try that was refused was answered. */
static bool is_settled(const struct torture_client *client, const struct torture_record *record)
{
    if (client->thread > 0)
        return record->verb == TORTURE_TRY;
    return !client->subject->settled || client->subject->settled(client->session);
}

static bool is_soon_clean(const struct torture_client *client, const struct torture_record *record)
{
    const struct torture_shared *arena = client->arena;

    return arena->lock_count > arena->loud_count && record->lock == arena->lock_count - 1 &&
           atomic_load(&client->seat->errors) != client->errors;
}

void torture_end(struct torture_client *client, struct torture_record *record,
                 enum torture_answer answer)
{
    static const uint8_t kinds[] = {
        [TORTURE_GRANTED] = TORTURE_OK,      [TORTURE_BUSY] = TORTURE_REFUSED,
        [TORTURE_SILENT] = TORTURE_UNKNOWN,  [TORTURE_GONE] = TORTURE_REFUSED,
        [TORTURE_CHANGED] = TORTURE_REFUSED, [TORTURE_BROKEN] = TORTURE_UNKNOWN
    };
    bool acquires = record->verb == TORTURE_ACQUIRE || record->verb == TORTURE_TRY;

    if (answer == TORTURE_BROKEN && atomic_load(&client->seat->errors) == client->errors)
        torture_give_up(client, client->subject->complain(client->session));
    record->kind = kinds[answer];
    record->at_ns = torture_clock_ns();
    if (answer == TORTURE_BROKEN || answer == TORTURE_CHANGED)
        record->flags = answer == TORTURE_BROKEN ? TORTURE_FAILED : TORTURE_OTHER_KIND;
    if (acquires && record->flags)
        record->kind = TORTURE_REFUSED;
    else if (record->kind == TORTURE_UNKNOWN ||
             (record->kind == TORTURE_REFUSED && !is_settled(client, record)))
        record->until_ns = record->at_ns +
                           (is_soon_clean(client, record) ? CLEANED_UP_NS : FORGOTTEN_NS) +
                           client->plan->lease_ms * FORGOTTEN_LEASES * INT64_C(1000000);
    torture_write(client->writer, record);
}
