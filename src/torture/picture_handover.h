/* SPDX-License-Identifier: Apache-2.0 */
/* How long a lock belonged to nobody while somebody waited for it. */
#ifndef HF_TORTURE_PICTURE_HANDOVER_H
#define HF_TORTURE_PICTURE_HANDOVER_H

#include "torture/picture_model.h"

struct picture_handover {
    int64_t at; /* when it was granted */
    int64_t took;
    const struct picture_bar *bar;
};

/* Of the locks that one owner holds at a time, in the order of their grants: from the end of the
 * belief before, however it ended, to a grant that was asked for earlier. To be freed; NULL if
 * there is none, or no memory. */
struct picture_handover *picture_handovers(const struct picture_model *model, uint32_t *count);

#endif
