/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: which requests are answered, and with what. A thread for each connection, of
 * which there is a limited number. */
#include "exporter.h"

#include "page.inc"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* So that pages which stay open leave room for scrapes. */
#define WATCHERS_MAX 16
#define IDLE_S 15
/* From the begin of a connection, or the end of its last request, to the end of the next one. A
 * client that sends a byte now and then is never idle, and would keep its place. */
#define REQUEST_MS 15000
#define HEARTBEAT_S 10
#define STACK_SIZE 262144

/* A page that is told of changes. */
struct watcher {
    struct exporter *exporter;
    struct exporter_text *text; /* what is being sent; NULL: nothing */
    size_t sent;
    uint64_t version;
    const char *before; /* what stands before the text, and after it */
    const char *after;
};

/* ---- for how long a connection may stay ---- */

static void restart_clock(struct exporter *exporter, struct MHD_Connection *connection,
                          int64_t since_ms)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exporter_place *place = info ? info->socket_context : NULL;

    pthread_mutex_lock(&exporter->mutex);
    if (place)
        place->since_ms = since_ms;
    pthread_mutex_unlock(&exporter->mutex);
}

static void request_ended(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_RequestTerminationCode code)
{
    (void)state, (void)code;
    restart_clock(arg, connection, cli_now_ms());
}

/* The descriptor is closed only after we have heard of it. */
static void connection_changed(void *arg, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct exporter *exporter = arg;
    struct exporter_place *place = *context;

    pthread_mutex_lock(&exporter->mutex);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED && place)
        place->fd = -1;
    for (int i = 0; code == MHD_CONNECTION_NOTIFY_STARTED && i < EXPORTER_CONNECTIONS; i++) {
        place = &exporter->places[i];
        if (place->fd >= 0 || !info)
            continue;
        *place = (struct exporter_place){ .fd = info->connect_fd, .since_ms = cli_now_ms() };
        *context = place;
        break;
    }
    pthread_mutex_unlock(&exporter->mutex);
}

void exporter_server_end_late(struct exporter *exporter)
{
    int64_t now_ms = cli_now_ms();

    pthread_mutex_lock(&exporter->mutex);
    for (int i = 0; i < EXPORTER_CONNECTIONS; i++) {
        const struct exporter_place *place = &exporter->places[i];
        if (place->fd >= 0 && place->since_ms && now_ms - place->since_ms > REQUEST_MS)
            shutdown(place->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&exporter->mutex);
}

/* ---- what is refused ---- */

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status,
                                   const char *text)
{
    /* It is copied. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        result = MHD_queue_basic_auth_fail_response(connection, "holdfast exporter", response);
    else
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool has_body(struct MHD_Connection *connection)
{
    const char *length = header(connection, "Content-Length");

    return (length && strcmp(length, "0") != 0) || header(connection, "Transfer-Encoding");
}

/* Takes as long for each token that is given: how much of it is right must not show. */
static bool is_token(const struct exporter *exporter, const char *given)
{
    size_t length = strlen(exporter->token), given_length = strlen(given);
    volatile unsigned char difference = given_length != length; /* mutant: token-may-be-longer */

    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(exporter->token[i] ^ given[i % (given_length + 1)]);
    return difference == 0;
}

/* A browser has no bearer tokens, but asks its user for a password. */
static bool is_authorized(const struct exporter *exporter, struct MHD_Connection *connection)
{
    const char *given = header(connection, "Authorization");
    char *user, *password = NULL;
    bool is_right;

    if (!exporter->token[0])
        return true;
    if (!given)
        return false;
    if (strncasecmp(given, "Bearer ", 7) == 0)
        return is_token(exporter, given + 7);
    user = MHD_basic_auth_get_username_password(connection, &password);
    is_right = password && is_token(exporter, password);
    MHD_free(user);
    MHD_free(password);
    return is_right;
}

/* A page of another site may have its name resolve to our address, and so reads with the rights of
 * the browser here. Its name is the Host then. Addresses cannot be resolved elsewhere, and a token
 * is not known to such a page. */
static bool is_known_host(const struct exporter *exporter, const char *host)
{
    const struct cli_settings *settings = exporter->settings;
    char name[256], address[sizeof(struct in6_addr)];
    size_t own = strlen(exporter->host);

    if (exporter->token[0] || !host) /* mutant: host-may-be-any */
        return true;
    if (*host == '[')
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(host + 1, "]"), host + 1);
    else
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
    for (unsigned i = 0; i < settings->name_count; i++)
        if (strcasecmp(settings->names[i], name) == 0)
            return true;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1 ||
           inet_pton(AF_INET6, name, address) == 1 ||
           (own && strncasecmp(name, exporter->host, own) == 0 &&
            (name[own] == '\0' || name[own] == '.'));
}

