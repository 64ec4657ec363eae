/* SPDX-License-Identifier: Apache-2.0 */
/* Exclusion is a sum: each hold has a weight, and the weights of those that believe in their hold
 * at the same moment must not exceed what the name can carry. */
#include "account.h"

#include <stdio.h>

/* Readers share, and one of them may have the right to upgrade. A writer is alone. */
enum { RW_CAPACITY = 1000, READ_WEIGHT = 1, UPGRADE_WEIGHT = 501 };

static unsigned weigh(hf_mode mode, uint32_t permits)
{
    if (mode == HF_WRITE)
        return RW_CAPACITY;
    if (mode == HF_UPGRADE)
        return UPGRADE_WEIGHT;
    return mode == HF_READ ? READ_WEIGHT : permits;
}

static unsigned capacity_of(hf_mode mode)
{
    if (mode == HF_PERMIT)
        return ACCOUNT_LIMIT;
    return mode == HF_MUTEX || mode == HF_FAIR ? 1 : RW_CAPACITY;
}

static bool is_exclusive(hf_mode mode)
{
    return mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE;
}

void account_open(struct account *account, const hf_client *client, const char *stem)
{
    memset(account, 0, sizeof(*account));
    snprintf(account->name, sizeof(account->name), "%s", name_of(stem));
    account->fenced = hf_caps(client) & HF_CAP_TOKEN;
    pthread_mutex_init(&account->mutex, NULL);
}

static void check_sum(const struct account *account, hf_mode mode)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < account->count; i++)
        if (hf_held(account->entries[i].hold))
            sum += account->entries[i].weight;
    if (sum > capacity_of(mode))
        FAIL("\"%s\": %u holds at once, weight %u of %u", account->name, account->count, sum,
             capacity_of(mode));
}

static void check_token(struct account *account, const hf_hold *hold, hf_mode mode)
{
    if (!account->fenced || !is_exclusive(mode) || !hf_held(hold))
        return;
    if (hf_token(hold) <= account->last_token)
        FAIL("\"%s\": token %llu after %llu", account->name, (unsigned long long)hf_token(hold),
             (unsigned long long)account->last_token);
    account->last_token = hf_token(hold);
}

static struct account_entry *find_entry(struct account *account, const hf_hold *hold)
{
    for (unsigned i = 0; i < account->count; i++)
        if (account->entries[i].hold == hold)
            return &account->entries[i];
    FAIL("a hold that never entered");
}

void account_enter(struct account *account, hf_hold *hold, hf_mode mode, uint32_t permits)
{
    pthread_mutex_lock(&account->mutex);
    CHECK(account->count < sizeof(account->entries) / sizeof(account->entries[0]));
    account->entries[account->count++] = (struct account_entry){ hold, weigh(mode, permits) };
    check_sum(account, mode);
    check_token(account, hold, mode);
    account->grants++;
    pthread_mutex_unlock(&account->mutex);
}

void account_change(struct account *account, hf_hold *hold, hf_mode mode)
{
    pthread_mutex_lock(&account->mutex);
    bool rises = weigh(mode, 1) > find_entry(account, hold)->weight;
    find_entry(account, hold)->weight = weigh(mode, 1);
    check_sum(account, mode);
    if (rises)
        check_token(account, hold, mode);
    pthread_mutex_unlock(&account->mutex);
}

void account_leave(struct account *account, const hf_hold *hold)
{
    pthread_mutex_lock(&account->mutex);
    check_sum(account, hf_hold_mode(hold));
    *find_entry(account, hold) = account->entries[account->count - 1];
    account->count--;
    pthread_mutex_unlock(&account->mutex);
}
