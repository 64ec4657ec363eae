/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject: its public header, as any program would use it. */
#include "worker.h"

#include <holdfast.h>
#include <string.h>

struct our_lock {
    struct lock lock;
    hf_client *client;
    hf_hold *hold;
};

/* One for the process, whatever the number of its threads. */
struct hf_client *ours_client(const struct subject *subject)
{
    static hf_client *client;
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    const char *asked = worker_options();
    char url[256];
    if (client)
        return client;
    options.driver = subject->drives_itself ? HF_DRIVE_CALLER : HF_DRIVE_THREAD;
    options.lease_ms = LEASE_MS;
    snprintf(url, sizeof url, "%s%s?timeout=30000%s%s",
             worker_address[0] == '/' ? "redis+unix://" : "redis://", worker_address,
             *asked ? "&" : "", asked);
    if (hf_open(&client, url, &options) != HF_OK)
        die("%s", hf_last_error()->text);
    return client;
}

static struct lock *open_ours(const struct subject *subject, const char *name)
{
    struct our_lock *lock = allocate(sizeof *lock);
    lock->lock.subject = subject;
    lock->client = ours_client(subject);
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    return &lock->lock;
}

static void lock_ours(struct lock *base)
{
    struct our_lock *lock = (struct our_lock *)base;
    if (hf_lock(lock->client, base->name, HF_FOREVER, NULL, &lock->hold) != HF_OK)
        die("%s", hf_last_error()->text);
}

static void unlock_ours(struct lock *base)
{
    struct our_lock *lock = (struct our_lock *)base;
    if (base->subject->waits_not)
        hf_unlock_nowait(lock->hold);
    else if (hf_unlock(lock->hold) != HF_OK)
        die("%s", hf_last_error()->text);
}

const struct subject threaded = { "thread", open_ours, lock_ours, unlock_ours };
const struct subject driven = { "self", open_ours, lock_ours, unlock_ours, .drives_itself = true };
const struct subject relaxed = { "nowait", open_ours, lock_ours, unlock_ours, .waits_not = true };
