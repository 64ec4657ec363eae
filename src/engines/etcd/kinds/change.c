/* SPDX-License-Identifier: Apache-2.0 */
/* How a change goes:
 *
 *   its session is known to live  ->  read  ->  decide  ->  write, if nothing has changed  ->  done
 *                                      ^                       | else: what is there by now
 *                                      '-----------------------'
 *
 * A write without a reply is followed by a read, which tells whether it was done.
 *
 * Others may be faster again and again: it pauses then, and gives up some time. */
#include "change.h"

#include "base/testing.h"
#include "engines/common/poll.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Others that change the same value. */
#define TRIES_MAX 100u
/* Replies that are missing. */
#define SILENCES_MAX 8u
#define SILENCE_MS 20
#define SILENCE_DOUBLINGS 5u

static void read_state(struct etcd_change *change);

/* ---- memory ---- */

static void wait_over(struct etcd *etcd, struct etcd_wait *wait);
static void wait_failed(struct etcd *etcd, struct etcd_wait *wait, const struct etcd_reply *reply);

static void pause_over(struct hf_timer *timer)
{
    read_state(HF_CONTAINER(timer, struct etcd_change, pause));
}

struct etcd_change *hf__etcd_change_new(struct etcd *etcd, const struct etcd_change_kind *kind,
                                        const char *name, size_t name_length, const char *word)
{
    struct etcd_change *change = hf__calloc(1, sizeof *change);
    if (!change || !hf__etcd_layout_new(&change->layout, etcd, name, name_length, word)) {
        free(change);
        return NULL;
    }
    change->kind = kind;
    change->etcd = etcd;
    change->number = ++etcd->changed;
    hf__link_init(&change->wait.link);
    change->wait.go_on = wait_over;
    change->wait.fail = wait_failed;
    hf__timer_init(&change->pause, pause_over);
    hf__list_append(&etcd->changes, &change->link);
    return change;
}

static void leave_session(struct etcd_change *change)
{
    hf__link_remove(&change->wait.link);
    if (change->mark)
        hf__etcd_mark_give_back(change->session, change->mark);
    change->mark = NULL;
    hf__etcd_session_drop(change->session);
    change->session = NULL;
}

void hf__etcd_change_drop(struct etcd_change *change)
{
    hf__timer_stop(hf__etcd_loop(change->etcd), &change->pause);
    hf__link_remove(&change->link);
    leave_session(change);
    hf__etcd_layout_free(&change->layout);
    free(change);
}

void hf__etcd_changes_free(struct etcd *etcd)
{
    struct hf_link *link;
    while ((link = hf__list_first(&etcd->changes)))
        hf__etcd_change_drop(HF_CONTAINER(link, struct etcd_change, link));
}

/* ---- the end ---- */

void hf__etcd_change_end(struct etcd_change *change, int code)
{
    bool stays = change->kind->stays && hf__known_is_open(&change->known);
    change->kind->ended(change, code);
    if (!stays)
        hf__etcd_change_drop(change);
}

void hf__etcd_change_fail(struct etcd_change *change, int code, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hf__explain(change->error, code, 0, "%s", text);
    hf__etcd_change_end(change, code);
}

static void no_memory(struct etcd_change *change)
{
    hf__etcd_change_fail(change, HF_ENOMEM, "out of memory for a request");
}

static void change_give_up(struct etcd_change *change, const struct etcd_reply *reply)
{
    hf__etcd_change_end(change, hf__etcd_explain(change->etcd, reply, change->error));
}

static void wait_failed(struct etcd *etcd, struct etcd_wait *wait, const struct etcd_reply *reply)
{
    (void)etcd;
    change_give_up(HF_CONTAINER(wait, struct etcd_change, wait), reply);
}

static const char *shown_name(const struct etcd_change *change)
{
    return change->layout.memory + strlen(change->etcd->settings.root);
}

/* ---- what fails ---- */

static void pause_for(struct etcd_change *change, int64_t for_ms)
{
    hf__timer_start(hf__etcd_loop(change->etcd), &change->pause,
                    hf__etcd_now(change->etcd) + for_ms);
}

