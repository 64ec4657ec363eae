/* SPDX-License-Identifier: Apache-2.0 */
/* What the store has of a claim: all short runs of the table in known.c against a toy store that
 * loses replies, executes requests late, queues, refuses to clean up, and has locks under keys. */
#include "core/claim/known_table.h"
#include "test.h"

#include <stdio.h>

#define CHOICES_MAX 64
#define REQUESTS_MAX 4
#define LATE_MAX 1

enum mode { NOTHING, READS, WRITES };

/* One lock. What others have counts as one. */
struct store {
    enum mode ours, others;
    bool detached; /* it is held under a key */
    bool place, queues;
};

/* How a request fares. Late ones exist only where a reply proves nothing about earlier requests. */
enum fate { TOLD, NO_REPLY, NOT_EXECUTED, REFUSED, NOT_SENT, LATE, FATES };

struct run {
    /* ---- what varies ---- */
    enum hf_asked first;
    bool raises, ordered, queues; /* raises: it holds READS, and the caller has heard of that */
    unsigned again;               /* so many attempts follow a refused or open one */
    enum mode others;
    bool detached;
    /* ---- the run ---- */
    struct store store;
    struct hf_known known;
    enum hf_asked late[LATE_MAX];
    unsigned late_count, requests;
    bool raised;        /* the caller has heard of the grant of the raise */
    bool told;          /* the caller has heard of the grant */
    bool broken, left;  /* the lock was taken away from us; others have given up theirs */
    bool open_attempts; /* an attempt had no reply */
    bool open_release;  /* a release had no reply */
    bool heard_granted; /* the store's last word on an attempt */
    enum hf_word word;  /* the last reply */
    const char *wrong;
};

/* ---- all runs: each choice counts up, the last one first ---- */

static unsigned choices[CHOICES_MAX], bounds[CHOICES_MAX], made;

static unsigned choose(unsigned count)
{
    if (made == CHOICES_MAX)
        FAIL("a run has more than %d choices", CHOICES_MAX);
    bounds[made] = count;
    return choices[made++];
}

static bool next_choices(void)
{
    while (made > 0 && ++choices[made - 1] == bounds[made - 1])
        choices[--made] = 0;
    bool more = made > 0;
    made = 0;
    return more;
}

/* ---- the store ---- */

static enum hf_word attempt(struct store *store, enum mode mode, bool takes_place)
{
    bool others = store->others == WRITES || (store->others == READS && mode == WRITES);
    if (store->ours >= mode || (!others && !store->detached)) {
        store->ours = store->ours > mode ? store->ours : mode;
        store->place = false;
        return HF_WORD_GRANTED;
    }
    store->place |= takes_place;
    return takes_place ? HF_WORD_QUEUED : HF_WORD_REFUSED;
}

static enum hf_word attach(struct store *store)
{
    if (store->detached)
        store->ours = WRITES;
    store->detached = false;
    return store->ours == WRITES ? HF_WORD_GRANTED : HF_WORD_REFUSED;
}

static enum hf_word give_back(struct store *store, enum hf_asked asked)
{
    bool found = store->ours || (store->place && asked == HF_ASKED_RELEASE);
    store->detached |= store->ours && asked == HF_ASKED_UNDO;
    store->ours = store->ours && asked == HF_ASKED_LOWER ? READS : NOTHING;
    store->place = false;
    return found ? HF_WORD_DONE : HF_WORD_MISSING;
}

static bool takes(enum hf_asked asked)
{
    return asked <= HF_ASKED_ATTACH;
}

static enum hf_word execute(struct run *run, enum hf_asked asked)
{
    struct store *store = &run->store;
    if (takes(asked) && run->raises && !store->ours)
        return HF_WORD_MISSING;
    if (asked == HF_ASKED_TRY || asked == HF_ASKED_ATTEMPT)
        return attempt(store, WRITES, store->queues);
    if (asked == HF_ASKED_ATTACH)
        return attach(store);
    bool adopted = run->first == HF_ASKED_ATTACH && store->ours && !run->told;
    if (adopted && asked == HF_ASKED_RELEASE)
        run->wrong = "an attach that its caller never heard of has freed the lock";
    return give_back(store, asked);
}

