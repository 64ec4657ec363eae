/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot verbs: values, breaking, and what concerns a hold's own lease. */
#include "engines/common/other_kind.h"
#include "engines/sql/sql.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void finish(struct sql_task *task, int code)
{
    struct sql *sql = task->sql;
    struct hf_oneshot *change = task->change;
    change->contacted = task->contacted;
    hf__task_free(task);
    change->code = code;
    hf__oneshot_done(&sql->base, change);
}

static void change_failed(struct sql_task *task, const struct sql_answer *answer)
{
    bool definite;
    finish(task, hf__link_explain(task->sql, task, answer, &task->change->error, &definite));
}

/* ---- values ---- */

static uint32_t clamp(int64_t number)
{
    return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static void value_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct hf_oneshot *change = task->change;
    int64_t word = hf__answer_number(answer, 0, 0);
    if (answer->failure) {
        change_failed(task, answer);
        return;
    }
    change->result = clamp(hf__answer_number(answer, 0, 1));
    if (word >= SQL_OTHER_KIND)
        hf__refuse_other_kind(&change->error, change->name, (hf_kind)(word - SQL_OTHER_KIND),
                              (hf_kind)task->values[SQL_P_KIND].number);
    if (word == 3)
        hf__explain(&change->error, HF_ELIMIT, 0,
                    "the counter \"%.200s\" would exceed %u; add less", change->name, UINT32_MAX);
    finish(task, word == 0                ? HF_BUSY
                 : word == 1              ? HF_OK
                 : word >= SQL_OTHER_KIND ? HF_EKIND
                                          : HF_ELIMIT);
}

struct verb {
    enum sql_script_number script;
    int number; /* :verb */
    hf_kind kind;
};

static const struct verb verbs[] = {
    [HF_ONESHOT_SEMAPHORE_SET] = { SQL_SEMAPHORE_SET, 1, HF_KIND_SEMAPHORE },
    [HF_ONESHOT_COUNTER_SET] = { SQL_COUNTER_CHANGE, 1, HF_KIND_COUNTER },
    [HF_ONESHOT_COUNTER_ADD] = { SQL_COUNTER_CHANGE, 2, HF_KIND_COUNTER },
    [HF_ONESHOT_COUNTER_GET] = { SQL_COUNTER_CHANGE, 0, HF_KIND_COUNTER },
    [HF_ONESHOT_COUNTER_REMOVE] = { SQL_COUNTER_CHANGE, 3, HF_KIND_COUNTER },
    [HF_ONESHOT_LATCH_SET] = { SQL_LATCH_CHANGE, 1, HF_KIND_LATCH },
    [HF_ONESHOT_LATCH_DOWN] = { SQL_LATCH_CHANGE, 2, HF_KIND_LATCH },
    [HF_ONESHOT_LATCH_GET] = { SQL_LATCH_CHANGE, 0, HF_KIND_LATCH },
};

static void begin_value(struct sql *sql, struct sql_task *task)
{
    const struct hf_oneshot *change = task->change;
    const struct verb *verb = &verbs[change->verb];
    hf__task_number(task, SQL_P_VALUE, change->value);
    hf__task_number(task, SQL_P_LIMIT, change->value);
    hf__task_number(task, SQL_P_KIND, verb->kind);
    hf__task_number(task, SQL_P_VERB, verb->number);
    task->done = value_answered;
    hf__link_run(sql, task, verb->script);
}

static void rate_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct hf_oneshot *change = task->change;
    int64_t word = hf__answer_number(answer, 0, 0);
    if (answer->failure) {
        change_failed(task, answer);
        return;
    }
    change->delay_us = hf__answer_number(answer, 0, 1);
    if (word >= SQL_OTHER_KIND)
        hf__refuse_other_kind(&change->error, change->name, (hf_kind)(word - SQL_OTHER_KIND),
                              HF_KIND_RATE);
    finish(task, word >= SQL_OTHER_KIND ? HF_EKIND : word == 1 ? HF_OK : HF_BUSY);
}

