/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a connection to MySQL or MariaDB: it connects, and executes what it is asked. */
#include "engines/sql/driver/mysql_session.h"

#include "base/testing.h"

#include <errmsg.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A reply that takes longer does not come: the loop has left by then, so this only bounds the life
 * of a thread that it has left without knowing its socket. */
#define READ_TIMEOUT_S 60u
/* A peer that has vanished is noticed after this: idle, then silent probes; or unconfirmed data. */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 3
#define KEEPALIVE_COUNT 3
#define UNCONFIRMED_MS 20000

/* What every session is told first: all that may have another meaning by a server's defaults, or by
 * its init_connect. Nothing is truncated silently, a COMMIT opens no transaction, and every row
 * counts. A wait for a row is short: the engine repeats such a statement. */
static const char *const session_setup[] = {
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ("SET SESSION autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 1, "
     "lock_wait_timeout = 1, wait_timeout = 3600, sql_mode = 'STRICT_ALL_TABLES', "
     "sql_safe_updates = 0, sql_select_limit = 18446744073709551615, "
     "sql_big_selects = 1, unique_checks = 1, group_concat_max_len = 65536, "
     "max_sort_length = 8192"
     "/*M!100100 , max_statement_time = 0 */ /*!50700 , max_execution_time = 0 */"),
    /* With a layout it stays the server's, as the other programs have it that use the table. */
    "SET SESSION time_zone = '+00:00'",
};

/* ---- its memory ---- */

static void free_prepared(struct mysql_session *session)
{
    for (unsigned i = 0; i < SQL_SCRIPTS_MAX; i++) {
        for (unsigned j = 0; session->prepared[i] && j < SQL_STATEMENTS_MAX; j++)
            if (session->prepared[i][j])
                mysql_stmt_close(session->prepared[i][j]);
        free(session->prepared[i]);
        session->prepared[i] = NULL;
    }
}

/* Closing the connection first makes the statements forget it: closing them is silent then. */
static void close_library(struct mysql_session *session)
{
    pthread_mutex_lock(&session->mutex);
    session->fd = -1;
    pthread_mutex_unlock(&session->mutex);
    if (session->mysql)
        mysql_close(session->mysql);
    session->mysql = NULL;
    free_prepared(session);
}

