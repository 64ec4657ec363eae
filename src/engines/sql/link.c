/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the database that comes back by itself, and the requests on it.
 *
 *     DOWN --a request--> CONNECTING --ready--> GREETING (fencing) --> READY
 *      ^                      |                    |                     |
 *      +------- pause --------+--------------------+---------------------+   (engines/common)
 *
 * What the user never hears of is mended here: deadlocks and the like are repeated, missing tables
 * are made. After a connection was lost with requests out, the server may still execute them: so
 * first the next connection ends the old session (fencing), and only then it asks anything. A
 * pooler lends sessions to other programs, so behind one nothing is ended; docs/engines/postgres.md
 * says what a late request can do there. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/common/poll.h"
#include "engines/sql/sql.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A script that the server rolls back each time is not asked for ever. */
#define TRIES_MAX 40u
#define AGAIN_MIN_MS 1
#define AGAIN_MAX_MS 64
/* The new connection looks whether the old session has ended, FENCE_TRIES times at most. */
#define FENCE_TRIES 40u

static struct sql *sql_of(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct sql, peer);
}

static struct hf_loop *sql_loop_of(const struct sql *sql)
{
    return sql->base.host->loop;
}

/* ---- failures ---- */

static void break_link(struct sql *sql, const struct sql_failure *failure)
{
    hf__peer_break(&sql->peer, hf__sql_code(failure->trouble), failure->native, "%.150s%s%s%s%s",
                   failure->text, *failure->state ? " (" : "", failure->state,
                   *failure->state ? ")" : "", hf__sql_advice(&sql->settings, failure));
}

int hf__link_explain(struct sql *sql, const struct sql_task *task, const struct sql_answer *answer,
                     hf_error **error, bool *definite)
{
    const struct sql_failure *failure = answer->failure;
    enum sql_trouble trouble = failure->trouble;
    const hf_error *why = &sql->peer.why;
    bool refused = why->code == HF_DENIED || why->code == HF_EINVAL || why->code == HF_ECORRUPT;
    bool open = hf__sql_is_open(&task->request, failure);
    int code = trouble == SQL_LOST ? why->code : hf__sql_code(trouble);
    *definite = !open && (trouble == SQL_LOST ? refused : code != HF_UNREACHABLE);
    if (trouble == SQL_RANGE && sql->settings.layout)
        code = HF_EINVAL;
    /* HF_ENOMEM says that nothing has changed. */
    if (code == HF_OK || (!*definite && code != HF_ELIMIT && (open || code != HF_ENOMEM)))
        code = HF_UNREACHABLE;
    if (trouble != SQL_LOST)
        hf__explain(error, code, failure->native, "%s at %.100s: %.150s%s%s%s%s",
                    sql->settings.driver->name, sql->settings.shown, failure->text,
                    *failure->state ? " (" : "", failure->state, *failure->state ? ")" : "",
                    hf__sql_advice(&sql->settings, failure));
    else
        hf__explain(error, code, why->native, "%s",
                    *why->text ? why->text : "the connection to the database was lost");
    return code;
}

void hf__link_misheard(struct sql *sql)
{
    sql->fence = true;
    hf__peer_break(&sql->peer, HF_UNREACHABLE, 0, "a reply was not that to its request");
}

/* ---- sending ---- */

static void send_waiting(struct sql *sql);
static void connect_if_needed(struct sql *sql);
static void make_schema(struct sql *sql);
static void run_again(struct hf_timer *timer);

static void send_task(struct sql *sql, struct sql_task *task)
{
    hf__link_remove(&task->link);
    hf__list_append(&sql->out, &task->link);
    task->sent_at_ms = hf__sql_now(sql);
    task->request.sent = true;
    if (task->asked) /* mutant: sql-request-has-left */
        hf__known_sent(&task->op->engine.known, task->asked);
    hf__peer_await(&sql->peer);
    if (task->request.script)
        sql->connection->driver->run(sql->connection, &task->request);
    else
        sql->connection->driver->listen(sql->connection, sql->channel, &task->request);
}

