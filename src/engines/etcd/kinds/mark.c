/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: keys "NAME", a NUL, "holdfast/SESSION.INDEX", with the number of the last change that was
 * done under it and that change's result. There are as many as there are changes at once; one that
 * serves another name takes its earlier key away with it. They end with their session, which no
 * other key rests on. No name has a NUL, so a mark is in no lock's way. A user that may write a
 * prefix of the name may write its marks. */
#include "change.h"

#include "base/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TAIL_MAX 48u

static void mark_free(struct etcd_mark *mark)
{
    free(mark->key);
    free(mark->earlier);
    free(mark);
}

static struct etcd_mark *any_mark(struct etcd_session *session)
{
    struct hf_link *link = hf__list_pop(&session->marks);
    struct etcd_mark *mark;
    if (link)
        return HF_CONTAINER(link, struct etcd_mark, link);
    mark = hf__calloc(1, sizeof *mark);
    if (mark) {
        hf__link_init(&mark->link);
        mark->index = ++session->mark_count;
    }
    return mark;
}

struct etcd_mark *hf__etcd_mark_take(const struct etcd *etcd, struct etcd_session *session,
                                     const char *name, size_t name_length)
{
    size_t root = strlen(etcd->settings.root), length = root + name_length + 1;
    struct etcd_mark *mark = any_mark(session);
    char *key = mark ? hf__calloc(1, length + TAIL_MAX) : NULL;
    if (!key) {
        if (mark)
            hf__etcd_mark_give_back(session, mark);
        return NULL;
    }
    memcpy(key, etcd->settings.root, root);
    memcpy(key + root, name, name_length);
    length += (size_t)snprintf(key + length, TAIL_MAX, "holdfast/%" PRIx64 ".%u",
                               (uint64_t)session->id, mark->index);
    if (mark->key && mark->key_length == length && memcmp(mark->key, key, length) == 0) {
        free(key);
        return mark;
    }
    if (mark->changed != 0) {
        free(mark->earlier);
        mark->earlier = mark->key;
        mark->earlier_length = mark->key_length;
    } else {
        free(mark->key);
    }
    /* A transaction may name a key once. The read before the write finds the key's revision. */
    if (mark->earlier_length == length && memcmp(mark->earlier, key, length) == 0)
        mark->earlier_length = 0; /* mutant: etcd-mark-returns-to-its-earlier-name */
    mark->key = key;
    mark->key_length = length;
    mark->changed = 0;
    return mark;
}

void hf__etcd_mark_give_back(struct etcd_session *session, struct etcd_mark *mark)
{
    hf__list_append(&session->marks, &mark->link);
}

void hf__etcd_marks_free(struct etcd_session *session)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&session->marks)))
        mark_free(HF_CONTAINER(link, struct etcd_mark, link));
}
