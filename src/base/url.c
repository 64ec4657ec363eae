/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: one forward pass over a copy of the text, errors with their position. */
#include "base/url.h"

#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parser {
    struct hf_url *url;
    char *at; /* in url->storage */
    hf_error *error;
    bool cut_short; /* an '@' stands behind the authority: the password may have ended it */
};

static const char *find(const char *from, char mark, const char *end)
{
    return memchr(from, mark, (size_t)(end - from));
}

/* The first colon that a password may stand behind. The one of "://" is none, nor is, in a list of
 * URLs, "quorum:redis://...", the one of the list. An '@' before "://" is part of no scheme. */
static const char *secret_colon(const char *text, const char *end)
{
    const char *first = find(text, ':', end), *second = first ? find(first + 1, ':', end) : NULL;
    if (first && strncmp(first, "://", 3) == 0)
        return second;
    if (!second || strncmp(second, "://", 3) != 0 || find(first, '@', second))
        return first;
    const char *third = find(second + 1, ':', end);
    return third ? third : first;
}

/* A slip, such as a "//" that is left out, must not show what was meant as a password; what is none
 * may well be hidden with it. A user alone may be meant as one. */
static void redact_strictly(char *to, size_t size, const char *text)
{
    const char *at_sign = strrchr(text, '@'), *authority = strstr(text, "://");
    const char *colon = at_sign ? secret_colon(text, at_sign) : NULL;
    if (!colon && authority && at_sign && authority + 3 <= at_sign && authority[3] != '/')
        colon = authority + 2;
    if (colon)
        snprintf(to, size, "%.*s***%s", (int)(colon + 1 - text), text, at_sign);
    else
        snprintf(to, size, "%s", text);
}

int hf__url_refuse(const struct hf_url *url, hf_error *error, const char *format, ...)
{
    char shown[sizeof url->redacted + 8], what[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    redact_strictly(shown, sizeof shown, url->redacted);
    return hf__error_set(error, HF_EINVAL, 0, "URL \"%.150s\": %s", shown, what);
}

static int complain(const struct parser *parser, const char *where, const char *what)
{
    /* The authority is parsed at the same offset of the second half of the storage. */
    long offset = (long)(where - parser->url->storage) % HF_URL_MAX;
    return hf__url_refuse(parser->url, parser->error, "%s at position %ld", what, offset + 1);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes %XX in place. A NUL byte or a broken escape is refused. */
static int decode(const struct parser *parser, char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || high * 16 + low == 0)
            return complain(parser, from,
                            "a '%' needs two hexadecimal digits (and not 00) after it");
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = 0;
    return HF_OK;
}

/* Secrets among the options are hidden by their key. */
static bool is_secret(const char *key, size_t length)
{
    static const char *const words[] = { "pass", "secret", "token", "auth", "key", "credential" };
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t i = 0; i + strlen(words[w]) <= length; i++)
            if (strncasecmp(key + i, words[w], strlen(words[w])) == 0)
                return true;
    return false;
}

/* Puts stars over the values of secret options, in place. */
static void redact_options(char *text)
{
    char *option = strchr(text, '?');
    while (option) {
        char *key = option + 1, *end = key + strcspn(key, "&");
        char *value = memchr(key, '=', (size_t)(end - key));
        if (value && is_secret(key, (size_t)(value - key)))
            memset(value + 1, '*', (size_t)(end - value - 1));
        option = *end ? end : NULL;
    }
}

/* A URL of one server, in a list of them: what may be shown of it, up to `colon` and from `at_sign`
 * on; without a user, all may be. */
struct list_part {
    const char *text, *colon, *at_sign, *end;
};

/* host[:port][/path], in which nothing can be a piece of a password that was not escaped. */
static bool is_place(const char *from, const char *end)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *host = from;
    while (from < end && (strchr(letters, *from) || strchr(".-_[]", *from)))
        from++;
    if (*host == '[')
        from += strspn(from, "0123456789abcdefABCDEF:.]");
    if (from == host)
        return false;
    if (from < end && *from == ':')
        from += 1 + strspn(from + 1, "0123456789");
    return from == end || (*from == '/' && !find(from, ':', end) && !find(from, '@', end));
}

