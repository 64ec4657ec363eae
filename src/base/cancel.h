/* SPDX-License-Identifier: Apache-2.0 */
/* No call into the library is a cancellation point. A thread that ended inside one would leave a
 * mutex locked, or a claim that nobody drives. */
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

/* The first line of every public function that locks, waits or calls the system. A cancellation
 * that comes meanwhile stays pending until the function has returned. */
#define HF_NO_CANCELLATION                                                                         \
    __attribute__((cleanup(hf__cancel_restore), unused)) const int cancel_state =                  \
        hf__cancel_disable()

#endif
