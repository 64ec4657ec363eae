/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock by memcached. */
#include "worker.h"

const char *worker_socket;

static bool obey(const struct subject *subject, const char *order)
{
    unsigned count;
    long long ms;
    (void)subject;
    if (sscanf(order, "waiting %u %lld", &count, &ms) != 2)
        return false;
    measure_waiting(count, ms);
    return true;
}

int main(int count, char **arguments)
{
    static const struct subject *const subjects[] = { &bare,     &packets, &symfony, &laravel,
                                                      &threaded, &driven,  &single,  NULL };
    static const struct worker worker = {
        .subjects = subjects, .more_arguments = 1, .usage = "SOCKET ", .obey = obey
    };
    worker_socket = arguments[count - 1];
    return worker_run(&worker, count, arguments);
}