void hf__link_pause(struct sql_task *task, int64_t pause_ms)
{
    struct sql *sql = task->sql;
    hf__link_remove(&task->link);
    hf__list_append(&sql->pausing, &task->link);
    task->again.fire = run_again;
    hf__timer_start(sql_loop_of(sql), &task->again, hf__sql_now(sql) + pause_ms);
}

static void wait_for_link(struct sql *sql, struct sql_task *task)
{
    hf__link_remove(&task->link);
    hf__list_append(&sql->waiting, &task->link);
}

/* ---- answers ---- */

static void finish_task(struct sql_task *task, const struct sql_answer *answer)
{
    hf__link_remove(&task->link);
    task->contacted = !answer->failure || answer->failure->trouble != SQL_LOST;
    if (task->sql->row_probe == task)
        task->sql->row_probe = NULL;
    task->done(task, answer);
}

static void run_again(struct hf_timer *timer)
{
    struct sql_task *task = HF_CONTAINER(timer, struct sql_task, again);
    struct sql *sql = task->sql;
    /* What makes the tables does not wait for them. */
    if (task == sql->own && hf__peer_is_ready(&sql->peer)) {
        send_task(sql, task);
        return;
    }
    wait_for_link(sql, task);
    send_waiting(sql);
    connect_if_needed(sql);
}

bool hf__link_repeat(struct sql_task *task)
{
    int64_t pause_ms = hf__poll_growing_ms(task->tries, AGAIN_MIN_MS, AGAIN_MAX_MS);
    if (++task->tries > TRIES_MAX)
        return false;
    hf__link_pause(task, pause_ms);
    return true;
}

/* Once the tables are there, all that wait for them are asked again. The table of another program
 * is not made: where it is missing, this may be another database. */
static bool wait_for_schema(struct sql *sql, struct sql_task *task)
{
    if (sql->base.host->existing_only || sql->settings.layout || task == sql->own ||
        ++task->tries > 3)
        return false;
    wait_for_link(sql, task);
    make_schema(sql);
    return true;
}

static bool is_greeting(const struct sql *sql)
{
    return sql->peer.state == HF_PEER_GREETING && !sql->peer.failing;
}

/* A session answers in order, and those before it have ended. Behind a pooler they may not have. */
static void note_reply(const struct sql_task *task, const struct sql_failure *failure)
{
    bool lost = failure && failure->trouble == SQL_LOST;
    if (!task->asked)
        return;
    if (!lost && !task->sql->connection->pooled)
        hf__known_settled(&task->op->engine.known);
    if (failure && !hf__sql_is_open(&task->request, failure))
        hf__known_reply(&task->op->engine.known, HF_WORD_NEVER);
}

static void sql_answered(struct sql_request *request, const struct sql_answer *answer)
{
    struct sql_task *task = HF_CONTAINER(request, struct sql_task, request);
    struct sql *sql = task->sql;
    enum sql_trouble trouble = answer->failure ? answer->failure->trouble : SQL_FINE;
    if (trouble == SQL_LOST)
        sql->fence = sql->fence || request->sent;
    note_reply(task, answer->failure);
    /* An error that leaves open what was executed: the next connection ends this session first. */
    if (trouble == SQL_LOST && !is_greeting(sql)) /* mutant: open-error-ends-the-session */
        break_link(sql, answer->failure);
    hf__row_lock_note(task, answer->failure);
    /* mutant: rolled-back-is-not-repeated */
    if (trouble == SQL_AGAIN && hf__link_repeat(task))
        return;
    if (trouble == SQL_NO_SCHEMA && wait_for_schema(sql, task))
        return;
    /* mutant: description-decides-whether-a-lock-can-be-had */
    if (trouble == SQL_UNFIT && hf__task_shorten_info(task)) {
        wait_for_link(sql, task);
        send_waiting(sql);
        return;
    }
    if (trouble == SQL_READ_ONLY || trouble == SQL_NOT_READY) {
        /* Nothing has happened. Another server may be better. */
        break_link(sql, answer->failure); /* mutant: read-only-server-is-kept */
    }
    finish_task(task, answer);
}

