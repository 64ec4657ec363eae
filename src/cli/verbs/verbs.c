/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command. */
#include "cli/cli.h"

const struct cli_verb cli_verbs[] = {
    { "run", CLI_RUN, true, cli_run, "run a command under a lock", cli_help_run },
    { "try", CLI_TRY, true, cli_try, "the same, but do not wait", cli_help_try },
    { "elect", CLI_ELECT, true, cli_elect, "keep one leader running among many", cli_help_elect },
    { "lock", CLI_LOCK, false, cli_lock, "take a lock that outlives this command", cli_help_lock },
    { "renew", CLI_RENEW, false, cli_renew, "give such a lock a new lease", cli_help_renew },
    { "unlock", CLI_UNLOCK, false, cli_unlock, "release such a lock", cli_help_unlock },
    { "show", CLI_SHOW, false, cli_show, "show holders and waiters", cli_help_show },
    { "top", CLI_TOP, false, NULL, "watch the names in use on a screen", cli_help_top, true },
    { "held", CLI_HELD, false, cli_held, "whether a lock is held", cli_help_held },
    { "break", CLI_BREAK, false, cli_break, "take a lock away from its holder", cli_help_break },
    { "sem", CLI_SEM, false, cli_sem, "set and look at semaphores", cli_help_sem },
    { "counter", CLI_COUNTER, false, cli_counter, "plain counters", cli_help_counter },
    { "latch", CLI_LATCH, false, cli_latch, "count-down latches", cli_help_latch },
    { "rate", CLI_RATE, false, cli_rate, "limit how often a thing is done", cli_help_rate },
    { "schema", CLI_SCHEMA, false, cli_schema, "the tables of a database", cli_help_schema },
    { "gc", CLI_GC, false, cli_gc, "remove rows of names that are not used", cli_help_gc },
    { "doctor", CLI_DOCTOR, false, cli_doctor, "look for what endangers locks", cli_help_doctor },
    { "bench", CLI_BENCH, false, cli_bench, "measure speed, and compare", cli_help_bench },
    { "torture", CLI_TORTURE, false, NULL, "test the locks of a store under faults",
      cli_help_torture, true },
    { "exporter", CLI_EXPORTER, false, NULL, "serve metrics and a live page of a store",
      cli_help_exporter, true },
    { "complete", 0, false, cli_complete, NULL, cli_help_complete },
    { 0 },
};
