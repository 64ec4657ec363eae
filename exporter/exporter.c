/* SPDX-License-Identifier: Apache-2.0 */
/* exporter: metrics and a page of a store. Reads the options, begins, and ends by a signal. */
#include "exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS_DEFAULT "127.0.0.1:9473"
#define PORT_DEFAULT "9473"
/* Certificates and keys are smaller. */
#define FILE_MAX 262144
/* A store that does not answer is not waited for at the end. */
#define END_S 1
#define CHECK_S 3

/* The whole file, which ends with a NUL; to be freed. NULL: it has been said why. */
static char *read_file(const char *option, const char *path)
{
    char *text = malloc(FILE_MAX + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = text && fd >= 0 ? 1 : -1, length = 0;

    while (count > 0 && length < FILE_MAX) {
        count = read(fd, text + length, (size_t)(FILE_MAX - length));
        length += count > 0 ? count : 0;
    }
    if (count < 0) {
        cli_complain("%s '%s' cannot be read: %s", option, path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[length] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return text;
}

static bool read_token(struct exporter *exporter)
{
    const char *path = exporter->settings->token_file;
    char *text = path ? read_file("--token-file", path) : NULL;
    size_t length = text ? strcspn(text, "\r\n") : 0;
    bool fits = length > 0 && length < sizeof(exporter->token);

    if (!path)
        return true;
    if (fits)
        snprintf(exporter->token, sizeof(exporter->token), "%.*s", (int)length, text);
    else if (text)
        cli_complain("--token-file '%s' needs a token of 1 to %d bytes in its first line", path,
                     (int)sizeof(exporter->token) - 1);
    free(text);
    return fits;
}

/* "HOST:PORT", "[HOST]:PORT", ":PORT" and "HOST", into two strings that are inside `copy`. */
static void split_address(char *copy, const char **host, const char **port)
{
    char *colon = strrchr(copy, ':'), *bracket = strrchr(copy, ']');

    *host = copy;
    *port = PORT_DEFAULT;
    if (colon && (!bracket || colon > bracket)) {
        *colon = '\0';
        *port = colon + 1;
    }
    if (*copy == '[' && bracket) {
        *bracket = '\0';
        *host = copy + 1;
    }
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* Connections are refused until `listen_fd` is listened on. 0, or an errno. */
static int bind_to(struct exporter *exporter, const struct addrinfo *address)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[80] = "", port[16] = "";
    int yes = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &size) != 0) {
        int error = errno;

        close(fd);
        return error;
    }
    (void)getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
                      NI_NUMERICHOST | NI_NUMERICSERV);
    exporter->listen_fd = fd;
    exporter->is_public = !is_loopback(address->ai_addr);
    snprintf(exporter->own_url, sizeof(exporter->own_url),
             strchr(host, ':') ? "%s://[%s]:%s/" : "%s://%s:%s/",
             exporter->settings->tls_cert ? "https" : "http", host, port);
    return 0;
}

static int bind_where_told(struct exporter *exporter)
{
    const char *listen = exporter->settings->listen, *host, *port;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found;
    char *copy = strdup(listen ? listen : ADDRESS_DEFAULT);
    int64_t number;
    int failed, error;

    if (!copy)
        return CLI_INTERNAL;
    split_address(copy, &host, &port);
    /* getaddrinfo takes a number above 65535 for another one. */
    failed =
        (port[strspn(port, "0123456789")] == '\0' && !cli_number_parse(port, 65535, &number)) ||
        getaddrinfo(*host ? host : NULL, port, &hints, &found);
    free(copy);
    if (failed) {
        cli_complain("--listen '%s' is no address: write HOST:PORT, such as 127.0.0.1:9473; a port "
                     "is 65535 at most",
                     listen);
        return CLI_USAGE;
    }
    error = bind_to(exporter, found);
    freeaddrinfo(found);
    if (error == 0)
        return CLI_OK;
    cli_complain("%s cannot be listened on: %s", listen ? listen : ADDRESS_DEFAULT,
                 strerror(error));
    return CLI_UNREACHABLE;
}

/* Until a signal comes. The thread that asks the store may be waiting for it: then the process ends
 * without it. */
static int serve(struct exporter *exporter, char *cert, char *key)
{
    struct MHD_Daemon *daemon;
    pthread_t thread;
    sigset_t ends;
    const struct timespec check = { .tv_sec = CHECK_S };
    struct timespec until;
    int code;

    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    code = exporter_poll_begin(exporter, &thread);
    if (code != CLI_OK)
        return code;
    daemon = listen(exporter->listen_fd, SOMAXCONN) == 0
                 ? exporter_server_start(exporter, cert, key)
                 : NULL;
    if (daemon && !exporter->settings->quiet)
        cli_complain("%s shows the locks of %s", exporter->own_url, exporter->shown_url);
    if (daemon && exporter->is_public && !exporter->token[0])
        cli_complain("every machine that reaches %s can read the names and owners of locks: use "
                     "--token-file, or listen on 127.0.0.1",
                     exporter->own_url);
    while (daemon && sigtimedwait(&ends, NULL, &check) < 0)
        exporter_server_end_late(exporter);
    pthread_mutex_lock(&exporter->mutex);
    exporter->stopping = true;
    pthread_cond_broadcast(&exporter->changed);
    pthread_cond_signal(&exporter->ends);
    pthread_mutex_unlock(&exporter->mutex);
    if (daemon)
        MHD_stop_daemon(daemon);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_S;
    code = daemon ? CLI_OK : CLI_INTERNAL;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        _exit(code);
    return code;
}

static int begin(struct exporter *exporter)
{
    const struct cli_settings *settings = exporter->settings;
    char *cert = NULL, *key = NULL;
    int code = CLI_USAGE;

    if (!settings->tls_cert != !settings->tls_key)
        return cli_usage(settings, "exporter", "--tls-cert and --tls-key go together");
    if (settings->tls_cert)
        cert = read_file("--tls-cert", settings->tls_cert);
    if (cert)
        key = read_file("--tls-key", settings->tls_key);
    if ((key || !settings->tls_cert) && read_token(exporter))
        code = bind_where_told(exporter);
    if (code == CLI_OK)
        code = serve(exporter, cert, key);
    free(cert);
    free(key);
    return code;
}

static int exporter_command(struct cli_settings *settings)
{
    static struct exporter exporter;
    pthread_condattr_t monotonic;
    int code;

    if (settings->word_count > 0)
        return cli_usage(settings, "exporter", "exporter takes options alone: the store is -e URL");
    exporter.settings = settings;
    exporter.url = cli_url_choose(settings);
    if (!exporter.url)
        return CLI_USAGE;
    snprintf(exporter.shown_url, sizeof(exporter.shown_url), "%s", exporter.url);
    cli_url_hide_password(exporter.shown_url);
    (void)gethostname(exporter.host, sizeof(exporter.host) - 1);
    pthread_mutex_init(&exporter.mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&exporter.changed, &monotonic);
    pthread_cond_init(&exporter.ends, &monotonic);
    code = begin(&exporter);
    free(exporter.url);
    return code;
}

const struct cli_verb cli_verbs[] = {
    { "exporter", CLI_EXPORTER, false, exporter_command, "serve metrics and a live page of a store",
      cli_help_exporter },
    { 0 },
};