static void execute_late(struct run *run)
{
    enum hf_asked asked = run->late[--run->late_count];
    execute(run, asked);
}

/* Between two requests: others take the lock away or give theirs up; a late request is executed. */
static void let_others_act(struct run *run)
{
    if (run->store.ours && !run->broken && choose(2)) {
        run->broken = true;
        run->store.ours = NOTHING;
        run->store.others = WRITES;
    } else if (run->store.others && !run->left && !run->broken && choose(2)) {
        run->left = true;
        run->store.others = NOTHING;
    }
    if (run->late_count && choose(2))
        execute_late(run);
}

/* ---- the engine ---- */

static bool used[HF_ASKED_UNDO + 1][HF_WORD_OPEN]; /* rows of the table */

static void check_late_reply(struct run *run, enum hf_word word)
{
    struct hf_known before = run->known;
    if (hf__known_reply(&run->known, word) != HF_KNOWN_NO_ANSWER ||
        memcmp(&before, &run->known, sizeof before) != 0)
        run->wrong = "a late reply counts";
}

static enum hf_known_verdict no_reply(struct run *run, enum hf_asked asked, bool executed)
{
    enum hf_word word = executed ? execute(run, asked) : HF_WORD_OPEN;
    run->open_attempts |= takes(asked);
    run->open_release |= !takes(asked);
    enum hf_known_verdict verdict = hf__known_reply(&run->known, HF_WORD_OPEN);
    if (executed && choose(2))
        check_late_reply(run, word);
    return verdict;
}

static enum hf_known_verdict ask(struct run *run, enum hf_asked asked)
{
    let_others_act(run);
    run->requests++;
    enum fate fate = choose(run->ordered || run->late_count == LATE_MAX ? LATE : FATES);
    if (fate == NOT_SENT)
        return hf__known_reply(&run->known, HF_WORD_OPEN);
    hf__known_sent(&run->known, asked);
    if (fate == LATE)
        run->late[run->late_count++] = asked;
    if (fate == NO_REPLY || fate == NOT_EXECUTED || fate == LATE)
        return no_reply(run, asked, fate == NO_REPLY);
    run->word = fate == TOLD ? execute(run, asked) : HF_WORD_NEVER;
    run->heard_granted |= run->word == HF_WORD_GRANTED;
    /* A raise that finds nothing tells of the loss by itself. */
    run->heard_granted &= !takes(asked) || run->word != HF_WORD_MISSING;
    used[asked][run->word] = true;
    if (run->ordered)
        hf__known_settled(&run->known);
    return hf__known_reply(&run->known, run->word);
}

/* ---- the core ---- */

static enum hf_asked asked_of(enum hf_way_out out)
{
    return out == HF_OUT_UNDO    ? HF_ASKED_UNDO
           : out == HF_OUT_LOWER ? HF_ASKED_LOWER
                                 : HF_ASKED_RELEASE;
}

static bool has_ended(const struct run *run)
{
    return run->requests == REQUESTS_MAX || run->wrong;
}

/* HF_KNOWN_NO_ANSWER: the run has become too long. */
static enum hf_known_verdict leave(struct run *run, bool keeps)
{
    bool attached = run->first == HF_ASKED_ATTACH && !run->told;
    enum hf_way_out out = hf__known_way_out(&run->known, attached, keeps);
    enum hf_known_verdict verdict = out ? HF_KNOWN_NO_ANSWER : HF_KNOWN_GONE;
    run->word = HF_WORD_OPEN;
    while (verdict == HF_KNOWN_NO_ANSWER && !has_ended(run))
        verdict = ask(run, asked_of(out));
    return verdict;
}

