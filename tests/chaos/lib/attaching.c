/* SPDX-License-Identifier: Apache-2.0 */
/* See attaching.h. */
#include "attaching.h"

#include <string.h>

void attach(void *arg)
{
    struct attaching *attaching = arg;

    attaching->code = hf_attach(attaching->client, "one", attaching->key, &attaching->hold);
}

/* Redis does not know all of a fair mutex's key: that it is fair only the key says. */
bool is_held_under(hf_client *client, const char *key)
{
    const struct picture *picture = look(client, "one");

    if (picture->holders != 1)
        return false;
    const char *shown = find_role(picture, HF_ROLE_HOLDER, 0)->owner_key;
    return *shown && strncmp(key, shown, strlen(shown)) == 0;
}
