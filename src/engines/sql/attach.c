/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches that are out, or not undone yet. One without a reply may have been executed, and is
 * undone; until then, one that is asked again finds nothing under its key. */
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdlib.h>
#include <string.h>

struct attaching {
    struct hf_link link;
    unsigned char owner[SQL_OWNER_SIZE], key[SQL_OWNER_SIZE];
};

void hf__attach_note(struct sql *sql, const struct sql_task *task)
{
    struct attaching *attaching = hf__calloc(1, sizeof *attaching);
    if (!attaching)
        return; /* one that is asked again too early is lost then */
    memcpy(attaching->owner, task->owner, SQL_OWNER_SIZE);
    memcpy(attaching->key, task->key, SQL_OWNER_SIZE);
    hf__link_init(&attaching->link);
    hf__list_append(&sql->attaches, &attaching->link);
}

/* Those that came later wait for this one: else several that find nothing would wait for each
 * other. */
bool hf__attach_is_behind(struct sql *sql, const struct sql_task *task)
{
    HF_LIST_FOREACH (link, following, &sql->attaches) {
        const struct attaching *each = HF_CONTAINER(link, struct attaching, link);
        if (memcmp(each->owner, task->owner, SQL_OWNER_SIZE) == 0)
            return false;
        if (memcmp(each->key, task->key, SQL_OWNER_SIZE) == 0)
            return true;
    }
    return false;
}

void hf__attach_forget(struct sql *sql, const unsigned char owner[SQL_OWNER_SIZE])
{
    HF_LIST_FOREACH (link, following, &sql->attaches) {
        struct attaching *each = HF_CONTAINER(link, struct attaching, link);
        if (memcmp(each->owner, owner, SQL_OWNER_SIZE) == 0) {
            hf__link_remove(link);
            free(each);
        }
    }
}

void hf__attach_close(struct sql *sql)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&sql->attaches)))
        free(HF_CONTAINER(link, struct attaching, link));
}
