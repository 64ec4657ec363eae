/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `quorum:` from the inside: a lock that most of several independent servers have
 * granted.
 *
 * Each server is an engine of its own, Redis with format=simple, that knows nothing of the others.
 * What it reports comes by a sink (claim.c). A claim of the core's is a ballot; what it asks of
 * each server is a vote, which is a claim of its own for that server. The ballot counts, and
 * decides; it waits for no server whose vote changes nothing any more. Everything here runs on the
 * loop. */
#ifndef HF_ENGINES_QUORUM_QUORUM_H
#define HF_ENGINES_QUORUM_QUORUM_H

#include "core/engine.h"
#include "engines/redis/sink.h"

#define QUORUM_MIN 3u
#define QUORUM_MAX 9u
#define VOTE_NOT_HELD INT64_C(-1)

struct quorum_claim;

enum vote_word {
    VOTE_UNHEARD, /* a request is out, or will be when the one before it is answered */
    VOTE_YES,
    VOTE_NO,
    VOTE_SILENT, /* no answer */
    VOTE_NEVER,  /* it cannot be at this server */
    VOTE_GONE    /* nothing of ours is there */
};

struct quorum_member {
    struct hf_op op; /* the server's claim; one request about it is out at a time */
    struct hf_task answered;
    struct quorum_claim *ballot;
    struct hf_timer again; /* giving back is said again then */
    enum vote_word word;   /* on what the ballot wants now */
    bool busy, giving;     /* a request is out; it gives back */
    bool dismissed;        /* what is out is given back already */
    bool levelled;         /* has been asked to raise its token */
    bool lost;             /* it had granted the lock, says it is not ours any more, and has not
                            * granted it since */
    bool counted;          /* it had granted the lock when giving back began */
    int64_t lost_at_ms;    /* when a renewal has said so */
    int64_t held_since_ms; /* when the request left by which it was last confirmed, or NOT_HELD */
    int64_t forgotten_ms;  /* what was executed there has ended by itself then */
    const char *refusal;   /* why it was refused to be renewed last, or NULL */
    int64_t refused_at_ms; /* when that request left */
};

struct quorum_claim {
    struct hf_link link; /* in quorum->ballots, or among the free ones */
    struct quorum *quorum;
    struct hf_op *op; /* the core's; NULL: it goes on without us, and what is left is given back */
    uint64_t number;  /* of the claim at the servers; 0: the ballot is free */
    bool taking;      /* what is wanted: the lock, or to be rid of it */
    bool open;        /* the core waits for an answer */
    unsigned held;    /* servers that had granted it when giving back began */
    unsigned left;    /* servers that need not be heard for it to be given back */
    unsigned pins;    /* changes that are out */
    uint64_t token;   /* the servers are asked for one that is not below it; 0: any */
    int64_t began_ms; /* of the round */
    struct hf_timer limit;  /* enough have answered, and the others are waited for until then */
    struct hf_link waiting; /* in quorum->waiting from when it is asked for until it is granted */
    struct hf_task handed;  /* a claim here has given the lock back */
    bool is_next;           /* it follows that one */
    int64_t here_since_ms;  /* the lock goes from one to the next here */
    char name[HF_NAME_MAX + 1];
    struct quorum_member votes[];
};

struct quorum {
    struct hf_engine base;
    unsigned count, majority;
    uint64_t claims; /* numbers given so far */
    struct hf_link ballots, free_ballots, waiting;
    struct hf_link polls;    /* changes that are out (change.c) */
    struct hf_link rounds;   /* examinations that are (doctor.c) */
    struct hf_timer leaving; /* closing waits for what is given back until then */
    void (*closed)(void *arg);
    void *closed_arg;
    struct hf_url urls[QUORUM_MAX];
    struct hf_engine *members[QUORUM_MAX];
};

