/* SPDX-License-Identifier: Apache-2.0 */
/* A program that measures one way to lock: a line an order, a line of figures an answer. */
#include "ours.h"

#include <string.h>

/* Longer than one poll of the slowest subject. */
enum { SETTLE_US = 3000 };

const char *worker_url;

static const struct worker *worker;
static const struct subject *subject;

static void obey(const char *order)
{
    unsigned count;
    long long ms;
    if (worker->obey && worker->obey(subject, order))
        return;
    if (sscanf(order, "pairs %u %lld", &count, &ms) == 2)
        measure_pairs(subject, count, ms);
    else if (sscanf(order, "contention %u %lld", &count, &ms) == 2)
        measure_contention(subject, count, ms);
    else if (sscanf(order, "handover %lld", &ms) == 1)
        measure_handover(subject, SETTLE_US, ms);
    else
        die("no such order: %s", order);
}

int worker_run(const struct worker *of, int count, char **arguments)
{
    worker = of;
    if (count != 3 + of->more_arguments)
        die("usage: bench-worker SUBJECT URL %s<ORDERS", of->usage);
    worker_url = arguments[2];
    for (const struct subject *const *one = of->subjects; *one; one++)
        if (strcmp((*one)->word, arguments[1]) == 0)
            subject = *one;
    if (!subject)
        die("no such subject: %s", arguments[1]);
    serve_orders(obey);
    return 0;
}
