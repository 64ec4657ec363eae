/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a database about itself: one script after the other, each of which answers pairs of a name
 * and a value. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/sql/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct fact_name {
    const char *name;
    enum checkup_fact fact;
};

/* As the databases call them; case does not matter. */
static const struct fact_name names[] = {
    { "version", FACT_VERSION },
    { "server_version", FACT_VERSION },
    { "transaction_isolation", FACT_ISOLATION },
    { "tx_isolation", FACT_ISOLATION },
    { "read_only", FACT_READ_ONLY },
    { "innodb_read_only", FACT_READ_ONLY_INNODB },
    { "innodb_flush_log_at_trx_commit", FACT_FLUSH },
    { "sync_binlog", FACT_FLUSH_BINARY },
    { "log_bin", FACT_BINARY_LOG },
    { "binlog_format", FACT_BINARY_FORMAT },
    { "fsync", FACT_FSYNC },
    { "full_page_writes", FACT_FULL_PAGES },
    { "synchronous_commit", FACT_COMMIT },
    { "max_connections", FACT_CONNECTIONS_MAX },
    { "connections", FACT_CONNECTIONS },
    { "Threads_connected", FACT_CONNECTIONS },
    { "time_zone", FACT_TIME_ZONE },
    { "TimeZone", FACT_TIME_ZONE },
    { "clock_us", FACT_CLOCK_US },
    { "tls", FACT_TLS },
    { "Ssl_cipher", FACT_TLS },
    { "user", FACT_USER },
    { "role", FACT_ROLE },
    { "named_lock", FACT_NAMED_LOCK },
    { "replicas", FACT_REPLICAS },
    { "Slaves_connected", FACT_REPLICAS },
    { "synchronous_standby_names", FACT_REPLICAS_AWAITED },
    { "wsrep_cluster_size", FACT_NODES },
    { "wsrep_local_state_comment", FACT_NODE_STATE },
    { "wsrep_cluster_status", FACT_NODE_GROUP },
    { "tables", FACT_TABLES },
    { "unsafe_tables", FACT_TABLES_UNSAFE },
    { "table_differs", FACT_TABLE_DIFFERS },
    { "missing_rights", FACT_MISSING_RIGHTS },
    { "grants", FACT_GRANTS },
    { "place", FACT_PLACE },
    { "elsewhere", FACT_ELSEWHERE },
    { "odd_rows", FACT_ODD_ROWS },
    { "zoned_columns", FACT_ZONED_COLUMNS },
};

static const enum sql_script_number steps[] = {
    SQL_DOCTOR,        SQL_DOCTOR_SETTINGS, SQL_DOCTOR_STATUS,
    SQL_DOCTOR_TABLES, SQL_SCHEMA_CHECK,    SQL_DOCTOR_ROWS,
};

#define STEP_COUNT (sizeof steps / sizeof steps[0])

/* A name that comes twice has both values. */
static void note_value(char words[static FACT_SIZE], const struct sql_value *value)
{
    size_t used = strlen(words);
    const char *between = used ? ", " : "";
    if (value->type == SQL_NUMBER)
        snprintf(words + used, FACT_SIZE - used, "%s%lld", between, (long long)value->number);
    else if (value->bytes)
        snprintf(words + used, FACT_SIZE - used, "%s%.*s", between, (int)value->length,
                 value->bytes);
}

static void note_row(struct checkup *checkup, const struct sql_answer *answer, unsigned row)
{
    const struct sql_value *name = hf__answer_field(answer, row, 0);
    const struct sql_value *value = hf__answer_field(answer, row, 1);
    for (size_t i = 0; name && name->bytes && value && i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == name->length &&
            strncasecmp(names[i].name, name->bytes, name->length) == 0) {
            note_value(checkup->facts[names[i].fact], value);
            return;
        }
}

static void finish(struct checkup *checkup, int code)
{
    struct hf_oneshot *oneshot = checkup->findings.examination;
    struct sql *sql = checkup->sql;
    if (code == HF_OK)
        hf__checkup_judge(checkup);
    free(checkup);
    oneshot->engine_pointer = NULL;
    oneshot->code = code;
    hf__oneshot_done(&sql->base, oneshot);
}

