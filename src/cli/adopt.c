/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that nothing marks as a lock's: on Redis an application's own data looks like a semaphore
 * that Java has made. The library takes both, the command asks for --adopt first. */
#include "cli.h"

#include <string.h>

static bool keep_object(void *arg, const hf_entry *entry)
{
    if (entry->role == HF_ROLE_OBJECT)
        *(hf_entry *)arg = *entry;
    return entry->role != HF_ROLE_OBJECT;
}

/* Only there a number can be unmarked; elsewhere looking would cost a request for nothing. */
static bool store_may_have_strange_numbers(const struct cli_client *session)
{
    return strncmp(hf_url(session->client), "redis", strlen("redis")) == 0;
}

/* Where it cannot be seen, the request itself says what is wrong. Between this look and the request
 * the number may come into being: then it is as if --adopt had been said. */
static bool is_strange(const struct cli_client *session, const char *name, hf_entry *object)
{
    return store_may_have_strange_numbers(session) &&
           hf_inspect(session->client, name, keep_object, object) == HF_OK && object->unmarked;
}

bool cli_may_use_number(const struct cli_client *session, const char *name, hf_error *error)
{
    hf_entry object = { .kind = HF_KIND_FREE };

    if (session->settings->adopt || !is_strange(session, name, &object))
        return true;
    memset(error, 0, sizeof(*error));
    error->code = HF_EKIND;
    snprintf(error->text, sizeof(error->text),
             "'%.80s' is a number that nothing marks as a lock's: an application's own data, or a "
             "semaphore, counter or latch of another library. Say --adopt to change it, or choose "
             "another name",
             name);
    return false;
}