extern const struct hf_engine_ops hf__quorum;
/* claim.c: what the servers report. */
extern const struct redis_sink hf__quorum_sink;
/* doctor.c: a server's remark. */
void hf__quorum_remark(struct hf_oneshot *part, const hf_remark *remark);

/* url.c: opens the servers that the URL names. HF_OK, or a code with *error filled. */
int hf__quorum_open_members(struct quorum *quorum, struct hf_url *url, hf_error *error);

/* member.c: what one server is asked, and says. */
/* `answered` runs on the loop after each answer, and calls hf__quorum_member_heard. */
void hf__quorum_member_set(struct quorum_member *vote, struct quorum_claim *ballot,
                           void (*answered)(struct hf_task *task));
void hf__quorum_member_heard(struct quorum_member *vote);
/* Asks for what the ballot wants, as soon as the request before it is answered. */
void hf__quorum_member_ask(struct quorum_member *vote);
/* Asks for nothing where nothing is. */
void hf__quorum_member_give_back(struct quorum_member *vote);
/* Something of ours is at the server, or may be, as far as the ballot has heard; an attempt that
 * has not left us is nothing. */
bool hf__quorum_member_is_there(const struct quorum_member *vote);
/* Nothing is, and nothing is going to be. */
bool hf__quorum_member_is_gone(const struct quorum_member *vote);
/* Where its token is below the ballot's it is asked once more. */
void hf__quorum_member_level(struct quorum_member *vote);
bool hf__quorum_member_has_token(const struct quorum_member *vote);
/* The least token that a server is asked for. */
uint64_t hf__quorum_member_min_token(const struct hf_op *op);
void hf__quorum_member_close(struct quorum_member *vote);

/* claim.c */
void hf__quorum_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__quorum_release(struct hf_engine *engine, struct hf_op *op);
void hf__quorum_renew(struct hf_engine *engine, struct hf_lease *lease);

/* ballot.c. NULL: it has none, or what was left of it has been given back. */
struct quorum_claim *hf__quorum_ballot_of(const struct hf_op *op);
/* Tells the core. */
void hf__quorum_ballot_answer(struct quorum_claim *ballot, enum hf_verdict verdict);
/* Whatever is at the servers, or may be, is to go; the core does not wait for it. */
void hf__quorum_ballot_give_back(struct quorum_claim *ballot);
/* Once the core is out of it, and nothing is left, the ballot is free. Closing may have waited for
 * that. */
void hf__quorum_ballot_retire(struct quorum_claim *ballot);
/* A change that was out is answered. */
void hf__quorum_ballot_unpin(struct quorum_claim *ballot);
/* The core is not to hear of any of them any more: what is left is given back. */
void hf__quorum_ballots_abandon(struct quorum *quorum);
/* Frees all ballots, whatever is out. */
void hf__quorum_ballots_close(struct quorum *quorum);

/* decide.c: does what most votes say by now, while the core waits to have the lock; to be rid of
 * it.
 */
void hf__quorum_decide_taking(struct quorum_claim *ballot);
void hf__quorum_decide_giving(struct quorum_claim *ballot);
/* The core's patience is over: which servers have not answered. */
void hf__quorum_decide_why_silent(struct hf_engine *engine, struct hf_op *op, hf_error **error);
/* ballot->limit is over. */
void hf__quorum_decide_limit_over(struct hf_timer *timer);
/* Since when most servers have confirmed that they have the lock; or VOTE_NOT_HELD. */
int64_t hf__quorum_decide_confirmed_at(const struct quorum_claim *ballot);

/* change.c */
void hf__quorum_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot);
/* The core waits for a change's answer. */
bool hf__polls_wanted(const struct quorum *quorum);
void hf__polls_close(struct quorum *quorum);

/* doctor.c */
void hf__quorum_examine(struct hf_engine *engine, struct hf_oneshot *examination);
/* The core waits for an examination. */
bool hf__rounds_wanted(const struct quorum *quorum);
void hf__rounds_close(struct quorum *quorum);

#endif
