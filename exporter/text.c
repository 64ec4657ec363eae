/* SPDX-License-Identifier: Apache-2.0 */
/* The texts made of a view: metrics for Prometheus, and the state of the page as JSON. */
#include "exporter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of one name the page shows the first holders and the first waiters. */
#define OWNERS_SHOWN 20

void exporter_text_release(struct exporter_text *text)
{
    if (!text || --text->references > 0)
        return;
    free(text->bytes);
    free(text);
}

void exporter_texts_forget(struct exporter *exporter)
{
    exporter_text_release(exporter->metrics);
    exporter_text_release(exporter->state);
    exporter->metrics = exporter->state = NULL;
}

const struct exporter_view *exporter_view_now(struct exporter *exporter)
{
    struct exporter_view *view = exporter->view;

    if (view && view->up && cli_now_ms() > view->valid_until_ms) {
        view->up = false;
        snprintf(view->error, sizeof(view->error), "the store has not answered for %d s",
                 (int)((cli_now_ms() - view->taken_ms) / 1000));
        exporter->version++;
        exporter_texts_forget(exporter);
    }
    return view;
}

static struct exporter_text *
write_text(const struct exporter *exporter, const struct exporter_view *view,
           void (*print)(FILE *, const struct exporter *, const struct exporter_view *))
{
    struct exporter_text *text = calloc(1, sizeof(*text));
    FILE *out = text ? open_memstream(&text->bytes, &text->length) : NULL;

    if (out)
        print(out, exporter, view);
    if (out && fclose(out) == 0) {
        text->references = 1;
        return text;
    }
    if (text)
        free(text->bytes);
    free(text);
    return NULL;
}

static void print_family(FILE *out, const char *name, const char *help)
{
    fprintf(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s gauge\n", name, help, name);
}

static void print_store(FILE *out, const struct exporter *exporter,
                        const struct exporter_view *view)
{
    const struct {
        const char *name, *help;
        double value;
        int digits;
    } gauges[] = {
        { "store_up", "1 if the store has answered when it was asked last.", view->up, 0 },
        { "store_answer_seconds", "How long its last answer took.", (double)view->answer_ms / 1000,
          3 },
        { "store_names_in_use", "Names that are held or waited for, or have a value.",
          (double)view->names, 0 },
        { "store_holders", "Holders of all names.", (double)view->holders, 0 },
        { "store_waiters", "Waiters of all names.", (double)view->waiters, 0 },
        { "store_names_left_out", "Names in use that --top leaves out below.",
          (double)(view->lock_count - view->shown), 0 },
    };

    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        print_family(out, gauges[i].name, gauges[i].help);
        fprintf(out, "holdfast_%s %.*f\n", gauges[i].name, gauges[i].digits, gauges[i].value);
        /* A silent store has no locks that are known. */
        if (!view->up) /* mutant: silent-store-shows-locks */
            return;
    }
    print_family(out, "doctor_finding", "1 for each finding about the store.");
    for (size_t i = 0; i < exporter->findings.count; i++) {
        fputs("holdfast_doctor_finding{id=\"", out);
        cli_label_print(out, exporter->findings.ids[i]);
        fputs("\"} 1\n", out);
    }
}

static void print_label(FILE *out, const struct exporter_lock *lock)
{
    fputs("{name=\"", out);
    cli_label_print(out, lock->name);
    /* Two names must not become one: Prometheus would refuse them all. */
    if (!cli_is_utf8(lock->name, lock->name_length)) { /* mutant: names-become-one-series */
        fputs("\",name_hex=\"", out);
        for (size_t i = 0; i < lock->name_length; i++)
            fprintf(out, "%02x", (unsigned char)lock->name[i]);
    }
    fputs("\"} ", out);
}

enum family { HELD, HOLDERS, WAITERS, OLDEST_HOLD, OLDEST_WAIT, LAST_TOKEN, FAMILIES };