/* Where the client libraries find what the URL does not say, and where servers decide. */
static const struct {
    const char *user, *password, *look_at;
} logins[] = {
    [SQL_POSTGRES] = { "none in the URL: PGUSER, else that of this process",
                       "none in the URL: that of PGPASSWORD, or of ~/.pgpass (mode 0600, and a "
                       "line for this host, port, database and user)",
                       "pg_hba.conf: the line for this address, database and user; \\du: may the "
                       "user log in; the server's log has the reason" },
    [SQL_MYSQL] = { "none in the URL: that of [client] in ~/.my.cnf, else that of this process",
                    "none in the URL: that of [client] in ~/.my.cnf",
                    "SELECT user, host, plugin FROM mysql.user: an account is a user and the host "
                    "that the server sees, and the refusal names both" },
};

/* The refusal's advice is to ask the doctor: it tells what the advice is about. */
static void tell_login(const struct checkup *checkup, hf_error *refusal)
{
    const struct hf_findings *findings = &checkup->findings;
    const struct sql_settings *settings = &checkup->sql->settings;
    char *advice = strstr(refusal->text, " (`holdfast doctor`)");
    if (!advice)
        return;
    *advice = '\0';
    if (hf__peer_is_ready(&checkup->sql->peer))
        return;
    hf__finding_fact(findings, "connection", "%.120s, %s", settings->shown,
                     settings->places[0].socket     ? "a socket"
                     : settings->tls == SQL_TLS_OFF ? "without TLS"
                                                    : "with TLS");
    hf__finding_fact(findings, "user", "%.120s%s",
                     settings->user ? settings->user : logins[checkup->sql->dialect].user,
                     settings->user ? ", of the URL" : "");
    hf__finding_fact(findings, "password", "%s",
                     settings->password ? "of the URL" : logins[checkup->sql->dialect].password);
    hf__finding_fact(findings, "look at", "%s", logins[checkup->sql->dialect].look_at);
}

static void ask_next(struct checkup *checkup);

static void step_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct hf_oneshot *oneshot = task->change;
    struct checkup *checkup = oneshot->engine_pointer;
    bool definite;
    int code = HF_OK;
    oneshot->contacted |= task->contacted;
    if (checkup->step == 0)
        checkup->answered_ms = hf__finding_wall_ms();
    /* The table may be missing, or another one: the check of the schema has told that. */
    if (answer->failure && steps[checkup->step] != SQL_DOCTOR_ROWS)
        code = hf__link_explain(task->sql, task, answer, &oneshot->error, &definite);
    /* Which rights are missing is told by another step. */
    if (code == HF_DENIED && steps[checkup->step] == SQL_SCHEMA_CHECK) {
        free(oneshot->error);
        oneshot->error = NULL;
        code = HF_OK;
    }
    if (code == HF_DENIED && oneshot->error)
        tell_login(checkup, oneshot->error);
    for (unsigned row = 0; row < answer->row_count && !answer->failure; row++)
        note_row(checkup, answer, row);
    hf__task_free(task);
    checkup->step++;
    if (code != HF_OK)
        finish(checkup, code);
    else
        ask_next(checkup);
}

static void ask_next(struct checkup *checkup)
{
    struct sql *sql = checkup->sql;
    while (checkup->step < STEP_COUNT && !hf__sql_script(sql, steps[checkup->step]))
        checkup->step++;
    if (checkup->step == STEP_COUNT) {
        finish(checkup, HF_OK);
        return;
    }
    struct sql_task *task = hf__task_new(sql, "", 0);
    if (!task) {
        finish(checkup, HF_ENOMEM);
        return;
    }
    task->change = checkup->findings.examination;
    task->done = step_answered;
    if (checkup->step == 0)
        checkup->asked_ms = hf__finding_wall_ms();
    hf__link_run(sql, task, steps[checkup->step]);
}

void hf__sql_diagnose(struct sql *sql, struct hf_oneshot *oneshot)
{
    struct checkup *checkup = hf__calloc(1, sizeof *checkup);
    if (!checkup) {
        hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
        oneshot->code = HF_ENOMEM;
        hf__oneshot_done(&sql->base, oneshot);
        return;
    }
    checkup->findings.examination = oneshot;
    checkup->sql = sql;
    oneshot->engine_pointer = checkup;
    ask_next(checkup);
}
