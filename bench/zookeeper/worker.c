/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock through a ZooKeeper server: a line an order, a line of figures an
 * answer. */
#include "worker.h"

#include <string.h>

const char *worker_address, *worker_url;

static const struct subject *const subjects[] = { &bare, &threaded, &driven, &relaxed };
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
    else if (sscanf(order, "pipeline %u %lld", &count, &ms) == 2)
        measure_pipeline(count, ms);
    else if (sscanf(order, "telling %lld", &ms) == 1)
        measure_telling(ms);
    else if (sscanf(order, "handover %lld", &ms) == 1)
        measure_handover(&single, SETTLE_US, ms);
    else if (sscanf(order, "waiters %u", &count) == 1)
        measure_waiters(count);
    else if (sscanf(order, "releases %u", &count) == 1)
        measure_releases(count);
    else if (sscanf(order, "local %u", &count) == 1)
        measure_local_waiters(count);
    else
        die("no such order: %s", order);
}

int main(int count, char **arguments)
{
    static char url[256];
    if (count != 3)
        die("usage: bench-zookeeper-worker SUBJECT HOST:PORT <ORDERS");
    worker_address = arguments[2];
    snprintf(url, sizeof url, "zk://%s/bench?timeout=30000", worker_address);
    worker_url = url;
    subject = find(arguments[1]);
    serve_orders(obey);
    return 0;
}
