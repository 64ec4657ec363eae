/* SPDX-License-Identifier: Apache-2.0 */
/* What a key says of its owner, in its value: one line of text. Go's mutexes leave it empty, and
 * read none; in an election, Go's or ours, it is the candidate's text and nothing else. */
#ifndef HF_ENGINES_ETCD_SHOW_NOTE_H
#define HF_ENGINES_ETCD_SHOW_NOTE_H

#include <holdfast.h>

#define ETCD_NOTE_SIZE 400

struct etcd_note {
    bool ours; /* it is a line of ours; else the rest is nothing, but for `owner`: all of it */
    hf_mode mode;
    uint32_t permits;
    int64_t pid;
    int64_t since_ms; /* wall clock of its owner */
    int64_t lease_ms; /* of its own; 0: none */
    char host[64], owner[128];
    char thread[HF_OWNER_KEY_SIZE]; /* as hf_entry.thread */
};

size_t hf__etcd_note_write(const struct etcd_note *note, char text[ETCD_NOTE_SIZE]);
void hf__etcd_note_read(struct etcd_note *note, const void *bytes, size_t length);

#endif
