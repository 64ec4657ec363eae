/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of etcd: the bytes that other clients send, ends of prefixes, and hostile replies. */
#include "engines/etcd/wire/messages.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define LEASE 0x32694d11aa
#define KEY "foo/32694d11aa"

static struct etcd_bytes text(const char *text)
{
    return hf__etcd_bytes(text, strlen(text));
}

static void check_packed(const ProtobufCMessage *message, const char *wanted)
{
    uint8_t bytes[400];
    char got[2 * sizeof bytes + 1] = "";
    size_t length = protobuf_c_message_get_packed_size(message);
    CHECK(length <= sizeof bytes);
    protobuf_c_message_pack(message, bytes);
    for (size_t i = 0; i < length; i++)
        snprintf(got + 2 * i, 3, "%02x", bytes[i]);
    CHECK_STR(got, wanted);
}

TEST(acquiring_transaction_has_the_bytes_of_other_clients)
{
    struct etcd_txn txn;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, text(KEY), 0);
    hf__etcd_txn_put(&txn, ETCD_THEN, text(KEY), text(""), LEASE);
    hf__etcd_range_by_creation(hf__etcd_txn_range(&txn, ETCD_THEN, text("foo/"), text("foo0")),
                               true, 1);
    hf__etcd_txn_range(&txn, ETCD_ELSE, text(KEY), text(""));
    hf__etcd_range_by_creation(hf__etcd_txn_range(&txn, ETCD_ELSE, text("foo/"), text("foo0")),
                               true, 1);
    check_packed(&txn.message.base, "0a1410011a0e666f6f2f33323639346431316161"
                                    "2800"
                                    "121912170a0e666f6f2f3332363934643131616118aaa3b4caa606"
                                    "12140a120a04666f6f2f1204666f6f30180128013002"
                                    "1a120a100a0e666f6f2f33323639346431316161"
                                    "1a140a120a04666f6f2f1204666f6f30180128013002");
}

TEST(fenced_release_has_the_bytes_of_other_clients)
{
    struct etcd_txn txn;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, text(KEY), 77);
    hf__etcd_txn_delete(&txn, ETCD_THEN, text(KEY));
    check_packed(&txn.message.base, "0a1410011a0e666f6f2f33323639346431316161284d"
                                    "12121a100a0e666f6f2f33323639346431316161");
}

TEST(lease_messages_have_the_bytes_of_other_clients)
{
    HfEtcd__LeaseGrantRequest grant;
    hf_etcd__lease_grant_request__init(&grant);
    HfEtcd__LeaseKeepAliveRequest beat;
    hf_etcd__lease_keep_alive_request__init(&beat);
    grant.ttl = 60;
    grant.id = beat.id = LEASE;
    check_packed(&grant.base, "083c10aaa3b4caa606");
    check_packed(&beat.base, "08aaa3b4caa606");
}

TEST(watch_of_a_prefix_has_the_bytes_of_other_clients)
{
    HfEtcd__WatchCreateRequest__Filter filter = HF_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT;
    HfEtcd__WatchCreateRequest create;
    hf_etcd__watch_create_request__init(&create);
    HfEtcd__WatchRequest message;
    hf_etcd__watch_request__init(&message);
    create.key = hf__etcd_binary(text("foo/"));
    create.range_end = hf__etcd_binary(text("foo0"));
    create.watch_id = 1;
    create.n_filters = 1;
    create.filters = &filter;
    message.request_union_case = HF_ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    message.create_request = &create;
    check_packed(&message.base, "0a110a04666f6f2f1204666f6f302a01003801");
}

TEST(prefix_end_is_behind_the_last_key_of_the_prefix)
{
    char room[8];
    CHECK_INT((int)hf__etcd_prefix_end("foo/", 4, room), 4);
    CHECK(memcmp(room, "foo0", 4) == 0);
    CHECK_INT((int)hf__etcd_prefix_end("a\xff\xff", 3, room), 1);
    CHECK(room[0] == 'b');
    CHECK_INT((int)hf__etcd_prefix_end("\xff\xff", 2, room), 1);
    CHECK(room[0] == 0);
}

/* Each empty event costs two bytes on the wire, and much more in memory. */
TEST(reply_that_grows_in_memory_without_limit_is_refused)
{
    enum { EVENTS = 4 << 20 };
    struct etcd_arena arena;
    uint8_t *bytes = malloc(2 * EVENTS);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < EVENTS; i++) {
        bytes[2 * i] = 0x5a; /* field 11, with a length */
        bytes[2 * i + 1] = 0;
    }
    hf__etcd_arena_init(&arena);
    CHECK(!hf__etcd_read(&arena, &hf_etcd__watch_response__descriptor, bytes, 2 * EVENTS));
    const etcd_watch_reply *few =
        hf__etcd_read(&arena, &hf_etcd__watch_response__descriptor, bytes, 2000);
    CHECK(few && few->n_events == 1000);
    hf__etcd_arena_free(&arena);
    free(bytes);
}

TEST(unknown_fields_and_truncated_replies_are_survived)
{
    static const uint8_t with_unknown[] = { 0x0a, 2, 0x18, 9, 0xf8, 0x07, 1, 0x10, 1 };
    struct etcd_arena arena;
    hf__etcd_arena_init(&arena);
    const etcd_txn_reply *reply = hf__etcd_read(&arena, &hf_etcd__txn_response__descriptor,
                                                with_unknown, sizeof with_unknown);
    CHECK(reply && reply->succeeded);
    CHECK_INT(hf__etcd_revision(reply->header), 9);
    CHECK(!hf__etcd_txn_first_key(reply, 0));
    CHECK(!hf__etcd_read(&arena, &hf_etcd__txn_response__descriptor, with_unknown, 3));
    hf__etcd_arena_free(&arena);
}
