/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock by a database: a line an order, a line of figures an answer. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

const char *worker_url, *worker_socket;
unsigned worker_port;
const struct session_ops *worker_sessions;

static const struct session_ops *const databases[] = {
#ifdef HF_SQL_MYSQL
    &mysql_sessions,
#endif
#ifdef HF_SQL_POSTGRES
    &postgres_sessions,
#endif
};
static const struct subject *const subjects[] = { &bare,   &session_lock, &unique_key, &eager_key,
                                                  &polled, &threaded,     &driven,     &single };
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
    else
        die("no such order: %s", order);
}

int main(int count, char **arguments)
{
    if (count != 6)
        die("usage: bench-sql-worker SUBJECT mariadb|postgres URL SOCKET PORT <ORDERS");
    worker_url = arguments[3];
    worker_socket = arguments[4];
    worker_port = (unsigned)strtoul(arguments[5], NULL, 10);
    for (unsigned i = 0; i < sizeof databases / sizeof *databases; i++)
        if (strcmp(databases[i]->database, arguments[2]) == 0)
            worker_sessions = databases[i];
    for (unsigned i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i]->word, arguments[1]) == 0)
            subject = subjects[i];
    if (!subject || !worker_sessions)
        die("no such subject, or no such database in this build");
    serve_orders(obey);
    return 0;
}
