/* SPDX-License-Identifier: Apache-2.0 */
/* A session ends when its length has passed since the leader last heard of it, or since there is a
 * new leader. Two things have to be known for that.
 *
 * That there was no new leader: only what most servers had to agree to proves that, which is a
 * write. A leader that was deposed, and does not know it yet, answers a `sync` and a greeting.
 *
 * When it last heard of us: the server that we talk to reports that twice a tick. An answer proves
 * that the reports came through until some time before it was asked for: half a tick, and for as
 * long as the leader may have stood still. A session lasts two ticks at least, so five twelfths of
 * it are half a tick and a sixth of the session; and five ticks where it lasts twelve. */
#include "session_proof.h"

#include <string.h>

int64_t hf__zk_belief_ms(int64_t timeout_ms)
{
    return timeout_ms > 2 ? timeout_ms / 2 : 1;
}

int64_t hf__zk_heartbeat_ms(int64_t timeout_ms)
{
    return timeout_ms / 8 - timeout_ms / 800;
}

int64_t hf__zk_patience_ms(int64_t timeout_ms)
{
    return timeout_ms / 4;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* A belief is half of the session long, and never lasts beyond a whole one from either moment. The
 * servers' clocks may be a hundredth faster than ours all that time, and what the core takes off
 * for that (lease.c) is a hundredth of the half. */
static int64_t counts_from(const struct zk_session_proof *contacts, int64_t at_ms,
                           int64_t timeout_ms)
{
    /* mutant: clocks-drift-is-taken-off-half */
    return earlier(at_ms, earlier(contacts->known_ms, contacts->agreed_ms) + timeout_ms / 2 -
                              timeout_ms / 200);
}

int64_t hf__zk_session_proof_greet(struct zk_session_proof *contacts, int64_t at_ms,
                                   int64_t timeout_ms, bool begun)
{
    /* mutant: greeting-counts-as-if-most */
    int64_t agreed_ms = begun ? at_ms : contacts->agreed_ms;
    *contacts =
        (struct zk_session_proof){ .known_ms = at_ms, .agreed_ms = agreed_ms, .newest_ms = at_ms };
    return counts_from(contacts, at_ms, timeout_ms);
}

/* Every lock that rests on the session is looked at for each of them. */
bool hf__zk_session_proof_wants(const struct zk_session_proof *contacts, int64_t at_ms,
                                int64_t timeout_ms)
{
    return at_ms >= contacts->newest_ms + timeout_ms / 12 ||
           contacts->agreed_ms < contacts->known_ms; /* mutant: first-agreement-after-greeting */
}

int64_t hf__zk_session_proof_note(struct zk_session_proof *contacts, int64_t at_ms,
                                  int64_t timeout_ms)
{
    unsigned reported = 0;
    /* mutant: leader-knows-of-everything */
    while (reported < contacts->count && contacts->at_ms[reported] <= at_ms - timeout_ms * 5 / 12)
        contacts->known_ms = contacts->at_ms[reported++];
    contacts->count -= reported;
    memmove(contacts->at_ms, contacts->at_ms + reported, contacts->count * sizeof(int64_t));
    if (contacts->count < ZK_CONTACTS_MAX)
        contacts->at_ms[contacts->count++] = at_ms;
    contacts->newest_ms = contacts->agreed_ms = at_ms;
    return counts_from(contacts, at_ms, timeout_ms);
}
