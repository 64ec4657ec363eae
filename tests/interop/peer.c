/* SPDX-License-Identifier: Apache-2.0 */
/* The side of holdfast in tests of sharing: a line an order, each done by the thread that it names.
 *
 *     THREAD VERB ARGUMENT...        is answered by        THREAD ANSWER
 *
 * Other libraries' programs understand the same orders, so most scenes can be played with the sides
 * exchanged. Usage: peer URL LEASE_MS */
#include <dirent.h>
#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS 32
#define HOLDS 8
#define WORDS 6
#define LINE_SIZE 600
#define SEVERAL 8

struct worker {
    char name[40];
    int orders; /* where main writes them */
    FILE *lines;
    struct {
        char name[200];
        hf_hold *hold;
        hf_hold_set *set; /* of several locks, in place of the hold */
    } held[HOLDS];
    int held_count;
};

static hf_client *client;
static struct worker workers[WORKERS];
static int worker_count;

static void answer(const char *thread, const char *text)
{
    printf("%s %s\n", thread, text);
    fflush(stdout);
}

static void answer_code(const struct worker *worker, int code)
{
    char text[LINE_SIZE];

    if (code == HF_OK || code == HF_BUSY || code == HF_LOST) {
        answer(worker->name, code == HF_OK ? "ok" : code == HF_BUSY ? "busy" : "lost");
        return;
    }
    snprintf(text, sizeof(text), "failed: %s: %s", hf_code_name(code), hf_last_error()->text);
    answer(worker->name, text);
}

static int64_t number_of(const char *word)
{
    return strtoll(word, NULL, 10);
}

static hf_mode mode_of(const char *kind)
{
    static const struct {
        const char *kind;
        hf_mode mode;
    } modes[] = {
        { "mutex", HF_MUTEX }, { "fair", HF_FAIR },     { "read", HF_READ },
        { "write", HF_WRITE }, { "permit", HF_PERMIT }, { "fenced", HF_MUTEX },
        { "multi", HF_MUTEX }, { "leader", HF_LEADER }, { "upgrade", HF_UPGRADE },
    };

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i].kind, kind) == 0)
            return modes[i].mode;
    fprintf(stderr, "peer: no such kind: %s\n", kind);
    exit(64);
}

/* "one,two,three", all or nothing. */
static int take_several(const char *names, int64_t wait_ms, const hf_lock_options *options,
                        hf_hold_set **set)
{
    char copy[LINE_SIZE], *rest = copy;
    hf_lock_item items[SEVERAL];
    size_t count = 0;

    snprintf(copy, sizeof(copy), "%s", names);
    while (rest && count < SEVERAL)
        items[count++] = (hf_lock_item){ .client = client, .name = strsep(&rest, ",") };
    return hf_lock_all(items, count, wait_ms, options, set);
}

static int take(struct worker *worker, const char *name, bool several, int64_t wait_ms,
                const hf_lock_options *options)
{
    hf_hold *hold = NULL;
    hf_hold_set *set = NULL;
    int code = HF_ELIMIT;

    if (worker->held_count < HOLDS)
        code = several ? take_several(name, wait_ms, options, &set)
                       : hf_lock(client, name, wait_ms, options, &hold);
    if (code == HF_OK) {
        snprintf(worker->held[worker->held_count].name, sizeof(worker->held[0].name), "%s", name);
        worker->held[worker->held_count].set = set;
        worker->held[worker->held_count++].hold = hold;
    }
    return code;
}

static void lock(struct worker *worker, char **word)
{
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode_of(word[1]), .lease_ms = number_of(word[4]),
                        .owner_text = strcmp(word[1], "leader") == 0 ? "holdfast:80" : NULL);

    bool several = strcmp(word[1], "multi") == 0;

    answer_code(worker, take(worker, word[2], several, number_of(word[3]), &options));
}

/* Waits for ever, and answers the token. */
static void fence(struct worker *worker, char **word)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = number_of(word[2]));
    char text[24];
    int code = take(worker, word[1], false, HF_FOREVER, &options);

    if (code != HF_OK) {
        answer_code(worker, code);
        return;
    }
    snprintf(text, sizeof(text), "%" PRIu64, hf_token(worker->held[worker->held_count - 1].hold));
    answer(worker->name, text);
}

