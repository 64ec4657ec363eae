/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts in libpq's pipeline mode. What is sent between two Syncs is one transaction for the
 * server, so a script needs neither BEGIN nor COMMIT, and one that fails takes nothing else with
 * it. */
#include "base/testing.h"
#include "core/engine.h"
#include "engines/sql/driver/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types of parameters and fields, as the server numbers them. */
#define OID_BOOL 16u
#define OID_BYTES 17u
#define OID_INT8 20u
#define OID_INT2 21u
#define OID_INT4 23u
#define OID_TEXT 25u

#define PARAMETERS_MAX 32u
#define BINARY 1

static struct pg_item *add_item(struct pg *pg, struct sql_request *request, struct sql_failure *why)
{
    struct hf_link *link = hf__list_pop(&pg->free_items);
    struct pg_item *item =
        link ? HF_CONTAINER(link, struct pg_item, link) : hf__calloc(1, sizeof *item);
    if (!item) {
        *why =
            (struct sql_failure){ .trouble = SQL_NO_MEMORY, .text = "out of memory for a request" };
        return NULL;
    }
    *item = (struct pg_item){ .request = request };
    hf__link_init(&item->link);
    hf__list_append(&pg->sent, &item->link);
    return item;
}

static void free_item(struct pg *pg, struct pg_item *item)
{
    PQclear(item->rows);
    item->rows = NULL;
    hf__link_remove(&item->link);
    hf__list_append(&pg->free_items, &item->link);
}

void hf__pg_drop_items(struct pg *pg)
{
    struct hf_link *link;
    while ((link = hf__list_first(&pg->sent)))
        free_item(pg, HF_CONTAINER(link, struct pg_item, link));
    while ((link = hf__list_pop(&pg->free_items)))
        free(HF_CONTAINER(link, struct pg_item, link));
}

/* ---- sending ---- */

static void name_statement(char name[24], const struct sql_script *script, unsigned index)
{
    snprintf(name, 24, "hf%u_%u", script->number, index);
}

struct parameters {
    Oid types[PARAMETERS_MAX];
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX], formats[PARAMETERS_MAX];
    unsigned char numbers[PARAMETERS_MAX][8];
};

static void fill_parameter(struct parameters *parameters, unsigned i, const struct sql_value *value)
{
    parameters->formats[i] = BINARY;
    if (value->type == SQL_NUMBER) {
        for (unsigned byte = 0; byte < 8; byte++)
            parameters->numbers[i][byte] =
                (unsigned char)((uint64_t)value->number >> (56 - 8 * byte));
        parameters->types[i] = OID_INT8;
        parameters->values[i] = (const char *)parameters->numbers[i];
        parameters->lengths[i] = 8;
    } else {
        parameters->types[i] = value->type == SQL_TEXT ? OID_TEXT : OID_BYTES;
        parameters->values[i] = value->bytes;
        parameters->lengths[i] = (int)value->length;
    }
}

static bool send_statement(struct pg *pg, struct pg_item *item, unsigned index)
{
    const struct sql_script *script = item->request->script;
    const struct sql_statement *statement = &script->statements[index];
    struct parameters parameters;
    char name[24];
    int count = (int)statement->count;
    HF_POINT("sql:message");
    const struct sql_value *values = item->request->values;
    for (unsigned i = 0; i < statement->count; i++)
        fill_parameter(&parameters, i, &values[statement->numbers[i]]);
    /* A pooler may give the next transaction another session. */
    if (pg->base.pooled)
        return PQsendQueryParams(pg->pg, statement->text, count, parameters.types,
                                 parameters.values, parameters.lengths, parameters.formats, BINARY);
    name_statement(name, script, index);
    if (!(pg->prepared[script->number] & 1u << index)) {
        if (!PQsendPrepare(pg->pg, name, statement->text, count, parameters.types))
            return false;
        item->prepares |= 1u << index;
        pg->prepared[script->number] |= (uint16_t)(1u << index);
    }
    return PQsendQueryPrepared(pg->pg, name, count, parameters.values, parameters.lengths,
                               parameters.formats, BINARY);
}

static void skip_to_next(struct pg_item *item)
{
    item->preparing = item->prepares & 1u << item->position;
}

static bool end_item(struct pg *pg, bool sent, struct sql_failure *why)
{
    if (sent && PQpipelineSync(pg->pg)) {
        hf__loop_defer(pg->base.host->loop, &pg->flush);
        return true;
    }
    hf__pg_failure_of_connection(why, pg->pg);
    why->trouble = SQL_LOST;
    return false;
}

bool hf__pg_send(struct pg *pg, struct sql_request *request, struct sql_failure *why)
{
    struct pg_item *item = add_item(pg, request, why);
    if (!item)
        return false;
    request->sent = true;
    item->preluding = pg->base.pooled;
    bool sent = !pg->base.pooled ||
                PQsendQueryParams(pg->pg, pg->prelude, 0, NULL, NULL, NULL, NULL, BINARY);
    for (unsigned i = 0; i < request->script->count && sent; i++)
        sent = send_statement(pg, item, i);
    skip_to_next(item);
    return end_item(pg, sent, why);
}

