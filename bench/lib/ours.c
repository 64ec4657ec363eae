/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject, by its public header, as any program uses it. */
#include "ours.h"

#include <holdfast.h>

struct our_lock {
    struct lock lock;
    hf_client *client;
    hf_hold *hold;
};

static hf_client *open_client(bool drives_itself)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client *client;
    options.driver = drives_itself ? HF_DRIVE_CALLER : HF_DRIVE_THREAD;
    options.lease_ms = LEASE_MS;
    if (hf_open(&client, worker_url, &options) != HF_OK)
        die("%s", hf_last_error()->text);
    return client;
}

static struct lock *open_on(const struct subject *subject, const char *name, hf_client *client)
{
    struct our_lock *lock = allocate(sizeof *lock);
    lock->lock.subject = subject;
    lock->client = client;
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    return &lock->lock;
}

static struct lock *open_shared(const struct subject *subject, const char *name)
{
    static hf_client *client;
    if (!client)
        client = open_client(subject->drives_itself);
    return open_on(subject, name, client);
}

static struct lock *open_single(const struct subject *subject, const char *name)
{
    return open_on(subject, name, open_client(false));
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
    if (hf_unlock(lock->hold) != HF_OK)
        die("%s", hf_last_error()->text);
}

const struct subject threaded = { "thread", open_shared, lock_ours, unlock_ours, false, false };
const struct subject driven = { "self", open_shared, lock_ours, unlock_ours, true, false };
const struct subject single = { "single", open_single, lock_ours, unlock_ours, false, false };
