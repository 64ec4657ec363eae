/* From when a session may be counted, against the worst that a leader may know. */
#include "engines/zookeeper/contact.h"
#include "test.h"

#define TIMEOUT 12000
#define BELIEF (TIMEOUT * 2 / 3)
#define NOTED_MAX 400

/* The leader may have missed every report that was due in the quarter before an answer of its own
 * was asked for, and all that came later. */
struct leader {
    int64_t heard[NOTED_MAX];
    unsigned count;
};

static int64_t earliest_end(const struct leader *leader, int64_t asked_at_ms)
{
    int64_t known = leader->heard[0];

    for (unsigned i = 0; i < leader->count; i++)
        if (leader->heard[i] <= asked_at_ms - TIMEOUT / 4 && leader->heard[i] > known)
            known = leader->heard[i];
    return known + TIMEOUT;
}

static int64_t contact(struct zk_contacts *contacts, struct leader *leader, int64_t at_ms)
{
    CHECK(leader->count < NOTED_MAX);
    leader->heard[leader->count++] = at_ms;
    return hf__zk_contacts_note(contacts, at_ms, TIMEOUT);
}

TEST(a_regular_beat_counts_in_full)
{
    struct zk_contacts contacts;
    struct leader leader = { .heard = { 1000 }, .count = 1 };

    hf__zk_contacts_begin(&contacts, 1000);
    for (int64_t at = 1000 + TIMEOUT / 6; at < 20 * TIMEOUT; at += TIMEOUT / 6)
        CHECK_INT(contact(&contacts, &leader, at), at);
}

TEST(one_answer_after_a_pause_counts_from_a_third_after_what_the_leader_knows)
{
    struct zk_contacts contacts;
    struct leader leader = { .heard = { 0 }, .count = 1 };

    hf__zk_contacts_begin(&contacts, 0);
    CHECK_INT(contact(&contacts, &leader, 6000), 4000);
    /* Nor do two at once say more than one. */
    CHECK_INT(contact(&contacts, &leader, 6001), 4000);
    CHECK_INT(contact(&contacts, &leader, 7000), 4000);
    CHECK_INT(contact(&contacts, &leader, 9000), 9000);
}

TEST(a_greeting_counts_in_full)
{
    struct zk_contacts contacts;
    struct leader leader = { .heard = { 0 }, .count = 1 };

    hf__zk_contacts_begin(&contacts, 0);
    contact(&contacts, &leader, 7000);
    hf__zk_contacts_begin(&contacts, 7500);
    CHECK_INT(contact(&contacts, &leader, 8500), 8500);
}

TEST(crowded_answers_are_not_all_noted)
{
    struct zk_contacts contacts;

    hf__zk_contacts_begin(&contacts, 500);
    CHECK(!hf__zk_contacts_wants(&contacts, 499 + TIMEOUT / 12, TIMEOUT));
    CHECK(hf__zk_contacts_wants(&contacts, 500 + TIMEOUT / 12, TIMEOUT));
}

static uint64_t state;

static int64_t any(int64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

TEST(no_belief_outlives_what_the_leader_may_do)
{
    for (int round = 0; round < 2000; round++) {
        struct zk_contacts contacts;
        struct leader leader = { .heard = { 0 }, .count = 1 };
        int64_t at = 0, counted = 0;
        state = (uint64_t)round;
        hf__zk_contacts_begin(&contacts, 0);
        while (leader.count < NOTED_MAX) {
            at += 1 + any(any(4) == 0 ? BELIEF : TIMEOUT / 8);
            if (!hf__zk_contacts_wants(&contacts, at, TIMEOUT))
                continue;
            int64_t from = contact(&contacts, &leader, at);
            counted = from > counted ? from : counted;
            CHECK(counted <= at && counted + BELIEF <= earliest_end(&leader, at));
        }
    }
}
