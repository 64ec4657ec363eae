/* SPDX-License-Identifier: Apache-2.0 */
/* sem and counter: numbers at the store that bound how many, or count what is there. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

/* What a verb's subcommand is called with. */
struct call {
    struct cli_settings *settings;
    struct cli_client *session;
    const char *name;
    bool has_number;
    uint32_t number;
};

struct action {
    const char *verb, *name;
    bool needs_number, changes;
    int (*run)(const struct call *call);
};

static int sem_answered(const struct call *call, int code)
{
    return code == HF_OK ? CLI_OK : cli_fail(call->settings, code, hf_last_error());
}

static bool keep_object(void *arg, const hf_entry *entry)
{
    if (entry->role != HF_ROLE_OBJECT)
        return true;
    *(hf_entry *)arg = *entry;
    return false;
}

static int sem_set(const struct call *call)
{
    return sem_answered(call, hf_semaphore_set(call->session->client, call->name, call->number));
}

/* A user that is told to create one must not be led to overwrite a stranger's number. */
static int is_no_semaphore(const struct call *call, hf_kind kind)
{
    const char *name = call->name, *typed = cli_typed_name(name);
    const char *command = cli_typed_call(call->settings);

    if (kind == HF_KIND_COUNTER)
        cli_complain("'%s' is a number without a mark: a counter, or, on Redis, a semaphore that "
                     "another client made. Its permits are taken with run --adopt -k; see `%s "
                     "counter %s get`",
                     name, command, typed);
    else if (kind == HF_KIND_LATCH)
        cli_complain("'%s' is in use as a latch; use it as that, or choose another name", name);
    else
        cli_complain("there is no semaphore '%s'; create it with `%s sem %s set M`", name, command,
                     typed);
    return CLI_USAGE;
}

static int sem_get(const struct call *call)
{
    hf_entry object = { .kind = HF_KIND_FREE };
    int code;

    if (!(hf_caps(call->session->client) & HF_CAP_PERMIT)) {
        cli_complain("the store at %s has no semaphores", hf_url(call->session->client));
        return CLI_USAGE;
    }
    code = hf_inspect(call->session->client, call->name, keep_object, &object);

    if (code != HF_OK)
        return sem_answered(call, code);
    if (object.kind != HF_KIND_SEMAPHORE || object.total == 0)
        return is_no_semaphore(call, object.kind);
    if (!call->settings->json) {
        printf("%" PRIu32 "\n", object.value);
        return CLI_OK;
    }
    putchar('{');
    cli_json_name(stdout, call->name, strlen(call->name));
    printf(",\"total\":%" PRIu32 ",\"free\":%" PRIu32 "}\n", object.total, object.value);
    return CLI_OK;
}

static int sem_remove(const struct call *call)
{
    return sem_answered(call, hf_semaphore_set(call->session->client, call->name, 0));
}

static int counter_set(const struct call *call)
{
    return sem_answered(call, hf_counter_set(call->session->client, call->name, call->number));
}

static uint32_t number_or_one(const struct call *call)
{
    return call->has_number ? call->number : 1;
}

static int counter_add(const struct call *call)
{
    return sem_answered(call,
                        hf_counter_add(call->session->client, call->name, number_or_one(call)));
}

static int counter_take(const struct call *call)
{
    const struct cli_settings *settings = call->settings;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_COUNTER, .permits = number_or_one(call));
    hf_error error;
    int code;

    if (options.permits == 0)
        return cli_usage(settings, "counter", "taking 0 from a counter is nothing: take 1 or more");
    code = cli_acquire(call->session, call->name, settings->try_only ? 0 : settings->wait_ms,
                       &options, NULL, &error);
    return code == HF_OK ? CLI_OK : cli_acquire_failed(call->session, call->name, code, &error);
}

static int counter_get(const struct call *call)
{
    uint32_t value = 0;
    int code = hf_counter_get(call->session->client, call->name, &value);

    if (code != HF_OK)
        return sem_answered(call, code);
    if (!call->settings->json) {
        printf("%" PRIu32 "\n", value);
        return CLI_OK;
    }
    putchar('{');
    cli_json_name(stdout, call->name, strlen(call->name));
    printf(",\"value\":%" PRIu32 "}\n", value);
    return CLI_OK;
}

static int counter_remove(const struct call *call)
{
    return sem_answered(call, hf_counter_remove(call->session->client, call->name));
}

static const struct action actions[] = {
    { "sem", "set", true, true, sem_set },
    { "sem", "get", false, false, sem_get },
    { "sem", "rm", false, true, sem_remove },
    { "counter", "set", true, true, counter_set },
    { "counter", "add", false, true, counter_add },
    { "counter", "take", false, false, counter_take }, /* cli_acquire looks */
    { "counter", "get", false, false, counter_get },
    { "counter", "rm", false, true, counter_remove },
};

static const struct action *find_action(const char *verb, const char *name)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(actions[i].verb, verb) == 0 && strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int act(struct cli_settings *settings, const char *verb)
{
    const struct action *action =
        settings->word_count >= 2 ? find_action(verb, settings->words[1]) : NULL;
    struct cli_client session;
    struct call call = { .settings = settings, .session = &session, .name = settings->words[0] };
    hf_error error;
    int64_t number = 0;
    int code;

    if (!action || settings->word_count > 3)
        return cli_usage(settings, verb,
                         strcmp(verb, "sem") == 0
                             ? "a name, and one of set M, get, rm are needed"
                             : "a name, and one of set N, add [N], take [N], get, rm are needed");
    call.has_number = settings->word_count == 3;
    if (action->needs_number != call.has_number && action->run != counter_add &&
        action->run != counter_take)
        return cli_usage(settings, verb,
                         action->needs_number ? "a number is needed as well"
                                              : "there is a word too many");
    if (call.has_number && !cli_number_parse(settings->words[2], UINT32_MAX, &number))
        return cli_usage(settings, verb, "the number must be a whole one from 0 to 4294967295");
    call.number = (uint32_t)number;
    code = cli_session_open(&session, settings, settings->owner_text);
    if (code != CLI_OK)
        return code;
    if (action->changes && !cli_may_use_number(&session, call.name, &error))
        code = cli_fail(settings, HF_EKIND, &error);
    else
        code = action->run(&call);
    cli_session_close(&session);
    return code;
}

int cli_sem(struct cli_settings *settings)
{
    return act(settings, "sem");
}

int cli_counter(struct cli_settings *settings)
{
    return act(settings, "counter");
}
