/* SPDX-License-Identifier: Apache-2.0 */
/* One acquisition, and what its owner does until it gives it back. */
#include "torture/workload/workload_hold.h"

#include <string.h>

enum { NO_NEWS, GRANTED, LATE };

enum { LOOKS_IN_A_LEASE = 50 };

/* Never later than the library means it: the clock is read before, and cut to the millisecond. */
static int64_t deadline_of(struct hold *hold)
{
    struct torture_client *client = hold->client;
    int64_t now_ns = torture_clock_ns() / MS * MS;
    int64_t left_ms = client->subject->remaining_ms(client->session, hold->grip);
    int64_t at_ns = left_ms > (INT64_MAX - now_ns) / MS ? TORTURE_NEVER : now_ns + left_ms * MS;

    atomic_store(&hold->deadline_ns, at_ns);
    return at_ns;
}

/* ---- losses ---- */

/* All holds of this process that are asked for or held. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hold *list;

static void enlist(struct hold *hold)
{
    pthread_mutex_lock(&list_mutex);
    hold->next = list;
    list = hold;
    pthread_mutex_unlock(&list_mutex);
}

static void delist(struct hold *hold)
{
    pthread_mutex_lock(&list_mutex);
    for (struct hold **link = &list; *link; link = &(*link)->next)
        if (*link == hold) {
            *link = hold->next;
            break;
        }
    pthread_mutex_unlock(&list_mutex);
}

/* Which hold of that name it is, the library does not say here. To take it for another one as well
 * makes a belief shorter, and accuses no store. */
void torture_note_loss(void *arg, const char *name)
{
    int64_t now_ns = torture_clock_ns();

    (void)arg;
    pthread_mutex_lock(&list_mutex);
    for (struct hold *hold = list; hold; hold = hold->next)
        if (strcmp(hold->lock->name, name) == 0)
            atomic_compare_exchange_strong(&hold->losing_ns, &(int64_t){ 0 }, now_ns);
    pthread_mutex_unlock(&list_mutex);
}

/* Did the store end it before its deadline? The process may have stood still until after that. */
static bool was_told(const struct hold *hold, int64_t now_ns)
{
    int64_t losing_ns = atomic_load(&hold->losing_ns);

    /* mutant: loss-is-as-old-as-its-record */
    return (losing_ns ? losing_ns : now_ns) < atomic_load(&hold->deadline_ns);
}

static void write_loss(struct hold *hold)
{
    struct torture_record record = hold->record;

    if (atomic_exchange(&hold->loss_written, true))
        return;
    record.kind = TORTURE_LOST;
    record.verb = TORTURE_NO_VERB;
    record.at_ns = torture_clock_ns();
    if (was_told(hold, record.at_ns))
        record.flags = TORTURE_TOLD;
    torture_write(hold->client->writer, &record);
}

/* On any thread; and if the grant was paused on its way to us, before we know of it. */
static void lost(void *arg)
{
    struct hold *hold = arg;
    int none = NO_NEWS;

    if (!atomic_compare_exchange_strong(&hold->news, &none, LATE))
        write_loss(hold);
}

static struct torture_record about(const struct hold *hold, enum torture_verb verb)
{
    struct torture_record record = hold->record;

    record.verb = (uint8_t)verb;
    return record;
}

/* The nemesis aims at the first thread. */
static void be(const struct hold *hold, enum torture_doing doing)
{
    if (hold->client->thread > 0)
        return;
    atomic_store(&hold->client->seat->doing,
                 torture_doing_word(doing, hold->record.lock, hold->record.hold));
}

/* ---- acquiring ---- */

static bool is_exclusive(const struct torture_ask *ask)
{
    return ask->lock->form == TORTURE_MUTEX ||
           (ask->lock->form == TORTURE_RW && ask->share == TORTURE_EXCLUSIVE);
}

static bool wants_its_place(const struct hold *hold)
{
    return hold->client->thread == 0 && hold->lock->flags & TORTURE_FIFO &&
           hold->ask.wait_ms != 0 && torture_keeps_order(hold->client->plan);
}

static void write_grant(struct hold *hold, struct torture_record *record)
{
    struct torture_client *client = hold->client;

    if (hold->lock->flags & TORTURE_FENCED)
        record->token = client->subject->token(client->session, hold->grip);
    record->deadline_ns = deadline_of(hold);
    torture_end(client, record, TORTURE_GRANTED);
    hold->record.token = record->token;
}

static struct torture_record begin_acquire(struct hold *hold)
{
    struct torture_client *client = hold->client;
    const struct torture_ask *ask = &hold->ask;
    struct torture_record record = about(hold, ask->wait_ms == 0 ? TORTURE_TRY : TORTURE_ACQUIRE);

