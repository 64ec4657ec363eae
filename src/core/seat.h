/* Whose turn it is to wait for what the loop hears: the client's own thread, or a caller that would
 * have to wait in any case, and so is not told by another thread what it can hear by itself. Any
 * thread may turn the loop, one at a time (drive.c); this says who sleeps at its descriptors.
 *
 * The seat is a caller's, from before it posts what it asks until it has its answer; whoever finds
 * it taken sleeps, and is told by whoever turns the loop. While callers come and go, the client's
 * thread stands back: it minds the timers, looks now and then whether callers still do, and is
 * called by whoever posts, or sleeps, while nobody has the seat. What else there is to hear then,
 * nobody waits for: it may come a little later. */
#ifndef HF_CORE_SEAT_H
#define HF_CORE_SEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hf_seat {
    atomic_bool taken;
    atomic_bool stands_back;   /* the client's thread does, or is told to */
    _Atomic uint32_t sittings; /* how often the seat was taken */
    _Atomic uint32_t sleepers; /* callers that wait without it */
    int bell;                  /* an eventfd: stands_back has changed */
};

/* False: no descriptor left. */
bool hf__seat_open(struct hf_seat *seat);
void hf__seat_close(struct hf_seat *seat);

/* A caller's. False: it is to sleep. */
bool hf__seat_take(struct hf_seat *seat);
void hf__seat_leave(struct hf_seat *seat);
/* Sleeps until *answered is not 0. */
void hf__seat_sleep(struct hf_seat *seat, _Atomic uint32_t *answered);

/* The client's thread is needed, unless a caller has the seat. */
void hf__seat_call(struct hf_seat *seat);
/* The client's thread's: waits until `fd` is readable; while it stands back, until `timer` is, and
 * nobody has the seat, or it is called, or no callers come and go any more. */
void hf__seat_guard(struct hf_seat *seat, int fd, int timer);

#endif
