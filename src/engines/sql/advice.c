/* SPDX-License-Identifier: Apache-2.0 */
/* What a database's failure means to the user: a code, and what to do about it. */
#include "engines/sql/sql.h"

#include <string.h>

int hf__sql_code(enum sql_trouble trouble)
{
    switch (trouble) {
    case SQL_DENIED:
        return HF_DENIED;
    case SQL_LIMIT:
        return HF_ELIMIT;
    case SQL_NO_MEMORY:
        return HF_ENOMEM;
    case SQL_NO_SCHEMA:
    case SQL_SETTING:
        return HF_ECORRUPT;
    case SQL_RANGE:
        return HF_EKIND;
    case SQL_WRONG:
    case SQL_UNFIT:
    case SQL_UNIQUE:
        return HF_EINVAL;
    case SQL_FINE:
    case SQL_AGAIN:
    case SQL_READ_ONLY:
    case SQL_NOT_READY:
    case SQL_LOST:
        break;
    }
    return HF_UNREACHABLE;
}

/* The libraries have no numbers of their own for these. */
static const char *advice_on_tls(const char *text)
{
    if (strstr(text, "does not support"))
        return "; tls=off in the URL does without TLS";
    if (strstr(text, "ertificate") || strstr(text, "SSL"))
        return "; check its certificate, its host in the URL, and the URL's ca=FILE";
    return NULL;
}

/* Only names come this far: a description is made shorter. */
static const char *advice_on_text(const struct sql_failure *failure)
{
    bool of_postgres = failure->native == 0;
    if (strcmp(failure->state, "22001") == 0)
        return "; take a shorter name";
    if (strcmp(failure->state, "22021") == 0 || failure->native == 1300)
        return "; in a table of other programs names are text in UTF-8";
    return of_postgres ? "; the database's encoding has not all characters of this name"
                       : "; the table has not all characters of this name: convert it to utf8mb4";
}

/* By MySQL's numbers, or 0. A session sets the last two by itself, but a proxy may lend another
 * one. */
static const char *advice_on_setting(int native)
{
    switch (native) {
    case 1292:
        return "; the server's time zone skips this hour, or its TIMESTAMP ends: DATETIME columns "
               "hold every time";
    case 0: /* PostgreSQL */
        return "; this layout needs md5(), which a server in FIPS mode refuses: take another "
               "layout, or a server without FIPS mode";
    case 1305: /* MySQL from 9.6 on */
        return "; this layout needs MD5(): INSTALL COMPONENT 'file://component_classic_hashing'";
    case 1665:
        return "; set binlog_format to MIXED or ROW at the server";
    case 1104:
        return "; set sql_big_selects to 1 at the server";
    default:
        return "; set sql_safe_updates to 0 at the server";
    }
}

const char *hf__sql_advice(const struct sql_settings *settings, const struct sql_failure *failure)
{
    const char *on_tls = advice_on_tls(failure->text);
    switch (failure->trouble) {
    case SQL_DENIED:
        return on_tls ? on_tls : "; check user, password and privileges (`holdfast doctor`)";
    case SQL_NO_SCHEMA: {
        if (strcmp(failure->state, "3F000") == 0)
            return "; create the schema, or name another one in the URL (schema=NAME)";
        if (strstr(failure->text, SQL_NO_UNIQUE_KEY))
            return "; add it, as `holdfast schema print` shows";
        if (strstr(failure->text, SQL_HAS_ZONE))
            return "; change it to what `holdfast schema print` shows";
        if (strcmp(failure->state, "42703") == 0 || strcmp(failure->state, "42S22") == 0)
            return "; the table is another program's, or an older version's (`holdfast doctor`)";
        if (settings->layout)
            return "; is it another database? `holdfast schema create` makes the table";
        return "; `holdfast schema create` makes the tables";
    }
    case SQL_SETTING:
        return advice_on_setting(failure->native);
    case SQL_RANGE:
        return settings->layout
                   ? "; the lease ends later than the table can say: take a shorter one"
                   : "; the lock's token or value in hf_lock is too large: set a smaller one";
    case SQL_UNFIT:
        return advice_on_text(failure);
    case SQL_READ_ONLY:
        return "; name the primary server in the URL as well";
    case SQL_WRONG:
        if (strcmp(failure->state, "3D000") == 0 || failure->native == 1049)
            return "; create it, or name another database in the URL";
        break;
    case SQL_FINE:
    case SQL_AGAIN:
    case SQL_UNIQUE:
    case SQL_LIMIT:
    case SQL_NO_MEMORY:
    case SQL_NOT_READY:
    case SQL_LOST:
        break;
    }
    return "";
}
