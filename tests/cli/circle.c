/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that wait for each other without end: neither looks for circles. */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>

static hf_client *client;
static pthread_barrier_t both_hold;

static void *wait_for_other(void *arg)
{
    const char *const *names = arg;
    const hf_lock_options options = HF_LOCK_OPTIONS(.deadlock_ms = HF_FOREVER);
    hf_hold *own, *other;

    if (hf_lock(client, names[0], 0, &options, &own) != HF_OK)
        return NULL;
    pthread_barrier_wait(&both_hold);
    if (hf_lock(client, names[1], HF_FOREVER, &options, &other) == HF_OK)
        hf_unlock(other);
    return NULL;
}

int main(void)
{
    const char *names[] = { "a", "b", "a" };
    pthread_t threads[2];

    if (hf_open(&client, NULL, &HF_CLIENT_OPTIONS(.owner_text = "the test")) != HF_OK) {
        fprintf(stderr, "%s\n", hf_last_error()->text);
        return 1;
    }
    pthread_barrier_init(&both_hold, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, wait_for_other, &names[i]) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