/* False: it has marks where none belong, so the end of its password is not known. */
static bool read_part(struct list_part *part)
{
    const char *mark = find(part->text, ':', part->end);
    if (!mark || part->end - mark < 3 || strncmp(mark, "://", 3) != 0)
        return false;
    const char *authority = mark + 3, *at_sign = find(authority, '@', part->end);
    if (!at_sign)
        return is_place(authority, part->end);
    part->at_sign = at_sign;
    part->colon = find(authority, ':', at_sign);
    if (!part->colon)
        part->colon = authority - 1;
    return !find(authority, '/', at_sign) && is_place(at_sign + 1, part->end);
}

/* "quorum:URL,URL,URL?options" with stars for each password. False: it is no such list, or not
 * written as one. */
static bool redact_list(struct hf_url *url, const char *text)
{
    struct list_part parts[HF_URL_HOSTS_MAX];
    const char *first = strchr(text, ':'), *end = text + strcspn(text, "?");
    unsigned count = 0;
    if (!first || strncmp(first, "://", 3) == 0 || strchr(end, '@'))
        return false;
    for (const char *at = first + 1; at < end; at = parts[count++].end + 1) {
        if (count == HF_URL_HOSTS_MAX)
            return false;
        const char *comma = find(at, ',', end);
        parts[count] = (struct list_part){ at, NULL, NULL, comma ? comma : end };
        if (!read_part(&parts[count]))
            return false;
    }
    const char *shown = text;
    size_t used = 0;
    for (unsigned i = 0; i < count; i++)
        if (parts[i].colon) {
            used += (size_t)snprintf(url->redacted + used, sizeof url->redacted - used, "%.*s***",
                                     (int)(parts[i].colon + 1 - shown), shown);
            shown = parts[i].at_sign;
        }
    memcpy(url->redacted + used, shown, strlen(shown) + 1);
    return count > 0;
}

/* Databases have users without a password (a socket, a certificate, ~/.pgpass), and no password
 * without a user. */
static bool is_of_database(const char *text, const char *authority)
{
    static const char *const schemes[] = { "postgres", "postgresql", "mysql", "mariadb" };
    const char *scheme = authority;
    while (scheme > text && scheme[-1] >= 'a' && scheme[-1] <= 'z')
        scheme--;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strlen(schemes[i]) == (size_t)(authority - scheme) &&
            strncmp(scheme, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

/* Replaces the password of `text` by stars, before anything can print it: all from the first colon
 * to the last '@', wherever that is, for a password may hold a '/' that should have been escaped.
 */
static void redact_user(struct hf_url *url, const char *text)
{
    const char *authority = strstr(text, "://");
    const char *colon = authority ? strchr(authority + 3, ':') : NULL;
    const char *at_sign = colon ? strrchr(colon, '@') : NULL;
    size_t length = strlen(text);
    /* A password may stand where the user belongs. */
    if (authority && !at_sign && !is_of_database(text, authority)) {
        at_sign = find(authority, '@', authority + 3 + strcspn(authority + 3, "/?"));
        colon = authority + 2;
    }
    if (redact_list(url, text))
        return;
    if (!at_sign) {
        memcpy(url->redacted, text, length + 1);
        return;
    }
    size_t head = (size_t)(colon + 1 - text);
    memcpy(url->redacted, text, head);
    memcpy(url->redacted + head, "***", 3);
    memcpy(url->redacted + head + 3, at_sign, length - (size_t)(at_sign - text) + 1);
}

static int parse_scheme(struct parser *parser)
{
    char *colon = strchr(parser->at, ':');
    if (!colon || colon == parser->at)
        return complain(parser, parser->at, "a URL begins with its scheme, such as \"local:\",");
    for (char *c = parser->at; c < colon; c++)
        if (!isalnum((unsigned char)*c) && *c != '+' && *c != '-' && *c != '.')
            return complain(parser, c, "a scheme is letters, digits, '+', '-' and '.'; not so");
    *colon = 0;
    parser->url->scheme = parser->at;
    parser->at = colon + 1;
    return HF_OK;
}

/* What looks like a wrong host may be the begin of a password. */
static const char *slip(const struct parser *parser, const char *otherwise)
{
    return parser->cut_short ? "a '/' of a password is written %2F, and a '?' %3F; not so"
                             : otherwise;
}

static int parse_port(struct parser *parser, char *text, uint16_t *ret)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || port == 0 || port > 65535)
        return complain(parser, text, slip(parser, "a port is a number from 1 to 65535; not so"));
    *ret = (uint16_t)port;
    return HF_OK;
}