    enlist(hold);
    if (ask->wait_ms > 0 && ask->cancel_ms == 0)
        record.deadline_ns = (torture_clock_ns() / MS + ask->wait_ms) * MS;
    hold->record.hold = torture_begin(client, &record);
    record.deadline_ns = 0;
    return record;
}

static bool end_acquire(struct hold *hold, struct torture_record *record,
                        enum torture_answer answer)
{
    struct torture_client *client = hold->client;

    if (answer != TORTURE_GRANTED) {
        delist(hold);
        torture_end(client, record, answer);
        return false;
    }
    write_grant(hold, record);
    if (!atomic_compare_exchange_strong(&hold->news, &(int){ NO_NEWS }, GRANTED))
        write_loss(hold);
    atomic_fetch_add(&client->arena->grants, 1);
    hold->exclusive = is_exclusive(&hold->ask);
    return true;
}

/* A hold whose grip, or whose refusal, is on record. */
static bool acquire(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = begin_acquire(hold);
    enum torture_answer answer;

    if (wants_its_place(hold))
        torture_wait_begin(client, &record);
    torture_at_point(client, "before_call");
    answer = client->subject->acquire(client->session, &hold->ask, &hold->grip);
    torture_at_point(client, "after_call");
    torture_wait_end(client);
    return end_acquire(hold, &record, answer);
}

/* Of the first thread at a quiet lock: the relay does something to the next request, if the nemesis
 * has asked for that. */
static void spring_trap(const struct hold *hold, uint32_t trap)
{
    struct torture_seat *seat = hold->client->seat;
    unsigned lock = hold->record.lock;

    if (lock >= hold->client->arena->loud_count && atomic_load(&seat->trap) == trap) {
        atomic_store(&seat->wire, atomic_load(&seat->trap_wire));
        atomic_store(&seat->trap, TORTURE_NO_TRAP);
    }
}

static void release(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_RELEASE);
    enum torture_answer answer;

    /* The release may come before on_lost, and be the one that finds out. */
    if (atomic_load(&hold->losing_ns) && was_told(hold, 0)) /* mutant: release-that-finds-loss */
        write_loss(hold);
    torture_begin(client, &record);
    torture_at_point(client, "before_unlock");
    spring_trap(hold, TORTURE_TRAP_RELEASE);
    answer = client->subject->release(client->session, hold->grip);
    delist(hold);
    hold->grip = NULL;
    torture_end(client, &record, answer);
}

/* ---- while it is held ---- */

/* Belief goes on up to a number that was drawn before the question. */
static bool still_holds(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_NO_VERB);
    bool still;

    if (!torture_draw(client->writer, &record))
        return false;
    still = client->subject->still(client->session, hold->grip);
    record.kind = still ? TORTURE_STILL : TORTURE_NOTE;
    record.deadline_ns = still ? deadline_of(hold) : 0;
    torture_store(client->writer, &record);
    return still;
}

/* Between the look at the lock and the write is the gap that no lock can close. */
static bool about_to_write(struct hold *hold)
{
    if (!hold->exclusive || !still_holds(hold))
        return false;
    torture_at_point(hold->client, "before_write");
    return true;
}

static void write_fenced(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_WRITE);

    if (!(hold->lock->flags & TORTURE_FENCED) || !record.token || !about_to_write(hold))
        return;
    record.operation = atomic_fetch_add(&client->arena->operations, 1) + 1;
    atomic_fetch_add(&client->seat->in_resource, 1);
    torture_resource_write(&client->arena->resources[record.lock], client->writer, &record);
    atomic_fetch_sub(&client->seat->in_resource, 1);
}

static void write_plain(struct hold *hold)
{
    if (about_to_write(hold))
        torture_resource_overwrite(&hold->client->arena->resources[hold->record.lock], hold->seen,
                                   hold->record.hold);
}

static void renew(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_RENEW);
    enum torture_answer answer;

    if (!client->subject->renew || hold->ask.lease_ms == 0)
        return;
    torture_begin(client, &record);
    answer = client->subject->renew(client->session, hold->grip, hold->ask.lease_ms);
    if (answer == TORTURE_GRANTED)
        record.deadline_ns = deadline_of(hold);
    torture_end(client, &record, answer);
}

/* To the records it is a renewal that makes nothing longer. Only what is exclusive or a permit: an
 * upgrade that was refused may still be being taken back. */
