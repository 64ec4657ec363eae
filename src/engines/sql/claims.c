/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim is called at the database, and the requests about it. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_number(unsigned char *bytes, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
}

void hf__owner_write(const struct sql *sql, const struct hf_op *op,
                     unsigned char owner[SQL_OWNER_SIZE])
{
    write_number(owner, sql->id[0]);
    write_number(owner + 8, sql->id[1]);
    write_number(owner + 16, op->engine.word[0]);
}

void hf__owner_key(const unsigned char owner[SQL_OWNER_SIZE], char key[HF_OWNER_KEY_SIZE])
{
    for (unsigned i = 0; i < SQL_OWNER_SIZE; i++)
        snprintf(key + (size_t)2 * i, 3, "%02x", owner[i]);
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool hf__owner_read(const char *key, unsigned char owner[SQL_OWNER_SIZE])
{
    if (strlen(key) != (size_t)2 * SQL_OWNER_SIZE)
        return false;
    for (unsigned i = 0; i < SQL_OWNER_SIZE; i++) {
        int high = digit_of(key[2 * i]), low = digit_of(key[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        owner[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

hf_kind hf__kind_of(hf_mode mode)
{
    static const hf_kind kinds[] = {
        [HF_MUTEX] = HF_KIND_MUTEX,     [HF_FAIR] = HF_KIND_FAIR,   [HF_READ] = HF_KIND_RW,
        [HF_UPGRADE] = HF_KIND_RW,      [HF_WRITE] = HF_KIND_RW,    [HF_PERMIT] = HF_KIND_SEMAPHORE,
        [HF_COUNTER] = HF_KIND_COUNTER, [HF_LATCH] = HF_KIND_LATCH,
    };
    return kinds[mode];
}

int64_t hf__op_lease_ms(const struct sql *sql, const struct hf_op *op)
{
    return op->in.lease_ms ? op->in.lease_ms : sql->base.host->lease_ms;
}

void hf__op_set_lease(struct sql *sql, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms)
{
    struct hf_lease *lease = &op->engine.own_lease;
    lease->engine = &sql->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->in.lease_ms > 0 || op->in.attach_key;
    op->out.rests_on = lease;
}

/* What a column of text takes: UTF-8, or of that only what is ASCII. */
static void make_text(char *text, bool ascii)
{
    char *to = text;
    for (size_t length; *text; text += length ? length : 1) {
        length = hf__utf8_length(text);
        if (length == 0 || (ascii && length > 1)) {
            *to++ = '?';
        } else {
            memmove(to, text, length);
            to += length;
        }
    }
    *to = '\0';
}

/* The last character may be cut in its middle. */
static void end_with_character(char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
        length--;
    if (length > 0 && hf__utf8_length(&text[length - 1]) == 0)
        text[length - 1] = '\0';
}

static void set_info(struct sql_task *task)
{
    size_t length = strlen(task->info);
    task->values[SQL_P_INFO] = SQL_SOME_BYTES(task->info, length);
    task->values[SQL_P_INFO_TEXT] = SQL_SOME_TEXT(task->info, length);
}

/* "PID HOST TEXT": read back by inspect.c. Bytes in our own tables, text in those of others. */
static void describe(const struct sql *sql, struct sql_task *task, const struct hf_op *op)
{
    const char *text = op->in.owner_text ? op->in.owner_text : sql->base.host->owner_text;
    const char *host = sql->base.host->host_name;
    int length = snprintf(task->info, sizeof task->info, "%ld %.100s %s", (long)getpid(),
                          host && *host ? host : "-", text ? text : "");
    if ((size_t)length >= sizeof task->info)
        end_with_character(task->info, sizeof task->info - 1);
    if (sql->settings.layout)
        make_text(task->info, sql->ascii_info);
    set_info(task);
}

bool hf__task_shorten_info(struct sql_task *task)
{
    struct sql *sql = task->sql;
    if (!sql->settings.layout || task->values[SQL_P_INFO_TEXT].length == 0)
        return false;
    if (sql->ascii_info)
        *task->info = '\0';
    else
        make_text(task->info, true);
    sql->ascii_info = true;
    set_info(task);
    return true;
}

bool hf__lease_fits(const struct sql *sql, int64_t lease_ms, hf_error **error)
{
    if (!sql->settings.layout || lease_ms <= SQL_LAYOUT_LEASE_MAX_MS)
        return true;
    hf__explain(error, HF_EINVAL, 0,
                "lease_ms is %lld; in a table of other programs it is %lld (30 years) at most",
                (long long)lease_ms, SQL_LAYOUT_LEASE_MAX_MS);
    return false;
}

struct sql_task *hf__task_about(struct sql *sql, struct hf_op *op)
{
    struct sql_task *task = hf__task_new(sql, op->in.name, op->in.name_length);
    if (!task) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
        return NULL;
    }
    task->op = op;
    hf__owner_write(sql, op, task->owner);
    describe(sql, task, op);
    task->values[SQL_P_OWNER] = SQL_SOME_BYTES(task->owner, SQL_OWNER_SIZE);
    task->values[SQL_P_KIND] = SQL_A_NUMBER(hf__kind_of(op->in.mode));
    task->values[SQL_P_MODE] = SQL_A_NUMBER(op->in.mode);
    task->values[SQL_P_PERMITS] = SQL_A_NUMBER(op->in.permits ? op->in.permits : 1);
    task->values[SQL_P_LIMIT] = SQL_A_NUMBER(op->in.limit);
    task->values[SQL_P_LEASE_US] = SQL_A_NUMBER(hf__op_lease_ms(sql, op) * 1000);
    task->values[SQL_P_FIXED] = SQL_A_NUMBER(op->in.lease_ms > 0);
    task->values[SQL_P_ENQUEUE] = SQL_A_NUMBER(op->in.enqueue);
    task->values[SQL_P_BARGE] = SQL_A_NUMBER(op->in.mode == HF_MUTEX);
    task->values[SQL_P_KEEP] = SQL_A_NUMBER(op->in.keep);
    task->values[SQL_P_HELD] = SQL_A_NUMBER(hf__known_holds(&op->engine.known));
    return task;
}