static void check_leaving(struct run *run, enum hf_known_verdict verdict)
{
    bool sure = run->heard_granted && !run->open_release;
    if (verdict == HF_KNOWN_LOST && !run->broken)
        run->wrong = "a release says LOST of a lock that was not taken away";
    if (verdict == HF_KNOWN_GONE && run->word == HF_WORD_MISSING && sure && run->told)
        run->wrong = "a release does not tell of a loss";
    if (verdict != HF_KNOWN_LOST && verdict != HF_KNOWN_GONE && verdict != HF_KNOWN_LEFT)
        run->wrong = "a release ends with a verdict of attempts";
    if (verdict == HF_KNOWN_LEFT && run->word != HF_WORD_NEVER)
        run->wrong = "a release gives up that was not refused";
}

/* The claim is over. Late requests may be executed yet, when nothing stands in their way. */
static void check_end(struct run *run)
{
    bool doubtful = hf__known_is_there(&run->known);
    bool open = run->open_attempts && !run->ordered;
    if (doubtful && !open && run->word != HF_WORD_NEVER)
        run->wrong = "doubt without a reason";
    if (!run->broken)
        run->store.others = NOTHING;
    while (run->late_count)
        execute_late(run);
    if ((run->store.ours || run->store.place) && !doubtful)
        run->wrong = "it is over, and something of the claim is left";
    if (run->detached && !run->told && !run->broken && !doubtful && !run->store.detached)
        run->wrong = "it is over, and the lock is not under its key any more";
}

static void release(struct run *run, bool keeps)
{
    enum hf_known_verdict verdict = leave(run, keeps);
    if (verdict == HF_KNOWN_NO_ANSWER || run->wrong)
        return;
    check_leaving(run, verdict);
    if (!keeps || verdict == HF_KNOWN_LOST) {
        check_end(run);
        return;
    }
    /* The hold from before the raise goes on, or the raised one, and is released later. */
    enum mode held = verdict == HF_KNOWN_LEFT && run->raised ? WRITES : READS;
    if (run->store.ours < held && !run->broken)
        run->wrong = "less is held than was before a second attempt, or a refused lowering";
    if (!run->wrong)
        release(run, false);
}

/* No release follows, but that of what was held before. */
static void refused_for_good(struct run *run)
{
    if (hf__known_is_there(&run->known) && !run->raises)
        run->wrong = "a refusal is told before what may be left has been withdrawn";
    else if (run->raises)
        release(run, false);
    else
        check_end(run);
}

static void play(struct run *run)
{
    enum hf_known_verdict verdict;
    bool repeats;
    do {
        verdict = ask(run, run->first);
        repeats = (verdict == HF_KNOWN_REFUSED && run->first == HF_ASKED_ATTEMPT) ||
                  verdict == HF_KNOWN_NO_ANSWER;
    } while (repeats && run->again-- > 0 && !has_ended(run));
    if (has_ended(run))
        return;
    /* Of a raise, the caller has heard of the grant before it. */
    if (verdict == HF_KNOWN_GRANTED && (run->told || choose(2))) {
        run->told = true;
        run->raised = run->raises;
        release(run, run->raised && choose(2));
    } else if (verdict == HF_KNOWN_FAILED || verdict == HF_KNOWN_NOT_THERE ||
               (verdict == HF_KNOWN_REFUSED && run->first == HF_ASKED_TRY)) {
        refused_for_good(run);
    } else {
        release(run, run->raises);
    }
}

/* ---- the search ---- */

static unsigned long runs;

