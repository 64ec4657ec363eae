/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine keeps for the next request: memory of claims, requests and replies. Many threads
 * and asynchronous requests ask for few names and for many, while replies come late, byte by byte,
 * in part or never. What was set aside is garbage in this build, and the address sanitizer reports
 * who reads it. */
#include "account.h"
#include "relay.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, FEW = 2, MANY = 24, BATCH = 12, ROUNDS = 2, PATIENCE_MS = 30000 };

struct warm {
    hf_client *relayed, *direct;
    struct account accounts[FEW + MANY];
    _Atomic int asked, answered, granted;
    _Atomic bool over;
};

static hf_mode mode_of(const struct warm *warm, const struct account *account)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_WRITE, HF_PERMIT };
    return modes[(account - warm->accounts) % 3];
}

static hf_lock_options options_for(const struct warm *warm, const struct account *account)
{
    hf_mode mode = mode_of(warm, account);
    return HF_LOCK_OPTIONS(.mode = mode, .permits = 1, .owner = HF_OWNER_NEW,
                           .limit = mode == HF_PERMIT ? ACCOUNT_LIMIT : 0);
}

static void check_answer(int code)
{
    CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
}

/* Half of the requests want one of few names, half one of many. */
static struct account *choose(struct warm *warm, unsigned *seed)
{
    unsigned number = (unsigned)rand_r(seed);
    return &warm->accounts[number % 2 ? number / 2 % FEW : FEW + number / 2 % MANY];
}

static void use(struct warm *warm, struct account *account, hf_hold *hold)
{
    account_enter(account, hold, mode_of(warm, account), 1);
    warm->granted++;
    account_leave(account, hold);
}

/* ---- asynchronous requests ---- */

struct request {
    struct warm *warm;
    struct account *account;
};

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct request *request = arg;

    (void)error;
    if (code == HF_OK) {
        use(request->warm, request->account, hold);
        hf_unlock_nowait(hold);
    } else if (code != HF_CANCELED) {
        check_answer(code);
    }
    request->warm->answered++;
    free(request);
}

static void request_several(struct warm *warm, hf_client *client, unsigned *seed)
{
    static const int64_t waits_ms[] = { 0, 0, 5, 50 };
    hf_request numbers[BATCH];

    for (int i = 0; i < BATCH; i++) {
        struct request *request = malloc(sizeof(*request));
        *request = (struct request){ warm, choose(warm, seed) };
        hf_lock_options options = options_for(warm, request->account);
        warm->asked++;
        CHECK_CODE(hf_lock_async(client, request->account->name, waits_ms[i % 4], &options,
                                 note_answer, request, &numbers[i]),
                   HF_OK);
    }
    for (int i = 0; i < BATCH; i += 1 + rand_r(seed) % 8)
        hf_cancel(client, numbers[i]);
    /* A round that the server does not answer does not become a heap of requests. */
    for (int i = 0; i < 100 && warm->asked - warm->answered > 4 * BATCH; i++)
        let_pass_ms(1);
}

/* ---- threads ---- */

static void lock_one(struct warm *warm, hf_client *client, unsigned *seed)
{
    struct account *account = choose(warm, seed);
    hf_lock_options options = options_for(warm, account);
    hf_hold *hold;
    int code = hf_lock(client, account->name, rand_r(seed) % 8, &options, &hold);

    if (code != HF_OK) {
        check_answer(code);
        return;
    }
    use(warm, account, hold);
    if (rand_r(seed) % 2)
        hf_unlock_nowait(hold);
    else
        (void)!hf_unlock(hold); /* LOST and UNREACHABLE are right, too */
}

static void ask_and_ask(void *arg, int index)
{
    struct warm *warm = arg;
    hf_client *client = index % 4 == 3 ? warm->direct : warm->relayed;
    unsigned seed = 7u + (unsigned)index;

    while (!warm->over) {
        if (index % 4 == 0)
            request_several(warm, client, &seed);
        else
            lock_one(warm, client, &seed);
    }
}

/* ---- what goes wrong ---- */

static void pass_a_while(struct warm *warm)
{
    int granted = warm->granted;
    EVENTUALLY(warm->granted > granted + 15, PATIENCE_MS);
}

static void fault(struct warm *warm, struct relay *relay, int round)
{
    relay->dripping = round % 2;
    pass_a_while(warm);
    relay_cut_after(relay, 300 + 177 * round); /* in the middle of a reply */
    pass_a_while(warm);
    relay_swallow(relay); /* what is asked is done, and no reply comes */
    let_pass_ms(20);
    relay_cut(relay);
    pass_a_while(warm);
    relay_hold(relay); /* what is asked comes late, after the client has given it up */
    let_pass_ms(20);
    relay_let_go(relay);
    relay_cut(relay);
    pass_a_while(warm);
}

static void run_faults(void *arg, int index)
{
    struct warm *warm = ((void **)arg)[0];
    struct relay *relay = ((void **)arg)[1];

    if (index < THREADS) {
        ask_and_ask(warm, index);
        return;
    }
    for (int round = 0; round < ROUNDS; round++)
        fault(warm, relay, round);
    relay->dripping = false;
    warm->over = true;
}

static hf_client *open_through(struct relay *relay)
{
    char url[512];
    const char *port = strrchr(store_url(), ':');
    long number = port ? strtol(port + 1, NULL, 10) : 0;
    hf_client_options options = HF_CLIENT_OPTIONS(.lease_ms = 20000);
    hf_client *client;

    CHECK(number > 0);
    relay_start(relay, (int)number);
    snprintf(url, sizeof(url), "%.*s:%d%s", (int)(port - store_url()), store_url(), relay->port,
             strchr(port, '/') ? strchr(port, '/') : "");
    CHECK_CODE(hf_open(&client, url, &options), HF_OK);
    return client;
}

TEST(kept_memory_is_used_by_one_at_a_time_through_faults)
{
    static struct relay relay;
    static struct warm warm;
    void *both[] = { &warm, &relay };
    char stem[32];

    warm.direct = open_client();
    warm.relayed = open_through(&relay);
    for (int i = 0; i < FEW + MANY; i++) {
        snprintf(stem, sizeof(stem), "warm-%d", i);
        account_open(&warm.accounts[i], warm.direct, stem);
    }
    threads_run(THREADS + 1, run_faults, both);
    EVENTUALLY(warm.answered == warm.asked, PATIENCE_MS);
    for (int i = 0; i < FEW + MANY; i++) {
        hf_lock_options options = options_for(&warm, &warm.accounts[i]);
        hf_hold *hold;
        CHECK_CODE(hf_lock(warm.direct, warm.accounts[i].name, PATIENCE_MS, &options, &hold),
                   HF_OK);
        give_back(hold);
    }
    hf_close(warm.relayed);
    hf_close(warm.direct);
    relay_stop(&relay);
}
