/* SPDX-License-Identifier: Apache-2.0 */
/* Very many sessions in one process, each in line for one lock, which goes from each to the next.
 * One thread turns all their loops. */
#include "worker.h"

#include <holdfast.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Sessions of which none ends, or says much, while the others come. */
enum { CROWD_MAX = 8192, EVENTS = 256, TURN_MS = 100, CROWD_LEASE_MS = 3600000 };
static const char name[] = "lock:crowd";

static struct {
    int poll;
    hf_client *clients[CROWD_MAX];
    unsigned count, waiting, granted;
    hf_hold *hold;
} crowd;

static void note(void *arg, const hf_event *event)
{
    (void)arg;
    crowd.waiting += event->type == HF_EVENT_WAITING;
}

static void granted(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg;
    if (code != HF_OK)
        die("%s", error->text);
    crowd.hold = hold;
    crowd.granted++;
}

static void turn(void)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(crowd.poll, events, EVENTS, TURN_MS);
    for (int i = 0; i < count; i++)
        hf_dispatch(events[i].data.ptr);
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        die("/proc/self/statm cannot be read");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void join(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client *client;
    char url[256];
    options.driver = HF_DRIVE_CALLER;
    options.lease_ms = CROWD_LEASE_MS;
    options.on_event = note;
    snprintf(url, sizeof url, "zk://%s/bench?timeout=60000", worker_address);
    if (hf_open(&client, url, &options) != HF_OK)
        die("%s", hf_last_error()->text);
    event.data.ptr = client;
    crowd.clients[crowd.count++] = client;
    if (epoll_ctl(crowd.poll, EPOLL_CTL_ADD, hf_fd(client), &event) != 0)
        die("no more descriptors: see ulimit -n");
    if (hf_lock_async(client, name, HF_FOREVER, NULL, granted, client, NULL) != HF_OK)
        die("%s", hf_last_error()->text);
    /* One after the other: a server has room for few connections that it has not seen yet. */
    while (crowd.granted + crowd.waiting < crowd.count)
        turn();
}

void measure_waiters(unsigned count)
{
    if (count >= CROWD_MAX)
        die("up to %d waiters", CROWD_MAX - 1);
    crowd.poll = epoll_create1(EPOLL_CLOEXEC);
    join();
    long before = resident_bytes();
    int64_t began_ns = now_ns();
    for (unsigned i = 0; i < count; i++)
        join();
    printf("waiting=%u bytes_each=%ld join_ns=%lld", crowd.waiting,
           (resident_bytes() - before) / (long)count,
           (long long)((now_ns() - began_ns) / (int64_t)count));
}

void measure_releases(unsigned count)
{
    int64_t *samples = allocate(count * sizeof *samples);
    unsigned before = crowd.granted, most = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned at = crowd.granted;
        int64_t began_ns = now_ns();
        hf_unlock_nowait(crowd.hold);
        while (crowd.granted == at)
            turn();
        samples[i] = now_ns() - began_ns;
        most = crowd.granted - at > most ? crowd.granted - at : most;
    }
    print_times(samples, count);
    printf(" woken=%u most=%u", crowd.granted - before, most);
    free(samples);
}

/* ---- waiters of one client ---- */

static void never(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)code, (void)hold, (void)error;
}

void measure_local_waiters(unsigned count)
{
    hf_client *client = ours_open(false, CROWD_LEASE_MS);
    hf_hold *hold;
    if (hf_lock(client, "lock:local", HF_FOREVER, NULL, &hold) != HF_OK)
        die("%s", hf_last_error()->text);
    long before = resident_bytes();
    for (unsigned i = 0; i < count; i++)
        if (hf_lock_async(client, "lock:local", HF_FOREVER, NULL, never, NULL, NULL) != HF_OK)
            die("%s", hf_last_error()->text);
    printf("bytes_each=%ld", (resident_bytes() - before) / (long)count);
}
