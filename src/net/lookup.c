/* SPDX-License-Identifier: Apache-2.0 */
/* Name look-ups, each on a detached thread of its own. getaddrinfo cannot be interrupted, and takes
 * as long as a dead name server lets it. So nothing waits for the thread: it outlives the client
 * that asked, and frees the look-up if that has gone. */
#include "net/lookup.h"

#include "base/clock.h"
#include "base/testing.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* An answer that came while no stream listened is good for the next one for this time. */
#define FRESH_MS 10000

struct hf_lookup {
    struct hf_lookup *next; /* in the list of the route that asked (loop only) */
    pthread_mutex_t mutex;
    unsigned users;       /* the thread, and the route (under the mutex) */
    uv_async_t *listener; /* (under the mutex) */
    bool answered;        /* (under the mutex) */
    int64_t answered_ms;
    int status; /* a libuv code */
    struct addrinfo *addresses;
    unsigned port;
    char host[];
};

static void lookup_let_go(struct hf_lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    bool last = --lookup->users == 0;
    pthread_mutex_unlock(&lookup->mutex);
    if (!last)
        return;
    if (lookup->addresses)
        freeaddrinfo(lookup->addresses);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

/* libuv has the words for these. */
static int status_of(int code, int error)
{
    switch (code) {
    case 0:
        return 0;
    case EAI_AGAIN:
        return UV_EAI_AGAIN;
    case EAI_FAIL:
        return UV_EAI_FAIL;
    case EAI_FAMILY:
        return UV_EAI_FAMILY;
    case EAI_MEMORY:
        return UV_EAI_MEMORY;
    case EAI_SERVICE:
        return UV_EAI_SERVICE;
    case EAI_SYSTEM:
        return error ? -error : UV_EAI_FAIL;
    default:
        return UV_EAI_NONAME;
    }
}

static void *look_up(void *arg)
{
    struct hf_lookup *lookup = arg;
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *addresses = NULL;
    char port[8];
#ifdef AI_IDN
    hints.ai_flags = AI_IDN;
#endif
    snprintf(port, sizeof port, "%u", lookup->port);
    errno = 0;
    int code = getaddrinfo(lookup->host, port, &hints, &addresses);
    int status = status_of(code, errno);
    pthread_mutex_lock(&lookup->mutex);
    lookup->status = status;
    lookup->addresses = status == 0 ? addresses : NULL;
    lookup->answered_ms = hf__clock_ms();
    lookup->answered = true;
    if (lookup->listener)
        uv_async_send(lookup->listener);
    pthread_mutex_unlock(&lookup->mutex);
    lookup_let_go(lookup);
    return NULL;
}

/* The thread takes no signals of the program's. */
static int start_thread(struct hf_lookup *lookup)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    int code = pthread_attr_init(&attributes);
    if (code != 0)
        return code;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&thread, &attributes, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code;
}

static bool is_stale(struct hf_lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    bool stale = lookup->answered && hf__clock_ms() - lookup->answered_ms >= FRESH_MS;
    pthread_mutex_unlock(&lookup->mutex);
    return stale;
}

static void drop_stale(struct hf_lookup **list)
{
    while (*list) {
        struct hf_lookup *lookup = *list;
        if (!is_stale(lookup)) {
            list = &lookup->next;
            continue;
        }
        *list = lookup->next;
        lookup_let_go(lookup);
    }
}

static struct hf_lookup *find(struct hf_lookup *first, const char *host, unsigned port)
{
    for (struct hf_lookup *lookup = first; lookup; lookup = lookup->next)
        if (lookup->port == port && strcmp(lookup->host, host) == 0)
            return lookup;
    return NULL;
}

int hf__lookup_begin(struct hf_lookup **list, const char *host, unsigned port,
                     struct hf_lookup **ret)
{
    drop_stale(list);
    *ret = find(*list, host, port);
    if (*ret)
        return 0;
    struct hf_lookup *lookup = hf__calloc(1, sizeof *lookup + strlen(host) + 1);
    if (!lookup)
        return UV_ENOMEM;
    pthread_mutex_init(&lookup->mutex, NULL);
    lookup->port = port;
    memcpy(lookup->host, host, strlen(host) + 1);
    lookup->users = 2;
    int code = start_thread(lookup);
    if (code != 0) {
        lookup->users = 1;
        lookup_let_go(lookup);
        return -code;
    }
    lookup->next = *list;
    *ret = *list = lookup;
    return 0;
}

void hf__lookup_listen(struct hf_lookup *lookup, uv_async_t *listener)
{
    pthread_mutex_lock(&lookup->mutex);
    lookup->listener = listener;
    if (listener && lookup->answered)
        uv_async_send(listener);
    pthread_mutex_unlock(&lookup->mutex);
}

int hf__lookup_take(struct hf_lookup **list, struct hf_lookup *lookup, struct addrinfo **addresses)
{
    while (*list != lookup)
        list = &(*list)->next;
    *list = lookup->next;
    pthread_mutex_lock(&lookup->mutex);
    int status = lookup->status;
    *addresses = lookup->addresses;
    lookup->addresses = NULL;
    lookup->listener = NULL;
    pthread_mutex_unlock(&lookup->mutex);
    lookup_let_go(lookup);
    return status;
}

void hf__lookups_drop(struct hf_lookup **list)
{
    while (*list) {
        struct hf_lookup *lookup = *list;
        *list = lookup->next;
        lookup_let_go(lookup);
    }
}
