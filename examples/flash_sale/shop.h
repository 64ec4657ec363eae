/* SPDX-License-Identifier: Apache-2.0 */
/* A shop whose stock and orders are ordinary files, fenced by the token of the lock. */
#ifndef SHOP_H
#define SHOP_H

#include <stdint.h>

enum sale {
    SALE_SOLD,
    SALE_SOLD_OUT,
    SALE_ALREADY_ORDERED,
    SALE_STALE, /* a holder with a newer token has claimed the shop: nothing was written */
    SALE_FAILED /* the files could not be used */
};

struct shop {
    int directory;
    int stock;        /* a file with one number */
    int orders;       /* a file with one line an order */
    int64_t think_ns; /* between reading and writing back */
};

/* What the books say after the sale. */
struct books {
    int orders, stock;
    int lost_updates;  /* orders that the stock does not know of */
    int double_orders; /* buyers that got more than one */
    int stale_tokens;  /* orders whose token is not above the one before */
};

/* Opens the shop in `directory` with new files that offer `items`. 0, or -1 with errno. */
int shop_open(struct shop *shop, const char *directory, int items);
void shop_close(struct shop *shop);

/* Claims, reads, thinks, and writes if no larger token has claimed the shop since. Without a lock
 * `token` is 0: then every claim is equal, and the fence refuses nothing. */
enum sale shop_sell(const struct shop *shop, int buyer, uint64_t token);

/* 0, or -1 with errno. */
int shop_audit(const struct shop *shop, int items, int buyers, struct books *ret);

#endif
