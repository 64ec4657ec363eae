/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of memcached that are refused, each with the sentence that says what to write. */
#include "test.h"

#include <holdfast.h>
#include <stdio.h>

__attribute__((constructor)) static void prepare(void)
{
    /* The first loop of a process makes libuv's own pair of pipe ends, which stays. */
    test_fds_kept = 2;
}

static void refuse(const char *url, const char *part)
{
    hf_client *client = NULL;
    int code = hf_open(&client, url, NULL);

    CHECK_INT(code, HF_EINVAL);
    CHECK(client == NULL);
    if (!strstr(hf_last_error()->text, part))
        FAIL("%s: \"%s\" lacks \"%s\"", url, hf_last_error()->text, part);
}

static void accept(const char *url)
{
    hf_client *client = NULL;

    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    hf_close(client);
}

TEST(path_behind_a_server_is_refused)
{
    refuse("memcached://a/locks", "leave out \"/locks\"");
    refuse("memcached+unix://", "");
    accept("memcached://a/");
}

TEST(format_of_another_library_has_one_server)
{
    static const char *const formats[] = { "symfony", "laravel", "tooz" };
    char url[100], sentence[40];

    for (int i = 0; i < 3; i++) {
        snprintf(url, sizeof(url), "memcached://a,b:11212?format=%s", formats[i]);
        snprintf(sentence, sizeof(sentence), "format=%s has one server", formats[i]);
        refuse(url, sentence);
        snprintf(url, sizeof(url), "memcached://a?format=%s", formats[i]);
        accept(url);
    }
    accept("memcached://a,b:11212?format=holdfast");
    refuse("memcached://a?format=dalli", "format");
}

TEST(user_that_ends_its_line_is_refused)
{
    char url[600] = "memcached://u:";
    size_t end = strlen(url);

    refuse("memcached://u%20v:p@a", "no users with such characters");
    refuse("memcached://u:p%0d%0aflush_all@a", "no users with such characters");
    memset(url + end, 'p', 400);
    memcpy(url + end + 400, "@a", 3);
    refuse(url, "at most 400 bytes");
    memcpy(url + end + 399, "@a", 3);
    accept(url);
}

TEST(lease_that_no_item_can_have_is_refused)
{
    static const int64_t bad[] = { 999, 2591997001, INT64_MAX }, good[] = { 1000, 2591997000 };
    hf_client *client = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_INT(hf_open(&client, "memcached://a", &HF_CLIENT_OPTIONS(.lease_ms = bad[i])),
                  HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, "from 1000 ms to 2591997000 ms") != NULL);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_INT(hf_open(&client, "memcached://a", &HF_CLIENT_OPTIONS(.lease_ms = good[i])),
                  HF_OK);
        hf_close(client);
    }
}
