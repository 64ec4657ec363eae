/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a lock, works, gives it back. */
#include <holdfast.h>
#include <stdio.h>

int main(void)
{
    hf_client *client;
    hf_hold *hold;
    if (hf_open(&client, "local:", NULL) != HF_OK ||
        hf_lock(client, "orders/42", 1000, NULL, &hold) != HF_OK) {
        fprintf(stderr, "hello: %s\n", hf_last_error()->text);
        return 1;
    }
    printf("orders/42 is mine, fencing token %llu\n", (unsigned long long)hf_token(hold));
    hf_unlock(hold);
    hf_close(client);
    return 0;
}
