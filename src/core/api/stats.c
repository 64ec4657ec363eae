/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: what a client has counted, as numbers and as text for a monitoring system. */
#include "base/cancel.h"
#include "base/error.h"
#include "core/api/args.h"
#include "core/api/explain.h"
#include "core/claim/claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t read_count(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static uint64_t sum_parts(const struct hf_client *client, unsigned what)
{
    uint64_t sum = 0;
    for (unsigned p = 0; p < HF_COUNT_PARTS; p++)
        sum += read_count(&client->counts[p].at[what]);
    return sum;
}

static void read_outcomes(const struct hf_client *client, hf_stats *stats)
{
    stats->granted = sum_parts(client, HF_COUNT_GRANTED);
    stats->busy = sum_parts(client, HF_COUNT_BUSY);
    stats->timed_out = sum_parts(client, HF_COUNT_TIMED_OUT);
    stats->unreachable = sum_parts(client, HF_COUNT_UNREACHABLE);
    stats->canceled = sum_parts(client, HF_COUNT_CANCELED);
    stats->failed = sum_parts(client, HF_COUNT_FAILED);
    uint64_t ended = stats->granted + stats->busy + stats->timed_out + stats->unreachable +
                     stats->canceled + stats->failed;
    uint64_t asked = sum_parts(client, HF_COUNT_ASKED);
    stats->waiting = asked > ended ? asked - ended : 0;
}

static void read_shards(const struct hf_client *client, hf_stats *stats)
{
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        const struct hf_shard *shard = &client->shards[s];
        uint64_t fast = read_count(&shard->fast_grants);
        stats->granted += fast;
        stats->waits[0] += fast; /* they have waited for nothing */
        stats->nested += read_count(&shard->nested);
        stats->held += read_count(&shard->held);
    }
}

static void read_stats(const struct hf_client *client, hf_stats *stats)
{
    *stats = (hf_stats){
        .size = sizeof *stats,
        .lost_ended = sum_parts(client, HF_COUNT_LOST_ENDED),
        .lost_not_renewed = sum_parts(client, HF_COUNT_LOST_NOT_RENEWED),
        .lost_taken = sum_parts(client, HF_COUNT_LOST_TAKEN),
        .renewals = sum_parts(client, HF_COUNT_RENEWALS),
        .renewal_late_ms = read_count(&client->renewal_late_ms),
        .requests = sum_parts(client, HF_COUNT_REQUESTS),
        .unanswered = sum_parts(client, HF_COUNT_UNANSWERED),
        .reconnects = read_count(&client->reconnects),
        .outages = sum_parts(client, HF_COUNT_OUTAGES),
        .silent = atomic_load_explicit(&client->silent, memory_order_relaxed),
        .wait_us = sum_parts(client, HF_COUNT_WAIT_US),
        .hold_us = sum_parts(client, HF_COUNT_HOLD_US),
    };
    for (unsigned i = 0; i < HF_STATS_BUCKETS; i++) {
        stats->waits[i] = sum_parts(client, HF_COUNT_WAITS + i);
        stats->holds[i] = sum_parts(client, HF_COUNT_HOLDS + i);
    }
    read_outcomes(client, stats);
    read_shards(client, stats);
}

int hf_stats_get(const hf_client *client, hf_stats *ret)
{
    hf_stats stats;
    int code = hf__args_client(client, false);
    if (code != HF_OK)
        return code;
    if (!ret || ret->size < sizeof ret->size || ret->size > sizeof *ret)
        return hf__answer_fail(HF_EINVAL, "%s",
                               ret ? "the size of `ret` is not sizeof(hf_stats)" : "ret is NULL");
    read_stats(client, &stats);
    stats.size = ret->size;
    memcpy(ret, &stats, ret->size); /* a caller with an older header knows less of it */
    return HF_OK;
}

/* ---- as text ---- */

