/* SPDX-License-Identifier: Apache-2.0 */
/* From when a session may be counted, against the worst that servers may do. */
#include "engines/zookeeper/session/session_proof.h"
#include "test.h"

#define TIMEOUT 12000
#define BEAT (TIMEOUT / 8 - TIMEOUT / 800)
#define NOTED_MAX 400

/* What the lease of half a session is believed in for: less a hundredth (core/lease/lease.c). */
#define BELIEVED (TIMEOUT / 2 - TIMEOUT / 200)

/* A leader may have missed every report that was due in the five twelfths before an answer of its
 * own was asked for, and all that came later. A new one may begin to count as soon as most servers
 * have agreed with the old one for the last time. Its clock may be a hundredth faster than ours. */
struct leader {
    int64_t heard[NOTED_MAX];
    unsigned count;
    int64_t told_ms; /* by a greeting */
    int64_t agreed_ms;
};

static int64_t earliest_end(const struct leader *leader)
{
    int64_t known = leader->told_ms;

    for (unsigned i = 0; i < leader->count; i++)
        if (leader->heard[i] <= leader->agreed_ms - TIMEOUT * 5 / 12 && leader->heard[i] > known)
            known = leader->heard[i];
    return (known < leader->agreed_ms ? known : leader->agreed_ms) + TIMEOUT - TIMEOUT / 100;
}

static int64_t begin(struct zk_session_proof *contacts, struct leader *leader, int64_t at_ms)
{
    *leader = (struct leader){ .told_ms = at_ms, .agreed_ms = at_ms };
    *contacts = (struct zk_session_proof){ .known_ms = 0 };
    return hf__zk_session_proof_greet(contacts, at_ms, TIMEOUT, true);
}

static int64_t greet(struct zk_session_proof *contacts, struct leader *leader, int64_t at_ms)
{
    leader->told_ms = at_ms;
    return hf__zk_session_proof_greet(contacts, at_ms, TIMEOUT, false);
}

static int64_t contact(struct zk_session_proof *contacts, struct leader *leader, int64_t at_ms)
{
    CHECK(leader->count < NOTED_MAX);
    leader->heard[leader->count++] = leader->agreed_ms = at_ms;
    return hf__zk_session_proof_note(contacts, at_ms, TIMEOUT);
}

TEST(a_regular_beat_counts_in_full)
{
    struct zk_session_proof contacts;
    struct leader leader;

    CHECK_INT(hf__zk_heartbeat_ms(TIMEOUT), BEAT);
    begin(&contacts, &leader, 1000);
    for (int64_t at = 1000 + BEAT; at < 20 * TIMEOUT; at += BEAT)
        CHECK_INT(contact(&contacts, &leader, at), at);
}

/* Silence is noticed, and the server given up, while there is time to ask another one. */
TEST(there_is_time_for_another_server)
{
    int64_t left =
        hf__zk_belief_ms(TIMEOUT) - hf__zk_heartbeat_ms(TIMEOUT) - hf__zk_patience_ms(TIMEOUT);

    CHECK(left >= TIMEOUT / 8);
}

TEST(one_answer_after_a_pause_counts_from_a_half_after_what_the_leader_knows)
{
    struct zk_session_proof contacts;
    struct leader leader;

    begin(&contacts, &leader, 0);
    CHECK_INT(contact(&contacts, &leader, 8000), BELIEVED);
    /* Nor do two at once say more than one. */
    CHECK_INT(contact(&contacts, &leader, 8001), BELIEVED);
    CHECK_INT(contact(&contacts, &leader, 12000), BELIEVED);
    CHECK_INT(contact(&contacts, &leader, 13000), 13000);
}

/* The leader that lets us in may have been deposed. */
TEST(a_greeting_counts_until_a_session_after_the_last_agreement)
{
    struct zk_session_proof contacts;
    struct leader leader;

    begin(&contacts, &leader, 0);
    contact(&contacts, &leader, 1000);
    CHECK_INT(greet(&contacts, &leader, 6500), 6500);
    CHECK_INT(greet(&contacts, &leader, 8000), 1000 + BELIEVED);
    CHECK_INT(greet(&contacts, &leader, 9000), 1000 + BELIEVED);
    /* The first thing that is agreed to is noted, however soon it comes. */
    CHECK(hf__zk_session_proof_wants(&contacts, 9001, TIMEOUT));
    CHECK_INT(contact(&contacts, &leader, 9001), 9001);
    CHECK(!hf__zk_session_proof_wants(&contacts, 9002, TIMEOUT));
}

TEST(crowded_answers_are_not_all_noted)
{
    struct zk_session_proof contacts;
    struct leader leader;

    begin(&contacts, &leader, 500);
    CHECK(!hf__zk_session_proof_wants(&contacts, 499 + TIMEOUT / 12, TIMEOUT));
    CHECK(hf__zk_session_proof_wants(&contacts, 500 + TIMEOUT / 12, TIMEOUT));
}

static uint64_t state;

static int64_t any(int64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

TEST(no_belief_outlives_what_the_servers_may_do)
{
    for (int round = 0; round < 2000; round++) {
        struct zk_session_proof contacts;
        struct leader leader;
        int64_t at = 0;
        state = (uint64_t)round;
        int64_t counted = begin(&contacts, &leader, 0);
        while (leader.count < NOTED_MAX) {
            at += 1 + any(any(4) == 0 ? TIMEOUT / 2 : TIMEOUT / 8);
            int64_t from = counted;
            if (any(8) == 0)
                from = greet(&contacts, &leader, at);
            else if (hf__zk_session_proof_wants(&contacts, at, TIMEOUT))
                from = contact(&contacts, &leader, at);
            counted = from > counted ? from : counted;
            CHECK(counted <= at && counted + BELIEVED <= earliest_end(&leader));
        }
    }
}