static void print_value(FILE *out, const struct exporter_lock *lock, enum family family)
{
    int64_t ms = family == OLDEST_HOLD ? lock->oldest_hold_ms : lock->oldest_wait_ms;

    if (family == OLDEST_HOLD || family == OLDEST_WAIT)
        fprintf(out, "%" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
    else if (family == LAST_TOKEN)
        fprintf(out, "%" PRIu64 "\n", lock->token);
    else
        fprintf(out, "%" PRIu32 "\n",
                family == HELD      ? lock->holders > 0
                : family == HOLDERS ? lock->holders
                                    : lock->waiters);
}

/* Gauges alone, which are written alike for Prometheus and as OpenMetrics. */
static void print_metrics(FILE *out, const struct exporter *exporter,
                          const struct exporter_view *view)
{
    static const char *const families[FAMILIES][2] = {
        { "lock_held", "1 if the name has a holder." },
        { "lock_holders", "Its holders." },
        { "lock_waiters", "Its waiters." },
        { "lock_oldest_hold_seconds", "Age of its oldest hold; 0 if it is not held." },
        { "lock_oldest_wait_seconds", "Age of its oldest wait; 0 if none waits." },
        { "lock_last_token", "Its last fencing token; 0 if there is none." },
    };

    print_store(out, exporter, view);
    for (enum family family = HELD; view->up && family < FAMILIES; family++) {
        print_family(out, families[family][0], families[family][1]);
        for (size_t i = 0; i < view->shown; i++) {
            fprintf(out, "holdfast_%s", families[family][0]);
            print_label(out, &view->locks[i]);
            print_value(out, &view->locks[i], family);
        }
    }
    fputs("# EOF\n", out);
}

static void print_string(FILE *out, const char *key, const char *text)
{
    fprintf(out, ",\"%s\":", key);
    cli_json_string(out, text, strlen(text));
}

static void print_owners(FILE *out, const struct exporter_view *view,
                         const struct exporter_lock *lock, hf_role role, const char *key)
{
    const struct exporter_owner *owner = view->owners + lock->first_owner;
    const struct exporter_owner *end = owner + lock->holders + lock->waiters;
    unsigned printed = 0;

    fprintf(out, ",\"%s\":[", key);
    for (; owner < end && printed < OWNERS_SHOWN; owner++) {
        if (owner->role != role)
            continue;
        fprintf(out, "%s{\"age_ms\":%" PRId64 ",\"permits\":%" PRIu32 ",\"id\":\"%016" PRIx64 "\"",
                printed++ ? "," : "", owner->since_ms, owner->permits, owner->id);
        print_string(out, "text", owner->text);
        print_string(out, "host", owner->host);
        fprintf(out, ",\"pid\":%" PRId64 "}", owner->pid);
    }
    fputc(']', out);
}

static void print_strip(FILE *out, const struct exporter_view *view,
                        const struct exporter_strip *strip)
{
    const struct exporter_lock *lock = strip->lock;

    fputc('{', out);
    cli_json_name(out, strip->name, strip->name_length);
    fprintf(out, ",\"history\":\"%s\"", strip->samples);
    if (lock) {
        fprintf(out, ",\"token\":\"%" PRIu64 "\",\"held\":%" PRIu32 ",\"waited\":%" PRIu32,
                lock->token, lock->holders, lock->waiters);
        print_owners(out, view, lock, HF_ROLE_HOLDER, "holders");
        print_owners(out, view, lock, HF_ROLE_WAITER, "waiters");
    }
    fputc('}', out);
}

static void print_state(FILE *out, const struct exporter *exporter,
                        const struct exporter_view *view)
{
    fprintf(out, "{\"up\":%s,\"every_ms\":%" PRId64, view->up ? "true" : "false",
            exporter->settings->interval_ms);
    print_string(out, "error", view->error);
    print_string(out, "store", exporter->shown_url);
    fprintf(out, ",\"names\":%" PRIu64 ",\"holders\":%" PRIu64 ",\"waiters\":%" PRIu64, view->names,
            view->holders, view->waiters);
    fputs(",\"findings\":[", out);
    for (size_t i = 0; i < exporter->findings.count; i++) {
        fputs(i ? "," : "", out);
        cli_json_string(out, exporter->findings.whats[i], strlen(exporter->findings.whats[i]));
    }
    fputs("],\"locks\":[", out);
    for (size_t i = 0; i < exporter->strip_count; i++) {
        fputs(i ? "," : "", out);
        print_strip(out, view, &exporter->strips[i]);
    }
    fputs("]}", out);
}

static struct exporter_text *once(struct exporter *exporter, struct exporter_text **place,
                                  void (*print)(FILE *, const struct exporter *,
                                                const struct exporter_view *))
{
    const struct exporter_view *view = exporter_view_now(exporter);

    if (!*place && view)
        *place = write_text(exporter, view, print);
    if (*place)
        (*place)->references++;
    return *place;
}

struct exporter_text *exporter_metrics(struct exporter *exporter)
{
    return once(exporter, &exporter->metrics, print_metrics);
}

struct exporter_text *exporter_state(struct exporter *exporter)
{
    return once(exporter, &exporter->state, print_state);
}
