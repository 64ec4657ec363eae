/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a history: nothing of the file is trusted, and what is wrong with it is counted. */
#include "torture/history/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void torture_history_free(struct torture_history *history)
{
    free(history->records);
    memset(history, 0, sizeof *history);
}

static int complain(char error[256], const char *path, const char *what)
{
    snprintf(error, 256, "%.160s: %s", path, what);
    return -1;
}

/* ---- what the records say together ---- */

static int by_number(const void *a, const void *b)
{
    const struct torture_record *left = a, *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static void sort_records(struct torture_history *history)
{
    for (size_t i = 1; i < history->count; i++)
        if (history->records[i - 1].number > history->records[i].number) {
            qsort(history->records, history->count, sizeof *history->records, by_number);
            return;
        }
}

/* Of several records with one number the first stays; which of them is true is not known. */
static void drop_duplicates(struct torture_history *history)
{
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++) {
        if (kept && history->records[kept - 1].number == history->records[i].number) {
            history->duplicate++;
            continue;
        }
        if (kept != i)
            history->records[kept] = history->records[i];
        kept++;
    }
    history->count = kept;
}

/* ---- numbers that died with their client ---- */

/* A file that claims more threads of a client than this is not believed. */
#define TORTURE_PENS_MAX 64u

/* Missing numbers, rising, and for each the next one that no crash has taken yet. */
struct gaps {
    uint64_t *numbers;
    size_t *next;
    size_t count;
};

static size_t untaken(struct gaps *gaps, size_t i)
{
    while (gaps->next[i] != i)
        i = gaps->next[i] = gaps->next[gaps->next[i]];
    return i;
}

static size_t first_after(const struct gaps *gaps, uint64_t number)
{
    size_t low = 0, high = gaps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gaps->numbers[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void find_gaps(const struct torture_history *history, uint64_t drawn, struct gaps *gaps)
{
    uint64_t expected = 1;
    size_t found = 0;
    for (size_t i = 0; i <= history->count && found < gaps->count; i++) {
        uint64_t number = i < history->count ? history->records[i].number : drawn + 1;
        for (; expected < number && found < gaps->count; expected++)
            gaps->numbers[found++] = expected;
        expected = number + 1;
    }
    gaps->count = found;
    for (size_t i = 0; i <= found; i++)
        gaps->next[i] = i;
}

/* When a client began, and how many records it can have been writing at once. */
struct beginning {
    uint64_t number;
    uint32_t pens;
};

static uint32_t pens_of(const struct torture_record *client)
{
    if (client->permits > TORTURE_PENS_MAX)
        return TORTURE_PENS_MAX;
    return client->permits ? client->permits : 1;
}

static uint64_t take_gaps(struct gaps *gaps, const struct beginning *beginning, uint64_t crash)
{
    uint64_t taken = 0;
    while (taken < beginning->pens) { /* mutant: crash-explains-one-number */
        size_t gap = untaken(gaps, first_after(gaps, beginning->number));
        if (gap >= gaps->count || gaps->numbers[gap] >= crash)
            break;
        gaps->next[gap] = gap + 1;
        taken++;
    }
    return taken;
}

/* Each thread of a client that was killed has been writing one record at most, between the client's
 * beginning and the number of its crash. Taking the earliest numbers that are left gives as many
 * crashes as possible theirs, since crashes come in the order in which their time is up. */
static uint64_t explain_gaps(const struct torture_history *history, struct gaps *gaps,
                             struct beginning *begun)
{
    uint64_t explained = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];
        if (record->client >= TORTURE_CLIENTS)
            continue;
        struct beginning *beginning = &begun[record->client];
        if (record->kind == TORTURE_CLIENT)
            *beginning = (struct beginning){ record->number, pens_of(record) };
        if (record->kind != TORTURE_CRASH)
            continue;
        if (beginning->pens == 0)
            beginning->pens = 1;
        explained += take_gaps(gaps, beginning, record->number);
        beginning->number = record->number;
    }
    return explained;
}

/* No more numbers than this can have died with their clients. */
static uint64_t count_pens_of_the_dead(const struct torture_history *history)
{
    uint64_t crashes = 0;
    uint32_t most = 1;
    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];
        crashes += record->kind == TORTURE_CRASH;
        if (record->kind == TORTURE_CLIENT && pens_of(record) > most)
            most = pens_of(record);
    }
    return crashes * most;
}

/* Sorts what was read, drops what has no number of its own, and counts what is wrong. `drawn`: how
 * many numbers were given away and had room. */
