/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a ZooKeeper server sends, in whatever pieces: nothing crashes, nothing is read beyond
 * its frame, and the pieces make no difference (pieces.h). */
#include "engines/zookeeper/queue/node_names.h"
#include "engines/zookeeper/wire/codec.h"

#include "pieces.h"

#include <stdlib.h>
#include <string.h>

static void add(struct heard *heard, uint64_t value)
{
    heard->sum = heard->sum * 31 + value;
}

static void add_text(struct heard *heard, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        add(heard, (unsigned char)text[i]);
}

/* A child's name is one of a lock, or a stranger's; and the path of a name leads back to it. */
static void look_at_name(struct heard *heard, const char *name, size_t length)
{
    struct zk_child child = hf__zk_child(name, length);
    char back[HF_NAME_MAX + 1];
    add(heard, (uint64_t)child.family);
    add(heard, (uint64_t)child.number);
    if (length == 0 || length > HF_NAME_MAX || memchr(name, 0, length))
        return;
    char *path = hf__zk_path_of("/locks", name, length);
    if (!path)
        abort();
    size_t came = hf__zk_name_of("/locks", path, back);
    if (came != length || memcmp(back, name, length) != 0)
        abort();
    free(path);
}

static void look_at_list(struct heard *heard, struct zk_reader list)
{
    struct zk_reader names = list;
    struct zk_view view;
    struct zk_child found;
    uint32_t count = hf__zk_read_count(&names);
    for (uint32_t i = 0; i < count && !names.bad; i++) {
        size_t length;
        const char *name = hf__zk_read_bytes(&names, &length);
        look_at_name(heard, name, length);
    }
    hf__zk_view(&view, list, ZK_WRITER, "_c_x-__WRIT__0000000001", 1);
    add(heard, view.bad);
    if (!view.bad && view.blocked)
        add_text(heard, view.in_front.name, view.in_front.length);
    if (hf__zk_find_stem(list, "_c_x-lock-", &found))
        add_text(heard, found.name, found.length);
    add(heard, hf__zk_has_contender(list));
}

static void look_at_note(struct heard *heard, struct zk_reader body)
{
    struct zk_note note;
    char text[512];
    size_t length;
    const char *bytes = hf__zk_read_bytes(&body, &length);
    hf__zk_note_read(&note, bytes, length);
    add(heard, note.ours);
    if (!note.ours)
        return;
    hf__zk_note_write(&note, text, sizeof text);
    add_text(heard, text, strlen(text));
}

/* The same bytes as everything that they might be. */
static void look_at_frame(struct heard *heard, struct zk_reader frame)
{
    struct zk_reader reader = frame;
    struct zk_welcome welcome;
    struct zk_reply reply;
    struct zk_event event;
    struct zk_stat stat;
    if (hf__zk_read_welcome(&reader, &welcome))
        add(heard, (uint64_t)welcome.session);
    reader = frame;
    if (!hf__zk_read_reply(&reader, &reply))
        return;
    add(heard, (uint64_t)reply.error);
    look_at_list(heard, reply.body);
    look_at_note(heard, reply.body);
    if (hf__zk_read_event(&reader, &event))
        add_text(heard, event.path, event.path_length);
    reader = reply.body;
    hf__zk_read_stat(&reader, &stat);
    add(heard, reader.bad ? 0 : (uint64_t)stat.czxid);
}

static struct heard hear(const char *bytes, size_t length, size_t piece)
{
    struct heard heard = { 0 };
    struct zk_frames frames = { 0 };
    struct zk_reader frame;
    int next = 0;
    for (size_t at = 0; at < length && !heard.broken; at += piece) {
        size_t part = length - at < piece ? length - at : piece;
        if (!hf__zk_frames_add(&frames, bytes + at, part))
            abort();
        while ((next = hf__zk_frames_next(&frames, &frame)) > 0) {
            heard.count++;
            look_at_frame(&heard, frame);
        }
        heard.broken = next < 0;
    }
    hf__zk_frames_free(&frames);
    return heard;
}
