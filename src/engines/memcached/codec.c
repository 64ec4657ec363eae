/* SPDX-License-Identifier: Apache-2.0 */
/* Reads replies of memcached's text protocol, the classic ones and those of the meta commands. */
#include "codec.h"

#include <string.h>

/* A word of a line. It ends at a space, or where the line ends. */
struct word {
    const char *text;
    size_t length;
};

static struct word next_word(const char **at, const char *end)
{
    while (*at < end && **at == ' ')
        ++*at;
    struct word word = { .text = *at };
    while (*at < end && **at != ' ')
        ++*at;
    word.length = (size_t)(*at - word.text);
    return word;
}

static bool word_is(struct word word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* Decimal digits alone. Numbers of the protocol fit 64 bits. */
static bool mc_read_number(struct word word, uint64_t *ret)
{
    uint64_t number = 0;
    for (size_t i = 0; i < word.length; i++) {
        unsigned digit = (unsigned)(unsigned char)word.text[i] - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret = number;
    return word.length > 0;
}

static void keep_value(struct mc_reply *reply, const char *text, size_t length)
{
    reply->cut = length > MC_VALUE_MAX;
    reply->length = reply->cut ? MC_VALUE_MAX : length;
    memcpy(reply->value, text, reply->length);
    reply->value[reply->length] = 0;
}

/* "c12 t30 f0 W": what the meta commands return of an item. Unknown ones are another version's. */
static bool read_flags(struct mc_reply *reply, const char *at, const char *end)
{
    for (struct word word; (word = next_word(&at, end)).length > 0;) {
        struct word rest = { word.text + 1, word.length - 1 };
        uint64_t number = 0;
        if (word.text[0] == 'c' && !mc_read_number(rest, &reply->cas))
            return false;
        if (word.text[0] == 't' && word_is(rest, "-1")) {
            reply->ttl = -1;
        } else if (word.text[0] == 't') {
            if (!mc_read_number(rest, &number) || number > INT32_MAX)
                return false;
            reply->ttl = (int64_t)number;
        }
        if (word.text[0] == 'f') {
            if (!mc_read_number(rest, &number) || number > UINT32_MAX)
                return false;
            reply->flags = (uint32_t)number;
        }
    }
    return true;
}

/* "VA SIZE FLAGS", CRLF, the value, CRLF. `taken` bytes are the first line. */
static long read_value(struct mc_reply *reply, const char *at, const char *end, const char *bytes,
                       size_t taken, size_t length)
{
    uint64_t size;
    if (!mc_read_number(next_word(&at, end), &size) || size > MC_ITEM_MAX ||
        !read_flags(reply, at, end))
        return -1;
    if (length - taken < size + 2)
        return 0;
    if (memcmp(bytes + taken + size, "\r\n", 2) != 0)
        return -1;
    keep_value(reply, bytes + taken, size);
    return (long)(taken + size + 2);
}

static const struct {
    const char *word;
    enum mc_reply_kind kind;
} kinds[] = {
    { "STORED", MC_STORED },
    { "NOT_STORED", MC_NOT_STORED },
    { "EXISTS", MC_EXISTS },
    { "EX", MC_EXISTS },
    { "NOT_FOUND", MC_NOT_FOUND },
    { "NF", MC_NOT_FOUND },
    { "HD", MC_DONE },
    { "VA", MC_VALUE },
    { "EN", MC_MISS },
    { "MN", MC_PONG },
    { "VERSION", MC_VERSION },
    { "STAT", MC_STAT },
    { "END", MC_END },
    { "SERVER_ERROR", MC_REFUSED },
    { "BUSY", MC_REFUSED },
    { "CLIENT_ERROR", MC_WRONG },
    { "ERROR", MC_WRONG },
};

static bool find_kind(struct word word, enum mc_reply_kind *ret)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (word_is(word, kinds[i].word)) {
            *ret = kinds[i].kind;
            return true;
        }
    return false;
}

long hf__mc_reply_read(struct mc_reply *reply, const char *bytes, size_t length)
{
    const char *newline = memchr(bytes, '\n', length < MC_LINE_MAX ? length : MC_LINE_MAX);
    if (!newline)
        return length < MC_LINE_MAX ? 0 : -1;
    bool is_key = newline - bytes > 4 && memcmp(bytes, "key=", 4) == 0;
    if (!is_key && (newline == bytes || newline[-1] != '\r'))
        return -1;
    const char *at = bytes, *end = is_key ? newline : newline - 1;
    size_t taken = (size_t)(newline - bytes) + 1;
    reply->cas = 0;
    reply->ttl = MC_NO_TTL;
    reply->flags = 0;
    keep_value(reply, "", 0);
    if (is_key) {
        struct word word = next_word(&at, end);
        reply->kind = MC_KEY;
        keep_value(reply, word.text + 4, word.length - 4);
        return (long)taken;
    }
    if (!find_kind(next_word(&at, end), &reply->kind))
        return -1;
    if (reply->kind == MC_VALUE)
        return read_value(reply, at, end, bytes, taken, length);
    if (reply->kind == MC_DONE)
        return read_flags(reply, at, end) ? (long)taken : -1;
    if (at < end)
        keep_value(reply, at + 1, (size_t)(end - at) - 1);
    return (long)taken;
}

/* ---- which replies a command has ---- */

static const struct {
    const char *word;
    unsigned kinds;
    bool has_data; /* a line of its own, behind the command's */
} commands[] = {
    { "mg ", 1u << MC_VALUE | 1u << MC_DONE | 1u << MC_MISS, false },
    { "md ", 1u << MC_DONE | 1u << MC_EXISTS | 1u << MC_NOT_FOUND, false },
    { "add ", 1u << MC_STORED | 1u << MC_NOT_STORED | 1u << MC_REFUSED, true },
    { "cas ", 1u << MC_STORED | 1u << MC_EXISTS | 1u << MC_NOT_FOUND | 1u << MC_REFUSED, true },
    { "set ", 1u << MC_STORED | 1u << MC_REFUSED, true },
    { "append ", 1u << MC_STORED | 1u << MC_NOT_STORED | 1u << MC_REFUSED, true },
    { "version", 1u << MC_VERSION, false },
    { "stats", 1u << MC_END, false },
    { "lru_crawler", 1u << MC_END | 1u << MC_REFUSED, false },
};

/* What a command that stores sends behind its line: "add KEY FLAGS EXPTIME SIZE", that many bytes
 * and a CRLF. They may be of any kind, the text of an owner among them. */
static size_t data_size(const char *line, const char *end)
{
    uint64_t size = 0;
    struct word word = next_word(&line, end);
    for (int i = 0; i < 4; i++)
        word = next_word(&line, end);
    if (word.length > 0 && word.text[word.length - 1] == '\r')
        word.length--;
    return mc_read_number(word, &size) ? (size_t)size + 2 : 0;
}

unsigned hf__mc_expect(const char *packet, unsigned fitting[], unsigned most)
{
    const char *packet_end = packet + strlen(packet), *line = packet;
    unsigned count = 0;
    while (line < packet_end && count < most) {
        const char *newline = strchr(line, '\n'), *end = newline ? newline : packet_end;
        size_t data = 0;
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strncmp(line, commands[i].word, strlen(commands[i].word)) == 0) {
                fitting[count++] = commands[i].kinds;
                if (commands[i].has_data) /* mutant: memcached-data-is-no-command */
                    data = data_size(line, end);
                break;
            }
        size_t left = (size_t)(packet_end - end);
        line = end + (left < data + 1 ? left : data + 1);
    }
    return count;
}

bool hf__mc_reply_fits(const struct mc_reply *reply, unsigned fitting)
{
    bool about_memory = strstr(reply->value, "memory") || strstr(reply->value, "too large");
    bool stores = fitting & 1u << MC_STORED;
    if (!(fitting & 1u << reply->kind))
        return false;
    /* mutant: memcached-error-of-a-proxy */
    return reply->kind != MC_REFUSED || !stores || about_memory;
}

bool hf__mc_stat_is(const struct mc_reply *reply, const char *name, const char **words)
{
    size_t length = strlen(name);
    if (reply->kind != MC_STAT || strncmp(reply->value, name, length) != 0 ||
        reply->value[length] != ' ')
        return false;
    *words = reply->value + length + 1;
    return true;
}

void hf__mc_stat_number(const struct mc_reply *reply, const char *name, int64_t *ret)
{
    const char *words;
    uint64_t number = 0;
    if (hf__mc_stat_is(reply, name, &words) &&
        mc_read_number((struct word){ words, strlen(words) }, &number))
        *ret = number < (uint64_t)MC_STAT_MAX ? (int64_t)number : MC_STAT_MAX;
}