/* What cannot be part of a host. Such a character is a slip, and the name of no server. */
static int check_host(const struct parser *parser, const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return complain(parser, text,
                            "no blank or control character is part of a host; one is");
        if (*text == '@')
            return complain(parser, text,
                            "the user stands once, before the first host; another one");
    }
    return HF_OK;
}

static int parse_host(struct parser *parser, char *text)
{
    struct hf_url *url = parser->url;
    if (url->host_count == HF_URL_HOSTS_MAX)
        return complain(parser, text, "more than 16 hosts");
    if (check_host(parser, text) != HF_OK)
        return HF_EINVAL;
    struct hf_url_host *host = &url->hosts[url->host_count];
    char *port = NULL;
    if (*text == '[') {
        char *close = strchr(text, ']');
        if (!close || (close[1] && close[1] != ':'))
            return complain(parser, text,
                            "an IPv6 address ends with ']', and maybe a port, after '['");
        port = close[1] ? close + 2 : NULL;
        *close = 0;
        host->name = text + 1;
        /* "fe80::1%25eth0" is how a URL has the zone of an address (RFC 6874). */
        char *zone = strstr(text + 1, "%25");
        if (zone && zone[3])
            memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
    } else {
        char *colon = strchr(text, ':');
        port = colon ? colon + 1 : NULL;
        if (colon)
            *colon = 0;
        host->name = text;
    }
    if (!*host->name)
        return complain(parser, text, slip(parser, "a host is missing"));
    url->host_count++;
    return port ? parse_port(parser, port, &host->port) : HF_OK;
}

static int parse_user(struct parser *parser, char *text)
{
    char *colon = strchr(text, ':');
    if (colon) {
        *colon = 0;
        parser->url->password = colon + 1;
        if (decode(parser, colon + 1) != HF_OK)
            return HF_EINVAL;
    }
    parser->url->user = text;
    return decode(parser, text);
}

/* Splits off what follows the first `mark`, or returns NULL. */
static char *cut(char *text, char mark)
{
    char *at = strchr(text, mark);
    if (!at)
        return NULL;
    *at = 0;
    return at + 1;
}

static int parse_authority(struct parser *parser, char *text)
{
    char *at_sign = strrchr(text, '@');
    if (at_sign) {
        /* Is the user written before each host? Then the '@' of the first stands before a comma. */
        const char *first = strchr(text, '@');
        const char *comma = first < at_sign ? find(first, ',', at_sign) : NULL;
        if (comma)
            return complain(parser, comma + 1,
                            "the user stands once, before the first host (a '@' of the password is "
                            "%40); another one");
        *at_sign = 0;
        if (parse_user(parser, text) != HF_OK)
            return HF_EINVAL;
        text = at_sign + 1;
    }
    if (!*text)
        return HF_OK;
    for (char *next; text; text = next) {
        next = cut(text, ',');
        if (parse_host(parser, text) != HF_OK)
            return HF_EINVAL;
    }
    return HF_OK;
}

/* Slashes at its end do not count. */
static size_t length_of_path(const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    return length;
}

/* "a/path,b/path": hosts that follow the path of the one before. All must have the same path. */
static int parse_hosts_in_path(struct parser *parser, char *path)
{
    char *text = cut(path, ',');
    size_t length = length_of_path(path);
    for (char *next; text; text = next) {
        next = cut(text, ',');
        char *own = text + strcspn(text, "/");
        if (length_of_path(own) != length || memcmp(own, path, length) != 0)
            return complain(
                parser, text,
                "the path stands once, behind the last host, or is the same behind each "
                "(a ',' in it is %2C); not so");
        *own = 0;
        if (parse_host(parser, text) != HF_OK)
            return HF_EINVAL;
    }
    return HF_OK;
}

