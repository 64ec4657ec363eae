/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories that are not as they should be: each gets its answer, none a crash or a
 * hang. */
#include "base/testing.h"
#include "mix.h"
#include "state.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static const char *directory;
static struct mix_seen *seen;

static void begin(void)
{
    directory = temp_path("state");
    seen = shared_memory(sizeof(*seen));
    hf_client *client = mix_open(directory);
    mix_goes_on(client, seen);
    hf_close(client);
}

static const char *state_path(void)
{
    return temp_path("state/default.hf");
}

static void refuses(const char *url, int wanted, const char *word)
{
    hf_client *client;
    int code = hf_open(&client, url, NULL);
    CHECK_STR(hf_code_name(code), hf_code_name(wanted));
    CHECK(client == NULL);
    CHECK_INT(hf_last_error()->code, wanted);
    if (!strstr(hf_last_error()->text, word))
        FAIL("'%s' does not say '%s'", hf_last_error()->text, word);
}

/* ---- not a state file ---- */

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

TEST(a_foreign_file_is_left_alone)
{
    char text[64] = "";
    begin();
    write_file(state_path(), "a list of things to buy\n");
    refuses(mix_url(directory), HF_ECORRUPT, "not a state file");
    int file = open(state_path(), O_RDONLY | O_CLOEXEC);
    CHECK(read(file, text, sizeof(text) - 1) > 0);
    close(file);
    CHECK_STR(text, "a list of things to buy\n");
}

TEST(a_file_that_was_cut_off_is_noticed)
{
    static const off_t sizes[] = { 1, 8, 100, 4095, 4096, 5000, 266240, 300000, 2510847 };
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin();
        CHECK_INT(truncate(state_path(), sizes[i]), 0);
        refuses(mix_url(directory), HF_ECORRUPT, directory);
        CHECK_INT(unlink(state_path()), 0);
    }
}

TEST(an_empty_file_is_begun)
{
    begin();
    CHECK_INT(truncate(state_path(), 0), 0);
    hf_client *client = mix_open(directory);
    mix_goes_on(client, seen);
    hf_close(client);
}

static void older(unsigned char *bytes, size_t size)
{
    (void)size;
    ((struct local_header *)(void *)bytes)->version = 0;
}

static void other_layout(unsigned char *bytes, size_t size)
{
    (void)size;
    ((struct local_header *)(void *)bytes)->layout++;
}

TEST(another_version_is_refused)
{
    begin();
    state_rewrite(directory, older);
    refuses(mix_url(directory), HF_ECORRUPT, "another version");
}

TEST(another_layout_is_refused)
{
    begin();
    state_rewrite(directory, other_layout);
    refuses(mix_url(directory), HF_ECORRUPT, "another version");
}

TEST(what_is_no_file_is_refused)
{
    begin();
    CHECK_INT(unlink(state_path()), 0);
    CHECK_INT(symlink("/dev/null", state_path()), 0);
    refuses(mix_url(directory), HF_DENIED, directory);
    CHECK_INT(unlink(state_path()), 0);
    CHECK_INT(mkfifo(state_path(), 0600), 0);
    refuses(mix_url(directory), HF_ECORRUPT, "not a file");
    CHECK_INT(unlink(state_path()), 0);
    CHECK_INT(mkdir(state_path(), 0700), 0);
    refuses(mix_url(directory), HF_EINVAL, directory);
}

TEST(bad_options_are_refused)
{
    char url[700];
    static const char *const bad[] = { "ns=",       "ns=.hidden", "ns=a/b",    "ns=..",
                                       "mode=",     "mode=7",     "mode=0777", "mode=x",
                                       "mode=0060", "mode=-1",    "other=1",   "ns=%0A" };
    begin();
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(url, sizeof(url), "%s?%s", mix_url(directory), bad[i]);
        refuses(url, HF_EINVAL, "option");
    }
    refuses("local://elsewhere/tmp", HF_EINVAL, "local:");
    snprintf(url, sizeof(url), "%s/not/there", mix_url(directory));
    refuses(url, HF_EINVAL, "create directory");
}

