/* SPDX-License-Identifier: Apache-2.0 */
/* A database whose disk is full: new names are refused with a sentence, a lock that is held is not
 * lost for it, and all works again once there is room. */
#include "conformance.h"
#include "sql_server.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#define LEASE_MS 15000
#define NAMES 20000

/* The test's directory becomes a disk of its own. */
static void mount_disk(void)
{
    if (geteuid() != 0)
        SKIP("this needs root, to mount a disk");
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", temp_dir(), "tmpfs", 0, "mode=0755,size=200m"))
        SKIP("no mount namespaces here: %s", strerror(errno));
}

static void fill_disk(void)
{
    static char bytes[65536];
    int fd = open(temp_path("ballast"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    for (size_t size = sizeof(bytes); size > 0; size = size == 1 ? 0 : size / 16)
        while (write(fd, bytes, size) > 0)
            continue;
    CHECK_INT(errno, ENOSPC);
    close(fd);
}

/* Each is long, so that few of them need more room. */
static int take_new_name(hf_client *client, int number)
{
    char name[HF_NAME_MAX + 1];

    memset(name, 'n', sizeof(name) - 1);
    snprintf(name + 1000, sizeof(name) - 1000, "%d", number);
    return probe(client, name, HF_MUTEX, HF_OWNER_NEW);
}

static void check_full(hf_client *client)
{
    int code = HF_OK;

    for (int i = 0; i < NAMES && code == HF_OK; i++)
        code = take_new_name(client, i);
    test_note("%s", hf_last_error()->text);
    CHECK_CODE(code, HF_ELIMIT);
}

TEST(full_disk_is_told_and_loses_no_lock)
{
    TEST_TIMEOUT(240);
    mount_disk();
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        _Atomic int losses = 0;

        sql_server_start(&server, *kind);
        hf_client *client = sql_open(&server, server.port, 0, LEASE_MS);
        hf_hold *hold = take_watched(client, "one", &losses);
        uint64_t token = hf_token(hold);
        fill_disk();
        check_full(client);
        /* A renewal is due meanwhile. */
        let_pass_ms(LEASE_MS / 2);
        CHECK_INT(losses, 0);
        CHECK(unlink(temp_path("ballast")) == 0);
        EVENTUALLY(take_new_name(client, NAMES) == HF_OK, SOON_MS);
        let_pass_ms(LEASE_MS);
        CHECK_INT(losses, 0);
        CHECK(hf_held(hold));
        CHECK_CODE(probe(client, "one", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
        give_back(hold);
        hold = take(client, "one", HF_MUTEX, 0);
        CHECK(hf_token(hold) > token);
        give_back(hold);
        hf_close(client);
        sql_server_kill(&server);
    }
}
