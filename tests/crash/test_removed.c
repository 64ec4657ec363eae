/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs that clean up: what is in use is protected, and what is removed all the same is
 * noticed. */
#include "base/testing.h"
#include "mix.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *directory;

static void begin(void)
{
    directory = temp_path("state");
    hf_close(mix_open(directory));
}

static const char *state_path(void)
{
    return temp_path("state/default.hf");
}

/* ---- protection ---- */

static int try_exclusive(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(descriptor >= 0);
    int native = flock(descriptor, LOCK_EX | LOCK_NB) ? errno : 0;
    close(descriptor);
    return native;
}

TEST(state_in_use_is_locked_against_clean_up)
{
    begin();
    CHECK_INT(try_exclusive(directory), 0);
    hf_client *client = mix_open(directory);
    CHECK_INT(try_exclusive(directory), EWOULDBLOCK);
    CHECK_INT(try_exclusive(state_path()), EWOULDBLOCK);
    hf_client *second = mix_open(directory);
    hf_close(client);
    CHECK_INT(try_exclusive(directory), EWOULDBLOCK);
    hf_close(second);
    CHECK_INT(try_exclusive(directory), 0);
    CHECK_INT(try_exclusive(state_path()), 0);
}

static void clean_up(const char *place)
{
    char command[1400];
    FILE *file = fopen(temp_path("age.conf"), "we");
    CHECK(file != NULL);
    fprintf(file, "d %s - - - 1s\n", place);
    fclose(file);
    snprintf(command, sizeof(command), "systemd-tmpfiles --clean '%s'", temp_path("age.conf"));
    if (system(command))
        SKIP("systemd-tmpfiles cannot clean up here");
}

TEST(systemd_tmpfiles_leaves_a_store_in_use)
{
    char used[600], idle[600];
    hf_hold *hold;
    if (system("systemd-tmpfiles --version >/dev/null 2>&1"))
        SKIP("systemd-tmpfiles is not installed");
    CHECK_INT(mkdir(temp_path("aged"), 0700), 0);
    snprintf(used, sizeof(used), "%s", temp_path("aged/used"));
    snprintf(idle, sizeof(idle), "%s", temp_path("aged/idle"));
    hf_close(mix_open(idle));
    hf_client *holder = mix_open(used);
    CHECK_INT(hf_lock(holder, "it", 0, NULL, &hold), HF_OK);
    let_pass_ms(2500); /* All is older than the limit of a second by then. */
    clean_up(temp_path("aged"));
    if (access(idle, F_OK) == 0)
        SKIP("systemd-tmpfiles removed nothing");
    hf_client *newcomer = mix_open(used);
    CHECK_INT(hf_lock(newcomer, "it", 0, NULL, &hold), HF_BUSY);
    hf_close(newcomer);
    hf_close(holder);
}

/* ---- a clean-up that came first ---- */

static int cleaner = -1;

/* The directory is removed, and then let go of. */
static void remove_while_waited_for(const char *name)
{
    if (strcmp(name, "local:keep:busy") || cleaner < 0)
        return;
    CHECK_INT(unlink(state_path()), 0);
    CHECK_INT(rmdir(directory), 0);
    close(cleaner);
    cleaner = -1;
}

TEST(open_while_the_directory_is_removed_makes_a_new_one)
{
    begin();
    cleaner = open(directory, O_RDONLY | O_CLOEXEC);
    CHECK_INT(flock(cleaner, LOCK_EX), 0);
    hf__point_hook = remove_while_waited_for;
    hf_client *client = mix_open(directory);
    hf__point_hook = NULL;
    CHECK_INT(cleaner, -1);
    CHECK_INT(access(state_path(), F_OK), 0);
    CHECK_INT(try_exclusive(directory), EWOULDBLOCK);
    hf_close(client);
}

static void remove_file_while_waited_for(const char *name)
{
    if (strcmp(name, "local:keep:busy") || cleaner < 0)
        return;
    CHECK_INT(unlink(state_path()), 0);
    close(cleaner);
    cleaner = -1;
}

TEST(open_while_the_state_file_is_removed_makes_a_new_one)
{
    begin();
    cleaner = open(state_path(), O_RDONLY | O_CLOEXEC);
    CHECK_INT(flock(cleaner, LOCK_EX), 0);
    hf__point_hook = remove_file_while_waited_for;
    hf_client *client = mix_open(directory);
    hf__point_hook = NULL;
    CHECK_INT(cleaner, -1);
    CHECK_INT(access(state_path(), F_OK), 0);
    CHECK_INT(try_exclusive(state_path()), EWOULDBLOCK);
    hf_close(client);
}

