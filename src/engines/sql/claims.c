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
    write_number(owner, sql->base.host->id[0]);
    write_number(owner + 8, sql->base.host->id[1]);
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
    hf__task_bytes(task, SQL_P_INFO, task->info, strlen(task->info));
    task->values[SQL_P_INFO_TEXT] = task->values[SQL_P_INFO];
    task->values[SQL_P_INFO_TEXT].type = SQL_TEXT;
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
    hf__task_bytes(task, SQL_P_OWNER, task->owner, SQL_OWNER_SIZE);
    describe(sql, task, op);
    hf__task_number(task, SQL_P_KIND, hf__kind_of(op->in.mode));
    hf__task_number(task, SQL_P_MODE, op->in.mode);
    hf__task_number(task, SQL_P_PERMITS, op->in.permits ? op->in.permits : 1);
    hf__task_number(task, SQL_P_LIMIT, op->in.limit);
    hf__task_number(task, SQL_P_LEASE_US, hf__op_lease_ms(sql, op) * 1000);
    hf__task_number(task, SQL_P_FIXED, op->in.lease_ms > 0);
    hf__task_number(task, SQL_P_ENQUEUE, op->in.enqueue);
    hf__task_number(task, SQL_P_BARGE, op->in.mode == HF_MUTEX);
    hf__task_number(task, SQL_P_KEEP, op->in.keep);
    hf__task_number(task, SQL_P_HELD, (op->engine.word[1] & SQL_HOLDS) != 0);
    return task;
}

void hf__op_finish(struct sql *sql, struct hf_op *op, enum hf_verdict verdict)
{
    if (verdict != HF_REFUSED && verdict != HF_NO_ANSWER)
        hf__waiting_remove(sql, op);
    op->out.verdict = verdict;
    hf__op_done(&sql->base, op);
}

void hf__op_failed(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    bool definite, sent = task->request.sent && answer->failure->trouble == SQL_LOST;
    bool downgrades = task->request.script && op->in.keep != HF_KEEP_NOTHING &&
                      task->request.script->number == SQL_SHARED_RELEASE;
    hf__link_explain(sql, task, answer, &op->out.error, &definite);
    /* It is held either way, and with the same token. */
    if (sent && !downgrades)
        op->engine.word[1] |= SQL_UNSURE;
    /* What may be there from an earlier attempt has to be released. */
    if (op->engine.word[1] & (SQL_UNSURE | SQL_QUEUED))
        definite = false;
    hf__task_free(task);
    hf__op_finish(sql, op, definite ? HF_FAILED : HF_NO_ANSWER);
}
