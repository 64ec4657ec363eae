/* SPDX-License-Identifier: Apache-2.0 */
/* The last minutes of each name: a strip with one character for each look at the store. */
#include "exporter.h"

#include <stdlib.h>
#include <string.h>

/* Of names that a view has, the first get strips. */
#define NAMES 200

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct exporter_strip *)a)->hash;
    uint64_t y = ((const struct exporter_strip *)b)->hash;

    return (x > y) - (x < y);
}

static struct exporter_strip *find(struct exporter *exporter, size_t count, uint64_t hash)
{
    struct exporter_strip key = { .hash = hash };

    return bsearch(&key, exporter->strips, count, sizeof(key), by_hash);
}

/* Strips that show nothing any more make room. With all places taken, so do those of names that are
 * free. */
static void drop(struct exporter *exporter)
{
    bool is_full = exporter->strip_count > EXPORTER_STRIPS - NAMES;
    size_t kept = 0;

    for (size_t i = 0; i < exporter->strip_count; i++) {
        struct exporter_strip *strip = &exporter->strips[i];
        bool is_empty = strspn(strip->samples, ".?") == EXPORTER_SAMPLES;

        if (!strip->lock && (is_full || is_empty))
            free(strip->name);
        else
            exporter->strips[kept++] = *strip;
    }
    exporter->strip_count = kept;
}

static void add(struct exporter *exporter, const struct exporter_lock *lock)
{
    struct exporter_strip *strip = &exporter->strips[exporter->strip_count];

    *strip = (struct exporter_strip){ .hash = lock->hash,
                                      .name = strdup(lock->name),
                                      .name_length = lock->name_length,
                                      .lock = lock };
    memset(strip->samples, '.', EXPORTER_SAMPLES);
    exporter->strip_count += strip->name != NULL;
}

static char sample_of(const struct exporter_lock *lock)
{
    return !lock ? '.' : lock->waiters ? '%' : lock->holders ? '#' : '.';
}

void exporter_strips_add(struct exporter *exporter, const struct exporter_view *view)
{
    size_t known = exporter->strip_count;
    size_t most = view->shown < NAMES ? view->shown : NAMES;

    for (size_t i = 0; i < known; i++)
        exporter->strips[i].lock = NULL;
    for (size_t i = 0; i < view->shown; i++) {
        struct exporter_strip *strip = find(exporter, known, view->locks[i].hash);

        if (strip)
            strip->lock = &view->locks[i];
        else if (i < most && exporter->strip_count < EXPORTER_STRIPS)
            add(exporter, &view->locks[i]);
    }
    for (size_t i = 0; i < exporter->strip_count; i++) {
        struct exporter_strip *strip = &exporter->strips[i];

        memmove(strip->samples, strip->samples + 1, EXPORTER_SAMPLES - 1);
        strip->samples[EXPORTER_SAMPLES - 1] = view->up ? sample_of(strip->lock) : '?';
    }
    drop(exporter);
    if (exporter->strip_count)
        qsort(exporter->strips, exporter->strip_count, sizeof(*exporter->strips), by_hash);
}
