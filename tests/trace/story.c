/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a store and its callers for one client on a virtual clock, and writes down what happens. */
#include "story.h"

#include "core/api/client.h"
#include "core/api/fork.h"
#include "core/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define OWNERS 10

static struct player {
    struct hf_op *op;    /* that waits for the store's answer */
    struct hf_op *known; /* the last one asked about */
    hf_hold *hold;
    hf_request request;
    char sentence[200];
    int64_t renewal_asked_ms;
} players[OWNERS];

static int64_t now_ms;
static struct hf_client *client;
static struct hf_engine engine;
static struct hf_lease sessions[2];
static uint64_t last_token;
static char text[16384];
static size_t text_length;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list arguments;
    int head = snprintf(text + text_length, sizeof text - text_length, "[%4" PRId64 "] ", now_ms);
    text_length += (size_t)head;
    va_start(arguments, format);
    int length = vsnprintf(text + text_length, sizeof text - text_length, format, arguments);
    va_end(arguments);
    text_length += (size_t)length;
    CHECK(text_length + 2 < sizeof text);
    text[text_length++] = '\n';
    text[text_length] = 0;
}

static void take_step(const char *line)
{
    tell("%s", line);
}

static struct player *player(uint64_t owner)
{
    CHECK(owner < OWNERS);
    return &players[owner];
}

/* ---- the engine ---- */

static void attempt(struct hf_engine *asked, struct hf_op *op)
{
    (void)asked;
    CHECK(!player(op->in.owner)->op);
    player(op->in.owner)->op = player(op->in.owner)->known = op;
    tell("#%" PRIu64 " attempts%s", op->in.owner, op->in.enqueue ? "" : ", once");
}

static void release(struct hf_engine *asked, struct hf_op *op)
{
    (void)asked;
    static const char *const kept[] = { "mutex", "fair", "read", "upgrade", "write", "permit" };
    CHECK(!player(op->in.owner)->op);
    player(op->in.owner)->op = op;
    tell("#%" PRIu64 " releases%s%s", op->in.owner, op->in.keep < 0 ? "" : ", but for ",
         op->in.keep < 0 ? "" : kept[op->in.keep]);
}

static void renew(struct hf_engine *asked, struct hf_lease *lease)
{
    (void)asked;
    if (lease == &sessions[0] || lease == &sessions[1]) {
        tell("session %d is renewed", (int)(lease - sessions));
        return;
    }
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    player(op->in.owner)->renewal_asked_ms = now_ms;
    tell("#%" PRIu64 " renews", op->in.owner);
}

static const struct hf_engine_ops ops = {
    .name = "story",
    .caps = HF_CAP_MUTEX | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_TOKEN,
    .attempt = attempt,
    .release = release,
    .renew = renew,
};

/* ---- the client ---- */

static int64_t read_clock(void *arg)
{
    (void)arg;
    return now_ms;
}

static void wake_loop(void *arg)
{
    (void)arg;
}

static void turn(void)
{
    while (hf__loop_turn(&client->loop) <= now_ms)
        continue;
}

void story_begin(void)
{
    client = hf__client_new(&HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS, .owner_text = "story"));
    CHECK(client != NULL);
    hf__loop_init(&client->loop, read_clock, wake_loop, NULL);
    client->drive_kind = HF_DRIVE_KIND_TEST;
    engine = (struct hf_engine){ .ops = &ops, .host = &client->host };
    hf__client_set_engine(client, &engine);
    CHECK_INT(hf__fork_register(client), HF_OK);
    hf__trace_sink = take_step;
}

void story_was(const char *wanted)
{
    CHECK_STR(text, wanted);
    text_length = 0;
    text[0] = 0;
}

void pass_ms(int64_t ms)
{
    int64_t until_ms = now_ms + ms;
    for (;;) {
        int64_t next_ms = hf__loop_turn(&client->loop);
        if (next_ms > until_ms)
            break;
        if (next_ms > now_ms)
            now_ms = next_ms;
    }
    now_ms = until_ms;
    turn();
}

void pause_ms(int64_t ms)
{
    now_ms += ms;
}

const char *sentence_of(uint64_t owner)
{
    return player(owner)->sentence;
}

/* ---- the callers ---- */

static void done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    uint64_t owner = (uint64_t)((struct player *)arg - players);
    CHECK((code == HF_OK) == (error == NULL));
    if (hold)
        player(owner)->hold = hold;
    snprintf(player(owner)->sentence, sizeof player(owner)->sentence, "%.190s",
             error ? error->text : "");
    tell("#%" PRIu64 " hears %s", owner, hf_code_name(code));
}

