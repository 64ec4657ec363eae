/* SPDX-License-Identifier: Apache-2.0 */
/* What is drawn of a history: when a belief ends, what stays in doubt, which fault hit. */
#include "test.h"
#include "timeline_example.h"
#include "torture/timeline/timeline_model.h"
#include "torture/timeline/timeline_scene.h"
#include "torture/timeline/timeline_words.h"

enum { SECOND = 1000000000 };

#define START INT64_C(1000)

/* A history of a few records; numbers are given as they come. */
struct story {
    struct torture_record records[32];
    size_t count;
    struct torture_history history;
    struct timeline_model model;
};

static void tell(struct story *story, struct torture_record record, int64_t at)
{
    record.number = story->count + 1;
    record.at_ns = START + at;
    if (!record.operation)
        record.operation = record.hold;
    story->records[story->count++] = record;
}

#define TELL(story, at, ...) tell(story, (struct torture_record){ __VA_ARGS__ }, at)

/* Client 1 asks at 0 and holds from 10 on, at most until 100. */
static void tell_grant(struct story *story)
{
    TELL(story, 0, .kind = TORTURE_INVOKE, .verb = TORTURE_ACQUIRE, .client = 1, .hold = 7);
    TELL(story, 10, .kind = TORTURE_OK, .verb = TORTURE_ACQUIRE, .client = 1, .hold = 7,
         .token = 42, .deadline_ns = START + 100);
}

/* The bar of hold 7, when a note at 1000 has ended the history. */
static const struct timeline_bar *bar_of(struct story *story)
{
    const struct timeline_bar *bar;

    TELL(story, 1000, .kind = TORTURE_NOTE);
    story->history = (struct torture_history){ .records = story->records, .count = story->count };
    CHECK_INT(timeline_model_init(&story->model, &story->history), 0);
    bar = timeline_find_bar(&story->model, 7);
    CHECK(bar != NULL);
    return bar;
}

static void check_end(struct story *story, int64_t ended, enum timeline_end end, int64_t doubtful)
{
    const struct timeline_bar *bar = bar_of(story);

    CHECK_INT(bar->asked, 0);
    CHECK_INT(bar->granted, 10);
    CHECK_INT(bar->token, 42);
    CHECK_INT(bar->ended, ended);
    CHECK_INT(bar->end, end);
    CHECK_INT(timeline_bar_last(bar), doubtful);
    timeline_model_release(&story->model);
}

TEST(a_release_ends_a_belief_when_it_is_called)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 50, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7,
         .operation = 8);
    TELL(&story, 60, .kind = TORTURE_OK, .verb = TORTURE_RELEASE, .client = 1, .hold = 7,
         .operation = 8);
    check_end(&story, 50, PICTURE_RELEASED, 60);
}

TEST(a_release_without_an_answer_leaves_a_doubt)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 50, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7);
    TELL(&story, 60, .kind = TORTURE_UNKNOWN, .verb = TORTURE_RELEASE, .client = 1, .hold = 7,
         .until_ns = START + 160);
    check_end(&story, 50, PICTURE_RELEASED, 160);
}

TEST(a_belief_ends_at_its_deadline)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    check_end(&story, 100, PICTURE_EXPIRED, 100);
}

TEST(a_late_release_does_not_prolong_a_belief)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 300, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7);
    check_end(&story, 100, PICTURE_EXPIRED, 100);
}

TEST(a_renewal_moves_the_deadline)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 90, .kind = TORTURE_OK, .verb = TORTURE_RENEW, .client = 1, .hold = 7,
         .operation = 9, .deadline_ns = START + 190);
    TELL(&story, 300, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7);
    check_end(&story, 190, PICTURE_EXPIRED, 190);
}

TEST(a_loss_ends_a_belief)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 70, .kind = TORTURE_LOST, .client = 1, .hold = 7);
    TELL(&story, 80, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7);
    check_end(&story, 70, PICTURE_LOST, 70);
}

