/* SPDX-License-Identifier: Apache-2.0 */
/* No call into the library is a cancellation point. A thread that ended inside one would leave a
 * mutex locked, or a claim without a driver. */
#ifndef HF_BASE_CANCEL_H
#define HF_BASE_CANCEL_H

#include <pthread.h>

static inline int hf__cancel_disable(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void hf__cancel_restore(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* Stands before all that may be a cancellation point: a wait, a question to the store, a callback
 * of the program, a descriptor. A cancellation that comes meanwhile stays pending. hf_lock and
 * hf_unlock reach it on their slow paths only: it costs about 29 ns. Mutexes, futexes, clocks and
 * memory are no cancellation points. Other public functions begin with it. */
#define HF_NO_CANCELLATION                                                                         \
    __attribute__((cleanup(hf__cancel_restore), unused)) const int cancel_state =                  \
        hf__cancel_disable()

#endif
