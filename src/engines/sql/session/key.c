/* SPDX-License-Identifier: Apache-2.0 */
/* What a lock's name is called at the database, by the URL's `lock_key`. PostgreSQL knows numbers
 * of 64 bits, and pairs of 32 bits; MySQL and MariaDB know 64 characters without case. */
#include "engines/sql/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What Rails multiplies the database's checksum with, for its migrations. */
#define RAILS_SALT INT64_C(2053462845)
/* DistributedLock's name: 9 characters of 7 bits fit into a pair of numbers. */
#define ASCII_KEY_MAX 9u
#define BASE32_LENGTH 32u

static int64_t number_of(const uint8_t *bytes, bool big_endian)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < 8; i++)
        number = number << 8 | bytes[big_endian ? i : 7 - i];
    return (int64_t)number;
}

static bool key_read_number(const char *text, const char *end, int base, int64_t min, int64_t max,
                            int64_t *ret)
{
    char copy[24], *stop;
    size_t length = (size_t)(end - text);
    if (length == 0 || length >= sizeof copy || text[0] == '+' || text[0] == ' ')
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    if (base == 16) {
        *ret = (int64_t)strtoull(copy, &stop, 16);
        return errno == 0 && *stop == '\0' && copy[0] != '-' && !strpbrk(copy, "xX");
    }
    *ret = strtoll(copy, &stop, 10);
    return errno == 0 && *stop == '\0' && *ret >= min && *ret <= max;
}

/* ---- PostgreSQL ---- */

static bool number_key(struct session_key *key, const char *name, size_t length)
{
    const char *colon = memchr(name, ':', length), *end = name + length;
    key->pair = colon != NULL;
    if (!colon)
        return key_read_number(name, end, 10, INT64_MIN, INT64_MAX, &key->number);
    return key_read_number(name, colon, 10, INT32_MIN, INT32_MAX, &key->number) &&
           key_read_number(colon + 1, end, 10, INT32_MIN, INT32_MAX, &key->second);
}

static bool is_short_ascii(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] > 0x7f)
            return false;
    return length <= ASCII_KEY_MAX;
}

static bool hexadecimal_key(struct session_key *key, const char *name, size_t length)
{
    if (length == 16)
        return key_read_number(name, name + 16, 16, 0, 0, &key->number);
    if (length != 17 || name[8] != ',' ||
        !key_read_number(name, name + 8, 16, 0, 0, &key->number) ||
        !key_read_number(name + 9, name + 17, 16, 0, 0, &key->second))
        return false;
    key->number = (int32_t)key->number;
    key->second = (int32_t)key->second;
    return key->pair = true;
}

static void distributedlock_key(struct session_key *key, const char *name, size_t length)
{
    uint8_t digest[20];
    uint64_t bits = 0;
    if (is_short_ascii(name, length)) {
        for (size_t i = 0; i < length; i++)
            bits = bits << 7 | (unsigned char)name[i];
        bits <<= 1;
        for (size_t i = length; i < ASCII_KEY_MAX; i++)
            bits = bits << 7 | 0x7f;
        key->number = (int32_t)(bits >> 32);
        key->second = (int32_t)(uint32_t)bits;
        key->pair = true;
    } else if (!hexadecimal_key(key, name, length)) {
        hf__session_sha1(digest, name, length);
        *key = (struct session_key){ .number = number_of(digest, false) };
    }
}

static bool postgres_key(struct session_key *key, enum session_key_form form, const char *name,
                         size_t length)
{
    uint8_t digest[64];
    switch (form) {
    case SESSION_KEY_NUMBER:
        return number_key(key, name, length);
    case SESSION_KEY_DISTRIBUTEDLOCK:
        distributedlock_key(key, name, length);
        return true;
    case SESSION_KEY_SYMFONY:
        key->number = hf__session_crc32(name, length);
        return true;
    case SESSION_KEY_RAILS:
        key->number = RAILS_SALT * hf__session_crc32(name, length);
        return true;
    case SESSION_KEY_NAME:
        break;
    }
    hf__session_sha512(digest, name, length);
    key->number = number_of(digest, true);
    return true;
}

