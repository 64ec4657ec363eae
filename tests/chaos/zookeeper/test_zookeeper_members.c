/* SPDX-License-Identifier: Apache-2.0 */
/* A client's further sessions in the process that has them: a child keeps none of the connections,
 * and where there is no memory for one, nothing stays. Here each lock has a session of its own. */
#include "conformance.h"
#include "zookeeper_server.h"

#include "base/testing.h"
#include "engines/zookeeper/zookeeper.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* So long that nothing here waits for its end. */
#define LONG_MS 40000
/* "/chaos/lock-0" and a node's name below it. */
#define WEIGHT (13u + 64u)
#define LOCKS 3

static struct {
    struct zookeeper_server server;
    hf_client *other;
} scene;

static hf_client *open_one(hf_driver driver)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, zookeeper_url(scene.server.port),
                       &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS, .driver = driver)),
               HF_OK);
    return client;
}

static const char *lock_name(int number)
{
    static _Thread_local char name[16];

    snprintf(name, sizeof(name), "lock-%d", number);
    return name;
}

static void begin_scene(void)
{
    zookeeper_start(&scene.server);
    hf__zk_bounds = (struct zk_bounds){ .paths = WEIGHT, .sessions = 16, .idle_ms = LONG_MS };
}

static void end_scene(void)
{
    EVENTUALLY(zookeeper_connections(&scene.server) == 0, SOON_MS);
    zookeeper_kill(&scene.server);
}

static int connections_of_this_process(void)
{
    int count = 0;
    const int most = (int)sysconf(_SC_OPEN_MAX);

    for (int fd = 0; fd < most && fd < 4096; fd++) {
        struct sockaddr_in peer = { 0 };
        socklen_t size = sizeof(peer);
        count += getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
                 peer.sin_family == AF_INET && ntohs(peer.sin_port) == scene.server.port;
    }
    return count;
}

static void have_no_connection(void *arg)
{
    (void)arg;
    CHECK_INT(connections_of_this_process(), 0);
}

/* Else they would outlive the parent, and its sessions' servers would not see it end. */
TEST(a_child_keeps_none_of_the_connections)
{
    struct child child;
    hf_hold *holds[LOCKS];
    begin_scene();
    /* A thread that is at work just then is not what this is about. */
    hf_client *client = open_one(HF_DRIVE_CALLER);
    for (int i = 0; i < LOCKS; i++)
        holds[i] = take(client, lock_name(i), HF_MUTEX, 0);
    EVENTUALLY(connections_of_this_process() == LOCKS, SOON_MS);
    child_start(&child, have_no_connection, NULL);
    child_join(&child);
    for (int i = 0; i < LOCKS; i++)
        give_back(holds[i]);
    hf_close(client);
    end_scene();
}

static _Atomic int allocations, fail_at;

static bool count_allocation(size_t size)
{
    (void)size;
    return ++allocations != fail_at;
}

static void went_well(int code)
{
    CHECK(code == HF_OK || code == HF_ENOMEM || code == HF_UNREACHABLE);
}

/* True: there was such an allocation while a second session was opened, used and left. */
static bool fail_allocation(int number)
{
    hf_client *client = open_one(HF_DRIVE_THREAD);
    hf_hold *first = take(client, lock_name(0), HF_MUTEX, 0), *hold = NULL;

    allocations = 0;
    fail_at = number;
    int code = hf_lock(client, lock_name(1), SOON_MS, NULL, &hold);
    went_well(code);
    if (code == HF_OK)
        went_well(hf_unlock(hold));
    fail_at = 0;
    EVENTUALLY(holders(scene.other, lock_name(1)) == 0, SOON_MS);
    give_back(first);
    hf_close(client);
    return allocations >= number;
}

/* The address sanitizer looks at what is left in the memory. */
TEST(no_memory_for_a_further_session_leaves_nothing)
{
    int number = 1;
    hf__alloc_hook = count_allocation;
    begin_scene();
    scene.other = open_one(HF_DRIVE_THREAD);
    while (fail_allocation(number))
        number++;
    CHECK(number > 5);
    test_note("%d allocations failed, one by one", number - 1);
    hf_close(scene.other);
    end_scene();
}
