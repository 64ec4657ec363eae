/* SPDX-License-Identifier: Apache-2.0 */
/* How busy each lane was, column by column: the whole run in a few hundred numbers. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_DENSITY_H
#define HF_TORTURE_TIMELINE_TIMELINE_DENSITY_H

#include "torture/timeline/timeline_model.h"

struct timeline_density {
    unsigned columns, lanes;
    /* The share of the column's time, 0 to 1: lane * columns + column. */
    float *held, *waited;
    uint8_t *stopped; /* by a fault that was aimed at this lane */
};

/* Of the first `lanes` lanes. 0, or -1: no memory. */
int timeline_density_init(struct timeline_density *density, const struct timeline_model *model,
                          unsigned columns, unsigned lanes);
void timeline_density_release(struct timeline_density *density);

/* The column in which a time of the run lies. */
unsigned timeline_column(const struct timeline_model *model, unsigned columns, int64_t at);

#endif
