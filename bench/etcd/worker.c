/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock by etcd. */
#include "worker.h"

static bool obey(const struct subject *subject, const char *order)
{
    unsigned count;
    long long ms;
    if (subject != &bare || sscanf(order, "pairs %u %lld", &count, &ms) != 2)
        return false;
    measure_bare(count, ms);
    return true;
}

int main(int count, char **arguments)
{
    static const struct subject *const subjects[] = { &bare, &threaded, &driven, &single, NULL };
    static const struct worker worker = { .subjects = subjects, .usage = "", .obey = obey };
    return worker_run(&worker, count, arguments);
}