/* Another session has no mark of this change. */
static void session_gone(struct etcd_change *change)
{
    struct etcd *etcd = change->etcd;
    struct etcd_session *session = hf__etcd_session_use(change->session);
    hf__etcd_session_lose(etcd, session, true);
    hf__etcd_session_drop(session);
    leave_session(change);
    change->lost = hf__known_is_open(&change->known);
    hf__known_forget(&change->known);
    if (change->lost)
        hf__etcd_change_fail(change, HF_UNREACHABLE,
                             "etcd at %.120s: its reply is missing, and our session has ended, "
                             "so it may have been done or not",
                             etcd->settings.servers.shown);
    else if (++change->tries == TRIES_MAX)
        hf__etcd_change_fail(change, HF_UNREACHABLE,
                             "etcd at %.120s: our session ends again and "
                             "again",
                             etcd->settings.servers.shown);
    else
        hf__etcd_change_begin(change);
}

static void change_failed(struct etcd_change *change, const struct etcd_reply *reply)
{
    bool missing = reply->word == ETCD_OPEN ||
                   (reply->word == ETCD_UNSENT && hf__known_is_open(&change->known));
    unsigned doublings =
        change->silences < SILENCE_DOUBLINGS ? change->silences : SILENCE_DOUBLINGS;
    if (change->second)
        hf__etcd_change_end(change, HF_OK);
    else if (change->session && hf__etcd_is_lease_gone(reply))
        session_gone(change);
    else if (missing && !change->etcd->closing && change->silences++ < SILENCES_MAX)
        pause_for(change, (int64_t)2 * SILENCE_MS << doublings);
    else
        change_give_up(change, reply);
}

/* ---- reading ---- */

static struct etcd_bytes mark_of(const struct etcd_change *change)
{
    return change->mark ? hf__etcd_bytes(change->mark->key, change->mark->key_length)
                        : change->layout.object;
}

static void add_reads(struct etcd_txn *txn, enum etcd_branch branch,
                      const struct etcd_change *change)
{
    struct etcd_bytes none = hf__etcd_bytes("", 0);
    hf__etcd_txn_range(txn, branch, mark_of(change), none);
    hf__etcd_txn_object(txn, branch, &change->layout);
    hf__etcd_txn_other_kinds(txn, branch, &change->layout);
    hf__etcd_range_by_creation(hf__etcd_txn_claims(txn, branch, &change->layout), true, 0);
    if (change->own.length > 0)
        hf__etcd_txn_range(txn, branch, change->own, none)->keys_only = true;
}

/* Was it done, by a request whose reply is missing? */
static bool was_done(struct etcd_change *change, const etcd_key_value *mark)
{
    char text[48];
    uint64_t number = 0;
    change->mark->changed = mark ? mark->mod_revision : 0;
    if (!mark || mark->value.len >= sizeof text)
        return false;
    memcpy(text, mark->value.data, mark->value.len);
    text[mark->value.len] = 0;
    uint32_t result;
    if (sscanf(text, "%" SCNu64 " %" SCNu32, &number, &result) != 2 || number != change->number)
        return false;
    change->result = result;
    return true;
}

static void fence(struct etcd_change *change);

