/* SPDX-License-Identifier: Apache-2.0 */
/* What endangers session locks at this database. What makes them wrong is refused when a session is
 * opened (pool.c), and the doctor ends with that sentence. */
#include "engines/sql/session/session.h"

#include "engines/common/findings.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <string.h>

/* Versions of PostgreSQL, as it numbers them. */
#define IDLE_LIMIT_SINCE 140000

enum column {
    COLUMN_VERSION,
    COLUMN_USER,
    COLUMN_IDLE_LIMIT,
    COLUMN_CONNECTIONS_MAX,
    COLUMN_CONNECTIONS,
    COLUMN_REPLICAS,
    COLUMN_CLOCK_US,
    COLUMN_VERSION_NUMBER
};

static int text_length(const struct sql_value *value)
{
    return value && value->bytes ? (int)value->length : 0;
}

static void tell_text(const struct hf_findings *findings, const char *what,
                      const struct sql_answer *answer, enum column column)
{
    const struct sql_value *value = hf__answer_field(answer, 0, column);
    if (value && value->type == SQL_NUMBER)
        hf__finding_fact(findings, what, "%lld s", (long long)value->number);
    else if (text_length(value) > 0)
        hf__finding_fact(findings, what, "%.*s", text_length(value), value->bytes);
}

static bool is_proxy(const struct sql_answer *answer)
{
    static const char *const words[] = { "ProxySQL", "axscale", "axScale", "readwritesplit" };
    const struct sql_value *version = hf__answer_field(answer, 0, COLUMN_VERSION);
    char text[120];
    snprintf(text, sizeof text, "%.*s", text_length(version),
             text_length(version) ? version->bytes : "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

static void judge(const struct sessions *all, const struct hf_findings *findings,
                  const struct sql_answer *answer)
{
    int64_t most = hf__session_field(answer, 0, COLUMN_CONNECTIONS_MAX);
    int64_t used = hf__session_field(answer, 0, COLUMN_CONNECTIONS);
    int64_t version = hf__session_field(answer, 0, COLUMN_VERSION_NUMBER);
    if (version > 0 && version < IDLE_LIMIT_SINCE)
        hf__finding_danger(findings, "no-idle-limit",
                           "a holder that is stopped keeps its lock until it goes on",
                           "PostgreSQL 14 or newer",
                           "the server does not end a silent session (idle_session_timeout)");
    if (is_proxy(answer))
        hf__finding_danger(
            findings, "proxy",
            "it may give statements to other sessions; holders are told when it does",
            "connect to the server itself, or forbid it to share connections",
            "a proxy is in between");
    if (most > 0 && used * 10 >= most * 9)
        hf__finding_danger(findings, "connections-full",
                           "clients that wait get no session, and poll",
                           "raise max_connections, or lower sessions=N in the URL",
                           "%lld of %lld connections are in use", (long long)used, (long long)most);
    if (hf__session_field(answer, 0, COLUMN_REPLICAS) > 0)
        hf__finding_danger(findings, "failover-forgets",
                           "after a failover each lock is free at once",
                           "fence what locks protect by tokens, or leave layout=session out",
                           "replicas follow, and session locks are not replicated");
    (void)all;
}

static void examined(struct session_request *request, const struct sql_answer *answer)
{
    struct sessions *all = request->seat->all;
    struct hf_findings findings = { .examination = request->oneshot };
    if (answer->failure) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    int64_t answered_ms = hf__finding_wall_ms();
    int64_t asked_ms = answered_ms - (hf__session_now(all) - request->sent_at_ms);
    request->oneshot->contacted = true;
    tell_text(&findings, "server", answer, COLUMN_VERSION);
    tell_text(&findings, "user", answer, COLUMN_USER);
    tell_text(&findings, "a silent session ends after", answer, COLUMN_IDLE_LIMIT);
    hf__finding_fact(&findings, "sessions", "%u at most", all->seat_count);
    judge(all, &findings, answer);
    hf__finding_clock(
        &findings, "the server's", hf__session_field(answer, 0, COLUMN_CLOCK_US) / 1000, asked_ms,
        answered_ms,
        "tokens come from this clock: if it goes back, a later owner has a smaller one",
        "run a time service (NTP) on both machines");
    hf__session_oneshot_ends(all, request->oneshot, HF_OK);
}

void hf__session_diagnose(struct sessions *all, struct hf_oneshot *oneshot)
{
    struct session_request *request = hf__session_request(&all->seats[0], NULL, examined);
    if (!request) {
        hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
        hf__session_oneshot_ends(all, oneshot, HF_ENOMEM);
        return;
    }
    request->oneshot = oneshot;
    request->request.reads = true;
    hf__session_run(request, SESSION_DOCTOR);
}
