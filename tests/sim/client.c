/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated clients: a real hf_client on a virtual clock, turned by events instead of a thread. */
#include "world.h"

#include "core/api/client.h"
#include "core/api/close.h"
#include "core/api/fork.h"
#include "core/table/lock_table.h"
#include "engine.h"

#include <stdlib.h>

/* ---- its clock ---- */

static int64_t clock_at(const struct sim_client *client, int64_t at_us)
{
    return client->clock_offset_ms + (at_us + at_us * client->clock_drift_ppm / 1000000) / 1000;
}

int64_t client_clock(const struct sim_client *client)
{
    return clock_at(client, world.now_us);
}

static int64_t read_clock(void *arg)
{
    return client_clock(arg);
}

/* The first moment at which this client's clock shows at_ms. */
static int64_t world_time(const struct sim_client *client, int64_t at_ms)
{
    int64_t own_us = (at_ms - client->clock_offset_ms) * 1000;
    int64_t at_us = own_us - own_us * client->clock_drift_ppm / 1000000 - 200;
    while (clock_at(client, at_us) < at_ms)
        at_us += 10;
    return at_us;
}

/* ---- its turns ---- */

static void turn_now(struct sim_client *client);

static void turn_event(void *subject, uint64_t detail)
{
    struct sim_client *client = subject;
    if (!client->client || detail != client->turn_number)
        return;
    client->turn_us = INT64_MAX;
    if (!client->paused)
        turn_now(client);
}

static void turn_at(struct sim_client *client, int64_t at_us)
{
    if (at_us >= client->turn_us)
        return;
    client->turn_us = at_us;
    world_at(at_us, turn_event, client, ++client->turn_number);
}

static void turn_now(struct sim_client *client)
{
    const struct sim_client *before = world.running;
    world.running = client;
    int64_t next_ms = hf__loop_turn(&client->client->loop);
    world.running = before;
    if (next_ms == HF_NEVER)
        return;
    int64_t at_us = world_time(client, next_ms);
    turn_at(client, at_us > world.now_us ? at_us : world.now_us);
}

/* The thread that turns the loop needs a moment to wake up. */
static void wake(void *arg)
{
    turn_at(arg, world.now_us + random_between(0, 300));
}

/* As with a real loop, what arrives is handled before the turn reads the clock anew. */
void client_receive(struct sim_client *client, const struct message *message)
{
    world.running = client;
    client->engine->receive(client->engine, message);
    turn_now(client);
}

/* ---- pauses ---- */

static void resume(void *subject, uint64_t detail)
{
    (void)detail;
    struct sim_client *client = subject;
    client->paused = false;
    client->resumed_us = world.now_us;
    if (!client->client)
        return;
    say("c%u goes on", client->index);
    world.running = client;
    while (client->inbox.count > 0) {
        struct message message = client->inbox.messages[client->inbox.first];
        client->inbox.first = (client->inbox.first + 1) % LINK_ROOM;
        client->inbox.count--;
        client->engine->receive(client->engine, &message);
    }
    turn_now(client);
}

void client_pause(struct sim_client *client, int64_t until_us)
{
    if (!client->client || client->paused)
        return;
    say("c%u is paused for %lld ms", client->index, (long long)((until_us - world.now_us) / 1000));
    client->paused = true;
    client->resumed_us = until_us;
    world_at(until_us, resume, client, 0);
}

/* ---- its beginning and its end ---- */

static void pump(struct hf_client *client)
{
    (void)client;
    world_step();
    if (world.now_us > world.end_us)
        violation("a blocking call does not come back");
}

static void take_event(void *arg, const hf_event *event)
{
    struct sim_client *client = arg;
    if (event->type == HF_EVENT_STORE_DOWN || event->type == HF_EVENT_STORE_UP) {
        bool down = event->type == HF_EVENT_STORE_DOWN;
        if (down == client->store_down || !world.faults.any)
            violation("c%u hears that %s, and knew", client->index, event->text);
        client->store_down = down;
    }
    if (event->type == HF_EVENT_LOST)
        say("c%u lost %s, token %llu: %s", client->index, event->name,
            (unsigned long long)event->token, event->text);
}

void client_open(struct sim_client *client, unsigned index)
{
    client->index = index;
    client->clock_offset_ms = random_between(1, 1000000);
    client->clock_drift_ppm = (int)random_between(-8000, 8000);
    client->turn_us = INT64_MAX;
    client->client =
        hf__client_new(&HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS, .owner_text = "simulated",
                                          .on_event = take_event, .event_arg = client));
    if (!client->client)
        violation("out of memory for a client");
    hf__loop_init(&client->client->loop, read_clock, wake, client);
    client->client->drive_kind = HF_DRIVE_KIND_TEST;
    client->client->test_pump = pump;
    client->client->request_timeout_ms = PATIENCE_MS;
    client->client->host.id[0] = index + 1;
    client->client->host.id[1] = world.seed;
    client->engine = world.store->open(client);
    hf__client_set_engine(client->client, &client->engine->base);
    if (hf__fork_register(client->client) != HF_OK)
        violation("the client cannot be registered");
}

void client_close(struct sim_client *client)
{
    if (!client->client)
        return;
    say("c%u closes", client->index);
    actors_drop(client);
    client->closing = client->blocked = world.blocking = true;
    hf_close(client->client);
    client->blocked = world.blocking = false;
    actors_free_grips(client);
    client->client = NULL;
    client->engine = NULL;
    world.store->disconnected(client->index);
    say("c%u is closed", client->index);
}

void client_crash(struct sim_client *client)
{
    say("c%u crashes", client->index);
    actors_drop(client);
    actors_free_grips(client);
    hf__fork_unregister(client->client);
    hf__client_free(client->client);
    free(client->engine);
    client->client = NULL;
    client->engine = NULL;
    world.store->disconnected(client->index);
}

static void count(struct hf_claim *claim, void *arg)
{
    (void)claim;
    ++*(unsigned *)arg;
}

static unsigned count_aside(const struct hf_shard *shard)
{
    const struct hf_link *lists[] = { &shard->aside, &shard->aside_lost, &shard->aside_ended };
    unsigned claims = 0;
    for (unsigned i = 0; i < 3; i++)
        for (const struct hf_link *link = lists[i]->next; link != lists[i]; link = link->next)
            claims++;
    return claims;
}

unsigned client_claims(struct sim_client *client)
{
    unsigned claims = 0;
    if (!client->client)
        return 0;
    hf__claims_visit(client->client, count, &claims);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        claims += count_aside(&client->client->shards[s]);
    return claims;
}
