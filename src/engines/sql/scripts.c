/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts that the build makes of the .sql files. */
#include "engines/sql/scripts.h"

#include <stddef.h>
#include <string.h>

#ifdef HF_SQL_POSTGRES
#include "postgres_scripts.inc"
#endif
#ifdef HF_SQL_MYSQL
#include "mysql_scripts.inc"
#endif

#ifdef HF_SQL_POSTGRES
#include "postgres_layouts.inc"
#endif
#ifdef HF_SQL_MYSQL
#include "mysql_layouts.inc"
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct sql_layout own[] = {
#ifdef HF_SQL_POSTGRES
    [SQL_POSTGRES] = { "", scripts_of_postgres, COUNT_OF(scripts_of_postgres) },
#endif
#ifdef HF_SQL_MYSQL
    [SQL_MYSQL] = { "", scripts_of_mysql, COUNT_OF(scripts_of_mysql) },
#endif
};

static const struct sql_layout *find_layout(const struct sql_layout *layouts, size_t count,
                                            const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

const struct sql_layout *hf__sql_layout(enum sql_dialect dialect, const char *name)
{
#ifdef HF_SQL_POSTGRES
    if (dialect == SQL_POSTGRES)
        return find_layout(layouts_of_postgres, COUNT_OF(layouts_of_postgres), name);
#endif
#ifdef HF_SQL_MYSQL
    if (dialect == SQL_MYSQL)
        return find_layout(layouts_of_mysql, COUNT_OF(layouts_of_mysql), name);
#endif
    return NULL;
}

const struct sql_script *hf__sql_constant(enum sql_dialect dialect, const struct sql_layout *layout,
                                          enum sql_script_number number)
{
    /* Sessions and servers are the same, whatever the tables. */
    bool of_server = number == SQL_KILL_OLD || number == SQL_DOCTOR ||
                     number == SQL_DOCTOR_SETTINGS || number == SQL_DOCTOR_STATUS;
    const struct sql_layout *from = layout && !of_server ? layout : &own[dialect];
    return number < from->count && from->scripts[number].statements ? &from->scripts[number] : NULL;
}
