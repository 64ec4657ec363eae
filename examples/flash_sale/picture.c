/* SPDX-License-Identifier: Apache-2.0 */
/* Draws stays at the till as lanes of characters, one lane for each process. */
#include "picture.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int by_time(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static bool is_there(const struct stay *stay, int64_t at_ns)
{
    return stay->from_ns <= at_ns && at_ns < stay->to_ns;
}

static int count_at(const struct stay *stays, int count, int64_t at_ns)
{
    int there = 0;
    for (int i = 0; i < count; i++)
        there += is_there(&stays[i], at_ns);
    return there;
}

static bool touches(const struct stay *stay, int64_t from_ns, int64_t to_ns)
{
    return stay->from_ns < to_ns && stay->to_ns > from_ns;
}

/* The number of stays grows only where one begins: these moments are enough to look at. */
static int most_in(const struct stay *stays, int count, int64_t from_ns, int64_t to_ns)
{
    int most = count_at(stays, count, from_ns);
    for (int i = 0; i < count; i++) {
        if (stays[i].from_ns < from_ns || stays[i].from_ns >= to_ns)
            continue;
        int there = count_at(stays, count, stays[i].from_ns);
        most = there > most ? there : most;
    }
    return most;
}

static void draw_lane(const struct stay *stays, int count, int process, int64_t from_ns,
                      int64_t column_ns, int columns)
{
    printf("   process %-3d|", process + 1);
    for (int column = 0; column < columns; column++) {
        int64_t at_ns = from_ns + column * column_ns;
        bool there = false;
        for (int i = 0; i < count && !there; i++)
            there = stays[i].process == process && touches(&stays[i], at_ns, at_ns + column_ns);
        putchar(there ? '#' : ' ');
    }
    puts("|");
}

static void draw_sum(const struct stay *stays, int count, int64_t from_ns, int64_t column_ns,
                     int columns)
{
    printf("   at once    |");
    for (int column = 0; column < columns; column++) {
        int64_t at_ns = from_ns + column * column_ns;
        int most = most_in(stays, count, at_ns, at_ns + column_ns);
        putchar(most == 0 ? ' ' : most > 9 ? '+' : (char)('0' + most));
    }
    puts("|");
}

void picture_draw(const struct stay *stays, int count, int processes, int64_t from_ns,
                  int64_t column_ns, int columns)
{
    int64_t to_ns = from_ns + column_ns * columns;
    struct stay *seen = calloc((size_t)count + 1, sizeof(*seen));
    int seen_count = 0;
    if (seen == NULL)
        return;
    for (int i = 0; i < count; i++) {
        if (touches(&stays[i], from_ns, to_ns))
            seen[seen_count++] = stays[i];
    }
    for (int process = 0; process < processes; process++)
        draw_lane(seen, seen_count, process, from_ns, column_ns, columns);
    draw_sum(seen, seen_count, from_ns, column_ns, columns);
    free(seen);
}

int picture_most_at_once(const struct stay *stays, int count)
{
    int most = 0, there = 0;
    int64_t *begins = calloc((size_t)count + 1, sizeof(*begins));
    int64_t *ends = calloc((size_t)count + 1, sizeof(*ends));
    for (int i = 0; begins != NULL && ends != NULL && i < count; i++) {
        begins[i] = stays[i].from_ns;
        ends[i] = stays[i].to_ns;
    }
    if (begins == NULL || ends == NULL)
        most = -1;
    else {
        qsort(begins, (size_t)count, sizeof(*begins), by_time);
        qsort(ends, (size_t)count, sizeof(*ends), by_time);
        for (int begun = 0, ended = 0; begun < count; begun++) {
            there++;
            for (; ends[ended] <= begins[begun]; ended++)
                there--;
            most = there > most ? there : most;
        }
    }
    free(begins);
    free(ends);
    return most;
}
