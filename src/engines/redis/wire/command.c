/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: a list of arguments, some of them made here; and how they are written. Made for every
 * request, so without printf where requests are many. */
#include "command.h"
#include "net/stream.h"

#ifdef NDEBUG
#error "assertions are all that bounds what is written here: build without NDEBUG"
#endif

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hf__command_begin(struct command *command, const char *word)
{
    command->count = 0;
    command->used = 0;
    hf__command_add(command, word, strlen(word));
}

void hf__command_add(struct command *command, const char *bytes, size_t length)
{
    assert(command->count < (int)REDIS_ARGUMENTS);
    command->arguments[command->count] = bytes;
    command->lengths[command->count++] = length;
}

void hf__command_print(struct command *command, const char *format, ...)
{
    char *at = command->text + command->used;
    size_t room = sizeof command->text - command->used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(at, room, format, arguments);
    va_end(arguments);
    assert(length >= 0 && (size_t)length < room);
    command->used += (size_t)length + 1;
    hf__command_add(command, at, (size_t)length);
}

/* Room in the command's own text, which the next argument is going to be in. */
static char *room_for(struct command *command, size_t length)
{
    assert(length <= sizeof command->text - command->used);
    return command->text + command->used;
}

static void add_text(struct command *command, char *at, size_t length)
{
    command->used += length;
    hf__command_add(command, at, length);
}

size_t hf__write_number(char *at, uint64_t number)
{
    char digits[REDIS_DIGITS_MAX];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    for (size_t i = 0; i < count; i++)
        at[i] = digits[count - 1 - i];
    return count;
}

void hf__command_number(struct command *command, int64_t number)
{
    char *at = room_for(command, REDIS_DIGITS_MAX);
    assert(number >= 0);
    add_text(command, at, hf__write_number(at, (uint64_t)number));
}

void hf__command_copy(struct command *command, const void *bytes, size_t length)
{
    add_text(command, memcpy(room_for(command, length), bytes, length), length);
}

/* With what stands between the prefix and a name that has a brace. */
static void add_derived(struct command *command, const char *prefix, const char *braced_by,
                        const char *name, uint32_t length)
{
    bool braced = memchr(name, '{', length);
    size_t before = strlen(prefix);
    char *begin = room_for(command, before + length + 3), *at = begin;
    memcpy(at, prefix, before);
    at = stpcpy(at + before, braced ? braced_by : ":{");
    memcpy(at, name, length);
    at += length;
    if (!braced)
        *at++ = '}';
    add_text(command, begin, (size_t)(at - begin));
}

void hf__command_derived(struct command *command, const char *prefix, const char *name,
                         uint32_t length)
{
    add_derived(command, prefix, ":", name, length);
}

void hf__command_own(struct command *command, const char *prefix, const char *name, uint32_t length)
{
    add_derived(command, prefix, "::", name, length); /* mutant: our-own-keys-are-same-for-name */
}

/* ---- on the wire ---- */

/* A mark, a number, and the end of the line. */
#define LINE_SIZE (1u + REDIS_DIGITS_MAX + 2u)

static char *write_line(char *at, char mark, size_t number)
{
    *at++ = mark;
    at += hf__write_number(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

bool hf__command_write(const struct command *command, struct hf_stream *stream)
{
    size_t most = LINE_SIZE;
    for (int i = 0; i < command->count; i++)
        most += LINE_SIZE + command->lengths[i] + 2;
    char *begin = hf__stream_room(stream, most), *at = begin;
    if (!begin)
        return false;
    at = write_line(at, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        at = write_line(at, '$', command->lengths[i]);
        memcpy(at, command->arguments[i], command->lengths[i]);
        at += command->lengths[i];
        *at++ = '\r';
        *at++ = '\n';
    }
    hf__stream_wrote(stream, (size_t)(at - begin));
    return true;
}
