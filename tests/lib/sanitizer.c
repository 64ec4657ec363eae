/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread sanitizer does not see, and has to be shown. It remembers for each descriptor
 * what made it, and takes a new one of the same number for the old one unless it has seen the old
 * one closed or the new one made. libuv closes its sockets by a bare system call, and
 * timerfd_create() is not among the functions that the sanitizer watches: then a client's timer
 * would be taken for a socket that another client's thread has closed just before, and their use
 * for a race. */
#include "test.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* In the place of the C library's, for the test and all libraries it uses: eventfd() is watched,
 * and the timer takes the place of what it has made. */
int timerfd_create(clockid_t clock, int flags)
{
    int made = (int)syscall(SYS_timerfd_create, clock, flags);
    if (made < 0)
        return made;
    int shown = eventfd(0, EFD_CLOEXEC);
    if (shown >= 0)
        shown = (int)syscall(SYS_dup3, made, shown, flags & TFD_CLOEXEC ? O_CLOEXEC : 0);
    syscall(SYS_close, made);
    return shown;
}

bool test_has_thread_sanitizer(void)
{
    return true;
}

#define HAS_THREAD_SANITIZER
#endif
#endif

#ifndef HAS_THREAD_SANITIZER
bool test_has_thread_sanitizer(void)
{
    return false;
}
#endif
