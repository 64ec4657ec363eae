/* SPDX-License-Identifier: Apache-2.0 */
/* How busy each lane was, column by column: the whole run in a few hundred numbers. */
#ifndef HF_TORTURE_PICTURE_DENSITY_H
#define HF_TORTURE_PICTURE_DENSITY_H

#include "torture/picture_model.h"

struct picture_density {
    unsigned columns, lanes;
    /* The share of the column's time, 0 to 1: lane * columns + column. */
    float *held, *waited;
    uint8_t *stopped; /* by a fault that was aimed at this lane */
};

/* Of the first `lanes` lanes. 0, or -1: no memory. */
int picture_density_init(struct picture_density *density, const struct picture_model *model,
                         unsigned columns, unsigned lanes);
void picture_density_release(struct picture_density *density);

/* The column in which a time of the run lies. */
unsigned picture_column(const struct picture_model *model, unsigned columns, int64_t at);

#endif
