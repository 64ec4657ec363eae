/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks the store, so that the screen answers to keys while the store does not. It
 * alone calls the library. */
#include "top.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Pictures take at most a twenty-fifth of a processor and a fifth of the time: a large store has
 * them less often. */
#define PROCESSOR_PARTS 25
#define STORE_PARTS 5
/* How long the end waits for a request that is out. */
#define END_MS 200

struct top_watch {
    const struct cli_settings *settings;
    const char *url, *exact;
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    bool wants_end, wants_picture, wants_break, has_key, has_ended, has_answer;
    char name[HF_NAME_MAX + 1], key[HF_OWNER_KEY_SIZE];
    int64_t asking_since_ms;
    struct top_answer answer;
    /* The thread's own. */
    hf_client *client;
};

static int64_t processor_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void wake_screen(const struct top_watch *watch)
{
    uint64_t one = 1;

    if (write(watch->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is full: the screen has been woken */
}

/* Where there is no default store yet, nothing is held. */
static int open_store(struct top_watch *watch)
{
    hf_client_options options = HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .existing_only = true);
    int code = hf_open(&watch->client, watch->url, &options);

    return code == HF_UNREACHABLE && hf_last_error()->native == ENOENT &&
                   strcmp(watch->url, CLI_URL_DEFAULT) == 0
               ? HF_OK
               : code;
}

static void take_picture(struct top_watch *watch, struct top_answer *answer)
{
    int64_t since_ms = cli_now_ms();

    *answer = (struct top_answer){ 0 };
    if (!watch->client)
        answer->code = open_store(watch);
    answer->is_fatal = answer->code == HF_EINVAL || answer->code == HF_ENOTSUP;
    if (answer->code == HF_OK)
        answer->code = cli_picture_take(&answer->picture, watch->client, watch->exact);
    answer->is_fatal |= answer->code == HF_ENOTSUP;
    if (answer->code != HF_OK) {
        answer->error = *hf_last_error();
        if (answer->code == HF_ENOMEM)
            snprintf(answer->error.text, sizeof(answer->error.text), "out of memory");
    }
    answer->caps = watch->client ? hf_caps(watch->client) : HF_CAP_INSPECT_ALL | HF_CAP_TOKEN;
    answer->at_ms = cli_now_ms();
    answer->took_ms = answer->at_ms - since_ms;
}

static void publish(struct top_watch *watch, const struct top_answer *answer)
{
    pthread_mutex_lock(&watch->mutex);
    if (watch->has_answer)
        cli_picture_release(&watch->answer.picture);
    watch->answer = *answer;
    watch->has_answer = true;
    watch->asking_since_ms = 0;
    pthread_mutex_unlock(&watch->mutex);
    wake_screen(watch);
}

static void break_if_wanted(struct top_watch *watch)
{
    struct cli_settings settings = *watch->settings;
    char name[HF_NAME_MAX + 1], key[HF_OWNER_KEY_SIZE];
    char *words[] = { name, NULL };

    bool wanted;

    pthread_mutex_lock(&watch->mutex);
    wanted = watch->wants_break;
    watch->wants_break = false;
    memcpy(name, watch->name, sizeof(name));
    memcpy(key, watch->key, sizeof(key));
    settings.owner_text = watch->has_key ? key : NULL;
    pthread_mutex_unlock(&watch->mutex);
    if (!wanted)
        return;
    settings.words = words;
    settings.word_count = 1;
    settings.yes = true;
    (void)cli_break(&settings);
    fflush(stderr);
}

static struct timespec deadline_of(int64_t pause_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += pause_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}

/* Until it is time for a picture, or something is asked for. False: it is over. */
static bool wait_for_work(struct top_watch *watch, int64_t pause_ms)
{
    struct timespec until = deadline_of(pause_ms);
    bool goes_on;

    pthread_mutex_lock(&watch->mutex);
    while (!watch->wants_end && !watch->wants_picture && !watch->wants_break)
        if (pthread_cond_timedwait(&watch->changed, &watch->mutex, &until) == ETIMEDOUT)
            break;
    watch->wants_picture = false;
    goes_on = !watch->wants_end;
    watch->asking_since_ms = goes_on ? cli_now_ms() : 0;
    pthread_mutex_unlock(&watch->mutex);
    return goes_on;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void *watch_store(void *arg)
{
    struct top_watch *watch = arg;
    struct top_answer answer;
    int64_t used_ms = processor_ms(), period_ms = 0, begun_ms = cli_now_ms();

    while (wait_for_work(watch, larger(begun_ms + period_ms - cli_now_ms(), 0))) {
        int64_t before_ms = used_ms, processor_share_ms;

        break_if_wanted(watch);
        begun_ms = cli_now_ms();
        take_picture(watch, &answer);
        used_ms = processor_ms();
        /* The first picture comes with the start of the program. */
        processor_share_ms = period_ms > 0 ? PROCESSOR_PARTS * (used_ms - before_ms) : 0;
        period_ms = watch->settings->watch_ms;
        if (answer.code == HF_OK)
            period_ms = larger(period_ms, STORE_PARTS * answer.took_ms);
        period_ms = larger(period_ms, processor_share_ms);
        answer.period_ms = period_ms;
        publish(watch, &answer);
    }
    hf_close(watch->client);
    pthread_mutex_lock(&watch->mutex);
    watch->has_ended = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

struct top_watch *top_watch_begin(const struct cli_settings *settings, const char *url,
                                  const char *exact, int wake_fd)
{
    struct top_watch *watch = calloc(1, sizeof(*watch));
    pthread_condattr_t monotonic;
    sigset_t all, before;
    int error = ENOMEM;

    if (watch) {
        watch->settings = settings;
        watch->url = url;
        watch->exact = exact;
        watch->wake_fd = wake_fd;
        pthread_mutex_init(&watch->mutex, NULL);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&watch->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        /* Signals are the screen's. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&watch->thread, NULL, watch_store, watch);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (error == 0)
        return watch;
    free(watch);
    cli_complain("no thread to ask the store: %s", strerror(error));
    return NULL;
}

bool top_watch_take(struct top_watch *watch, struct top_answer *ret)
{
    bool is_new;

    pthread_mutex_lock(&watch->mutex);
    is_new = watch->has_answer;
    watch->has_answer = false;
    *ret = watch->answer;
    pthread_mutex_unlock(&watch->mutex);
    return is_new;
}

int64_t top_watch_asking_since(struct top_watch *watch)
{
    int64_t since_ms;

    pthread_mutex_lock(&watch->mutex);
    since_ms = watch->asking_since_ms;
    pthread_mutex_unlock(&watch->mutex);
    return since_ms;
}

void top_watch_now(struct top_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->wants_picture = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

void top_watch_break(struct top_watch *watch, const char *name, const char *key)
{
    pthread_mutex_lock(&watch->mutex);
    snprintf(watch->name, sizeof(watch->name), "%s", name);
    snprintf(watch->key, sizeof(watch->key), "%s", key ? key : "");
    watch->has_key = key != NULL;
    watch->wants_break = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

bool top_watch_end(struct top_watch *watch)
{
    struct timespec until = deadline_of(END_MS);
    bool ended;

    pthread_mutex_lock(&watch->mutex);
    watch->wants_end = true;
    pthread_cond_broadcast(&watch->changed);
    while (!watch->has_ended &&
           pthread_cond_timedwait(&watch->changed, &watch->mutex, &until) != ETIMEDOUT)
        continue;
    ended = watch->has_ended;
    pthread_mutex_unlock(&watch->mutex);
    if (!ended)
        return false;
    pthread_join(watch->thread, NULL);
    if (watch->has_answer)
        cli_picture_release(&watch->answer.picture);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    free(watch);
    return true;
}