static void free_secret(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void free_jobs(struct hf_link *jobs)
{
    struct hf_link *link;
    while ((link = hf__list_pop(jobs)))
        hf__mysql_job_free(HF_CONTAINER(link, struct mysql_job, link));
}

static void mysql_session_let_go(struct mysql_session *session)
{
    pthread_mutex_lock(&session->mutex);
    bool last = --session->users == 0;
    pthread_mutex_unlock(&session->mutex);
    if (!last)
        return;
    char *texts[] = { session->host, session->socket, session->user, session->database,
                      session->ca,   session->cert,   session->key };
    free_jobs(&session->asked);
    free_jobs(&session->answered);
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    free_secret(session->password);
    if (session->wake >= 0)
        close(session->wake);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

/* ---- connecting ---- */

static void wake_loop(struct mysql_session *session)
{
    if (session->listener)
        uv_async_send(session->listener);
}

static void fail(struct mysql_session *session, const struct sql_failure *why)
{
    pthread_mutex_lock(&session->mutex);
    session->broken = true;
    session->why = *why;
    /* A session that was never ready cannot be lost. */
    if (!session->ready && why->trouble == SQL_LOST) /* mutant: session-was-never-ready */
        session->why.trouble = SQL_NOT_READY;
    wake_loop(session);
    pthread_mutex_unlock(&session->mutex);
}

static void fail_by_library(struct mysql_session *session)
{
    struct sql_failure why;
    hf__mysql_failure(&why, mysql_errno(session->mysql), mysql_sqlstate(session->mysql),
                      mysql_error(session->mysql));
    fail(session, &why);
}

/* The library sets SIGPIPE to be ignored, for the whole process. That is the program's matter. */
static void begin_library(void)
{
    struct sigaction before;
    sigaction(SIGPIPE, NULL, &before);
    mysql_library_init(0, NULL, NULL);
    sigaction(SIGPIPE, &before, NULL);
}

static void set_tls(const struct mysql_session *session)
{
    my_bool yes = 1, verify = session->tls == SQL_TLS_VERIFY;
    if (session->socket || session->tls == SQL_TLS_OFF)
        return;
    mysql_options(session->mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_options(session->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (session->ca)
        mysql_options(session->mysql, MYSQL_OPT_SSL_CA, session->ca);
    if (session->cert)
        mysql_options(session->mysql, MYSQL_OPT_SSL_CERT, session->cert);
    if (session->key)
        mysql_options(session->mysql, MYSQL_OPT_SSL_KEY, session->key);
}

static void set_options(struct mysql_session *session)
{
    my_bool no = 0;
    unsigned off = 0, read_timeout_s = READ_TIMEOUT_S;
    unsigned protocol = session->socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    mysql_options(session->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &session->timeout_s);
    if (!session->waits)
        mysql_options(session->mysql, MYSQL_OPT_READ_TIMEOUT, &read_timeout_s);
    mysql_options(session->mysql, MYSQL_OPT_WRITE_TIMEOUT, &read_timeout_s);
    mysql_options(session->mysql, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(session->mysql, MYSQL_OPT_RECONNECT, &no);
    mysql_options(session->mysql, MYSQL_OPT_LOCAL_INFILE, &off);
    mysql_options(session->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(session->mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "holdfast");
    /* What the URL does not say is looked for in the group [client] of ~/.my.cnf. */
    if (!session->user || !session->password)
        mysql_options(session->mysql, MYSQL_READ_DEFAULT_GROUP, "holdfast");
    set_tls(session);
}

static void set_keepalive(int fd)
{
    int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;
    unsigned unconfirmed = UNCONFIRMED_MS;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unconfirmed, sizeof unconfirmed);
}

/* The loop may have left meanwhile: then the socket is shut down by no thread. */
static bool publish_socket(struct mysql_session *session)
{
    int fd = (int)mysql_get_socket(session->mysql);
    if (!session->socket)
        set_keepalive(fd);
    pthread_mutex_lock(&session->mutex);
    session->fd = fd;
    bool wanted = !session->ended;
    pthread_mutex_unlock(&session->mutex);
    return wanted;
}

/* The session's name is a named lock, so that the client's next session finds this one, and ends
 * it. KILL fails where there is none, which is as good. */
static bool take_name(struct mysql_session *session)
{
    char words[160];
    if (!*session->name || *session->channel)
        return true;
    snprintf(words, sizeof words, "KILL CONNECTION COALESCE(IS_USED_LOCK('%s'), 0)", session->name);
    if (mysql_query(session->mysql, words) != 0 && mysql_errno(session->mysql) >= CR_MIN_ERROR)
        return false;
    snprintf(words, sizeof words, "DO GET_LOCK('%s', 2)", session->name);
    return mysql_query(session->mysql, words) == 0;
}

/* What the library does not tell by an error. Without a certificate to verify it goes on in clear
 * text where the server has no TLS; and ~/.my.cnf is read last, and may turn the check off. */
static const char *why_unprotected(const struct mysql_session *session)
{
    my_bool verifies = 0;
    if (session->socket || session->tls == SQL_TLS_OFF)
        return NULL;
    /* mutant: clear-text-where-tls-is-wanted */
    if (!mysql_get_ssl_cipher(session->mysql))
        return "TLS is required, but the server does not support it";
    mysql_get_option(session->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verifies);
    /* mutant: option-file-undoes-the-check */
    if (session->tls == SQL_TLS_VERIFY && !verifies)
        return "the certificate was not checked: an option file has ssl-verify-server-cert = 0";
    return NULL;
}

static bool is_protected(struct mysql_session *session)
{
    struct sql_failure why = { .trouble = SQL_DENIED };
    const char *words = why_unprotected(session);
    if (!words)
        return true;
    snprintf(why.text, sizeof why.text, "%s", words);
    fail(session, &why);
    return false;
}

static bool connect_session(struct mysql_session *session)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sql_failure why = { .trouble = SQL_NO_MEMORY, .text = "out of memory" };
    pthread_once(&once, begin_library);
    session->mysql = mysql_init(NULL);
    if (!session->mysql) {
        fail(session, &why);
        return false;
    }
    set_options(session);
    bool connected = mysql_real_connect(session->mysql, session->host, session->user,
                                        session->password, session->database, session->port,
                                        session->socket, CLIENT_MULTI_STATEMENTS) != NULL;
    if (connected && (!is_protected(session) || !publish_socket(session)))
        return false;
    size_t count = sizeof session_setup / sizeof *session_setup - session->keeps_time_zone;
    for (size_t i = 0; connected && i < count; i++)
        connected = mysql_query(session->mysql, session_setup[i]) == 0;
    if (!connected || !take_name(session))
        fail_by_library(session);
    else
        snprintf(session->version, sizeof session->version, "%s",
                 mysql_get_server_info(session->mysql));
    return !session->broken;
}

/* ---- working ---- */

/* NULL: there is none, and the thread is idle from now on. Or the loop has left: it closes the
 * connection itself if it has met an idle thread, and leaves that to a busy one. */
static struct mysql_job *take_job(struct mysql_session *session)
{
    struct hf_link *link = NULL;
    pthread_mutex_lock(&session->mutex);
    if (!session->ended) { /* mutant: loop-leaves-as-a-reply-comes */
        link = hf__list_pop(&session->asked);
        session->busy = link != NULL;
    }
    pthread_mutex_unlock(&session->mutex);
    return link ? HF_CONTAINER(link, struct mysql_job, link) : NULL;
}

/* The loop may have left meanwhile, and closed the connection. */
static bool become_busy(struct mysql_session *session)
{
    pthread_mutex_lock(&session->mutex);
    session->busy = !session->ended;
    pthread_mutex_unlock(&session->mutex);
    return session->busy;
}

/* A server says nothing by itself but that it goes. With TLS, it may have said something to the
 * TLS layer alone. */
static bool is_alive(struct mysql_session *session)
{
    if (mysql_ping(session->mysql) == 0)
        return true;
    fail_by_library(session);
    return false;
}

/* NULL: the loop has left, or the server has gone. */
static struct mysql_job *await_job(struct mysql_session *session)
{
    struct mysql_job *job;
    uint64_t count;
    struct pollfd polled[] = { { .fd = session->wake, .events = POLLIN },
                               { .fd = (int)mysql_get_socket(session->mysql), .events = POLLIN } };
    while (!(job = take_job(session))) {
        poll(polled, 2, -1);
        if (polled[0].revents && read(session->wake, &count, sizeof count) < 0)
            continue;
        if (session->ended)
            return NULL;
        if (polled[1].revents && (!become_busy(session) || !is_alive(session)))
            return NULL;
    }
    return job;
}

static void answer(struct mysql_session *session, struct mysql_job *job, bool alive)
{
    pthread_mutex_lock(&session->mutex);
    hf__list_append(&session->answered, &job->link);
    if (!alive) {
        session->broken = true;
        session->why = job->failure;
    }
    wake_loop(session);
    pthread_mutex_unlock(&session->mutex);
}

static void work(struct mysql_session *session)
{
    struct mysql_job *job;
    bool alive = true;
    pthread_mutex_lock(&session->mutex);
    session->ready = true;
    wake_loop(session);
    pthread_mutex_unlock(&session->mutex);
    while (alive && (job = await_job(session))) {
        alive = hf__mysql_execute(session, job);
        answer(session, job, alive);
        HF_POINT("mysql:answered");
    }
}

/* If the loop leaves while the thread is idle, it closes the connection itself, and at once. */
static void *run_session(void *arg)
{
    struct mysql_session *session = arg;
    if (connect_session(session)) {
        if (!*session->channel)
            work(session);
        else if (!hf__mysql_listen(session))
            fail_by_library(session);
    }
    if (session->busy)
        close_library(session);
    mysql_session_let_go(session);
    mysql_thread_end();
    return NULL;
}

/* The thread takes no signals of the program's; SIGPIPE is one that the library causes. */
static bool start_thread(struct mysql_session *session)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&session->thread, NULL, run_session, session);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

/* ---- for the loop ---- */

static bool mysql_session_copy_text(char **to, const char *from)
{
    *to = from ? hf__copy_text(from) : NULL;
    return *to || !from;
}

static bool copy_settings(struct mysql_session *session, const struct sql_settings *settings,
                          const struct sql_place *place)
{
    int64_t limit_ms = place->limit_ms ? place->limit_ms : settings->timeout_ms;
    int64_t timeout_s = (limit_ms + 999) / 1000;
    session->port = place->port;
    session->timeout_s =
        timeout_s < 1 || timeout_s > READ_TIMEOUT_S ? READ_TIMEOUT_S : (unsigned)timeout_s;
    session->tls = settings->tls;
    session->keeps_time_zone = settings->layout != NULL;
    session->waits = settings->sessions > 0;
    return mysql_session_copy_text(&session->host, place->socket ? NULL : place->host) &&
           mysql_session_copy_text(&session->socket, place->socket) &&
           mysql_session_copy_text(&session->user, settings->user) &&
           mysql_session_copy_text(&session->password, settings->password) &&
           mysql_session_copy_text(&session->database, settings->database) &&
           mysql_session_copy_text(&session->ca, settings->ca) &&
           mysql_session_copy_text(&session->cert, settings->cert) &&
           mysql_session_copy_text(&session->key, settings->key);
}

struct mysql_session *hf__mysql_session_open(const struct sql_settings *settings,
                                             const struct sql_place *place, const char *channel,
                                             uv_async_t *listener)
{
    struct mysql_session *session = hf__calloc(1, sizeof *session);
    if (!session)
        return NULL;
    pthread_mutex_init(&session->mutex, NULL);
    session->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hf__link_init(&session->asked);
    hf__link_init(&session->answered);
    /* Letters, digits and '_'. */
    snprintf(session->name, sizeof session->name, "%s", settings->session);
    snprintf(session->channel, sizeof session->channel, "%s", channel ? channel : "");
    session->listener = listener;
    session->fd = -1;
    session->busy = true;
    session->users = 2;
    if (session->wake >= 0 && copy_settings(session, settings, place) && start_thread(session))
        return session;
    session->users = 1;
    mysql_session_let_go(session);
    return NULL;
}

/* The descriptor is full of other wakes, or takes this one. */
static void wake(struct mysql_session *session)
{
    uint64_t one = 1;
    if (write(session->wake, &one, sizeof one) < 0)
        return;
}

void hf__mysql_session_ask(struct mysql_session *session, struct mysql_job *job)
{
    pthread_mutex_lock(&session->mutex);
    hf__list_append(&session->asked, &job->link);
    bool idle = !session->busy;
    pthread_mutex_unlock(&session->mutex);
    if (idle)
        wake(session);
}

/* Says goodbye to the server. Over TLS the library writes without regard to SIGPIPE, and the server
 * may have gone. */
static void close_politely(struct mysql_session *session)
{
    struct timespec now = { 0, 0 };
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    close_library(session);
    if (!sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* On a socket that is shut down no call takes long, so the thread ends at once. A thread that is
 * still connecting may take as long as a name look-up, and is not waited for. */
void hf__mysql_session_leave(struct mysql_session *session)
{
    pthread_mutex_lock(&session->mutex);
    bool idle = !session->busy;
    bool ends_soon = idle || session->fd >= 0 || session->broken;
    session->ended = true;
    session->listener = NULL;
    if (session->fd >= 0 && !idle)
        shutdown(session->fd, SHUT_RDWR);
    pthread_mutex_unlock(&session->mutex);
    wake(session);
    if (idle)
        close_politely(session);
    if (ends_soon)
        pthread_join(session->thread, NULL);
    else
        pthread_detach(session->thread);
    mysql_session_let_go(session);
}

void hf__mysql_session_forked(struct mysql_session *session)
{
    int fd = session->fd;
    if (fd >= 0)
        close(fd);
    session->fd = -1;
}
