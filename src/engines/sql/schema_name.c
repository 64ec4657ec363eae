/* SPDX-License-Identifier: Apache-2.0 */
/* The option schema=NAME: the statements with the schema in front of each table's name. A search
 * path would not do: behind a pooler nothing of a session lasts. */
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Our own tables, and a layout's. */
#define TABLES 4

struct naming {
    const char *tables[TABLES];
    size_t lengths[TABLES];
    char prefix[SQL_PLACE_SIZE], literal[2 * SQL_PLACE_SIZE];
};

struct writer {
    char *at; /* NULL: it only counts */
    size_t length;
};

static void put(struct writer *writer, const char *bytes, size_t length)
{
    if (writer->at)
        memcpy(writer->at + writer->length, bytes, length);
    writer->length += length;
}

size_t hf__schema_name_quote(char *to, const char *text, char mark)
{
    size_t used = 0;
    to[used++] = mark;
    for (; *text; text++) {
        if (*text == mark)
            to[used++] = mark;
        to[used++] = *text;
    }
    to[used++] = mark;
    to[used] = 0;
    return used;
}

/* A table, or a sequence of one. */
static bool is_ours(const struct naming *naming, const char *word, size_t length)
{
    for (unsigned i = 0; i < TABLES; i++) {
        size_t own = naming->lengths[i];
        if (length < own || strncmp(word, naming->tables[i], own) != 0)
            continue;
        if (length == own || (length > own + 4 && strncmp(word + length - 4, "_seq", 4) == 0))
            return true;
    }
    return false;
}

static size_t length_of_word(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

static void write_named(struct writer *writer, const struct naming *naming, const char *text)
{
    static const char find[] = "to_regclass(";
    while (*text) {
        size_t length = length_of_word(text);
        const char *end = *text == '\'' || *text == '"' ? strchr(text + 1, *text) : NULL;
        if (length > 0 && is_ours(naming, text, length)) {
            put(writer, naming->prefix, strlen(naming->prefix));
        } else if (strncmp(text, find, sizeof find - 1) == 0) {
            length = sizeof find - 1;
            put(writer, text, length);
            put(writer, naming->literal, strlen(naming->literal));
            put(writer, " || ", 4);
            text += length;
            continue;
        } else if (length == 0) {
            length = end ? (size_t)(end - text) + 1 : 1;
        }
        put(writer, text, length);
        text += length;
    }
    put(writer, "", 1);
}

struct sql_named {
    struct sql_script scripts[SQL_SCRIPT_COUNT];
    struct sql_statement *statements; /* of all scripts */
    char *text;
};

/* Counts what all scripts take, or writes them. */
static struct writer name_all(const struct sql *sql, const struct naming *naming, char *text,
                              unsigned *ret_count)
{
    struct sql_named *named = text ? sql->named : NULL;
    struct writer writer = { .at = text };
    *ret_count = 0;
    for (unsigned i = 0; i < SQL_SCRIPT_COUNT; i++) {
        const struct sql_script *script =
            hf__sql_constant(sql->dialect, sql->settings.layout, (enum sql_script_number)i);
        if (named && script) {
            named->scripts[i] = *script;
            named->scripts[i].statements = named->statements + *ret_count;
        }
        for (unsigned j = 0; script && j < script->count; j++, ++*ret_count) {
            if (named) {
                named->statements[*ret_count] = script->statements[j];
                named->statements[*ret_count].text = text + writer.length;
            }
            write_named(&writer, naming, script->statements[j].text);
        }
    }
    return writer;
}

bool hf__schema_name_open(struct sql *sql)
{
    struct naming naming;
    unsigned count;
    if (!*sql->settings.schema)
        return true;
    sql->named = hf__calloc(1, sizeof *sql->named);
    if (!sql->named)
        return false;
    static const char made[] = "CREATE TABLE IF NOT EXISTS ";
    static const char *const own[] = { "hf_lock", "hf_hold", "hf_wait" };
    const struct sql_script *schema =
        hf__sql_constant(sql->dialect, sql->settings.layout, SQL_SCHEMA);
    for (unsigned i = 0; i < TABLES - 1; i++) {
        naming.tables[i] = own[i];
        naming.lengths[i] = strlen(own[i]);
    }
    naming.tables[TABLES - 1] = schema->statements[0].text + sizeof made - 1;
    naming.lengths[TABLES - 1] = strcspn(naming.tables[TABLES - 1], " (");
    size_t used = hf__schema_name_quote(naming.prefix, sql->settings.schema, '"');
    memcpy(naming.prefix + used, ".", 2);
    hf__schema_name_quote(naming.literal, naming.prefix, '\'');
    struct writer counted = name_all(sql, &naming, NULL, &count);
    sql->named->statements = hf__calloc(count, sizeof *sql->named->statements);
    sql->named->text = hf__calloc(1, counted.length);
    if (!sql->named->statements || !sql->named->text)
        return false;
    name_all(sql, &naming, sql->named->text, &count);
    return true;
}

void hf__schema_name_close(struct sql *sql)
{
    if (sql->named) {
        free(sql->named->statements);
        free(sql->named->text);
    }
    free(sql->named);
}

const struct sql_script *hf__sql_script(const struct sql *sql, enum sql_script_number number)
{
    if (sql->named)
        return sql->named->scripts[number].statements ? &sql->named->scripts[number] : NULL;
    return hf__sql_constant(sql->dialect, sql->settings.layout, number);
}
