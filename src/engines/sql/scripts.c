/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts that the build makes of the .sql files. */
#include "engines/sql/scripts.h"

#include <stddef.h>

#ifdef HF_SQL_POSTGRES
#include "postgres_scripts.inc"
#endif
#ifdef HF_SQL_MYSQL
#include "mysql_scripts.inc"
#endif

static const struct sql_script *find_script(const struct sql_script *scripts, size_t count,
                                            unsigned number)
{
    return number < count && scripts[number].statements ? &scripts[number] : NULL;
}

const struct sql_script *hf__sql_script(enum sql_dialect dialect, enum sql_script_number number)
{
#ifdef HF_SQL_POSTGRES
    if (dialect == SQL_POSTGRES)
        return find_script(scripts_of_postgres,
                           sizeof scripts_of_postgres / sizeof scripts_of_postgres[0], number);
#endif
#ifdef HF_SQL_MYSQL
    if (dialect == SQL_MYSQL)
        return find_script(scripts_of_mysql, sizeof scripts_of_mysql / sizeof scripts_of_mysql[0],
                           number);
#endif
    return NULL;
}