TEST(the_dead_believe_nothing_and_the_store_finds_out_later)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 40, .kind = TORTURE_CRASH, .client = 1, .until_ns = START + 340);
    check_end(&story, 40, PICTURE_CRASHED, 340);
}

TEST(what_another_client_suffers_ends_nothing)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 40, .kind = TORTURE_CRASH, .client = 2);
    TELL(&story, 50, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 1, .hold = 7);
    check_end(&story, 50, PICTURE_RELEASED, 50);
}

TEST(a_refusal_is_a_wait_without_a_belief)
{
    struct story story = { .count = 0 };
    const struct timeline_bar *bar;

    TELL(&story, 0, .kind = TORTURE_INVOKE, .verb = TORTURE_TRY, .client = 1, .hold = 7);
    TELL(&story, 20, .kind = TORTURE_REFUSED, .verb = TORTURE_TRY, .client = 1, .hold = 7);
    bar = bar_of(&story);
    CHECK(bar->granted == PICTURE_NEVER);
    CHECK_INT(bar->ended, 20);
    CHECK_INT(bar->end, PICTURE_REFUSED);
    timeline_model_release(&story.model);
}

TEST(a_hit_belongs_to_the_fault_of_its_name_and_victim_that_is_on)
{
    struct story story = { .count = 0 };

    tell_grant(&story);
    TELL(&story, 20, .kind = TORTURE_FAULT_ON, .client = 1, .text = "stop");
    TELL(&story, 30, .kind = TORTURE_FAULT_OFF, .client = 1, .text = "stop");
    TELL(&story, 35, .kind = TORTURE_FAULT_HIT, .client = 1, .text = "stop");
    TELL(&story, 40, .kind = TORTURE_FAULT_ON, .client = 1, .text = "stop");
    TELL(&story, 44, .kind = TORTURE_CLIENT, .client = 2);
    TELL(&story, 45, .kind = TORTURE_FAULT_ON, .client = TORTURE_NOBODY, .text = "cut");
    TELL(&story, 46, .kind = TORTURE_FAULT_ON, .client = 2, .text = "stop");
    TELL(&story, 50, .kind = TORTURE_FAULT_HIT, .client = 1, .text = "stop");
    TELL(&story, 55, .kind = TORTURE_FAULT_HIT, .client = 1, .text = "stop");
    TELL(&story, 60, .kind = TORTURE_FAULT_OFF, .client = 1, .text = "stop");
    bar_of(&story);
    CHECK_INT(story.model.fault_count, 4);
    CHECK_INT(story.model.faults[0].hits, 0);
    CHECK_INT(story.model.faults[0].off, 30);
    CHECK_INT(story.model.faults[1].hits, 2);
    CHECK_INT(story.model.faults[1].off, 60);
    CHECK_INT(story.model.faults[2].lane, PICTURE_NONE);
    CHECK_INT(story.model.faults[2].off, 1000);
    CHECK_INT(story.model.faults[3].hits, 0);
    CHECK_INT(story.model.faults[3].off, 1000);
    CHECK_STR(story.model.kinds[0].name, "stop");
    CHECK_INT(story.model.kinds[0].times, 3);
    CHECK_INT(story.model.kinds[0].hit, 1);
    CHECK_INT(story.model.kinds[1].hit, 0);
    timeline_model_release(&story.model);
}

/* ---- Close-ups ---- */

/* Holds 7 and 8 of a lock, from 10 and 20 on; 7 is released at 80, 8 at 90. */
static void tell_two(struct story *story, uint8_t mode)
{
    TELL(story, 0, .kind = TORTURE_LOCK, .mode = TORTURE_RW, .text = "config");
    for (uint64_t hold = 7; hold < 9; hold++) {
        uint32_t client = (uint32_t)hold;
        int64_t at = hold == 7 ? 10 : 20;

        TELL(story, at - 5, .kind = TORTURE_INVOKE, .verb = TORTURE_ACQUIRE, .client = client,
             .hold = hold, .mode = mode);
        TELL(story, at, .kind = TORTURE_OK, .verb = TORTURE_ACQUIRE, .client = client, .hold = hold,
             .mode = mode, .deadline_ns = TORTURE_NEVER);
    }
}

