/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one sale: forks the processes, lets them begin at once, and gathers what they recorded. */
#include "sale.h"

#include <errno.h>
#include <holdfast.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Nobody waits longer than this for the lock, and a process that is stuck ends after twice as long.
 */
#define LONGEST_WAIT_MS 60000

/* Every so many buyers one clicks twice; no divisor of a usual number of processes. */
#define CLICKS_TWICE 7

/* What the processes write and the parent reads. */
struct record {
    atomic_int stay_count;
    _Atomic(int64_t) longest_wait_ns;
    struct stay stays[];
};

/* One process of the sale. */
struct seller {
    const struct plan *plan;
    struct shop *shop;
    struct record *record;
    hf_client *client;
    int process;
};

int plan_attempts(const struct plan *plan)
{
    return plan->buyers + (plan->buyers + CLICKS_TWICE - 1) / CLICKS_TWICE;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note(struct record *record, int process, int64_t asked_ns, int64_t from_ns,
                 int64_t to_ns)
{
    int at = atomic_fetch_add(&record->stay_count, 1);
    record->stays[at] = (struct stay){ from_ns, to_ns, process };
    int64_t waited_ns = from_ns - asked_ns, longest_ns = atomic_load(&record->longest_wait_ns);
    while (waited_ns > longest_ns &&
           !atomic_compare_exchange_weak(&record->longest_wait_ns, &longest_ns, waited_ns))
        ;
}

/* One attempt to buy, under the lock: this is all that it takes. */
static int attempt(const struct seller *seller, int buyer)
{
    hf_hold *hold = NULL;
    int64_t asked_ns = now_ns();
    if (seller->client != NULL &&
        hf_lock(seller->client, "flash-sale/stock", LONGEST_WAIT_MS, NULL, &hold) != HF_OK) {
        fprintf(stderr, "flash_sale: %s\n", hf_last_error()->text);
        return -1;
    }
    int64_t from_ns = now_ns();
    enum sale answer = shop_sell(seller->shop, buyer, hold != NULL ? hf_token(hold) : 0);
    note(seller->record, seller->process, asked_ns, from_ns, now_ns());
    if (hf_unlock(hold) != HF_OK) {
        fprintf(stderr, "flash_sale: %s\n", hf_last_error()->text);
        return -1;
    }
    if (answer == SALE_STALE || answer == SALE_FAILED) {
        fprintf(stderr, "flash_sale: the shop's files: %s\n",
                answer == SALE_STALE ? "a holder with a newer token has claimed them"
                                     : strerror(errno));
        return -1;
    }
    return 0;
}

/* Serves this process' share of the buyers. */
static int serve(const struct seller *seller)
{
    const struct plan *plan = seller->plan;
    for (int buyer = 0; buyer < plan->buyers; buyer++) {
        bool first = buyer % plan->processes == seller->process;
        bool second = buyer % CLICKS_TWICE == 0 && (buyer + 1) % plan->processes == seller->process;
        if (first && attempt(seller, buyer) != 0)
            return -1;
        if (second && attempt(seller, buyer) != 0)
            return -1;
    }
    return 0;
}

/* A client belongs to the process that opened it, so each opens its own after the fork. */
static int sell(struct seller *seller, int ready, int go)
{
    char byte = 0;
    int failed;
    alarm(2 * LONGEST_WAIT_MS / 1000);
    if (seller->plan->locked && hf_open(&seller->client, seller->plan->url, NULL) != HF_OK) {
        fprintf(stderr, "flash_sale: %s\n", hf_last_error()->text);
        return 1;
    }
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        return 1;
    failed = serve(seller);
    hf_close(seller->client);
    return failed ? 1 : 0;
}

/* In: the processes' ends of the pipes; out, in the parent: everybody has been told to begin. */
static void begin_together(int processes, int ready[2], int go[2])
{
    char byte;
    close(ready[1]);
    close(go[0]);
    for (int i = 0; i < processes && read(ready[0], &byte, 1) == 1; i++)
        ;
    close(go[1]);
    close(ready[0]);
}

static int wait_for(int processes)
{
    int failed = 0, status;
    for (int i = 0; i < processes; i++) {
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            failed = -1;
    }
    return failed;
}

static int run_processes(const struct plan *plan, struct shop *shop, struct record *record)
{
    int ready[2], go[2], started = 0;
    if (pipe(ready) != 0 || pipe(go) != 0)
        return -1;
    fflush(NULL);
    for (; started < plan->processes; started++) {
        struct seller seller = { plan, shop, record, NULL, started };
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid > 0)
            continue;
        close(ready[0]);
        close(go[1]);
        _exit(sell(&seller, ready[1], go[0]));
    }
    begin_together(started, ready, go);
    return wait_for(started) == 0 && started == plan->processes ? 0 : -1;
}

static int gather(const struct plan *plan, const struct shop *shop, struct record *record,
                  struct result *ret)
{
    int count = record->stay_count;
    int64_t first_ns = INT64_MAX, last_ns = 0;
    ret->stays = calloc((size_t)count + 1, sizeof(*ret->stays));
    if (ret->stays == NULL || shop_audit(shop, plan->items, plan->buyers, &ret->books) != 0)
        return -1;
    for (int i = 0; i < count; i++) {
        ret->stays[i] = record->stays[i];
        first_ns = ret->stays[i].from_ns < first_ns ? ret->stays[i].from_ns : first_ns;
        last_ns = ret->stays[i].to_ns > last_ns ? ret->stays[i].to_ns : last_ns;
    }
    ret->stay_count = ret->attempts = count;
    ret->took_ns = last_ns - first_ns;
    ret->longest_wait_ns = record->longest_wait_ns;
    ret->most_at_once = picture_most_at_once(ret->stays, count);
    return 0;
}

static int run_in(const char *directory, const struct plan *plan, struct result *ret)
{
    struct shop shop = { .directory = -1, .stock = -1, .orders = -1, .think_ns = plan->think_ns };
    size_t size = sizeof(struct record) + (size_t)plan_attempts(plan) * sizeof(struct stay);
    struct record *record =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = -1;
    if (record == MAP_FAILED || shop_open(&shop, directory, plan->items) != 0)
        fprintf(stderr, "flash_sale: cannot open a shop in %s: %s\n", directory, strerror(errno));
    else if (run_processes(plan, &shop, record) != 0)
        fprintf(stderr, "flash_sale: a process of the sale failed\n");
    else if (gather(plan, &shop, record, ret) != 0)
        fprintf(stderr, "flash_sale: cannot read the books: %s\n", strerror(errno));
    else
        failed = 0;
    shop_close(&shop);
    if (record != MAP_FAILED)
        munmap(record, size);
    return failed;
}

static void remove_shop(const char *directory)
{
    char path[4096];
    const char *const names[] = { "fence", "stock", "orders" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

int sale_run(const struct plan *plan, struct result *ret)
{
    const char *base = getenv("TMPDIR");
    char directory[4000];
    *ret = (struct result){ 0 };
    snprintf(directory, sizeof(directory), "%s/flash-sale-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "flash_sale: cannot make %s: %s\n", directory, strerror(errno));
        return -1;
    }
    int failed = run_in(directory, plan, ret);
    remove_shop(directory);
    return failed;
}
