/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up, for each lane and column, for how long a client held or waited. */
#include "torture/timeline/timeline_density.h"

#include <stdlib.h>
#include <string.h>

unsigned timeline_column(const struct timeline_model *model, unsigned columns, int64_t at)
{
    double column = (double)at / (double)model->length * columns;

    return column < 0 ? 0 : column >= columns ? columns - 1 : (unsigned)column;
}

/* A client that holds several locks at once is not busier than busy. */
static void add(float *share, float part)
{
    *share = *share + part > 1 ? 1 : *share + part;
}

static void add_span(const struct timeline_model *model, float *row, unsigned columns, int64_t from,
                     int64_t to)
{
    double width = (double)model->length / columns;
    unsigned first = timeline_column(model, columns, from);
    unsigned last = timeline_column(model, columns, to);

    for (unsigned column = first; column <= last && to > from; column++) {
        double begin = column * width, end = begin + width;

        begin = (double)from > begin ? (double)from : begin;
        end = (double)to < end ? (double)to : end;
        if (end > begin)
            add(&row[column], (float)((end - begin) / width));
    }
}

static void add_bar(struct timeline_density *density, const struct timeline_model *model,
                    const struct timeline_bar *bar)
{
    size_t row = (size_t)bar->lane * density->columns;
    bool granted = bar->granted != PICTURE_NEVER;

    add_span(model, density->waited + row, density->columns, bar->asked,
             granted ? bar->granted : bar->ended);
    if (granted)
        add_span(model, density->held + row, density->columns, bar->granted, bar->ended);
}

static void add_fault(struct timeline_density *density, const struct timeline_model *model,
                      const struct timeline_fault *fault)
{
    size_t row = (size_t)fault->lane * density->columns;
    unsigned first = timeline_column(model, density->columns, fault->on);
    unsigned last = timeline_column(model, density->columns, fault->off);

    memset(density->stopped + row + first, 1, last - first + 1);
}

int timeline_density_init(struct timeline_density *density, const struct timeline_model *model,
                          unsigned columns, unsigned lanes)
{
    size_t cells = (size_t)columns * lanes + 1;

    *density = (struct timeline_density){ .columns = columns, .lanes = lanes };
    density->held = calloc(cells, sizeof(*density->held));
    density->waited = calloc(cells, sizeof(*density->waited));
    density->stopped = calloc(cells, 1);
    if (!density->held || !density->waited || !density->stopped) {
        timeline_density_release(density);
        return -1;
    }
    for (uint32_t i = 0; i < model->bar_count; i++)
        if (model->bars[i].lane < lanes)
            add_bar(density, model, &model->bars[i]);
    for (uint32_t i = 0; i < model->fault_count; i++)
        if (model->faults[i].lane < lanes)
            add_fault(density, model, &model->faults[i]);
    return 0;
}

void timeline_density_release(struct timeline_density *density)
{
    free(density->held);
    free(density->waited);
    free(density->stopped);
}