static void consider(struct etcd_change *change, const etcd_txn_reply *txn)
{
    struct etcd_state state = {
        .object = hf__etcd_txn_first_key(txn, 1),
        .claims = hf__etcd_txn_range_reply(txn, 4),
        .own = hf__etcd_txn_first_key(txn, 5),
        .revision = hf__etcd_revision(txn->header),
    };
    change->contacted = true;
    if (!state.claims || state.revision <= 0) {
        hf__peer_break(&change->etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
        hf__etcd_change_fail(change, HF_UNREACHABLE, "etcd at %.120s: its reply cannot be read",
                             change->etcd->settings.servers.shown);
        /* mutant: etcd-change-is-not-done-twice */
    } else if (change->mark && was_done(change, hf__etcd_txn_first_key(txn, 0))) {
        hf__known_forget(&change->known);
        change->done = true;
        hf__etcd_change_end(change, HF_OK);
    } else if (hf__known_is_open(&change->known) && change->full) {
        hf__known_forget(&change->known);
        hf__etcd_change_end(change, HF_ELIMIT);
    } else if (hf__known_is_open(&change->known)) {
        fence(change); /* mutant: etcd-late-change-is-fenced */
    } else if (hf__etcd_txn_first_key(txn, 2) || hf__etcd_txn_first_key(txn, 3)) {
        hf__etcd_change_fail(
            change, HF_EKIND, "\"%.*s\" is in use as another kind of lock",
            (int)(change->layout.before.begin.length - 1 - strlen(change->etcd->settings.root)),
            shown_name(change));
    } else {
        change->kind->decide(change, &state);
    }
}

static void state_read(struct etcd *etcd, struct etcd_request *request,
                       const struct etcd_reply *reply)
{
    (void)etcd;
    if (reply->status == HF_GRPC_OK)
        consider(request->arg, reply->message);
    else
        change_failed(request->arg, reply);
}

static void read_state(struct etcd_change *change)
{
    struct etcd_txn txn;
    struct etcd_request *request = hf__etcd_request(change->etcd, &hf__etcd_txn, state_read);
    if (!request) {
        no_memory(change);
        return;
    }
    request->arg = change;
    hf__etcd_txn_begin(&txn);
    add_reads(&txn, ETCD_THEN, change);
    hf__etcd_ask(change->etcd, request, &txn.message.base);
}

void hf__etcd_change_ask_again(struct etcd_change *change)
{
    change->silences = 0;
    read_state(change);
}

/* ---- a request whose reply is missing, and that has not been done yet ---- */

static void fenced(struct etcd *etcd, struct etcd_request *request, const struct etcd_reply *reply)
{
    struct etcd_change *change = request->arg;
    const etcd_txn_reply *txn = reply->message;
    if (reply->status != HF_GRPC_OK) {
        change_failed(change, reply);
        return;
    }
    if (txn->succeeded) {
        hf__known_forget(&change->known);
        change->number = ++etcd->changed;
    }
    read_state(change);
}

/* It relies on the mark's revision. */
static void fence(struct etcd_change *change)
{
    struct etcd_txn txn;
    struct etcd_request *request = hf__etcd_request(change->etcd, &hf__etcd_txn, fenced);
    if (!request) {
        no_memory(change);
        return;
    }
    request->arg = change;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_changed(&txn, mark_of(change), change->mark->changed);
    hf__etcd_txn_put(&txn, ETCD_THEN, mark_of(change), hf__etcd_bytes("0 0", 3),
                     change->session->id);
    hf__etcd_ask(change->etcd, request, &txn.message.base);
}

/* ---- writing ---- */

static void others_were_faster(struct etcd_change *change, const etcd_txn_reply *txn)
{
    if (change->second) {
        hf__etcd_change_end(change, HF_OK);
        return;
    }
    if (++change->tries >= TRIES_MAX) {
        hf__etcd_change_fail(change, HF_UNREACHABLE,
                             "others change its value again and again; try later");
        return;
    }
    int64_t pause_ms = hf__poll_overtaken_ms(change->tries);
    if (pause_ms == 0)
        consider(change, txn);
    else
        pause_for(change, pause_ms);
}

static void written(struct etcd *etcd, struct etcd_request *request, const struct etcd_reply *reply)
{
    struct etcd_change *change = request->arg;
    const etcd_txn_reply *txn = reply->message;
    if (reply->status != HF_GRPC_OK) {
        hf__known_reply(&change->known, hf__etcd_leaves_open(reply) ? HF_WORD_OPEN : HF_WORD_NEVER);
        change->full = reply->word == ETCD_FULL;
        if (change->full && hf__etcd_explain(etcd, reply, change->error))
            read_state(change);
        else
            change_failed(change, reply);
        return;
    }
    change->contacted = true;
    hf__known_forget(&change->known);
    if (!txn->succeeded) {
        others_were_faster(change, txn);
        return;
    }
    const etcd_range_reply *claims = hf__etcd_txn_range_reply(txn, 0);
    change->mark->changed = hf__etcd_revision(txn->header);
    change->mark->earlier_length = 0;
    change->write.if_changed = change->mark->changed;
    if (claims && change->kind->written && !change->second)
        change->kind->written(change, claims);
    else
        hf__etcd_change_end(change, HF_OK);
}

static void add_conditions(struct etcd_txn *txn, const struct etcd_change *change)
{
    const struct etcd_write *write = &change->write;
    const struct etcd_span *claims = &change->layout.claims;
    hf__etcd_txn_if_changed(txn, change->layout.object, write->if_changed);
    hf__etcd_txn_if_changed(txn, mark_of(change), change->mark->changed);
    hf__etcd_txn_if_kind(txn, &change->layout);
    if (write->claims_before > 0)
        hf__etcd_txn_if_all_older(txn, claims->begin, claims->end, write->claims_before);
    if (change->own.length > 0)
        hf__etcd_txn_if_created(txn, change->own, change->own_created);
}

void hf__etcd_change_write(struct etcd_change *change)
{
    struct etcd_txn txn;
    char text[48];
    const struct etcd_write *write = &change->write;
    const struct etcd_mark *mark = change->mark;
    struct etcd_request *request = hf__etcd_request(change->etcd, &hf__etcd_txn, written);
    if (!request) {
        no_memory(change);
        return;
    }
    request->arg = change;
    hf__etcd_txn_begin(&txn);
    add_conditions(&txn, change);
    hf__etcd_range_by_creation(hf__etcd_txn_claims(&txn, ETCD_THEN, &change->layout), true,
                               change->kind->written ? 0 : 1);
    if (write->length > 0)
        hf__etcd_txn_put(&txn, ETCD_THEN, change->layout.object,
                         hf__etcd_bytes(write->text, write->length), 0);
    else
        hf__etcd_txn_delete(&txn, ETCD_THEN, change->layout.object);
    int length =
        snprintf(text, sizeof text, "%" PRIu64 " %" PRIu32, change->number, change->result);
    hf__etcd_txn_put(&txn, ETCD_THEN, mark_of(change), hf__etcd_bytes(text, (size_t)length),
                     change->session->id);
    if (mark->earlier_length > 0)
        hf__etcd_txn_delete(&txn, ETCD_THEN, hf__etcd_bytes(mark->earlier, mark->earlier_length));
    if (change->own_created != 0)
        hf__etcd_txn_delete(&txn, ETCD_THEN, change->own);
    add_reads(&txn, ETCD_ELSE, change);
    hf__known_sent(&change->known, HF_ASKED_TRY);
    hf__etcd_ask(change->etcd, request, &txn.message.base);
}

/* ---- the beginning ---- */

static void wait_over(struct etcd *etcd, struct etcd_wait *wait)
{
    struct etcd_change *change = HF_CONTAINER(wait, struct etcd_change, wait);
    size_t root = strlen(etcd->settings.root);
    if (change->session->state != ETCD_SESSION_ALIVE) {
        leave_session(change);
        hf__etcd_change_begin(change);
        return;
    }
    change->mark = hf__etcd_mark_take(etcd, change->session, shown_name(change),
                                      change->layout.before.begin.length - 1 - root);
    if (!change->mark) {
        no_memory(change);
        return;
    }
    read_state(change);
}

void hf__etcd_change_begin(struct etcd_change *change)
{
    struct etcd *etcd = change->etcd;
    if (change->kind->reads_only) {
        read_state(change);
        return;
    }
    struct etcd_session *session = hf__etcd_session_of_marks(etcd);
    if (!session) {
        no_memory(change);
        return;
    }
    change->session = hf__etcd_session_use(session);
    if (hf__etcd_session_is_known(etcd, session))
        wait_over(etcd, &change->wait);
    else
        hf__etcd_session_await(etcd, session, &change->wait);
}
