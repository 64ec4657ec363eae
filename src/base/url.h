/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: scheme:[//[user[:password]@]host[:port][,host[:port]...]][/path][?key=value&...].
 * The path may stand behind each host instead, if it is the same each time. */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include <holdfast.h>

#define HF_URL_MAX 2048
#define HF_URL_HOSTS_MAX 16
#define HF_URL_OPTIONS_MAX 32

struct hf_url_host {
    const char *name; /* without the brackets of an IPv6 address */
    uint16_t port;    /* 0: the scheme's default */
};

struct hf_url_option {
    const char *key, *value;
    bool used; /* asked for by the code; any other is a mistake of the user's */
};

struct hf_url {
    const char *scheme;
    const char *user, *password; /* NULL: none */
    struct hf_url_host hosts[HF_URL_HOSTS_MAX];
    unsigned host_count;
    /* Percent-decoded, with its leading slash; "" if there is none. Other URLs, as in
     * quorum:URL,URL,URL, stay as they are. */
    const char *path;
    struct hf_url_option options[HF_URL_OPTIONS_MAX];
    unsigned option_count;
    char redacted[HF_URL_MAX + 4 * HF_URL_HOSTS_MAX]; /* as given, with the passwords replaced */
    char storage[2 * HF_URL_MAX];
};

/* HF_OK or HF_EINVAL with *error saying what is wrong at which position. */
int hf__url_parse(struct hf_url *url, const char *text, hf_error *error);

/* HF_EINVAL with *error saying `URL "...": ` and what is wrong with it, without a password, even
 * where the URL is not written as one. */
__attribute__((format(printf, 3, 4))) int hf__url_refuse(const struct hf_url *url, hf_error *error,
                                                         const char *format, ...);

/* host:port for people, with brackets around an IPv6 address. */
void hf__url_write_place(char *text, size_t size, const char *host, unsigned port);

/* The value of an option, or `fallback`; marks it as used. */
const char *hf__url_option(struct hf_url *url, const char *key, const char *fallback);

/* An option of two words: whether it is `yes`; *ret stays where it is not given. False: it is
 * neither of them. */
bool hf__url_choice(struct hf_url *url, const char *key, const char *no, const char *yes,
                    bool *ret);

/* The first option that was not asked for, or NULL. */
const char *hf__url_unused_option(const struct hf_url *url);

#endif
