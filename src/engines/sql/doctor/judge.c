/* SPDX-License-Identifier: Apache-2.0 */
/* What a database has said about itself, and what of it endangers locks. */
#include "engines/sql/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Our own: hf_lock, hf_hold, hf_wait. */
#define TABLES 3

static int64_t number_of(const struct checkup *checkup, enum checkup_fact fact)
{
    const char *words = hf__fact(checkup, fact);
    return *words ? strtoll(words, NULL, 10) : -1;
}

static bool is(const struct checkup *checkup, enum checkup_fact fact, const char *words)
{
    return strcasecmp(hf__fact(checkup, fact), words) == 0;
}

static bool is_postgres(const struct checkup *checkup)
{
    return checkup->sql->dialect == SQL_POSTGRES;
}

static bool is_pooled(const struct checkup *checkup)
{
    const struct sql *sql = checkup->sql;
    return (sql->connection && sql->connection->pooled) || is(checkup, FACT_NAMED_LOCK, "no");
}

static bool is_galera(const struct checkup *checkup)
{
    return number_of(checkup, FACT_NODES) > 0;
}

/* ---- the version ---- */

static const char *name_of_server(const struct checkup *checkup)
{
    bool mariadb = strstr(hf__fact(checkup, FACT_VERSION), "MariaDB") != NULL;
    return is_postgres(checkup) ? "PostgreSQL" : mariadb ? "MariaDB" : "MySQL";
}

/* These refuse GET_LOCK on a node of a cluster (MDEV-30473); the next releases do not. */
static bool refuses_named_locks(unsigned major, unsigned minor, unsigned patch)
{
    return (major == 10 && minor == 6 && patch == 13) || (major == 10 && minor == 11 && patch == 3);
}

static void look_at_version(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    const char *words = hf__fact(checkup, FACT_VERSION), *name = name_of_server(checkup);
    unsigned major = 0, minor = 0, patch = 0;
    hf__finding_fact(findings, "version", "%s %.80s", name, words);
    if (sscanf(words, "%u.%u.%u", &major, &minor, &patch) < 1)
        return;
    unsigned oldest = is_postgres(checkup) ? 906 : strcmp(name, "MariaDB") == 0 ? 1002 : 800;
    if (major * 100 + minor < oldest)
        hf__finding_danger(findings, "old-version",
                           "it does not know all statements that locks need",
                           "update to PostgreSQL 10, MariaDB 10.2, or MySQL 8, or newer",
                           "%s %.40s is too old", name, words);
    if (is_galera(checkup) && refuses_named_locks(major, minor, patch))
        hf__finding_danger(findings, "old-version",
                           "it refuses GET_LOCK on a node of a cluster: no client can log in",
                           "update to MariaDB 10.6.14, 10.11.4, or newer",
                           "%s %.40s has a known fault", name, words);
}

/* ---- how waiters are told of a release ---- */

static void look_at_pooler(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    if (!is_pooled(checkup))
        return;
    hf__finding_fact(findings, "pooler",
                     "in between: locks are right, hand-overs take longer, and each transaction "
                     "begins with the settings that it needs");
}

/* ---- what the session may do ---- */

static void tell_missing_rights(const struct checkup *checkup, const char *missing)
{
    bool makes = !checkup->sql->settings.layout && number_of(checkup, FACT_TABLES) < TABLES;
    char cure[FACT_SIZE + 100];
    snprintf(cure, sizeof cure, "as the owner of the tables: %s%s", hf__fact(checkup, FACT_GRANTS),
             makes ? " or let another user run what `holdfast schema print USER` shows" : "");
    hf__finding_danger(&checkup->findings, "rights-missing",
                       "locks are refused (HF_DENIED), or cannot be handed over", cure,
                       "this user lacks %.560s", missing);
}

static void look_at_rights(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    const char *missing = hf__fact(checkup, FACT_MISSING_RIGHTS);
    const char *role = hf__fact(checkup, FACT_ROLE);
    hf__finding_fact(findings, "user", "%.120s", hf__fact(checkup, FACT_USER));
    if (!*missing)
        return;
    if (*role && strcasecmp(role, "NONE") != 0)
        hf__finding_fact(findings, "rights", "those of the role %.80s are not looked at", role);
    else
        tell_missing_rights(checkup, missing);
}

