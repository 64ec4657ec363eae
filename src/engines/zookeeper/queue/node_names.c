/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, the names of nodes, and what a list of them means; see the header. */
#include "node_names.h"

#include "base/rand.h"
#include "base/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- paths ---- */

static bool is_allowed(uint32_t point)
{
    bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
    /* What lies beyond is written with surrogates by the server's language, which it refuses. */
    return !control && point < 0xd800 ? point != '%' : point > 0xf8ff && point < 0xfff0;
}

/* How many bytes at `at` are one character that ZooKeeper takes as it is; 0: none. */
static size_t plain_bytes(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return is_allowed(at[0]) ? 1 : 0;
    size_t length = at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : 0;
    if (length == 0 || length > left)
        return 0;
    uint32_t point = length == 2 ? at[0] & 0x1fu : at[0] & 0x0fu;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0u) != 0x80u)
            return 0;
        point = point << 6 | (at[i] & 0x3fu);
    }
    return (length == 2 || point >= 0x800) && is_allowed(point) ? length : 0;
}

static char *escape(char *to, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '%';
    *to++ = digits[byte >> 4];
    *to++ = digits[byte & 15];
    return to;
}

/* Would the segment be taken for something else than a part of a name? */
static bool is_special(const char *segment, size_t length, bool at_root)
{
    static const char reserved[] = "zookeeper";
    if ((length == 1 && *segment == '.') || (length == 2 && memcmp(segment, "..", 2) == 0))
        return true;
    if (at_root && length == sizeof reserved - 1 && memcmp(segment, reserved, length) == 0)
        return true;
    /* mutant: name-may-look-like-node */
    return hf__zk_child(segment, length).family != ZK_STRANGER;
}

static char *write_segment(char *to, const char *segment, size_t length, bool at_root)
{
    const unsigned char *bytes = (const unsigned char *)segment;
    size_t escaped = is_special(segment, length, at_root) ? 1 : 0;
    /* Nothing is written so but an empty segment. */
    if (length == 0)
        *to++ = '%';
    for (size_t i = 0; i < length;) {
        size_t plain = i < escaped ? 0 : plain_bytes(bytes + i, length - i);
        if (plain == 0) {
            to = escape(to, bytes[i++]);
            continue;
        }
        memcpy(to, bytes + i, plain);
        to += plain;
        i += plain;
    }
    return to;
}

