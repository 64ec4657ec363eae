/* SPDX-License-Identifier: Apache-2.0 */
/* Votes: what one server of a quorum is asked about a ballot, one request after the other, and
 * what its answers mean. */
#include "base/rand.h"
#include "quorum.h"

#include <stdlib.h>
#include <string.h>

/* Giving back is said again after this time, more or less; and less often once a lease has
 * passed. */
#define SAY_AGAIN_MS 100
#define SAY_AGAIN_LATE_MS 2000

static struct hf_loop *member_loop_of(const struct quorum_member *vote)
{
    return vote->ballot->quorum->base.host->loop;
}

static struct hf_engine *server_of(const struct quorum_member *vote)
{
    return vote->ballot->quorum->members[vote - vote->ballot->votes];
}

bool hf__quorum_member_is_there(const struct quorum_member *vote)
{
    bool is_heard = !vote->busy || !vote->giving; /* mutant: release-decides-by-what-is-not-heard */
    return !is_heard || hf__known_is_there(&vote->op.engine.known);
}

bool hf__quorum_member_is_gone(const struct quorum_member *vote)
{
    return !vote->busy && !hf__quorum_member_is_there(vote);
}

/* ---- asking ---- */

void hf__quorum_member_ask(struct quorum_member *vote)
{
    struct hf_engine *server = server_of(vote);
    hf__timer_stop(member_loop_of(vote), &vote->again);
    vote->word = VOTE_UNHEARD;
    if (vote->busy)
        return;
    vote->busy = true;
    vote->dismissed = vote->giving = !vote->ballot->taking;
    vote->op.in.asked_at_ms = hf__loop_now(member_loop_of(vote));
    vote->op.out.contacted = false;
    if (vote->giving)
        server->ops->release(server, &vote->op);
    else
        server->ops->attempt(server, &vote->op);
}

/* An attempt is given back twice: now, for the client may be closed before a server that hangs has
 * answered; and when it has. */
void hf__quorum_member_give_back(struct quorum_member *vote)
{
    vote->held_since_ms = VOTE_NOT_HELD;
    if (vote->busy && !vote->dismissed) /* mutant: attempt-that-is-out */
        hf__redis_dismiss(server_of(vote), &vote->op, false);
    vote->dismissed |= vote->busy;
    if (!vote->busy && hf__quorum_member_is_there(vote))
        hf__quorum_member_ask(vote);
    else if (!vote->busy)
        vote->word = VOTE_GONE;
}

static void say_again(struct hf_timer *timer)
{
    struct quorum_member *vote = HF_CONTAINER(timer, struct quorum_member, again);
    if (!vote->ballot->taking)
        hf__quorum_member_ask(vote);
}

/* ---- tokens ---- */

bool hf__quorum_member_has_token(const struct quorum_member *vote)
{
    /* mutant: none-is-raised-to-token */
    return vote->word == VOTE_YES && vote->op.out.token >= vote->ballot->token;
}

/* A server that does not raise it when it is asked to is of no use; one that is just renewing the
 * lease is asked no second request. */
void hf__quorum_member_level(struct quorum_member *vote)
{
    if (vote->word != VOTE_YES || hf__quorum_member_has_token(vote) ||
        hf__redis_op_is_renewing(&vote->op))
        return;
    if (vote->levelled) { /* mutant: server-that-does-not-raise */
        vote->word = VOTE_SILENT;
        return;
    }
    vote->levelled = true;
    hf__quorum_member_ask(vote);
}

uint64_t hf__quorum_member_min_token(const struct hf_op *op)
{
    _Static_assert(offsetof(struct quorum_member, op) == 0, "a server's claim is its vote");
    const struct quorum_claim *ballot = ((const struct quorum_member *)op)->ballot;
    uint64_t floor = ballot->quorum->base.host->token_floor;
    /* mutant: owner-is-asked-for-lock-later */
    return floor && ballot->token <= floor ? floor + 1 : ballot->token;
}

/* ---- hearing ---- */

static int64_t lease_end(const struct quorum_member *vote)
{
    return hf__loop_now(member_loop_of(vote)) + hf__redis_op_lease_ms(server_of(vote), &vote->op);
}

