/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and hashing. */
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BACKOFF_FIRST_MS 20
#define BACKOFF_DOUBLINGS 6u

void hf__random(void *out, size_t length)
{
    unsigned char *at = out;
    while (length) {
        ssize_t got = getrandom(at, length, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* Without it owners could not be told apart. */
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        }
    }
}

int64_t hf__jitter_ms(int64_t ms)
{
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    return ms / 2 + (int64_t)(salt % (uint64_t)ms);
}

int64_t hf__backoff_ms(unsigned failures)
{
    unsigned doublings = failures < BACKOFF_DOUBLINGS ? failures : BACKOFF_DOUBLINGS;
    return hf__jitter_ms((int64_t)BACKOFF_FIRST_MS << doublings);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Folds eight bytes a step by a widening multiplication, as the fast hashes of the field do. */
uint64_t hf__hash(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0x9e3779b97f4a7c15u ^ length;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = mix(hash ^ word, 0xbf58476d1ce4e5b9u) + 0x94d049bb133111ebu;
    }
    uint64_t tail = 0;
    memcpy(&tail, at, length);
    hash = mix(hash ^ tail, 0xd6e8feb86659fd93u);
    return mix(hash ^ (hash >> 32), 0x9e3779b97f4a7c15u);
}
