/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told: sentences of codes and engines, and events. */
#include "core/api/explain.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *advice(int code)
{
    switch (code) {
    case HF_BUSY:
        return "held by other owners; hf_inspect or `holdfast show` shows them";
    case HF_LOST:
        return "the lock had been lost before it was released";
    case HF_UNREACHABLE:
        return "the store did not answer in time; the library cleans up what the request has left";
    case HF_CANCELED:
        return "the request was cancelled";
    default:
        return hf_code_text(code);
    }
}

/* Gives the recommended command its store and its lock, so that it is ready to paste. Without the
 * store: its URL has a password, which is not shown, or needs more quoting than that. */
static void complete_command(const struct hf_client *client, const char *name, hf_error *error)
{
    static const char bare[] = "`holdfast show`";
    char whole[sizeof(error->text)];
    const char *url = client->url.redacted;
    char *command = strstr(error->text, bare);
    bool known = *url && !strchr(url, '\'') && !strstr(url, "***");
    bool named = name && *name != '-' && !strchr(name, '\'');
    int length;

    for (const char *at = name; named && *at; at++)
        named = (unsigned char)*at >= ' ' && *at != 0x7f;
    if (!command || !known)
        return;
    length = snprintf(whole, sizeof(whole), "%.*s`holdfast -e '%s' show%s%s%s`%s",
                      (int)(command - error->text), error->text, url, named ? " '" : "",
                      named ? name : "", named ? "'" : "", command + sizeof(bare) - 1);
    if (length > 0 && (size_t)length < sizeof(whole))
        memcpy(error->text, whole, (size_t)length + 1);
}

void hf__unprefix(const struct hf_client *client, char *text)
{
    if (!client->prefix_length)
        return;
    for (char *at = text; (at = strstr(at, client->prefix)); at++)
        if (at > text && (at[-1] == '"' || at[-1] == '\''))
            memmove(at, at + client->prefix_length, strlen(at + client->prefix_length) + 1);
}

void hf__answer_explain(const struct hf_client *client, hf_error *error, const char *name,
                        const struct hf_answer *answer)
{
    if (!error)
        return;
    /* Why a store does not reply has a code of its own, as that of a reply that cannot be read. */
    if (answer->error && (answer->error->code == answer->code || answer->code == HF_UNREACHABLE)) {
        *error = *answer->error;
        error->code = answer->code;
    } else if (!name)
        hf__error_set(error, answer->code, 0, "%s", advice(answer->code));
    else
        hf__error_set(error, answer->code, 0, "\"%.200s\": %s", name, advice(answer->code));
    if (answer->code == HF_BUSY)
        complete_command(client, name, error);
    hf__unprefix(client, error->text);
}

int hf__answer_settle(const struct hf_client *client, const char *name, struct hf_answer *answer,
                      hf_error *error)
{
    if (answer->code != HF_OK)
        hf__answer_explain(client, error, name, answer);
    free(answer->error);
    answer->error = NULL;
    return answer->code;
}

int hf__answer_return(const struct hf_client *client, const char *name, struct hf_answer *answer)
{
    return hf__answer_settle(client, name, answer, hf__error_last());
}

int hf__answer_fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hf__error_vset(hf__error_last(), code, 0, format, arguments);
    va_end(arguments);
    return code;
}

__attribute__((format(printf, 4, 0))) static void vexplain(hf_error **error, int code, int native,
                                                           const char *format, va_list arguments)
{
    if (!*error)
        *error = hf__calloc(1, sizeof **error);
    /* Without memory the code's own sentence has to do. */
    hf__error_vset(*error, code, native, format, arguments);
}

void hf__explain(hf_error **error, int code, int native, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vexplain(error, code, native, format, arguments);
    va_end(arguments);
}

void hf__op_explain(struct hf_op *op, int code, int native, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vexplain(&op->out.error, code, native, format, arguments);
    va_end(arguments);
}

/* ---- events ---- */

bool hf__host_wants_events(const struct hf_host *host)
{
    return ((const struct hf_client *)host->core)->on_event != NULL;
}

void hf__host_event(const struct hf_host *host, hf_event_type type, const char *name,
                    uint64_t token, const char *text)
{
    const struct hf_client *client = host->core;
    char shown[sizeof((hf_error *)NULL)->text];
    if (!client->on_event)
        return;
    if (client->prefix_length && text) {
        snprintf(shown, sizeof shown, "%s", text);
        hf__unprefix(client, shown);
        text = shown;
    }
    hf_event event = { sizeof event, type, hf__shown_name(client, name), token, text };
    HF_NO_CANCELLATION;
    client->on_event(client->event_arg, &event);
}

/* Under a mutex, so that the sink hears of each change once, and in order. */
void hf__client_heard(struct hf_client *client, bool answered, const hf_error *why)
{
    const char *text = answered ? "the store answers again" : "the store does not answer";
    /* mutant: each-question-that-meets */
    if (atomic_load_explicit(&client->silent, memory_order_relaxed) == !answered)
        return;
    pthread_mutex_lock(&client->silence_mutex);
    if (!answered && !atomic_load(&client->silent))
        atomic_store(&client->silent_since_ms, client->loop.clock(client->loop.arg));
    if (atomic_exchange(&client->silent, !answered) == answered) {
        if (!answered)
            hf__count(client->counts, HF_COUNT_OUTAGES, 1);
        hf__host_event(&client->host, answered ? HF_EVENT_STORE_UP : HF_EVENT_STORE_DOWN, "", 0,
                       why ? why->text : text);
    }
    pthread_mutex_unlock(&client->silence_mutex);
}
