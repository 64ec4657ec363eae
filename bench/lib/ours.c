/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject, by its public header, as any program uses it. */
#include "ours.h"

#include <holdfast.h>

struct our_lock {
    struct lock lock;
    hf_client *client;
    hf_hold *hold;
};

struct hf_client *ours_open(bool drives_itself, int64_t lease_ms)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client *client;
    options.driver = drives_itself ? HF_DRIVE_CALLER : HF_DRIVE_THREAD;
    options.lease_ms = lease_ms;
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

struct hf_client *ours_client(const struct subject *subject)
{
    static hf_client *client;
    if (!client)
        client = ours_open(subject->drives_itself, LEASE_MS);
    return client;
}

static struct lock *open_shared(const struct subject *subject, const char *name)
{
    return open_on(subject, name, ours_client(subject));
}

static struct lock *open_single(const struct subject *subject, const char *name)
{
    return open_on(subject, name, ours_open(subject->drives_itself, LEASE_MS));
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

const struct subject threaded = { "thread", open_shared, lock_ours, unlock_ours, false, false };
const struct subject driven = { "self", open_shared, lock_ours, unlock_ours, true, false };
const struct subject relaxed = { "nowait", open_shared, lock_ours, unlock_ours, false, true };
const struct subject single = { "single", open_single, lock_ours, unlock_ours, false, false };
const struct subject lone = { "lone", open_single, lock_ours, unlock_ours, true, false };