/* Two users with different search paths may be inside one lock. A layout's table may belong to
 * another program, which is none of ours. */
static void look_elsewhere(const struct checkup *checkup, const char *place)
{
    const struct hf_findings *findings = &checkup->findings;
    const char *elsewhere = hf__fact(checkup, FACT_ELSEWHERE);
    if (*elsewhere && checkup->sql->settings.layout)
        hf__finding_fact(findings, "other tables", "of the same name, in the schema %.300s",
                         elsewhere);
    else if (*elsewhere)
        hf__finding_danger(findings, "other-schema",
                           "a lock that is held there is free here, so both can run at once",
                           "name one schema in the URL of all clients (schema=NAME), and drop the "
                           "tables that no client uses",
                           "there are tables of holdfast in another schema, too: %.300s (here: "
                           "%.80s)",
                           elsewhere, *place ? place : "none");
}

static void look_at_tables(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    int64_t count = number_of(checkup, FACT_TABLES);
    const struct sql_layout *layout = checkup->sql->settings.layout;
    if (*hf__fact(checkup, FACT_TABLE_DIFFERS))
        hf__finding_danger(findings, "tables-differ",
                           "requests fail (HF_ECORRUPT), or two owners hold the same lock",
                           layout ? "ALTER TABLE, to what `holdfast schema print` shows"
                                  : "`holdfast schema drop` and `create`, while no lock is held",
                           "%s", hf__fact(checkup, FACT_TABLE_DIFFERS));
    const char *place = hf__fact(checkup, FACT_PLACE);
    const char *there = count == (layout ? 1 : TABLES) ? "all are there"
                        : layout     ? "none that this user may see: is it another database?"
                        : count == 0 ? "none yet: the first lock makes them"
                                     : "some are missing: the next lock makes them";
    hf__finding_fact(findings, "tables", "%s, in the %s %.80s", there,
                     is_postgres(checkup) ? "schema" : "database", *place ? place : "(none)");
    look_elsewhere(checkup, place);
    if (*hf__fact(checkup, FACT_TABLES_UNSAFE))
        hf__finding_danger(
            findings, "tables-not-logged",
            "a crash of the server may empty them: two owners may hold the same",
            is_postgres(checkup) ? "ALTER TABLE ... SET LOGGED" : "ALTER TABLE ... ENGINE = InnoDB",
            "these tables do not survive a crash: %.100s", hf__fact(checkup, FACT_TABLES_UNSAFE));
}

static void look_at_writing(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    bool closed = *hf__fact(checkup, FACT_READ_ONLY) && !is(checkup, FACT_READ_ONLY, "OFF");
    if (closed || is(checkup, FACT_READ_ONLY_INNODB, "ON"))
        hf__finding_danger(findings, "read-only",
                           "no lock is granted, unless this user may write all the same; what it "
                           "writes here, the primary does not know",
                           "name the primary in the URL", "this server is read-only");
    if (is_postgres(checkup) && !is(checkup, FACT_ISOLATION, "read committed"))
        hf__finding_danger(findings, "isolation", "requests fail and are repeated, again and again",
                           "ALTER ROLE ... SET default_transaction_isolation = 'read committed'",
                           "statements run at \"%.40s\"", hf__fact(checkup, FACT_ISOLATION));
    else
        hf__finding_fact(findings, "isolation", "%.40s", hf__fact(checkup, FACT_ISOLATION));
}

