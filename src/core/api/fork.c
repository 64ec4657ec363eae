/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of this process, and fork(): a page that the kernel empties in the child tells a
 * client that it was forked, at the price of one load. */
#include "core/api/fork.h"
#include "base/rand.h"
#include "core/table/blocked.h"

#include <sys/mman.h>
#include <unistd.h>

/* Held while an engine opens: it has descriptors then that no list knows yet, and a child that was
 * born with them would keep the client alive in the eyes of others. */
static pthread_mutex_t opening_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t clients_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hf_link clients = { &clients, &clients };
static _Atomic uint32_t *fork_page; /* holds this process's number; 0 in a child */
static uint32_t fork_numbers;
static uint64_t process_id; /* (under opening_mutex) */

static void before_fork(void)
{
    pthread_mutex_lock(&opening_mutex); /* mutant: fork-does-not-wait-for-client */
    pthread_mutex_lock(&clients_mutex);
    hf__blocked_lock_all();
}

static void after_fork_in_parent(void)
{
    hf__blocked_unlock_all();
    pthread_mutex_unlock(&clients_mutex);
    pthread_mutex_unlock(&opening_mutex);
}

static void after_fork_in_child(void)
{
    hf__blocked_forked();
    HF_LIST_FOREACH (link, following, &clients) {
        struct hf_client *client = HF_CONTAINER(link, struct hf_client, link);
        client->ops->forked(client->engine);
        hf__link_remove(link);
    }
    pthread_mutex_unlock(&clients_mutex);
    pthread_mutex_unlock(&opening_mutex);
}

static int prepare_page(void)
{
    if (!fork_page) {
        void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return HF_ENOMEM;
        if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0 ||
            pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
            munmap(page, (size_t)sysconf(_SC_PAGESIZE));
            return HF_ENOMEM;
        }
        fork_page = page;
        hf__blocked_open();
    }
    if (!atomic_load(fork_page)) {
        hf__random(&process_id, sizeof process_id); /* mutant: child-has-id-of-its-parent */
        atomic_store(fork_page, ++fork_numbers);
    }
    return HF_OK;
}

int hf__fork_forbid(void)
{
    pthread_mutex_lock(&opening_mutex);
    pthread_mutex_lock(&clients_mutex);
    int code = prepare_page();
    pthread_mutex_unlock(&clients_mutex);
    if (code != HF_OK)
        pthread_mutex_unlock(&opening_mutex);
    return code;
}

/* Without the digit in which Redis has the version of a UUID, its clients differ, too. */
#define VERSION_BITS UINT64_C(0xf000)

static bool has_client(uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&clients_mutex);
    HF_LIST_FOREACH (link, following, &clients)
        found |=
            ((HF_CONTAINER(link, struct hf_client, link)->host.id[0] ^ id) & ~VERSION_BITS) == 0;
    pthread_mutex_unlock(&clients_mutex);
    return found;
}

/* The first 44 bits are the process's. The 20 others are random and not counted: two copies of a
 * running machine would count alike. */
uint64_t hf__owner_client_id(void)
{
    uint64_t bits, id;
    do {
        hf__random(&bits, sizeof bits);
        id = (process_id & ~UINT64_C(0xfffff)) | (bits & UINT64_C(0xfffff));
    } while (has_client(id));
    return id;
}

void hf__fork_allow(void)
{
    pthread_mutex_unlock(&opening_mutex);
}

int hf__fork_register(struct hf_client *client)
{
    pthread_mutex_lock(&clients_mutex);
    int code = prepare_page();
    if (code == HF_OK) {
        client->fork_number = atomic_load(fork_page);
        hf__list_append(&clients, &client->link);
    }
    pthread_mutex_unlock(&clients_mutex);
    return code;
}

void hf__fork_unregister(struct hf_client *client)
{
    pthread_mutex_lock(&clients_mutex);
    hf__link_remove(&client->link);
    pthread_mutex_unlock(&clients_mutex);
}

bool hf__forked(const struct hf_client *client)
{
    return atomic_load_explicit(fork_page, memory_order_relaxed) != client->fork_number;
}

void hf__clients_visit(void (*visit)(struct hf_client *client, void *arg), void *arg)
{
    pthread_mutex_lock(&clients_mutex);
    HF_LIST_FOREACH (link, following, &clients)
        visit(HF_CONTAINER(link, struct hf_client, link), arg);
    pthread_mutex_unlock(&clients_mutex);
}
