/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor's files share: facts and findings, and what prints them. */
#ifndef HF_CLI_DOCTOR_DOCTOR_H
#define HF_CLI_DOCTOR_DOCTOR_H

#include "cli/show/show.h"

#include <sys/stat.h>

#define CLI_DOCTOR_KNOWN 32

struct cli_doctor {
    struct cli_client *session;
    const char *name; /* the locks that are looked at; NULL: all */
    unsigned facts, findings;
    unsigned ignored;        /* by --ignore, and not in `findings` */
    unsigned store_findings; /* those that are about the store, ignored or not */
    bool cannot_forget;      /* what a lock of doctor's leaves may not be removed */
    bool refusal_told;       /* one of these may say why a lock is refused */
    /* The findings about the store that were told, and whether it is asked once more: then only
     * others are. */
    char *known[CLI_DOCTOR_KNOWN];
    unsigned known_count;
    bool asks_again;
    char server[256]; /* whose facts were printed last */
    /* The findings as text, until all facts are printed; NULL: printed at once. */
    FILE *told;
    char *text;
    size_t length;
};

/* ---- doctor_report.c ---- */

/* A fact: what is so. */
__attribute__((format(printf, 3, 4))) void
cli_doctor_fact(struct cli_doctor *doctor, const char *key, const char *format, ...);
/* A finding: its name for --ignore, what is wrong, what comes of it, what to do. */
void cli_doctor_finding(struct cli_doctor *doctor, const char *id, const char *what,
                        const char *consequence, const char *cure);

/* ---- doctor_fix.c ---- */

/* What --fix prints of a finding: comments, and the lines to paste, or the cure in words. */
void cli_doctor_fix(FILE *out, const char *url, const char *id, const char *what, const char *cure);
/* ,"fix":[...], with no lines where there are only words. */
void cli_doctor_fix_json(FILE *out, const char *url, const char *id, const char *what,
                         const char *cure);
/* What begins a comment, as that store's tools read it. */
const char *cli_doctor_comment(const char *url);

/* ---- doctor_file.c ---- */

/* The state file of the embedded engine, if the client has one mapped. */
void cli_doctor_check_file(struct cli_doctor *doctor);

/* ---- doctor_places.c ---- */

/* How many clients have the state file `name` of a directory open. False: it is no such file. */
bool cli_doctor_count_sessions(int directory, const char *name, unsigned *count);
/* Names the other directories that this user's clients may use; `own_path` is the store's own. */
void cli_doctor_check_places(struct cli_doctor *doctor, const char *own_path);

#endif
