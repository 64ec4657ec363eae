/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the database about its named locks, as the build makes it of the .sql files. */
#include "engines/sql/session/session.h"

#ifdef HF_SQL_POSTGRES
#include "session_postgres.inc"
#endif
#ifdef HF_SQL_MYSQL
#include "session_mysql.inc"
#endif

_Static_assert(SQL_SCRIPT_COUNT + 2 * SESSION_WORD_COUNT <= SQL_SCRIPTS_MAX,
               "more scripts than a connection can prepare");

const struct sql_script *hf__session_script(enum sql_dialect dialect, enum session_word word,
                                            bool pair)
{
    const struct sql_script *script = NULL;
#ifdef HF_SQL_POSTGRES
    if (dialect == SQL_POSTGRES)
        script = &postgres[word][pair];
#endif
#ifdef HF_SQL_MYSQL
    if (dialect == SQL_MYSQL)
        script = &mysql[word][0];
#endif
    (void)pair;
    return script && script->statements ? script : NULL;
}
