/* SPDX-License-Identifier: Apache-2.0 */
/* A cache refill: twelve processes miss at once, one loads, the others wait and take its result. */
#include <errno.h>
#include <holdfast.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 12
#define VALUE_SIZE 64

/* How long a process waits for somebody else's load before it says so. */
#define LONGEST_WAIT_MS 30000

static char directory[] = "/tmp/cache-refill-XXXXXX";
static char cache_path[64], fresh_path[64], loads_path[64];

/* What a process has to report to the parent; short enough to arrive in one piece. */
struct report {
    bool loaded;
    char value[VALUE_SIZE];
};

static bool read_cache(char value[VALUE_SIZE])
{
    FILE *file = fopen(cache_path, "r");
    if (file == NULL)
        return false;
    bool found = fgets(value, VALUE_SIZE, file) != NULL;
    fclose(file);
    return found;
}

/* The expensive query that must not run twelve times. It leaves a line each time that it does. */
static bool load(char value[VALUE_SIZE])
{
    struct timespec a_while = { .tv_nsec = 300000000 };
    FILE *file = fopen(loads_path, "a");
    if (file == NULL)
        return false;
    fprintf(file, "loaded by %d\n", (int)getpid());
    fclose(file);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &a_while, NULL);
    snprintf(value, VALUE_SIZE, "the price list, as %d read it", (int)getpid());
    return true;
}

/* By a rename, so that readers without the lock see all of the value or nothing. Not fenced: a
 * loader that is paused past its lease may put its older value over a newer one. Where that
 * matters, claim the cache with the token before the load, and compare it at the rename
 * (docs/fencing.md). */
static bool write_cache(const char *value)
{
    FILE *file = fopen(fresh_path, "w");
    if (file == NULL)
        return false;
    bool written = fputs(value, file) >= 0;
    return fclose(file) == 0 && written && rename(fresh_path, cache_path) == 0;
}

/* The whole trick: look, lock, *look again*, load. Whoever had to wait finds the value there. */
static bool get(hf_client *client, struct report *ret)
{
    hf_hold *hold;
    if (read_cache(ret->value))
        return true;
    if (hf_lock(client, "cache/price-list", LONGEST_WAIT_MS, NULL, &hold) != HF_OK) {
        fprintf(stderr, "cache_refill: %s\n", hf_last_error()->text);
        return false;
    }
    bool got = read_cache(ret->value);
    if (!got) {
        ret->loaded = true;
        got = load(ret->value) && write_cache(ret->value);
        if (!got)
            fprintf(stderr, "cache_refill: cannot load: %s\n", strerror(errno));
    }
    hf_unlock(hold);
    return got;
}

/* One process: waits for the start, gets the value, reports. */
static int use_cache(int go, int reports)
{
    hf_client *client;
    struct report report = { 0 };
    char byte;
    alarm(2 * LONGEST_WAIT_MS / 1000);
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "cache_refill: %s\n", hf_last_error()->text);
        return 1;
    }
    bool got = read(go, &byte, 1) == 0 && get(client, &report);
    hf_close(client);
    return got && write(reports, &report, sizeof(report)) == sizeof(report) ? 0 : 1;
}

static int start_all(int go[2], int reports[2])
{
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return -1;
        if (pid == 0) {
            close(go[1]);
            close(reports[0]);
            _exit(use_cache(go[0], reports[1]));
        }
    }
    close(go[0]);
    close(reports[1]);
    return close(go[1]); /* this is the start */
}

/* How many loaded, or -1 if not all have the same value. */
static int collect(int reports)
{
    struct report report;
    char value[VALUE_SIZE] = "";
    int count = 0, loaded = 0;
    while (read(reports, &report, sizeof(report)) == sizeof(report)) {
        if (count++ == 0)
            memcpy(value, report.value, sizeof(value));
        else if (strcmp(value, report.value) != 0)
            return -1;
        loaded += report.loaded;
    }
    while (wait(NULL) > 0)
        ;
    printf("%d processes have \"%s\"\n", count, value);
    return count == PROCESSES ? loaded : -1;
}

static int count_loads(void)
{
    FILE *file = fopen(loads_path, "r");
    char line[VALUE_SIZE];
    int loads = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        loads++;
    if (file != NULL)
        fclose(file);
    return loads;
}

static void clean_up(void)
{
    unlink(cache_path);
    unlink(loads_path);
    unlink(fresh_path);
    rmdir(directory);
}

/* Said once here, rather than by each process. */
static bool can_use_store(void)
{
    hf_client *client;
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "cache_refill: %s\n", hf_last_error()->text);
        return false;
    }
    hf_close(client);
    return true;
}

int main(void)
{
    int go[2], reports[2];
    if (!can_use_store())
        return 1;
    if (mkdtemp(directory) == NULL || pipe(go) != 0 || pipe(reports) != 0) {
        fprintf(stderr, "cache_refill: cannot begin: %s\n", strerror(errno));
        return 1;
    }
    snprintf(cache_path, sizeof(cache_path), "%s/price-list", directory);
    snprintf(fresh_path, sizeof(fresh_path), "%s/price-list.new", directory);
    snprintf(loads_path, sizeof(loads_path), "%s/loads", directory);
    int loaded = start_all(go, reports) == 0 ? collect(reports[0]) : -1;
    int loads = count_loads();
    clean_up();
    printf("%d of them loaded it; the query ran %d time%s\n", loaded, loads, loads == 1 ? "" : "s");
    if (loaded != 1 || loads != 1) {
        fprintf(stderr,
                "cache_refill: it had to be loaded exactly once, and be the same for all\n");
        return 1;
    }
    return 0;
}
