/* A client's life: it opens a session, fights for one thing after another, and gets one more grant
 * when the faults are over. */
#include "torture/workload.h"

#include "torture/nemesis.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What an answer that never came may leave in a store: until its lease is over, or the library has
 * taken it back. */
#define FORGOTTEN_NS INT64_C(30000000000)
#define FORGOTTEN_LEASES 4

struct torture_record torture_about(const struct torture_client *client, enum torture_verb verb,
                                    uint16_t lock)
{
    return (struct torture_record){ .client = client->number,
                                    .process = (uint32_t)getpid(),
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
    int64_t step_ns = INT64_C(1000000000) * client->plan->clients / client->plan->rate;

    client->next_at_ns += torture_between(&client->dice, step_ns / 2, step_ns * 3 / 2);
    record->operation = atomic_fetch_add(&client->arena->operations, 1) + 1;
    if (!record->hold)
        record->hold = record->operation;
    record->kind = TORTURE_INVOKE;
    record->at_ns = 0;
    torture_write(client->writer, record);
    return record->operation;
}

static _Noreturn void give_up(struct torture_client *client, const char *sentence)
{
    snprintf(client->seat->sentence, sizeof client->seat->sentence, "%s", sentence);
    atomic_store(&client->seat->broken, true);
    _exit(1);
}

void torture_end(struct torture_client *client, struct torture_record *record,
                 enum torture_answer answer)
{
    static const uint8_t kinds[] = { [TORTURE_GRANTED] = TORTURE_OK,
                                     [TORTURE_BUSY] = TORTURE_REFUSED,
                                     [TORTURE_SILENT] = TORTURE_UNKNOWN,
                                     [TORTURE_GONE] = TORTURE_REFUSED };

    bool settled = !client->subject->settled || client->subject->settled(client->session);

    if (answer == TORTURE_BROKEN)
        give_up(client, client->subject->complain(client->session));
    record->kind = kinds[answer];
    record->at_ns = torture_clock_ns();
    if (answer == TORTURE_SILENT || (record->kind == TORTURE_REFUSED && !settled))
        record->until_ns = record->at_ns + FORGOTTEN_NS +
                           client->plan->lease_ms * FORGOTTEN_LEASES * INT64_C(1000000);
    torture_write(client->writer, record);
}

/* ---- its life ---- */

static void begin(struct torture_client *client)
{
    struct torture_record record = torture_about(client, TORTURE_NO_VERB, 0);

    record.kind = TORTURE_CLIENT;
    torture_write(client->writer, &record);
    client->setup = (struct torture_setup){ .url = client->plan->url,
                                            .prefix = client->arena->prefix,
                                            .client = client->number,
                                            .lease_ms = client->plan->lease_ms,
                                            .point = torture_at_point,
                                            .point_arg = client,
                                            .memory = client->arena->memory,
                                            .memory_size = sizeof client->arena->memory };
    client->session = client->subject->open(&client->setup);
    if (!client->session)
        give_up(client, client->subject->complain(NULL));
}

static bool is_rough(const struct torture_client *client)
{
    return atomic_load(&client->arena->phase) == TORTURE_ROUGH;
}

static void fight(struct torture_client *client)
{
    bool latches = client->subject->forms & 1u << TORTURE_LATCH;
    unsigned locks = client->arena->lock_count;

    while (is_rough(client)) {
        /* Latches are no locks: a little of them will do. */
        bool wants_latch = latches && (locks == 0 || torture_chance(&client->dice, 15));
        bool used_latch = wants_latch && torture_use_latch(client);
        if (!used_latch && locks > 0)
            torture_use_lock(client, (uint16_t)torture_between(&client->dice, 0, locks - 1), false);
        torture_look_at_clock(client);
    }
}

/* Everybody gets one more grant. Who does not ends without, and the history shows it. */
static void have_the_last_turn(struct torture_client *client)
{
    uint16_t first = (uint16_t)(client->number % client->arena->lock_count);

    for (unsigned tries = 0; tries < 3; tries++)
        if (atomic_load(&client->arena->phase) == TORTURE_OVER ||
            torture_use_lock(client, first, true))
            return;
}

void torture_client_live(struct torture_client *client)
{
    torture_bend_clock(&client->seat->clock_ns);
    begin(client);
    fight(client);
    if (client->arena->lock_count > 0)
        have_the_last_turn(client);
    client->subject->close(client->session);
    _exit(0);
}
