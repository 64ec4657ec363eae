/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: what was done is counted, at every store alike, and shown as OpenMetrics. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_stats stats_of(const hf_client *client)
{
    hf_stats stats = { .size = sizeof(stats) };

    CHECK_CODE(hf_stats_get(client, &stats), HF_OK);
    return stats;
}

static uint64_t sum(const uint64_t *buckets)
{
    uint64_t count = 0;

    for (int i = 0; i < HF_STATS_BUCKETS; i++)
        count += buckets[i];
    return count;
}

TEST(stats_of_grants_are_exact)
{
    hf_client *client = open_client();
    hf_hold *hold = NULL, *second = NULL;

    for (int i = 0; i < 40; i++)
        give_back(take(client, name_of("one"), HF_MUTEX, 0));
    hf_stats stats = stats_of(client);
    CHECK_INT(stats.granted, 40);
    CHECK_INT(sum(stats.waits), 40);
    CHECK_INT(sum(stats.holds), 40);
    CHECK(stats.requests >= 1); /* local: may release past its queue */
    CHECK_INT(stats.held + stats.waiting, 0);
    hold = take(client, name_of("two"), HF_MUTEX, 1);
    second = take(client, name_of("two"), HF_MUTEX, 1);
    stats = stats_of(client);
    CHECK_INT(stats.granted, 41);
    CHECK_INT(stats.nested, 1);
    CHECK_INT(stats.held, 1);
    give_back(second);
    CHECK_INT(stats_of(client).held, 1);
    give_back(hold);
    stats = stats_of(client);
    CHECK_INT(stats.held, 0);
    CHECK_INT(sum(stats.holds), 41);
    CHECK_INT(stats.lost_ended + stats.lost_not_renewed + stats.lost_taken, 0);
    hf_close(client);
}

/* Where locks are granted without a queue, most are not timed: none may be counted twice. */
TEST(stats_of_many_grants_are_exact)
{
    const unsigned rounds = 1000;
    hf_client *client = open_client();

    if (!store_is_local())
        SKIP("only local: has a path without a clock");
    for (unsigned i = 0; i < rounds; i++)
        give_back(take(client, name_of("one"), HF_MUTEX, 0));
    hf_stats stats = stats_of(client);
    CHECK_INT(stats.granted, rounds);
    CHECK_INT(sum(stats.waits), rounds);
    CHECK(sum(stats.holds) <= rounds && sum(stats.holds) > rounds - 64);
    CHECK_INT(stats.held, 0);
    hf_close(client);
}

TEST(stats_of_refusals_tell_why)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    struct outcome outcome = { 0 };
    hf_request request = 0;

    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    CHECK_INT(stats_of(client).busy, 1);
    CHECK_IN_VAIN(hf_lock(client, name_of("one"), 20, NULL, &(hf_hold *){ NULL }));
    hf_stats stats = stats_of(client);
    CHECK_INT(stats.timed_out + stats.unreachable, 1);
    CHECK_INT(stats.waiting, 0);
    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, &request),
        HF_OK);
    CHECK_INT(stats_of(client).waiting, 1);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    stats = stats_of(client);
    CHECK_INT(stats.canceled, 1);
    CHECK_INT(stats.waiting + stats.granted + stats.failed + stats.held, 0);
    CHECK_INT(sum(stats.waits), 0);
    give_back(hold);
    CHECK_INT(stats_of(other).granted, 1);
    hf_close(client);
    hf_close(other);
}

TEST(stats_of_a_broken_lock_count_one_loss)
{
    hf_client *client = open_client(), *other = open_client();

    need(client, HF_CAP_BREAK);
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    CHECK_CODE(hf_break(other, name_of("one"), NULL, NULL), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_stats stats = stats_of(client);
    CHECK_INT(stats.lost_taken, 1);
    CHECK_INT(stats.lost_ended + stats.lost_not_renewed + stats.held, 0);
    CHECK_INT(sum(stats.holds), 1);
    hf_close(client);
    hf_close(other);
}

TEST(stats_of_a_lease_that_ends_count_one_loss)
{
    hf_client *client = open_client();
    hf_hold *hold = NULL;

    int code =
        hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(100)), &hold);
    if (code == HF_ENOTSUP || code == HF_EINVAL)
        SKIP("the store has no leases of their own");
    CHECK_CODE(code, HF_OK);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    CHECK_INT(stats_of(client).held, 1);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_stats stats = stats_of(client);
    CHECK_INT(stats.lost_ended, 1);
    CHECK_INT(stats.lost_taken + stats.lost_not_renewed + stats.held, 0);
    hf_close(client);
}

TEST(stats_of_a_client_without_a_size_are_refused)
{
    hf_client *client = open_client();
    hf_stats stats = { .size = 0 };
    struct {
        hf_stats stats;
        char after;
    } shorter = { .stats = { .size = offsetof(hf_stats, nested) }, .after = 7 };

    CHECK_ERROR(hf_stats_get(NULL, &stats), HF_EINVAL);
    CHECK_ERROR(hf_stats_get(client, NULL), HF_EINVAL);
    CHECK_ERROR(hf_stats_get(client, &stats), HF_EINVAL);
    stats.size = sizeof(stats) + 1;
    CHECK_ERROR(hf_stats_get(client, &stats), HF_EINVAL);
    CHECK(hf_stats_text(NULL) == NULL);
    /* Of a caller with an older header. */
    shorter.stats.nested = 7;
    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    CHECK_CODE(hf_stats_get(client, &shorter.stats), HF_OK);
    CHECK_INT(shorter.stats.granted, 1);
    CHECK_INT(shorter.stats.nested, 7);
    hf_close(client);
}

/* ---- the text ---- */

/* "name{store="...",...} value": each sample belongs to the family before it. */
static void check_sample(const char *line, const char *family, const char *type)
{
    bool histogram = strcmp(type, "histogram") == 0;
    const char *ending = line + strlen(family);
    char *end = NULL;

    CHECK(strncmp(line, family, strlen(family)) == 0);
    if (strcmp(type, "counter") == 0)
        CHECK(strncmp(ending, "_total{", 7) == 0);
    else if (histogram)
        CHECK(strncmp(ending, "_bucket{", 8) == 0 || strncmp(ending, "_count{", 7) == 0 ||
              strncmp(ending, "_sum{", 5) == 0);
    else
        CHECK_STR(type, "gauge");
    CHECK(strstr(line, "{store=\"") != NULL);
    const char *value = strstr(line, "\"} ");
    CHECK(value != NULL);
    CHECK(strtod(value + 3, &end) >= 0);
    CHECK_INT(*end, 0);
}

TEST(stats_text_is_openmetrics)
{
    hf_client *client = open_client();
    char family[80] = "", type[20] = "", *rest = NULL;
    int samples = 0;

    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    char *text = hf_stats_text(client);
    CHECK(text != NULL);
    CHECK_STR(text + strlen(text) - 6, "# EOF\n");
    CHECK(strstr(text, "\nholdfast_grants_total{store=\"") != NULL);
    CHECK(strstr(text, "\",reason=\"not_renewed\"} 0\n") != NULL);
    CHECK(strstr(text, "\",le=\"1e-06\"} ") != NULL);
    CHECK(strstr(text, "\",le=\"0.001024\"} ") != NULL);
    CHECK(strstr(text, "\",le=\"+Inf\"} 1\n") != NULL);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "# TYPE %79s %19s", family, type) == 2 || line[0] == '#')
            continue;
        check_sample(line, family, type);
        samples++;
    }
    CHECK_INT(samples, 19 + 2 * (HF_STATS_BUCKETS + 2));
    free(text);
    hf_close(client);
}
