/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: every part, every refusal with its position, and no secret in what is shown. */
#include "base/url.h"

#include "test.h"

static struct hf_url url;
static hf_error error;

static void parse(const char *text)
{
    error = (hf_error){ 0 };
    int code = hf__url_parse(&url, text, &error);
    if (code != HF_OK)
        FAIL("%s: %s", text, error.text);
}

static void refuse(const char *text, const char *part)
{
    error = (hf_error){ 0 };
    CHECK_INT(hf__url_parse(&url, text, &error), HF_EINVAL);
    CHECK_INT(error.code, HF_EINVAL);
    if (!strstr(error.text, part))
        FAIL("%s: \"%s\" does not say \"%s\"", text, error.text, part);
}

TEST(a_scheme_is_enough)
{
    parse("local:");
    CHECK_STR(url.scheme, "local");
    CHECK_STR(url.path, "");
    CHECK_INT(url.host_count, 0);
    CHECK_INT(url.option_count, 0);
    CHECK(!url.user && !url.password);
    CHECK_STR(url.redacted, "local:");
}

TEST(every_part_is_found)
{
    parse("redis+tls://me:p%40ss@a.example:6379,[::1]:7000,b/run/my%20app?ns=jobs&x=%3D");
    CHECK_STR(url.scheme, "redis+tls");
    CHECK_STR(url.user, "me");
    CHECK_STR(url.password, "p@ss");
    CHECK_INT(url.host_count, 3);
    CHECK_STR(url.hosts[0].name, "a.example");
    CHECK_INT(url.hosts[0].port, 6379);
    CHECK_STR(url.hosts[1].name, "::1");
    CHECK_INT(url.hosts[1].port, 7000);
    CHECK_STR(url.hosts[2].name, "b");
    CHECK_INT(url.hosts[2].port, 0);
    CHECK_STR(url.path, "/run/my app");
    CHECK_STR(hf__url_option(&url, "ns", "none"), "jobs");
    CHECK_STR(hf__url_option(&url, "x", "none"), "=");
    CHECK_STR(hf__url_option(&url, "y", "none"), "none");
}

TEST(a_path_behind_each_host_is_one_path)
{
    static const char *const texts[] = {
        "zk://a/locks,b:7/locks,[::1]/locks", "zk://a/locks,b:7/locks/,[::1]/locks",
        "zks://a,b:7/locks,[::1]/locks", "redis+sentinel://u:p@a/locks,b:7/locks,[::1]/locks?db=2"
    };
    for (int i = 0; i < 4; i++) {
        parse(texts[i]);
        CHECK_INT(url.host_count, 3);
        CHECK_STR(url.hosts[0].name, "a");
        CHECK_STR(url.hosts[1].name, "b");
        CHECK_INT(url.hosts[1].port, 7);
        CHECK_STR(url.hosts[2].name, "::1");
        CHECK_STR(url.path, "/locks");
    }
    parse("redis+cluster://a/,b/");
    CHECK_INT(url.host_count, 2);
    CHECK_STR(url.path, "/");
    parse("zk://a/with%2Ccomma,b/with%2Ccomma");
    CHECK_STR(url.path, "/with,comma");
    parse("local:///run/a,b/c");
    CHECK_STR(url.path, "/run/a,b/c");
}

TEST(different_paths_behind_hosts_are_refused)
{
    refuse("zk://a/locks,b/other", "the path stands once, behind the last host, or is the same "
                                   "behind each (a ',' in it is %2C); not so at position 14");
    refuse("zk://a/locks,b", "not so at position 14");
    refuse("zk://a/locks,b/locks,c/lock", "not so at position 22");
    refuse("zk://a/locks,b/locksmith", "not so at position 14");
    refuse("zk://a/,b/locks", "not so at position 9");
    refuse("redis+sentinel://a/one,b/two", "not so at position 24");
    refuse("zk://a/locks,/locks", "a host is missing at position 14");
    refuse("zk://a/locks,b:x/locks", "a port is a number from 1 to 65535; not so at position 16");
}

