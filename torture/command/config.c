/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a plan; and which stores are near enough to be tortured without a second word. */
#include "command.h"

#include <string.h>
#include <unistd.h>

enum {
    TIME_MS = 60000,
    CLIENTS = 8,
    THREADS = 4,
    LEASE_MS = 500,
    LEASE_MIN_MS = 100,
    /* memcached counts whole seconds, and the leases of a run begin at 0.6 of this. */
    LEASE_SECONDS_MS = 2000,
    LEASE_MAX_MS = 60000,
    RATE = 10000, /* what a store on this machine takes, in the time that a check takes */
    RATE_AFAR = 2000,
    OPERATIONS_MAX = 50000000 /* what a history has room for */
};

/* ---- faults ---- */

/* "stop" means all that begin with "stop-". */
static unsigned faults_named(const char *word, size_t length)
{
    unsigned bits = 0;

    if (length == 3 && strncmp(word, "all", 3) == 0)
        return TORTURE_ALL_FAULTS;
    for (unsigned i = 0; i < TORTURE_FAULTS; i++) {
        const char *name = torture_fault_name((enum torture_fault)i);
        if (strncmp(name, word, length) == 0 && (name[length] == '\0' || name[length] == '-'))
            bits |= 1u << i;
    }
    return bits;
}

static bool parse_faults(const char *list, unsigned *ret)
{
    *ret = 0;
    if (strcmp(list, "none") == 0)
        return true;
    for (;;) {
        size_t length = strcspn(list, ",");
        unsigned bits = length ? faults_named(list, length) : 0;
        if (bits == 0) {
            cli_complain("--faults: there is no fault '%.*s'; holdfast torture --list shows them",
                         (int)length, list);
            return false;
        }
        *ret |= bits;
        if (list[length] == '\0')
            return true;
        list += length + 1;
    }
}

/* ---- hooks ---- */

static struct torture_hook *find_hook(struct cli_torture *torture, const char *name)
{
    struct torture_hook *hook;

    for (unsigned i = 0; i < torture->plan.hook_count; i++)
        if (strcmp(torture->hooks[i].name, name) == 0)
            return &torture->hooks[i];
    if (torture->plan.hook_count == TORTURE_HOOKS_MAX) {
        cli_complain("--hook: more than %u hooks", TORTURE_HOOKS_MAX);
        return NULL;
    }
    hook = &torture->hooks[torture->plan.hook_count++];
    hook->name = name;
    return hook;
}

/* "name=command" or "name:heal=command"; cut up where it stands. */
static bool parse_hook(struct cli_torture *torture, char *text)
{
    char *command = strchr(text, '='), *colon;
    struct torture_hook *hook;
    bool heals;

    if (!command || command == text || !command[1]) {
        cli_complain("--hook '%s' is wrong: write NAME=COMMAND, and NAME:heal=COMMAND for its end",
                     text);
        return false;
    }
    *command++ = '\0';
    colon = strchr(text, ':');
    heals = colon && strcmp(colon, ":heal") == 0;
    if (colon)
        *colon = '\0';
    if ((colon && !heals) || !text[0] || strlen(text) > 24 || faults_named(text, strlen(text))) {
        cli_complain("--hook: '%s' is no name for a hook: 1 to 24 letters, not a fault that is "
                     "there already, and nothing but ':heal' after it",
                     text);
        return false;
    }
    hook = find_hook(torture, text);
    if (hook)
        *(heals ? &hook->heal : &hook->start) = command;
    return hook != NULL;
}

static bool parse_hooks(struct cli_torture *torture)
{
    for (unsigned i = 0; i < torture->settings->name_count; i++)
        if (!parse_hook(torture, torture->settings->names[i]))
            return false;
    for (unsigned i = 0; i < torture->plan.hook_count; i++)
        if (!torture->hooks[i].start) {
            cli_complain("--hook %s:heal has no --hook %s=COMMAND to heal", torture->hooks[i].name,
                         torture->hooks[i].name);
            return false;
        }
    return true;
}

/* ---- which store ---- */

static bool is_loopback(const char *host, size_t length)
{
    static const char *const names[] = { "localhost", "[::1]", "::1", "" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && strncasecmp(names[i], host, length) == 0)
            return true;
    return length > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length;
}

/* Without its port; an address of IP version 6 has colons of its own, in brackets. */
static size_t host_length(const char *host, size_t length)
{
    const char *end = host[0] == '[' ? memchr(host, ']', length) : memchr(host, ':', length);

    if (!end)
        return length;
    return (size_t)(end - host) + (*end == ']');
}

