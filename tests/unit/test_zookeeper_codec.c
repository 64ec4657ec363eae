/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper's messages and names as bytes: what is written, and what is made of what comes. */
#include "engines/zookeeper/queue/node_names.h"
#include "engines/zookeeper/wire/codec.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static struct zk_reader reader_of(const struct zk_writer *writer)
{
    return hf__zk_reader(writer->bytes, writer->length);
}

TEST(the_first_words_are_what_a_server_expects)
{
    static const unsigned char wanted[] = { 0, 0, 0,    45,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
                                            0, 0, 0x75, 0x30, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 16 };
    struct zk_writer writer = { 0 };
    struct zk_hello hello = { .last_zxid = 7, .session = 9, .timeout_ms = 30000 };

    hf__zk_write_hello(&writer, &hello);
    CHECK_INT(writer.length, 49);
    CHECK(memcmp(writer.bytes, wanted, sizeof(wanted)) == 0);
    CHECK_INT(writer.bytes[48], 0);
    hf__zk_writer_free(&writer);
}

TEST(what_is_written_is_read)
{
    struct zk_writer writer = { 0 };
    size_t length;

    hf__zk_write_int(&writer, -5);
    hf__zk_write_long(&writer, INT64_MIN + 3);
    hf__zk_write_bool(&writer, true);
    hf__zk_write_text(&writer, "text");
    hf__zk_write_int(&writer, -1);
    struct zk_reader reader = reader_of(&writer);
    CHECK_INT(hf__zk_read_int(&reader), -5);
    CHECK(hf__zk_read_long(&reader) == INT64_MIN + 3);
    CHECK(hf__zk_read_bool(&reader));
    CHECK(memcmp(hf__zk_read_bytes(&reader, &length), "text", 4) == 0);
    CHECK_INT(length, 4);
    hf__zk_read_bytes(&reader, &length);
    CHECK_INT(length, 0);
    CHECK(!reader.bad);
    CHECK_INT(hf__zk_read_int(&reader), 0);
    CHECK(reader.bad);
    hf__zk_writer_free(&writer);
}

TEST(lengths_that_cannot_be_are_refused)
{
    static const int32_t lengths[] = { -2, INT32_MIN, 5, 1000000, INT32_MAX };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct zk_writer writer = { 0 };
        size_t length = 99;
        hf__zk_write_int(&writer, lengths[i]);
        hf__zk_write_int(&writer, 0);
        struct zk_reader bytes = reader_of(&writer), things = reader_of(&writer);
        CHECK_STR(hf__zk_read_bytes(&bytes, &length), "");
        CHECK(bytes.bad && length == 0);
        CHECK_INT(hf__zk_read_count(&things), 0);
        CHECK(things.bad);
        hf__zk_writer_free(&writer);
    }
}

TEST(a_refused_session_is_none)
{
    struct zk_writer writer = { 0 };
    struct zk_welcome welcome;

    hf__zk_write_int(&writer, 0);
    hf__zk_write_int(&writer, 0);
    hf__zk_write_long(&writer, 4711);
    hf__zk_write_int(&writer, 0);
    struct zk_reader reader = reader_of(&writer);
    CHECK(hf__zk_read_welcome(&reader, &welcome));
    CHECK_INT(welcome.session, 0);
    hf__zk_writer_free(&writer);
}

/* Whatever pieces a stream comes in. */
TEST(frames_come_in_pieces)
{
    for (size_t piece = 1; piece < 30; piece++) {
        struct zk_writer writer = { 0 };
        struct zk_frames frames = { 0 };
        int seen = 0;
        for (int i = 0; i < 20; i++) {
            size_t begun = hf__zk_frame_begin(&writer);
            for (int j = 0; j < i; j++)
                hf__zk_write_int(&writer, i);
            hf__zk_frame_end(&writer, begun);
        }
        for (size_t at = 0; at < writer.length; at += piece) {
            struct zk_reader reader;
            size_t left = writer.length - at;
            CHECK(hf__zk_frames_add(&frames, writer.bytes + at, left < piece ? left : piece));
            while (hf__zk_frames_next(&frames, &reader) == 1) {
                CHECK_INT(reader.end - reader.at, 4 * seen);
                CHECK(seen == 0 || hf__zk_read_int(&reader) == seen);
                seen++;
            }
        }
        CHECK_INT(seen, 20);
        hf__zk_frames_free(&frames);
        hf__zk_writer_free(&writer);
    }
}