static int parse_options(struct parser *parser, char *text)
{
    struct hf_url *url = parser->url;
    for (char *next; text && *text; text = next) {
        char *ampersand = strchr(text, '&');
        next = ampersand ? ampersand + 1 : NULL;
        if (ampersand)
            *ampersand = 0;
        char *equals = strchr(text, '=');
        if (!equals || equals == text)
            return complain(parser, text, "an option has the form key=value; not so");
        if (url->option_count == HF_URL_OPTIONS_MAX)
            return complain(parser, text, "more than 32 options");
        *equals = 0;
        for (unsigned i = 0; i < url->option_count; i++)
            if (strcmp(url->options[i].key, text) == 0)
                return complain(parser, text, "an option is given twice");
        if (decode(parser, equals + 1) != HF_OK)
            return HF_EINVAL;
        url->options[url->option_count++] =
            (struct hf_url_option){ .key = text, .value = equals + 1 };
    }
    return HF_OK;
}

/* A newline comes from a file that the URL was read from. */
static int check_characters(const struct parser *parser)
{
    for (const char *at = parser->at; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return complain(parser, at,
                            at[1] ? "no blank or control character is part of a URL; one is"
                                  : "no newline or control character ends a URL; one is");
    return HF_OK;
}

int hf__url_parse(struct hf_url *url, const char *text, hf_error *error)
{
    memset(url, 0, sizeof *url);
    struct parser parser = { url, url->storage, error };
    size_t length = strlen(text);
    if (length >= HF_URL_MAX)
        return hf__error_set(error, HF_EINVAL, 0, "the URL has %zu bytes; the limit is %d", length,
                             HF_URL_MAX - 1);
    redact_user(url, text);
    redact_options(url->redacted);
    memcpy(url->storage, text, length + 1);
    if (check_characters(&parser) != HF_OK || parse_scheme(&parser) != HF_OK)
        return HF_EINVAL;
    char *options = cut(parser.at, '?');
    char *path = parser.at;
    /* URLs within the URL are decoded when they are parsed themselves. */
    bool is_list = strncmp(path, "//", 2) != 0 && strstr(path, "://");
    if (strncmp(path, "//", 2) == 0) {
        /* The authority moves to the second half, so that its end can be cut off without losing
         * the slash that begins the path. */
        size_t authority = strcspn(path + 2, "/");
        char *copy = url->storage + HF_URL_MAX + (path + 2 - url->storage);
        memcpy(copy, path + 2, authority);
        copy[authority] = 0;
        const char *end = text + length;
        parser.cut_short =
            !strchr(copy, '@') && find(text + (path + 2 - url->storage) + authority, '@', end);
        path += 2 + authority;
        if (parse_authority(&parser, copy) != HF_OK)
            return HF_EINVAL;
        if (url->host_count > 0 && parse_hosts_in_path(&parser, path) != HF_OK)
            return HF_EINVAL;
    }
    url->path = path;
    if (!is_list && decode(&parser, path) != HF_OK)
        return HF_EINVAL;
    return options ? parse_options(&parser, options) : HF_OK;
}

void hf__url_write_place(char *text, size_t size, const char *host, unsigned port)
{
    bool brackets = strchr(host, ':') != NULL;
    snprintf(text, size, "%s%.200s%s:%u", brackets ? "[" : "", host, brackets ? "]" : "", port);
}

const char *hf__url_option(struct hf_url *url, const char *key, const char *fallback)
{
    for (unsigned i = 0; i < url->option_count; i++)
        if (strcmp(url->options[i].key, key) == 0) {
            url->options[i].used = true;
            return url->options[i].value;
        }
    return fallback;
}

bool hf__url_choice(struct hf_url *url, const char *key, const char *no, const char *yes, bool *ret)
{
    const char *value = hf__url_option(url, key, *ret ? yes : no);
    *ret = strcmp(value, yes) == 0;
    return *ret || strcmp(value, no) == 0;
}

const char *hf__url_unused_option(const struct hf_url *url)
{
    for (unsigned i = 0; i < url->option_count; i++)
        if (!url->options[i].used)
            return url->options[i].key;
    return NULL;
}
