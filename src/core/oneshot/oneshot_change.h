/* SPDX-License-Identifier: Apache-2.0 */
/* A one-shot verb that changes or reads something at the store: its memory, and the wait of the
 * calling thread for it. */
#ifndef HF_CORE_ONESHOT_ONESHOT_CHANGE_H
#define HF_CORE_ONESHOT_ONESHOT_CHANGE_H

#include "core/api/args.h"
#include "core/oneshot/oneshot.h"

struct hf_change {
    struct hf_oneshot_call call;
    char name[HF_NAME_MAX + 1];
    char key[HF_OWNER_KEY_SIZE];
    char guard[]; /* of HF_GUARD_SIZE bytes, where it is asked for */
};

/* The client may be used, and its engine has `what`. `waits`: the call blocks. */
int hf__change_check(struct hf_client *client, unsigned cap, const char *what, bool waits);
int hf__change_check_named(struct hf_client *client, unsigned cap, const char *what,
                           const char *name, struct hf_store_name *full, bool waits);
/* `name` is the store's. NULL: out of memory. */
struct hf_change *hf__change_new(struct hf_client *client, enum hf_oneshot_verb verb,
                                 const char *name, uint32_t length, uint64_t hash);
void hf__change_discard(struct hf_oneshot_call *call);
/* What has come of a question that is the caller's again. Ends it. */
struct hf_answer hf__change_take(struct hf_change *whole, uint32_t *ret_result,
                                 int64_t *ret_delay_us, char *ret_key);
/* Runs the verb; copies out its result and its key; hf_last_error says why it failed. */
int hf__change_run(struct hf_change *whole, uint32_t *ret_result, int64_t *ret_delay_us,
                   char *ret_key);

#define HF_NOT_FORGOTTEN                                                                           \
    "it is in use, so it is not forgotten; hf_inspect or `holdfast show` shows its holders and "   \
    "waiters"

#endif