TEST(a_frame_that_is_too_long_is_refused_before_it_comes)
{
    static const char *const heads[] = { "\x01\x00\x00\x01", "\xff\xff\xff\xff",
                                         "\x80\x00\x00\x00" };

    for (int i = 0; i < 3; i++) {
        struct zk_frames frames = { 0 };
        struct zk_reader reader;
        CHECK(hf__zk_frames_add(&frames, heads[i], 4));
        CHECK_INT(hf__zk_frames_next(&frames, &reader), -1);
        hf__zk_frames_free(&frames);
    }
}

/* Each client has one such buffer, and there may be thousands of clients. */
TEST(a_long_frame_leaves_no_memory_behind)
{
    static char long_frame[4 + 0x46000] = { 0, 4, 0x60, 0 };
    static const char short_frame[5] = { 0, 0, 0, 1, 7 };
    struct zk_frames frames = { 0 };
    struct zk_reader reader;
    CHECK(hf__zk_frames_add(&frames, long_frame, sizeof long_frame));
    CHECK_INT(hf__zk_frames_next(&frames, &reader), 1);
    CHECK_INT(reader.end - reader.at, sizeof long_frame - 4);
    CHECK(hf__zk_frames_add(&frames, short_frame, sizeof short_frame));
    CHECK(frames.room <= 65536);
    CHECK_INT(hf__zk_frames_next(&frames, &reader), 1);
    CHECK_INT(reader.end - reader.at, 1);
    hf__zk_frames_free(&frames);
}

/* ---- paths ---- */

static void check_path(const char *root, const char *name, const char *wanted)
{
    char again[HF_NAME_MAX + 1];
    char *path = hf__zk_path_of(root, name, strlen(name));

    CHECK_STR(path, wanted);
    CHECK_INT(hf__zk_name_of(root, path, again), strlen(name));
    CHECK_STR(again, name);
    free(path);
}

TEST(names_are_paths)
{
    check_path("", "orders/42", "/orders/42");
    check_path("/locks", "orders/42", "/locks/orders/42");
    check_path("",
               "gr\xc3\xbc\xc3\x9f"
               "e",
               "/gr\xc3\xbc\xc3\x9f"
               "e");
    check_path("", "a b:c{d}", "/a b:c{d}");
}

TEST(what_zookeeper_does_not_take_is_written_otherwise)
{
    check_path("", "..", "/%2E.");
    check_path("", "a/./b", "/a/%2E/b");
    check_path("", "/a", "/%/a");
    check_path("", "a//b/", "/a/%/b/%");
    check_path("", "100%", "/100%25");
    check_path("", "\x01\x7f\xff", "/%01%7F%FF");
    check_path("", "\xf0\x9f\x94\x92", "/%F0%9F%94%92");
    check_path("", "zookeeper", "/%7Aookeeper");
    check_path("/x", "zookeeper", "/x/zookeeper");
}

TEST(a_name_is_never_a_node_of_a_lock)
{
    check_path("", "a/_c_0-lock-0000000001", "/a/%5Fc_0-lock-0000000001");
    check_path("", "a/0__lock__0000000001", "/a/%30__lock__0000000001");
}

TEST(every_name_has_a_path_of_its_own)
{
    char name[4] = "", other[HF_NAME_MAX + 1];

    for (int first = 1; first < 256; first++)
        for (int second = 1; second < 256; second++) {
            name[0] = (char)first;
            name[1] = (char)second;
            char *path = hf__zk_path_of("/root", name, 2);
            CHECK_INT(hf__zk_name_of("/root", path, other), 2);
            CHECK_STR(other, name);
            free(path);
        }
}

/* ---- nodes ---- */

static void check_child(const char *name, enum zk_family family, int64_t number)
{
    struct zk_child child = hf__zk_child(name, strlen(name));

    CHECK_INT(child.family, family);
    if (family != ZK_STRANGER)
        CHECK_INT(child.number, number);
}