/* The last one of that name. */
static void unlock(struct worker *worker, const char *name)
{
    for (int i = worker->held_count - 1; i >= 0; i--) {
        if (strcmp(worker->held[i].name, name) != 0)
            continue;
        int code = worker->held[i].set ? hf_unlock_all(worker->held[i].set)
                                       : hf_unlock(worker->held[i].hold);
        memmove(&worker->held[i], &worker->held[i + 1],
                sizeof(worker->held[0]) * (size_t)(--worker->held_count - i));
        answer_code(worker, code);
        return;
    }
    answer(worker->name, "failed: nothing to unlock");
}

/* The last one of that name goes on for longer, as a reader's, or as a writer's. */
static void alter(const struct worker *worker, char **word)
{
    for (int i = worker->held_count - 1; i >= 0; i--)
        if (strcmp(worker->held[i].name, word[1]) == 0) {
            hf_hold *hold = worker->held[i].hold;
            int64_t number = number_of(word[2]);
            answer_code(worker, strcmp(word[0], "renew") == 0     ? hf_renew(hold, number)
                                : strcmp(word[0], "upgrade") == 0 ? hf_upgrade(hold, number)
                                                                  : hf_downgrade(hold, HF_READ));
            return;
        }
    answer(worker->name, "failed: it holds no such lock");
}

static void say_holds(const struct worker *worker, const char *name)
{
    char text[20];
    int count = 0;

    for (int i = 0; i < worker->held_count; i++)
        count += strcmp(worker->held[i].name, name) == 0 && hf_held(worker->held[i].hold);
    snprintf(text, sizeof(text), "%d", count);
    answer(worker->name, text);
}

struct owner {
    char key[200];
};

static bool note_owner(void *arg, const hf_entry *entry)
{
    struct owner *owner = arg;

    if (entry->role != HF_ROLE_HOLDER)
        return true;
    snprintf(owner->key, sizeof(owner->key), "%s", entry->owner_key);
    return false;
}

/* Takes it away from its holder, or from all of them. */
static void force(const struct worker *worker, const char *name, bool all)
{
    struct owner owner = { "" };
    uint32_t broken = 0;
    int code = hf_inspect(client, name, note_owner, &owner);

    if (code == HF_OK)
        code = hf_break(client, name, all ? NULL : owner.key, &broken);
    answer_code(worker, code == HF_OK && broken != 1 ? HF_LOST : code);
}

static void say_leader(const struct worker *worker, const char *name)
{
    hf_leader leader = { .size = sizeof(leader) };
    int code = hf_election_leader(client, name, &leader);

    if (code == HF_OK)
        answer(worker->name, leader.leads ? leader.text : "none");
    else
        answer_code(worker, code);
}

static bool is_holder(void *arg, const hf_entry *entry)
{
    *(bool *)arg |= entry->role == HF_ROLE_HOLDER;
    return true;
}

/* What a watch has been told: the leaders' texts, with commas between them. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t told;
    int64_t count;
    char texts[LINE_SIZE];
} watched = { .mutex = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER };

static void note_leader(void *arg, const hf_leader *leader)
{
    (void)arg;
    pthread_mutex_lock(&watched.mutex);
    size_t length = strlen(watched.texts);
    snprintf(watched.texts + length, sizeof(watched.texts) - length, "%s%s",
             watched.count++ ? "," : "", leader->leads ? leader->text : "none");
    pthread_cond_broadcast(&watched.told);
    pthread_mutex_unlock(&watched.mutex);
}

/* One election a process. The watch ends with the process. */
static void watch(const struct worker *worker, const char *name)
{
    static hf_watch *watch;

    answer_code(worker, hf_election_watch(client, name, 10, note_leader, NULL, &watch));
}

static void say_seen(const struct worker *worker, int64_t count)
{
    pthread_mutex_lock(&watched.mutex);
    while (watched.count < count)
        pthread_cond_wait(&watched.told, &watched.mutex);
    answer(worker->name, watched.texts);
    pthread_mutex_unlock(&watched.mutex);
}

static void say_locked(const struct worker *worker, const char *name)
{
    bool locked = false;
    int code = hf_inspect(client, name, is_holder, &locked);

    if (code == HF_OK)
        answer(worker->name, locked ? "yes" : "no");
    else
        answer_code(worker, code);
}

