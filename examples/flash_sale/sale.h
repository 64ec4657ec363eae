/* SPDX-License-Identifier: Apache-2.0 */
/* One sale: processes that serve all buyers at once, with a lock or without. */
#ifndef SALE_H
#define SALE_H

#include "picture.h"
#include "shop.h"

#include <stdbool.h>

struct plan {
    const char *url; /* where the lock lives; NULL: the default */
    char store[256]; /* the same, to be shown */
    int buyers, items, processes;
    int64_t think_ns;
    bool locked;
};

struct result {
    struct books books;
    int attempts;
    int64_t took_ns, longest_wait_ns;
    int most_at_once; /* processes at the till at the same time */
    struct stay *stays;
    int stay_count;
};

/* Every seventh buyer clicks twice, and another process gets the second click. */
int plan_attempts(const struct plan *plan);

/* Runs the sale in a new directory, which is removed again. 0, or -1 after having said why on
 * stderr. `ret->stays` is to be freed. */
int sale_run(const struct plan *plan, struct result *ret);

#endif
