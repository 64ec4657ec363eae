/* SPDX-License-Identifier: Apache-2.0 */
/* An idempotent submit: the client sends the same order again and again, and is charged once. */
#include <errno.h>
#include <holdfast.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* An impatient client: four submits at once, each handled by a process of its own, and one later.
 */
#define AT_ONCE 4

#define LONGEST_WAIT_MS 30000
#define RECEIPT_SIZE 64

static char directory[] = "/tmp/idempotent-submit-XXXXXX";

static void path_of(char path[128], const char *what, const char *request)
{
    snprintf(path, 128, "%s/%s-%s", directory, what, request);
}

/* The outside world: a payment that takes its time, and that nobody can take back. */
static bool charge_card(const char *request)
{
    struct timespec a_while = { .tv_nsec = 200000000 };
    char path[128];
    path_of(path, "charges", request);
    FILE *charges = fopen(path, "a");
    if (charges == NULL)
        return false;
    fprintf(charges, "charged by %d\n", (int)getpid());
    clock_nanosleep(CLOCK_MONOTONIC, 0, &a_while, NULL);
    return fclose(charges) == 0;
}

/* The receipt of an earlier submit of this request, if there was one. */
static bool find_receipt(const char *request, char receipt[RECEIPT_SIZE])
{
    char path[128];
    path_of(path, "receipt", request);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool found = fgets(receipt, RECEIPT_SIZE, file) != NULL;
    fclose(file);
    return found;
}

static bool keep_receipt(const char *request, const char *receipt)
{
    char path[128];
    path_of(path, "receipt", request);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    bool written = fputs(receipt, file) >= 0;
    return fclose(file) == 0 && written;
}

/* The lock makes "look, charge, remember" one step for everybody who uses the request's name: the
 * second submit waits for the first, and answers with its receipt. If the first dies between charge
 * and receipt, or is paused past its lease before the charge, the card is charged twice unless the
 * charge itself is idempotent: send `request` to the payment service as the idempotency key. */
static bool submit(hf_client *client, const char *request, char receipt[RECEIPT_SIZE])
{
    char name[64];
    hf_hold *hold;
    snprintf(name, sizeof(name), "submit/%s", request);
    if (hf_lock(client, name, LONGEST_WAIT_MS, NULL, &hold) != HF_OK) {
        fprintf(stderr, "idempotent_submit: %s\n", hf_last_error()->text);
        return false;
    }
    bool done = find_receipt(request, receipt);
    if (!done && charge_card(request)) {
        /* The token is unique and rises: it makes a fine receipt number. */
        snprintf(receipt, RECEIPT_SIZE, "receipt %llu", (unsigned long long)hf_token(hold));
        done = keep_receipt(request, receipt);
    }
    hf_unlock(hold);
    return done;
}

/* One request handler: a process, its client, one submit, the answer down the pipe. */
static int handle(const char *request, int answers)
{
    hf_client *client;
    char receipt[RECEIPT_SIZE] = "";
    alarm(2 * LONGEST_WAIT_MS / 1000);
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "idempotent_submit: %s\n", hf_last_error()->text);
        return 1;
    }
    bool done = submit(client, request, receipt);
    hf_close(client);
    return done && write(answers, receipt, sizeof(receipt)) == sizeof(receipt) ? 0 : 1;
}

/* Submits `times` times at once. All answers have to be `receipt`; if that is empty, the first
 * answer becomes it. Returns how many answers were so. */
static int submit_at_once(const char *request, int times, char receipt[RECEIPT_SIZE])
{
    int answers[2], same = 0;
    char answer[RECEIPT_SIZE];
    if (pipe(answers) != 0)
        return -1;
    for (int i = 0; i < times; i++) {
        if (fork() == 0) {
            close(answers[0]);
            _exit(handle(request, answers[1]));
        }
    }
    close(answers[1]);
    while (read(answers[0], answer, sizeof(answer)) == sizeof(answer)) {
        printf("%s: %s\n", request, answer);
        if (receipt[0] == '\0')
            memcpy(receipt, answer, sizeof(answer));
        same += strcmp(receipt, answer) == 0;
    }
    close(answers[0]);
    while (wait(NULL) > 0)
        ;
    return same;
}

static int count_charges(const char *request)
{
    char path[128], line[RECEIPT_SIZE];
    int charges = 0;
    path_of(path, "charges", request);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        charges++;
    if (file != NULL)
        fclose(file);
    return charges;
}

static void clean_up(const char *request)
{
    char path[128];
    path_of(path, "charges", request);
    unlink(path);
    path_of(path, "receipt", request);
    unlink(path);
}

/* Said once here, rather than by each process. */
static bool can_use_store(void)
{
    hf_client *client;
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "idempotent_submit: %s\n", hf_last_error()->text);
        return false;
    }
    hf_close(client);
    return true;
}

int main(void)
{
    const char *const requests[] = { "order-7731", "order-7732" };
    int failed = 0;
    if (!can_use_store())
        return 1;
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "idempotent_submit: cannot make %s: %s\n", directory, strerror(errno));
        return 1;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 2; i++) {
        char receipt[RECEIPT_SIZE] = "";
        int same = submit_at_once(requests[i], AT_ONCE, receipt);
        same += submit_at_once(requests[i], 1, receipt);
        int charges = count_charges(requests[i]);
        printf("%s: submitted %d times, charged %d time%s\n", requests[i], AT_ONCE + 1, charges,
               charges == 1 ? "" : "s");
        failed |= same != AT_ONCE + 1 || charges != 1;
        clean_up(requests[i]);
    }
    rmdir(directory);
    if (failed)
        fprintf(stderr, "idempotent_submit: each had to be charged once, with one receipt\n");
    return failed;
}
