/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): the child's copies answer HF_EFORKED, and neither hold nor release what is the parent's.
 */
#include "conformance.h"

#include "base/testing.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What OpenSSL keeps for each thread, nobody finds in a child that has only one of them. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcrypto.so\n";
}

struct family {
    hf_client *client;
    hf_hold *hold;
    hf_driver driver;
    struct barrier everybody;
};

static void ignore_outcome(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg;
    (void)code;
    (void)hold;
    (void)error;
    FAIL("a callback ran in the child");
}

static void ignore_set(void *arg, int code, hf_hold_set *set, const hf_error *error)
{
    (void)set;
    ignore_outcome(arg, code, NULL, error);
}

static bool ignore_entry(void *arg, const hf_entry *entry)
{
    (void)arg;
    (void)entry;
    FAIL("an entry was shown in the child");
    return false;
}

static void use_everything(void *arg)
{
    struct family *family = arg;
    hf_client *client = family->client;
    uint32_t value;
    hf_hold *hold = NULL;

    CHECK(!hf_held(family->hold));
    CHECK_ERROR(hf_lock(client, name_of("two"), 0, NULL, &hold), HF_EFORKED);
    CHECK(hold == NULL);
    CHECK_ERROR(hf_lock(client, name_of("one"), HF_FOREVER, NULL, &hold), HF_EFORKED);
    CHECK_ERROR(hf_lock_async(client, name_of("two"), 0, NULL, ignore_outcome, NULL, NULL),
                HF_EFORKED);
    CHECK_ERROR(hf_lock_start(client, name_of("one"), 0, NULL, ignore_outcome, NULL, NULL, &hold),
                HF_EFORKED);
    CHECK_ERROR(hf_counter_get_async(client, name_of("count"), &value, ignore_outcome, NULL),
                HF_EFORKED);
    CHECK_ERROR(hf_latch_wait_async(client, name_of("latch"), 0, ignore_outcome, NULL, NULL),
                HF_EFORKED);
    CHECK_ERROR(hf_inspect_async(client, NULL, ignore_entry, ignore_outcome, NULL), HF_EFORKED);
    CHECK_ERROR(hf_upgrade_async(family->hold, 0, NULL, ignore_outcome, NULL, NULL), HF_EFORKED);
    CHECK_ERROR(hf_lock_all_async(&(hf_lock_item){ .client = client, .name = "x" }, 1, 0, NULL,
                                  ignore_set, NULL),
                HF_EFORKED);
    CHECK_ERROR(hf_semaphore_set(client, name_of("sem"), 1), HF_EFORKED);
    CHECK_ERROR(hf_counter_add(client, name_of("count"), 1), HF_EFORKED);
    CHECK_ERROR(hf_latch_get(client, name_of("latch"), &value), HF_EFORKED);
    CHECK_ERROR(hf_break(client, name_of("one"), NULL, &value), HF_EFORKED);
    CHECK_ERROR(hf_attach(client, name_of("one"), "key", &hold), HF_EFORKED);
    CHECK_ERROR(hf_renew(family->hold, 1000), HF_EFORKED);
    CHECK_ERROR(hf_downgrade(family->hold, HF_READ), HF_EFORKED);
    if (family->driver == HF_DRIVE_CALLER)
        CHECK_ERROR(hf_dispatch(client), HF_EFORKED);
    CHECK_ERROR(hf_examine(client, NULL, NULL, NULL), HF_EFORKED);
    CHECK(strlen(hf_url(client)) > 0);
    CHECK_ERROR(hf_stats_get(client, &(hf_stats){ .size = sizeof(hf_stats) }), HF_EFORKED);
    CHECK(hf_stats_text(client) == NULL);
    CHECK_ERROR(hf_unlock_async(family->hold, ignore_outcome, NULL), HF_EFORKED);
    CHECK_ERROR(hf_unlock(family->hold), HF_EFORKED);
    hf_close(client);
}

static void check_child(hf_driver driver)
{
    struct family family = { .client = open_client_with((hf_client_options){ .driver = driver }),
                             .driver = driver };
    hf_client *other = open_client();
    struct child child;

    family.hold = take(family.client, name_of("one"), HF_MUTEX, 0);
    for (int i = 0; i < 3; i++) {
        child_start(&child, use_everything, &family);
        child_join(&child);
        CHECK(hf_held(family.hold));
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    }
    give_back(family.hold);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    give_back(take(family.client, name_of("two"), HF_MUTEX, 0));
    hf_close(family.client);
    hf_close(other);
}

TEST(the_child_is_told_so)
{
    check_child(HF_DRIVE_THREAD);
}

TEST(the_child_of_a_client_without_thread_is_told_so)
{
    check_child(HF_DRIVE_CALLER);
}

static void exit_normally(void *arg)
{
    (void)arg;
    exit(0);
}

static void close_only(void *arg)
{
    hf_close(((struct family *)arg)->client);
}

static void unlock_only(void *arg)
{
    hf_unlock_nowait(((struct family *)arg)->hold);
}

