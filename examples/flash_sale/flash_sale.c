/* SPDX-License-Identifier: Apache-2.0 */
/* A flash sale, first without a lock, then with one: oversold, then exact. */
#include "sale.h"

#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* The unlocked sale goes well when nobody is interrupted: then the next try thinks twice as long.
 */
#define FIRST_THINK_NS 200000
#define MOST_TRIES 8

#define COLUMNS 80

static const char usage[] =
    "usage: flash_sale [--url URL] [--buyers N] [--items N] [--processes N] [--quiet]\n"
    "Sells N items (100) to N buyers (20000) by N processes (8), without a lock and with one.\n";

static double milliseconds(int64_t ns)
{
    return (double)ns / 1e6;
}

/* The picture begins a little after the sale did, when all are there, and shows two columns for
 * every thinking moment. */
static void show_picture(const struct plan *plan, const struct result *result)
{
    int64_t column_ns = plan->think_ns / 2, first_ns = INT64_MAX;
    for (int i = 0; i < result->stay_count; i++) {
        if (result->stays[i].from_ns < first_ns)
            first_ns = result->stays[i].from_ns;
    }
    printf("\n   Who was at the till: %.1f of %.1f ms, %.2f ms a column\n",
           milliseconds(column_ns * COLUMNS), milliseconds(result->took_ns),
           milliseconds(column_ns));
    picture_draw(result->stays, result->stay_count, plan->processes, first_ns + 4 * column_ns,
                 column_ns, COLUMNS);
}

static void show_books(const struct plan *plan, const struct result *result)
{
    const struct books *books = &result->books;
    int over = books->orders - plan->items;
    printf("   %6d orders for %d items", books->orders, plan->items);
    if (over > 0)
        printf(": OVERSOLD by %d\n", over);
    else
        puts(over == 0 ? ": exactly" : "");
    printf("   %6d lost updates: orders that the stock does not know of\n", books->lost_updates);
    printf("   %6d buyers who got two\n", books->double_orders);
    printf("   %6d at the till at once, at most\n", result->most_at_once);
}

static void show_speed(const struct result *result)
{
    double seconds = milliseconds(result->took_ns) / 1000;
    printf(
        "   %6.0f attempts a second (%d in %.2f s, most of them too late), longest wait %.1f ms\n",
        result->attempts / seconds, result->attempts, seconds,
        milliseconds(result->longest_wait_ns));
}

static bool oversold(const struct plan *plan, const struct result *result)
{
    return result->books.orders > plan->items;
}

/* Each of these would be a broken promise of the lock. */
static bool exact(const struct plan *plan, const struct result *result)
{
    const struct books *books = &result->books;
    int sold = plan->items < plan->buyers ? plan->items : plan->buyers;
    return books->orders == sold && books->stock == plan->items - sold &&
           books->lost_updates == 0 && books->double_orders == 0 && books->stale_tokens == 0 &&
           result->most_at_once == 1 && result->attempts == plan_attempts(plan);
}

static int sell_without_lock(struct plan *plan, bool quiet)
{
    struct result result;
    plan->locked = false;
    for (int tries = 0; tries < MOST_TRIES; tries++, plan->think_ns *= 2) {
        if (sale_run(plan, &result) != 0)
            return 1;
        if (!oversold(plan, &result)) {
            free(result.stays);
            continue;
        }
        printf("\n1. Without a lock\n");
        show_books(plan, &result);
        if (!quiet)
            show_picture(plan, &result);
        free(result.stays);
        return 0;
    }
    fprintf(stderr, "flash_sale: without a lock it did not oversell, so the sale with one would "
                    "prove nothing; try more buyers or more processes\n");
    return 1;
}

static int sell_with_lock(struct plan *plan, bool quiet)
{
    struct result result;
    plan->locked = true;
    if (sale_run(plan, &result) != 0) {
        free(result.stays);
        return 1;
    }
    printf("\n2. With holdfast, %s\n", plan->store);
    show_books(plan, &result);
    show_speed(&result);
    bool good = exact(plan, &result);
    if (good)
        puts("          every order carries a fencing token above the one before");
    else
        fprintf(stderr,
                "flash_sale: the sale with the lock was NOT exact: %d in stock, %d stale "
                "tokens, %d attempts of %d\n",
                result.books.stock, result.books.stale_tokens, result.attempts,
                plan_attempts(plan));
    if (!quiet)
        show_picture(plan, &result);
    free(result.stays);
    return good ? 0 : 1;
}

static bool read_number(const char *text, int least, int most, int *ret)
{
    char *rest;
    long number = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || number < least || number > most) {
        fprintf(stderr, "flash_sale: %s is not a number from %d to %d\n", text, least, most);
        return false;
    }
    *ret = (int)number;
    return true;
}

static bool read_options(int argc, char **argv, struct plan *plan, bool *quiet)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool read = false;
        if (strcmp(argv[i], "--quiet") == 0) {
            *quiet = true;
            continue;
        }
        if (value != NULL && strcmp(argv[i], "--url") == 0) {
            plan->url = value;
            read = true;
        } else if (value != NULL && strcmp(argv[i], "--buyers") == 0)
            read = read_number(value, 2, 1000000, &plan->buyers);
        else if (value != NULL && strcmp(argv[i], "--items") == 0)
            read = read_number(value, 1, 1000000, &plan->items);
        else if (value != NULL && strcmp(argv[i], "--processes") == 0)
            read = read_number(value, 2, 64, &plan->processes);
        if (!read)
            return false;
        i++;
    }
    return true;
}

/* A store that cannot be used should be known before anything is sold. The client is closed again:
 * the processes of the sale open theirs. */
static int look_at_store(struct plan *plan)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    int code = hf_open(&client, plan->url, NULL);
    if (code == HF_OK)
        code = hf_lock(client, "flash-sale/look", 0, NULL, &hold);
    if (code != HF_OK && code != HF_BUSY) {
        fprintf(stderr, "flash_sale: %s\n", hf_last_error()->text);
        hf_close(client);
        return 1;
    }
    hf_unlock(hold);
    snprintf(plan->store, sizeof(plan->store), "%s", hf_url(client));
    hf_close(client);
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = { .buyers = 20000, .items = 100, .processes = 8 };
    bool quiet = false;
    plan.think_ns = FIRST_THINK_NS;
    if (!read_options(argc, argv, &plan, &quiet)) {
        fputs(usage, stderr);
        return EX_USAGE;
    }
    if (look_at_store(&plan) != 0)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("A flash sale: %d items, %d buyers (every seventh clicks twice), %d processes.\n"
           "Stock and orders are plain files: read, think %.1f ms, write back.\n",
           plan.items, plan.buyers, plan.processes, milliseconds(plan.think_ns));
    if (sell_without_lock(&plan, quiet) != 0)
        return 1;
    return sell_with_lock(&plan, quiet);
}
