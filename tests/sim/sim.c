/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation's command: one seed with its trace, or a range of seeds as TAP. */
#include "world.h"

#include "core/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEDS_PER_TEST 500

extern const struct store *const stores[];
const struct store *const stores[] = { &lease_store, &queue_store, NULL };

/* A failed assertion or a hang in the core: say which seed it was. */
static void died(int number)
{
    char line[160];
    int length = snprintf(line, sizeof line,
                          "not ok - seed %" PRIu64 " at %.3f ms: signal %d\n"
                          "# replay: sim --engine %s%s --seed %" PRIu64 " --trace\n",
                          world.seed, (double)world.now_us / 1000.0, number, world.store->name,
                          world.forgetful ? " --forgetful" : "", world.seed);
    fflush(stdout);
    if (write(STDOUT_FILENO, line, (size_t)length) < 0)
        _exit(2);
    _exit(1);
}

static void print_step(const char *line)
{
    if (world.running)
        say("c%u %s", world.running->index, line);
    else
        say("c? %s", line);
}

static const struct store *find_store(const char *name)
{
    for (const struct store *const *store = stores; *store; store++)
        if (strcmp((*store)->name, name) == 0)
            return *store;
    fprintf(stderr, "sim: there is no engine \"%s\"; use lease or queue\n", name);
    exit(2);
}

static void run_one(const struct store *store, uint64_t seed)
{
    alarm(30);
    world_run(store, seed);
    alarm(0);
}

/* A simulation in which nothing went wrong has tested nothing. */
static bool has_bitten(const struct store *store, const struct totals *totals)
{
    bool locks = totals->grants && totals->busy && totals->canceled && totals->unreachable &&
                 totals->lost && totals->dropped && totals->restarts && totals->taken &&
                 totals->opened && totals->refused;
    bool leases = totals->renewed && totals->detached && totals->attached && totals->broken;
    return locks && (leases || store != &lease_store);
}

static void print_totals(const struct totals *totals)
{
    printf("# %" PRIu64 " events, %" PRIu64 " messages (%" PRIu64 " dropped), %" PRIu64
           " grants, %" PRIu64 " busy, %" PRIu64 " cancelled, %" PRIu64 " unreachable, %" PRIu64
           " lost, %" PRIu64 " open errors, %" PRIu64 " refused releases\n",
           totals->events, totals->messages, totals->dropped, totals->grants, totals->busy,
           totals->canceled, totals->unreachable, totals->lost, totals->opened, totals->refused);
    printf("# %" PRIu64 " renewed, %" PRIu64 " detached, %" PRIu64 " attached, %" PRIu64
           " broken, %" PRIu64 " taken from the counter, %" PRIu64 " restarts\n",
           totals->renewed, totals->detached, totals->attached, totals->broken, totals->taken,
           totals->restarts);
}

static int run_range(const struct store *store, uint64_t first, uint64_t count)
{
    unsigned tests = (unsigned)((count + SEEDS_PER_TEST - 1) / SEEDS_PER_TEST);
    printf("1..%u\n", tests + 1);
    for (unsigned test = 0; test < tests; test++) {
        uint64_t from = first + (uint64_t)test * SEEDS_PER_TEST;
        uint64_t to = from + SEEDS_PER_TEST;
        if (to > first + count)
            to = first + count;
        for (uint64_t seed = from; seed < to; seed++)
            run_one(store, seed);
        printf("ok %u - %s store, seeds %" PRIu64 " to %" PRIu64 "\n", test + 1, store->name, from,
               to - 1);
        fflush(stdout);
    }
    print_totals(&world.totals);
    bool bitten = has_bitten(store, &world.totals);
    printf("%sok %u - the faults did bite\n", bitten ? "" : "not ", tests + 1);
    return bitten ? 0 : 1;
}

static int usage(void)
{
    fputs(
        "usage: sim --engine lease|queue [--forgetful] (--seed N [--trace] | --first N --count N)\n"
        "       $SIM_SEEDS: how many seeds instead of --count\n",
        stderr);
    return 2;
}

int main(int argument_count, char **arguments)
{
    const struct store *store = &lease_store;
    uint64_t first = 1, count = 0, seed = 0;
    for (int i = 1; i < argument_count; i++) {
        const char *value = i + 1 < argument_count ? arguments[i + 1] : "0";
        if (strcmp(arguments[i], "--trace") == 0) {
            world.trace = true;
            continue;
        }
        if (strcmp(arguments[i], "--forgetful") == 0) {
            world.forgetful = true;
            continue;
        }
        if (strcmp(arguments[i], "--engine") == 0)
            store = find_store(value);
        else if (strcmp(arguments[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10);
        else if (strcmp(arguments[i], "--first") == 0)
            first = strtoull(value, NULL, 10);
        else if (strcmp(arguments[i], "--count") == 0)
            count = strtoull(value, NULL, 10);
        else
            return usage();
        i++;
    }
    const char *wanted = getenv("SIM_SEEDS");
    if (wanted && count)
        count = strtoull(wanted, NULL, 10);
    if (!seed == !count)
        return usage();
    world.store = store;
    signal(SIGABRT, died);
    signal(SIGSEGV, died);
    signal(SIGALRM, died);
    hf__trace_sink = world.trace ? print_step : NULL;
    if (count)
        return run_range(store, first, count);
    run_one(store, seed);
    printf("1..1\nok 1 - seed %" PRIu64 "\n", seed);
    print_totals(&world.totals);
    return 0;
}
