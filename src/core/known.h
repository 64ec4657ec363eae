/* SPDX-License-Identifier: Apache-2.0 */
/* What a store has of a claim: surely, perhaps, surely not. The rules on lost, late and open
 * replies, once for all engines. The table is in core/claim/known.c; nothing here knows an engine,
 * a clock, memory or a lock.
 *
 * How an engine translates:
 *   - hf__known_sent, when the bytes of a request leave. Before that, nothing can be at the store.
 *     A request that only reads is not reported. A request in several packets is reported with each
 *     packet that may change something.
 *   - hf__known_reply, once per question of the core, with the store's word:
 *       GRANTED   the claim holds what it asked for. Also the reply to a repeated attempt that
 *                 finds the claim's own lock
 *       QUEUED    refused, and the store keeps a place for the claim
 *       REFUSED   refused, and no place. Of an attach: nothing is under the key
 *       DONE      the release, lowering or undoing has found something of the claim
 *       MISSING   it has found nothing. Of a raise: what was held is gone
 *       NEVER     this request surely did nothing, and a retry says the same: no right, another
 *                 kind of lock, a name that is not allowed
 *       OPEN      all else: no reply, a time-out, a reply that cannot be read, an error after which
 *                 the request may have been executed (leader changed, an error of a proxy, a script
 *                 that was stopped on its way). In doubt: OPEN
 *   - hf__known_settled before it, if the reply proves that each earlier request has been executed
 *     or never will be (one ordered connection; the store has ended the connection before it; a
 *     barrier). Without that proof an earlier request may be executed behind a later one.
 *   - hf__known_forget, when the lease or session has surely ended that all of it rested on.
 *   - hf__known_way_out says how a claim leaves the store. A RELEASE must name the grant (a number,
 *     a revision). Then it takes nothing of another claim of the same owner, and a late one takes
 *     nothing of a later grant.
 *   - After GONE, LOST and LEFT: if hf__known_is_there, something is at the store yet, or may come.
 *     A session that it rests on must not be used for new claims; a lease of its own ends by
 *     itself. */
#ifndef HF_CORE_KNOWN_H
#define HF_CORE_KNOWN_H

#include <stdbool.h>

enum hf_asked {
    HF_ASKED_NOTHING,
    HF_ASKED_TRY,     /* an attempt that leaves nothing behind if refused */
    HF_ASKED_ATTEMPT, /* one that takes a place in the queue; also to raise what is held */
    HF_ASKED_ATTACH,  /* takes over a lock that was left under a key */
    HF_ASKED_LOWER,   /* gives back all but what was held before */
    HF_ASKED_RELEASE, /* gives back everything */
    HF_ASKED_UNDO     /* puts an attached lock back under its key */
};

enum hf_word {
    HF_WORD_GRANTED,
    HF_WORD_QUEUED,
    HF_WORD_REFUSED,
    HF_WORD_DONE,
    HF_WORD_MISSING,
    HF_WORD_NEVER,
    HF_WORD_OPEN
};

/* What to tell the core, or to do first. */
enum hf_known_verdict {
    HF_KNOWN_NO_ANSWER, /* HF_NO_ANSWER */
    HF_KNOWN_GRANTED,   /* HF_GRANTED */
    HF_KNOWN_REFUSED,   /* HF_REFUSED, or HF_REFUSED_NOT_QUEUED after HF_WORD_REFUSED */
    HF_KNOWN_NOT_THERE, /* HF_FAILED with out.lost: what an attach or a raise needs is gone */
    HF_KNOWN_FAILED,    /* HF_FAILED: nothing new of the claim is at the store */
    HF_KNOWN_WITHDRAW,  /* first hf__known_way_out, then what the word meant: REFUSED or FAILED.
                           HF_NO_ANSWER is right as well: the core repeats or withdraws then */
    HF_KNOWN_GONE,      /* HF_GONE */
    HF_KNOWN_LOST,      /* HF_GONE with out.lost: surely held before, surely gone, not by us */
    HF_KNOWN_LEFT       /* HF_FAILED: the store refuses to clean up, and no retry helps. What is
                           there ends with its lease or session */
};

/* How a claim leaves the store. */
enum hf_way_out { HF_OUT_NOTHING, HF_OUT_RELEASE, HF_OUT_LOWER, HF_OUT_UNDO };

enum {
    HF_KNOWN_PLACE = 1,       /* the store has said that it keeps a place */
    HF_KNOWN_LOCK = 2,        /* the store has said that the claim holds the lock */
    HF_KNOWN_MAY_HAVE = 4,    /* an attempt without a reply may have been executed */
    HF_KNOWN_MAY_COME = 8,    /* an attempt without a reply may be executed yet */
    HF_KNOWN_MAY_BE_GONE = 16 /* a release without a reply may have been executed */
};

/* Zero: nothing. Until the reply to what was sent, the worst is assumed. */
struct hf_known {
    unsigned char now;    /* HF_KNOWN_... */
    unsigned char before; /* the same without the request that is out */
    unsigned char asked;  /* enum hf_asked: what is out */
};

void hf__known_sent(struct hf_known *known, enum hf_asked asked);
void hf__known_settled(struct hf_known *known);
enum hf_known_verdict hf__known_reply(struct hf_known *known, enum hf_word word);
/* The same for a word that comes without a request that could change anything: a look has told, or
 * the request cannot be sent at all. */
enum hf_known_verdict hf__known_found(struct hf_known *known, enum hf_asked asked,
                                      enum hf_word word);
/* `attached`: the caller has not heard of the grant of its attach. `keeps`: something stays. */
enum hf_way_out hf__known_way_out(const struct hf_known *known, bool attached, bool keeps);

/* Something of the claim is at the store, or may be, or may come. */
static inline bool hf__known_is_there(const struct hf_known *known)
{
    return known->now & (HF_KNOWN_PLACE | HF_KNOWN_LOCK | HF_KNOWN_MAY_HAVE | HF_KNOWN_MAY_COME);
}

static inline bool hf__known_holds(const struct hf_known *known)
{
    return known->now & HF_KNOWN_LOCK;
}

static inline bool hf__known_waits(const struct hf_known *known)
{
    return known->now & HF_KNOWN_PLACE;
}

/* A request without a reply may have changed what the store has. */
static inline bool hf__known_is_open(const struct hf_known *known)
{
    return known->now & (HF_KNOWN_MAY_HAVE | HF_KNOWN_MAY_COME | HF_KNOWN_MAY_BE_GONE);
}

static inline void hf__known_forget(struct hf_known *known)
{
    *known = (struct hf_known){ .now = 0 };
}

#endif