bool cli_torture_is_near(const char *url)
{
    const char *authority = strstr(url, "://"), *at;
    size_t left;

    if (!authority)
        return true; /* no host at all: this machine */
    authority += 3;
    left = strcspn(authority, "/?#");
    for (at = authority + left; at > authority; at--)
        if (at[-1] == '@') {
            left -= (size_t)(at - authority);
            authority = at;
            break;
        }
    for (;;) {
        const char *comma = memchr(authority, ',', left);
        size_t length = comma ? (size_t)(comma - authority) : left;
        if (!is_loopback(authority, host_length(authority, length)))
            return false;
        if (!comma)
            return true;
        authority += length + 1;
        left -= length + 1;
    }
}

static bool choose_deployment(struct cli_torture *torture)
{
    const struct torture_deployment *deployment;
    const char *name = torture->settings->sandbox;

    if (torture->settings->word_count > 0 || torture->settings->engine) {
        cli_complain("--sandbox starts a store of its own: leave the URL out");
        return false;
    }
    for (unsigned i = 0; (deployment = torture_deployment(i)); i++)
        if (strcmp(deployment->name, name) == 0)
            torture->deployment = deployment;
    if (!torture->deployment)
        cli_complain("--sandbox: there is no sandbox '%s'; holdfast torture --list shows them",
                     name);
    return torture->deployment;
}

static bool choose_url(struct cli_torture *torture)
{
    struct cli_settings settings = *torture->settings;

    if (settings.sandbox)
        return choose_deployment(torture);
    if (settings.word_count == 1) {
        if (settings.engine) {
            cli_complain("two stores: the one after torture and the one after -e; give one");
            return false;
        }
        settings.engine = settings.words[0];
    }
    torture->url = cli_url_choose(&settings);
    if (!torture->url)
        return false;
    if (settings.word_count == 1)
        cli_url_hide_password(settings.words[0]);
    snprintf(torture->shown_url, sizeof(torture->shown_url), "%s", torture->url);
    cli_url_hide_password(torture->shown_url);
    return true;
}

/* ---- the whole ---- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

static bool counts_seconds(const struct cli_torture *torture)
{
    const char *word = "memcached";

    return strncmp(torture->deployment ? torture->deployment->name : torture->url, word,
                   strlen(word)) == 0;
}

static bool choose_lease(struct cli_torture *torture)
{
    int64_t asked_ms = torture->settings->lease_ms;
    bool long_ones = counts_seconds(torture);

    torture->plan.lease_ms = or_default(asked_ms, long_ones ? LEASE_SECONDS_MS : LEASE_MS);
    if (!long_ones || torture->plan.lease_ms >= LEASE_SECONDS_MS)
        return true;
    cli_complain("--lease: memcached counts whole seconds; give %d s or more",
                 LEASE_SECONDS_MS / 1000);
    return false;
}

static bool check_sizes(const struct torture_plan *plan)
{
    if (plan->lease_ms < LEASE_MIN_MS || plan->lease_ms > LEASE_MAX_MS) {
        cli_complain("--lease: give from %d ms to %d s", LEASE_MIN_MS, LEASE_MAX_MS / 1000);
        return false;
    }
    if (plan->time_ms / 1000 * plan->rate > OPERATIONS_MAX) {
        cli_complain("--time times --rate is more than %d operations: make one of them smaller",
                     OPERATIONS_MAX);
        return false;
    }
    return true;
}

int cli_torture_plan(struct cli_torture *torture)
{
    const struct cli_settings *settings = torture->settings;
    struct torture_plan *plan = &torture->plan;

    plan->time_ms = or_default(settings->time_ms, TIME_MS);
    plan->clients = (unsigned)or_default(settings->clients, CLIENTS);
    plan->threads = (unsigned)or_default(settings->threads, THREADS);
    plan->rate = (unsigned)or_default(settings->rate, settings->yes ? RATE_AFAR : RATE);
    /* Short enough to be typed again. */
    plan->seed = settings->seed >= 0
                     ? (uint64_t)settings->seed
                     : ((uint64_t)torture_clock_ns() ^ (uint64_t)getpid() << 20) % 1000000000;
    plan->hooks = torture->hooks;
    if (!parse_faults(settings->faults ? settings->faults : "all", &plan->faults) ||
        !parse_hooks(torture) || !choose_url(torture) || !choose_lease(torture) ||
        !check_sizes(plan))
        return CLI_USAGE;
    plan->url = torture->url;
    return CLI_OK;
}
