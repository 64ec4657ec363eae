/* SPDX-License-Identifier: Apache-2.0 */
/* A fork while another thread is inside the library: hf_close in the child frees memory only, and
 * none of it twice. */
#include "base/testing.h"
#include "core/claim/claim.h"
#include "fixture.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVERY = 13 };

static int frees, forks, failures;

/* The memory of this process, as a fork of another thread would copy it just now. */
static void fork_here(const char *point)
{
    void (*hook)(const char *name) = hf__point_hook;
    if (strcmp(point, "core:freed") != 0 || frees++ % EVERY != 0)
        return;
    hf__point_hook = NULL;
    forks++;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* A program that goes on gets what was freed. */
        char *volatile others[64];
        for (int i = 0; i < 64; i++)
            others[i] = memset(malloc(8u << (i % 8)), 0x41, 8u << (i % 8));
        hf_close(fixture.client);
        for (int i = 0; i < 64; i++)
            free(others[i]);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    failures += status != 0;
    hf__point_hook = hook;
}

TEST(fork_while_a_pool_grows_leaves_the_child_able_to_close)
{
    char name[20];
    fixture_begin();
    hf__point_hook = fork_here;
    for (int i = 0; i < 12000; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        CHECK_INT(fixture_take(name, HF_MUTEX, 1, 0, NULL), HF_OK);
    }
    hf__point_hook = NULL;
    CHECK(forks > 0);
    CHECK_INT(failures, 0);
}

TEST(fork_while_a_sentence_is_dropped_leaves_the_child_able_to_close)
{
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    hf__op_explain(fixture.last_attempt, HF_UNREACHABLE, 0, "the fixture is silent");
    fixture_answer(fixture.last_attempt, HF_NO_ANSWER);
    fixture.attempt_verdict = HF_GRANTED;
    hf__point_hook = fork_here;
    fixture_pass_ms(5000);
    hf__point_hook = NULL;
    CHECK_INT(fixture.code, HF_OK);
    CHECK(forks > 0);
    CHECK_INT(failures, 0);
}
