/* Commands: a list of arguments, some of them made here. */
#include "redis.h"

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

void hf__command_copy(struct command *command, const void *bytes, size_t length)
{
    char *at = command->text + command->used;
    assert(length <= sizeof command->text - command->used);
    memcpy(at, bytes, length);
    command->used += length;
    hf__command_add(command, at, length);
}

void hf__command_derived(struct command *command, const char *prefix, const char *name,
                         uint32_t length)
{
    if (memchr(name, '{', length))
        hf__command_print(command, "%s:%s", prefix, name);
    else
        hf__command_print(command, "%s:{%s}", prefix, name);
}
