/* SPDX-License-Identifier: Apache-2.0 */
/* From records to claims: when each acquisition may have been in the store, and when it must. */
#include "oracle_claims.h"

#include "test.h"

static struct claim *claim_of(struct oracle_claims *claims, const struct torture_record *records,
                              uint64_t operation)
{
    unsigned index = 0;
    for (size_t i = 0; records[i].operation != operation || records[i].kind != TORTURE_INVOKE; i++)
        index += records[i].kind == TORTURE_INVOKE &&
                 (records[i].verb == TORTURE_TRY || records[i].verb == TORTURE_ACQUIRE);
    return &claims->all[index];
}

/* Records are ten nanoseconds apart, and deadlines fall between them: the last number before. */
static uint64_t number_of(int64_t at_ns)
{
    return at_ns == TORTURE_NEVER || at_ns == 0 ? NEVER_NUMBER : (uint64_t)at_ns / 10;
}

static void begin_claim(struct oracle_claims *claims, const struct torture_record *record)
{
    CHECK(claims->count < STORY_CALLS);
    claims->all[claims->count++] = (struct claim){
        .asked = record->number,
        .answered = NEVER_NUMBER,
        .queued = NEVER_NUMBER,
        .patient = record->deadline_ns ? number_of(record->deadline_ns) : 0,
        .kept = NEVER_NUMBER,
        .forgotten = NEVER_NUMBER,
        .told = NEVER_NUMBER,
        .changing = NEVER_NUMBER,
        .changed = NEVER_NUMBER,
        .owner = record->owner,
        .weight = record->permits,
        .share = record->mode,
        .try = record->verb == TORTURE_TRY,
    };
}

static void answer_claim(struct claim *claim, const struct torture_record *record)
{
    claim->answered = record->number;
    claim->kind = record->kind;
    claim->token = record->token;
    claim->deadline = number_of(record->deadline_ns);
    claim->kept = 0;
    claim->since = record->number;
    if (record->kind == TORTURE_UNKNOWN) {
        claim->forgotten = number_of(record->until_ns);
        claim->forgotten += claim->forgotten != NEVER_NUMBER;
    }
    if (record->kind == TORTURE_REFUSED)
        claim->forgotten = record->number;
}

/* Whatever ends belief: up to here it was there if the deadline had not come, and if what follows
 * shows it. */
static void end_belief(struct claim *claim, uint64_t number)
{
    if (claim->over)
        return;
    claim->over = true;
    bool in_time = claim->deadline >= number;
    uint64_t end = in_time ? number : claim->deadline;
    if (end > claim->kept && end >= claim->since && (claim->given_back || !in_time))
        claim->kept = end;
}

static void release_claim(struct claim *claim, const struct torture_record *invoke, size_t left)
{
    for (size_t i = 0; i < left; i++)
        if (invoke[i].operation == invoke->operation && invoke[i].kind == TORTURE_OK)
            claim->given_back = true;
    end_belief(claim, invoke->number);
}

/* Whether the store ended it, an answer says; and where no change is open, not before its lease. */
static void tell_loss(struct claim *claim, const struct torture_record *record)
{
    if (claim->told != NEVER_NUMBER || record->kind != TORTURE_REFUSED)
        return;
    claim->told = record->number;
    claim->lasts = claim->open ? 0 : claim->deadline;
}

/* What had run out may have been there still when it was changed, but its holder was not sure. What
 * was refused was not changed, and what was not answered may have been, at any time. */
static void change_claim(struct claim *claim, const struct torture_record *record)
{
    if (record->kind == TORTURE_INVOKE) {
        claim->changing = record->number;
        claim->new_share = record->verb == TORTURE_UPGRADE ? TORTURE_EXCLUSIVE : record->mode;
        return;
    }
    if (record->verb == TORTURE_DOWNGRADE)
        tell_loss(claim, record);
    claim->open = claim->open || record->kind == TORTURE_UNKNOWN ||
                  (record->kind == TORTURE_REFUSED && record->verb == TORTURE_UPGRADE);
    claim->unclear = claim->unclear || record->kind != TORTURE_OK;
    if (record->kind == TORTURE_REFUSED)
        claim->changing = NEVER_NUMBER;
    if (record->kind != TORTURE_OK)
        return;
    claim->changed = record->number;
    claim->new_token = record->token;
    if (claim->over)
        return;
    if (claim->changing > claim->kept)
        claim->kept = claim->changing;
    if (claim->deadline < record->number) {
        claim->gap = true;
        claim->since = record->number;
    }
}

