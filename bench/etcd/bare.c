/* SPDX-License-Identifier: Apache-2.0 */
/* The two transactions of a lock and its release, with the library's codecs on a blocking socket:
 * no sessions, no queues, no watches, no threads. No client that sends these can be faster. */
#include "worker.h"

#include "engines/etcd/wire/messages.h"
#include "net/grpc.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { SLOTS_MAX = 256, MESSAGE_MAX = 1024, PIECE = 65536 };

/* As long as what holdfast puts there. */
#define NOTE                                                                                       \
    "holdfast mutex*1 pid=123456 since=1798765432100 lease=30000 host=bench.example.org "          \
    "owner=0123456789abcdef"

struct slot {
    struct hf_grpc_call call;
    char key[64], prefix[64], end[64];
    int64_t created, began_ns; /* 0: it is not held */
};

static struct slot slots[SLOTS_MAX];
static struct hf_loop loop;
static struct hf_grpc grpc;
static struct etcd_arena arena;
static int fd = -1;
static unsigned running, pairs, sample_count;
static int64_t lease, ends_ns, *samples;

const struct subject bare = { .word = "bare" };

/* ---- bytes ---- */

static int64_t read_clock(void *arg)
{
    (void)arg;
    return now_ns() / 1000000;
}

static void ignore(void *arg)
{
    (void)arg;
}

static void refuse(void *arg)
{
    (void)arg;
    die("etcd takes no more calls");
}

static void connect_to_server(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    unsigned port = 0;
    int one = 1;
    if (sscanf(worker_url, "etcd://127.0.0.1:%u", &port) != 1)
        die("the bare transactions need a server at 127.0.0.1");
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("no etcd at port %u", port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    hf__loop_init(&loop, read_clock, ignore, NULL);
    hf__etcd_arena_init(&arena);
    grpc = (struct hf_grpc){ .loop = &loop, .has_bytes = ignore, .draining = refuse };
    if (!hf__grpc_open(&grpc, "127.0.0.1"))
        die("out of memory");
}

/* What there is goes in one piece, as the library sends it. */
static void send_all(void)
{
    static char room[PIECE];
    const uint8_t *bytes;
    size_t used = 0;
    long length;
    while ((length = hf__grpc_take(&grpc, &bytes)) != 0 || used > 0) {
        if (length < 0 || (size_t)length > sizeof room)
            die("no frame can be sent");
        if ((length == 0 || used + (size_t)length > sizeof room) && used > 0) {
            if (send(fd, room, used, MSG_NOSIGNAL) != (ssize_t)used)
                die("etcd hears nothing");
            used = 0;
        }
        memcpy(room + used, bytes, (size_t)length);
        used += (size_t)length;
    }
}

static void turn(void)
{
    static char room[PIECE];
    send_all();
    ssize_t length = recv(fd, room, sizeof room, 0);
    if (length <= 0 || !hf__grpc_feed(&grpc, room, (size_t)length))
        die("etcd has ended the connection");
}

static void call_with(struct slot *slot, const char *path, const ProtobufCMessage *message)
{
    static const struct hf_h2_header with_leader = { "hasleader", "true" };
    uint8_t packed[MESSAGE_MAX];
    size_t length = protobuf_c_message_get_packed_size(message);
    if (length > sizeof packed || protobuf_c_message_pack(message, packed) != length ||
        !hf__grpc_begin(&grpc, &slot->call, path, 0, &with_leader) ||
        !hf__grpc_send(&slot->call, packed, length, true))
        die("no call can be made");
}

/* ---- a pair ---- */

static void ask_to_lock(struct slot *slot)
{
    struct etcd_txn txn;
    struct etcd_bytes key = hf__etcd_bytes(slot->key, strlen(slot->key));
    slot->began_ns = now_ns();
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, key, 0);
    etcd_range *older =
        hf__etcd_txn_range(&txn, ETCD_THEN, hf__etcd_bytes(slot->prefix, strlen(slot->prefix)),
                           hf__etcd_bytes(slot->end, strlen(slot->end)));
    hf__etcd_range_by_creation(older, false, 1);
    older->keys_only = true;
    hf__etcd_txn_put(&txn, ETCD_THEN, key, hf__etcd_bytes(NOTE, sizeof NOTE - 1), lease);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, hf__etcd_bytes("", 0));
    call_with(slot, "/etcdserverpb.KV/Txn", &txn.message.base);
}