/* Nothing but the lock protects the number in the file. */
static bool add_one(const char *path)
{
    long number = 0;
    FILE *file = fopen(path, "r");

    if (!file || fscanf(file, "%ld", &number) != 1)
        return false;
    fclose(file);
    sched_yield();
    file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file, "%ld", number + 1);
    return fclose(file) == 0;
}

/* A lock of that kind, or several; or a unit of a counter, which has no hold: NULL. */
static int enter(const char *kind, const char *name, hf_hold **hold, hf_hold_set **set)
{
    *hold = NULL;
    *set = NULL;
    if (strcmp(kind, "multi") == 0)
        return take_several(name, HF_FOREVER, NULL, set);
    if (strcmp(kind, "unit") == 0)
        return hf_counter_take(client, name, 1, HF_FOREVER);
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode_of(kind));
    return hf_lock(client, name, HF_FOREVER, &options, hold);
}

static int leave(const char *name, hf_hold *hold, hf_hold_set *set)
{
    if (set)
        return hf_unlock_all(set);
    return hold ? hf_unlock(hold) : hf_counter_add(client, name, 1);
}

static void count(const struct worker *worker, char **word)
{
    for (int64_t i = 0; i < number_of(word[4]); i++) {
        hf_hold *hold;
        hf_hold_set *set;
        int code = enter(word[1], word[2], &hold, &set);
        if (code == HF_OK && !add_one(word[3])) {
            answer(worker->name, "failed: the file cannot be counted in");
            return;
        }
        if (code == HF_OK)
            code = leave(word[2], hold, set);
        if (code != HF_OK) {
            answer_code(worker, code);
            return;
        }
    }
    answer_code(worker, HF_OK);
}

static int entries_in(const char *directory)
{
    int count = 0;
    DIR *open = opendir(directory);

    if (!open)
        return -1;
    for (const struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

/* Leaves a file where everybody inside has one, and looks how many there are. */
static bool visit(const struct worker *worker, const char *directory, int64_t most)
{
    char path[LINE_SIZE + 60];

    snprintf(path, sizeof(path), "%s/holdfast-%s", directory, worker->name);
    FILE *file = fopen(path, "w");
    if (!file || fclose(file) != 0)
        return false;
    int count = entries_in(directory);
    sched_yield();
    return unlink(path) == 0 && count > 0 && count <= most;
}

static void park(const struct worker *worker, char **word)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_PERMIT);

    for (int64_t i = 0; i < number_of(word[3]); i++) {
        hf_hold *hold;
        int code = hf_lock(client, word[1], HF_FOREVER, &options, &hold);
        if (code == HF_OK && !visit(worker, word[2], number_of(word[4]))) {
            answer(worker->name, "failed: too many are inside");
            return;
        }
        if (code == HF_OK)
            code = hf_unlock(hold);
        if (code != HF_OK) {
            answer_code(worker, code);
            return;
        }
    }
    answer_code(worker, HF_OK);
}

static void say_units(const struct worker *worker, const char *name)
{
    char text[20];
    uint32_t units;
    int code = hf_counter_get(client, name, &units);

    snprintf(text, sizeof(text), "%u", units);
    if (code == HF_OK)
        answer(worker->name, text);
    else
        answer_code(worker, code);
}

/* One at a time. */
static void count_down(const struct worker *worker, const char *name, uint32_t times)
{
    int code = HF_OK;

    for (uint32_t i = 0; i < times && code == HF_OK; i++)
        code = hf_latch_down(client, name, 1, NULL);
    answer_code(worker, code);
}

/* What has no owner. False: no such order. */
static bool change(const struct worker *worker, int words, char **word)
{
    uint32_t number = words > 2 ? (uint32_t)number_of(word[2]) : 0;

    if (words == 3 && strcmp(word[0], "permits") == 0)
        answer_code(worker, hf_semaphore_set(client, word[1], number));
    else if (words == 3 && strcmp(word[0], "give") == 0)
        answer_code(worker, hf_counter_add(client, word[1], number));
    else if (words == 4 && strcmp(word[0], "take") == 0)
        answer_code(worker, hf_counter_take(client, word[1], number, number_of(word[3])));
    else if (words == 2 && strcmp(word[0], "units") == 0)
        say_units(worker, word[1]);
    else if (words == 3 && strcmp(word[0], "latch") == 0)
        answer_code(worker, hf_latch_set(client, word[1], number));
    else if ((words == 2 || words == 3) && strcmp(word[0], "down") == 0)
        count_down(worker, word[1], words == 3 ? number : 1);
    else if (words == 3 && strcmp(word[0], "await") == 0)
        answer_code(worker, hf_latch_wait(client, word[1], number_of(word[2])));
    else
        return false;
    return true;
}

