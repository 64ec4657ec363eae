/* SPDX-License-Identifier: Apache-2.0 */
/* The moments in which a client of the embedded engine opens, and something else happens. */
#include "../crash/state.h"
#include "base/testing.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOON_MS = 20000, LEAD_MS = 300 };

/* ---- somebody else with another boot_id, as in a container, finds that nobody lives ---- */

static struct local *late;
static _Thread_local bool is_late;
static _Atomic bool paused, may_go_on, claimed;

static void let_both_meet(const char *name)
{
    if (is_late && !strcmp(name, "local:set-up:left")) {
        paused = true;
        EVENTUALLY(may_go_on, SOON_MS);
    } else if (is_late && !strcmp(name, "local:session:claimed")) {
        claimed = true;
    } else if (!is_late && !strcmp(name, "local:boot:floor")) {
        may_go_on = true;
        EVENTUALLY(claimed, SOON_MS);
    }
}

static void open_late(void *arg)
{
    (void)arg;
    is_late = true;
    late = state_open(temp_dir());
}

static void change_boot_id(void)
{
    int file = open(temp_path("default.hf"), O_RDWR | O_CLOEXEC);
    CHECK_INT(pwrite(file, "x", 1, offsetof(struct local_header, boot_id)), 1);
    close(file);
}

TEST(whoever_has_set_up_lives)
{
    struct thread thread;
    hf__point_hook = let_both_meet;
    thread_start(&thread, open_late, NULL);
    EVENTUALLY(paused, SOON_MS);
    change_boot_id();
    struct local *other = state_open(temp_dir());
    may_go_on = true;
    thread_join(&thread);
    hf__point_hook = NULL;
    CHECK(hf__local_alive(other, late->session));
    CHECK(hf__local_alive(late, other->session));
    state_check(late);
    state_close(late);
    state_close(other);
}

/* ---- another thread forks ---- */

static struct thread forker;
static _Atomic int forked;

static void fork_and_live_on(void *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        for (;;)
            pause();
    }
    forked = pid;
}

/* Gives the fork the time to come in between, if it can. */
static void fork_beside(const char *name)
{
    if (strcmp(name, "local:session:locked") || forker.run)
        return;
    thread_start(&forker, fork_and_live_on, NULL);
    for (int64_t until_ms = monotonic_ms() + LEAD_MS; !forked && monotonic_ms() < until_ms;)
        let_pass_ms(1);
}

static void open_while_forking(void *arg)
{
    hf_client *client;
    hf_hold *hold;
    hf__point_hook = fork_beside;
    CHECK_INT(hf_open(&client, arg, NULL), HF_OK);
    thread_join(&forker);
    CHECK(forked > 0);
    CHECK_INT(hf_lock(client, "name", 0, NULL, &hold), HF_OK);
    parent_say("%d", (int)forked);
    parent_wait_for("never");
}

TEST(a_child_forked_while_a_client_opens_keeps_nothing_of_it)
{
    struct child child;
    hf_client *client;
    hf_hold *hold;
    char url[300], line[40];
    test_fds_kept = 2; /* libuv's, for signals */
    snprintf(url, sizeof(url), "local://%s", temp_dir());
    child_start(&child, open_while_forking, url);
    CHECK(child_hear(&child, line, sizeof(line)));
    child_kill(&child);
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    int code = hf_lock(client, "name", 2000 * test_slow(), NULL, &hold);
    pid_t orphan = (pid_t)strtol(line, NULL, 10);
    CHECK_INT(kill(orphan, 0), 0);
    kill(orphan, SIGKILL);
    CHECK_INT(code, HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(client);
}

/* ---- a stranger in the same directory ---- */

static void put_a_link_in_its_place(const char *name)
{
    if (strcmp(name, "local:socket:bound"))
        return;
    for (unsigned slot = 1; slot < LOCAL_SESSIONS; slot++) {
        const char *path = temp_path("default.%u.sock", slot);
        if (unlink(path) == 0)
            CHECK_INT(symlink(temp_path("victim"), path), 0);
    }
}

TEST(the_mode_of_the_socket_is_not_set_through_a_link)
{
    hf_client *client;
    struct stat about;
    char url[300];
    test_fds_kept = 2;
    int file = open(temp_path("victim"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    snprintf(url, sizeof(url), "local://%s?mode=0666", temp_dir());
    hf__point_hook = put_a_link_in_its_place;
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    hf__point_hook = NULL;
    CHECK_INT(fstat(file, &about), 0);
    CHECK_INT(about.st_mode & 0777, 0600);
    close(file);
    hf_close(client);
}

/* ---- there is no room for a thread ---- */

/* More than the processor can address. */
#define NO_ROOM ((size_t)1 << 60)

TEST(who_cannot_have_a_thread_hears_what_to_raise)
{
    hf_client *client;
    pthread_attr_t usual, greedy;
    char url[300];
#ifndef __GLIBC__
    SKIP("musl ignores a default stack of more than 8 MiB");
#endif
    test_fds_kept = 2;
    snprintf(url, sizeof(url), "local://%s", temp_dir());
    CHECK_INT(pthread_getattr_default_np(&usual), 0);
    CHECK_INT(pthread_attr_init(&greedy), 0);
    CHECK_INT(pthread_attr_setstacksize(&greedy, NO_ROOM), 0);
    CHECK_INT(pthread_setattr_default_np(&greedy), 0);
    CHECK_INT(hf_open(&client, url, NULL), HF_ELIMIT);
    CHECK(strstr(hf_last_error()->text, "raise 'ulimit -u'") != NULL);
    CHECK_INT(pthread_setattr_default_np(&usual), 0);
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    hf_close(client);
}