static void begin_rate(struct sql *sql, struct sql_task *task)
{
    const struct hf_rate_ask *ask = &task->change->rate;
    hf__task_number(task, SQL_P_COST_US, ask->cost_us);
    hf__task_number(task, SQL_P_BURST_US, ask->burst_us);
    hf__task_number(task, SQL_P_WAIT_US, ask->wait_us);
    task->done = rate_answered;
    hf__link_run(sql, task, SQL_RATE_TAKE);
}

/* ---- breaking ---- */

static void break_answered(struct sql_task *task, const struct sql_answer *answer)
{
    int64_t held = hf__answer_number(answer, 0, 0), broken = hf__answer_number(answer, 0, 1);
    if (answer->failure) {
        change_failed(task, answer);
        return;
    }
    task->change->result = clamp(broken);
    finish(task, held > 0 && broken == 0 ? HF_BUSY : HF_OK);
}

/* ---- forgetting ---- */

#define FORGET_TRIES 5u

/* A row that is still too young is asked for again when it is old enough. */
static void forget_answered(struct sql_task *task, const struct sql_answer *answer)
{
    int64_t used = hf__answer_number(answer, 0, 0), left_us = hf__answer_number(answer, 0, 1);
    if (answer->failure)
        change_failed(task, answer);
    else if (used == 0 && left_us > 0 && left_us <= 1000000 && task->tries++ < FORGET_TRIES)
        hf__link_pause(task, left_us / 1000 + 1);
    else
        finish(task, used > 0 ? HF_BUSY : HF_OK);
}

/* ---- a fixed lease ---- */

static void extend_answered(struct sql_task *task, const struct sql_answer *answer)
{
    if (answer->failure)
        change_failed(task, answer);
    else
        finish(task, hf__answer_changed(answer) ? HF_OK : HF_LOST);
}

static void begin_renewal(struct sql *sql, struct sql_task *task)
{
    hf_mode mode = task->change->op->in.mode;
    if (!hf__lease_fits(sql, task->change->lease_ms, &task->change->error)) {
        finish(task, HF_EINVAL);
        return;
    }
    hf__owner_write(sql, task->change->op, task->owner);
    hf__task_bytes(task, SQL_P_OWNER, task->owner, SQL_OWNER_SIZE);
    hf__task_number(task, SQL_P_LEASE_US, task->change->lease_ms * 1000);
    task->done = extend_answered;
    hf__link_run(sql, task,
                 mode == HF_MUTEX || mode == HF_FAIR ? SQL_MUTEX_EXTEND : SQL_SHARED_EXTEND);
}

/* ---- the tables ---- */

#define SCHEMA_TRIES 20u
#define CHECK_TRIES 10u

static const enum sql_script_number schema_scripts[] = {
    [HF_SCHEMA_CREATE] = SQL_SCHEMA,
    [HF_SCHEMA_DROP] = SQL_DROP,
    [HF_SCHEMA_MIGRATE] = SQL_MIGRATE,
    [HF_SCHEMA_CLEAN] = SQL_GC,
};

/* Tables that were there may be another program's, or an older version's. */
static void schema_checked(struct sql_task *task, const struct sql_answer *answer)
{
    const struct sql_settings *settings = &task->sql->settings;
    const struct sql_value *first = hf__answer_field(answer, 0, 1);
    char more[32] = "", fit[64] = "has other columns than holdfast's tables";
    if (answer->failure) {
        change_failed(task, answer);
        return;
    }
    if (!first || !first->bytes) {
        finish(task, HF_OK);
        return;
    }
    /* What another client removes at the same moment looks as if something lacked. */
    if (task->tries < CHECK_TRIES && hf__link_repeat(task))
        return;
    if (answer->row_count > 1)
        snprintf(more, sizeof more, ", and %u more", answer->row_count - 1);
    if (settings->layout)
        snprintf(fit, sizeof fit, "does not fit layout=%s", settings->layout->name);
    hf__explain(
        &task->change->error, HF_ECORRUPT, 0, "a table at %.60s %s: %.*s%s (`holdfast doctor`); %s",
        settings->shown, fit, first->length < 110 ? (int)first->length : 110, first->bytes, more,
        settings->layout ? "alter it to what `holdfast schema print` shows"
                         : "rename it, or if it is an older holdfast's, `holdfast schema drop` and "
                           "`create`");
    finish(task, HF_ECORRUPT);
}

