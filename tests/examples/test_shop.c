/* SPDX-License-Identifier: Apache-2.0 */
/* The flash sale's shop under a holder that sleeps past the end of its lock. */
#include "../../examples/flash_sale/shop.h"
#include "test.h"

#include <holdfast.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#define LEASE_MS 100
/* No pause of the shop takes this long: it marks the one that a test controls. */
#define PAUSE_NS 123456789012

/* One sale in a thread of its own, which stops between reading and writing until it may go on. */
struct slow_sale {
    struct thread thread;
    struct shop shop;
    hf_client *client;
    uint64_t owner;
    sem_t thinking, go_on;
    enum sale answer;
    int unlocked;
};

static _Thread_local struct slow_sale *current;

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                           struct timespec *rest);

/* The link replaces the sleep of the shop (and of this test's library) by this one. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                           struct timespec *rest)
{
    if (current == NULL || wanted->tv_sec != PAUSE_NS / 1000000000)
        return __real_clock_nanosleep(clock, flags, wanted, rest);
    sem_post(&current->thinking);
    while (sem_wait(&current->go_on) != 0)
        ;
    return 0;
}

static void sell_slowly(void *arg)
{
    struct slow_sale *sale = arg;
    hf_lock_options options = { .size = sizeof(options),
                                .owner = sale->owner,
                                .lease_ms = LEASE_MS };
    hf_hold *hold;
    current = sale;
    CHECK_INT(hf_lock(sale->client, "stock", HF_FOREVER, &options, &hold), HF_OK);
    sale->answer = shop_sell(&sale->shop, (int)sale->owner, hf_token(hold));
    sale->unlocked = hf_unlock(hold);
}

static void begin(struct slow_sale *sale, hf_client *client, const struct shop *shop,
                  uint64_t owner)
{
    *sale = (struct slow_sale){ .shop = *shop, .client = client, .owner = owner };
    sale->shop.think_ns = PAUSE_NS;
    sem_init(&sale->thinking, 0, 0);
    sem_init(&sale->go_on, 0, 0);
    thread_start(&sale->thread, sell_slowly, sale);
    while (sem_wait(&sale->thinking) != 0)
        ;
}

static enum sale finish(struct slow_sale *sale)
{
    sem_post(&sale->go_on);
    thread_join(&sale->thread);
    sem_destroy(&sale->thinking);
    sem_destroy(&sale->go_on);
    return sale->answer;
}

__attribute__((constructor)) static void set_up(void)
{
    test_fds_kept = 2; /* libuv's, for signals */
}

static void open_all(hf_client **client, struct shop *shop)
{
    char url[512];
    snprintf(url, sizeof(url), "local://%s", temp_path("locks"));
    CHECK_INT(hf_open(client, url, NULL), HF_OK);
    *shop = (struct shop){ 0 };
    CHECK_INT(shop_open(shop, temp_dir(), 10), 0);
}

static void check_one_sale(struct shop *shop)
{
    struct books books;
    CHECK_INT(shop_audit(shop, 10, 10, &books), 0);
    CHECK_INT(books.orders, 1);
    CHECK_INT(books.stock, 9);
    CHECK_INT(books.lost_updates, 0);
    CHECK_INT(books.stale_tokens, 0);
}

TEST(shop_write_after_a_newer_sale_is_refused)
{
    struct slow_sale first, second;
    struct shop shop;
    hf_client *client;
    open_all(&client, &shop);
    begin(&first, client, &shop, 1);
    begin(&second, client, &shop, 2);
    CHECK_INT(finish(&second), SALE_SOLD);
    CHECK_INT(finish(&first), SALE_STALE);
    CHECK_INT(first.unlocked, HF_LOST);
    check_one_sale(&shop);
    shop_close(&shop);
    hf_close(client);
}

/* The second holder has read, and has written nothing yet: only its claim can stop the first. */
TEST(shop_write_after_a_newer_claim_is_refused)
{
    struct slow_sale first, second;
    struct shop shop;
    hf_client *client;
    open_all(&client, &shop);
    begin(&first, client, &shop, 1);
    begin(&second, client, &shop, 2);
    CHECK_INT(finish(&first), SALE_STALE);
    second.shop.think_ns = 0;
    CHECK_INT(finish(&second), SALE_SOLD);
    check_one_sale(&shop);
    shop_close(&shop);
    hf_close(client);
}

TEST(shop_claim_below_the_newest_is_refused)
{
    struct shop shop;
    hf_client *client;
    open_all(&client, &shop);
    CHECK_INT(shop_sell(&shop, 1, 7), SALE_SOLD);
    CHECK_INT(shop_sell(&shop, 2, 6), SALE_STALE);
    CHECK_INT(shop_sell(&shop, 3, 7), SALE_SOLD);
    shop_close(&shop);
    hf_close(client);
}
