/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of locks: our own format, and those of Symfony, Laravel and tooz. */
#include "format.h"

#include "base/rand.h"
#include "sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is shown of a name behind its hash, for people. */
#define SHOWN_MAX 100
/* Tokens count microseconds, which have 16 digits for centuries. */
#define TOKEN_DIGITS_MAX 18u

/* ---- owners ---- */

static void write_own(char owner[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t claim)
{
    snprintf(owner, HF_OWNER_KEY_SIZE, "%016llx%016llx:%llu", (unsigned long long)client[0],
             (unsigned long long)client[1], (unsigned long long)claim);
}

/* 32 bytes in base64: the client, the claim, and a hash of both. */
static void write_symfony(char owner[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t claim)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t words[4] = { client[0], client[1], claim, 0 };
    uint8_t bytes[33] = { 0 };
    words[3] = hf__hash(words, 3 * sizeof words[0]);
    memcpy(bytes, words, 32);
    size_t at = 0;
    for (unsigned i = 0; i < 32; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8;
        three |= i + 2 < 32 ? bytes[i + 2] : 0;
        for (int shift = 18; shift >= 0; shift -= 6)
            owner[at++] = digits[three >> shift & 63];
    }
    owner[43] = '=';
    owner[44] = 0;
}

/* 16 letters and digits: two hashes of the client and the claim. */
static void write_laravel(char owner[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t claim)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t words[4] = { client[0], client[1], claim, 0 };
    for (unsigned half = 0; half < 2; half++) {
        words[3] = half;
        uint64_t hash = hf__hash(words, sizeof words);
        for (unsigned i = 0; i < 8; i++, hash /= 62)
            owner[8 * half + i] = digits[hash % 62];
    }
    owner[16] = 0;
}

const struct mc_format hf__mc_formats[] = {
    [MC_HOLDFAST] = { .prefix = "hf:", .has_text = true, .hashes = true, .write_owner = write_own },
    [MC_SYMFONY] = { .prefix = "", .write_owner = write_symfony },
    [MC_LARAVEL] = { .prefix = "", .write_owner = write_laravel },
    /* pymemcache reads a text by these flags. */
    [MC_TOOZ] = { .prefix = "__TOOZ_LOCK_", .flags = 1, .write_owner = write_own },
};

/* ---- keys ---- */

static bool mc_is_plain(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x21 || name[i] > 0x7e)
            return false;
    return true;
}

/* "%HASH.END": the first byte keeps it apart from all names that are written as they are. */
static void write_hashed(char *key, const char *name, size_t length)
{
    uint8_t digest[32];
    size_t shown = length < SHOWN_MAX ? length : SHOWN_MAX, at = 0;
    hf__mc_sha256(digest, name, length);
    key[at++] = '%';
    for (unsigned i = 0; i < sizeof digest; i++, at += 2)
        snprintf(key + at, 3, "%02x", digest[i]);
    key[at++] = '.';
    for (size_t i = length - shown; i < length; i++)
        key[at++] = name[i] < 0x21 || name[i] > 0x7e ? '_' : name[i];
    key[at] = 0;
}

bool hf__mc_write_key(char key[MC_KEY_MAX + 1], const struct mc_format *format, const char *name,
                      size_t length)
{
    size_t before = strlen(format->prefix);
    bool fits = before + length <= MC_KEY_MAX && mc_is_plain(name, length);
    /* Keys of the engine's own, as that of the clock. */
    bool own = before == 0 && length >= 4 && memcmp(name, "%hf.", 4) == 0;
    memcpy(key, format->prefix, before);
    if (fits && !own && !(format->hashes && name[0] == '%')) {
        memcpy(key + before, name, length);
        key[before + length] = 0;
        return true;
    }
    if (!format->hashes)
        return false;
    write_hashed(key + before, name, length);
    return true;
}

/* ---- values ---- */

size_t hf__mc_write_value(char value[MC_OWNER_MAX + 1], const struct mc_format *format,
                          const char *owner, uint64_t token, const char *text)
{
    int length = format->has_text
                     ? snprintf(value, MC_OWNER_MAX + 1, "%s %" PRIu64 " %s", owner, token, text)
                     : snprintf(value, MC_OWNER_MAX + 1, "%s", owner);
    return length > MC_OWNER_MAX ? MC_OWNER_MAX : (size_t)length;
}

/* How long the owner key is at the front of a value. */
static size_t owner_length(const struct mc_format *format, const char *value, size_t length)
{
    const char *space = format->has_text ? memchr(value, ' ', length) : NULL;
    return space ? (size_t)(space - value) : length;
}

void hf__mc_read_value(struct mc_value *ret, const struct mc_format *format, const char *value,
                       size_t length)
{
    size_t whole = owner_length(format, value, length);
    size_t kept = whole < HF_OWNER_KEY_SIZE ? whole : HF_OWNER_KEY_SIZE - 1;
    for (size_t i = 0; i < kept; i++)
        ret->owner[i] = value[i];
    ret->owner[kept] = 0;
    ret->token = 0;
    ret->text = "";
    if (whole >= length)
        return;
    const char *digits = value + whole + 1;
    size_t count = strspn(digits, "0123456789");
    /* What another program has written may be no token. */
    if (count > 0 && count <= TOKEN_DIGITS_MAX)
        ret->token = strtoull(digits, NULL, 10);
    if (count > 0 && digits[count] == ' ')
        ret->text = digits + count + 1;
}

bool hf__mc_value_is_of(const struct mc_format *format, const char *value, size_t length,
                        const char *owner)
{
    size_t owner_bytes = strlen(owner);
    return owner_length(format, value, length) == owner_bytes &&
           memcmp(value, owner, owner_bytes) == 0;
}
