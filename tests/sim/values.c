/* SPDX-License-Identifier: Apache-2.0 */
/* What both stores have besides locks: a counter, and a latch. Their changes come once each,
 * however often a message does; an attempt is remembered by its claim, so asking twice is taking
 * once. */
#include "world.h"

#include <string.h>

#define TAKES_MAX 4096

struct take {
    unsigned client;
    uint64_t claim;
    uint32_t permits;
    bool given_back;
};

static uint32_t counter, latch;
static uint64_t last_change[CLIENTS_MAX], last_refused[CLIENTS_MAX];
static struct message last_answer[CLIENTS_MAX];
static struct take takes[TAKES_MAX];
static unsigned take_count;

void values_begin(void)
{
    counter = latch = take_count = 0;
    memset(last_change, 0, sizeof last_change);
    memset(last_refused, 0, sizeof last_refused);
}

uint32_t values_counter(void)
{
    return counter;
}

static struct take *find_take(const struct message *message)
{
    for (unsigned i = take_count; i-- > 0;)
        if (takes[i].client == message->client && takes[i].claim == message->claim)
            return &takes[i];
    return NULL;
}

/* Units of a counter have no lease: their return is not refused. A copy of a message that was
 * refused is refused, too. */
struct fate values_fate(const struct message *message)
{
    bool attempt = message->kind == MESSAGE_ATTEMPT, release = message->kind == MESSAGE_RELEASE;
    if (release && message->question == last_refused[message->client])
        return (struct fate){ .refused = true };
    if (release && message->name < LOCKS && world.faults.refusals && chance(100)) {
        last_refused[message->client] = message->question;
        world.faults.refusals--;
        world.totals.refused++;
        return (struct fate){ .refused = true };
    }
    if (!(attempt || release) || !chance(world.faults.open_permille))
        return (struct fate){ .executes = true };
    world.totals.opened++;
    return (struct fate){ .open = true, .executes = chance(500) };
}

static void attempt(const struct message *message, struct message *answer)
{
    answer->word = HF_WORD_REFUSED;
    answer->left_ms = 25;
    if (message->mode == HF_LATCH) {
        answer->word = latch == 0 ? HF_WORD_GRANTED : HF_WORD_REFUSED;
        return;
    }
    if (find_take(message)) {
        answer->word = HF_WORD_GRANTED;
        return;
    }
    if (counter < message->permits)
        return;
    if (take_count == TAKES_MAX)
        violation("more was taken from the counter than the simulation has room for");
    counter -= message->permits;
    takes[take_count++] = (struct take){ message->client, message->claim, message->permits, false };
    answer->word = HF_WORD_GRANTED;
}

static void release(const struct message *message, struct message *answer)
{
    struct take *take = message->mode == HF_COUNTER ? find_take(message) : NULL;
    if (take && !take->given_back) {
        counter += take->permits; /* mutant: late-take-from-counter-is-kept */
        take->given_back = true;
    }
    answer->word = HF_WORD_DONE;
}

static void change(const struct message *message, struct message *answer)
{
    answer->code = HF_OK;
    if (message->verb == HF_ONESHOT_COUNTER_ADD)
        counter += message->value;
    else if (message->verb == HF_ONESHOT_LATCH_SET && latch > 0)
        answer->code = HF_BUSY;
    else if (message->verb == HF_ONESHOT_LATCH_SET)
        latch = message->value;
    else if (message->verb == HF_ONESHOT_LATCH_DOWN)
        latch -= message->value < latch ? message->value : latch;
    answer->result = message->name == COUNTER ? counter : latch;
}

bool values_receive(const struct message *message, struct message *answer)
{
    bool wants_change = message->kind == MESSAGE_CHANGE;
    if (message->name < LOCKS)
        return false;
    if (wants_change && message->question <= last_change[message->client]) {
        *answer = last_answer[message->client];
        return true;
    }
    if (message->kind == MESSAGE_ATTEMPT)
        attempt(message, answer);
    else if (message->kind == MESSAGE_RELEASE)
        release(message, answer);
    else
        change(message, answer);
    if (wants_change) {
        last_change[message->client] = message->question;
        last_answer[message->client] = *answer;
    }
    return true;
}
