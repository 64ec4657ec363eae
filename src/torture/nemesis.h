/* Faults, aimed: at whoever holds, at whoever is next. */
#ifndef HF_TORTURE_NEMESIS_H
#define HF_TORTURE_NEMESIS_H

#include <stdatomic.h>
#include <stdint.h>

struct torture_driver;

/* The next fault, from its beginning to its end, with a pause before it. */
void torture_nemesis_strike(struct torture_driver *driver);
/* Ends what goes on by itself: pauses at sync points, bent clocks. */
void torture_nemesis_heal(struct torture_driver *driver);

/* ---- nemesis_hook.c ---- */

/* One of the user's faults. Its heal command runs whatever happens. */
void torture_nemesis_hook(struct torture_driver *driver, unsigned index);

/* ---- nemesis_clock.c ---- */

/* From now on the wall clock of this process is `offset_ns` ahead of the kernel's: time(),
 * gettimeofday() and clock_gettime(CLOCK_REALTIME) of this program and its shared libraries. What
 * the kernel does by itself (file times, absolute time-outs, timers) is not bent. */
void torture_bend_clock(const _Atomic int64_t *offset_ns);
/* The wall clock as the kernel has it. */
int64_t torture_true_clock_ns(void);

#endif