/* ---- another boot ---- */

static void far_tokens(unsigned char *bytes, size_t size)
{
    struct local_header *header = (void *)bytes;
    struct local_lock *locks = (void *)(bytes + LOCAL_SEGMENTS_AT);
    (void)size;
    header->boot_id[0] = header->boot_id[0] == 'x' ? 'y' : 'x';
    for (unsigned i = 0; i < LOCAL_LOCKS; i++) {
        if (local_get(&locks[i].token))
            local_put(&locks[i].token, UINT64_C(1) << 60);
    }
}

static void hold_detached(void *arg)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = 3600000);
    hf_hold *hold;
    hf_client *client = mix_open(directory);
    CHECK_INT(hf_lock(client, mix_name(0), 0, &options, &hold), HF_OK);
    CHECK_INT(hf_detach(hold, arg), HF_OK);
    parent_say("held");
    parent_wait_for("never");
}

TEST(after_a_boot_all_is_void_and_tokens_go_on)
{
    char key[HF_OWNER_KEY_SIZE];
    struct child child;
    hf_hold *hold;
    begin();
    child_start(&child, hold_detached, key);
    child_wait_for(&child, "held");
    child_kill(&child);
    state_rewrite(directory, far_tokens);
    hf_client *later = mix_open(directory);
    CHECK_INT(hf_lock(later, mix_name(0), 0, NULL, &hold), HF_OK);
    CHECK(hf_token(hold) > UINT64_C(1) << 60);
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(later);
}

/* ---- permissions ---- */

static void as_nobody(void)
{
    if (geteuid() != 0)
        SKIP("this needs root, to become somebody else");
    CHECK_INT(setresgid(NOBODY, NOBODY, NOBODY), 0);
    CHECK_INT(setresuid(NOBODY, NOBODY, NOBODY), 0);
}

TEST(a_directory_without_permission_is_denied)
{
    begin();
    CHECK_INT(chmod(temp_dir(), 0755), 0);
    CHECK_INT(chmod(directory, 0555), 0);
    CHECK_INT(unlink(state_path()), 0);
    as_nobody();
    refuses(mix_url(directory), HF_DENIED, "Permission denied");
}

TEST(a_file_without_permission_is_denied)
{
    begin();
    CHECK_INT(chmod(temp_dir(), 0755), 0);
    CHECK_INT(chmod(directory, 0777), 0);
    as_nobody();
    refuses(mix_url(directory), HF_DENIED, "Permission denied");
}

TEST(somebody_elses_file_is_shared_only_if_meant)
{
    char url[700];
    begin();
    if (geteuid() != 0)
        SKIP("this needs root, to give a file away");
    CHECK_INT(chmod(temp_dir(), 0755), 0);
    CHECK_INT(chmod(directory, 0777), 0);
    CHECK_INT(chmod(state_path(), 0666), 0);
    CHECK_INT(chown(state_path(), 1234, 1234), 0);
    refuses(mix_url(directory), HF_DENIED, "1234");
    snprintf(url, sizeof(url), "%s?mode=0666", mix_url(directory));
    hf_client *client;
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    hf_close(client);
}

/* ---- the default directory ---- */

/* A /tmp that no other process sees. */
static void mount_tmp(void)
{
    if (geteuid() != 0)
        SKIP("this needs root, to mount and to become another user");
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/tmp", "tmpfs", 0, "mode=1777"))
        SKIP("no mount namespaces here: %s", strerror(errno));
    CHECK_INT(unsetenv("HOLDFAST_DIR"), 0);
    CHECK_INT(unsetenv("HOLDFAST_URL"), 0);
}

TEST(default_directory_of_another_user_is_denied)
{
    mount_tmp();
    CHECK_INT(mkdir("/tmp/holdfast-65534", 0777), 0);
    as_nobody();
    refuses("local:", HF_DENIED, "not yours alone");
}