static void leave_and_return(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_RENEW);
    enum torture_answer answer;

    if (!client->subject->leave_and_return || hold->ask.lease_ms == 0 ||
        hold->lock->form == TORTURE_RW)
        return;
    torture_begin(client, &record);
    answer = client->subject->leave_and_return(client->session, hold->lock, hold->grip);
    if (answer == TORTURE_GRANTED)
        record.deadline_ns = deadline_of(hold);
    torture_end(client, &record, answer);
}

static void go_up(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_UPGRADE);
    int64_t wait_ms = torture_between(&client->dice, 0, client->plan->lease_ms);
    enum torture_answer answer;

    torture_begin(client, &record);
    answer = client->subject->upgrade(client->session, hold->grip, wait_ms);
    if (answer == TORTURE_GRANTED) {
        hold->ask.share = TORTURE_EXCLUSIVE;
        hold->record.mode = record.mode = TORTURE_EXCLUSIVE;
        write_grant(hold, &record);
    } else {
        torture_end(client, &record, answer);
    }
}

static void go_down(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_record record = about(hold, TORTURE_DOWNGRADE);
    enum torture_answer answer;

    hold->exclusive = false;
    hold->ask.share = TORTURE_SHARED;
    hold->record.mode = record.mode = TORTURE_SHARED;
    torture_begin(client, &record);
    answer = client->subject->downgrade(client->session, hold->grip);
    if (answer == TORTURE_GRANTED)
        record.deadline_ns = deadline_of(hold);
    torture_end(client, &record, answer);
}

static void change_share(struct hold *hold)
{
    const struct torture_subject *subject = hold->client->subject;

    if (hold->lock->form != TORTURE_RW)
        return;
    if (hold->ask.share == TORTURE_UPGRADABLE && subject->upgrade)
        go_up(hold);
    else if (hold->ask.share != TORTURE_SHARED && subject->downgrade)
        go_down(hold);
}

/* The same owner again: a second hold on the same grant. */
static void nest(struct hold *outer)
{
    struct torture_client *client = outer->client;
    struct hold inner = { .client = client, .lock = outer->lock, .ask = outer->ask };

    if (!client->subject->reenters || outer->lock->form == TORTURE_SEMAPHORE)
        return;
    inner.ask.wait_ms = 0;
    inner.ask.cancel_ms = 0;
    inner.ask.lost_arg = &inner;
    if (outer->lock->form == TORTURE_RW && torture_chance(&client->dice, 50))
        inner.ask.share = TORTURE_SHARED;
    inner.record = outer->record;
    inner.record.hold = 0;
    inner.record.token = 0;
    inner.record.mode = (uint8_t)inner.ask.share;
    if (!acquire(&inner))
        return;
    still_holds(&inner);
    release(&inner);
}

static void work(struct hold *hold)
{
    struct torture_client *client = hold->client;
    int64_t lease_ns = client->plan->lease_ms * MS, length_ns;

    /* Some keep it across whatever hits it; leases run out that way, too. In a crowd no client
     * keeps a lock for long, so that it is asked for as often as possible. */
    if (client->thread > 0)
        length_ns = torture_between(&client->dice, 0, MS / 4);
    else if (torture_chance(&client->dice, 3))
        length_ns = torture_between(&client->dice, lease_ns / 2, lease_ns * 3 / 2);
    else
        length_ns = torture_between(&client->dice, 0, 3 * MS);
    torture_sleep_in_phase(client->arena, TORTURE_ROUGH, torture_clock_ns() + length_ns);
}

static void do_something(struct hold *hold)
{
    switch (torture_between(&hold->client->dice, 0, hold->client->thread > 0 ? 8 : 7)) {
    case 0:
        renew(hold);
        break;
    case 1:
        nest(hold);
        break;
    case 2:
        change_share(hold);
        break;
    case 3:
    case 4:
        write_fenced(hold);
        break;
    case 5:
        still_holds(hold);
        break;
    case 8:
        leave_and_return(hold);
        break;
    default:
        work(hold);
    }
}

static void use(struct hold *hold)
{
    struct torture_client *client = hold->client;
    struct torture_resource *resource = &client->arena->resources[hold->record.lock];

    hold->seen = torture_resource_read(resource);
    write_fenced(hold);
    for (int64_t left = torture_between(&client->dice, 0, client->thread > 0 ? 1 : 4); left > 0;
         left--)
        do_something(hold);
    torture_look_at_clock(client);
    write_plain(hold);
}

/* ---- the whole ---- */

