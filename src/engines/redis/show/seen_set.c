/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a listing has shown already: a table that grows. */
#include "seen_set.h"

#include "base/rand.h"
#include "base/testing.h"

#include <string.h>

#define ROOM_FIRST 64

struct shown_name {
    uint64_t hash;
    size_t length;
    char bytes[];
};

/* Where the name is, or would be. There is always an empty slot. */
static struct shown_name **slot_of(const struct shown *shown, uint64_t hash, const char *name,
                                   size_t length)
{
    size_t at = (size_t)hash & (shown->room - 1);
    for (;; at = (at + 1) & (shown->room - 1)) {
        const struct shown_name *there = shown->slots[at];
        bool same = there && there->hash == hash && there->length == length &&
                    memcmp(there->bytes, name, length) == 0;
        if (!there || same)
            return &shown->slots[at];
    }
}

/* A quarter of the slots stays empty. */
static bool seen_set_make_room(struct shown *shown)
{
    if (shown->count < shown->room / 4 * 3)
        return true;
    struct shown larger = { .room = shown->room ? 2 * shown->room : ROOM_FIRST };
    larger.slots = hf__calloc(larger.room, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < shown->room; i++) {
        struct shown_name *name = shown->slots[i];
        if (name)
            *slot_of(&larger, name->hash, name->bytes, name->length) = name;
    }
    larger.count = shown->count;
    free(shown->slots);
    *shown = larger;
    return true;
}

bool hf__seen_set_add(struct shown *shown, const char *name, size_t length, bool *ret_no_memory)
{
    uint64_t hash = hf__hash(name, length);
    *ret_no_memory = !seen_set_make_room(shown);
    struct shown_name **slot = *ret_no_memory ? NULL : slot_of(shown, hash, name, length);
    if (!slot || *slot)
        return false; /* mutant: name-is-shown-as-often */
    *slot = hf__calloc(1, sizeof **slot + length);
    if (!*slot) {
        *ret_no_memory = true;
        return false;
    }
    (*slot)->hash = hash;
    (*slot)->length = length;
    memcpy((*slot)->bytes, name, length);
    shown->count++;
    return true;
}

void hf__seen_set_release(struct shown *shown)
{
    for (size_t i = 0; i < shown->room; i++)
        free(shown->slots[i]);
    free(shown->slots);
}
