/* SPDX-License-Identifier: Apache-2.0 */
/* L5: a hold lasts until it is released, or its lease is over. An earlier loss takes a fault of the
 * store itself: what strikes a client or its connection takes nothing away, unless holds end with
 * their connection. A LOST proves nothing here, as it may be about another hold of that name in the
 * same process. */
#include "torture/check/check.h"

#include <stdio.h>

static void found_loss(struct torture_checking *checking, const struct torture_object *lock,
                       const struct torture_hold *hold)
{
    const struct torture_record *word = hold->lost_early;
    struct torture_name left = { "having no lease" };
    struct torture_finding finding = {
        .rule = TORTURE_L5,
        .hold_count = 1,
        .holds = { hold->call->invoke->operation },
        .from = hold->call->invoke->number,
        .to = word->number,
    };
    if (hold->deadline_ns != TORTURE_NEVER)
        snprintf(left.text, sizeof left.text, "%.3f s before its lease was over",
                 (double)(hold->deadline_ns - word->at_ns) / 1e9);
    torture_found(
        checking, lock, &finding,
        "%s was told by a %s at %s, %s, that it had lost %s, although no fault had struck "
        "the store",
        torture_holder(hold).text, torture_verb_name((enum torture_verb)word->verb),
        torture_moment(checking, word->number).text, left.text, torture_lock_name(lock).text);
}

/* Of nested holds, a renewal of one moves the end of all. */
void torture_check_losses(struct torture_checking *checking, const struct torture_object *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct torture_hold *hold = &lock->holds[i];
        if (hold->nested || hold->entered || hold->unclear)
            continue;
        checking->report->checked[TORTURE_L5]++;
        const struct torture_record *invoke = hold->call->invoke;
        /* mutant: loss-is-excused-by-faults-of-store */
        if (hold->lost_early && !torture_may_have_lost(checking, invoke->at_ns,
                                                       hold->lost_early->at_ns, invoke->client))
            found_loss(checking, lock, hold);
    }
}
