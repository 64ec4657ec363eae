/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock by memcached: a line an order, a line of figures an answer. */
#include "worker.h"

#include <string.h>

const char *worker_url, *worker_socket;

static const struct subject *const subjects[] = { &bare,     &packets, &symfony, &laravel,
                                                  &threaded, &driven,  &single };
static const struct subject *subject;

static void obey(const char *order)
{
    unsigned count;
    long long ms;
    if (sscanf(order, "pairs %u %lld", &count, &ms) == 2)
        measure_pairs(subject, count, ms);
    else if (sscanf(order, "contention %u %lld", &count, &ms) == 2)
        measure_contention(subject, count, ms);
    else if (sscanf(order, "handover %lld", &ms) == 1)
        measure_handover(subject, ms);
    else if (sscanf(order, "waiting %u %lld", &count, &ms) == 2)
        measure_waiting(count, ms);
    else
        die("no such order: %s", order);
}

int main(int count, char **arguments)
{
    if (count != 4)
        die("usage: bench-memcached-worker SUBJECT URL SOCKET <ORDERS");
    worker_url = arguments[2];
    worker_socket = arguments[3];
    for (unsigned i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i]->word, arguments[1]) == 0)
            subject = subjects[i];
    if (!subject)
        die("no such subject");
    serve_orders(obey);
    return 0;
}
