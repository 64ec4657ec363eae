/* SPDX-License-Identifier: Apache-2.0 */
/* Runs each test in a process of its own and prints what became of it as TAP. */
#include "test.h"

#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_S 60

struct test_state *test_state;
int test_fds_kept;
bool test_fds_close_late;

static struct test *first_test;
static struct test **last_test = &first_test;

/* Constructors run in the order of a file, so the tests keep theirs. */
void test_register(struct test *test)
{
    *last_test = test;
    last_test = &test->next;
}

void test_set_timeout(int seconds)
{
    test_state->deadline_ms = monotonic_ms() + (int64_t)seconds * 1000 * test_slow();
}

void test_allow_fd_leaks(void)
{
    test_state->fd_leaks_allowed = 1;
}

int test_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ".", ".." and the directory's own */
}

static void report_fd_leak(int before, int after)
{
    char path[40], target[200];

    test_note("the test began with %d descriptors and ended with %d:", before, after);
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        if (length >= 0) {
            target[length] = '\0';
            test_note("  %d -> %s", fd, target);
        }
    }
    FAIL("descriptors leaked (TEST_ALLOW_FD_LEAKS() if they must)");
}

/* Where a thread may outlive what it belongs to, its descriptors have until the deadline. */
static int count_fds_left(int wanted)
{
    int count = test_count_fds();
    while (test_fds_close_late && !test_state->fd_leaks_allowed && count > wanted &&
           monotonic_ms() < test_state->deadline_ms - 500) {
        poll(NULL, 0, 2);
        count = test_count_fds();
    }
    return count;
}

static __attribute__((noreturn)) void run_in_child(const struct test *test, pid_t runner)
{
    setpgid(0, 0);
    end_with(runner);
    int before = test_count_fds();
    test->run();
    int after = count_fds_left(before + test_fds_kept);
    if (after > before + test_fds_kept && !test_state->fd_leaks_allowed)
        report_fd_leak(before, after);
    /* exit, not _exit: that is where the leak sanitizer looks. */
    exit(0);
}

static void note_where_it_hung(void)
{
    if (test_state->last_check_line > 0)
        test_note("the last check that passed: %s:%lld", test_state->last_check_file,
                  (long long)test_state->last_check_line);
}

/* True if the child ended by itself; its zombie is left for the caller. */
static bool wait_until_deadline(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool ended = false;

    while (!ended && monotonic_ms() < test_state->deadline_ms) {
        siginfo_t info = { 0 };
        struct pollfd pollfd = { .fd = fd, .events = POLLIN };
        poll(&pollfd, fd < 0 ? 0 : 1, fd < 0 ? 2 : 100);
        ended =
            waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
    }
    if (fd >= 0)
        close(fd);
    return ended;
}

/* The runner is the subreaper, so the whole group ends up as its children. */
static int kill_group(pid_t pid)
{
    int status = 0;

    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    while (waitpid(-pid, NULL, 0) > 0 || errno == EINTR)
        ;
    return status;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

static void remove_temp_dir(void)
{
    if (test_state->temp_dir[0])
        nftw(test_state->temp_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static bool judge(const struct test *test, int number, bool in_time, int status)
{
    bool passed = in_time && !test_state->failed && WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (!in_time) {
        test_note("timed out");
        note_where_it_hung();
    } else if (WIFSIGNALED(status)) {
        test_note("killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        note_where_it_hung();
    } else if (!passed && !test_state->failed) {
        test_note("exited with %d", WEXITSTATUS(status));
    }
    if (passed && test_state->skipped)
        printf("ok %d - %s # SKIP %s\n", number, test->name, test_state->skip_reason);
    else
        printf("%s %d - %s\n", passed ? "ok" : "not ok", number, test->name);
    fflush(stdout);
    return passed;
}

static bool run_test(const struct test *test, int number)
{
    memset(test_state, 0, sizeof(*test_state));
    test_name_temp_dir();
    test_set_timeout(DEFAULT_TIMEOUT_S);
    fflush(stdout);
    pid_t runner = getpid(), pid = fork();
    if (pid < 0) {
        printf("not ok %d - %s\n# cannot fork: %s\n", number, test->name, strerror(errno));
        return false;
    }
    if (pid == 0)
        run_in_child(test, runner);
    setpgid(pid, pid);
    bool in_time = wait_until_deadline(pid);
    int status = kill_group(pid);
    bool passed = judge(test, number, in_time, status);
    remove_temp_dir();
    return passed;
}

static bool is_wanted(const struct test *test, char **filters)
{
    bool wanted = !*filters;

    for (; *filters && !wanted; filters++)
        wanted = fnmatch(*filters, test->name, 0) == 0;
    return wanted;
}

static int list_tests(void)
{
    for (const struct test *test = first_test; test; test = test->next)
        puts(test->name);
    return 0;
}

static int usage(const char *program)
{
    printf("usage: %s [--list] [NAME or 'PATTERN*']...\n"
           "Runs the tests of these names, or all. TAP on standard output.\n"
           "$HOLDFAST_TEST_SLOW multiplies all deadlines.\n",
           program);
    return 0;
}

int main(int argc, char **argv)
{
    int wanted = 0, number = 0, failed = 0;

    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return list_tests();
    if (argc > 1 && argv[1][0] == '-')
        return usage(argv[0]);
    test_state =
        mmap(NULL, sizeof(*test_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (test_state == MAP_FAILED)
        return perror("mmap"), 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    for (const struct test *test = first_test; test; test = test->next)
        wanted += is_wanted(test, argv + 1);
    printf("1..%d\n", wanted);
    for (const struct test *test = first_test; test; test = test->next)
        if (is_wanted(test, argv + 1))
            failed += !run_test(test, ++number);
    return failed > 0 || wanted == 0;
}