bool hf__pg_send_text(struct pg *pg, const char *text, struct sql_request *request,
                      pg_finished *finished, struct sql_failure *why)
{
    struct pg_item *item = add_item(pg, request, why);
    if (!item)
        return false;
    item->finished = finished;
    return end_item(pg, PQsendQueryParams(pg->pg, text, 0, NULL, NULL, NULL, NULL, 0), why);
}

/* ---- results ---- */

static struct sql_value read_field(const PGresult *rows, int row, int column)
{
    struct sql_value value = { .type = SQL_NULL };
    if (PQgetisnull(rows, row, column))
        return value;
    value.bytes = PQgetvalue(rows, row, column);
    value.length = (uint32_t)PQgetlength(rows, row, column);
    Oid type = PQftype(rows, column);
    value.type = type == OID_BYTES ? SQL_BYTES : SQL_TEXT;
    if (type != OID_INT8 && type != OID_INT4 && type != OID_INT2 && type != OID_BOOL)
        return value;
    value.type = SQL_NUMBER;
    uint64_t number = *value.bytes & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < (int)value.length; i++)
        number = number << 8 | (unsigned char)value.bytes[i];
    value.number = (int64_t)number;
    return value;
}

/* NULL: out of memory, or no rows. */
static struct sql_value *read_fields(const PGresult *rows, struct sql_answer *answer)
{
    size_t count = answer->row_count * answer->column_count;
    struct sql_value *fields = count ? hf__calloc(count, sizeof *fields) : NULL;
    for (size_t i = 0; fields && i < count; i++)
        fields[i] =
            read_field(rows, (int)(i / answer->column_count), (int)(i % answer->column_count));
    return fields;
}

static void answer_request(struct sql_request *request, const PGresult *rows,
                           const struct sql_failure *failure)
{
    static const struct sql_failure no_memory = { .trouble = SQL_NO_MEMORY,
                                                  .text = "out of memory" };
    struct sql_answer answer = { .failure = failure };
    struct sql_value *fields = NULL;
    if (!failure && rows) {
        answer.row_count = (unsigned)PQntuples(rows);
        answer.column_count = (unsigned)PQnfields(rows);
        answer.fields = fields = read_fields(rows, &answer);
    }
    if (!fields && answer.row_count * answer.column_count > 0)
        answer = (struct sql_answer){ .failure = &no_memory };
    request->answered(request, &answer);
    free(fields);
}

static void item_finished(struct pg *pg, struct pg_item *item)
{
    struct pg_item whole = *item;
    item->rows = NULL;
    if (whole.failed) {
        /* What was to be prepared behind the failure is not there; nor is what failed, if that was
         * the preparing, or if the server does not know it. */
        bool exists = strcmp(whole.failure.state, "42P05") == 0;
        bool unknown = strcmp(whole.failure.state, "26000") == 0;
        /* mutant: prepared-before-failure */
        bool missing = (whole.preparing && !exists) || unknown;
        unsigned lost = whole.prepares & ~((2u << whole.position) - 1);
        if (missing)
            lost |= 1u << whole.position;
        if (whole.request && !whole.finished)
            pg->prepared[whole.request->script->number] &= (uint16_t)~lost;
    }
    free_item(pg, item);
    const struct sql_failure *failure = whole.failed ? &whole.failure : NULL;
    if (whole.finished)
        whole.finished(pg, whole.rows, failure);
    if (whole.request && !pg->closed)
        answer_request(whole.request, whole.finished ? NULL : whole.rows, failure);
    PQclear(whole.rows);
}

static void result_came(struct pg *pg, struct pg_item *item, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        item_finished(pg, item);
        return;
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (item->preluding || item->preparing) {
            /* The prelude comes first, and nothing is prepared behind it. */
            item->preluding = item->preparing = false;
            PQclear(result);
            return;
        }
        /* The statement's rows stay if they are the script's answer. */
        bool own = item->finished != NULL;
        bool wanted = own || item->position == item->request->script->answer;
        PQclear(wanted ? item->rows : result);
        if (wanted)
            item->rows = result;
        item->position++;
        skip_to_next(item);
        return;
    }
    if (!item->failed && status != PGRES_PIPELINE_ABORTED) {
        item->failed = true;
        hf__pg_failure_of_result(&item->failure, result);
    }
    PQclear(result);
}

void hf__pg_read_results(struct pg *pg)
{
    unsigned nulls = 0;
    pg->inside = true;
    while (!pg->closed && pg->state != PG_BROKEN && !hf__list_empty(&pg->sent) && nulls < 2 &&
           !PQisBusy(pg->pg)) {
        PGresult *result = PQgetResult(pg->pg);
        nulls = result ? 0 : nulls + 1;
        if (result)
            result_came(pg, HF_CONTAINER(hf__list_first(&pg->sent), struct pg_item, link), result);
    }
    pg->inside = false;
}

void hf__pg_lose_requests(struct pg *pg, const struct sql_failure *why)
{
    struct hf_link *link;
    struct sql_failure lost = *why;
    lost.trouble = SQL_LOST;
    while (!pg->closed && (link = hf__list_first(&pg->sent))) {
        struct sql_request *request = HF_CONTAINER(link, struct pg_item, link)->request;
        free_item(pg, HF_CONTAINER(link, struct pg_item, link));
        if (request)
            answer_request(request, NULL, &lost);
    }
}
