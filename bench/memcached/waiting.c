/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to wait: clients poll for a lock that stays held. */
#include "worker.h"

#include <holdfast.h>
#include <pthread.h>

enum { WAITERS_MAX = 64 };

struct waiter {
    pthread_t thread;
    hf_client *client;
    int64_t ms;
};

static hf_client *open_client(void)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client *client;
    options.lease_ms = LEASE_MS;
    if (hf_open(&client, worker_url, &options) != HF_OK)
        die("%s", hf_last_error()->text);
    return client;
}

static void *wait_in_vain(void *arg)
{
    const struct waiter *waiter = arg;
    hf_hold *none = NULL;
    int code = hf_lock(waiter->client, "lock:waiting", waiter->ms, NULL, &none);
    /* On a busy machine the wait may end before the reply to the last poll comes. */
    if (code != HF_BUSY && code != HF_UNREACHABLE)
        die("a wait for a lock that is held ended with %s", hf_code_name(code));
    return NULL;
}

void measure_waiting(unsigned waiters, int64_t ms)
{
    static hf_client *holder, *clients[WAITERS_MAX];
    hf_hold *hold;
    struct waiter all[WAITERS_MAX];
    if (waiters == 0 || waiters > WAITERS_MAX)
        die("up to %d waiters", WAITERS_MAX);
    holder = holder ? holder : open_client();
    if (hf_lock(holder, "lock:waiting", HF_FOREVER, NULL, &hold) != HF_OK)
        die("%s", hf_last_error()->text);
    for (unsigned i = 0; i < waiters; i++) {
        clients[i] = clients[i] ? clients[i] : open_client();
        all[i] = (struct waiter){ .client = clients[i], .ms = ms };
        if (pthread_create(&all[i].thread, NULL, wait_in_vain, &all[i]) != 0)
            die("no more threads can be started: see ulimit -u");
    }
    for (unsigned i = 0; i < waiters; i++)
        pthread_join(all[i].thread, NULL);
    if (hf_unlock(hold) != HF_OK)
        die("%s", hf_last_error()->text);
    printf("waiters=%u ms=%lld", waiters, (long long)ms);
}
