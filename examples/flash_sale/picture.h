/* SPDX-License-Identifier: Apache-2.0 */
/* Who was at the till when: recorded by all processes, drawn for a terminal. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdint.h>

/* One stay at the till, in nanoseconds on one clock of the machine. */
struct stay {
    int64_t from_ns, to_ns;
    int process;
};

/* Draws `columns` columns of `column_ns` each, beginning at `from_ns`, a lane for each process. */
void picture_draw(const struct stay *stays, int count, int processes, int64_t from_ns,
                  int64_t column_ns, int columns);

/* The most stays that ever were at the same time; -1 without the memory to tell. */
int picture_most_at_once(const struct stay *stays, int count);

#endif
