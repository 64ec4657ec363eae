/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a lock is in use from number to number: a step function, and the most of it within a
 * window. */
#include "torture/check/check.h"

#include <stdlib.h>

struct change {
    uint64_t at;
    int64_t by;
};

static int by_place(const void *a, const void *b)
{
    const struct change *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

static size_t list_changes(struct change *changes, const struct torture_span *spans, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (spans[i].to <= spans[i].from)
            continue;
        changes[used++] = (struct change){ spans[i].from, (int64_t)spans[i].weight };
        changes[used++] = (struct change){ spans[i].to, -(int64_t)spans[i].weight };
    }
    qsort(changes, used, sizeof *changes, by_place);
    return used;
}

/* The sums go into the second half of `most`, their maxima by pairs into the first. */
static void add_up(struct torture_load *load, const struct change *changes, size_t count)
{
    uint64_t sum = 0, *leaves = load->most + load->count;
    size_t places = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (uint64_t)changes[i].by;
        if (places == 0 || load->at[places - 1] != changes[i].at)
            load->at[places++] = changes[i].at;
        leaves[places - 1] = sum;
    }
    /* Places that fell together leave room at the end, where nothing is in use. */
    for (size_t i = places; i < load->count; i++) {
        load->at[i] = TORTURE_NO_END;
        leaves[i] = 0;
    }
    for (size_t i = load->count; i-- > 1;)
        load->most[i] = torture_larger(load->most[2 * i], load->most[2 * i + 1]);
}

bool torture_load_build(struct torture_checking *checking, struct torture_load *load,
                        const struct torture_span *spans, size_t count)
{
    struct change *changes = torture_room(checking, 2 * count, sizeof *changes);
    size_t used = changes ? list_changes(changes, spans, count) : 0;
    load->count = used;
    load->at = torture_room(checking, used, sizeof *load->at);
    load->most = torture_room(checking, 2 * used, sizeof *load->most);
    bool fine = changes && load->at && load->most;
    if (fine)
        add_up(load, changes, used);
    free(changes);
    if (!fine)
        torture_load_free(load);
    return fine;
}

void torture_load_free(struct torture_load *load)
{
    free(load->at);
    free(load->most);
    *load = (struct torture_load){ NULL, NULL, 0 };
}

/* The first place beyond the number. */
static size_t place_after(const struct torture_load *load, uint64_t number)
{
    size_t low = 0, high = load->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (load->at[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t torture_load_most(const struct torture_load *load, uint64_t from, uint64_t to)
{
    size_t first = place_after(load, from), last = to ? place_after(load, to - 1) : 0;
    if (first > 0)
        first--; /* what is in use at the window's beginning has begun before */
    uint64_t most = 0;
    size_t left = first + load->count, right = last + load->count;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            most = torture_larger(most, load->most[left++]);
        if (right & 1)
            most = torture_larger(most, load->most[--right]);
    }
    return most;
}