TEST(whatever_the_child_does_is_harmless)
{
    void (*const deeds[])(void *) = { exit_normally, close_only, unlock_only };
    struct family family = { .client = open_client() };
    hf_client *other = open_client();

    family.hold = take(family.client, name_of("one"), HF_MUTEX, 0);
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        struct child child;
        child_start(&child, deeds[i], &family);
        child_join(&child);
        CHECK(hf_held(family.hold));
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    }
    give_back(family.hold);
    hf_close(family.client);
    hf_close(other);
}

static void open_anew(void *arg)
{
    struct family *family = arg;
    hf_client *client = open_client();
    hf_hold *hold;

    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    /* Another child may be at it at the same time. */
    CHECK_CODE(hf_lock(client, name_of("two"), SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    hf_close(family->client);
    client = open_client();
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    hf_close(client);
}

TEST(the_child_opens_a_client_of_its_own)
{
    struct family family = { .client = open_client() };
    struct child child;

    family.hold = take(family.client, name_of("one"), HF_MUTEX, 0);
    child_start(&child, open_anew, &family);
    child_join(&child);
    CHECK(hf_held(family.hold));
    give_back(family.hold);
    hf_close(family.client);
}

static void live_on(void *arg)
{
    (void)arg;
    prctl(PR_SET_PDEATHSIG, 0);
    parent_say("%d", (int)getpid());
    for (;;)
        pause();
}

static void hold_and_fork(void *arg)
{
    struct child grandchild;
    char line[40];
    hf_client *client = open_client();

    (void)arg;
    take(client, name_of("one"), HF_MUTEX, 0);
    child_start(&grandchild, live_on, NULL);
    CHECK(child_hear(&grandchild, line, sizeof(line)));
    parent_say("%s", line);
    parent_wait_for("die");
}

TEST(a_dead_parents_locks_are_free_though_its_child_lives)
{
    struct child parent;
    char line[40];
    hf_hold *hold;

    store_url();
    if (!store_is_local())
        SKIP("dying takes a lease to show on this store");
    child_start(&parent, hold_and_fork, NULL);
    CHECK(child_hear(&parent, line, sizeof(line)));
    hf_client *client = open_client();
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    child_kill(&parent);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    pid_t grandchild = (pid_t)strtol(line, NULL, 10);
    CHECK_INT(kill(grandchild, 0), 0);
    kill(grandchild, SIGKILL);
    give_back(hold);
    hf_close(client);
}

/* A thread that begins or ends may be inside the allocator: under the address sanitizer no child
 * survives a fork() at that time. So they begin together, and end together. */
static void fork_all_the_time(void *arg, int index)
{
    struct family *family = arg;

    barrier_wait(&family->everybody);
    for (int i = 0; i < 20; i++) {
        struct child child;
        child_start(&child, index % 2 ? open_anew : close_only, arg);
        child_join(&child);
    }
    barrier_wait(&family->everybody);
}

TEST(forking_while_others_lock)
{
    struct family family = { .client = open_client() };

    need_forks_at_any_time();
    TEST_TIMEOUT(120);
    family.hold = take(family.client, name_of("one"), HF_MUTEX, 0);
    barrier_init(&family.everybody, 4);
    threads_run(4, fork_all_the_time, &family);
    CHECK(hf_held(family.hold));
    give_back(family.hold);
    hf_close(family.client);
}

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    struct tcp_info info;
    struct pollfd polled = { .fd = fd, .events = POLLRDHUP };
    socklen_t size = sizeof peer, info_size = sizeof info;

    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0)
        return false;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0)
        return info.tcpi_state == TCP_ESTABLISHED;
    return poll(&polled, 1, 0) == 0;
}

static int connections(void)
{
    int count = 0;
    struct dirent *entry;
    DIR *all = opendir("/proc/self/fd");
    CHECK(all != NULL);
    while ((entry = readdir(all)) != NULL)
        count += entry->d_name[0] != '.' && is_connected((int)strtol(entry->d_name, NULL, 10));
    closedir(all);
    return count;
}

static struct child heir;
static int inherited;

static void wait_for_the_end_of_connections(void *arg)
{
    (void)arg;
    parent_say("%d", connections());
    parent_wait_for("closed");
    EVENTUALLY(connections() == 0, SOON_MS);
}

static void fork_before_the_engine_closes(const char *point)
{
    char line[40];

    if (strcmp(point, "core:closing") != 0)
        return;
    hf__point_hook = NULL;
    child_start(&heir, wait_for_the_end_of_connections, NULL);
    CHECK(child_hear(&heir, line, sizeof(line)));
    inherited = (int)strtol(line, NULL, 10);
}

/* To a server, a connection that a child has open is a client that lives and listens. */
TEST(fork_during_close_leaves_no_connection_open)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });

    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    hf__point_hook = fork_before_the_engine_closes;
    hf_close(client);
    CHECK(hf__point_hook == NULL);
    if (!store_is_local())
        CHECK(inherited > 0);
    child_say(&heir, "closed");
    child_join(&heir);
}