static void tell_end(struct story *story)
{
    TELL(story, 80, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 7, .hold = 7);
    TELL(story, 90, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 8, .hold = 8);
}

/* What a finding about holds 7 and 8 shows; its records are those of 5 and 20. */
static struct timeline_scene scene_of(struct story *story, enum torture_rule rule)
{
    struct torture_finding finding = {
        .rule = rule, .hold_count = 2, .holds = { 7, 8 }, .from = 2, .to = 5
    };
    struct timeline_scene scene;

    bar_of(story);
    timeline_scene_of_finding(&scene, &story->model, &finding);
    CHECK_INT(scene.guilty_count, 2);
    CHECK_INT(scene.item_count, 2);
    CHECK_INT(scene.items[0].guilty, 1);
    CHECK_INT(scene.items[1].guilty, 2);
    CHECK(scene.from <= 10 && scene.to >= 90);
    timeline_model_release(&story->model);
    return scene;
}

TEST(two_beliefs_overlap_while_both_last)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;

    tell_two(&story, TORTURE_EXCLUSIVE);
    tell_end(&story);
    scene = scene_of(&story, TORTURE_S1);
    CHECK(scene.overlap);
    CHECK_INT(scene.key_from, 20);
    CHECK_INT(scene.key_to, 80);
}

/* A client was slow between its look at the clock and the call: the numbers know better. */
TEST(an_overlap_that_the_clock_denies_is_drawn)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;

    tell_two(&story, TORTURE_EXCLUSIVE);
    TELL(&story, 18, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 7, .hold = 7);
    TELL(&story, 90, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 8, .hold = 8);
    scene = scene_of(&story, TORTURE_S1);
    CHECK(scene.overlap);
    CHECK_INT(scene.key_from, 18);
    CHECK_INT(scene.key_to, 20);
}

TEST(a_token_of_a_reader_is_no_overlap)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;

    tell_two(&story, TORTURE_SHARED);
    story.records[1].mode = story.records[2].mode = TORTURE_EXCLUSIVE;
    TELL(&story, 18, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 7, .hold = 7);
    TELL(&story, 90, .kind = TORTURE_INVOKE, .verb = TORTURE_RELEASE, .client = 8, .hold = 8);
    scene = scene_of(&story, TORTURE_S5);
    CHECK(!scene.overlap);
}

TEST(readers_clash_only_while_one_of_them_writes)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;

    tell_two(&story, TORTURE_SHARED);
    TELL(&story, 40, .kind = TORTURE_OK, .verb = TORTURE_UPGRADE, .client = 8, .hold = 8);
    TELL(&story, 60, .kind = TORTURE_INVOKE, .verb = TORTURE_DOWNGRADE, .client = 8, .hold = 8);
    tell_end(&story);
    scene = scene_of(&story, TORTURE_S5);
    CHECK(scene.overlap);
    CHECK_INT(scene.key_from, 40);
    CHECK_INT(scene.key_to, 60);
}

TEST(readers_that_both_read_do_not_clash)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;

    tell_two(&story, TORTURE_SHARED);
    tell_end(&story);
    scene = scene_of(&story, TORTURE_S5);
    CHECK(!scene.overlap);
    CHECK_INT(scene.key_from, 5);
    CHECK_INT(scene.key_to, 20);
}

TEST(a_rule_about_tokens_shows_no_overlap)
{
    struct story story = { .count = 0 };

    tell_two(&story, TORTURE_EXCLUSIVE);
    tell_end(&story);
    CHECK(!scene_of(&story, TORTURE_S3).overlap);
}

