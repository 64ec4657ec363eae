/* SPDX-License-Identifier: Apache-2.0 */
/* One session of a client, its connection, and all that rests on it: opening and closing. */
#include "engines/zookeeper/doctor/doctor.h"
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/semaphore/semaphore.h"
#include "engines/zookeeper/show/children_snapshot.h"
#include "engines/zookeeper/wire/connection.h"

/* The requests first: they count their places and their sessions. */
static void connection_closed(struct zookeeper *zk)
{
    struct zk_client *client = zk->client;
    struct hf_link *link;
    hf__zk_connection_end(zk);
    hf__zk_snapshots_close(zk);
    hf__zk_examiners_close(zk);
    hf__zk_totals_close(zk);
    hf__zk_latches_close(zk);
    free(zk->absent);
    while ((link = hf__list_first(&zk->places))) {
        struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, link);
        if (place->left_behind)
            hf__zk_queue_node_drop(place);
        else
            hf__zk_queue_node_leave(place);
    }
    if (zk->session)
        hf__zk_session_drop(zk->session);
    if (zk->ending)
        hf__zk_session_drop(zk->ending);
    hf__link_remove(&zk->link);
    free(zk);
    hf__zk_has_closed(client);
}

static void session_over(struct zookeeper *zk, struct zk_session *session)
{
    hf__zk_session_over(zk, session);
    hf__zk_queue_nodes_over(zk, session);
}

static const struct zk_traffic traffic = {
    .wanted = hf__zk_session_wanted,
    .welcomed = hf__zk_session_welcomed,
    .ready = hf__zk_watch_again,
    .confirmed = hf__zk_session_confirm,
    .look = hf__zk_session_look,
    .happened = hf__zk_watch_event,
    .over = session_over,
    .closed = connection_closed,
};

void hf__zk_open(struct zookeeper *zk)
{
    hf__link_init(&zk->places);
    hf__link_init(&zk->leased);
    hf__link_init(&zk->paths);
    hf__link_init(&zk->totals);
    hf__link_init(&zk->countings);
    hf__link_init(&zk->surveys);
    hf__link_init(&zk->examiners);
    hf__timer_init(&zk->retire, hf__zk_session_retire_fired);
    hf__zk_connection_open(zk, &traffic);
    hf__zk_watch_open(zk);
}

void hf__zk_close(struct zookeeper *zk)
{
    hf__zk_queue_nodes_close(zk);
    hf__zk_watch_close(zk);
    hf__zk_latches_still(zk);
    hf__zk_connection_close(zk);
    hf__timer_stop(hf__zk_loop(zk), &zk->retire);
}
