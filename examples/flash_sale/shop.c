/* The shop: read the files, think a moment, write them back, as programs everywhere do. */
#include "shop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Every record is one line of a fixed length, so that a write replaces it whole. */
#define STOCK_LINE 12
#define ORDER_LINE 32

struct order {
    int buyer;
    uint64_t token;
};

static int open_new(const char *directory, const char *name, int flags)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);
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

int shop_open(struct shop *shop, const char *directory, int items)
{
    shop->stock = open_new(directory, "stock", 0);
    shop->orders = open_new(directory, "orders", O_APPEND);
    if (shop->stock < 0 || shop->orders < 0)
        return -1;
    return write_stock(shop, items);
}

void shop_close(struct shop *shop)
{
    close(shop->stock);
    close(shop->orders);
}

/* May this buyer order now? The resource compares tokens: a holder that slept through the end of
 * its lock comes back with a token below the last order's, and is sent away. */
static enum sale look_through_orders(const struct shop *shop, int buyer, uint64_t token)
{
    struct order order;
    int found;
    for (int at = 0; (found = read_order(shop, at, &order)) > 0; at++) {
        if (order.buyer == buyer)
            return SALE_ALREADY_ORDERED;
        if (order.token > token)
            return SALE_STALE;
    }
    return found < 0 ? SALE_FAILED : SALE_SOLD;
}

enum sale shop_sell(const struct shop *shop, int buyer, uint64_t token)
{
    int stock;
    if (read_stock(shop, &stock) != 0)
        return SALE_FAILED;
    if (stock <= 0)
        return SALE_SOLD_OUT;
    enum sale answer = look_through_orders(shop, buyer, token);
    if (answer != SALE_SOLD)
        return answer;
    think(shop->think_ns);
    if (write_stock(shop, stock - 1) != 0 || append_order(shop, buyer, token) != 0)
        return SALE_FAILED;
    return SALE_SOLD;
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
