/* SPDX-License-Identifier: Apache-2.0 */
/* The names of connections: written when one is opened, read from the server's list of them. */
#include "client_names.h"

#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_PREFIX "holdfast:"
#define UUID_LENGTH 36u
/* As many digits of a UUID are in a permit's id, and say whose it is. */
#define CLIENT_DIGITS 16u
/* Of those, the one that a UUID has its version in. */
#define VERSION_DIGIT 12u

struct owner {
    char digits[CLIENT_DIGITS]; /* the first of its UUID, without its version */
    char text[REDIS_CONNECTION_NAME_SIZE];
};

bool hf__client_names_has_tokens(const char *uuid, size_t length)
{
    return length == UUID_LENGTH && uuid[14] == '8' &&
           !strchr("ab", uuid[19]); /* mutant: holder-that-wants-no-token */
}

/* ---- writing ---- */

/* A name has nothing but what is printed, and no space. */
static bool client_names_is_plain(char byte)
{
    return byte > ' ' && byte <= '~' && byte != '%';
}

void hf__client_names_write_name(char name[REDIS_CONNECTION_NAME_SIZE], const char *uuid,
                                 const char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *at = name + snprintf(name, REDIS_CONNECTION_NAME_SIZE, NAME_PREFIX "%s:", uuid);
    const char *end = name + REDIS_CONNECTION_NAME_SIZE - sizeof "%00";
    for (; *text && at < end; text++) {
        if (client_names_is_plain(*text)) {
            *at++ = *text;
            continue;
        }
        *at++ = '%';
        *at++ = digits[(unsigned char)*text >> 4];
        *at++ = digits[(unsigned char)*text & 15];
    }
    *at = 0;
}

/* ---- reading ---- */

/* Of a UUID, or of what begins a permit's id, in hexadecimal digits. False: it is neither. */
static bool read_digits(char digits[CLIENT_DIGITS], const char *key)
{
    unsigned count = 0;
    for (; count < CLIENT_DIGITS && *key; key++)
        if (*key != '-')
            digits[count++] = *key;
    digits[VERSION_DIGIT] = '0'; /* mutant: owner-is-found-by-its-version */
    return count == CLIENT_DIGITS;
}

static void read_text(char text[REDIS_CONNECTION_NAME_SIZE], const char *from, const char *end)
{
    unsigned byte, length = 0;
    for (; from < end && length + 1 < REDIS_CONNECTION_NAME_SIZE; from++) {
        if (*from == '%' && end - from > 2 && sscanf(from + 1, "%2x", &byte) == 1) {
            text[length++] = (char)byte;
            from += 2;
        } else {
            text[length++] = *from;
        }
    }
    text[length] = 0;
}

/* One connection's line; false: it is none of ours. */
static bool read_line(struct owner *owner, const char *line, const char *end)
{
    static const char begin[] = " name=" NAME_PREFIX;
    const char *name = memmem(line, (size_t)(end - line), begin, sizeof begin - 1);
    if (!name)
        return false;
    name += sizeof begin - 1;
    const char *name_end = memchr(name, ' ', (size_t)(end - name));
    if (!name_end || name_end - name <= (ptrdiff_t)UUID_LENGTH || name[UUID_LENGTH] != ':')
        return false;
    read_text(owner->text, name + UUID_LENGTH + 1, name_end);
    return read_digits(owner->digits, name);
}

static int compare(const void *a, const void *b)
{
    return memcmp(((const struct owner *)a)->digits, ((const struct owner *)b)->digits,
                  CLIENT_DIGITS);
}

static size_t lines_of(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

void hf__client_names_read(struct owners *owners, const redisReply *reply)
{
    const char *line = hf__reply_text(reply), *end;
    hf__client_names_release(owners);
    owners->all = hf__calloc(lines_of(line) + 1, sizeof *owners->all);
    for (; owners->all && (end = strchr(line, '\n')); line = end + 1)
        if (read_line(&owners->all[owners->count], line, end))
            owners->count++;
    qsort(owners->all, owners->count, sizeof *owners->all, compare);
}

const char *hf__client_names_find(const struct owners *owners, const char *owner_key)
{
    struct owner wanted;
    if (owners->count == 0 || !read_digits(wanted.digits, owner_key))
        return NULL;
    const struct owner *found =
        bsearch(&wanted, owners->all, owners->count, sizeof wanted, compare);
    return found && *found->text ? found->text : NULL;
}

void hf__client_names_release(struct owners *owners)
{
    free(owners->all);
    *owners = (struct owners){ 0 };
}
