/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor for databases: what the scripts doctor*.sql have found out. */
#ifndef HF_ENGINES_SQL_DOCTOR_H
#define HF_ENGINES_SQL_DOCTOR_H

#include "engines/common/findings.h"
#include "engines/sql/sql.h"

enum checkup_fact {
    FACT_VERSION,
    FACT_ISOLATION,
    FACT_READ_ONLY,
    FACT_READ_ONLY_INNODB,
    FACT_FLUSH,           /* MySQL: innodb_flush_log_at_trx_commit */
    FACT_FLUSH_BINARY,    /* MySQL: sync_binlog, of use with log_bin */
    FACT_BINARY_LOG,      /* MySQL: log_bin */
    FACT_BINARY_FORMAT,   /* MySQL: binlog_format, of use with log_bin */
    FACT_FSYNC,           /* PostgreSQL */
    FACT_FULL_PAGES,      /* PostgreSQL: full_page_writes */
    FACT_COMMIT,          /* PostgreSQL: synchronous_commit */
    FACT_CONNECTIONS_MAX, /* max_connections */
    FACT_CONNECTIONS,     /* that there are */
    FACT_TIME_ZONE,
    FACT_CLOCK_US,
    FACT_TLS, /* protocol and cipher; empty: none */
    FACT_USER,
    FACT_ROLE,
    FACT_NAMED_LOCK, /* MySQL: "yes", if this session holds the named lock that it has taken */
    FACT_REPLICAS,
    FACT_REPLICAS_AWAITED, /* PostgreSQL: synchronous_standby_names */
    FACT_NODES,            /* Galera: wsrep_cluster_size */
    FACT_NODE_STATE,       /* Galera: "Synced" */
    FACT_NODE_GROUP,       /* Galera: "Primary" */
    FACT_TABLES,           /* how many there are: of our three, or of a layout's one */
    FACT_TABLES_UNSAFE,    /* those that do not survive a crash, or have no transactions */
    FACT_TABLE_DIFFERS,
    FACT_MISSING_RIGHTS,
    FACT_GRANTS,        /* the statements for these */
    FACT_PLACE,         /* the schema (PostgreSQL) or the database of the tables */
    FACT_ELSEWHERE,     /* PostgreSQL: other schemas with such a table */
    FACT_ODD_ROWS,      /* a layout's: how many are in the future by the database's clock */
    FACT_ZONED_COLUMNS, /* a layout's, MySQL: those whose UTC shifts with the session's zone */
    FACT_COUNT
};

#define FACT_SIZE 1200u

struct checkup {
    struct hf_findings findings;
    struct sql *sql;
    unsigned step;
    int64_t asked_ms, answered_ms;
    char facts[FACT_COUNT][FACT_SIZE];
};

/* Empty: not known. */
static inline const char *hf__fact(const struct checkup *checkup, enum checkup_fact fact)
{
    return checkup->facts[fact];
}

/* Says what it is, and what of it endangers locks. */
void hf__checkup_judge(const struct checkup *checkup);

#endif
