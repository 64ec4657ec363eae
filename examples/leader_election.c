/* SPDX-License-Identifier: Apache-2.0 */
/* A leader election: one candidate leads; it is killed, or deposed, and another one takes over. */
#include <errno.h>
#include <holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CANDIDATES 4
#define OFFICE "leader/billing"

/* Nothing here may take longer; then the example ends by a signal instead of hanging. */
#define PATIENCE_S 60
#define LEASE_MS 5000

/* What a candidate tells the audience. Short enough for a pipe to keep it in one piece. */
struct news {
    enum { NEWS_LEADS, NEWS_DEPOSED } what;
    int candidate;
    pid_t pid;
    uint64_t term;
};

/* Runs on the client's loop, before anybody else can lead. It must not block: it tells the main
 * thread to stop, and that is all. */
static void on_deposed(void *arg, const hf_loss *loss)
{
    const int *deposed = arg;
    uint64_t one = 1;
    (void)loss;
    if (write(*deposed, &one, sizeof(one)) != sizeof(one))
        _exit(1); /* better no leader than one that was not told */
}

/* The leader's work, in small pieces, each after a look at whether it is still the leader. A
 * resource that it writes to is claimed with hf_token(hold), the term, before the first read, and
 * compares the term at each write (docs/fencing.md): only that refuses the write of a leader that
 * was paused. */
static void lead(const hf_hold *hold, int deposed)
{
    struct pollfd look = { .fd = deposed, .events = POLLIN };
    uint64_t count;
    while (hf_held(hold) && poll(&look, 1, 20) == 0)
        ;
    if (poll(&look, 1, -1) == 1 && read(deposed, &count, sizeof(count)) < 0)
        _exit(1);
}

/* Campaigns for ever. A leadership is a hold, and is kept. */
static int campaign(int candidate, int audience)
{
    hf_client *client;
    int deposed = eventfd(0, EFD_CLOEXEC);
    hf_lock_options options = HF_LOCK_OPTIONS(.on_lost = on_deposed, .lost_arg = &deposed);
    /* At a store with leases, the next one leads so long after a leader's death. */
    hf_client_options options_of_client = HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS);
    if (deposed < 0 || hf_open(&client, NULL, &options_of_client) != HF_OK) {
        fprintf(stderr, "leader_election: %s\n", hf_last_error()->text);
        return 1;
    }
    for (;;) {
        hf_hold *hold;
        if (hf_campaign(client, OFFICE, HF_FOREVER, &options, &hold) != HF_OK) {
            fprintf(stderr, "leader_election: %s\n", hf_last_error()->text);
            return 1;
        }
        struct news news = { NEWS_LEADS, candidate, getpid(), hf_token(hold) };
        if (write(audience, &news, sizeof(news)) != sizeof(news))
            return 1;
        lead(hold, deposed);
        int code = hf_resign(hold);
        news.what = NEWS_DEPOSED;
        if (code != HF_LOST || write(audience, &news, sizeof(news)) != sizeof(news))
            return 1;
    }
}

static int start_candidates(pid_t pids[CANDIDATES], int audience[2])
{
    if (pipe(audience) != 0)
        return -1;
    for (int i = 0; i < CANDIDATES; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            return -1;
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(PATIENCE_S);
            close(audience[0]);
            _exit(campaign(i + 1, audience[1]));
        }
    }
    return close(audience[1]);
}

static double milliseconds_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) * 1e3 + (double)(now.tv_nsec - then->tv_nsec) / 1e6;
}

/* Reads what happened next, and checks that it is `what`, and that terms rise. */
static bool hear(int audience, int what, struct news *leader)
{
    struct news news;
    if (read(audience, &news, sizeof(news)) != sizeof(news) || (int)news.what != what) {
        fprintf(stderr, "leader_election: the news are not what they should be\n");
        return false;
    }
    if (what == NEWS_DEPOSED)
        return news.term == leader->term && news.pid == leader->pid;
    if (news.term <= leader->term) {
        fprintf(stderr, "leader_election: the term did not rise\n");
        return false;
    }
    *leader = news;
    printf("candidate %d leads, term %" PRIu64 "\n", news.candidate, news.term);
    return true;
}

/* Two leaders die in office. What they held is given on as soon as the store knows. */
static bool kill_leaders(int audience, struct news *leader)
{
    struct timespec then;
    for (int i = 0; i < 2; i++) {
        printf("candidate %d is killed\n", leader->candidate);
        clock_gettime(CLOCK_MONOTONIC, &then);
        if (kill(leader->pid, SIGKILL) != 0 || !hear(audience, NEWS_LEADS, leader))
            return false;
        printf("    ... %.1f ms later\n", milliseconds_since(&then));
    }
    return true;
}

/* An operator takes the office away (holdfast break does it by hand): the leader lives, hears of
 * it, steps down, and campaigns again. The two news come in any order. */
static bool depose(hf_client *client, int audience, struct news *leader)
{
    uint32_t count = 0;
    struct news old = *leader, first, second;
    printf("candidate %d is deposed\n", leader->candidate);
    if (hf_break(client, OFFICE, NULL, &count) != HF_OK || count != 1) {
        fprintf(stderr, "leader_election: nobody to depose: %s\n", hf_last_error()->text);
        return false;
    }
    if (read(audience, &first, sizeof(first)) != sizeof(first) ||
        read(audience, &second, sizeof(second)) != sizeof(second))
        return false;
    struct news *heard = first.what == NEWS_DEPOSED ? &first : &second;
    *leader = first.what == NEWS_DEPOSED ? second : first;
    printf("candidate %d steps down\n", heard->candidate);
    printf("candidate %d leads, term %" PRIu64 "\n", leader->candidate, leader->term);
    return heard->what == NEWS_DEPOSED && heard->pid == old.pid && leader->what == NEWS_LEADS &&
           leader->term > old.term;
}

/* Said once here, rather than by each process. */
static bool can_use_store(void)
{
    hf_client *client;
    if (hf_open(&client, NULL, NULL) != HF_OK) {
        fprintf(stderr, "leader_election: %s\n", hf_last_error()->text);
        return false;
    }
    hf_close(client);
    return true;
}

int main(void)
{
    pid_t pids[CANDIDATES];
    int audience[2];
    struct news leader = { 0 };
    hf_client *client = NULL;
    if (!can_use_store())
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(PATIENCE_S);
    if (start_candidates(pids, audience) != 0) {
        fprintf(stderr, "leader_election: cannot start the candidates: %s\n", strerror(errno));
        return 1;
    }
    bool good = hear(audience[0], NEWS_LEADS, &leader) && kill_leaders(audience[0], &leader) &&
                hf_open(&client, NULL, NULL) == HF_OK && depose(client, audience[0], &leader);
    for (int i = 0; i < CANDIDATES; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    hf_close(client);
    if (!good)
        fprintf(stderr, "leader_election: the election did not go as it has to\n");
    return good ? 0 : 1;
}
