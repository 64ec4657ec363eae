/* SPDX-License-Identifier: Apache-2.0 */
/* The list of the calls of this process in which a thread waits. */
#include "core/table/blocked.h"

struct hf_blocked_stripe hf__blocked_stripes[HF_BLOCKED_STRIPES];

static void open_stripes(void)
{
    for (unsigned i = 0; i < HF_BLOCKED_STRIPES; i++) {
        pthread_mutex_init(&hf__blocked_stripes[i].mutex, NULL);
        hf__link_init(&hf__blocked_stripes[i].calls);
    }
}

void hf__blocked_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_stripes);
}

void hf__blocked_lock_all(void)
{
    for (unsigned i = 0; i < HF_BLOCKED_STRIPES; i++)
        pthread_mutex_lock(&hf__blocked_stripes[i].mutex);
}

void hf__blocked_unlock_all(void)
{
    for (unsigned i = HF_BLOCKED_STRIPES; i-- > 0;)
        pthread_mutex_unlock(&hf__blocked_stripes[i].mutex);
}

/* The calls were the parent's. The one that has forked, if it was in one, is still going to take
 * its link out. */
void hf__blocked_forked(void)
{
    for (unsigned i = 0; i < HF_BLOCKED_STRIPES; i++) {
        struct hf_blocked_stripe *stripe = &hf__blocked_stripes[i];
        HF_LIST_FOREACH (link, following, &stripe->calls)
            hf__link_init(link);
        hf__link_init(&stripe->calls);
    }
    hf__blocked_unlock_all();
}