static void begin(struct run *run)
{
    static const enum hf_asked firsts[] = { HF_ASKED_TRY, HF_ASKED_ATTEMPT, HF_ASKED_ATTACH };
    *run = (struct run){ .first = firsts[choose(3)], .word = HF_WORD_OPEN };
    run->raises = run->first == HF_ASKED_ATTEMPT && choose(2);
    run->ordered = choose(2);
    run->queues = run->first != HF_ASKED_ATTACH && choose(2);
    run->again = choose(3);
    run->others = run->raises ? (choose(2) ? READS : NOTHING) : choose(2) ? WRITES : NOTHING;
    run->detached = !run->others && !run->raises && choose(2);
    run->store = (struct store){ .ours = run->raises ? READS : NOTHING,
                                 .others = run->others,
                                 .detached = run->detached,
                                 .queues = run->queues };
    if (!run->raises)
        return;
    hf__known_sent(&run->known, HF_ASKED_ATTEMPT);
    hf__known_reply(&run->known, HF_WORD_GRANTED);
    run->told = run->heard_granted = true;
}

/* NULL, or what is wrong with the first run that is. */
static const char *search(struct run *run)
{
    memset(choices, 0, sizeof choices);
    made = 0;
    runs = 0;
    do {
        begin(run);
        play(run);
        runs++;
        if (run->wrong)
            return run->wrong;
    } while (next_choices());
    return NULL;
}

TEST(table_keeps_its_promises_in_all_short_runs)
{
    struct run run;
    const char *wrong = search(&run);
    for (unsigned i = 0; wrong && i < made; i++)
        test_note("choice %u of %u", choices[i], bounds[i]);
    if (wrong)
        FAIL("%s", wrong);
    test_note("%lu runs", runs);
    for (unsigned asked = 0; asked <= HF_ASKED_UNDO; asked++)
        for (unsigned word = 0; word < HF_WORD_OPEN; word++)
            if (used[asked][word] != (hf__known_table[asked][word].then != HF_KNOWN_NO_ANSWER))
                FAIL("no run needs the row of request %u and reply %u", asked, word);
}

/* One row, broken as it was broken in an engine, or as it might be. */
#define BREAK(test_name, place, value)                                                             \
    TEST(test_name)                                                                                \
    {                                                                                              \
        struct run run;                                                                            \
        place = value;                                                                             \
        const char *wrong = search(&run);                                                          \
        CHECK(wrong);                                                                              \
        test_note("%s", wrong);                                                                    \
    }

BREAK(open_error_taken_for_an_answer_is_found, hf__known_open[HF_ASKED_ATTEMPT], 0)
BREAK(open_try_taken_for_an_answer_is_found, hf__known_open[HF_ASKED_TRY], 0)
BREAK(open_attach_taken_for_an_answer_is_found, hf__known_open[HF_ASKED_ATTACH], 0)
BREAK(refusal_that_forgets_is_found, hf__known_table[HF_ASKED_ATTEMPT][HF_WORD_NEVER].otherwise,
      HF_KNOWN_FAILED)
BREAK(clean_up_refused_and_dropped_is_found, hf__known_table[HF_ASKED_RELEASE][HF_WORD_NEVER].stays,
      0)
BREAK(open_release_that_says_lost_is_found, hf__known_open[HF_ASKED_RELEASE], 0)
BREAK(loss_never_told_is_found, hf__known_table[HF_ASKED_RELEASE][HF_WORD_MISSING].then,
      HF_KNOWN_GONE)
BREAK(late_attempt_forgotten_by_a_grant_is_found,
      hf__known_table[HF_ASKED_ATTEMPT][HF_WORD_GRANTED].stays, 0)
BREAK(late_attempt_forgotten_by_a_refusal_is_found,
      hf__known_table[HF_ASKED_ATTEMPT][HF_WORD_REFUSED].stays, HF_KNOWN_LOCK)
BREAK(raise_that_forgets_the_hold_is_found,
      hf__known_table[HF_ASKED_ATTEMPT][HF_WORD_REFUSED].stays, HF_KNOWN_MAY_COME)
BREAK(place_of_a_refused_try_is_found, hf__known_table[HF_ASKED_TRY][HF_WORD_QUEUED].then,
      HF_KNOWN_REFUSED)
BREAK(lowering_that_forgets_the_hold_is_found, hf__known_table[HF_ASKED_LOWER][HF_WORD_DONE].stays,
      0)