/* What was renewed was there when that was asked for, so it had never left. Whether its holder was
 * sure between a deadline and the answer is nobody's to say. */
static void renew_claim(struct claim *claim, const struct torture_record *record)
{
    if (record->kind == TORTURE_INVOKE)
        claim->renewing = record->number;
    tell_loss(claim, record);
    claim->open = claim->open || record->kind == TORTURE_UNKNOWN;
    if (record->kind != TORTURE_OK || claim->over)
        return;
    if (claim->renewing > claim->kept)
        claim->kept = claim->renewing;
    if (claim->deadline < record->number) {
        claim->gap = true;
        claim->since = record->number;
    }
    claim->deadline = number_of(record->deadline_ns);
}

static void see_claim(struct claim *claim, const struct torture_record *record)
{
    if (claim->over)
        return;
    claim->kept = record->number;
    if (record->deadline_ns)
        claim->deadline = number_of(record->deadline_ns);
}

static bool acquires(const struct torture_record *record)
{
    return record->verb == TORTURE_TRY || record->verb == TORTURE_ACQUIRE;
}

static void read_record(struct oracle_claims *claims, const struct torture_record *records,
                        size_t i, size_t count)
{
    const struct torture_record *record = &records[i];
    if (record->kind == TORTURE_LOCK) {
        claims->description = record;
    } else if (record->kind == TORTURE_INVOKE && acquires(record)) {
        begin_claim(claims, record);
    } else if (record->kind == TORTURE_ENQUEUED) {
        claim_of(claims, records, record->operation)->queued =
            record->flags & TORTURE_DISPLACED ? 0 : record->number;
    } else if (acquires(record)) {
        answer_claim(claim_of(claims, records, record->operation), record);
    } else if (record->kind == TORTURE_STILL) {
        see_claim(claim_of(claims, records, record->hold), record);
    } else if (record->kind == TORTURE_LOST) {
        end_belief(claim_of(claims, records, record->hold), record->number);
    } else if (record->verb == TORTURE_RELEASE && record->kind == TORTURE_INVOKE) {
        release_claim(claim_of(claims, records, record->hold), record, count - i);
    } else if (record->verb == TORTURE_RELEASE) {
        claim_of(claims, records, record->hold)->forgotten = record->number;
        tell_loss(claim_of(claims, records, record->hold), record);
    } else if (record->verb == TORTURE_RENEW) {
        renew_claim(claim_of(claims, records, record->hold), record);
    } else {
        change_claim(claim_of(claims, records, record->hold), record);
    }
}

void oracle_claims_read(struct oracle_claims *claims, const struct torture_record *records,
                        size_t count)
{
    claims->count = 0;
    for (size_t i = 0; i < count; i++)
        read_record(claims, records, i, count);
}

/* That it had been lost, an answer says after its deadline: the search knows then that nobody else
 * can have had it before, and the rules do not. Nor do they judge the loss of nested holds. */
static bool is_loss_hard_to_judge(const struct oracle_claims *claims, unsigned wanted)
{
    const struct claim *claim = &claims->all[wanted];
    if (claim->told == NEVER_NUMBER)
        return false;
    for (unsigned i = 0; i < claims->count; i++) {
        const struct claim *other = &claims->all[i];
        if (i != wanted && other->owner == claim->owner && other->asked < claim->told &&
            other->forgotten > claim->asked)
            return true;
    }
    return claim->told > claim->lasts;
}

bool oracle_claims_are_plain(const struct oracle_claims *claims)
{
    for (unsigned i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->all[i];
        bool clear_no = claim->kind == TORTURE_REFUSED && claim->try;
        bool changed = claim->changed != NEVER_NUMBER;
        if (claim->gap || claim->unclear || is_loss_hard_to_judge(claims, i) ||
            (!clear_no && (claim->kind != TORTURE_OK || claim->kept == 0)))
            return false;
        if (changed && claim->kept < claim->changed)
            return false;
    }
    return true;
}
