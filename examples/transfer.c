/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer between two accounts: both are locked, or neither, and no two transfers wait for each
 * other, whichever way the money goes. */
#include <errno.h>
#include <holdfast.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCOUNTS 5
#define START 100
#define PROCESSES 4
#define TRANSFERS 16
#define LONGEST_WAIT_MS 30000

static char directory[] = "/tmp/transfer-XXXXXX";

static void path_of(char path[64], int account)
{
    snprintf(path, 64, "%s/%d", directory, account);
}

/* The accounts are files, which are read and written in separate steps. */
static long read_balance(int account)
{
    char path[64];
    long balance = -1;
    path_of(path, account);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    if (fscanf(file, "%ld", &balance) != 1)
        balance = -1;
    fclose(file);
    return balance;
}

static bool write_balance(int account, long balance)
{
    char path[64];
    path_of(path, account);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    bool written = fprintf(file, "%ld\n", balance) > 0;
    return fclose(file) == 0 && written;
}

/* HF_OK, or why it was not done. HF_BUSY here also stands for an account without enough money.
 *
 * A transfer from 1 to 2 and one from 2 to 1 name the locks in opposite orders. hf_lock_all takes
 * them in one order all the same. A process that dies between the two writes leaves half a
 * transfer: a real one is one transaction of a database, with both tokens. */
static int transfer(hf_client *client, int from, int to, long amount)
{
    char names[2][32];
    hf_hold_set *both;
    snprintf(names[0], sizeof(names[0]), "account/%d", from);
    snprintf(names[1], sizeof(names[1]), "account/%d", to);
    const hf_lock_item items[] = { { client, names[0], NULL }, { client, names[1], NULL } };
    int code = hf_lock_all(items, 2, LONGEST_WAIT_MS, NULL, &both);
    if (code != HF_OK)
        return code;
    long left = read_balance(from) - amount, grown = read_balance(to) + amount;
    if (left < 0)
        code = HF_BUSY;
    else if (!hf_all_held(both) || !write_balance(from, left) || !write_balance(to, grown))
        code = HF_LOST;
    int released = hf_unlock_all(both);
    return code == HF_OK ? released : code;
}

/* One process moves money around; its exit status is the number of refused transfers. */
static int move_money(unsigned seed)
{
    hf_client *client;
    int refused = 0;
    alarm(2 * LONGEST_WAIT_MS / 1000);
    if (hf_open(&client, NULL, NULL) != HF_OK)
        return 255;
    for (int i = 0; i < TRANSFERS; i++) {
        int from = rand_r(&seed) % ACCOUNTS;
        int to = (from + 1 + rand_r(&seed) % (ACCOUNTS - 1)) % ACCOUNTS;
        int code = transfer(client, from, to, 1 + rand_r(&seed) % 50);
        if (code != HF_OK && code != HF_BUSY) {
            fprintf(stderr, "transfer: %s\n", hf_last_error()->text);
            return 255;
        }
        refused += code == HF_BUSY;
    }
    hf_close(client);
    return refused;
}

/* The refused transfers of all processes, or -1. */
static int move_money_at_once(void)
{
    int refused = 0, status;
    for (unsigned i = 0; i < PROCESSES; i++)
        if (fork() == 0)
            _exit(move_money(i + 1));
    while (wait(&status) > 0) {
        bool failed = !WIFEXITED(status) || WEXITSTATUS(status) == 255;
        refused = failed || refused < 0 ? -1 : refused + WEXITSTATUS(status);
    }
    return refused;
}

static bool can_use_store(void)
{
    hf_client *client;
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "transfer: %s\n", hf_last_error()->text);
        return false;
    }
    hf_close(client);
    return true;
}

int main(void)
{
    long sum = 0;
    char path[64];
    if (!can_use_store())
        return 1;
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "transfer: cannot make %s: %s\n", directory, strerror(errno));
        return 1;
    }
    for (int i = 0; i < ACCOUNTS; i++)
        write_balance(i, START);
    int refused = move_money_at_once();
    for (int i = 0; i < ACCOUNTS; i++) {
        sum += read_balance(i);
        path_of(path, i);
        unlink(path);
    }
    rmdir(directory);
    if (refused < 0)
        return 1;
    printf("%d transfers by %d processes, %d refused\n", PROCESSES * TRANSFERS, PROCESSES, refused);
    printf("the accounts have %ld in all, %s\n", sum,
           sum == ACCOUNTS * START ? "as at the start" : "which is NOT what they had");
    return sum != ACCOUNTS * START;
}
