/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in memcached, in our own format and in those of other libraries. */
#include "engines/memcached/format.h"
#include "engines/memcached/sha256.h"
#include "test.h"

#include <stdio.h>

static const uint64_t client[2] = { UINT64_C(0x0123456789abcdef), 5 };

static const char *key_of(enum mc_format_name format, const char *name)
{
    static char key[MC_KEY_MAX + 1];
    const struct mc_format *found = &hf__mc_formats[format];

    return hf__mc_write_key(key, found, name, strlen(name)) ? key : "none";
}

TEST(hash_is_that_of_the_standard)
{
    static const char *const texts[] = {
        "",
        "abc",
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        ("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mnopqrsmnopqrstnopqrstu"),
    };
    static const char *const wanted[] = {
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
    };

    for (int i = 0; i < 4; i++) {
        uint8_t digest[32];
        char text[65];
        hf__mc_sha256(digest, texts[i], strlen(texts[i]));
        for (int k = 0; k < 32; k++)
            snprintf(text + 2 * k, 3, "%02x", digest[k]);
        CHECK_STR(text, wanted[i]);
    }
}

TEST(plain_name_is_its_key)
{
    CHECK_STR(key_of(MC_HOLDFAST, "orders/42"), "hf:orders/42");
    CHECK_STR(key_of(MC_SYMFONY, "orders/42"), "orders/42");
    CHECK_STR(key_of(MC_TOOZ, "orders"), "__TOOZ_LOCK_orders");
}

TEST(other_names_have_keys_by_their_hash)
{
    char long_name[HF_NAME_MAX + 1];
    char first[MC_KEY_MAX + 1];

    CHECK_STR(key_of(MC_HOLDFAST, "a b"),
              "hf:%c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65.a_b");
    CHECK(strncmp(key_of(MC_HOLDFAST, "%x"), "hf:%", 4) == 0);
    CHECK(strcmp(key_of(MC_HOLDFAST, "%x") + 4 + 64, ".%x") == 0);
    memset(long_name, 'n', HF_NAME_MAX);
    long_name[HF_NAME_MAX] = 0;
    snprintf(first, sizeof(first), "%s", key_of(MC_HOLDFAST, long_name));
    CHECK(strlen(first) <= MC_KEY_MAX);
    long_name[0] = 'm';
    CHECK(strcmp(first, key_of(MC_HOLDFAST, long_name)) != 0);
}

/* 250 bytes fit, with the prefix. */
TEST(longest_key_is_used_whole)
{
    char name[MC_KEY_MAX + 2];

    memset(name, 'n', sizeof(name));
    name[MC_KEY_MAX - 3] = 0;
    CHECK_INT(strlen(key_of(MC_HOLDFAST, name)), MC_KEY_MAX);
    name[MC_KEY_MAX - 3] = 'n';
    name[MC_KEY_MAX - 2] = 0;
    CHECK_INT(key_of(MC_HOLDFAST, name)[3], '%');
    name[MC_KEY_MAX - 2] = 'n';
    name[MC_KEY_MAX] = 0;
    CHECK_INT(strlen(key_of(MC_LARAVEL, name)), MC_KEY_MAX);
    name[MC_KEY_MAX] = 'n';
    name[MC_KEY_MAX + 1] = 0;
    CHECK_STR(key_of(MC_LARAVEL, name), "none");
}

TEST(names_that_others_cannot_carry_are_refused)
{
    CHECK_STR(key_of(MC_SYMFONY, "a b"), "none");
    CHECK_STR(key_of(MC_LARAVEL, "a\tb"), "none");
    CHECK_STR(key_of(MC_TOOZ, "\xc3\xa4"), "none");
    CHECK_STR(key_of(MC_SYMFONY, "%x"), "%x");
    CHECK_STR(key_of(MC_SYMFONY, "%hf.clock"), "none");
    CHECK_STR(key_of(MC_LARAVEL, "%hf.lists"), "none");
}

TEST(owner_keys_have_the_other_librarys_form)
{
    char owner[HF_OWNER_KEY_SIZE], again[HF_OWNER_KEY_SIZE];

    hf__mc_formats[MC_HOLDFAST].write_owner(owner, client, 7);
    CHECK_STR(owner, "0123456789abcdef0000000000000005:7");
    hf__mc_formats[MC_SYMFONY].write_owner(owner, client, 7);
    CHECK_INT(strlen(owner), 44);
    CHECK_INT(owner[43], '=');
    hf__mc_formats[MC_SYMFONY].write_owner(again, client, 8);
    CHECK(strcmp(owner, again) != 0);
    hf__mc_formats[MC_LARAVEL].write_owner(owner, client, 7);
    CHECK_INT(strlen(owner), 16);
    hf__mc_formats[MC_LARAVEL].write_owner(again, client, 8);
    CHECK(strcmp(owner, again) != 0);
}

TEST(value_is_read_as_it_was_written)
{
    char text[MC_OWNER_MAX + 1], long_text[500];
    struct mc_value value;
    const struct mc_format *own = &hf__mc_formats[MC_HOLDFAST];
    size_t length = hf__mc_write_value(text, own, "key:1", 42, "me@here:5 program -x");

    CHECK_STR(text, "key:1 42 me@here:5 program -x");
    hf__mc_read_value(&value, own, text, length);
    CHECK_STR(value.owner, "key:1");
    CHECK(value.token == 42);
    CHECK_STR(value.text, "me@here:5 program -x");
    CHECK(hf__mc_value_is_of(own, text, length, "key:1"));
    CHECK(!hf__mc_value_is_of(own, text, length, "key:"));
    CHECK(!hf__mc_value_is_of(own, text, length, "key:11"));
    memset(long_text, 't', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = 0;
    length = hf__mc_write_value(text, own, "key:1", 0, long_text);
    CHECK_INT(length, MC_OWNER_MAX);
    CHECK_INT(strlen(text), MC_OWNER_MAX);
    length = hf__mc_write_value(text, &hf__mc_formats[MC_TOOZ], "key:1", 42, "me");
    CHECK_STR(text, "key:1");
}
