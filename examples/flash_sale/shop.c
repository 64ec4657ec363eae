/* SPDX-License-Identifier: Apache-2.0 */
/* The shop: claim the files, read them, think a moment, write them back if no newer holder came. */
#include "shop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* Every record is one line of a fixed length, so that a write replaces it whole. */
#define STOCK_LINE 12
#define ORDER_LINE 32
#define FENCE_LINE 21

struct order {
    int buyer;
    uint64_t token;
};

static int open_new(const struct shop *shop, const char *name, int flags)
{
    return openat(shop->directory, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);
}

static int write_stock(const struct shop *shop, int stock)
{
    char line[STOCK_LINE + 1];
    snprintf(line, sizeof(line), "%11d\n", stock);
    return pwrite(shop->stock, line, STOCK_LINE, 0) == STOCK_LINE ? 0 : -1;
}

static int read_stock(const struct shop *shop, int *ret)
{
    char line[STOCK_LINE + 1] = { 0 };
    if (pread(shop->stock, line, STOCK_LINE, 0) != STOCK_LINE)
        return -1;
    *ret = (int)strtol(line, NULL, 10);
    return 0;
}

static int append_order(const struct shop *shop, int buyer, uint64_t token)
{
    char line[ORDER_LINE + 1];
    snprintf(line, sizeof(line), "%10d %20" PRIu64 "\n", buyer, token);
    return write(shop->orders, line, ORDER_LINE) == ORDER_LINE ? 0 : -1;
}

/* 1: `ret` is order number `at`; 0: there is none yet; -1: the file cannot be read. */
static int read_order(const struct shop *shop, int at, struct order *ret)
{
    char line[ORDER_LINE + 1] = { 0 };
    char *rest;
    ssize_t length = pread(shop->orders, line, ORDER_LINE, (off_t)at * ORDER_LINE);
    if (length < 0)
        return -1;
    if (length < ORDER_LINE)
        return 0;
    ret->buyer = (int)strtol(line, &rest, 10);
    ret->token = strtoull(rest, NULL, 10);
    return 1;
}

static void think(int64_t think_ns)
{
    struct timespec moment = { .tv_sec = think_ns / 1000000000, .tv_nsec = think_ns % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

/* Begins a transaction on the fence, the file with the newest token. A descriptor to close, which
 * ends the transaction; -1 with errno. flock(2) excludes only separate openings of the file, so
 * each transaction opens it. */
static int lock_fence(const struct shop *shop, uint64_t *newest)
{
    char line[FENCE_LINE + 1] = { 0 };
    int fence = openat(shop->directory, "fence", O_RDWR | O_CLOEXEC);
    if (fence < 0)
        return -1;
    if (flock(fence, LOCK_EX) != 0 || pread(fence, line, FENCE_LINE, 0) < 0) {
        close(fence);
        return -1;
    }
    *newest = strtoull(line, NULL, 10);
    return fence;
}

/* First, before anything is read: from here on no holder with a smaller token can write. SALE_SOLD:
 * go on. */
static enum sale claim(const struct shop *shop, uint64_t token)
{
    char line[FENCE_LINE + 1];
    uint64_t newest;
    int fence = lock_fence(shop, &newest);
    enum sale answer = SALE_SOLD;
    if (fence < 0)
        return SALE_FAILED;
    snprintf(line, sizeof(line), "%20" PRIu64 "\n", token);
    if (token < newest)
        answer = SALE_STALE;
    else if (pwrite(fence, line, FENCE_LINE, 0) != FENCE_LINE)
        answer = SALE_FAILED;
    close(fence);
    return answer;
}

/* Last: compares and writes in one transaction. A holder that slept through the end of its lock
 * finds the claim of the next one here, however long it slept and wherever. */
static enum sale write_sale(const struct shop *shop, int stock, int buyer, uint64_t token)
{
    uint64_t newest;
    int fence = lock_fence(shop, &newest);
    enum sale answer = SALE_SOLD;
    if (fence < 0)
        return SALE_FAILED;
    if (token < newest)
        answer = SALE_STALE;
    else if (write_stock(shop, stock) != 0 || append_order(shop, buyer, token) != 0)
        answer = SALE_FAILED;
    close(fence);
    return answer;
}

int shop_open(struct shop *shop, const char *directory, int items)
{
    *shop = (struct shop){ .stock = -1, .orders = -1, .think_ns = shop->think_ns };
    shop->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shop->directory < 0)
        return -1;
    int fence = open_new(shop, "fence", 0);
    if (fence < 0)
        return -1;
    close(fence);
    shop->stock = open_new(shop, "stock", 0);
    shop->orders = open_new(shop, "orders", O_APPEND);
    if (shop->stock < 0 || shop->orders < 0)
        return -1;
    return write_stock(shop, items);
}

void shop_close(struct shop *shop)
{
    close(shop->stock);
    close(shop->orders);
    close(shop->directory);
}

static enum sale look_through_orders(const struct shop *shop, int buyer)
{
    struct order order;
    int found;
    for (int at = 0; (found = read_order(shop, at, &order)) > 0; at++) {
        if (order.buyer == buyer)
            return SALE_ALREADY_ORDERED;
    }
    return found < 0 ? SALE_FAILED : SALE_SOLD;
}

enum sale shop_sell(const struct shop *shop, int buyer, uint64_t token)
{
    int stock;
    enum sale answer = claim(shop, token);
    if (answer != SALE_SOLD)
        return answer;
    if (read_stock(shop, &stock) != 0)
        return SALE_FAILED;
    if (stock <= 0)
        return SALE_SOLD_OUT;
    answer = look_through_orders(shop, buyer);
    if (answer != SALE_SOLD)
        return answer;
    think(shop->think_ns);
    return write_sale(shop, stock - 1, buyer, token);
}

int shop_audit(const struct shop *shop, int items, int buyers, struct books *ret)
{
    struct order order;
    uint64_t last_token = 0;
    int found;
    char *has_ordered = calloc((size_t)buyers, 1);
    *ret = (struct books){ 0 };
    if (has_ordered == NULL || read_stock(shop, &ret->stock) != 0) {
        free(has_ordered);
        return -1;
    }
    while ((found = read_order(shop, ret->orders, &order)) > 0) {
        if (order.buyer >= 0 && order.buyer < buyers && has_ordered[order.buyer]++ == 1)
            ret->double_orders++;
        ret->stale_tokens += order.token <= last_token;
        last_token = order.token;
        ret->orders++;
    }
    ret->lost_updates = ret->orders - (items - ret->stock);
    free(has_ordered);
    return found;
}