/* The times of other programs' rows mean something in one zone only. */
static void look_at_rows(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    int64_t odd = number_of(checkup, FACT_ODD_ROWS);
    if (odd > 0)
        hf__finding_danger(findings, "rows-in-the-future",
                           "two owners may hold the same lock: a program has another time zone, or "
                           "a clock of its own",
                           "give the sessions of all programs the server's time zone",
                           "%lld row%s of the table begin%s in the future by the database's clock",
                           (long long)odd, odd == 1 ? "" : "s", odd == 1 ? "s" : "");
    if (*hf__fact(checkup, FACT_ZONED_COLUMNS))
        hf__finding_danger(findings, "time-zone",
                           "two owners may hold the same lock where a program's sessions have "
                           "another time zone; where clocks go forward, no lock is granted for an "
                           "hour",
                           "ALTER TABLE, to what `holdfast schema print` shows, while no lock is "
                           "held; or UTC for the server and all sessions",
                           "UTC is kept in columns of type TIMESTAMP (%.100s), and the server's "
                           "time zone is another one",
                           hf__fact(checkup, FACT_ZONED_COLUMNS));
}

/* ---- the disk ---- */

static void tell_durability(const struct checkup *checkup, const char *what)
{
    hf__finding_danger(&checkup->findings, "not-durable",
                       "a crash of the server forgets the last locks that were granted: two owners "
                       "may hold the same, until the first one's next renewal",
                       "set it to the default, or start a crashed server again only when the "
                       "longest lease is over",
                       "commits do not wait for the disk: %s", what);
}

static void look_at_postgres_disk(const struct checkup *checkup)
{
    bool late = is(checkup, FACT_COMMIT, "off");
    hf__finding_fact(&checkup->findings, "on disk",
                     "fsync = %.10s, synchronous_commit = %.20s, full_page_writes = %.10s",
                     hf__fact(checkup, FACT_FSYNC), hf__fact(checkup, FACT_COMMIT),
                     hf__fact(checkup, FACT_FULL_PAGES));
    if (is(checkup, FACT_FSYNC, "off"))
        tell_durability(checkup, "fsync = off");
    if (is(checkup, FACT_FULL_PAGES, "off"))
        tell_durability(checkup, "full_page_writes = off");
    if (late && !checkup->sql->settings.relaxed)
        tell_durability(checkup, "synchronous_commit = off");
    if (late && checkup->sql->settings.relaxed)
        tell_durability(checkup, "durability=relaxed in the URL");
}

static void look_at_mysql_disk(const struct checkup *checkup)
{
    bool logs = is(checkup, FACT_BINARY_LOG, "ON");
    hf__finding_fact(&checkup->findings, "on disk",
                     "innodb_flush_log_at_trx_commit = %.10s, sync_binlog = %.10s, log_bin = %.10s",
                     hf__fact(checkup, FACT_FLUSH), hf__fact(checkup, FACT_FLUSH_BINARY),
                     hf__fact(checkup, FACT_BINARY_LOG));
    if (!is(checkup, FACT_FLUSH, "1"))
        tell_durability(checkup, "innodb_flush_log_at_trx_commit is not 1");
    if (logs && !is(checkup, FACT_FLUSH_BINARY, "1"))
        tell_durability(checkup, "sync_binlog is not 1: replicas may differ after a crash");
    if (logs && is(checkup, FACT_BINARY_FORMAT, "STATEMENT"))
        hf__finding_danger(&checkup->findings, "binary-log",
                           "no lock is granted: the server refuses to write at READ COMMITTED",
                           "set binlog_format to MIXED or ROW at the server",
                           "binlog_format is STATEMENT");
}

static void look_at_copies(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    int64_t replicas = number_of(checkup, FACT_REPLICAS);
    int64_t nodes = number_of(checkup, FACT_NODES);
    if (replicas > 0 && !*hf__fact(checkup, FACT_REPLICAS_AWAITED))
        hf__finding_danger(findings, "failover-forgets",
                           "a failover to one that lags forgets the last locks: two owners may "
                           "hold the same, until the first one's next renewal",
                           is_postgres(checkup) ? "set synchronous_standby_names"
                                                : "semi-synchronous replication makes it rare",
                           "%lld replica%s: commits do not wait for them", (long long)replicas,
                           replicas == 1 ? " follows" : "s follow");
    if (!is_galera(checkup))
        return;
    hf__finding_fact(findings, "cluster", "%lld nodes, this one is %.40s", (long long)nodes,
                     hf__fact(checkup, FACT_NODE_STATE));
    if (!is(checkup, FACT_NODE_STATE, "Synced") || !is(checkup, FACT_NODE_GROUP, "Primary"))
        hf__finding_danger(findings, "node-not-ready", "no lock is granted here",
                           "let it join the cluster, or name other nodes in the URL",
                           "this node is %.40s, its part of the cluster is %.40s",
                           hf__fact(checkup, FACT_NODE_STATE), hf__fact(checkup, FACT_NODE_GROUP));
}

