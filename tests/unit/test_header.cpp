/* The public header in C++: it compiles, and links as C. */
#include <holdfast.h>

static bool visit(void *arg, const hf_entry *entry)
{
    (void)arg;
    return entry->role == HF_ROLE_HOLDER;
}

int main()
{
    hf_lock_options options = hf_lock_options();
    hf_client *client = nullptr;
    hf_hold *hold = nullptr;

    options.size = sizeof(options);
    options.mode = HF_WRITE;
    if (hf_open(&client, nullptr, nullptr) != HF_OK)
        return hf_last_error()->code;
    if (hf_lock(client, "name", HF_FOREVER, &options, &hold) == HF_OK)
        hf_unlock(hold);
    hf_inspect(client, nullptr, visit, nullptr);
    hf_close(client);
    return 0;
}
