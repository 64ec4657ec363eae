/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories of a latch: it is counted down, looked at and awaited. */
#include "story.h"

void story_count_down_and_look(struct play *play)
{
    uint64_t left = play->kind->permits, operation = 0;
    struct torture_record under_way[CLIENTS_MAX];
    enum torture_kind answers[CLIENTS_MAX];
    enum phase phases[CLIENTS_MAX] = { IDLE };
    for (unsigned steps = 0; steps < 60 && play->story->count + 2 < STORY_RECORDS; steps++) {
        uint32_t client = story_below(play, play->kind->clients);
        struct torture_record *ask = &under_way[client];
        if (phases[client] == IDLE && play->calls < play->kind->calls) {
            unsigned verb = story_below(play, 4);
            *ask = (struct torture_record){ .operation = ++operation,
                                            .client = client,
                                            .permits = 1 + story_below(play, 2),
                                            .verb = verb < 2    ? TORTURE_COUNT_DOWN
                                                    : verb == 2 ? TORTURE_LOOK
                                                                : TORTURE_AWAIT };
            play->calls++;
            story_say(play, *ask, TORTURE_INVOKE);
            phases[client] = ASKING;
        } else if (phases[client] == ASKING) {
            bool open = (left == 0) != story_errs(play);
            if (ask->verb == TORTURE_COUNT_DOWN)
                left -= ask->permits < left ? ask->permits : left;
            else if (ask->verb == TORTURE_AWAIT && !open)
                continue;
            answers[client] = ask->verb == TORTURE_LOOK && !open ? TORTURE_REFUSED : TORTURE_OK;
            if (ask->verb == TORTURE_COUNT_DOWN && play->kind->unknowns && story_chance(play, 20))
                answers[client] = TORTURE_UNKNOWN;
            phases[client] = ANSWERED;
        } else if (phases[client] == ANSWERED) {
            story_say(play, *ask, answers[client]);
            phases[client] = IDLE;
        }
    }
}