TEST(default_directory_is_the_same_in_cron_and_in_a_login_session)
{
    hf_client *cron, *login;
    hf_hold *hold;
    mount_tmp();
    CHECK_INT(chown(temp_dir(), NOBODY, NOBODY), 0);
    as_nobody();
    CHECK_INT(unsetenv("XDG_RUNTIME_DIR"), 0);
    CHECK_INT(hf_open(&cron, "local:", NULL), HF_OK);
    CHECK_INT(hf_lock(cron, "nightly", 0, NULL, &hold), HF_OK);
    CHECK_INT(setenv("XDG_RUNTIME_DIR", temp_dir(), 1), 0);
    CHECK_INT(hf_open(&login, "local:", NULL), HF_OK);
    CHECK_INT(hf_lock(login, "nightly", 0, NULL, &hold), HF_BUSY);
    hf_close(login);
    hf_close(cron);
}

/* Runs before any test, in a process that was executed with raised privileges. */
__attribute__((constructor)) static void open_with_privileges(void)
{
    hf_client *client;
    if (!getauxval(AT_SECURE) || !getenv("HOLDFAST_TEST_PRIVILEGED"))
        return;
    int code = hf_open(&client, NULL, NULL);
    _exit(code == HF_OK && strstr(hf_url(client), "local:") == hf_url(client) ? 0 : 1);
}

static void execute_with_privileges(void *arg)
{
    (void)arg;
    CHECK_INT(setenv("HOLDFAST_TEST_PRIVILEGED", "yes", 1), 0);
    CHECK_INT(setresuid(NOBODY, 0, 0), 0);
    execl("/proc/self/exe", "test", (char *)NULL);
    FAIL("the test program cannot be executed: %s", strerror(errno));
}

static void open_by_environment(const char *variable, const char *value)
{
    struct child child;
    CHECK_INT(setenv(variable, value, 1), 0);
    child_start(&child, execute_with_privileges, NULL);
    child_join(&child);
    CHECK_INT(unsetenv(variable), 0);
    CHECK(access(state_path(), F_OK) != 0);
    CHECK(access("/run/holdfast/default.hf", F_OK) == 0);
}

TEST(environment_of_a_privileged_program_chooses_no_store)
{
    directory = temp_path("state");
    mount_tmp();
    if (mount("none", "/run", "tmpfs", 0, "mode=0755"))
        SKIP("/run cannot be mounted here: %s", strerror(errno));
    open_by_environment("HOLDFAST_DIR", directory);
    open_by_environment("HOLDFAST_URL", mix_url(directory));
}

static void replace_directory(const char *name)
{
    if (strcmp(name, "local:directory:made"))
        return;
    CHECK_INT(rmdir(directory), 0);
    CHECK_INT(symlink(temp_path("victim"), directory), 0);
}

static void replace_directory_by_another_users(const char *name)
{
    if (!strcmp(name, "local:directory:made"))
        CHECK_INT(chown(directory, NOBODY, NOBODY), 0);
}

TEST(directory_replaced_while_it_is_made_is_refused)
{
    char url[700];
    struct stat about;
    directory = temp_path("state");
    snprintf(url, sizeof(url), "%s?mode=0666", mix_url(directory));
    write_file(temp_path("victim"), "secret\n");
    hf__point_hook = replace_directory;
    refuses(url, HF_EINVAL, "cannot open directory");
    CHECK_INT(unlink(temp_path("victim")), 0);
    CHECK_INT(unlink(directory), 0);
    CHECK_INT(mkdir(temp_path("victim"), 0700), 0);
    refuses(url, HF_EINVAL, "cannot open directory");
    CHECK_INT(stat(temp_path("victim"), &about), 0);
    CHECK_INT(about.st_mode & 07777, 0700);
    CHECK_INT(unlink(directory), 0);
    if (geteuid() == 0) {
        hf__point_hook = replace_directory_by_another_users;
        refuses(url, HF_DENIED, "was replaced");
    }
    hf__point_hook = NULL;
}

