/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock through a Redis server: a line an order, a line of figures an answer. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

const char *worker_address;

const char *worker_url;

/* With what $HOLDFAST_BENCH_OPTIONS asks for behind the address, as "format=simple&fence=off". */
static void write_url(void)
{
    static char url[256];
    const char *options = getenv("HOLDFAST_BENCH_OPTIONS");
    snprintf(url, sizeof url, "%s%s?timeout=30000%s%s",
             worker_address[0] == '/' ? "redis+unix://" : "redis://", worker_address,
             options && *options ? "&" : "", options ? options : "");
    worker_url = url;
}

static const struct subject *const subjects[] = { &bare,     &retrying, &polling,
                                                  &threaded, &driven,   &relaxed };

static const struct subject *subject;

static const struct subject *find(const char *word)
{
    for (unsigned i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i]->word, word) == 0)
            return subjects[i];
    die("no such subject: %s", word);
}

static void obey(const char *order)
{
    unsigned count;
    long long ms;
    if (sscanf(order, "pairs %u %lld", &count, &ms) == 2)
        measure_pairs(subject, count, ms);
    else if (sscanf(order, "handover %lld", &ms) == 1)
        measure_handover(subject, SETTLE_US, ms);
    else if (sscanf(order, "telling %lld", &ms) == 1)
        measure_telling(ms);
    else if (sscanf(order, "crowd %u %lld", &count, &ms) == 2)
        measure_crowd(subject, count, ms);
    else if (sscanf(order, "hold %u", &count) == 1)
        hold_many(subject, count);
    else if (strncmp(order, "lost", 4) == 0)
        count_lost();
    else if (sscanf(order, "beside %lld", &ms) == 1)
        measure_beside(subject, ms);
    else if (sscanf(order, "fill %u", &count) == 1)
        bare_fill(count);
    else if (sscanf(order, "batches %u", &count) == 1)
        bare_renew(count);
    else if (strncmp(order, "scripts", 7) == 0)
        bare_show_scripts();
    else
        die("no such order: %s", order);
}

int main(int count, char **arguments)
{
    if (count != 3)
        die("usage: bench-redis-worker SUBJECT HOST:PORT|PATH <ORDERS");
    worker_address = arguments[2];
    write_url();
    subject = find(arguments[1]);
    serve_orders(obey);
    return 0;
}
