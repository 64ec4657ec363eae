/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a history: the file's head, and the check of a record. */
#ifndef HF_TORTURE_HISTORY_HISTORY_FILE_H
#define HF_TORTURE_HISTORY_HISTORY_FILE_H

#include "torture/history/history.h"

#include <stdatomic.h>
#include <stdio.h>

#define TORTURE_MAGIC "hftortur"
#define TORTURE_VERSION 1u
#define TORTURE_BYTE_ORDER 0x01020304u

/* Record number n stands at place n - 1 behind it. */
struct torture_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint32_t record_size;
    uint32_t reserved;
    uint64_t run;
    uint64_t room;
    uint8_t padding[24];
    _Atomic uint64_t drawn; /* on a cache line of its own: everybody writes it */
    uint8_t rest[56];
};

_Static_assert(sizeof(struct torture_head) == 128, "the file's format");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes that are killed hold no locks");

uint32_t torture_record_check(const struct torture_record *record);

/* Whether its kind and verb are known, and its time can be one. */
bool torture_record_fits(const struct torture_record *record);

/* The records of JSON lines; `file` stands at its beginning. `drawn`: how many numbers were given
 * away and had room. */
int torture_history_read_json(struct torture_history *history, FILE *file, uint64_t size,
                              uint64_t *drawn, char error[256]);

/* The words for `mode`, which is a form in a TORTURE_LOCK and a share elsewhere. */
const char *torture_mode_name(enum torture_kind kind, unsigned mode);

#endif
