/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table behind core/known.h. Only its unit test needs them: it breaks single rows.
 */
#ifndef HF_CORE_CLAIM_KNOWN_TABLE_H
#define HF_CORE_CLAIM_KNOWN_TABLE_H

#include "base/testing.h"
#include "core/known.h"

struct hf_known_row {
    unsigned char stays; /* of what was known before the request, HF_KNOWN_... */
    unsigned char added;
    unsigned char mask, equals;    /* (before & mask) == equals: `then`, else `otherwise` */
    unsigned char then, otherwise; /* enum hf_known_verdict */
};

extern HF_TUNABLE struct hf_known_row hf__known_table[HF_ASKED_UNDO + 1][HF_WORD_OPEN + 1];
/* What may have happened as soon as a request has left. */
extern HF_TUNABLE unsigned char hf__known_open[HF_ASKED_UNDO + 1];

#endif
