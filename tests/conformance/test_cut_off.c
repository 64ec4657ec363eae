/* SPDX-License-Identifier: Apache-2.0 */
/* A network that carries nothing between one client and its store, in either direction, while
 * another client goes on. A process moves the bytes, and stands still: no connection ends. */
#include "conformance.h"

#include "relay.h"

#include <stdio.h>
#include <stdlib.h>

#define HOST "127.0.0.1:"
#define LEASE_MS ((int64_t)3000 * test_slow())

static void move_bytes(void *arg)
{
    static struct relay relay;
    char line[20];

    relay_start(&relay, *(int *)arg);
    parent_say("%d", relay.port);
    while (parent_hear(line, sizeof(line)))
        continue;
}

/* A client whose network is that process. */
static hf_client *open_through(struct child *network)
{
    const char *url = store_url(), *host = strstr(url, HOST);
    char own_url[512], port[20], *rest;
    hf_client_options options = HF_CLIENT_OPTIONS(.lease_ms = short_lease(LEASE_MS));
    hf_client *client;

    if (!host || strstr(host + 1, HOST))
        SKIP("no network lies between, or several do");
    int server_port = (int)strtol(host + strlen(HOST), &rest, 10);
    child_start(network, move_bytes, &server_port);
    CHECK(child_hear(network, port, sizeof(port)));
    snprintf(own_url, sizeof(own_url), "%.*s" HOST "%s%s", (int)(host - url), url, port, rest);
    CHECK_CODE(hf_open(&client, own_url, &options), HF_OK);
    return client;
}

struct succession {
    hf_hold *before;
    hf_hold *_Atomic next;
    _Atomic bool two_believe;
    _Atomic int losses;
};

static void succeed(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct succession *succession = arg;

    (void)error;
    CHECK_CODE(code, HF_OK);
    succession->two_believe = hf_held(succession->before);
    succession->next = hold;
}

static void next_believes_after_the_parted(hf_mode mode)
{
    static struct succession succession;
    const char *name = name_of("one");
    struct child network;
    hf_client *parted = open_through(&network), *other = open_client();

    need(parted, mode == HF_WRITE ? HF_CAP_RW : HF_CAP_MUTEX);
    succession = (struct succession){ 0 };
    CHECK_CODE(
        hf_lock(parted, name, SOON_MS,
                LOCK_OPTIONS(.mode = mode, .on_lost = count_loss, .lost_arg = &succession.losses),
                &succession.before),
        HF_OK);
    uint64_t token = hf_token(succession.before);
    CHECK_CODE(hf_lock_async(other, name, HF_FOREVER, LOCK_OPTIONS(.mode = mode), succeed,
                             &succession, NULL),
               HF_OK);
    child_stop(&network);
    EVENTUALLY(succession.next != NULL, 3 * SOON_MS);
    CHECK(!succession.two_believe);
    CHECK(!(hf_caps(other) & HF_CAP_TOKEN) || hf_token(succession.next) > token);
    EVENTUALLY(succession.losses == 1, SOON_MS);
    child_continue(&network);
    CHECK_CODE(hf_unlock(succession.before), HF_LOST);
    CHECK(hf_held(succession.next));
    give_back(succession.next);
    /* It is a candidate again. */
    give_back(take(parted, name, mode, 0));
    CHECK_INT(succession.losses, 1);
    hf_close(parted);
    hf_close(other);
    child_kill(&network);
}

TEST(leader_that_is_cut_off_believes_no_more_when_the_next_leads)
{
    next_believes_after_the_parted(HF_LEADER);
}

TEST(holder_that_is_cut_off_believes_no_more_when_the_next_holds)
{
    next_believes_after_the_parted(HF_MUTEX);
}

TEST(writer_that_is_cut_off_believes_no_more_when_the_next_writes)
{
    next_believes_after_the_parted(HF_WRITE);
}