TEST(contenders_are_told_from_strangers)
{
    check_child("_c_6c9c0d4c-0b62-4f1b-9c0d-000000000000-lock-0000000012", ZK_LOCK, 12);
    check_child("0123456789abcdef0123456789abcdef__lock__0000000003", ZK_LOCK, 3);
    check_child("_c_x-__READ__0000000007", ZK_READER, 7);
    check_child("_c_x-__WRIT__2147483647", ZK_WRITER, 2147483647);
    check_child("_c_x-lease-0000000012", ZK_LEASE, 12);
    check_child("_c_x-lock--2147483648", ZK_LOCK, -2147483648LL);
    check_child("_c_x-lock--000000007", ZK_LOCK, -7);
    check_child("_c_x-__READ__-999999999", ZK_READER, -999999999);
    check_child("0123__lock__-1000000000", ZK_LOCK, -1000000000);
    check_child("2024-backup", ZK_STRANGER, 0);
    check_child("0000000001", ZK_STRANGER, 0);
    check_child("_c_x-lock-000000001", ZK_STRANGER, 0);
    check_child("_c_x-lock-00000000a1", ZK_STRANGER, 0);
    check_child("", ZK_STRANGER, 0);
}

static void write_list(struct zk_writer *writer, const char *const names[])
{
    int count = 0;

    while (names[count])
        count++;
    hf__zk_write_int(writer, count);
    for (int i = 0; i < count; i++)
        hf__zk_write_text(writer, names[i]);
}

static void look_at(struct zk_view *view, const char *const *names, enum zk_family family,
                    const char *own)
{
    static struct zk_writer writer;

    writer.length = 0;
    write_list(&writer, names);
    hf__zk_view(view, reader_of(&writer), family, own, hf__zk_child(own, strlen(own)).number);
}

TEST(who_stands_in_front)
{
    static const char *const queue[] = { "d-__READ__0000000009",
                                         "b-__WRIT__0000000004",
                                         "a-__READ__0000000002",
                                         "c-__READ__0000000006",
                                         "stranger",
                                         NULL };
    struct zk_view view;

    look_at(&view, queue, ZK_READER, "a-__READ__0000000002");
    CHECK(view.own && !view.blocked && !view.other_kind);
    look_at(&view, queue, ZK_WRITER, "b-__WRIT__0000000004");
    CHECK(view.blocked && view.in_front.number == 2);
    look_at(&view, queue, ZK_READER, "d-__READ__0000000009");
    CHECK(view.blocked && view.in_front.number == 4);
    look_at(&view, queue, ZK_WRITER, "e-__WRIT__0000000010");
    CHECK(view.blocked && view.in_front.number == 9);
    look_at(&view, queue, ZK_READER, "e-__READ__0000000010");
    CHECK(!view.own);
    look_at(&view, queue, ZK_LOCK, "e-lock-0000000010");
    CHECK(view.other_kind);
}

/* The reader that a writer has become, in Curator's way: it has the writer's own number. */
TEST(equal_numbers_are_not_in_front)
{
    static const char *const queue[] = { "a-__READ__0000000002", "b-__WRIT__0000000002",
                                         "c-__WRIT__0000000003", NULL };
    struct zk_view view;

    look_at(&view, queue, ZK_READER, "a-__READ__0000000002");
    CHECK(view.own && !view.blocked);
    look_at(&view, queue, ZK_WRITER, "c-__WRIT__0000000003");
    CHECK(view.blocked && view.in_front.number == 2);
}

TEST(curators_names_and_kazoos_are_one_queue)
{
    static const char *const queue[] = { "0123__lock__0000000001", "_c_x-lock-0000000002", NULL };
    struct zk_view view;

    look_at(&view, queue, ZK_LOCK, "_c_x-lock-0000000002");
    CHECK(view.own && view.blocked && view.in_front.number == 1);
}

TEST(a_note_on_permits_says_how_many)
{
    struct zk_note note = { .mode = HF_PERMIT, .permits = UINT32_MAX, .pid = 1 }, read;
    char text[400];

    snprintf(note.host, sizeof(note.host), "somewhere");
    hf__zk_note_write(&note, text, sizeof(text));
    hf__zk_note_read(&read, text, strlen(text));
    CHECK(read.ours && read.mode == HF_PERMIT);
    CHECK_INT(read.permits, UINT32_MAX);
    hf__zk_note_read(&read, "127.0.0.1", 9);
    CHECK_INT(read.permits, 1);
}

/* A semaphore is no other kind to its own queue, and is one to a mutex at its path. */
TEST(a_child_for_leases_is_another_kind)
{
    static const char *const queue[] = { "leases", "locks", NULL };
    static const char *const leases[] = { "b-lease-0000000004", "a-lease-0000000003", NULL };
    struct zk_view view;

    look_at(&view, queue, ZK_LOCK, "");
    CHECK(view.other_kind && !view.blocked);
    look_at(&view, leases, ZK_LOCK, "b-lease-0000000004");
    CHECK(view.own && !view.other_kind && !view.blocked);
}

