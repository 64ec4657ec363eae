/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a cluster's slots a name belongs to. */
#include "slot.h"

#include <string.h>

/* CRC-16 as XMODEM has it: the one that clusters count with. */
static unsigned checksum(const char *bytes, size_t length)
{
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++) {
        sum ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 0x8000 ? (sum << 1 ^ 0x1021) & 0xffff : sum << 1;
    }
    return sum;
}

/* Of a name with braces around something, that alone counts: from the first opening brace to the
 * first closing one behind it. */
unsigned hf__slot_of(const char *name, size_t length)
{
    const char *opening = memchr(name, '{', length);
    size_t rest = opening ? length - (size_t)(opening + 1 - name) : 0;
    const char *closing = rest ? memchr(opening + 1, '}', rest) : NULL;
    if (closing && closing > opening + 1) /* mutant: braces-of-name-mean-nothing */
        return checksum(opening + 1, (size_t)(closing - opening - 1)) % REDIS_SLOTS;
    return checksum(name, length) % REDIS_SLOTS;
}