TEST(what_cannot_be_part_of_a_host_is_refused)
{
    refuse("zk://a, b/locks",
           "no blank or control character is part of a host; one is at position 8");
    refuse("zk://a /locks", "one is at position 7");
    refuse("zk://a/locks, b/locks", "one is at position 14");
    refuse("redis://a\n", "one is at position 10");
    refuse("redis+sentinel://a,\tb/one", "one is at position 20");
    refuse("redis://[::1 ]", "one is at position 13");
    refuse("zk://u:p@a,u:p@b/locks", "the user stands once, before the first host");
    refuse("zk://u:p@a/locks,u:p@b/locks", "the user stands once, before the first host");
    CHECK(strstr(error.text, "u:***@b") != NULL);
}

TEST(an_empty_authority_has_no_hosts)
{
    parse("local:///run/myapp?ns=jobs");
    CHECK_INT(url.host_count, 0);
    CHECK_STR(url.path, "/run/myapp");
}

TEST(options_nobody_asks_for_are_found)
{
    parse("local:?ns=a&wait=b");
    hf__url_option(&url, "ns", "");
    CHECK_STR(hf__url_unused_option(&url), "wait");
    hf__url_option(&url, "wait", "");
    CHECK(hf__url_unused_option(&url) == NULL);
}

TEST(an_option_of_two_words)
{
    bool first = false, second = true, absent = true, neither = false;
    parse("local:?a=no&b=no&c=maybe&d=yes");
    CHECK(hf__url_choice(&url, "a", "no", "yes", &second) && !second);
    CHECK(hf__url_choice(&url, "d", "no", "yes", &first) && first);
    CHECK(hf__url_choice(&url, "e", "no", "yes", &absent) && absent);
    CHECK(!hf__url_choice(&url, "c", "no", "yes", &neither));
    CHECK_STR(hf__url_unused_option(&url), "b");
}

TEST(secrets_are_not_shown)
{
    parse("redis://me:geheim@host/0?password=hush&ns=open");
    CHECK(!strstr(url.redacted, "geheim"));
    CHECK(!strstr(url.redacted, "hush"));
    CHECK(strstr(url.redacted, "ns=open") != NULL);
    /* A password with what should have been escaped. */
    static const char *const careless[] = { "x://u:gehe/im@h", "x://u:gehe?im@h",
                                            "x://u:gehe#im@h" };
    for (unsigned i = 0; i < 3; i++) {
        hf__url_parse(&url, careless[i], &error);
        CHECK(!strstr(url.redacted, "gehe"));
        CHECK(!strstr(error.text, "gehe"));
    }
    refuse("redis://me:geheim@host:99999/0", "port");
    CHECK(!strstr(error.text, "geheim"));
}

TEST(password_with_a_raw_slash_is_refused_with_its_escape)
{
    refuse("redis://me:geh/eim@host/0", "a '/' of a password is written %2F");
    CHECK(!strstr(error.text, "geh") && !strstr(error.text, "eim"));
    refuse("redis://:geh/eim@host", "a '/' of a password is written %2F");
    refuse("redis://me:geh?eim@host", "a '?' %3F");
    refuse("redis://host:/path", "a port is a number");
}

TEST(control_characters_are_refused)
{
    refuse("redis://host/0\n", "no newline or control character ends a URL; one is at position 15");
    refuse("local:?ns=a\tb",
           "no blank or control character is part of a URL; one is at position 12");
}

TEST(zone_of_an_address_is_decoded)
{
    parse("redis://[fe80::1%25eth0]:7000");
    CHECK_STR(url.hosts[0].name, "fe80::1%eth0");
    CHECK_INT(url.hosts[0].port, 7000);
    parse("redis://[fe80::1%eth0]");
    CHECK_STR(url.hosts[0].name, "fe80::1%eth0");
}

TEST(place_of_an_address_has_brackets)
{
    char text[60];
    hf__url_write_place(text, sizeof text, "::1", 2181);
    CHECK_STR(text, "[::1]:2181");
    hf__url_write_place(text, sizeof text, "host", 6379);
    CHECK_STR(text, "host:6379");
}