bool torture_use_lock(struct torture_client *client, uint16_t number, bool calm)
{
    struct hold hold = { .client = client, .lock = &client->arena->locks[number] };
    bool granted;

    torture_choose(&hold, lost, calm);
    if (!client->tries)
        torture_keep_to_the_rate(client);
    be(&hold, TORTURE_ASKING);
    granted = acquire(&hold);
    if (granted) {
        be(&hold, TORTURE_HOLDING);
        if (!calm)
            use(&hold);
        release(&hold);
    }
    be(&hold, TORTURE_IDLE);
    return granted;
}

/* ---- quiet locks ---- */

/* A try that may be granted: the others say that they hold nothing of it. */
static bool looks_free(const struct hold *hold)
{
    const struct torture_client *client = hold->client;

    for (unsigned i = 0; i < client->plan->clients; i++) {
        uint64_t word = atomic_load(&client->arena->seats[i].doing);
        if (torture_doing_of(word) == TORTURE_HOLDING &&
            torture_doing_lock(word) == hold->record.lock)
            return false;
    }
    return true;
}

/* Long enough that others would meet a release that is not this owner's. Each look is a proof. */
static void keep(struct hold *hold)
{
    struct torture_client *client = hold->client;
    int64_t lease_ns = client->plan->lease_ms * MS;
    int64_t until_ns = torture_clock_ns() + torture_between(&client->dice, lease_ns / 8, lease_ns);

    write_fenced(hold);
    while (atomic_load(&client->arena->phase) == TORTURE_ROUGH && still_holds(hold) &&
           torture_clock_ns() < until_ns &&
           atomic_load(&client->seat->trap) != TORTURE_TRAP_RELEASE)
        torture_sleep_in_phase(client->arena, TORTURE_ROUGH,
                               torture_clock_ns() + lease_ns / LOOKS_IN_A_LEASE);
}

void torture_use_quiet_lock(struct torture_client *client, uint16_t number)
{
    struct hold hold = { .client = client, .lock = &client->arena->locks[number] };
    uint32_t reserved = atomic_load(&client->arena->reserved);

    if (reserved && reserved != client->number + 1) {
        torture_sleep_in_phase(client->arena, TORTURE_ROUGH, torture_clock_ns() + MS);
        return;
    }
    torture_choose(&hold, lost, false);
    hold.ask.wait_ms = hold.ask.cancel_ms = 0;
    if (hold.ask.lease_ms > 0)
        hold.ask.lease_ms =
            torture_between(&client->dice, client->plan->lease_ms, client->plan->lease_ms * 3 / 2);
    torture_keep_to_the_rate(client);
    be(&hold, TORTURE_ASKING);
    if (looks_free(&hold))
        spring_trap(&hold, TORTURE_TRAP_TRY);
    if (acquire(&hold)) {
        be(&hold, TORTURE_HOLDING);
        keep(&hold);
        release(&hold);
    }
    be(&hold, TORTURE_IDLE);
}

/* ---- several at once ---- */

static void choose_several(struct torture_client *client, struct hold *holds, unsigned count)
{
    int64_t last = client->arena->loud_count - 1;
    const struct torture_lock *one = &client->arena->locks[torture_between(&client->dice, 0, last)];

    for (unsigned i = 0; i < count; i++) {
        struct hold *hold = &holds[i];
        bool same = torture_chance(&client->dice, 70);
        *hold = (struct hold){
            .client = client,
            .lock = same ? one : &client->arena->locks[torture_between(&client->dice, 0, last)]
        };
        torture_choose(hold, lost, false);
        hold->ask.wait_ms = hold->ask.cancel_ms = 0;
        torture_choose_owner(hold, TORTURE_OWNERS + 1 + i);
    }
}

/* None is released before all are answered. */
void torture_use_several(struct torture_client *client)
{
    struct hold holds[TORTURE_SEVERAL_MAX];
    struct torture_record records[TORTURE_SEVERAL_MAX];
    struct torture_ask asks[TORTURE_SEVERAL_MAX];
    enum torture_answer answers[TORTURE_SEVERAL_MAX];
    struct torture_grip *grips[TORTURE_SEVERAL_MAX];
    unsigned count = (unsigned)torture_between(&client->dice, 2, TORTURE_SEVERAL_MAX);

    choose_several(client, holds, count);
    torture_keep_to_the_rate(client);
    for (unsigned i = 0; i < count; i++) {
        asks[i] = holds[i].ask;
        records[i] = begin_acquire(&holds[i]);
    }
    client->subject->acquire_several(client->session, asks, count, answers, grips);
    for (unsigned i = 0; i < count; i++) {
        holds[i].grip = grips[i];
        if (end_acquire(&holds[i], &records[i], answers[i]))
            write_fenced(&holds[i]);
    }
    for (unsigned i = 0; i < count; i++)
        if (holds[i].grip)
            release(&holds[i]);
}
