/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzzers of what comes on a connection: it must make no difference in what pieces it comes.
 * The first byte says how long they are. Whoever includes this says how it hears. */
#ifndef TESTS_FUZZ_PIECES_H
#define TESTS_FUZZ_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct heard {
    uint64_t count, sum; /* of what there was, and of all that was read in it */
    bool broken;
    bool depends_on_pieces; /* as it may: the two are not compared */
};

/* What comes of these bytes, handed over in pieces of that length. */
static struct heard hear(const char *bytes, size_t length, size_t piece);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *bytes = (const char *)data + 1;
    struct heard whole = hear(bytes, size - 1, size - 1);
    struct heard pieces = hear(bytes, size - 1, 1u + data[0] % 16u);
    bool comparable = !whole.depends_on_pieces && !pieces.depends_on_pieces;
    if (comparable &&
        (whole.count != pieces.count || whole.sum != pieces.sum || whole.broken != pieces.broken))
        abort();
    return 0;
}

#endif
