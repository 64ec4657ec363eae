/* SPDX-License-Identifier: Apache-2.0 */
/* Owner numbers and texts. */
#include "core/api/owner.h"
#include "base/thread_local.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_OWNERS (UINT64_C(1) << 63)

uint64_t hf__owner_thread(void)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t mine HF_THREAD_LOCAL_NEAR;
    if (!mine)
        mine = HF_OWNER_THREADS | (atomic_fetch_add(&threads, 1) + 1);
    return mine;
}

uint64_t hf__owner_request(struct hf_client *client)
{
    return REQUEST_OWNERS | (atomic_fetch_add(&client->request_owners, 1) + 1);
}

void hf__owner_describe(struct hf_client *client, const char *text)
{
    if (gethostname(client->host_name, sizeof client->host_name - 1) != 0)
        snprintf(client->host_name, sizeof client->host_name, "localhost");
    if (text) {
        snprintf(client->owner_text, sizeof client->owner_text, "%s", text);
        return;
    }
    struct passwd entry, *found = NULL;
    char buffer[1024], user[40];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(user, sizeof user, "%.32s", found->pw_name);
    else
        snprintf(user, sizeof user, "uid-%u", (unsigned)geteuid());
    snprintf(client->owner_text, sizeof client->owner_text, "%s@%.48s:%ld %.40s", user,
             client->host_name, (long)getpid(), program_invocation_short_name);
}
