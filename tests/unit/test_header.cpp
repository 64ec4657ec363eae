/* SPDX-License-Identifier: Apache-2.0 */
/* The public header in C++: it compiles, and links as C. */
#include <holdfast.h>

static bool visit(void *arg, const hf_entry *entry)
{
    (void)arg;
    return entry->role == HF_ROLE_HOLDER;
}

int main()
{
    const hf_client_options client_options = HF_CLIENT_OPTIONS_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_client *client = nullptr;
    hf_hold *hold = nullptr;

    options.mode = HF_WRITE;
    if (hf_open(&client, nullptr, &client_options) != HF_OK)
        return hf_last_error()->code;
    if (hf_lock(client, "name", HF_FOREVER, &options, &hold) == HF_OK)
        hf_unlock(hold);
    hf_inspect(client, nullptr, visit, nullptr);
    hf_close(client);
    return 0;
}
