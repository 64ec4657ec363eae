/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of memcached as bytes: what is made of each, and what is none. */
#include "engines/memcached/codec.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static long read_text(struct mc_reply *reply, const char *text)
{
    return hf__mc_reply_read(reply, text, strlen(text));
}

static void expect_kind(const char *text, enum mc_reply_kind kind)
{
    struct mc_reply reply;

    CHECK_INT(read_text(&reply, text), (long)strlen(text));
    CHECK_INT(reply.kind, kind);
}

TEST(replies_of_both_kinds_of_commands_are_read)
{
    expect_kind("STORED\r\n", MC_STORED);
    expect_kind("NOT_STORED\r\n", MC_NOT_STORED);
    expect_kind("EXISTS\r\n", MC_EXISTS);
    expect_kind("EX\r\n", MC_EXISTS);
    expect_kind("NOT_FOUND\r\n", MC_NOT_FOUND);
    expect_kind("NF\r\n", MC_NOT_FOUND);
    expect_kind("HD\r\n", MC_DONE);
    expect_kind("EN\r\n", MC_MISS);
    expect_kind("END\r\n", MC_END);
    expect_kind("ERROR\r\n", MC_WRONG);
    expect_kind("CLIENT_ERROR bad command line format\r\n", MC_WRONG);
    expect_kind("BUSY currently processing crawler request\r\n", MC_REFUSED);
    expect_kind("SERVER_ERROR out of memory storing object\r\n", MC_REFUSED);
}

TEST(value_has_its_flags_and_its_bytes)
{
    struct mc_reply reply;

    CHECK_INT(read_text(&reply, "VA 5 c12 t30 f7 W\r\na\r\nbc\r\nEN\r\n"), 26);
    CHECK_INT(reply.kind, MC_VALUE);
    CHECK_INT((long)reply.cas, 12);
    CHECK_INT(reply.ttl, 30);
    CHECK_INT(reply.flags, 7);
    CHECK_INT(reply.length, 5);
    CHECK(memcmp(reply.value, "a\r\nbc", 5) == 0);
    CHECK(!reply.cut);
}

TEST(item_without_an_end_has_minus_one_second)
{
    struct mc_reply reply;

    CHECK(read_text(&reply, "HD t-1 c18446744073709551615\r\n") > 0);
    CHECK_INT(reply.ttl, -1);
    CHECK(reply.cas == UINT64_MAX);
    CHECK(read_text(&reply, "HD\r\n") > 0);
    CHECK(reply.ttl == MC_NO_TTL);
}

TEST(large_value_is_cut)
{
    size_t size = 70000;
    char *text = malloc(size + 100);
    struct mc_reply reply;

    CHECK(text != NULL);
    int before = snprintf(text, 100, "VA %zu\r\n", size);
    memset(text + before, 'x', size);
    memcpy(text + before + size, "\r\n", 2);
    CHECK_INT(hf__mc_reply_read(&reply, text, (size_t)before + size + 1), 0);
    CHECK_INT(hf__mc_reply_read(&reply, text, (size_t)before + size + 2), before + (long)size + 2);
    CHECK(reply.cut);
    CHECK_INT(reply.length, MC_VALUE_MAX);
    free(text);
}

TEST(key_of_a_list_ends_with_a_newline_alone)
{
    struct mc_reply reply;

    CHECK_INT(read_text(&reply, "key=hf%3Aa exp=12 la=3\nEND\r\n"), 23);
    CHECK_INT(reply.kind, MC_KEY);
    CHECK_STR(reply.value, "hf%3Aa");
}

TEST(statistic_is_found_by_its_whole_name)
{
    struct mc_reply reply;
    const char *words;

    CHECK(read_text(&reply, "STAT time 1764000000\r\n") > 0);
    CHECK(hf__mc_stat_is(&reply, "time", &words));
    CHECK_STR(words, "1764000000");
    CHECK(!hf__mc_stat_is(&reply, "tim", &words));
    CHECK(!hf__mc_stat_is(&reply, "times", &words));
}

