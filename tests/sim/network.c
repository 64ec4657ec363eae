/* SPDX-License-Identifier: Apache-2.0 */
/* The network: each client has a connection whose messages never overtake each other, but get lost,
 * come twice, or meet a cut. */
#include "world.h"

static void push(struct link *link, const struct message *message)
{
    if (link->count == LINK_ROOM)
        violation("a connection has %u messages under way: somebody asks without end", LINK_ROOM);
    link->messages[(link->first + link->count++) % LINK_ROOM] = *message;
}

static struct message pop(struct link *link)
{
    struct message message = link->messages[link->first];
    link->first = (link->first + 1) % LINK_ROOM;
    link->count--;
    return message;
}

static void arrive_at_store(void *subject, uint64_t detail)
{
    (void)detail;
    struct sim_client *client = subject;
    struct message message = pop(&client->to_store);
    if (world.now_us >= client->stopped_until_us)
        world.store->receive(&message);
}

static void arrive_at_client(void *subject, uint64_t detail)
{
    (void)detail;
    struct sim_client *client = subject;
    struct message message = pop(&client->to_client);
    if (!client->client || world.now_us < client->stopped_until_us)
        return;
    if (client->paused)
        push(&client->inbox, &message);
    else
        client_receive(client, &message);
}

static void send(struct sim_client *client, struct link *link, const struct message *message,
                 void (*arrive)(void *, uint64_t))
{
    world.totals.messages++;
    if (world.now_us < link->cut_until_us || world.now_us < client->stopped_until_us ||
        chance(world.faults.loss_permille)) {
        world.totals.dropped++;
        return;
    }
    int64_t delay_us = random_between(200, 4000);
    if (world.faults.any && chance(20))
        delay_us += random_between(5000, 60000);
    for (int copies = chance(world.faults.double_permille) ? 2 : 1; copies > 0; copies--) {
        int64_t at_us = world.now_us + delay_us;
        if (at_us < link->last_us)
            at_us = link->last_us;
        link->last_us = at_us;
        push(link, message);
        world_at(at_us, arrive, client, 0);
    }
}

void network_send_to_store(struct sim_client *client, const struct message *message)
{
    send(client, &client->to_store, message, arrive_at_store);
}

void network_send_to_client(unsigned client, const struct message *message)
{
    struct sim_client *receiver = &world.clients[client];
    send(receiver, &receiver->to_client, message, arrive_at_client);
}

/* One way in three, the other way in three, both ways in three. */
void network_cut(struct sim_client *client, int64_t until_us)
{
    uint64_t which = random_below(3);
    if (which != 0)
        client->to_store.cut_until_us = until_us;
    if (which != 1)
        client->to_client.cut_until_us = until_us;
    say("c%u is cut off%s for %lld ms", client->index,
        which == 0   ? " from answers"
        : which == 1 ? " from asking"
                     : "",
        (long long)((until_us - world.now_us) / 1000));
}

void network_stop(struct sim_client *client, int64_t until_us)
{
    client->stopped_until_us = until_us;
}
