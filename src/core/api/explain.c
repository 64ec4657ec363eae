/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences that callers read, and how an engine explains itself. */
#include "core/api/explain.h"

#include "base/error.h"
#include "base/testing.h"

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