static void note_taking(struct quorum_member *vote)
{
    static const enum vote_word words[] = { [HF_GRANTED] = VOTE_YES,
                                            [HF_REFUSED] = VOTE_NO,
                                            [HF_REFUSED_NOT_QUEUED] = VOTE_NO,
                                            [HF_NO_ANSWER] = VOTE_SILENT,
                                            [HF_FAILED] = VOTE_NEVER };
    vote->word = words[vote->op.out.verdict];
    if (vote->forgotten_ms < lease_end(vote)) /* mutant: late-vote-makes-giving-back */
        vote->forgotten_ms = lease_end(vote);
    /* What has been given back behind it is no vote, and that it is not ours any more no loss. What
     * never left us has put nothing there, and is not to be given back for as long as a lease.
     * After silence, what was confirmed before is so still. */
    if (vote->dismissed) {
        if (vote->word == VOTE_YES) {
            hf__known_sent(&vote->op.engine.known, HF_ASKED_RELEASE);
            hf__known_reply(&vote->op.engine.known, HF_WORD_OPEN);
        }
        vote->held_since_ms = VOTE_NOT_HELD;
    } else if (vote->word == VOTE_YES) {
        vote->lost = false;
        vote->held_since_ms = vote->op.engine.own_lease.asked_at_ms;
    } else if (vote->word != VOTE_SILENT) {
        vote->held_since_ms = VOTE_NOT_HELD;
    }
}

static void note_giving(struct quorum_member *vote)
{
    int64_t now_ms = hf__loop_now(member_loop_of(vote));
    bool gone = vote->op.out.verdict == HF_GONE;
    bool lease_is_over = now_ms >= vote->forgotten_ms;
    vote->lost |= gone && vote->op.out.lost;
    bool may_come = vote->op.engine.known.now & HF_KNOWN_MAY_COME;
    /* mutant: attempt-that-paused-server */
    if (gone || (lease_is_over && !may_come)) {
        hf__known_forget(&vote->op.engine.known);
        vote->held_since_ms = VOTE_NOT_HELD;
        vote->word = VOTE_GONE;
        return;
    }
    vote->word = VOTE_SILENT;
    int64_t pause_ms = lease_is_over ? SAY_AGAIN_LATE_MS : SAY_AGAIN_MS;
    hf__timer_start(member_loop_of(vote), &vote->again, now_ms + hf__jitter_ms(pause_ms));
}

void hf__quorum_member_heard(struct quorum_member *vote)
{
    bool wanted = vote->giving ? !vote->ballot->taking : vote->ballot->taking && !vote->dismissed;
    vote->busy = false;
    if (vote->giving)
        note_giving(vote);
    else
        note_taking(vote);
    if (!wanted && vote->ballot->taking)
        hf__quorum_member_ask(vote);
    else if (!wanted)
        hf__quorum_member_give_back(vote);
}

/* ---- beginning and ending ---- */

/* The name is the ballot's: what is left of it may outlive the core's claim. */
void hf__quorum_member_set(struct quorum_member *vote, struct quorum_claim *ballot,
                           void (*answered)(struct hf_task *task))
{
    const struct hf_op *op = ballot->op;
    memset(vote, 0, sizeof *vote);
    vote->ballot = ballot;
    vote->held_since_ms = VOTE_NOT_HELD;
    vote->op.in.name = ballot->name;
    vote->op.in.name_length = op->in.name_length;
    vote->op.in.name_hash = op->in.name_hash;
    vote->op.in.owner = op->in.owner;
    vote->op.in.owner_text = "";
    vote->op.in.keep = HF_KEEP_NOTHING;
    vote->op.engine.word[0] = ballot->number;
    hf__timer_init(&vote->again, say_again);
    hf__task_init(&vote->answered, answered);
}

void hf__quorum_member_close(struct quorum_member *vote)
{
    hf__timer_stop(member_loop_of(vote), &vote->again);
    hf__link_remove(&vote->answered.link);
    hf__redis_forget_renewal(server_of(vote), &vote->op);
    free(vote->op.out.error);
    vote->op.out.error = NULL;
}