TEST(new_directory_gets_its_mode_whatever_the_umask)
{
    char url[700];
    struct stat about;
    hf_client *client;
    directory = temp_path("state");
    snprintf(url, sizeof(url), "%s?mode=0660", mix_url(directory));
    umask(0077);
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    CHECK_INT(stat(directory, &about), 0);
    CHECK_INT(about.st_mode & 0777, 0770);
    hf_close(client);
}

/* ---- no room ---- */

/* A small file system of our own. */
static void mount_small(const char *options)
{
    unsigned flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);
    if (unshare((int)flags) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        SKIP("no mount namespaces here: %s", strerror(errno));
    CHECK(mkdir(directory, 0700) == 0);
    if (mount("none", directory, "tmpfs", 0, options))
        SKIP("no tmpfs in a namespace here: %s", strerror(errno));
}

TEST(a_full_file_system_is_an_answer)
{
    directory = temp_path("state");
    mount_small("size=1m");
    for (int i = 0; i < 3; i++)
        refuses(mix_url(directory), HF_ELIMIT, "make room");
}

static int crowd_until_refused(hf_client *client)
{
    for (unsigned i = 0; i < 100000; i++) {
        char name[24];
        hf_hold *hold;
        snprintf(name, sizeof(name), "%u", i);
        int code = hf_lock(client, name, 0, NULL, &hold);
        if (code != HF_OK)
            return code;
    }
    return HF_OK;
}

TEST(a_file_system_that_fills_up_is_an_answer)
{
    directory = temp_path("state");
    mount_small("size=4m");
    hf_client *client = mix_open(directory);
    hf_hold *hold;
    CHECK_INT(hf_lock(client, "before", 0, NULL, &hold), HF_OK);
    CHECK_STR(hf_code_name(crowd_until_refused(client)), "HF_ELIMIT");
    CHECK(strstr(hf_last_error()->text, "make room") != NULL);
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK_INT(hf_lock(client, "before", 0, NULL, &hold), HF_OK);
    hf_close(client);
    client = mix_open(directory);
    seen = shared_memory(sizeof(*seen));
    mix_goes_on(client, seen);
    hf_close(client);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(file_size_limit_below_a_new_state_file_is_an_answer)
{
    directory = temp_path("state");
    limit_file_size(1000 * 1024);
    for (int i = 0; i < 3; i++)
        refuses(mix_url(directory), HF_ELIMIT, "ulimit -f");
    limit_file_size(RLIM_INFINITY);
    hf_close(mix_open(directory));
    limit_file_size(1024);
    hf_close(mix_open(directory));
    limit_file_size(RLIM_INFINITY);
}

TEST(file_size_limit_reached_by_growth_is_an_answer)
{
    directory = temp_path("state");
    limit_file_size(3 * 1024 * 1024);
    hf_client *client = mix_open(directory);
    CHECK_STR(hf_code_name(crowd_until_refused(client)), "HF_ELIMIT");
    CHECK(strstr(hf_last_error()->text, "ulimit -f") != NULL);
    hf_close(client);
    limit_file_size(RLIM_INFINITY);
}

/* ---- no socket ---- */

static void say_lost(void *arg, const hf_loss *loss)
{
    (void)arg;
    parent_say("lost: %s", loss->reason);
}

static void hold_as_nobody(void *arg)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.on_lost = say_lost);
    hf_client *client;
    hf_hold *hold;
    as_nobody();
    CHECK_INT(hf_open(&client, arg, NULL), HF_OK);
    CHECK_INT(hf_lock(client, "it", 0, &options, &hold), HF_OK);
    parent_say("held");
    parent_wait_for("never");
}

/* A store that NOBODY may use, in a directory of this mode. */
static void share(char url[700], mode_t mode)
{
    if (geteuid() != 0)
        SKIP("this needs root, to share a store with another user");
    begin();
    snprintf(url, 700, "%s?mode=0666", mix_url(directory));
    CHECK_INT(chmod(temp_dir(), 0755), 0);
    CHECK_INT(chmod(directory, mode), 0);
    CHECK_INT(chmod(state_path(), 0666), 0);
}

