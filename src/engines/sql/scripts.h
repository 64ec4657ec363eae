/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts (.sql files, for each dialect), and the parameters that they name. */
#ifndef HF_ENGINES_SQL_SCRIPTS_H
#define HF_ENGINES_SQL_SCRIPTS_H

#include "engines/sql/driver/driver.h"

enum sql_script_number {
    SQL_SCHEMA,        /* makes the tables, where they are missing */
    SQL_SCHEMA_CHECK,  /* pairs for doctor: what of the tables that there are differs from those */
    SQL_GRANTS,        /* the rights that a user of the tables needs, with USER for its name */
    SQL_KILL_OLD,      /* ends this client's other sessions; how many there still are */
    SQL_MUTEX_ACQUIRE, /* one statement: a free lock, or one that was handed over */
    SQL_MUTEX_WAIT,    /* a place behind a living owner, in few statements */
    SQL_MUTEX_QUEUE,   /* with a place in the queue, and with a look at it */
    SQL_MUTEX_RENEW,
    SQL_MUTEX_EXTEND,
    SQL_MUTEX_RELEASE, /* one statement, where no other owner waits */
    SQL_MUTEX_PASS,    /* from its owner to the first waiter, in few statements */
    SQL_MUTEX_HAND_OVER,
    SQL_RAISE_TOKEN,    /* above the client's token_floor, and to the database's clock */
    SQL_SHARED_ACQUIRE, /* read-write locks and semaphores: owners are rows of hf_hold */
    SQL_SHARED_RENEW,
    SQL_SHARED_EXTEND,
    SQL_SHARED_RELEASE,
    SQL_SEMAPHORE_SET,
    SQL_COUNTER_CHANGE,
    SQL_COUNTER_TAKE,
    SQL_COUNTER_SETTLE, /* the reply of a take has been heard */
    SQL_COUNTER_RETURN, /* ... or no caller hears it */
    SQL_LATCH_CHANGE,
    SQL_LATCH_WAIT,
    SQL_RATE_TAKE,
    SQL_LEAVE_QUEUE,
    SQL_ATTACH,
    SQL_BREAK,
    SQL_FORGET, /* what is kept of a free name; how many rows say that it is in use */
    SQL_INSPECT,
    SQL_INSPECT_ALL,
    SQL_DOCTOR, /* pairs of a fact's name and its value; the next four, too */
    SQL_DOCTOR_SETTINGS,
    SQL_DOCTOR_STATUS,
    SQL_DOCTOR_TABLES, /* where the tables are, and which rights on them are missing */
    SQL_DOCTOR_ROWS,   /* those of a layout that do not fit the clock */
    SQL_DROP,
    SQL_GC,      /* removes rows that no client has used for a week; how many */
    SQL_MIGRATE, /* a layout's: makes the engine's own tables, and copies what is held; how many */
    SQL_SCRIPT_COUNT
};

enum sql_parameter {
    SQL_P_NAME,      /* bytes: the lock's */
    SQL_P_OWNER,     /* 24 bytes: the client's id, and the claim's number */
    SQL_P_KIND,      /* an hf_kind */
    SQL_P_MODE,      /* an hf_mode */
    SQL_P_PERMITS,   /* how many */
    SQL_P_LIMIT,     /* permits in all, for a semaphore that does not exist; 0: it must */
    SQL_P_LEASE_US,  /* the lease's length */
    SQL_P_PLACE_US,  /* how long a place in the queue lasts without a sign of life */
    SQL_P_HAND_US,   /* the longest lease of a lock that is handed over, until it is confirmed */
    SQL_P_INFO,      /* bytes: process, host and text of the owner */
    SQL_P_ENQUEUE,   /* 1: it is going to wait */
    SQL_P_BARGE,     /* 1: it may overtake */
    SQL_P_KEEP,      /* release: an hf_mode that stays, or -1 */
    SQL_P_HELD,      /* 1: this owner holds it already, and wants more */
    SQL_P_VALUE,     /* a number for semaphores, counters, latches; a client's token_floor */
    SQL_P_VERB,      /* an hf_change_verb */
    SQL_P_KEY,       /* 24 bytes: another owner; NULL: all */
    SQL_P_FIXED,     /* 1: the lease is not renewed */
    SQL_P_SESSION,   /* text: what this client's sessions are called */
    SQL_P_NAME_TEXT, /* text: the lock's name, for tables of other programs */
    SQL_P_INFO_TEXT, /* text: the same as info */
    SQL_P_SCHEMA,    /* text: the schema that the URL names, or "" */
    SQL_P_STALE_S,   /* the seconds after which a row of another program is out of date; 0: never */
    SQL_P_COST_US,   /* of a rate limiter: what is taken, */
    SQL_P_BURST_US,  /* how far it may be ahead, */
    SQL_P_WAIT_US,   /* and how long the caller waits */
    SQL_PARAMETER_COUNT
};

/* The scripts for a table of other programs. */
struct sql_layout {
    const char *name;
    const struct sql_script *scripts;
    size_t count;
};

/* NULL: there is none of that name. */
const struct sql_layout *hf__sql_layout(enum sql_dialect dialect, const char *name);
/* `layout` NULL: for the engine's own tables. NULL: there is no such script. */
const struct sql_script *hf__sql_constant(enum sql_dialect dialect, const struct sql_layout *layout,
                                          enum sql_script_number number);

#endif