static void say_guard(struct worker *worker, const char *name)
{
    char guard[HF_GUARD_SIZE];

    for (int i = 0; i < worker->held_count; i++)
        if (strcmp(worker->held[i].name, name) == 0) {
            int code = hf_guard(worker->held[i].hold, guard);
            if (code == HF_OK)
                answer(worker->name, guard);
            else
                answer_code(worker, code);
            return;
        }
    answer(worker->name, "failed: it holds no such lock");
}

static void obey(struct worker *worker, char *line)
{
    char *word[WORDS] = { NULL }, *rest = line;
    int words = 0;

    while (words < WORDS && (word[words] = strsep(&rest, " \n")) && *word[words])
        words++;
    if (words == 5 && strcmp(word[0], "lock") == 0)
        lock(worker, word);
    else if (words == 3 && strcmp(word[0], "fence") == 0)
        fence(worker, word);
    else if (words == 3 && strcmp(word[0], "unlock") == 0)
        unlock(worker, word[2]);
    else if (words == 3 && (strcmp(word[0], "downgrade") == 0 || strcmp(word[0], "upgrade") == 0 ||
                            strcmp(word[0], "renew") == 0))
        alter(worker, word);
    else if (words == 2 && strcmp(word[0], "guard") == 0)
        say_guard(worker, word[1]);
    else if (words == 3 && strcmp(word[0], "force") == 0)
        force(worker, word[2], strcmp(word[1], "all") == 0);
    else if (words == 3 && strcmp(word[0], "holds") == 0)
        say_holds(worker, word[2]);
    else if (words == 2 && strcmp(word[0], "leads") == 0)
        say_leader(worker, word[1]);
    else if (words == 2 && strcmp(word[0], "watch") == 0)
        watch(worker, word[1]);
    else if (words == 3 && strcmp(word[0], "seen") == 0)
        say_seen(worker, number_of(word[2]));
    else if (words == 3 && strcmp(word[0], "locked") == 0)
        say_locked(worker, word[2]);
    else if (words == 5 && strcmp(word[0], "count") == 0)
        count(worker, word);
    else if (words == 5 && strcmp(word[0], "park") == 0)
        park(worker, word);
    else if (!change(worker, words, word))
        answer(worker->name, "failed: no such order");
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    char line[LINE_SIZE];

    while (fgets(line, sizeof(line), worker->lines))
        obey(worker, line);
    return NULL;
}

static struct worker *worker_named(const char *name)
{
    int ends[2];
    pthread_t thread;

    for (int i = 0; i < worker_count; i++)
        if (strcmp(workers[i].name, name) == 0)
            return &workers[i];
    struct worker *worker = &workers[worker_count];
    if (worker_count == WORKERS || pipe(ends) != 0 || !(worker->lines = fdopen(ends[0], "r")))
        return NULL;
    snprintf(worker->name, sizeof(worker->name), "%s", name);
    worker->orders = ends[1];
    worker_count++;
    return pthread_create(&thread, NULL, work, worker) == 0 ? worker : NULL;
}

int main(int argc, char **argv)
{
    char line[LINE_SIZE];

    if (argc != 3)
        return 64;
    hf_client_options options = HF_CLIENT_OPTIONS(.lease_ms = number_of(argv[2]));
    if (hf_open(&client, argv[1], &options) != HF_OK) {
        fprintf(stderr, "peer: %s\n", hf_last_error()->text);
        return 69;
    }
    answer("main", "ready");
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "main close\n") == 0) { /* a sanitizer looks for leaks then */
            hf_close(client);
            return 0;
        }
        char *order = line, *name = strsep(&order, " ");
        struct worker *worker = order ? worker_named(name) : NULL;
        if (!worker || write(worker->orders, order, strlen(order)) != (ssize_t)strlen(order))
            return 70;
    }
    /* Whoever started us is gone, or wants us to be: locks go by their leases. */
    _exit(0);
}