/* ---- requests of the link's own ---- */

static bool run_own(struct sql *sql, enum sql_script_number script,
                    void (*done)(struct sql_task *, const struct sql_answer *))
{
    struct sql_task *task = hf__task_new(sql, "", 0);
    if (!task)
        return false;
    sql->own = task;
    task->done = done;
    task->request.answered = sql_answered;
    task->request.script = hf__sql_script(sql, script);
    task->request.values = task->values; /* mutant: fencing-without-a-session */
    send_task(sql, task);
    return true;
}

static void own_done(struct sql_task *task)
{
    task->sql->own = NULL;
    hf__task_free(task);
}

/* ---- the tables ---- */

static void fail_waiting(struct sql *sql, const struct sql_failure *failure)
{
    struct sql_answer answer = { .failure = failure };
    struct hf_link waiting, *link;
    hf__link_init(&waiting);
    hf__list_append_all(&waiting, &sql->waiting);
    while ((link = hf__list_first(&waiting)))
        finish_task(HF_CONTAINER(link, struct sql_task, link), &answer);
}

/* Of many first users one makes them, and the others find that they exist. */
static void schema_made(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct sql_failure failure = { .trouble = SQL_FINE };
    sql->making_schema = false;
    if (answer->failure)
        failure = *answer->failure;
    own_done(task);
    if (failure.trouble == SQL_UNIQUE) {
        make_schema(sql);
        return;
    }
    if (failure.trouble != SQL_FINE && failure.trouble != SQL_LOST) {
        fail_waiting(sql, &failure);
        return;
    }
    if (failure.trouble == SQL_FINE)
        send_waiting(sql);
}

static void make_schema(struct sql *sql)
{
    if (sql->making_schema || !hf__peer_is_ready(&sql->peer))
        return;
    sql->making_schema = run_own(sql, SQL_SCHEMA, schema_made);
}

static void open_for_requests(struct sql *sql)
{
    hf__peer_ready(&sql->peer);
    if (!hf__peer_is_ready(&sql->peer))
        return;
    sql->fence = false;
    sql->listens = sql->listening = false;
    hf__link_listen(sql);
    send_waiting(sql);
}

/* ---- a table that was made by hand ---- */

static bool says(const struct sql_value *text, const char *words)
{
    return text && text->bytes && memmem(text->bytes, text->length, words, strlen(words));
}

/* Why two owners would hold the same lock. Requests for a column that is missing fail by
 * themselves. */
static const struct sql_value *missing_key(const struct sql_answer *answer)
{
    const struct sql_value *missing = NULL;
    for (unsigned row = 0; row < answer->row_count; row++) {
        const struct sql_value *text = hf__answer_field(answer, row, 1);
        if (says(text, " is missing"))
            return NULL;
        if (says(text, SQL_NO_UNIQUE_KEY) || says(text, SQL_HAS_ZONE))
            missing = text;
    }
    return missing;
}

/* What else is wrong with the table is told by the first request. */
static void layout_checked(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    const struct sql_value *missing = answer->failure ? NULL : missing_key(answer);
    struct sql_failure failure = { .trouble = SQL_NO_SCHEMA };
    if (missing)
        snprintf(failure.text, sizeof failure.text, "%.*s, so two owners would hold the same lock",
                 missing->length < 100 ? (int)missing->length : 100, missing->bytes);
    own_done(task);
    if (is_greeting(sql) && missing)
        break_link(sql, &failure);
    else if (is_greeting(sql))
        open_for_requests(sql);
}

static void check_layout(struct sql *sql)
{
    bool checks = sql->settings.layout && !sql->base.host->existing_only;
    if (!checks || !run_own(sql, SQL_SCHEMA_CHECK, layout_checked))
        open_for_requests(sql);
}

