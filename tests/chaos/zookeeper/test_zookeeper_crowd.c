/* SPDX-License-Identifier: Apache-2.0 */
/* A crowd of sessions in line for one lock: each release wakes the next one, and nobody else. The
 * server counts what it is asked: who is woken asks, and who is not says nothing. */
#include "conformance.h"
#include "zookeeper_server.h"

#include <sys/epoll.h>
#include <unistd.h>

#define CROWD 100
#define TURN_MS 100
/* So long that the sessions say nothing of their own accord in the meantime. */
#define SESSION_MS 3600000
#define SETTINGS "tickTime=2000\nmaxSessionTimeout=4000000\n"

struct crowd {
    int poll;
    hf_client *clients[CROWD];
    unsigned came, waiting, granted[CROWD], grants;
    hf_hold *hold; /* of whoever has the lock */
};

static struct crowd crowd;

static void count_waiting(void *arg, const hf_event *event)
{
    (void)arg;
    crowd.waiting += event->type == HF_EVENT_WAITING;
}

static void count_grant(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    CHECK_STR(error ? error->text : "", "");
    CHECK_INT(code, HF_OK);
    CHECK(crowd.hold == NULL);
    crowd.hold = hold;
    crowd.granted[(hf_client **)arg - crowd.clients] = ++crowd.grants;
}

/* One thread turns the loops of all: who has nothing to hear is not turned. */
static bool turn_until(const unsigned *count, unsigned wanted)
{
    struct epoll_event events[CROWD];
    int64_t until_ms = monotonic_ms() + (int64_t)SOON_MS * test_slow();

    while (*count < wanted && monotonic_ms() < until_ms) {
        int ready = epoll_wait(crowd.poll, events, CROWD, TURN_MS);
        for (int i = 0; i < ready; i++)
            CHECK_CODE(hf_dispatch(events[i].data.ptr), HF_OK);
    }
    return *count == wanted;
}

static void come(const struct zookeeper_server *server)
{
    hf_client **client = &crowd.clients[crowd.came++];
    struct epoll_event event = { .events = EPOLLIN };

    CHECK_CODE(hf_open(client, zookeeper_url(server->port),
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = SESSION_MS,
                                          .on_event = count_waiting)),
               HF_OK);
    event.data.ptr = *client;
    CHECK(epoll_ctl(crowd.poll, EPOLL_CTL_ADD, hf_fd(*client), &event) == 0);
    CHECK_CODE(hf_lock_async(*client, "crowd", HF_FOREVER, NULL, count_grant, client, NULL), HF_OK);
    CHECK(crowd.came == 1 ? turn_until(&crowd.grants, 1)
                          : turn_until(&crowd.waiting, crowd.came - 1));
}

/* A question may be lost while the machine stands still. */
static long heard_by(const struct zookeeper_server *server)
{
    long heard = -1;

    EVENTUALLY((heard = zookeeper_heard(server)) >= 0, SOON_MS);
    return heard;
}

static void leave(void)
{
    hf_hold *hold = crowd.hold;

    crowd.hold = NULL;
    hf_unlock_nowait(hold);
}

TEST(each_release_wakes_one_of_a_crowd)
{
    struct zookeeper_server server = { .more = SETTINGS };

    zookeeper_start(&server);
    crowd.poll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CROWD; i++)
        come(&server);
    long before = heard_by(&server);
    for (unsigned i = 1; i < CROWD; i++) {
        leave();
        CHECK(turn_until(&crowd.grants, i + 1));
        CHECK_INT(crowd.granted[i], i + 1); /* in the order of their coming */
    }
    long heard = heard_by(&server) - before;
    test_note("%ld requests for %d releases", heard, CROWD - 1);
    /* A deletion and a list each. What is slow to answer is nudged now and then; if all were woken,
     * fifty would ask twice for each release. */
    CHECK(heard >= 2 * (CROWD - 1));
    CHECK(heard <= 20 * (CROWD - 1));
    leave();
    for (int i = 0; i < CROWD; i++)
        hf_close(crowd.clients[i]);
    close(crowd.poll);
    zookeeper_kill(&server);
}