TEST(foreign_lock_on_the_directory_does_not_stop_a_client)
{
    begin();
    int stranger = open(directory, O_RDONLY | O_CLOEXEC);
    CHECK_INT(flock(stranger, LOCK_EX), 0);
    hf_close(mix_open(directory));
    close(stranger);
}

/* ---- a clean-up that does not look for locks ---- */

struct told {
    char reason[200];
    _Atomic bool lost;
};

static void note_loss(void *arg, const hf_loss *loss)
{
    struct told *told = arg;
    snprintf(told->reason, sizeof(told->reason), "%s", loss->reason);
    atomic_store(&told->lost, true);
}

static hf_client *hold_it(struct told *told, hf_hold **hold)
{
    hf_client *client = mix_open(directory);
    hf_lock_options options = HF_LOCK_OPTIONS(.on_lost = note_loss, .lost_arg = told);
    CHECK_INT(hf_lock(client, "it", 0, &options, hold), HF_OK);
    CHECK(hf_held(*hold));
    return client;
}

TEST(holder_hears_when_another_client_begins_a_new_file)
{
    struct told told = { .lost = false };
    hf_hold *hold, *other;
    begin();
    hf_client *older = hold_it(&told, &hold);
    CHECK_INT(unlink(state_path()), 0);
    hf_client *newer = mix_open(directory);
    EVENTUALLY(!hf_held(hold), 10000);
    EVENTUALLY(atomic_load(&told.lost), 10000);
    CHECK_INT(hf_lock(older, "another", 0, NULL, &other), HF_ECORRUPT);
    CHECK(strstr(hf_last_error()->text, "was removed") != NULL);
    CHECK_INT(hf_unlock(hold), HF_LOST);
    hf_close(older);
    CHECK_STR(told.reason, "its state file was removed");
    CHECK_INT(hf_lock(newer, "it", 0, NULL, &other), HF_OK);
    hf_close(newer);
}

TEST(holder_without_calls_notices_that_all_was_removed)
{
    struct told told = { .lost = false };
    char command[700];
    hf_hold *hold;
    begin();
    hf_client *client = hold_it(&told, &hold);
    snprintf(command, sizeof(command), "rm -r '%s'", directory);
    CHECK_INT(system(command), 0);
    EVENTUALLY(atomic_load(&told.lost), 40000);
    CHECK(!hf_held(hold));
    hf_close(client);
    CHECK_STR(told.reason, "its state file was removed");
}

static int lock_another(hf_client *client)
{
    hf_hold *other;
    int code = hf_lock(client, "another", 0, NULL, &other);
    if (code == HF_OK)
        CHECK_INT(hf_unlock(other), HF_OK);
    return code;
}

static void check_noticed(void)
{
    struct told told = { .lost = false };
    hf_hold *hold;
    uint32_t value;
    hf_client *client = hold_it(&told, &hold);
    CHECK_INT(system(temp_path("remove")), 0);
    EVENTUALLY(lock_another(client) == HF_ECORRUPT, 10000);
    EVENTUALLY(!hf_held(hold), 10000);
    CHECK_INT(hf_counter_get(client, "count", &value), HF_ECORRUPT);
    CHECK_INT(hf_unlock(hold), HF_LOST);
    hf_close(client);
}

static void remove_by(const char *command)
{
    begin();
    FILE *script = fopen(temp_path("remove"), "we");
    CHECK(script != NULL);
    fprintf(script, "#!/bin/sh\n%s\n", command);
    CHECK_INT(fchmod(fileno(script), 0700), 0);
    fclose(script);
    check_noticed();
}

TEST(removed_file_is_noticed_by_the_next_calls)
{
    char command[700];
    snprintf(command, sizeof(command), "rm '%s/state/default.hf'", temp_dir());
    remove_by(command);
}

TEST(removed_directory_is_noticed_by_the_next_calls)
{
    char command[700];
    snprintf(command, sizeof(command), "rm -r '%s/state'", temp_dir());
    remove_by(command);
}

TEST(renamed_file_is_noticed_by_the_next_calls)
{
    char command[1400];
    snprintf(command, sizeof(command), "mv '%s/state/default.hf' '%s/away'", temp_dir(),
             temp_dir());
    remove_by(command);
}