char *hf__zk_path_of(const char *root, const char *name, size_t length)
{
    size_t root_length = strlen(root);
    char *path = hf__calloc(1, root_length + 3 * length + 3);
    if (!path)
        return NULL;
    memcpy(path, root, root_length);
    char *to = path + root_length;
    const char *segment = name, *end = name + length;
    for (;;) {
        const char *slash = memchr(segment, '/', (size_t)(end - segment));
        const char *stop = slash ? slash : end;
        *to++ = '/';
        to = write_segment(to, segment, (size_t)(stop - segment), to == path + 1);
        if (!slash)
            return path;
        segment = slash + 1;
    }
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* One character of the path at `at`; how many bytes of it were used. `*byte` -1: it stands for an
 * empty segment. 0: no program writes so. */
static size_t read_character(const char *at, int *byte)
{
    *byte = (unsigned char)*at;
    if (*at != '%')
        return 1;
    *byte = -1;
    if (at[1] == '/' || !at[1])
        return at[-1] == '/' ? 1 : 0;
    int high = digit_value(at[1]), low = high < 0 ? -1 : digit_value(at[2]);
    *byte = high * 16 + low;
    return low < 0 ? 0 : 3;
}

size_t hf__zk_name_of(const char *root, const char *path, char name[HF_NAME_MAX + 1])
{
    size_t length = 0, root_length = strlen(root);
    if (strncmp(path, root, root_length) != 0 || path[root_length] != '/')
        return 0;
    for (const char *at = path + root_length + 1; *at;) {
        int byte;
        size_t used = read_character(at, &byte);
        if (used == 0 || byte == 0 || length == HF_NAME_MAX)
            return 0;
        if (byte > 0)
            name[length++] = (char)byte;
        at += used;
    }
    name[length] = 0;
    return length;
}

/* ---- nodes ---- */

static const struct {
    const char *text;
    enum zk_family family;
} markers[] = {
    { "-lock-", ZK_LOCK },       { "__lock__", ZK_LOCK }, { "-__READ__", ZK_READER },
    { "-__WRIT__", ZK_WRITER },  { "-lease-", ZK_LEASE }, { "-await-", ZK_AWAIT },
    { "-latch-", ZK_CANDIDATE },
};

void hf__zk_uuid(char uuid[ZK_UUID_SIZE])
{
    uint64_t bits[2];
    hf__random(bits, sizeof bits);
    bits[0] = (bits[0] & ~UINT64_C(0xf000)) | 0x4000;
    bits[1] = (bits[1] & ~(UINT64_C(3) << 62)) | (UINT64_C(2) << 62);
    snprintf(uuid, ZK_UUID_SIZE,
             "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, bits[0] >> 32,
             (bits[0] >> 16) & 0xffff, bits[0] & 0xffff, bits[1] >> 48,
             bits[1] & UINT64_C(0xffffffffffff));
}

void hf__zk_node_stem(char stem[ZK_NODE_SIZE], const char *uuid, enum zk_family family, bool kazoo)
{
    if (!kazoo || family != ZK_LOCK) {
        snprintf(stem, ZK_NODE_SIZE, "_c_%s%s", uuid,
                 family == ZK_LOCK        ? "-lock-"
                 : family == ZK_READER    ? "-__READ__"
                 : family == ZK_LEASE     ? "-lease-"
                 : family == ZK_AWAIT     ? "-await-"
                 : family == ZK_CANDIDATE ? "-latch-"
                                          : "-__WRIT__");
        return;
    }
    size_t length = 0;
    for (; *uuid; uuid++)
        if (*uuid != '-')
            stem[length++] = *uuid;
    snprintf(stem + length, ZK_NODE_SIZE - length, "__lock__");
}

static bool ends_with(const char *name, size_t length, const char *marker)
{
    size_t size = strlen(marker);
    return length >= size && memcmp(name + length - size, marker, size) == 0;
}

/* The number is the last ten characters. A minus may be the first of them, or stand before them:
 * there it belongs to the number where a marker is left without. */
struct zk_child hf__zk_child(const char *name, size_t length)
{
    struct zk_child child = { .name = name, .length = length };
    if (length <= ZK_DIGITS)
        return child;
    size_t before = length - ZK_DIGITS;
    bool minus = name[before] == '-';
    for (size_t i = before + minus; i < length; i++) {
        if (name[i] < '0' || name[i] > '9')
            return child;
        child.number = child.number * 10 + (name[i] - '0');
    }
    for (unsigned i = 0; i < sizeof markers / sizeof *markers; i++) {
        bool longer =
            !minus && name[before - 1] == '-' && ends_with(name, before - 1, markers[i].text);
        if (!longer && !ends_with(name, before, markers[i].text))
            continue;
        child.family = markers[i].family;
        /* mutant: sign-of-number-is-not-read */
        child.number = minus || longer ? -child.number : child.number;
        return child;
    }
    return child;
}

enum zk_family hf__zk_family_of(hf_mode mode)
{
    if (mode == HF_LATCH)
        return ZK_AWAIT;
    return mode == HF_READ ? ZK_READER : mode == HF_WRITE ? ZK_WRITER : ZK_LOCK;
}

bool hf__zk_stands_against(enum zk_family other, enum zk_family family)
{
    if (family == ZK_READER)
        return other == ZK_WRITER; /* mutant: reader-does-not-wait */
    if (family == ZK_WRITER)
        return other == ZK_WRITER || other == ZK_READER;
    /* mutant: candidate-does-not-wait */
    return other == family && (family == ZK_LOCK || family == ZK_CANDIDATE);
}

/* Can the two not be on one name? */
static bool is_other_kind(enum zk_family other, enum zk_family family)
{
    static const unsigned char kinds[] = {
        [ZK_LOCK] = 1, [ZK_READER] = 2, [ZK_WRITER] = 2, [ZK_AWAIT] = 3, [ZK_CANDIDATE] = 4
    };
    return kinds[other] != 0 && kinds[other] != kinds[family];
}

/* What has such a child is a semaphore. */
static bool is_leases(const struct zk_child *child)
{
    /* mutant: mutex-does-not-see-semaphore */
    return child->length == 6 && memcmp(child->name, "leases", 6) == 0;
}

bool hf__zk_has_contender(struct zk_reader children)
{
    uint32_t count = hf__zk_read_count(&children);
    for (uint32_t i = 0; i < count && !children.bad; i++) {
        size_t length;
        const char *name = hf__zk_read_bytes(&children, &length);
        if (hf__zk_child(name, length).family != ZK_STRANGER)
            return true;
    }
    return false;
}

void hf__zk_view(struct zk_view *view, struct zk_reader children, enum zk_family family,
                 const char *own, int64_t number)
{
    size_t own_length = strlen(own);
    uint32_t count = hf__zk_read_count(&children);
    *view = (struct zk_view){ .own = false };
    for (uint32_t i = 0; i < count && !children.bad; i++) {
        size_t length;
        const char *name = hf__zk_read_bytes(&children, &length);
        struct zk_child child = hf__zk_child(name, length);
        if (length == own_length && memcmp(name, own, length) == 0) {
            view->own = true;
            continue;
        }
        view->other_kind |= is_other_kind(child.family, family) || is_leases(&child);
        /* mutant: reader-that-was-writer */
        if (!hf__zk_stands_against(child.family, family) || child.number >= number)
            continue;
        /* mutant: farthest-node-in-front */
        if (!view->blocked || child.number > view->in_front.number)
            view->in_front = child;
        view->blocked = true;
    }
    view->bad = children.bad; /* mutant: list-that-ends-too-early */
}

bool hf__zk_find_stem(struct zk_reader children, const char *stem, struct zk_child *child)
{
    size_t stem_length = strlen(stem);
    uint32_t count = hf__zk_read_count(&children);
    *child = (struct zk_child){ .length = 0 };
    for (uint32_t i = 0; i < count && !children.bad; i++) {
        size_t length;
        const char *name = hf__zk_read_bytes(&children, &length);
        if (length >= stem_length && length < ZK_NODE_SIZE && memcmp(name, stem, stem_length) == 0)
            *child = hf__zk_child(name, length);
    }
    return !children.bad;
}

/* ---- notes ---- */

static const char *const words[] = { "mutex", "fair",   "read",    "upgrade",
                                     "write", "permit", "counter", "latch" };

void hf__zk_note_write(const struct zk_note *note, char *text, size_t size)
{
    char many[12] = "";
    if (note->mode == HF_PERMIT)
        snprintf(many, sizeof many, "*%u", note->permits);
    snprintf(text, size,
             "holdfast %s%s pid=%" PRId64 " lease=%" PRId64 " host=%.63s%s%.63s owner=%.127s",
             words[note->mode], many, note->pid, note->lease_ms, note->host,
             *note->thread ? " thread=" : "", note->thread, note->owner);
}

void hf__zk_note_read(struct zk_note *note, const char *bytes, size_t length)
{
    char text[400], word[20];
    int used = 0;
    *note = (struct zk_note){ .mode = HF_MUTEX, .permits = 1 };
    if (length >= sizeof text || memchr(bytes, 0, length))
        return;
    memcpy(text, bytes, length);
    text[length] = 0;
    snprintf(note->owner, sizeof note->owner, "%.127s", text);
    if (sscanf(text, "holdfast %19s pid=%" SCNd64 " lease=%" SCNd64 " host=%63s %n", word,
               &note->pid, &note->lease_ms, note->host, &used) != 4 ||
        used == 0)
        return;
    int thread = 0;
    if (sscanf(text + used, "thread=%63s %n", note->thread, &thread) == 1)
        used += thread;
    if (strncmp(text + used, "owner=", 6) != 0)
        return;
    used += 6;
    char *many = strchr(word, '*');
    if (many) {
        *many = 0;
        note->permits = (uint32_t)strtoul(many + 1, NULL, 10);
    }
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) {
            note->mode = (hf_mode)i;
            note->ours = true;
        }
    snprintf(note->owner, sizeof note->owner, "%s", text + used);
}