/* ---- fencing ---- */

static void look_again_for_old(struct hf_timer *timer);

static void old_sessions_killed(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    bool gone = !answer->failure && hf__answer_number(answer, 0, 0) == 0;
    /* Without the right to end sessions, what they may still do ends with its lease. */
    bool cannot = answer->failure && answer->failure->trouble != SQL_LOST &&
                  answer->failure->trouble != SQL_NO_MEMORY;
    if (!is_greeting(sql)) {
        own_done(task);
        return;
    }
    if (gone || cannot || task->tries >= FENCE_TRIES) {
        own_done(task);
        check_layout(sql);
        return;
    }
    task->tries++;
    task->again.fire = look_again_for_old;
    hf__timer_start(sql_loop_of(sql), &task->again, hf__sql_now(sql) + 5);
}

static void look_again_for_old(struct hf_timer *timer)
{
    struct sql_task *task = HF_CONTAINER(timer, struct sql_task, again);
    if (is_greeting(task->sql))
        send_task(task->sql, task);
}

static void sql_greet(struct hf_peer *peer)
{
    struct sql *sql = sql_of(peer);
    /* mutant: session-of-a-pooler-is-ended */
    bool ends = (sql->fence || sql->connection->crowded) && !sql->connection->pooled;
    if (!ends || !run_own(sql, SQL_KILL_OLD, old_sessions_killed))
        check_layout(sql);
}

/* ---- the connection ---- */

static void drop_own(struct sql *sql)
{
    if (sql->own)
        own_done(sql->own);
}

static void lose_out(struct sql *sql)
{
    static const struct sql_failure lost = { .trouble = SQL_LOST, .text = "connection lost" };
    struct sql_answer answer = { .failure = &lost };
    struct hf_link out, *link;
    hf__link_init(&out);
    hf__list_append_all(&out, &sql->out);
    while ((link = hf__list_first(&out))) {
        sql->fence = true;
        finish_task(HF_CONTAINER(link, struct sql_task, link), &answer);
    }
}

static void sql_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct sql *sql = sql_of(peer);
    struct sql_failure lost = { .trouble = SQL_LOST };
    (void)was;
    sql->making_schema = false;
    sql->listens = false;
    sql->missed = sql->missed || sql->waiter_count > 0;
    lose_out(sql);
    drop_own(sql);
    if (hf__peer_round_is_over(peer))
        fail_waiting(sql, &lost);
}

static void connection_ready(void *arg)
{
    hf__peer_connected(&((struct sql *)arg)->peer);
}

static void connection_broken(void *arg, const struct sql_failure *why)
{
    break_link(arg, why);
}

static void connection_notified(void *arg, const char *payload, size_t length)
{
    hf__waiting_notified(arg, payload, length);
}

/* The driver limits a try by itself; with several servers none has all the time. */
static bool link_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    const struct sql_settings *settings = &sql_of(peer)->settings;
    ret->place.host = settings->places[peer->place_at].host;
    ret->place.port = settings->places[peer->place_at].port;
    if (settings->place_count == 1)
        ret->limit_ms = 0;
    return true;
}

static bool dial(struct hf_peer *peer, const struct hf_peer_try *attempt)
{
    static const struct sql_events events = { connection_ready, connection_broken,
                                              connection_notified };
    struct sql *sql = sql_of(peer);
    const struct sql_settings *settings = &sql->settings;
    (void)attempt;
    sql->place = settings->places[peer->place_at];
    sql->place.limit_ms = peer->place.limit_ms;
    sql->place.route = &peer->route;
    sql->connection = settings->driver->open(sql->base.host, settings, &sql->place, &events, sql);
    return sql->connection != NULL;
}

static void hang_up(struct hf_peer *peer)
{
    struct sql *sql = sql_of(peer);
    struct sql_connection *connection = sql->connection;
    sql->connection = NULL;
    connection->driver->close(connection);
}

