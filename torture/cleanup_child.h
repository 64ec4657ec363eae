/* SPDX-License-Identifier: Apache-2.0 */
/* A process that does what has to be done if the one that started it is killed. */
#ifndef HF_TORTURE_CLEANUP_CHILD_H
#define HF_TORTURE_CLEANUP_CHILD_H

#include <sys/types.h>

/* From now on, if this process dies before it calls torture_cleanup_dismiss, however it dies, `act`
 * is called in another one, on a copy of our memory. 0: there is no further process, and `act`
 * would not be called. */
pid_t torture_cleanup_post(void (*act)(const void *arg), const void *arg);
/* Nothing needs to be done any more. 0 is no guardian, and fine. */
void torture_cleanup_dismiss(pid_t guardian);

#endif
