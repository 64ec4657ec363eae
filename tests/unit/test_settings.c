/* SPDX-License-Identifier: Apache-2.0 */
/* Options of URLs, read by a table: types, defaults, ranges, sentences, secrets. */
#include "engines/common/settings.h"

#include "test.h"

#include <stdio.h>

struct settings {
    int64_t timeout_ms, replicas;
    uint32_t names, parents;
    const char *ticket, *group;
};

static const struct hf_setting table[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct settings, timeout_ms),
      .unit = "milliseconds",
      .number = 5000,
      .min = 100,
      .max = 3600000 },
    { .name = "sync",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct settings, replicas),
      .max = 100 },
    { .name = "names",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct settings, names),
      .words = { "short", "long", "odd" },
      .choice = 1 },
    { .name = "parents",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct settings, parents),
      .words = { "stay", "go" },
      .choice = HF_SETTING_ABSENT },
    { .name = "ticket",
      .type = HF_SETTING_TEXT,
      .at = offsetof(struct settings, ticket),
      .secret = true },
    { .name = "group",
      .type = HF_SETTING_TEXT,
      .at = offsetof(struct settings, group),
      .text = "all" },
};

#define ROWS (sizeof table / sizeof *table)

static struct settings settings;
static struct hf_url url;

static int read_settings(const char *text, hf_error *error)
{
    CHECK_INT(hf__url_parse(&url, text, error), HF_OK);
    memset(&settings, 0x55, sizeof settings);
    return hf__settings_read(&settings, table, ROWS, &url, error);
}

static void is_refused(const char *text, const char *words)
{
    hf_error error = { .code = HF_OK };
    CHECK_INT(read_settings(text, &error), HF_EINVAL);
    if (!strstr(error.text, words))
        FAIL("\"%s\" has no \"%s\"", error.text, words);
}

TEST(settings_without_options_are_the_defaults)
{
    CHECK_INT(read_settings("zk://host", NULL), HF_OK);
    CHECK_INT(settings.timeout_ms, 5000);
    CHECK_INT(settings.replicas, 0);
    CHECK_INT(settings.names, 1);
    CHECK_INT(settings.parents, HF_SETTING_ABSENT);
    CHECK(!settings.ticket);
    CHECK_STR(settings.group, "all");
}

TEST(settings_given_replace_the_defaults)
{
    CHECK_INT(read_settings("zk://host?timeout=100&sync=100&names=odd&parents=stay&ticket=a%20b"
                            "&group=",
                            NULL),
              HF_OK);
    CHECK_INT(settings.timeout_ms, 100);
    CHECK_INT(settings.replicas, 100);
    CHECK_INT(settings.names, 2);
    CHECK_INT(settings.parents, 0);
    CHECK_STR(settings.ticket, "a b");
    CHECK_STR(settings.group, "");
    CHECK(!hf__url_unused_option(&url));
}

TEST(settings_wrong_are_refused_with_form_value_and_position)
{
    is_refused("zk://host?timeout=99",
               "timeout is a number of milliseconds from 100 to 3600000, not \"99\" (position 11)");
    is_refused("zk://host?sync=1&timeout=3600001", "not \"3600001\" (position 18)");
    is_refused("zk://host?sync=101", "sync is a number from 0 to 100, not \"101\"");
    is_refused("zk://host?names=SHORT", "names is short, long or odd, not \"SHORT\" (position 11)");
    is_refused("zk://host?parents=", "parents is stay or go, not \"\" (position 11)");
    static const char *const numbers[] = { "",    "-1",  "+5",
                                           " 5",  "5 ",  "5x",
                                           "0x5", "5.0", "99999999999999999999" };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[80];
        snprintf(text, sizeof text, "zk://host?sync=%s", numbers[i]);
        hf_error error;
        if (hf__url_parse(&url, text, NULL) == HF_OK)
            CHECK_INT(hf__settings_read(&settings, table, ROWS, &url, &error), HF_EINVAL);
    }
}

TEST(value_that_may_hold_a_password_is_not_shown)
{
    hf_error error;

    CHECK_INT(read_settings("zk://host?timeout=5:secret@other", &error), HF_EINVAL);
    CHECK(strstr(error.text, "timeout is a number"));
    CHECK(!strstr(error.text, "secret"));
}

TEST(settings_leave_an_option_that_no_row_names_unused)
{
    CHECK_INT(read_settings("zk://host?sync=1&tiemout=7", NULL), HF_OK);
    CHECK_STR(hf__url_unused_option(&url), "tiemout");
}

TEST(settings_of_another_url_are_refused_without_a_position)
{
    struct hf_url other;
    hf_error error;
    CHECK_INT(hf__url_parse(&other, "zk://host?sync=x", NULL), HF_OK);
    CHECK_INT(hf__url_parse(&url, "zk://host", NULL), HF_OK);
    url.options[url.option_count++] = other.options[0];
    CHECK_INT(hf__settings_read(&settings, table, ROWS, &url, &error), HF_EINVAL);
    CHECK(strstr(error.text, "not \"x\""));
    CHECK(!strstr(error.text, "position"));
}

TEST(settings_printed_show_no_secret)
{
    char text[200];
    read_settings("zk://host?ticket=secret&names=odd", NULL);
    CHECK_STR(hf__settings_print(text, sizeof text, &settings, table, ROWS),
              "timeout=5000&sync=0&names=odd&ticket=***&group=all");
    CHECK_STR(hf__settings_print(text, 10, &settings, table, ROWS), "timeout=5");
}