TEST(notes_are_read_back)
{
    struct zk_note note = { .mode = HF_FAIR, .pid = 4711, .lease_ms = 500 }, read;
    char text[400];

    snprintf(note.host, sizeof(note.host), "somewhere");
    snprintf(note.owner, sizeof(note.owner), "a task with words");
    hf__zk_note_write(&note, text, sizeof(text));
    hf__zk_note_read(&read, text, strlen(text));
    CHECK(read.ours && read.mode == HF_FAIR && read.pid == 4711 && read.lease_ms == 500);
    CHECK_STR(read.host, "somewhere");
    CHECK_STR(read.owner, "a task with words");
    hf__zk_note_read(&read, "127.0.0.1", 9);
    CHECK(!read.ours);
    hf__zk_note_read(&read, "holdfast nonsense pid=1 lease=1 host=a owner=b", 46);
    CHECK(!read.ours);
}

/* What comes after the end of it may have been in front of us. */
TEST(a_list_that_ends_too_early_is_none)
{
    static const char *const queue[] = { "_c_x-lock-0000000002", "_c_y-lock-0000000001", NULL };
    struct zk_writer writer = { 0 };
    struct zk_child child;

    write_list(&writer, queue);
    for (size_t length = 0; length < writer.length; length++) {
        struct zk_reader cut = hf__zk_reader(writer.bytes, length);
        struct zk_view view;
        hf__zk_view(&view, cut, ZK_LOCK, queue[0], 2);
        CHECK(view.bad);
        CHECK(!hf__zk_find_stem(cut, "_c_z", &child));
    }
    CHECK(hf__zk_find_stem(reader_of(&writer), "_c_y-lock-", &child));
    CHECK_INT(child.number, 1);
    CHECK(hf__zk_find_stem(reader_of(&writer), "_c_z", &child));
    CHECK_INT(child.length, 0);
    hf__zk_writer_free(&writer);
}

/* ---- anything at all ---- */

static uint64_t state;

static unsigned any(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* What a server would say, with a few bytes changed, in pieces: whatever is made of it stays inside
 * the bytes (the sanitizers look), and comes to an end. */
static void read_anything(const struct zk_writer *said)
{
    struct zk_frames frames = { 0 };
    struct zk_reader frame;
    struct zk_reply reply;
    struct zk_event event;
    struct zk_view view;
    struct zk_child child;
    struct zk_stat stat;
    struct zk_note note;
    struct zk_welcome welcome;

    for (size_t at = 0; at < said->length;) {
        size_t piece = 1 + any(64), left = said->length - at;
        piece = piece < left ? piece : left;
        CHECK(hf__zk_frames_add(&frames, said->bytes + at, piece));
        at += piece;
        while (hf__zk_frames_next(&frames, &frame) > 0) {
            struct zk_reader greeting = frame;
            size_t length;
            hf__zk_read_welcome(&greeting, &welcome);
            if (!hf__zk_read_reply(&frame, &reply))
                continue;
            hf__zk_view(&view, reply.body, ZK_LOCK, "own-lock-0000000005", 5);
            hf__zk_find_stem(reply.body, "own-lock-", &child);
            struct zk_reader data = reply.body;
            const char *bytes = hf__zk_read_bytes(&data, &length);
            hf__zk_note_read(&note, bytes, length);
            hf__zk_read_stat(&data, &stat);
            hf__zk_read_event(&reply.body, &event);
        }
    }
    hf__zk_frames_free(&frames);
}

TEST(anything_can_be_read)
{
    for (int round = 0; round < 20000; round++) {
        struct zk_writer said = { 0 };
        state = (uint64_t)round;
        for (unsigned i = 0; i < 1 + any(4); i++) {
            size_t begun = hf__zk_frame_begin(&said);
            hf__zk_write_int(&said, (int32_t)any(3) - 1);
            hf__zk_write_long(&said, any(1000));
            hf__zk_write_int(&said, 0);
            hf__zk_write_int(&said, (int32_t)any(4));
            hf__zk_write_text(&said, "_c_x-lock-0000000002");
            hf__zk_write_text(&said, "holdfast fair pid=1 lease=0 host=h owner=o");
            hf__zk_frame_end(&said, begun);
        }
        for (unsigned i = any(6); i > 0; i--)
            said.bytes[any((unsigned)said.length)] = (char)(any(3) ? any(256) : 0xff);
        said.length -= any(3) ? 0 : any((unsigned)said.length);
        read_anything(&said);
        hf__zk_writer_free(&said);
    }
}
