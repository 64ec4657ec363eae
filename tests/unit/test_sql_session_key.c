/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of session locks against values that other programs publish, and digests against those of
 * their standards. */
#include "engines/sql/session/session.h"

#include "base/error.h"
#include "engines/sql/driver/driver.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const char *hex(const uint8_t *bytes, size_t length)
{
    static char text[129];
    for (size_t i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static const char *sha1(const char *text, size_t length)
{
    uint8_t digest[20];
    hf__session_sha1(digest, text, length);
    return hex(digest, sizeof digest);
}

static const char *sha512(const char *text, size_t length)
{
    uint8_t digest[64];
    hf__session_sha512(digest, text, length);
    return hex(digest, sizeof digest);
}

/* FIPS 180-4's examples: one block, two blocks, a million letters; and no letter. */
TEST(digests_are_those_of_the_standards)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char long_two[] =
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
        "lmnopqrsmnopqrstnopqrstu";
    enum { MILLION = 1000000 };
    char *many = malloc(MILLION);

    CHECK(many != NULL);
    memset(many, 'a', MILLION);
    CHECK_STR(sha1("", 0), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    CHECK_STR(sha1("abc", 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
    CHECK_STR(sha1(two, strlen(two)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    CHECK_STR(sha1(many, MILLION), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    CHECK_STR(sha512("", 0), "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
                             "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
    CHECK_STR(sha512("abc", 3), "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                                "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
    CHECK_STR(sha512(long_two, strlen(long_two)),
              "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
              "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909");
    CHECK_STR(sha512(many, MILLION),
              "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
              "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b");
    CHECK_INT(hf__session_crc32("123456789", 9), 0xcbf43926);
    free(many);
}

struct example {
    enum session_key_form form;
    const char *name, *key; /* as it is shown; NULL: there is none */
};

static void check_examples(const struct sql_driver *driver, const struct example *examples,
                           size_t count)
{
    struct sql_settings *settings = calloc(1, sizeof *settings);

    CHECK(settings != NULL);
    settings->driver = driver;
    for (size_t i = 0; i < count; i++) {
        struct session_key key;
        hf_error *error = NULL;
        char shown[80];
        settings->session_key = examples[i].form;
        bool made = hf__session_key_make(&key, settings, examples[i].name,
                                         (uint32_t)strlen(examples[i].name), &error);
        CHECK_INT(made, examples[i].key != NULL);
        CHECK_INT(error != NULL, examples[i].key == NULL);
        free(error);
        if (!made)
            continue;
        hf__session_key_write(shown, sizeof shown, &key);
        CHECK_STR(shown, examples[i].key);
    }
    free(settings);
}

#define HAN_18 "漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢"
#define X_65 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

/* DistributedLock: its PostgresAdvisoryLockKeyTest and MySqlDistributedLockTest, where names of
 * ASCII are a pair. Rails: MIGRATOR_SALT times CRC-32. */
TEST(keys_of_postgres_are_those_of_other_programs)
{
    static const struct example examples[] = {
        { SESSION_KEY_NUMBER, "12345", "12345" },
        { SESSION_KEY_NUMBER, "-9223372036854775808", "-9223372036854775808" },
        { SESSION_KEY_NUMBER, "1:-2", "1:-2" },
        { SESSION_KEY_NUMBER, "9223372036854775808", NULL },
        { SESSION_KEY_NUMBER, "1:2147483648", NULL },
        { SESSION_KEY_NUMBER, "1:2:3", NULL },
        { SESSION_KEY_NUMBER, "+1", NULL },
        { SESSION_KEY_NUMBER, "0x1", NULL },
        { SESSION_KEY_NUMBER, "nightly", NULL },
        { SESSION_KEY_DISTRIBUTEDLOCK, HAN_18, "-5707277204051710361" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "0000000000000001", "1" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "00000003,ffffffff", "3:-1" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "short", "-408715474:-1879048193" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "ninechars", "-576227748:2050028262" },
        { SESSION_KEY_SYMFONY, "123456789", "3421780262" },
        { SESSION_KEY_RAILS, "app_production", "4615154450383096620" },
        { SESSION_KEY_NAME, "abc", "-2472698702324467014" },
    };
    check_examples(&hf__sql_postgres, examples, sizeof examples / sizeof *examples);
}

#ifdef HF_SQL_MYSQL
TEST(keys_of_mysql_are_those_of_other_programs)
{
    static const struct example examples[] = {
        { SESSION_KEY_NUMBER, "12345", "12345" },
        { SESSION_KEY_NUMBER, "-1", NULL },
        { SESSION_KEY_NUMBER, "1:2", NULL },
        { SESSION_KEY_DISTRIBUTEDLOCK, "abc", "abc" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "ABC", "abczj4qr6tvn4a3kmgq4bukhowqyfrlxsb3" },
        { SESSION_KEY_DISTRIBUTEDLOCK, "\\", "\\" },
        { SESSION_KEY_DISTRIBUTEDLOCK, X_65,
          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxgkd2zq6c6ey6mhs45clqg7vij6ycgo43" },
        { SESSION_KEY_DISTRIBUTEDLOCK, HAN_18, NULL },
        { SESSION_KEY_RAILS, "app_production", "4615154450383096620" },
        { SESSION_KEY_NAME, "cron:nightly", "cron:nightly" },
        { SESSION_KEY_NAME, "ABC",
          "hf-397118fdac8d83ad98813c50759c85b8c47565d8268bf10da483153b747a7" },
    };
    check_examples(&hf__sql_mysql, examples, sizeof examples / sizeof *examples);
}
#endif