static unsigned sockets_of(uid_t user)
{
    unsigned count = 0;
    struct stat about;
    for (unsigned slot = 1; slot < LOCAL_SESSIONS; slot++) {
        char path[700];
        snprintf(path, sizeof(path), "%s/default.%u.sock", directory, slot);
        if (!lstat(path, &about) && S_ISSOCK(about.st_mode) && about.st_uid == user)
            count++;
    }
    return count;
}

TEST(break_reaches_a_client_that_cannot_make_its_socket)
{
    char url[700];
    struct child holder;
    share(url, 0755);
    child_start(&holder, hold_as_nobody, url);
    child_wait_for(&holder, "held");
    CHECK_INT(sockets_of(NOBODY), 0);
    hf_client *client = mix_open(directory);
    CHECK_INT(hf_break(client, "it", NULL, NULL), HF_OK);
    child_wait_for(&holder, "lost: the lock was broken");
    hf_close(client);
    child_kill(&holder);
}

static void make_dead_sockets(unsigned but)
{
    for (unsigned slot = 1; slot < LOCAL_SESSIONS; slot++) {
        char path[700];
        snprintf(path, sizeof(path), "%s/default.%u.sock", directory, slot);
        if (slot != but)
            CHECK_INT(mknod(path, S_IFSOCK | 0600, 0), 0);
    }
}

TEST(client_takes_a_slot_in_which_it_can_make_its_socket)
{
    char url[700];
    struct child holder;
    share(url, 01777);
    make_dead_sockets(77);
    child_start(&holder, hold_as_nobody, url);
    child_wait_for(&holder, "held");
    CHECK_INT(sockets_of(NOBODY), 1);
    child_kill(&holder);
}

TEST(client_works_where_no_slot_is_left_for_its_socket)
{
    char url[700];
    struct child holder;
    share(url, 01777);
    make_dead_sockets(0);
    child_start(&holder, hold_as_nobody, url);
    child_wait_for(&holder, "held");
    CHECK_INT(sockets_of(NOBODY), 0);
    child_kill(&holder);
}

/* ---- other pid namespaces ---- */

static void hold_elsewhere(void *arg)
{
    (void)arg;
    if (unshare(CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0))) {
        parent_say("cannot");
        return;
    }
    pid_t inner = fork();
    if (inner == 0) {
        hf_client *client = mix_open(directory);
        hf_hold *hold;
        CHECK_INT(hf_lock(client, "it", 0, NULL, &hold), HF_OK);
        CHECK_INT(getpid(), 1);
        parent_say("held");
        parent_wait_for("never");
    }
    int status;
    waitpid(inner, &status, 0);
}

static hf_client *client_here;

static void wait_for_it(void *arg)
{
    hf_hold *hold;
    CHECK_INT(hf_lock(client_here, "it", 20000, NULL, &hold), HF_OK);
    atomic_store((_Atomic bool *)arg, true);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

TEST(a_death_in_another_pid_namespace_is_noticed)
{
    struct child child;
    char line[40];
    _Atomic bool done = false;
    hf_hold *hold;
    begin();
    child_start(&child, hold_elsewhere, NULL);
    CHECK(child_hear(&child, line, sizeof(line)));
    if (strcmp(line, "held"))
        SKIP("no pid namespaces here");
    client_here = mix_open(directory);
    CHECK_INT(hf_lock(client_here, "it", 0, NULL, &hold), HF_BUSY);
    struct thread waiter;
    thread_start(&waiter, wait_for_it, &done);
    let_pass_ms(50);
    CHECK(!atomic_load(&done));
    child_kill(
        &child); /* Its inner process is killed with the group, or reads the end of its pipe. */
    thread_join(&waiter);
    hf_close(client_here);
}
