/* SPDX-License-Identifier: Apache-2.0 */
/* Notes: "holdfast MODE*PERMITS pid=N since=MS lease=MS host=NAME owner=TEXT", and "thread=KEY"
 * behind that if a thread has asked: a library that does not know it takes it for text. */
#include "note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {
    [HF_MUTEX] = "mutex",     [HF_FAIR] = "fair",   [HF_READ] = "read",
    [HF_UPGRADE] = "upgrade", [HF_WRITE] = "write", [HF_PERMIT] = "permit",
    [HF_COUNTER] = "counter", [HF_LATCH] = "latch",
};

size_t hf__etcd_note_write(const struct etcd_note *note, char text[ETCD_NOTE_SIZE])
{
    int length = snprintf(text, ETCD_NOTE_SIZE,
                          "holdfast %s*%" PRIu32 " pid=%" PRId64 " since=%" PRId64 " lease=%" PRId64
                          " host=%.63s owner=%.127s%s%s",
                          words[note->mode], note->permits, note->pid, note->since_ms,
                          note->lease_ms, *note->host ? note->host : "-", note->owner,
                          *note->thread ? " thread=" : "", note->thread);
    return length > 0 && length < ETCD_NOTE_SIZE ? (size_t)length : 0;
}

static bool read_mode(const char *word, hf_mode *ret)
{
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (hf_mode)i;
            return true;
        }
    return false;
}

void hf__etcd_note_read(struct etcd_note *note, const void *bytes, size_t length)
{
    char text[ETCD_NOTE_SIZE], word[12] = "";
    int used = 0;
    *note = (struct etcd_note){ .mode = HF_MUTEX, .permits = 1, .since_ms = -1 };
    snprintf(note->owner, sizeof note->owner, "%.*s",
             (int)(length < sizeof note->owner ? length : sizeof note->owner - 1),
             (const char *)bytes);
    if (length == 0 || length >= sizeof text || memchr(bytes, 0, length))
        return;
    memcpy(text, bytes, length);
    text[length] = 0;
    int count = sscanf(text,
                       "holdfast %11[a-z]*%" SCNu32 " pid=%" SCNd64 " since=%" SCNd64
                       " lease=%" SCNd64 " host=%63s owner=%n",
                       word, &note->permits, &note->pid, &note->since_ms, &note->lease_ms,
                       note->host, &used);
    if (count != 6 || used == 0 || !read_mode(word, &note->mode)) {
        *note = (struct etcd_note){ .mode = HF_MUTEX, .permits = 1, .since_ms = -1 };
        snprintf(note->owner, sizeof note->owner, "%.127s", text);
        return;
    }
    note->ours = true;
    if (strcmp(note->host, "-") == 0)
        note->host[0] = 0;
    char *thread = NULL;
    for (char *at = text + used; (at = strstr(at, " thread=")); at++)
        thread = at;
    int end = 0;
    /* What follows more words is the owner's text. */
    if (thread && sscanf(thread, " thread=%47[0-9a-f:]%n", note->thread, &end) == 1 && !thread[end])
        *thread = '\0';
    else
        note->thread[0] = '\0';
    snprintf(note->owner, sizeof note->owner, "%s", text + used);
}