/* ---- MySQL and MariaDB ---- */

/* The same for every server, whatever it does with case, accents and spaces. */
static bool key_is_plain(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] < ' ' || name[i] > '~' || (name[i] >= 'A' && name[i] <= 'Z'))
            return false;
    return length < SESSION_TEXT_SIZE && name[length - 1] != ' ';
}

static void hashed_text(struct session_key *key, const char *name, size_t length)
{
    uint8_t digest[64];
    hf__session_sha512(digest, name, length);
    size_t used = (size_t)snprintf(key->text, sizeof key->text, "hf-");
    for (unsigned i = 0; used + 1 < sizeof key->text; i++)
        used += (size_t)snprintf(key->text + used, sizeof key->text - used, "%02x", digest[i]);
}

static bool distributedlock_text(struct session_key *key, const char *name, size_t length)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t digest[64];
    size_t prefix = length < 64 - BASE32_LENGTH ? length : 64 - BASE32_LENGTH;
    unsigned bits = 0, count = 0, next = 0;
    bool lower = true;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] > 0x7f)
            return false;
        lower = lower && !(name[i] >= 'A' && name[i] <= 'Z');
    }
    if (lower && length < SESSION_TEXT_SIZE) {
        memcpy(key->text, name, length);
        return true;
    }
    hf__session_sha512(digest, name, length);
    for (size_t i = 0; i < prefix; i++)
        key->text[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    for (unsigned i = 0; i < BASE32_LENGTH; i++, bits >>= 5, count -= 5) {
        if (count < 5) {
            bits |= (unsigned)digest[next++] << count;
            count += 8;
        }
        key->text[prefix + i] = digits[bits & 31];
    }
    return true;
}

static bool mysql_key(struct session_key *key, enum session_key_form form, const char *name,
                      size_t length)
{
    int64_t number;
    switch (form) {
    case SESSION_KEY_NUMBER:
        if (!key_read_number(name, name + length, 10, 0, INT64_MAX, &number))
            return false;
        memcpy(key->text, name, length);
        return true;
    case SESSION_KEY_DISTRIBUTEDLOCK:
        return distributedlock_text(key, name, length);
    case SESSION_KEY_RAILS:
        snprintf(key->text, sizeof key->text, "%" PRId64,
                 RAILS_SALT * hf__session_crc32(name, length));
        return true;
    case SESSION_KEY_SYMFONY: /* refused when it is opened */
    case SESSION_KEY_NAME:
        break;
    }
    if (key_is_plain(name, length))
        memcpy(key->text, name, length);
    else
        hashed_text(key, name, length);
    return true;
}

bool hf__session_key_make(struct session_key *key, const struct sql_settings *settings,
                          const char *name, uint32_t length, hf_error **error)
{
    bool postgres = settings->driver->dialect == SQL_POSTGRES;
    enum session_key_form form = settings->session_key;
    memset(key, 0, sizeof *key);
    if (postgres ? postgres_key(key, form, name, length) : mysql_key(key, form, name, length))
        return true;
    if (form == SESSION_KEY_NUMBER)
        hf__explain(error, HF_EINVAL, 0,
                    "\"%.200s\": with lock_key=number a lock's name is a number%s", name,
                    postgres ? " of 64 bits (12345), or two of 32 bits (1:2)" : " (12345)");
    else
        hf__explain(error, HF_EINVAL, 0,
                    "\"%.200s\": with lock_key=distributedlock a name is ASCII at MySQL", name);
    return false;
}

bool hf__session_key_is(const struct session_key *one, const struct session_key *other)
{
    return one->number == other->number && one->second == other->second &&
           one->pair == other->pair && strcmp(one->text, other->text) == 0;
}

void hf__session_key_write(char *text, size_t size, const struct session_key *key)
{
    if (*key->text)
        snprintf(text, size, "%s", key->text);
    else if (key->pair)
        snprintf(text, size, "%" PRId64 ":%" PRId64, key->number, key->second);
    else
        snprintf(text, size, "%" PRId64, key->number);
}