static void lost(void *arg, const hf_loss *loss)
{
    uint64_t owner = (uint64_t)((struct player *)arg - players);
    tell("#%" PRIu64 " is told of its loss: %s", owner, loss->reason);
}

void ask_leased(uint64_t owner, hf_mode mode, int64_t wait_ms, int64_t lease_ms)
{
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode, .owner = owner, .lease_ms = lease_ms, .on_lost = lost,
                        .lost_arg = player(owner), .limit = mode == HF_PERMIT);
    CHECK_INT(hf_lock_async(client, "orders/42", wait_ms, &options, done, player(owner),
                            &player(owner)->request),
              HF_OK);
    turn();
}

void ask(uint64_t owner, hf_mode mode, int64_t wait_ms)
{
    ask_leased(owner, mode, wait_ms, 0);
}

hf_hold *hold_of(uint64_t owner)
{
    CHECK(player(owner)->hold != NULL);
    return player(owner)->hold;
}

void give_back(uint64_t owner)
{
    hf_unlock_nowait(hold_of(owner));
    player(owner)->hold = NULL;
    turn();
}

void cancel(uint64_t owner)
{
    hf_cancel(client, player(owner)->request);
    turn();
}

/* ---- the store ---- */

static struct hf_op *question(uint64_t owner)
{
    struct hf_op *op = player(owner)->op;
    CHECK(op != NULL);
    player(owner)->op = NULL;
    return op;
}

static void answer(struct hf_op *op, enum hf_verdict verdict)
{
    op->out.verdict = verdict;
    hf__op_done(&engine, op);
    turn();
}

static void rest_on_own_lease(struct hf_op *op)
{
    op->engine.own_lease.engine = &engine;
    op->engine.own_lease.lease_ms = op->in.lease_ms ? op->in.lease_ms : LEASE_MS;
    op->engine.own_lease.asked_at_ms = op->in.asked_at_ms;
    op->engine.own_lease.fixed = op->in.lease_ms > 0;
    op->out.rests_on = &op->engine.own_lease;
}

void granted(uint64_t owner)
{
    struct hf_op *op = question(owner);
    rest_on_own_lease(op);
    op->out.token = ++last_token;
    answer(op, HF_GRANTED);
}

void granted_for_ever(uint64_t owner)
{
    struct hf_op *op = question(owner);
    op->out.rests_on = NULL;
    op->out.token = ++last_token;
    answer(op, HF_GRANTED);
}

void refused(uint64_t owner, int64_t retry_in_ms)
{
    struct hf_op *op = question(owner);
    op->out.retry_at_ms = retry_in_ms == FOR_EVER ? HF_NEVER : now_ms + retry_in_ms;
    answer(op, HF_REFUSED);
}

void refused_with_place(uint64_t owner)
{
    rest_on_own_lease(player(owner)->op);
    refused(owner, FOR_EVER);
}

static void rest_on_session(struct hf_op *op, unsigned number)
{
    struct hf_lease *session = &sessions[number];
    if (!session->watched) {
        session->engine = &engine;
        session->lease_ms = LEASE_MS;
        session->asked_at_ms = op->in.asked_at_ms;
    }
    op->out.rests_on = session;
}

void refused_in_session(uint64_t owner, unsigned number)
{
    rest_on_session(player(owner)->op, number);
    refused(owner, FOR_EVER);
}

void granted_in_session(uint64_t owner, unsigned number)
{
    struct hf_op *op = question(owner);
    rest_on_session(op, number);
    op->out.token = ++last_token;
    answer(op, HF_GRANTED);
}

void silent(uint64_t owner)
{
    struct hf_op *op = question(owner);
    hf__op_explain(op, HF_UNREACHABLE, 0, "the store says nothing");
    answer(op, HF_NO_ANSWER);
}

void gone(uint64_t owner)
{
    answer(question(owner), HF_GONE);
}

void failed(uint64_t owner, int code)
{
    struct hf_op *op = question(owner);
    hf__op_explain(op, code, 0, "the store refuses");
    answer(op, HF_FAILED);
}

void wake(uint64_t owner)
{
    CHECK(player(owner)->known != NULL);
    hf__op_wake(player(owner)->known);
    turn();
}

void renewed(uint64_t owner, bool still_ours)
{
    struct hf_op *op = player(owner)->known;
    CHECK(op != NULL);
    hf__lease_answer(&op->engine.own_lease, player(owner)->renewal_asked_ms,
                     still_ours ? HF_LEASE_RENEWED : HF_LEASE_GONE, 0, NULL);
    turn();
}

void session_renewed(unsigned number, bool still_ours)
{
    hf__lease_answer(&sessions[number], now_ms, still_ours ? HF_LEASE_RENEWED : HF_LEASE_GONE, 0,
                     NULL);
    turn();
}
