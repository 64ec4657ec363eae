/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier: no process begins round r + 1 before all have ended round r. A latch a round does it.
 * All parties set it to their number, and all but the first hear HF_BUSY, which is fine: the count
 * cannot be at zero before a party's own hf_latch_down. */
#include <holdfast.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTIES 4
#define ROUNDS 5
/* A party that died before its countdown lets the others time out. */
#define LONGEST_WAIT_MS 30000

static int meet(hf_client *client, int round)
{
    char name[32];
    snprintf(name, sizeof(name), "barrier/%d", round);
    int code = hf_latch_set(client, name, PARTIES);
    if (code == HF_OK || code == HF_BUSY)
        code = hf_latch_down(client, name, 1, NULL);
    return code == HF_OK ? hf_latch_wait(client, name, LONGEST_WAIT_MS) : code;
}

/* Counts its arrivals in `arrived`, and looks at all of them when it goes on. */
static int take_part(_Atomic int *arrived)
{
    hf_client *client;
    int early = 0, code = hf_open(&client, NULL, NULL);
    for (int round = 1; code == HF_OK && round <= ROUNDS; round++) {
        ++*arrived;
        code = meet(client, round);
        early += code == HF_OK && *arrived < round * PARTIES;
    }
    if (code != HF_OK)
        fprintf(stderr, "barrier: %s\n", hf_last_error()->text);
    hf_close(client);
    return code == HF_OK && early == 0 ? 0 : 1;
}

/* Said once here, rather than by each process. */
static int check_store(void)
{
    hf_client *client;
    int code = hf_open(&client, NULL, NULL);
    if (code != HF_OK)
        fprintf(stderr, "barrier: %s\n", hf_last_error()->text);
    hf_close(client);
    return code;
}

int main(void)
{
    _Atomic int *arrived =
        mmap(NULL, sizeof(*arrived), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, failed = 0;
    if (arrived == MAP_FAILED || check_store() != HF_OK)
        return 1;
    for (int i = 0; i < PARTIES; i++)
        if (fork() == 0)
            _exit(take_part(arrived));
    while (wait(&status) > 0)
        failed += status != 0;
    printf("%d parties met %d times, %d of them early or in vain\n", PARTIES, ROUNDS, failed);
    return failed ? 1 : 0;
}