static void schema_answered(struct sql_task *task, const struct sql_answer *answer)
{
    /* Another client makes or removes them at the same moment. */
    if (answer->failure && answer->failure->trouble == SQL_UNIQUE && ++task->tries < SCHEMA_TRIES) {
        hf__link_run(task->sql, task, schema_scripts[task->change->value]);
        return;
    }
    if (answer->failure) {
        change_failed(task, answer);
        return;
    }
    if (task->change->value == HF_SCHEMA_CREATE) {
        task->done = schema_checked;
        task->tries = 0;
        hf__link_run(task->sql, task, SQL_SCHEMA_CHECK);
        return;
    }
    task->change->result = clamp(hf__answer_number(answer, 0, 0));
    finish(task, HF_OK);
}

static void begin_schema(struct sql *sql, struct sql_task *task)
{
    enum sql_script_number script = schema_scripts[task->change->value];
    task->done = schema_answered;
    if (hf__sql_script(sql, script)) {
        hf__link_run(sql, task, script);
        return;
    }
    hf__explain(&task->change->error, HF_EINVAL, 0,
                "there is nothing to migrate: name the table's layout in the URL, as in "
                "?layout=method_lock");
    finish(task, HF_EINVAL);
}

void hf__sql_oneshot(struct hf_engine *engine, struct hf_oneshot *change)
{
    if (change->verb == HF_ONESHOT_INSPECT) {
        hf__sql_inspect(engine, change);
        return;
    }
    if (change->verb == HF_ONESHOT_DIAGNOSE) {
        hf__sql_diagnose((struct sql *)engine, change);
        return;
    }
    struct sql *sql = hf__sql_part(engine, change->name, change->name_length);
    struct sql_task *task = hf__task_new(sql, change->name, change->name_length);
    if (!task) {
        hf__explain(&change->error, HF_ENOMEM, 0, "out of memory for a request");
        change->code = HF_ENOMEM;
        hf__oneshot_done(engine, change);
        return;
    }
    task->change = change;
    if (change->verb == HF_ONESHOT_BREAK) {
        const char *key = task->change->key;
        /* What is no key of ours belongs to no owner. */
        if (key && !hf__owner_read(key, task->key))
            memset(task->key, 0, sizeof task->key);
        if (key)
            hf__task_bytes(task, SQL_P_KEY, task->key, SQL_OWNER_SIZE);
        task->done = break_answered;
        hf__link_run(sql, task, SQL_BREAK);
    } else if (change->verb == HF_ONESHOT_FORGET) {
        task->done = forget_answered;
        hf__link_run(sql, task, SQL_FORGET);
    } else if (change->verb == HF_ONESHOT_RENEW)
        begin_renewal(sql, task);
    else if (change->verb == HF_ONESHOT_SCHEMA)
        begin_schema(sql, task);
    else if (change->verb == HF_ONESHOT_RATE_TAKE)
        begin_rate(sql, task);
    else
        begin_value(sql, task);
}

/* Nothing at the database depends on our being there: the lease alone keeps what is detached. */
void hf__sql_detach(struct hf_engine *engine, struct hf_oneshot *change)
{
    unsigned char owner[SQL_OWNER_SIZE];
    hf__owner_write(hf__sql_part_of(engine, change->op), change->op, owner);
    hf__owner_key(owner, change->key_out);
    change->code = HF_OK;
    hf__oneshot_done(engine, change);
}