TEST(tokens_lose_the_digits_that_they_share)
{
    struct story story = { .count = 0 };
    struct timeline_scene scene;
    char text[32];

    tell_two(&story, TORTURE_EXCLUSIVE);
    story.records[2].token = 1767225600123456;
    story.records[4].token = 1767225600123978;
    tell_end(&story);
    scene = scene_of(&story, TORTURE_S1);
    timeline_scene_token(&scene, 1767225600123456, "..", text);
    CHECK_STR(text, "..456");
    timeline_scene_token(&scene, 1767225600123978, "..", text);
    CHECK_STR(text, "..978");
    scene.token_skip = 0;
    timeline_scene_token(&scene, 41, "..", text);
    CHECK_STR(text, "41");
}

/* ---- Words ---- */

static void check_clean(const char *text, const char *fine, const char *plain)
{
    char out[64];

    timeline_clean(out, sizeof(out), text, false);
    CHECK_STR(out, fine);
    timeline_clean(out, sizeof(out), text, true);
    CHECK_STR(out, plain);
}

TEST(texts_are_made_harmless)
{
    check_clean("stock", "stock", "stock");
    check_clean("größe", "größe", "gr??e");
    check_clean("5 µs", "5 µs", "5 us");
    check_clean("\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred");
    check_clean("a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f", "a\\x0ab\\x09c\\x7f");
    check_clean("\xff\xc3", "\\xff\\xc3", "\\xff\\xc3");
    check_clean("\xc0\xaf", "\\xc0\\xaf", "\\xc0\\xaf");
    check_clean("\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80");
    /* Right to left from here on, a wide character, and a mark on the one before. */
    check_clean("a\u202eb", "a?b", "a?b");
    check_clean("\u4e2d", "?", "?");
    check_clean("e\u0301", "e?", "e?");
}

TEST(a_text_is_cut_between_characters)
{
    char out[4];

    timeline_clean(out, sizeof(out), "aéé", false);
    CHECK_STR(out, "aé");
}

static void check_times(int64_t ns, const char *duration, const char *rounded)
{
    char text[24];

    timeline_duration(text, ns);
    CHECK_STR(text, duration);
    timeline_round(text, ns);
    CHECK_STR(text, rounded);
}

TEST(times_are_written_in_units_that_suit_them)
{
    check_times(0, "0 ns", "0 ns");
    check_times(999, "999 ns", "999 ns");
    check_times(1000, "1.00 µs", "1 µs");
    check_times(2500000, "2.50 ms", "2.5 ms");
    check_times(65432000, "65.4 ms", "65.43 ms");
    check_times(999600000, "1.00 s", "0.9996 s");
    check_times(INT64_C(83) * SECOND, "83.0 s", "83 s");
}

TEST(an_axis_has_few_ticks_at_round_times)
{
    for (int64_t span = 1; span < INT64_C(1000) * SECOND; span = span * 3 + 1) {
        struct timeline_ticks ticks;
        int64_t leading;

        timeline_ticks_init(&ticks, span / 7, span / 7 + span, 9);
        CHECK(ticks.first >= span / 7);
        CHECK_INT(ticks.first % ticks.step, 0);
        CHECK((ticks.last - ticks.first) / ticks.step < 9);
        for (leading = ticks.step; leading % 10 == 0; leading /= 10)
            ;
        CHECK(leading == 1 || leading == 2 || leading == 5);
    }
}

TEST(the_bound_is_said_of_clean_runs_only)
{
    struct torture_report report = { .verdict = TORTURE_SAFE_SO_FAR, .fault_hits = 1500 };
    char text[128];

    CHECK(timeline_bound(text, &report));
    CHECK_STR(text, "no violation in 1,500 faults that hit: at most 0.2 % per fault at 95 %");
    report.verdict = TORTURE_INCONCLUSIVE;
    CHECK(!timeline_bound(text, &report));
    report.verdict = TORTURE_VIOLATION;
    CHECK(!timeline_bound(text, &report));
    report = (struct torture_report){ .verdict = TORTURE_SAFE_SO_FAR, .fault_hits = 3 };
    CHECK(!timeline_bound(text, &report));
}
