/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications between clients of MySQL and MariaDB, which have none of their own.
 *
 * A client that waits has a second session, which holds the client's channel as a named lock and
 * waits in the server. A client that hands a lock over looks up by the name which session that is,
 * and ends its wait (KILL QUERY), for which the same user needs no privilege. The name is looked
 * up in the statement that kills, so no other session is hit. A notification says nothing but that
 * there is something to look for, and it may be lost: between two waits, where the clients have
 * different users, or where they speak to different servers. */
#include "engines/sql/driver/mysql_session.h"

#include "base/testing.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

/* The server looks every few seconds whether a waiting client is still there. */
#define WAIT_S 20

/* ---- notifying ---- */

void hf__mysql_notify_later(struct mysql_session *session, const char *channel, size_t length)
{
    char *to = session->channels[session->channel_count];
    if (session->channel_count == MYSQL_CHANNELS_MAX || length >= MYSQL_NAME_SIZE)
        return;
    memcpy(to, channel, length);
    to[length] = '\0';
    for (unsigned i = 0; i < session->channel_count; i++)
        if (strcmp(session->channels[i], to) == 0)
            return;
    session->channel_count++;
}

static bool mysql_notify_is_plain(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static void notify(struct mysql_session *session, const char *channel)
{
    char words[200];
    HF_POINT("sql:message");
    snprintf(words, sizeof words, "KILL QUERY COALESCE(IS_USED_LOCK('%s'), 0)", channel);
    /* That no session has the name, or another user's has, is no matter. */
    if (mysql_notify_is_plain(channel) && mysql_query(session->mysql, words) != 0)
        return;
}

void hf__mysql_notify(struct mysql_session *session)
{
    for (unsigned i = 0; i < session->channel_count; i++)
        notify(session, session->channels[i]);
    session->channel_count = 0;
}

/* ---- hearing ---- */

static bool run(struct mysql_session *session, const char *words)
{
    MYSQL_RES *result;
    if (mysql_query(session->mysql, words) != 0)
        return false;
    result = mysql_store_result(session->mysql);
    if (result)
        mysql_free_result(result);
    return true;
}

static void mysql_notify_tell(struct mysql_session *session, bool ready)
{
    pthread_mutex_lock(&session->mutex);
    session->ready = true;
    session->heard = session->heard || !ready;
    if (session->listener)
        uv_async_send(session->listener);
    pthread_mutex_unlock(&session->mutex);
}

/* A former session of this client may have the name: it is ended. */
static bool take_channel(struct mysql_session *session)
{
    char words[200];
    snprintf(words, sizeof words, "KILL CONNECTION COALESCE(IS_USED_LOCK('%s'), 0)",
             session->channel);
    if (!run(session, words) && mysql_errno(session->mysql) != ER_NO_SUCH_THREAD)
        return false;
    snprintf(words, sizeof words, "DO GET_LOCK('%s', 5)", session->channel);
    return run(session, words);
}

/* Waits for the name that the client's other session has. SLEEP would do, but all sleeps of a
 * server share a mutex, and KILL waits for that: up to seconds. Ended by a notification, the wait
 * is an error or NULL, by the kind of server. */
static bool wait_once(struct mysql_session *session, bool *interrupted)
{
    char words[100];
    MYSQL_RES *result;
    MYSQL_ROW row;
    HF_POINT("sql:message");
    snprintf(words, sizeof words, "SELECT GET_LOCK('%s', %d)", session->name, WAIT_S);
    *interrupted = false;
    if (mysql_query(session->mysql, words) == 0) {
        result = mysql_store_result(session->mysql);
        row = result ? mysql_fetch_row(result) : NULL;
        bool in_time = row && !(row[0] && row[0][0] == '1');
        *interrupted = row && !row[0];
        if (result)
            mysql_free_result(result);
        if (in_time)
            return true;
        if (row)
            return false; /* the other session has gone */
    }
    *interrupted = mysql_errno(session->mysql) == ER_QUERY_INTERRUPTED;
    return *interrupted;
}

bool hf__mysql_listen(struct mysql_session *session)
{
    bool interrupted;
    if (!take_channel(session))
        return false;
    mysql_notify_tell(session, true);
    while (wait_once(session, &interrupted)) {
        if (session->ended)
            return true;
        if (interrupted)
            mysql_notify_tell(session, false);
    }
    return false;
}
