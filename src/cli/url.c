/* SPDX-License-Identifier: Apache-2.0 */
/* Which store: from -e, --url-file, $HOLDFAST_URL or the default, without showing its password. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* More than the library takes, so that it says what is wrong with a longer one. */
#define URL_LINE_SIZE 4096

/* Also those of engines that this build lacks. */
static const char *const schemes[] = {
    "local",
    "redis",
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "quorum",
    "zk",
    "zks",
    "etcd",
    "etcds",
    "mysql",
    "mariadb",
    "postgres",
    "postgresql",
    "memcached",
    "memcacheds",
    "memcached+unix",
    "trace",
};

bool cli_url_has_scheme(const char *text)
{
    size_t length = strcspn(text, ":");

    for (size_t i = 0; text[length] && i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strlen(schemes[i]) == length && strncmp(schemes[i], text, length) == 0)
            return true;
    return false;
}

const char *cli_url_beginning(size_t index)
{
    static char text[32];
    const char *scheme = index < sizeof(schemes) / sizeof(schemes[0]) ? schemes[index] : NULL;
    bool bare = scheme && (strcmp(scheme, "local") == 0 || strcmp(scheme, "quorum") == 0 ||
                           strcmp(scheme, "trace") == 0);

    if (!scheme)
        return NULL;
    snprintf(text, sizeof(text), "%s:%s", scheme,
             bare                      ? ""
             : strstr(scheme, "+unix") ? "///"
                                       : "//");
    return text;
}

/* Where user:password@host begins in `url`, and its length. Without a "//" it may be anywhere but
 * in a path. */
static char *find_authority(char *url, size_t *length)
{
    char *authority = strstr(url, "://"), *path = strstr(url, ":/");

    if (authority) {
        *length = strcspn(authority + 3, "/?#");
        return authority + 3;
    }
    *length = strlen(path ? path + 1 : url);
    return path ? path + 1 : url;
}

/* The password is what stands between the first ':' of user:password and the last '@' of it. */
void cli_url_hide_password(char *url)
{
    char *at = NULL, *colon, *authority;
    size_t length;

    authority = find_authority(url, &length);
    for (size_t i = 0; i < length; i++)
        if (authority[i] == '@')
            at = authority + i;
    colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon)
        memset(colon + 1, 'x', (size_t)(at - colon - 1));
    /* In a list of URLs another one follows, of which only the scheme has been passed by. */
    if (length > 0 && strstr(authority + length - 1, "://"))
        cli_url_hide_password(authority + length - 1);
}

/* Another user that may read the file has the password in it. */
static void warn_of_readers(const char *path, const struct stat *file, const char *url)
{
    char *hidden = file->st_mode & (S_IRGRP | S_IROTH) ? strdup(url) : NULL;

    if (hidden)
        cli_url_hide_password(hidden);
    if (hidden && strcmp(hidden, url) != 0)
        cli_tell(CLI_WARNING, CLI_OK,
                 "warning: the URL file '%s' has a password in it, and its mode %04o lets other "
                 "users read it: chmod 600",
                 path, (unsigned)(file->st_mode & 07777));
    free(hidden);
}

static char *read_url_file(const char *path)
{
    char line[URL_LINE_SIZE] = "";
    struct stat about = { .st_mode = 0 };
    size_t length;
    FILE *file = fopen(path, "re");

    if (!file) {
        cli_complain("the URL file '%s' cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    length = fgets(line, sizeof(line), file) ? strlen(line) : 0;
    (void)fstat(fileno(file), &about);
    fclose(file);
    while (length > 0 && strchr(" \t\r\n", line[length - 1]))
        line[--length] = '\0';
    if (length == 0) {
        cli_complain("the URL file '%s' has no URL in its first line", path);
        return NULL;
    }
    warn_of_readers(path, &about, line);
    return strdup(line);
}

static char *chosen(const struct cli_settings *settings)
{
    const char *from_environment = secure_getenv("HOLDFAST_URL");

    if (settings->engine && !settings->engine[0]) {
        cli_complain("the URL after -e is empty; leave -e out for the default");
        return NULL;
    }
    if (settings->engine)
        return strdup(settings->engine);
    if (settings->url_file)
        return read_url_file(settings->url_file);
    if (from_environment && from_environment[0])
        return strdup(from_environment);
    return strdup(CLI_URL_DEFAULT);
}

/* -N is the URL's option "ns", and wins over one that is there already. */
static char *with_namespace(const char *url, const char *space)
{
    char encoded[3 * 256], *result = NULL;
    size_t size = 0, base = strcspn(url, "?");
    const char *option = url[base] ? url + base + 1 : "";
    FILE *out = open_memstream(&result, &size);

    if (!out)
        return NULL;
    cli_percent_encode(encoded, sizeof(encoded), space);
    fprintf(out, "%.*s?ns=%s", (int)base, url, encoded);
    while (*option) {
        size_t length = strcspn(option, "&");
        if (length > 0 && strncmp(option, "ns=", 3) != 0)
            fprintf(out, "&%.*s", (int)length, option);
        option += length + (option[length] == '&');
    }
    fclose(out);
    return result;
}

char *cli_url_choose(const struct cli_settings *settings)
{
    char *url = chosen(settings), *result;

    if (!url || !settings->space)
        return url;
    if (strncmp(url, CLI_URL_DEFAULT, strlen(CLI_URL_DEFAULT)) != 0) {
        cli_complain("-N is for local: only; other stores have no namespaces. Here, let the names "
                     "of the locks begin with '%s/'",
                     settings->space);
        free(url);
        return NULL;
    }
    result = with_namespace(url, settings->space);
    free(url);
    return result;
}

const char *cli_typed_call(const struct cli_settings *settings)
{
    static char call[CLI_CALL_SIZE];
    const char *option = settings->engine ? "-e" : "--url-file";
    const char *value = settings->engine ? settings->engine : settings->url_file;
    size_t used = (size_t)snprintf(call, sizeof(call), "holdfast");

    if (value && strlen(value) < CLI_CALL_SIZE / 2 && !strchr(value, '\'')) {
        used += (size_t)snprintf(call + used, sizeof(call) - used, " %s '%s'", option, value);
        if (settings->engine)
            cli_url_hide_password(call + used - strlen(value) - 1);
    }
    if (settings->space)
        snprintf(call + used, sizeof(call) - used, " -N %s", cli_typed_name(settings->space));
    return call;
}
