/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32, SHA-1 and SHA-512, which other programs make keys with. Nothing here is secret. */
#include "engines/sql/session/session.h"

#include <string.h>

uint32_t hf__session_crc32(const void *bytes, size_t length)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint64_t big_endian(const uint8_t *bytes, unsigned size)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number = number << 8 | bytes[i];
    return number;
}

static void write_big_endian(uint8_t *bytes, unsigned size, uint64_t number)
{
    for (unsigned i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number >> (8 * (size - 1 - i)));
}

/* Calls `block` for each block of the padded message. */
static void each_block(void (*block)(void *state, const uint8_t *bytes), void *state, unsigned size,
                       const uint8_t *bytes, size_t length)
{
    uint8_t last[256] = { 0 };
    size_t whole = length - length % size, rest = length - whole;
    size_t padded = rest + 1 + size / 8 <= size ? size : 2 * (size_t)size;
    for (size_t at = 0; at < whole; at += size)
        block(state, bytes + at);
    if (rest > 0)
        memcpy(last, bytes + whole, rest);
    last[rest] = 0x80;
    write_big_endian(last + padded - 8, 8, (uint64_t)length * 8);
    for (size_t at = 0; at < padded; at += size)
        block(state, last + at);
}

/* ---- SHA-1 ---- */

static uint32_t rotate(uint32_t word, unsigned by)
{
    return word << by | word >> (32 - by);
}

static void sha1_block(void *state, const uint8_t *bytes)
{
    uint32_t *h = state, w[80], s[5];
    memcpy(s, h, sizeof s);
    for (unsigned i = 0; i < 80; i++) {
        w[i] = i < 16 ? (uint32_t)big_endian(bytes + (size_t)4 * i, 4)
                      : rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        uint32_t parity = s[1] ^ s[2] ^ s[3];
        uint32_t f = i < 20   ? ((s[1] & s[2]) | (~s[1] & s[3])) + 0x5a827999u
                     : i < 40 ? parity + 0x6ed9eba1u
                     : i < 60 ? ((s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3])) + 0x8f1bbcdcu
                              : parity + 0xca62c1d6u;
        uint32_t next = rotate(s[0], 5) + f + s[4] + w[i];
        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotate(s[1], 30);
        s[1] = s[0];
        s[0] = next;
    }
    for (unsigned i = 0; i < 5; i++)
        h[i] += s[i];
}

void hf__session_sha1(uint8_t digest[20], const void *bytes, size_t length)
{
    uint32_t h[5] = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u };
    each_block(sha1_block, h, 64, bytes, length);
    for (unsigned i = 0; i < 5; i++)
        write_big_endian(digest + (size_t)4 * i, 4, h[i]);
}

/* ---- SHA-512 ---- */

#define SHA512_ROUNDS 80u

struct sha512 {
    uint64_t h[8], k[SHA512_ROUNDS];
};

static uint64_t rotate_right(uint64_t word, unsigned by)
{
    return word >> by | word << (64 - by);
}

static void sha512_block(void *state, const uint8_t *bytes)
{
    struct sha512 *sha = state;
    uint64_t w[SHA512_ROUNDS], s[8];
    memcpy(s, sha->h, sizeof s);
    for (unsigned i = 0; i < SHA512_ROUNDS; i++) {
        if (i < 16) {
            w[i] = big_endian(bytes + (size_t)8 * i, 8);
        } else {
            uint64_t low = w[i - 15], high = w[i - 2];
            low = rotate_right(low, 1) ^ rotate_right(low, 8) ^ low >> 7;
            high = rotate_right(high, 19) ^ rotate_right(high, 61) ^ high >> 6;
            w[i] = w[i - 16] + low + w[i - 7] + high;
        }
        uint64_t sum = rotate_right(s[4], 14) ^ rotate_right(s[4], 18) ^ rotate_right(s[4], 41);
        uint64_t next = s[7] + sum + ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha->k[i] + w[i];
        sum = rotate_right(s[0], 28) ^ rotate_right(s[0], 34) ^ rotate_right(s[0], 39);
        sum += (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += next;
        s[0] = next + sum;
    }
    for (unsigned i = 0; i < 8; i++)
        sha->h[i] += s[i];
}

/* The first 64 bits behind the point of the root of a prime: the largest number whose power, times
 * two to the 64 for each factor, is not above the prime. */
static uint64_t root_fraction(unsigned prime, unsigned power)
{
    unsigned whole = 1;
    while ((power == 2 ? (whole + 1) * (whole + 1) : (whole + 1) * (whole + 1) * (whole + 1)) <=
           prime)
        whole++;
    /* Digit by digit, in binary, with numbers of 256 bits in words of 32. */
    uint32_t root[8] = { [2] = whole };
    for (int bit = 63; bit >= 0; bit--) {
        uint32_t product[8] = { 1 }, limit[8] = { 0 };
        root[bit / 32] |= 1u << bit % 32;
        limit[2 * power] = prime;
        for (unsigned i = 0; i < power; i++) {
            uint32_t factor[8];
            memcpy(factor, product, sizeof factor);
            memset(product, 0, sizeof product);
            for (unsigned a = 0; a < 3; a++) {
                uint64_t carry = 0;
                for (unsigned b = 0; a + b < 8; b++) {
                    carry += product[a + b] + (uint64_t)root[a] * factor[b];
                    product[a + b] = (uint32_t)carry;
                    carry >>= 32;
                }
            }
        }
        int above = 0;
        for (unsigned i = 8; i-- > 0 && above == 0;)
            above = product[i] > limit[i] ? 1 : product[i] < limit[i] ? -1 : 0;
        if (above > 0)
            root[bit / 32] &= ~(1u << bit % 32);
    }
    return (uint64_t)root[1] << 32 | root[0];
}

static bool is_prime(unsigned number)
{
    for (unsigned factor = 2; factor * factor <= number; factor++)
        if (number % factor == 0)
            return false;
    return true;
}

/* The constants are roots of the first primes, and are made when they are first needed. */
static const struct sha512 *sha512_start(void)
{
    static _Thread_local struct sha512 start;
    unsigned prime = 2;
    if (start.h[0] != 0)
        return &start;
    for (unsigned i = 0; i < SHA512_ROUNDS; prime++) {
        if (!is_prime(prime))
            continue;
        start.k[i] = root_fraction(prime, 3);
        if (i < 8)
            start.h[i] = root_fraction(prime, 2);
        i++;
    }
    return &start;
}

void hf__session_sha512(uint8_t digest[64], const void *bytes, size_t length)
{
    struct sha512 sha = *sha512_start();
    each_block(sha512_block, &sha, 128, bytes, length);
    for (unsigned i = 0; i < 8; i++)
        write_big_endian(digest + (size_t)8 * i, 8, sha.h[i]);
}
