/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner and its helpers share: one page that outlives the test's process. */
#ifndef TESTS_LIB_INTERNAL_H
#define TESTS_LIB_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct test_state {
    _Atomic int64_t deadline_ms;
    _Atomic int failed; /* some process of the test failed a check */
    _Atomic int skipped;
    _Atomic int fd_leaks_allowed;
    _Atomic int64_t last_check_line;
    _Atomic(const char *) last_check_file; /* a literal, the same in all processes of the test */
    char skip_reason[200];
    char temp_dir[120];
};

extern struct test_state *test_state;

/* Chooses where temp_dir() is; nothing is made yet. */
void test_name_temp_dir(void);

/* In a process that has just begun: it ends with its parent, or at once if that is gone already. */
void end_with(pid_t parent);

/* Set in children that child_start made. */
extern int parent_pipe_in, parent_pipe_out;

#endif
