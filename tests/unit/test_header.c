/* SPDX-License-Identifier: Apache-2.0 */
/* The public header in C: it needs nothing before it, may come twice, and its macros initialise. */
#include <holdfast.h>

static bool visit(void *arg, const hf_entry *entry)
{
    (void)arg;
    return entry->role == HF_ROLE_HOLDER;
}

int main(void)
{
    static const hf_lock_options defaults = HF_LOCK_OPTIONS_INIT;
    hf_client_options client_options = HF_CLIENT_OPTIONS_INIT;
    hf_lock_options lock_options = HF_LOCK_OPTIONS(.mode = HF_WRITE, .owner = 7);
    hf_client *client;
    hf_hold *hold;
    char key[HF_OWNER_KEY_SIZE];
    int code = HF_OK;

    client_options.lease_ms = 1000;
    if (hf_open(&client, NULL, &client_options) != HF_OK)
        return hf_last_error()->code;
    if (hf_lock(client, "name", HF_FOREVER, &lock_options, &hold) == HF_OK)
        code = hf_detach(hold, key);
    if (hf_lock(client, "name", 0, &defaults, &hold) == HF_OK ||
        hf_lock(client, "name", 0, &HF_LOCK_OPTIONS(.mode = HF_FAIR), &hold) == HF_OK)
        hf_unlock(hold);
    hf_inspect(client, NULL, visit, NULL);
    hf_close(client);
    return code != HF_OK || (hf_caps(client) & HF_CAP_MUTEX) != 0u;
}
