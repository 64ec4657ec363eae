/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks the store, again and again, and publishes what it has found. */
#include "exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The store is asked for no more than one part in this many of the time. */
#define PAUSES 10
/* hf_inspect gives a silent store up earlier than that. */
#define LATE_MS 15000
#define EXAMINE_MS 60000

struct poll {
    struct exporter *exporter;
    hf_client *client; /* NULL: there is no store yet */
    int64_t examine_at_ms;
    struct exporter_findings findings;
};

/* A misspelt local store is not made; the default one is empty until its first lock. An hf_code. */
static int open_store(struct poll *poll)
{
    hf_client_options options = HF_CLIENT_OPTIONS(.existing_only = true);
    int code = poll->client ? HF_OK : hf_open(&poll->client, poll->exporter->url, &options);

    if (code == HF_UNREACHABLE && hf_last_error()->native == ENOENT &&
        strcmp(poll->exporter->url, CLI_URL_DEFAULT) == 0)
        return HF_OK;
    return code;
}

/* Two servers of a store may have the same finding: it is kept once. */
static bool keep_finding(void *arg, const hf_remark *remark)
{
    struct exporter_findings *findings = arg;
    size_t i = 0;

    if (remark->value || !remark->id)
        return true;
    while (i < findings->count && strcmp(findings->ids[i], remark->id) != 0)
        i++;
    if (i < findings->count || i == EXPORTER_FINDINGS)
        return true;
    snprintf(findings->ids[i], sizeof(findings->ids[i]), "%s", remark->id);
    snprintf(findings->whats[i], sizeof(findings->whats[i]), "%s", remark->what);
    findings->count++;
    return true;
}

static void examine(struct poll *poll)
{
    struct exporter *exporter = poll->exporter;

    if (!poll->client || cli_now_ms() < poll->examine_at_ms)
        return;
    poll->examine_at_ms = cli_now_ms() + EXAMINE_MS;
    poll->findings.count = 0;
    if (hf_examine(poll->client, NULL, keep_finding, &poll->findings) != HF_OK)
        return;
    pthread_mutex_lock(&exporter->mutex);
    exporter->findings = poll->findings;
    pthread_mutex_unlock(&exporter->mutex);
}

/* What was seen before an outage is known after it. */
static void publish(struct exporter *exporter, struct exporter_view *view)
{
    struct exporter_view *last = exporter->view;

    pthread_mutex_lock(&exporter->mutex);
    if (last && !view->up) {
        view->sights = last->sights;
        view->sight_count = last->sight_count;
        last->sights = NULL;
    }
    exporter_strips_add(exporter, view);
    if (!last || last->up != view->up || last->identity != view->identity) {
        exporter->version++;
        pthread_cond_broadcast(&exporter->changed);
    }
    exporter->view = view;
    exporter_texts_forget(exporter);
    pthread_mutex_unlock(&exporter->mutex);
    exporter_view_free(last);
}

/* Asks once and publishes what came of it. For how long the store is left alone then, in ms. */
static int64_t look(struct poll *poll)
{
    struct exporter *exporter = poll->exporter;
    int64_t pause_ms = exporter->settings->interval_ms;
    struct exporter_view *view = open_store(poll) == HF_OK
                                     ? exporter_view_take(exporter, poll->client, exporter->view)
                                     : exporter_view_down(hf_last_error()->text);

    if (!view)
        return pause_ms;
    bool up = view->up;
    if (pause_ms < PAUSES * view->answer_ms)
        pause_ms = PAUSES * view->answer_ms;
    view->valid_until_ms = cli_now_ms() + pause_ms + 3 * view->answer_ms + LATE_MS;
    publish(exporter, view);
    if (up)
        examine(poll);
    return pause_ms;
}

/* Until `stopping`. The thread's loop is ended by hf_close in no other way than by the process. */
static void *run(void *arg)
{
    struct poll *poll = arg;
    struct exporter *exporter = poll->exporter;

    pthread_mutex_lock(&exporter->mutex);
    while (!exporter->stopping) {
        struct timespec until;
        int64_t pause_ms;

        pthread_mutex_unlock(&exporter->mutex);
        pause_ms = look(poll);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += pause_ms / 1000;
        until.tv_nsec += pause_ms % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&exporter->mutex);
        while (!exporter->stopping &&
               pthread_cond_timedwait(&exporter->ends, &exporter->mutex, &until) == 0) {
        }
    }
    pthread_mutex_unlock(&exporter->mutex);
    hf_close(poll->client);
    free(poll);
    return NULL;
}

static bool show_none(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return false;
}

int exporter_poll_begin(struct exporter *exporter, pthread_t *thread)
{
    struct poll *poll = calloc(1, sizeof(*poll));
    int code;

    if (!poll)
        return CLI_INTERNAL;
    poll->exporter = exporter;
    code = open_store(poll);
    /* A store that shows no locks says so without being asked. */
    if (poll->client && !(hf_caps(poll->client) & HF_CAP_INSPECT))
        code = hf_inspect(poll->client, NULL, show_none, NULL);
    if (code == HF_EINVAL || code == HF_ENOTSUP || code == HF_ENOMEM) {
        code = cli_fail(exporter->settings, code, hf_last_error());
        hf_close(poll->client);
        free(poll);
        return code;
    }
    (void)look(poll);
    if (pthread_create(thread, NULL, run, poll) == 0)
        return CLI_OK;
    cli_complain("no thread is left to ask the store");
    hf_close(poll->client);
    free(poll);
    return CLI_INTERNAL;
}
