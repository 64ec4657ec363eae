/* SPDX-License-Identifier: Apache-2.0 */
/* How long a lock was free while a client waited for it. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_HANDOVER_H
#define HF_TORTURE_TIMELINE_TIMELINE_HANDOVER_H

#include "torture/timeline/timeline_model.h"

struct timeline_handover {
    int64_t at; /* when it was granted */
    int64_t took;
    const struct timeline_bar *bar;
};

/* Of the locks that one owner holds at a time, in the order of their grants: from the end of the
 * belief before, however it ended, to a grant that was asked for earlier. To be freed; NULL if
 * there is none, or no memory. */
struct timeline_handover *timeline_handovers(const struct timeline_model *model, uint32_t *count);

#endif
