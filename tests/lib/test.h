/* SPDX-License-Identifier: Apache-2.0 */
/* The test runner: each test is a process of its own, with a deadline, and leaves nothing behind.
 *
 *     TEST(a_second_owner_is_refused)
 *     {
 *         CHECK_INT(try_as(2), HF_BUSY);
 *     }
 *
 * The program that links this library runs its tests one after another and prints TAP. A test runs
 * in a forked child with its own process group, which is killed when the test ends, however it
 * ends. A failed check ends the process it happens in and fails the test, in threads and in
 * children too. */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *test);

#define TEST(test_name)                                                                            \
    static void test_name(void);                                                                   \
    static struct test test_entry_##test_name = { #test_name, test_name, NULL };                   \
    __attribute__((constructor)) static void test_register_##test_name(void)                       \
    {                                                                                              \
        test_register(&test_entry_##test_name);                                                    \
    }                                                                                              \
    static void test_name(void)

/* ---- Checks ---- */

__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void test_skip(const char *format, ...);
void test_check(const char *file, int line, bool passed, const char *text);
void test_check_int(const char *file, int line, const char *texts, long long got, long long wanted);
void test_check_string(const char *file, int line, const char *texts, const char *got,
                       const char *wanted);

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) test_skip(__VA_ARGS__)
#define CHECK(condition) test_check(__FILE__, __LINE__, (condition), #condition)
/* The value got comes first, the one wanted second. */
#define CHECK_INT(got, wanted)                                                                     \
    test_check_int(__FILE__, __LINE__, #got ", wanted " #wanted, (got), (wanted))
#define CHECK_STR(got, wanted)                                                                     \
    test_check_string(__FILE__, __LINE__, #got ", wanted " #wanted, (got), (wanted))

/* For a call whose answer does not matter, of a function that must be looked at elsewhere. */
static inline void any_code(int code)
{
    (void)code;
}

/* Gives the test so many seconds from now, instead of 60. */
#define TEST_TIMEOUT(seconds) test_set_timeout(seconds)
void test_set_timeout(int seconds);

/* A test fails that ends with more descriptors than it began with, unless it says this. */
#define TEST_ALLOW_FD_LEAKS() test_allow_fd_leaks()
void test_allow_fd_leaks(void);
int test_count_fds(void);
/* So many more are fine in all tests of a program, for libraries that keep some for the process. */
extern int test_fds_kept;
/* True: descriptors may be closed after the test returned, by a thread that ends by itself. */
extern bool test_fds_close_late;

/* A line for the reader of the log. */
__attribute__((format(printf, 1, 2))) void test_note(const char *format, ...);

/* ---- Time ---- */

/* How much slower this run may be (valgrind, sanitizers): $HOLDFAST_TEST_SLOW, 1 if unset. */
int test_slow(void);
/* Whether this program was built with the thread sanitizer. */
bool test_has_thread_sanitizer(void);
int64_t monotonic_ms(void);
int64_t monotonic_us(void);
/* Lets time pass where passing time is the matter itself (a lease that runs out). */
void let_pass_ms(int64_t ms);
/* Between two looks at what has been waited for since then: the longer, the less often, as a look
 * may start a program. */
void pause_between_looks(int64_t since_ms);

/* Waits until the condition holds. Failing takes `timeout_ms`, so be generous. */
#define EVENTUALLY(condition, timeout_ms)                                                          \
    do {                                                                                           \
        int64_t eventually_since = monotonic_ms();                                                 \
        int64_t eventually_until = eventually_since + (int64_t)(timeout_ms)*test_slow();           \
        while (!(condition)) {                                                                     \
            if (monotonic_ms() > eventually_until)                                                 \
                FAIL("still not so after %lld ms: %s", (long long)(timeout_ms), #condition);       \
            pause_between_looks(eventually_since);                                                 \
        }                                                                                          \
    } while (0)

/* ---- Files and memory ---- */

/* A fresh directory, in $HOLDFAST_TEST_DIR or else on tmpfs where there is one, removed when the
 * test has ended. */
const char *temp_dir(void);
/* A path in it, valid until the test ends. */
__attribute__((format(printf, 1, 2))) const char *temp_path(const char *format, ...);

/* Zeroed memory shared with the children started later. */
void *shared_memory(size_t size);

/* Waits until `count` processes or threads have come here. In shared memory. */
struct barrier {
    pthread_barrier_t barrier;
};
void barrier_init(struct barrier *barrier, unsigned count);
void barrier_wait(struct barrier *barrier);

/* ---- Children: processes that go step by step ---- */

struct child {
    pid_t pid;
    int to, from; /* pipes */
};

/* Runs `run(arg)` in a forked child, which exits with 0 when it returns. The child is killed when
 * the thread that started it ends. */
void child_start(struct child *child, void (*run)(void *arg), void *arg);
__attribute__((format(printf, 2, 3))) void child_say(struct child *child, const char *format, ...);
/* Waits for the child's next line, which must be this one. */
void child_wait_for(struct child *child, const char *line);
/* The child's next line, without its newline; false if the child has closed its pipe. */
bool child_hear(struct child *child, char *line, size_t size);
void child_signal(struct child *child, int signal_number);
/* Stops the child, and returns when it stands still. */
void child_stop(struct child *child);
void child_continue(struct child *child);
/* SIGKILL, and returns when the child is gone. */
void child_kill(struct child *child);
/* Waits for the child's end: its status, as waitpid says it. */
int child_wait(struct child *child);
/* Waits for the child's end, which must be exit(0). */
void child_join(struct child *child);

/* In the child. A parent that is gone ends the child. */
__attribute__((format(printf, 1, 2))) void parent_say(const char *format, ...);
void parent_wait_for(const char *line);
bool parent_hear(char *line, size_t size);

/* ---- Many at a time ---- */

typedef void many_fn(void *arg, int index);

/* Runs run(arg, 0 .. count-1) each in a thread (a process) of its own, and waits for all of them.
 */
void threads_run(int count, many_fn *run, void *arg);
void processes_run(int count, many_fn *run, void *arg);

struct thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
};
void thread_start(struct thread *thread, void (*run)(void *arg), void *arg);
void thread_join(struct thread *thread);
/* How often the threads of this process have gone to sleep so far, but for this one. */
long switches_of_others(void);
/* Of this process, the calling one included. */
int test_count_threads(void);

#endif
