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

static const uint64_t sha512_constants[SHA512_ROUNDS] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

static uint64_t rotate_right(uint64_t word, unsigned by)
{
    return word >> by | word << (64 - by);
}

static void sha512_block(void *state, const uint8_t *bytes)
{
    uint64_t *h = state, w[SHA512_ROUNDS], s[8];
    memcpy(s, h, sizeof s);
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
        uint64_t next = s[7] + sum + ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha512_constants[i] + w[i];
        sum = rotate_right(s[0], 28) ^ rotate_right(s[0], 34) ^ rotate_right(s[0], 39);
        sum += (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += next;
        s[0] = next + sum;
    }
    for (unsigned i = 0; i < 8; i++)
        h[i] += s[i];
}

void hf__session_sha512(uint8_t digest[64], const void *bytes, size_t length)
{
    uint64_t h[8] = { 0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                      0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                      0x1f83d9abfb41bd6b, 0x5be0cd19137e2179 };
    each_block(sha512_block, h, 128, bytes, length);
    for (unsigned i = 0; i < 8; i++)
        write_big_endian(digest + (size_t)8 * i, 8, h[i]);
}