TEST(part_of_a_reply_is_none_yet)
{
    static const char whole[] = "VA 3 c1\r\nabc\r\n";
    struct mc_reply reply;

    for (size_t length = 0; length < sizeof(whole) - 1; length++)
        CHECK_INT(hf__mc_reply_read(&reply, whole, length), 0);
    CHECK_INT(hf__mc_reply_read(&reply, whole, sizeof(whole) - 1), (long)sizeof(whole) - 1);
}

TEST(nonsense_is_refused)
{
    static const char *const bad[] = {
        "\r\n",
        "\n",
        "STORED\n",
        "stored\r\n",
        "HELLO\r\n",
        "VA\r\n",
        "VA x\r\n\r\n",
        "VA -1\r\n\r\n",
        "VA 99999999999999999999\r\n",
        "VA 1048577\r\n",
        "VA 3\r\nabcd\r\n",
        "VA 3 cx\r\nabc\r\n",
        "HD t99999999999\r\n",
        "HD c18446744073709551616\r\n",
    };
    struct mc_reply reply;
    char endless[MC_LINE_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(read_text(&reply, bad[i]), -1);
    memset(endless, 'x', sizeof(endless));
    CHECK_INT(hf__mc_reply_read(&reply, endless, sizeof(endless) - 1), 0);
    CHECK_INT(hf__mc_reply_read(&reply, endless, sizeof(endless)), -1);
}

TEST(each_command_of_a_packet_has_its_replies)
{
    unsigned kinds[4] = { 0 };
    struct mc_reply reply;

    CHECK_INT(hf__mc_expect("mg k t\r\nadd k 0 3 3\r\nmg \r\nmg k v c t\r\n", kinds, 4), 3);
    CHECK_INT(kinds[0], kinds[2]);
    CHECK_INT(hf__mc_expect("set k 0 2 0\r\n\r\nmd k C1\r\n", kinds, 4), 2);
    CHECK_INT(hf__mc_expect("md a\r\nmd b\r\nmd c\r\n", kinds, 2), 2);
    CHECK_INT(hf__mc_expect("mg k v\r\n", kinds, 4), 1);
    CHECK(hf__mc_reply_read(&reply, "EN\r\n", 4) == 4);
    CHECK(hf__mc_reply_fits(&reply, kinds[0]));
    CHECK(hf__mc_reply_read(&reply, "NF\r\n", 4) == 4);
    CHECK(!hf__mc_reply_fits(&reply, kinds[0]));
}

TEST(data_that_looks_like_a_command_expects_no_reply)
{
    unsigned kinds[4] = { 0 };

    CHECK_INT(hf__mc_expect("add k 0 3 9\r\na\nmg x v\n\r\nmg k v c t\r\n", kinds, 4), 2);
    CHECK_INT(hf__mc_expect("cas k 0 3 7 12\r\nmd a\r\nb\r\nmd b\r\n", kinds, 4), 2);
    CHECK_INT(hf__mc_expect("set k 0 3 90\r\nmd a\r\n", kinds, 4), 1);
}

TEST(error_of_a_store_is_about_memory)
{
    static const char full[] = "SERVER_ERROR out of memory storing object\r\n",
                      proxy[] = "SERVER_ERROR backend failure\r\n";
    unsigned add, look;
    struct mc_reply reply;

    CHECK_INT(hf__mc_expect("add k 0 3 1\r\nv\r\n", &add, 1), 1);
    CHECK_INT(hf__mc_expect("mg k v\r\n", &look, 1), 1);
    CHECK(hf__mc_reply_read(&reply, full, strlen(full)) > 0);
    CHECK(hf__mc_reply_fits(&reply, add));
    CHECK(!hf__mc_reply_fits(&reply, look));
    CHECK(hf__mc_reply_read(&reply, proxy, strlen(proxy)) > 0);
    CHECK(!hf__mc_reply_fits(&reply, add));
}