/* ---- the way there ---- */

static void look_at_connections(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    int64_t most = number_of(checkup, FACT_CONNECTIONS_MAX);
    int64_t now = number_of(checkup, FACT_CONNECTIONS);
    hf__finding_fact(findings, "connections", "%lld of %lld", (long long)now, (long long)most);
    if (most > 0 && now * 10 >= most * 9)
        hf__finding_danger(findings, "connections-full",
                           "the server soon refuses connections, also those of clients that hold "
                           "locks; these are lost when their leases end",
                           "raise max_connections, or share clients",
                           "%lld of %lld connections are in use", (long long)now, (long long)most);
}

static void look_at_tls(const struct checkup *checkup)
{
    const struct hf_findings *findings = &checkup->findings;
    const struct sql_settings *settings = &checkup->sql->settings;
    const char *tls = hf__fact(checkup, FACT_TLS);
    hf__finding_fact(findings, "TLS", "%.120s", *tls ? tls : "none");
    if (hf__sql_is_local(settings))
        return;
    if (!*tls)
        hf__finding_danger(findings, "no-tls",
                           "what listens in between can take over the session, and all locks",
                           "leave out tls=off", "the connection leaves this machine without TLS");
    else if (settings->tls == SQL_TLS_INSECURE)
        hf__finding_danger(findings, "tls-not-verified",
                           "what listens in between can take over the session, and all locks",
                           "tls=verify, with ca=FILE if need be",
                           "the server's certificate is not verified");
}

/* Where the other programs judge by clocks of their own, a wrong one gives locks away too soon. */
static void look_at_clock(const struct checkup *checkup)
{
    const struct sql_layout *layout = checkup->sql->settings.layout;
    bool clients =
        layout && (strcmp(layout->name, "laravel") == 0 || strcmp(layout->name, "int_lock") == 0);
    hf__finding_fact(&checkup->findings, "time zone", "%.60s", hf__fact(checkup, FACT_TIME_ZONE));
    hf__finding_clock(&checkup->findings, "the database's",
                      number_of(checkup, FACT_CLOCK_US) / 1000, checkup->asked_ms,
                      checkup->answered_ms,
                      clients ? "the programs that share this table judge by clocks of their own: "
                                "two owners may hold the same lock"
                              : "once it is set right, leases end too early or too late",
                      "let both machines follow a time server");
}

void hf__checkup_judge(const struct checkup *checkup)
{
    look_at_version(checkup);
    look_at_rights(checkup);
    look_at_tables(checkup);
    look_at_rows(checkup);
    look_at_writing(checkup);
    const char *how;
    if (checkup->sql->settings.layout)
        how = "all waiters poll: the programs that share this table notify no waiter";
    else if (is_pooled(checkup))
        how = "the first two of each queue poll: the pooler in between passes no notifications on";
    else if (is_postgres(checkup))
        how = "LISTEN: a release notifies the next waiter";
    else if (number_of(checkup, FACT_NODES) > 1)
        how = "GET_LOCK between clients of one node; else the first two of each queue poll: named "
              "locks belong to a node of the cluster";
    else
        how = "GET_LOCK: a release notifies the next waiter of the same user, and the head of each "
              "queue polls";
    hf__finding_fact(&checkup->findings, "wake-up", "%s", how);
    look_at_pooler(checkup);
    if (is_postgres(checkup))
        look_at_postgres_disk(checkup);
    else
        look_at_mysql_disk(checkup);
    look_at_copies(checkup);
    look_at_connections(checkup);
    look_at_tls(checkup);
    look_at_clock(checkup);
}
