/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: what they say when they fail, and how a test says that it cannot run. */
#include "test.h"

#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One write, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 0))) static void write_note(const char *format, va_list args)
{
    char text[1200] = "# ";
    int length = vsnprintf(text + 2, sizeof(text) - 3, format, args);

    if (length < 0)
        return;
    size_t size = 2 + (size_t)length;
    if (size > sizeof(text) - 2)
        size = sizeof(text) - 2;
    for (size_t i = 2; i < size; i++)
        if (text[i] == '\n')
            text[i] = ' ';
    text[size++] = '\n';
    if (write(STDOUT_FILENO, text, size) < 0)
        abort();
}

void test_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_note(format, args);
    va_end(args);
}

void test_fail(const char *file, int line, const char *format, ...)
{
    char text[1000];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    test_state->failed = 1;
    test_note("%s:%d: %s", file, line, text);
    /* Not _exit: there the thread sanitizer would report the threads that are not joined yet, as if
     * they were the fault. */
    for (;;)
        syscall(SYS_exit_group, 1);
}

void test_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(test_state->skip_reason, sizeof(test_state->skip_reason), format, args);
    va_end(args);
    test_state->skipped = 1;
    exit(0);
}

static void passed_here(const char *file, int line)
{
    /* For the report of a time-out only: a mixture of two checks does no harm. */
    if (test_state->last_check_line == line)
        return;
    test_state->last_check_line = line;
    test_state->last_check_file = file;
}

void test_check(const char *file, int line, bool passed, const char *text)
{
    if (!passed)
        test_fail(file, line, "not so: %s", text);
    passed_here(file, line);
}

void test_check_int(const char *file, int line, const char *texts, long long got, long long wanted)
{
    if (got != wanted)
        test_fail(file, line, "%s: got %lld, wanted %lld", texts, got, wanted);
    passed_here(file, line);
}

void test_check_string(const char *file, int line, const char *texts, const char *got,
                       const char *wanted)
{
    if (!got || strcmp(got, wanted) != 0)
        test_fail(file, line, "%s: got \"%s\", wanted \"%s\"", texts, got ? got : "(null)", wanted);
    passed_here(file, line);
}