static void ask_to_unlock(struct slot *slot)
{
    struct etcd_txn txn;
    struct etcd_bytes key = hf__etcd_bytes(slot->key, strlen(slot->key));
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, key, slot->created);
    hf__etcd_txn_delete(&txn, ETCD_THEN, key);
    call_with(slot, "/etcdserverpb.KV/Txn", &txn.message.base);
}

static void answered(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct slot *slot = HF_CONTAINER(call, struct slot, call);
    const etcd_txn_reply *reply =
        hf__etcd_read(&arena, &hf_etcd__txn_response__descriptor, bytes, length);
    if (!reply || !reply->succeeded)
        die("a key is there, or has gone");
    slot->created = slot->created ? 0 : hf__etcd_revision(reply->header);
}

static void ended(struct hf_grpc_call *call)
{
    struct slot *slot = HF_CONTAINER(call, struct slot, call);
    if (call->status != HF_GRPC_OK)
        die("etcd says: %s", call->text);
    if (slot->created) {
        ask_to_unlock(slot);
        return;
    }
    int64_t now = now_ns();
    if (sample_count < SAMPLES)
        samples[sample_count++] = now - slot->began_ns;
    pairs++;
    if (now < ends_ns)
        ask_to_lock(slot);
    else
        running--;
}

/* ---- the lease, and the whole ---- */

static void granted(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    const HfEtcd__LeaseGrantResponse *reply =
        hf__etcd_read(&arena, &hf_etcd__lease_grant_response__descriptor, bytes, length);
    (void)call;
    lease = reply ? reply->id : 0;
}

static void grant_ended(struct hf_grpc_call *call)
{
    if (call->status != HF_GRPC_OK || !lease)
        die("etcd grants no lease: %s", call->text);
    running = 0;
}

/* An hour: no heartbeats are needed. */
static void get_lease(void)
{
    static const struct hf_grpc_events events = { granted, grant_ended };
    HfEtcd__LeaseGrantRequest message;
    hf_etcd__lease_grant_request__init(&message);
    message.ttl = 3600;
    slots[0].call.events = &events;
    call_with(&slots[0], "/etcdserverpb.Lease/LeaseGrant", &message.base);
    for (running = 1; running > 0;)
        turn();
}

void measure_bare(unsigned count, int64_t ms)
{
    static const struct hf_grpc_events events = { answered, ended };
    if (count == 0 || count > SLOTS_MAX)
        die("up to %d in flight", SLOTS_MAX);
    if (fd < 0) {
        connect_to_server();
        get_lease();
        samples = allocate(SAMPLES * sizeof *samples);
    }
    int64_t began_ns = now_ns();
    ends_ns = began_ns + ms * 1000000;
    sample_count = pairs = 0;
    running = count;
    for (unsigned i = 0; i < count; i++) {
        struct slot *slot = &slots[i];
        slot->call.events = &events;
        snprintf(slot->prefix, sizeof slot->prefix, "bench/lock:bare:%08u/", i);
        snprintf(slot->end, sizeof slot->end, "bench/lock:bare:%08u0", i);
        snprintf(slot->key, sizeof slot->key, "bench/lock:bare:%08u/%" PRIx64, i, (uint64_t)lease);
        ask_to_lock(slot);
    }
    while (running > 0)
        turn();
    print_times(samples, sample_count);
    printf(" pairs=%u ns=%lld", pairs, (long long)(now_ns() - began_ns));
}