/* A claim that waits hears of a release only by a connection. */
static bool sql_needed(struct hf_peer *peer)
{
    const struct sql *sql = sql_of(peer);
    /* mutant: waiter-stays-without-connection */
    return !hf__list_empty(&sql->waiting) || sql->waiter_count > 0;
}

static void connect_if_needed(struct sql *sql)
{
    if (sql_needed(&sql->peer))
        hf__peer_want(&sql->peer);
}

static int64_t sql_oldest(struct hf_peer *peer)
{
    struct hf_link *link = hf__list_first(&sql_of(peer)->out);
    return link ? HF_CONTAINER(link, struct sql_task, link)->sent_at_ms : HF_NEVER;
}

static void send_waiting(struct sql *sql)
{
    struct hf_link *link;
    while (hf__peer_is_ready(&sql->peer) && !sql->making_schema &&
           (link = hf__list_first(&sql->waiting))) {
        struct sql_task *task = HF_CONTAINER(link, struct sql_task, link);
        int64_t pause_ms = hf__row_lock_pause_ms(task);
        if (pause_ms > 0)
            hf__link_pause(task, pause_ms);
        else
            send_task(sql, task);
    }
}

void hf__link_run(struct sql *sql, struct sql_task *task, enum sql_script_number script)
{
    task->request.script = hf__sql_script(sql, script);
    task->request.values = task->values;
    task->request.answered = sql_answered;
    task->request.sent = false;
    wait_for_link(sql, task);
    send_waiting(sql);
    connect_if_needed(sql);
}

static void listening(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    bool works = !answer->failure;
    hf__task_free(task);
    sql->listening = false;
    sql->listens = works;
    /* PostgreSQL listens on the connection of the requests, and before those that queue. */
    if (works && (sql->missed || sql->dialect != SQL_POSTGRES))
        hf__waiting_wake_all(sql);
    sql->missed = sql->missed && !works;
}

void hf__link_listen(struct sql *sql)
{
    if (sql->listens || sql->listening || sql->waiter_count == 0 ||
        !hf__peer_is_ready(&sql->peer) || sql->connection->pooled || sql->settings.layout ||
        !sql->connection->driver->listen)
        return;
    struct sql_task *task = hf__task_new(sql, "", 0); /* mutant: listen-without-memory-is-not-out */
    if (!task)
        return;
    sql->listening = true;
    task->done = listening;
    task->request.answered = sql_answered;
    send_task(sql, task);
}

void hf__link_open(struct sql *sql)
{
    static const struct hf_peer_callbacks callbacks = { .place = link_place,
                                                        .greet = sql_greet,
                                                        .failed = sql_failed,
                                                        .needed = sql_needed,
                                                        .oldest = sql_oldest,
                                                        .dial = dial,
                                                        .hang_up = hang_up };
    hf__link_init(&sql->waiting);
    hf__link_init(&sql->out);
    hf__link_init(&sql->pausing);
    hf__link_init(&sql->free_tasks);
    hf__peer_init(&sql->peer, &(struct hf_peer_config){ .host = sql->base.host,
                                                        .callbacks = &callbacks,
                                                        .store = sql->settings.driver->name,
                                                        .shown = sql->settings.shown,
                                                        .place_count = sql->settings.place_count,
                                                        .timeout_ms = sql->settings.timeout_ms });
}

void hf__link_close(struct sql *sql)
{
    struct hf_link *link;
    hf__peer_close(&sql->peer);
    drop_own(sql);
    hf__list_append_all(&sql->free_tasks, &sql->out);
    hf__list_append_all(&sql->free_tasks, &sql->waiting);
    hf__list_append_all(&sql->free_tasks, &sql->pausing);
    while ((link = hf__list_pop(&sql->free_tasks))) {
        struct sql_task *task = HF_CONTAINER(link, struct sql_task, link);
        hf__timer_stop(sql_loop_of(sql), &task->again);
        free(task->memory);
        free(task);
    }
}
