/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a listing has shown already: what is found twice, by its token and by its mark, or
 * on two pages, is shown once. */
#ifndef HF_ENGINES_REDIS_SHOW_SEEN_SET_H
#define HF_ENGINES_REDIS_SHOW_SEEN_SET_H

#include <stdbool.h>
#include <stddef.h>

struct shown_name;

/* Zero is an empty one. */
struct shown {
    struct shown_name **slots; /* by their hashes; NULL where there is none */
    size_t count, room;        /* `room` is 0 or a power of two */
};

/* Remembers the name. False: it had been there, or (*ret_no_memory) there is no room for it. */
bool hf__seen_set_add(struct shown *shown, const char *name, size_t length, bool *ret_no_memory);
void hf__seen_set_release(struct shown *shown);

#endif