static int settle(struct torture_history *history, uint64_t drawn, char error[256])
{
    sort_records(history);
    drop_duplicates(history);
    if (history->count && history->records[history->count - 1].number > drawn)
        drawn = history->records[history->count - 1].number;
    uint64_t missing = drawn - history->count, pens = count_pens_of_the_dead(history);
    history->missing = missing > history->torn ? missing - history->torn : 0;
    if (history->missing == 0 || history->missing > pens || history->torn)
        return 0;

    struct gaps gaps = { calloc(pens, sizeof *gaps.numbers), calloc(pens + 1, sizeof *gaps.next),
                         pens };
    struct beginning *begun = calloc(TORTURE_CLIENTS, sizeof *begun);
    if (gaps.numbers && gaps.next && begun) {
        find_gaps(history, drawn, &gaps);
        history->last_words = explain_gaps(history, &gaps, begun);
        history->missing -= history->last_words;
    }
    bool fine = gaps.numbers && gaps.next && begun;
    free(gaps.numbers);
    free(gaps.next);
    free(begun);
    return fine ? 0 : complain(error, "the history", "there is not enough memory");
}

/* ---- the binary form ---- */

/* What the file has of the records, in their places. A place without a number is a missing one. */
static void sift(struct torture_history *history, size_t places)
{
    size_t kept = 0;
    for (size_t i = 0; i < places; i++) {
        struct torture_record *record = &history->records[i];
        if (record->number == 0)
            continue;
        if (record->check != torture_record_check(record) || !torture_record_fits(record)) {
            history->torn++;
            continue;
        }
        if (kept != i)
            history->records[kept] = *record;
        kept++;
    }
    history->count = kept;
}

static const char *wrong_head(const struct torture_head *head)
{
    if (head->byte_order != TORTURE_BYTE_ORDER)
        return "it was written on a machine with another byte order; convert it there to JSON";
    if (head->version != TORTURE_VERSION || head->record_size != sizeof(struct torture_record))
        return "it has another version of the format than this program";
    return head->room == 0 ? "its head says that it has room for no record" : NULL;
}

static int read_binary(struct torture_history *history, FILE *file, uint64_t size, const char *path,
                       char error[256])
{
    struct torture_head head;
    if (size < sizeof head || fread(&head, sizeof head, 1, file) != 1)
        return complain(error, path, "the file ends within its head");
    const char *wrong = wrong_head(&head);
    if (wrong)
        return complain(error, path, wrong);

    uint64_t drawn = atomic_load(&head.drawn);
    history->run = head.run;
    if (drawn > head.room) {
        history->dropped = drawn - head.room;
        drawn = head.room;
    }
    uint64_t places = (size - sizeof head) / sizeof(struct torture_record);
    if (places > drawn)
        places = drawn;
    if (places == 0)
        return settle(history, drawn, error);
    history->records = malloc(places * sizeof *history->records);
    if (!history->records)
        return complain(error, path, "there is not enough memory for its records");
    if (fread(history->records, sizeof *history->records, places, file) != places)
        return complain(error, path, "it could not be read to its end");
    sift(history, places);
    return settle(history, drawn, error);
}

/* ---- either ---- */

static int read_open(struct torture_history *history, FILE *file, const char *path, char error[256])
{
    struct stat status;
    char magic[sizeof TORTURE_MAGIC] = "";
    if (fstat(fileno(file), &status) < 0)
        return complain(error, path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return complain(error, path, "it is no file");
    if (status.st_size == 0)
        return complain(error, path, "it is empty");
    size_t got = fread(magic, 1, sizeof magic - 1, file);
    rewind(file);
    if (got == sizeof magic - 1 && strcmp(magic, TORTURE_MAGIC) == 0)
        return read_binary(history, file, (uint64_t)status.st_size, path, error);
    if (magic[0] != '{')
        return complain(error, path, "it is no history: neither the binary form nor JSON lines");
    char where[256];
    uint64_t drawn;
    if (torture_history_read_json(history, file, (uint64_t)status.st_size, &drawn, where) == 0 &&
        settle(history, drawn, where) == 0)
        return 0;
    snprintf(error, 256, "%.80s, %.160s", path, where);
    return -1;
}

int torture_history_read(struct torture_history *history, const char *path, char error[256])
{
    memset(history, 0, sizeof *history);
    /* A pipe without a writer would be waited for. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    if (!file)
        return complain(error, path, strerror(errno));
    int result = read_open(history, file, path, error);
    fclose(file);
    if (result != 0)
        torture_history_free(history);
    return result;
}