TEST(each_password_of_a_list_is_hidden)
{
    parse("quorum:redis://:pw1@127.0.0.1:1,rediss://[::1]:2/3,redis://u:pw%2c@h-3.x?timeout=1");
    CHECK_STR(url.redacted,
              "quorum:redis://:***@127.0.0.1:1,rediss://[::1]:2/3,redis://u:***@h-3.x?timeout=1");
    parse("quorum:redis://:@a,redis://:@b,redis://:@c,redis://:@d,redis://:@e,redis://:@f");
    CHECK(strstr(url.redacted, ":***@a,") && strstr(url.redacted, ":***@f"));
    /* Nobody knows where these passwords begin and end. */
    static const char *const careless[] = {
        "quorum:redis://:ge,heim@a,redis://b",
        "quorum:redis://:ge,redis://b:heim@c",
        "quorum:redis://:ge?heim@a,redis://b",
        "quorum:redis://a,redis://u:ge/heim@b,redis://c",
        "quorum:redis://a,redis://u:ge@heim@b,redis://c",
        "quorum:redis://:ge#,redis://b:heim@c",
        "quorum:redis://a,redis://:12,redis:ge:heim@c",
        "quorum:redis://:1,2:heim@a,redis://b",
        "quorum:redis://a/x:ge,redis://u:heim@b",
    };
    for (unsigned i = 0; i < sizeof careless / sizeof *careless; i++) {
        hf__url_parse(&url, careless[i], &error);
        if (strstr(url.redacted, "ge") || strstr(url.redacted, "heim"))
            FAIL("%s: %s", careless[i], url.redacted);
    }
}

TEST(slips_show_no_password)
{
    static const char *const slips[] = {
        "redis:user:geheim@host",   "redis:/user:geheim@host",  "redis//user:geheim@host",
        "user:geheim@host",         "redis:geheim@host",        "redis:user:ge:geheim@host",
        "redis:u:se://geheim@host", "u:se://geheim@host",       "redis:/user:geheim@host?x=%",
        "redis//user:geheim@h,h:1", "quorum:redis:u:geheim@h,", "quorum:redis://a,redis:geheim@h",
    };
    for (unsigned i = 0; i < sizeof slips / sizeof *slips; i++) {
        error = (hf_error){ 0 };
        if (hf__url_parse(&url, slips[i], &error) == HF_OK)
            hf__url_refuse(&url, &error, "no");
        if (strstr(error.text, "geheim"))
            FAIL("%s: %s", slips[i], error.text);
        CHECK(strstr(error.text, ":***@h") != NULL);
    }
    parse("redis://user@host");
    hf__url_refuse(&url, &error, "a user needs a password");
    CHECK_STR(error.text, "URL \"redis://***@host\": a user needs a password");
    CHECK_STR(url.redacted, "redis://***@host");
    parse("redis://secret@host:6379/2?timeout=500");
    CHECK_STR(url.redacted, "redis://***@host:6379/2?timeout=500");
    parse("quorum:redis://secret@a,redis://b,redis://:pw@c");
    CHECK_STR(url.redacted, "quorum:redis://***@a,redis://b,redis://:***@c");
    parse("redis://secret/more@host");
    hf__url_refuse(&url, &error, "no");
    CHECK(!strstr(error.text, "secret"));
    parse("redi:secret@s://a:b@c");
    hf__url_refuse(&url, &error, "no");
    CHECK(!strstr(error.text, "secret"));
    parse("local:/srv/a@b");
    CHECK_STR(url.redacted, "local:/srv/a@b");
}

TEST(refusals_say_what_and_where)
{
    refuse("", "scheme");
    refuse("local", "scheme");
    refuse(":x", "scheme");
    refuse("lo cal:", "position 3");
    refuse("redis://host:0", "1 to 65535");
    refuse("redis://host:12x", "1 to 65535");
    refuse("redis://[::1", "']'");
    refuse("redis://a,,b", "a host is missing");
    refuse("local:/a%2", "hexadecimal");
    refuse("local:/a%00b", "hexadecimal");
    refuse("local:?=x", "key=value");
    refuse("local:?ns", "key=value");
    refuse("local:?ns=a&ns=b", "twice");
}

TEST(limits_are_kept)
{
    char text[HF_URL_MAX + 16];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "local:/", 7);
    text[HF_URL_MAX] = 0;
    refuse(text, "the limit");
    text[HF_URL_MAX - 1] = 0;
    parse(text);
    CHECK_INT(strlen(url.path), HF_URL_MAX - 1 - 6);
    refuse("redis://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "16 hosts");
}