/* ---- what is answered ---- */

static enum MHD_Result answer_health(struct exporter *exporter, struct MHD_Connection *connection)
{
    const struct exporter_view *view;
    char text[500] = "ok\n";
    bool up;

    pthread_mutex_lock(&exporter->mutex);
    view = exporter_view_now(exporter);
    up = view && view->up;
    if (!up)
        snprintf(text, sizeof(text), "%s\n", view ? view->error : hf_code_text(HF_ENOMEM));
    pthread_mutex_unlock(&exporter->mutex);
    /* The reason has the store's address in it. */
    if (!up && !is_authorized(exporter, connection))
        snprintf(text, sizeof(text), "the store does not answer\n");
    return answer_text(connection, up ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result answer_page(struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof(exporter_page), exporter_page, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/html; charset=utf-8");
    MHD_add_response_header(response, "Content-Security-Policy", EXPORTER_PAGE_POLICY);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

/* The text is of a view, and so may be the exporter's last one as long as it is sent. */
struct lent {
    struct exporter *exporter;
    struct exporter_text *text;
};

static void give_back(void *arg)
{
    struct lent *lent = arg;

    pthread_mutex_lock(&lent->exporter->mutex);
    exporter_text_release(lent->text);
    pthread_mutex_unlock(&lent->exporter->mutex);
    free(lent);
}

static enum MHD_Result answer_metrics(struct exporter *exporter, struct MHD_Connection *connection)
{
    const char *accept = header(connection, "Accept");
    struct lent *lent = calloc(1, sizeof(*lent));
    struct MHD_Response *response;
    enum MHD_Result result;

    if (!lent)
        return MHD_NO;
    lent->exporter = exporter;
    pthread_mutex_lock(&exporter->mutex);
    lent->text = exporter_metrics(exporter);
    pthread_mutex_unlock(&exporter->mutex);
    response = lent->text ? MHD_create_response_from_buffer_with_free_callback_cls(
                                lent->text->length, lent->text->bytes, give_back, lent)
                          : NULL;
    if (!response) {
        give_back(lent);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type",
                            accept && strstr(accept, "application/openmetrics-text")
                                ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                : "text/plain; version=0.0.4; charset=utf-8");
    result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- server-sent events ---- */

/* With the mutex: waits for what is to be sent next. False: the exporter ends. */
static bool next_event(struct watcher *watcher)
{
    struct exporter *exporter = watcher->exporter;
    struct timespec until;
    int waited = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += HEARTBEAT_S;
    (void)exporter_view_now(exporter);
    while (!exporter->stopping && waited == 0 && watcher->version == exporter->version)
        waited = pthread_cond_timedwait(&exporter->changed, &exporter->mutex, &until);
    watcher->sent = 0;
    (void)exporter_view_now(exporter);
    if (watcher->version == exporter->version) {
        watcher->before = ": still here\n\n";
        watcher->after = "";
    } else {
        watcher->version = exporter->version;
        watcher->before = "data: ";
        watcher->after = "\n\n";
        watcher->text = exporter_state(exporter);
    }
    return !exporter->stopping;
}

/* Copies what of `part` lies behind `*skip`, which becomes less by what has been passed. */
static size_t copy_part(char *to, size_t room, const char *part, size_t length, size_t *skip)
{
    size_t from = *skip < length ? *skip : length;
    size_t count = length - from < room ? length - from : room;

    *skip -= from;
    if (count)
        memcpy(to, part + from, count);
    return count;
}

static ssize_t read_event(void *arg, uint64_t position, char *buffer, size_t room)
{
    struct watcher *watcher = arg;
    struct exporter *exporter = watcher->exporter;
    size_t skip, count;
    bool goes_on = true;

    (void)position;
    pthread_mutex_lock(&exporter->mutex);
    if (!watcher->before)
        goes_on = next_event(watcher);
    skip = watcher->sent;
    count = copy_part(buffer, room, watcher->before, strlen(watcher->before), &skip);
    if (watcher->text)
        count += copy_part(buffer + count, room - count, watcher->text->bytes,
                           watcher->text->length, &skip);
    count += copy_part(buffer + count, room - count, watcher->after, strlen(watcher->after), &skip);
    watcher->sent += count;
    if (count < room) {
        exporter_text_release(watcher->text);
        watcher->text = NULL;
        watcher->before = NULL;
    }
    pthread_mutex_unlock(&exporter->mutex);
    return goes_on ? (ssize_t)count : MHD_CONTENT_READER_END_OF_STREAM;
}

static void end_watcher(void *arg)
{
    struct watcher *watcher = arg;

    pthread_mutex_lock(&watcher->exporter->mutex);
    exporter_text_release(watcher->text);
    watcher->exporter->watchers--;
    pthread_mutex_unlock(&watcher->exporter->mutex);
    free(watcher);
}

static enum MHD_Result answer_events(struct exporter *exporter, struct MHD_Connection *connection)
{
    struct watcher *watcher;
    struct MHD_Response *response;
    enum MHD_Result result;
    bool is_full;

    pthread_mutex_lock(&exporter->mutex);
    is_full = exporter->watchers == WATCHERS_MAX;
    exporter->watchers += !is_full;
    pthread_mutex_unlock(&exporter->mutex);
    if (is_full)
        return answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                           "as many pages as there may be are open: close one\n");
    watcher = calloc(1, sizeof(*watcher));
    if (!watcher)
        return MHD_NO;
    watcher->exporter = exporter;
    restart_clock(exporter, connection, 0);
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, read_event, watcher,
                                                 end_watcher);
    if (!response) {
        end_watcher(watcher);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- the server ---- */

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state)
{
    struct exporter *exporter = arg;

    (void)version, (void)body, (void)body_size, (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "nothing can be changed here: only GET and HEAD are answered\n");
    if (has_body(connection))
        return answer_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "no body is read here\n");
    if (!is_known_host(exporter, header(connection, "Host")))
        return answer_text(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                           "the exporter is not called like this: name its host with --host, or "
                           "ask by its address\n");
    if (strcmp(url, "/healthz") == 0)
        return answer_health(exporter, connection);
    if (!is_authorized(exporter, connection))
        return answer_text(connection, MHD_HTTP_UNAUTHORIZED,
                           "the token is missing or wrong: give it as bearer token, or as "
                           "password of any user\n");
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(exporter, connection);
    if (strcmp(url, "/events") == 0)
        return answer_events(exporter, connection);
    if (strcmp(url, "/") == 0)
        return answer_page(connection);
    return answer_text(connection, MHD_HTTP_NOT_FOUND, "there are /, /metrics and /healthz here\n");
}

/* What clients do wrong is no news, but for --verbose. */
__attribute__((format(printf, 2, 0))) static void log_line(void *arg, const char *format,
                                                           va_list args)
{
    const struct exporter *exporter = arg;
    char text[400];

    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    if (exporter->settings->verbose)
        cli_complain("%s", text);
}

struct MHD_Daemon *exporter_server_start(struct exporter *exporter, char *cert, char *key)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ERROR_LOG | MHD_USE_ITC | (cert ? MHD_USE_TLS : 0);
    char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, key },
        { MHD_OPTION_HTTPS_PRIORITIES, 0, priorities },
        { MHD_OPTION_END, 0, NULL },
    };
    struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
    for (int i = 0; i < EXPORTER_CONNECTIONS; i++)
        exporter->places[i].fd = -1;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, answer, exporter, MHD_OPTION_EXTERNAL_LOGGER, log_line, exporter,
        MHD_OPTION_LISTEN_SOCKET, exporter->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        EXPORTER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_SIZE, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, exporter,
        MHD_OPTION_NOTIFY_COMPLETED, request_ended, exporter, MHD_OPTION_ARRAY, cert ? tls : none,
        MHD_OPTION_END);

    if (!daemon)
        cli_complain("the server does not start: %s",
                     cert ? "are --tls-cert and --tls-key a certificate and its key, as PEM?"
                          : "no thread or memory is left");
    return daemon;
}
