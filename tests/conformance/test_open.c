/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: URLs that work, URLs that are refused and how, and what a client says. */
#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_refused(const char *url, int wanted)
{
    hf_client *client = (hf_client *)&client;

    CHECK_ERROR(hf_open(&client, url, NULL), wanted);
    CHECK(client == NULL);
}

TEST(the_version_is_the_headers)
{
    char version[40];

    snprintf(version, sizeof(version), "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    CHECK_STR(hf_version(), version);
}

TEST(codes_have_names_and_sentences)
{
    for (int code = HF_OK; code <= HF_EINTERNAL; code++) {
        CHECK(strncmp(hf_code_name(code), "HF_", 3) == 0);
        CHECK(strlen(hf_code_text(code)) > 1);
        for (int other = HF_OK; other < code; other++)
            CHECK(strcmp(hf_code_name(code), hf_code_name(other)) != 0);
    }
    CHECK_STR(hf_code_name(HF_BUSY), "HF_BUSY");
    CHECK_STR(hf_code_name(HF_EINTERNAL), "HF_EINTERNAL");
    CHECK(hf_code_name(-7) && hf_code_text(-7));
    CHECK(hf_code_name(4711) && hf_code_text(4711));
}

TEST(a_client_opens_and_closes)
{
    hf_client *client = open_client();

    CHECK(hf_caps(client) & HF_CAP_MUTEX);
    /* A password is not shown. */
    if (!strchr(store_url(), '@'))
        CHECK_STR(hf_url(client), store_url());
    hf_close(client);
    hf_close(NULL);
}

TEST(options_are_optional)
{
    hf_client *client;

    CHECK_CODE(hf_open(&client, store_url(), NULL), HF_OK);
    hf_close(client);
}

TEST(the_environment_names_the_store)
{
    hf_client *client, *other;

    CHECK_INT(setenv("HOLDFAST_URL", store_url(), 1), 0);
    CHECK_CODE(hf_open(&client, NULL, NULL), HF_OK);
    other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    CHECK_INT(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(many_clients_come_and_go)
{
    int before = 0;

    for (int i = 0; i < 50; i++) {
        if (i == 1)
            before = test_count_fds();
        hf_client *client = open_client();
        give_back(take(client, name_of("one"), HF_MUTEX, 0));
        hf_close(client);
    }
    CHECK_INT(test_count_fds(), before);
}

TEST(relative_directories_are_refused)
{
    hf_client *client;

    CHECK_ERROR(hf_open(&client, "local:some/where", NULL), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "relative") != NULL);
    setenv("HOLDFAST_DIR", "some/where", 1);
    CHECK_ERROR(hf_open(&client, "local:", NULL), HF_EINVAL);
}

TEST(unknown_schemes_are_refused)
{
    check_refused("nosuch://host/", HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "nosuch") != NULL);
    check_refused("nonsense", HF_EINVAL);
    check_refused("", HF_EINVAL);
    check_refused("://", HF_EINVAL);
    check_refused("local", HF_EINVAL);
}

TEST(unknown_and_bad_options_are_refused)
{
    char url[600];

    if (!store_is_local())
        SKIP("the options of this store are its own");
    snprintf(url, sizeof(url), "%s?frobnicate=1", store_url());
    check_refused(url, HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "frobnicate") != NULL);
    snprintf(url, sizeof(url), "%s?ns=", store_url());
    check_refused(url, HF_EINVAL);
    snprintf(url, sizeof(url), "%s?ns=../up", store_url());
    check_refused(url, HF_EINVAL);
    snprintf(url, sizeof(url), "%s?mode=99", store_url());
    check_refused(url, HF_EINVAL);
    snprintf(url, sizeof(url), "%s?ns=%%zz", store_url());
    check_refused(url, HF_EINVAL);
    snprintf(url, sizeof(url), "%s?ns=a&ns=b", store_url());
    check_refused(url, HF_EINVAL);
}

TEST(passwords_never_show)
{
    hf_client *client;

    CHECK(hf_open(&client, "nosuch://user:hunter2secret@host/?password=hunter2secret", NULL) !=
          HF_OK);
    CHECK(strstr(hf_last_error()->text, "hunter2secret") == NULL);
    CHECK(hf_open(&client, "nosuch://:hunter2secret@host", NULL) != HF_OK);
    CHECK(strstr(hf_last_error()->text, "hunter2secret") == NULL);
    CHECK(hf_open(&client, "local://user:hunter2secret@host/dir?password=hunter2secret", NULL) !=
          HF_OK);
    CHECK(strstr(hf_last_error()->text, "hunter2secret") == NULL);
}

TEST(namespaces_are_worlds_apart)
{
    char url[600];
    hf_client *one, *other;

    if (!store_is_local())
        SKIP("the options of this store are its own");
    snprintf(url, sizeof(url), "%s?ns=one", store_url());
    CHECK_CODE(hf_open(&one, url, NULL), HF_OK);
    snprintf(url, sizeof(url), "%s?ns=other", store_url());
    CHECK_CODE(hf_open(&other, url, NULL), HF_OK);
    hf_hold *hold = take(one, "name", HF_MUTEX, 0);
    CHECK_CODE(probe(other, "name", HF_MUTEX, 0), HF_OK);
    give_back(hold);
    hf_close(one);
    hf_close(other);
}

TEST(who_only_looks_makes_no_store)
{
    char url[600];
    const char *directory = temp_path("missing");
    const hf_client_options looking = HF_CLIENT_OPTIONS(.existing_only = true);
    hf_client *client = (hf_client *)&client;

    if (!store_is_local())
        SKIP("of local: only");
    snprintf(url, sizeof(url), "local://%s", directory);
    CHECK_ERROR(hf_open(&client, url, &looking), HF_UNREACHABLE);
    CHECK(client == NULL);
    CHECK(access(directory, F_OK) != 0);
    CHECK(mkdir(directory, 0700) == 0);
    CHECK_ERROR(hf_open(&client, url, &looking), HF_UNREACHABLE);
    CHECK(rmdir(directory) == 0); /* it is empty still */
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    hf_close(client);
    CHECK_CODE(hf_open(&client, url, &looking), HF_OK);
    hf_close(client);
}

TEST(a_missing_directory_is_explained)
{
    if (!store_is_local())
        SKIP("only local: has directories");
    const char *path = temp_path("plain-file");
    char url[600];
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    hf_client *client;
    snprintf(url, sizeof(url), "local://%s/sub", path);
    CHECK(hf_open(&client, url, NULL) != HF_OK);
    CHECK(strstr(hf_last_error()->text, "plain-file") != NULL);
    CHECK(client == NULL);
}

TEST(a_foreign_file_is_refused_and_left_alone)
{
    static const char text[] = "dear diary, this is no state file\n";
    char url[600], back[sizeof(text)] = "";
    hf_client *client;

    if (!store_is_local())
        SKIP("only local: has a state file");
    int fd = open(temp_path("mine.hf"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, sizeof(text)), sizeof(text));
    snprintf(url, sizeof(url), "local://%s?ns=mine", temp_dir());
    CHECK_ERROR(hf_open(&client, url, NULL), HF_ECORRUPT);
    CHECK_INT(pread(fd, back, sizeof(back), 0), sizeof(back));
    CHECK_STR(back, text);
    close(fd);
}
