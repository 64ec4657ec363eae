/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server sends to calls of gRPC, in whatever pieces: nothing crashes, what is read stays
 * in its message, and the pieces make no difference (pieces.h). The same bytes are read as every
 * message of etcd that we know. */
#include "engines/etcd/wire/messages.h"
#include "net/grpc.h"

#include "pieces.h"

#include <string.h>

static struct hf_loop loop;
static struct hf_grpc_call calls[2];
static struct heard of_call[2], whole, *hearing;
static struct etcd_arena arena;

static int64_t read_clock(void *arg)
{
    (void)arg;
    return 1;
}

static void wake(void *arg)
{
    (void)arg;
}

static void note(void *arg)
{
    (void)arg;
}

static void add(uint64_t value)
{
    hearing->sum = hearing->sum * 31 + value;
}

static void look_at_message(const uint8_t *bytes, size_t length)
{
    const etcd_txn_reply *txn =
        hf__etcd_read(&arena, &hf_etcd__txn_response__descriptor, bytes, length);
    const etcd_key_value *first = txn ? hf__etcd_txn_first_key(txn, 0) : NULL;
    add(txn ? (uint64_t)hf__etcd_revision(txn->header) : 1);
    if (first)
        add(hf__etcd_is_key(&first->key, hf__etcd_bytes("name/1", 6)));
    const etcd_watch_reply *watch =
        hf__etcd_read(&arena, &hf_etcd__watch_response__descriptor, bytes, length);
    for (size_t i = 0; watch && i < watch->n_events; i++)
        add(watch->events[i]->kv ? (uint64_t)watch->events[i]->kv->mod_revision : 2);
    const HfEtcd__LeaseKeepAliveResponse *beat =
        hf__etcd_read(&arena, &hf_etcd__lease_keep_alive_response__descriptor, bytes, length);
    add(beat ? (uint64_t)beat->ttl : 3);
}

static void message(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    hearing = &of_call[call - calls];
    hearing->count++;
    look_at_message(bytes, length);
}

static void count_messages(unsigned call)
{
    hearing = &whole;
    hearing->count += of_call[call].count;
    add(of_call[call].sum);
}

/* What is told of a call that breaks off is not the peer's word, and how far it comes depends on
 * the pieces: a body beyond its content-length is judged by the piece. */
static void ended(struct hf_grpc_call *call)
{
    if (!call->answered)
        return;
    count_messages((unsigned)(call - calls));
    hearing->count++;
    add((uint64_t)call->status);
    add(strlen(call->text));
}

static bool take_all(struct hf_grpc *grpc)
{
    const uint8_t *bytes;
    long length;
    while ((length = hf__grpc_take(grpc, &bytes)) > 0)
        ;
    return length == 0;
}

static struct heard hear(const char *bytes, size_t length, size_t piece)
{
    static const struct hf_grpc_events events = { message, ended };
    static const char settings[] = "\0\0\0\4\0\0\0\0";
    struct hf_grpc grpc = { .loop = &loop, .has_bytes = note, .draining = note };
    calls[0] = (struct hf_grpc_call){ .events = &events };
    calls[1] = (struct hf_grpc_call){ .events = &events, .streaming = true };
    whole = of_call[0] = of_call[1] = (struct heard){ 0 };
    hearing = &whole;
    hf__loop_init(&loop, read_clock, wake, NULL);
    hf__etcd_arena_init(&arena);
    look_at_message((const uint8_t *)bytes, length);
    if (!hf__grpc_open(&grpc, "host:1") || !hf__grpc_feed(&grpc, settings, 9))
        abort();
    for (unsigned i = 0; i < 2; i++)
        if (!hf__grpc_begin(&grpc, &calls[i], "/s/M", 0, NULL) ||
            !hf__grpc_send(&calls[i], (const uint8_t *)"m", 1, i == 0))
            abort();
    bool good = take_all(&grpc);
    for (size_t at = 0; at < length && good; at += piece)
        good = hf__grpc_feed(&grpc, bytes + at, length - at < piece ? length - at : piece);
    /* Not in between: a stream that has failed ends when that has been sent. */
    whole.broken = !good || !take_all(&grpc);
    /* nghttp2 counts the pieces of such a frame's header, too. */
    whole.depends_on_pieces = strstr(hf__h2_why(grpc.h2), "CONTINUATION") != NULL;
    for (unsigned i = 0; i < 2; i++) {
        if (calls[i].channel && !whole.broken)
            count_messages(i);
        hf__grpc_call_drop(&calls[i]);
        hf__grpc_call_free(&calls[i]);
    }
    hf__grpc_close(&grpc);
    hf__etcd_arena_free(&arena);
    return whole;
}
