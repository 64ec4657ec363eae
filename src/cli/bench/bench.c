/* SPDX-License-Identifier: Apache-2.0 */
/* bench: how fast is it here? holdfast beside what one would use instead, in one run. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct cli_bench_plan full = {
    .rounds = CLI_BENCH_ROUNDS, .crowd_rounds = 3, .deaths = 4, .run_ms = 150, .crowd_ms = 1000
};

static const struct cli_bench_plan quick = {
    .rounds = 1, .crowd_rounds = 1, .deaths = 1, .run_ms = 30, .crowd_ms = 100
};

/* In memory if possible: that is where the locks of this machine lie by default. */
static bool make_directory(struct cli_bench *bench)
{
    const char *parent = secure_getenv("TMPDIR");

    if (!parent || !parent[0])
        parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(bench->directory, sizeof(bench->directory), "%s/holdfast-bench-XXXXXX", parent);
    if (mkdtemp(bench->directory))
        return true;
    cli_complain("no directory can be made in %s: %s; TMPDIR names another one", parent,
                 strerror(errno));
    bench->directory[0] = '\0';
    bench->exit_code = CLI_INTERNAL;
    return false;
}

/* The user's store if there is one, else a fresh one. */
static bool choose_store(struct cli_bench *bench)
{
    struct cli_settings settings = *bench->settings;
    const char *from_environment = secure_getenv("HOLDFAST_URL");
    char fresh[sizeof(bench->directory) * 3 + 16] = "local://";

    if (!settings.engine && !settings.url_file && !(from_environment && from_environment[0])) {
        cli_percent_encode(fresh + strlen(fresh), sizeof(fresh) - strlen(fresh), bench->directory);
        settings.engine = fresh;
    }
    bench->url = cli_url_choose(&settings);
    bench->exit_code = bench->url ? CLI_OK : CLI_USAGE;
    return bench->url != NULL;
}

/* The first look at the store, by a process of its own: a process that forks must not have it
 * open. */
static bool probe(struct cli_bench *bench)
{
    bench->plain = cli_bench_holdfast;
    bench->fair = cli_bench_fair;
    if (!cli_bench_fork(bench, &bench->plain, 1, 0, cli_bench_probe) || !cli_bench_reap(bench))
        return false;
    bench->local = strncmp(bench->shared->url, "local:", 6) == 0;
    if (!(bench->shared->caps & HF_CAP_FAIR))
        bench->fair = bench->plain;
    /* Over a network a pair takes long enough to time each. */
    if (!bench->local)
        bench->plain.batch = bench->fair.batch = 1;
    return true;
}

/* Measures `count` subjects, of which only the first `ours` are holdfast, and shows the figures. */
static bool section(struct cli_bench *bench, enum cli_bench_measure measure,
                    bool (*run)(struct cli_bench *bench,
                                const struct cli_bench_subject *const *subjects, unsigned count),
                    const struct cli_bench_subject *const *subjects, unsigned ours, unsigned count)
{
    if (!run(bench, subjects, bench->local ? count : ours))
        return false;
    if (!bench->settings->json)
        cli_bench_print_rows(bench, measure);
    /* The reader of the output is gone: the rest is not needed. */
    return !ferror(stdout);
}

#ifdef HF_BENCH_SQLITE
#define ALSO_SQLITE , &cli_bench_sqlite
enum { BASELINES = 5 };
#else
#define ALSO_SQLITE
enum { BASELINES = 4 };
#endif

static bool measure_all(struct cli_bench *bench)
{
    const struct cli_bench_subject *const all[] = {
        &bench->plain,         &bench->fair,   &cli_bench_driven,           &cli_bench_flock,
        &cli_bench_flock_open, &cli_bench_ofd, &cli_bench_mutex ALSO_SQLITE
    };
    const struct cli_bench_subject *const mortal[] = { &bench->fair, &cli_bench_flock,
                                                       &cli_bench_ofd,
                                                       &cli_bench_mutex ALSO_SQLITE };
    const struct cli_bench_subject *const crowded[] = { &bench->plain, &bench->fair,
                                                        &cli_bench_flock, &cli_bench_mutex };
    unsigned modes = bench->shared->caps & HF_CAP_FAIR ? 2 : 1;

    return section(bench, CLI_BENCH_PAIR, cli_bench_pairs, all, modes, 3 + BASELINES) &&
           section(bench, CLI_BENCH_REENTRY, cli_bench_reentry, all, 1, 1) &&
           section(bench, CLI_BENCH_HANDOVER, cli_bench_handover, all + 1, 1, 2 + BASELINES) &&
           section(bench, CLI_BENCH_TAKEOVER, cli_bench_takeover, mortal, 1, BASELINES) &&
           section(bench, CLI_BENCH_CROWD, cli_bench_crowd, crowded + 2 - modes, modes, 2 + modes);
}

static void measure_and_print(struct cli_bench *bench)
{
    if (!make_directory(bench) || !choose_store(bench) || !probe(bench))
        return;
    if (!bench->settings->json)
        cli_bench_print_head(bench);
    if (!measure_all(bench))
        return;
    if (bench->settings->json)
        cli_bench_print_json(bench);
    else
        cli_bench_print_end(bench);
}

int cli_bench(struct cli_settings *settings)
{
    struct cli_bench *bench;
    int exit_code;

    if (settings->word_count != 0)
        return cli_usage(settings, "bench", "bench takes no names");
    bench = calloc(1, sizeof(*bench));
    if (!bench)
        return CLI_INTERNAL;
    bench->settings = settings;
    bench->plan = settings->quick ? quick : full;
    if (getloadavg(&bench->load, 1) != 1)
        bench->load = 0;
    if (cli_bench_start(bench)) {
        measure_and_print(bench);
        munmap(bench->shared, sizeof(*bench->shared));
    }
    /* Of files only: no directory is made in it. */
    DIR *directory = bench->directory[0] ? opendir(bench->directory) : NULL;
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    if (bench->directory[0])
        rmdir(bench->directory);
    exit_code = bench->exit_code;
    free(bench->url);
    free(bench);
    return exit_code;
}
