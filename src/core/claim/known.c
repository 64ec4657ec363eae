/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind core/known.h. tests/unit/test_known.c searches all short runs of it against a
 * toy store that executes late, queues, refuses to clean up, and has locks under keys. */
#include "core/claim/known_table.h"

#define PLACE HF_KNOWN_PLACE
#define LOCK HF_KNOWN_LOCK
#define HAVE HF_KNOWN_MAY_HAVE
#define COME HF_KNOWN_MAY_COME
#define LESS HF_KNOWN_MAY_BE_GONE
#define ALL (PLACE | LOCK | HAVE | COME | LESS)

#define ALWAYS(verdict) 0, 0, HF_KNOWN_##verdict, HF_KNOWN_##verdict

/* A row: of what was known before the request, what stays; what is new; and the verdict, which
 * depends on whether (before & mask) == equals. Where there is no row (OPEN, a late reply, one that
 * such a request cannot have), what hf__known_sent has added stays, and the verdict is NO_ANSWER.
 *
 * An attempt that is executed later than another one finds what that one has left, so its reply
 * says everything about both, but for an earlier one that is executed behind it (COME). */
HF_TUNABLE struct hf_known_row hf__known_table[HF_ASKED_UNDO + 1][HF_WORD_OPEN + 1] = {
    [HF_ASKED_TRY] = {
        [HF_WORD_GRANTED] = { COME, LOCK, ALWAYS(GRANTED) },
        [HF_WORD_QUEUED] = { COME, PLACE, ALWAYS(WITHDRAW) },
        [HF_WORD_REFUSED] = { COME, 0, COME, 0, HF_KNOWN_REFUSED, HF_KNOWN_WITHDRAW },
        [HF_WORD_NEVER] = { ALL, 0, PLACE | HAVE | COME, 0, HF_KNOWN_FAILED, HF_KNOWN_WITHDRAW },
    },
    [HF_ASKED_ATTEMPT] = {
        [HF_WORD_GRANTED] = { COME, LOCK, ALWAYS(GRANTED) },
        [HF_WORD_QUEUED] = { LOCK | COME | LESS, PLACE, ALWAYS(REFUSED) },
        [HF_WORD_REFUSED] = { LOCK | COME | LESS, 0, ALWAYS(REFUSED) },
        [HF_WORD_MISSING] = { PLACE | HAVE | COME, 0, ALWAYS(NOT_THERE) },
        /* mutant: known-refusal-withdraws-first */
        [HF_WORD_NEVER] = { ALL, 0, PLACE | HAVE | COME, 0, HF_KNOWN_FAILED, HF_KNOWN_WITHDRAW },
    },
    [HF_ASKED_ATTACH] = {
        [HF_WORD_GRANTED] = { COME, LOCK, ALWAYS(GRANTED) },
        [HF_WORD_REFUSED] = { COME, 0, COME, 0, HF_KNOWN_NOT_THERE, HF_KNOWN_WITHDRAW },
        [HF_WORD_NEVER] = { ALL, 0, HAVE | COME, 0, HF_KNOWN_FAILED, HF_KNOWN_WITHDRAW },
    },
    [HF_ASKED_LOWER] = {
        [HF_WORD_DONE] = { LOCK | COME, 0, ALWAYS(GONE) },
        [HF_WORD_MISSING] = { COME, 0, LOCK | LESS, LOCK, HF_KNOWN_LOST, HF_KNOWN_GONE },
        /* The hold goes on as it was, unless an earlier request may have lowered it. */
        [HF_WORD_NEVER] = { ALL, 0, LESS, 0, HF_KNOWN_LEFT, HF_KNOWN_NO_ANSWER },
    },
    [HF_ASKED_RELEASE] = {
        [HF_WORD_DONE] = { COME, 0, ALWAYS(GONE) }, /* mutant: known-open-release-is-repeated */
        [HF_WORD_MISSING] = { COME, 0, LOCK | LESS, LOCK, HF_KNOWN_LOST, HF_KNOWN_GONE },
        [HF_WORD_NEVER] = { ALL, 0, ALWAYS(LEFT) }, /* mutant: known-clean-up-was-refused */
    },
    /* No caller has heard of the grant, so its end is no loss. */
    [HF_ASKED_UNDO] = {
        [HF_WORD_DONE] = { COME, 0, ALWAYS(GONE) },
        [HF_WORD_MISSING] = { COME, 0, ALWAYS(GONE) },
        [HF_WORD_NEVER] = { ALL, 0, ALWAYS(LEFT) },
    },
};

/* What a request may have done as soon as it has left. */
HF_TUNABLE unsigned char hf__known_open[HF_ASKED_UNDO + 1] = {
    [HF_ASKED_ATTACH] = HAVE | COME,
    [HF_ASKED_TRY] = HAVE | COME, /* mutant: known-open-is-no-answer */
    [HF_ASKED_ATTEMPT] = HAVE | COME,
    [HF_ASKED_LOWER] = LESS,
    [HF_ASKED_RELEASE] = LESS, /* mutant: known-open-release-is-no-loss */
    [HF_ASKED_UNDO] = LESS,
};

/* Sent again, with nothing heard in between: the first one counts as open. */
void hf__known_sent(struct hf_known *known, enum hf_asked asked)
{
    known->before = known->now;
    known->asked = (unsigned char)asked;
    known->now |= hf__known_open[asked];
}

void hf__known_settled(struct hf_known *known)
{
    known->before &= (unsigned char)~COME;
    if (!known->asked)
        known->now &= (unsigned char)~COME;
}

enum hf_known_verdict hf__known_reply(struct hf_known *known, enum hf_word word)
{
    const struct hf_known_row *row = &hf__known_table[known->asked][word];
    known->asked = HF_ASKED_NOTHING; /* mutant: known-late-reply */
    if (row->then == HF_KNOWN_NO_ANSWER)
        return HF_KNOWN_NO_ANSWER;
    known->now = (known->before & row->stays) | row->added;
    return (known->before & row->mask) == row->equals ? row->then : row->otherwise;
}

enum hf_known_verdict hf__known_found(struct hf_known *known, enum hf_asked asked,
                                      enum hf_word word)
{
    if (!known->asked && word != HF_WORD_OPEN)
        hf__known_sent(known, asked);
    return hf__known_reply(known, word);
}

enum hf_way_out hf__known_way_out(const struct hf_known *known, bool attached, bool keeps)
{
    if (!hf__known_is_there(known))
        return HF_OUT_NOTHING;
    if (attached) /* mutant: known-attach-is-undone */
        return HF_OUT_UNDO;
    return keeps && hf__known_holds(known) ? HF_OUT_LOWER : HF_OUT_RELEASE;
}