static void print_store(FILE *out, const char *url)
{
    for (size_t step; *url; url += step) {
        step = hf__utf8_length(url);
        if (step == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*url == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%.*s", *url == '"' || *url == '\\' ? "\\" : "", (int)step, url);
        step = step ? step : 1;
    }
}

/* Without a floating point number: the program's locale may write those with a comma. */
static void print_seconds(FILE *out, uint64_t us)
{
    fprintf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void print_begin(FILE *out, const struct hf_client *client, const char *name)
{
    fprintf(out, "holdfast_%s{store=\"", name);
    print_store(out, client->url.redacted);
}

static void print_family(FILE *out, const char *name, const char *type, const char *help)
{
    const char *unit = strstr(name, "_seconds");
    fprintf(out, "# TYPE holdfast_%s %s\n", name, type);
    if (unit)
        fprintf(out, "# UNIT holdfast_%s seconds\n", name);
    fprintf(out, "# HELP holdfast_%s %s\n", name, help);
}

/* The bounds as OpenMetrics wants them: small ones with an exponent. */
static void print_bound(FILE *out, uint64_t us)
{
    if (us < 10)
        fprintf(out, "%" PRIu64 "e-06", us);
    else if (us < 100)
        fprintf(out, "%" PRIu64 ".%" PRIu64 "e-05", us / 10, us % 10);
    else
        print_seconds(out, us);
}

static void print_histogram(FILE *out, const struct hf_client *client, const char *name,
                            const char *help, const uint64_t *buckets, uint64_t sum_us)
{
    char line[40];
    uint64_t count = 0;
    print_family(out, name, "histogram", help);
    snprintf(line, sizeof line, "%s_bucket", name);
    for (unsigned i = 0; i < HF_STATS_BUCKETS; i++) {
        count += buckets[i];
        print_begin(out, client, line);
        fputs("\",le=\"", out);
        if (i < HF_STATS_BUCKETS - 1)
            print_bound(out, UINT64_C(1) << i);
        else
            fputs("+Inf", out);
        fprintf(out, "\"} %" PRIu64 "\n", count);
    }
    snprintf(line, sizeof line, "%s_count", name);
    print_begin(out, client, line);
    fprintf(out, "\"} %" PRIu64 "\n", count);
    snprintf(line, sizeof line, "%s_sum", name);
    print_begin(out, client, line);
    fputs("\"} ", out);
    print_seconds(out, sum_us);
    fputc('\n', out);
}

struct line {
    const char *family, *type, *help; /* NULL: another line of the family before */
    const char *reason;               /* the label of this name, or NULL */
    uint64_t value;
};

static void print_line(FILE *out, const struct hf_client *client, const char *family,
                       const struct line *line)
{
    char name[40];
    bool counts = strcmp(line->type, "counter") == 0;
    snprintf(name, sizeof name, "%s%s", family, counts ? "_total" : "");
    print_begin(out, client, name);
    if (line->reason)
        fprintf(out, "\",reason=\"%s", line->reason);
    fputs("\"} ", out);
    if (strstr(family, "_seconds"))
        print_seconds(out, line->value * 1000);
    else
        fprintf(out, "%" PRIu64, line->value);
    fputc('\n', out);
}

static void print_stats(FILE *out, const struct hf_client *client, const hf_stats *stats)
{
    static const char counter[] = "counter", gauge[] = "gauge";
    const struct line lines[] = {
        { "grants", counter, "Requests that were granted by the store.", NULL, stats->granted },
        { "nested_grants", counter, "Holds of an owner that held the name.", NULL, stats->nested },
        { "refusals", counter, "Requests that ended without a grant.", "busy", stats->busy },
        { NULL, counter, NULL, "timed_out", stats->timed_out },
        { NULL, counter, NULL, "unreachable", stats->unreachable },
        { NULL, counter, NULL, "canceled", stats->canceled },
        { NULL, counter, NULL, "failed", stats->failed },
        { "losses", counter, "Locks that were lost.", "ended", stats->lost_ended },
        { NULL, counter, NULL, "not_renewed", stats->lost_not_renewed },
        { NULL, counter, NULL, "taken", stats->lost_taken },
        { "renewals", counter, "Renewals of leases that the store has confirmed.", NULL,
          stats->renewals },
        { "renewal_lateness_seconds", gauge, "How late the last renewal was confirmed.", NULL,
          stats->renewal_late_ms },
        { "store_requests", counter, "Requests to the store.", NULL, stats->requests },
        { "store_requests_unanswered", counter, "Requests without a reply in time.", NULL,
          stats->unanswered },
        { "store_reconnects", counter, "Connections that were made again.", NULL,
          stats->reconnects },
        { "store_outages", counter, "How often the store fell silent.", NULL, stats->outages },
        { "store_silent", gauge, "1 if the store is silent now.", NULL, stats->silent },
        { "locks_held", gauge, "Locks that are held now.", NULL, stats->held },
        { "requests_waiting", gauge, "Requests that wait now.", NULL, stats->waiting },
    };
    const char *family = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (lines[i].family) {
            family = lines[i].family;
            print_family(out, family, lines[i].type, lines[i].help);
        }
        print_line(out, client, family, &lines[i]);
    }
    print_histogram(out, client, "wait_seconds", "How long granted requests had waited.",
                    stats->waits, stats->wait_us);
    print_histogram(out, client, "hold_seconds", "How long locks were held.", stats->holds,
                    stats->hold_us);
    fputs("# EOF\n", out);
}

char *hf_stats_text(const hf_client *client)
{
    HF_NO_CANCELLATION;
    char *text = NULL;
    size_t size = 0;
    hf_stats stats;
    if (hf__args_client(client, false) != HF_OK)
        return NULL;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        read_stats(client, &stats);
        print_stats(out, client, &stats);
    }
    if (!out || fclose(out) != 0) {
        free(text);
        hf__answer_fail(HF_ENOMEM, "out of memory for the text");
        return NULL;
    }
    return text;
}
