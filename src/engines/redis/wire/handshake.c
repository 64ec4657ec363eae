/* SPDX-License-Identifier: Apache-2.0 */
/* What is said first on each connection: our identity, which database, and that the connection
 * before this one is dead. That one may still have requests of ours in the server's buffers; a
 * request that is executed after its answer was given up could leave something behind. A server
 * that was started anew has none of that, and may have given the old connection's number to a
 * stranger. */
#include "engines/redis/redis.h"
#include "engines/redis/show/client_names.h"

#include <string.h>

static void handshake_greet(struct connection *connection, struct command *command,
                            void (*answered)(struct connection *, struct redis_request *,
                                             const redisReply *))
{
    struct redis_request *request = hf__request_new(connection->redis);
    if (!request) {
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a request");
        return;
    }
    request->answered = answered;
    hf__connection_write(connection, request, command);
}

static void must_be_ok(struct connection *connection, struct redis_request *request,
                       const redisReply *reply)
{
    hf__request_free(connection->redis, request);
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return;
    int code = hf__reply_code(reply);
    if (code == HF_EINTERNAL)
        code = HF_DENIED;
    hf__peer_break(&connection->peer, code, 0, "it refuses the greeting: %.150s", reply->str);
}

/* Before version 6 there are no users, and the words are others. */
static void authenticated(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    const char *said = hf__reply_text(reply), *why = NULL;
    if (hf__reply_says(reply, "WRONGPASS") || strstr(said, "invalid password"))
        why = connection->redis->settings.user
                  ? "the user name or the password is wrong, or that user is off"
                  : "the password is wrong";
    else if (strstr(said, "without any password configured") || strstr(said, "no password is set"))
        why = "the URL has a password, and the server has none";
    if (why)
        hf__peer_break(&connection->peer, HF_DENIED, 0, "%s: %.150s", why, said);
    must_be_ok(connection, request, reply);
}

static void last_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    hf__request_free(connection->redis, request);
    if (!reply)
        return;
    int64_t id = hf__reply_number(reply);
    if (hf__reply_says(reply, "NOAUTH")) {
        hf__peer_break(&connection->peer, HF_DENIED, 0, "it wants a password: %.150s", reply->str);
        return;
    }
    connection->server_id = id > 0 ? (uint64_t)id : 0;
    if (!connection->peer.failing)
        hf__connection_greeted(connection);
}

static void authenticate(struct connection *connection)
{
    const struct redis_settings *settings = &connection->redis->settings;
    struct command command;
    if (!settings->password)
        return;
    hf__command_begin(&command, "AUTH");
    if (settings->user)
        hf__command_add(&command, settings->user, strlen(settings->user));
    hf__command_add(&command, settings->password, strlen(settings->password));
    handshake_greet(connection, &command, authenticated);
}

/* A server has 16 databases, or as many as its configuration says: the URL is wrong. */
static void selected(struct connection *connection, struct redis_request *request,
                     const redisReply *reply)
{
    const char *said = hf__reply_text(reply);
    if (strstr(said, "out of range") || strstr(said, "invalid DB index"))
        hf__peer_break(&connection->peer, HF_EINVAL, 0, "this server has no database %u: %.150s",
                       (unsigned)connection->redis->settings.database, said);
    must_be_ok(connection, request, reply);
}

static void select_database(struct connection *connection)
{
    struct command command;
    if (!connection->redis->settings.database)
        return;
    hf__command_begin(&command, "SELECT");
    hf__command_number(&command, connection->redis->settings.database);
    handshake_greet(connection, &command, selected);
}

static void say_name(struct connection *connection)
{
    const struct redis *redis = connection->redis;
    char name[REDIS_CONNECTION_NAME_SIZE];
    struct command command;
    hf__client_names_write_name(name, redis->uuid, redis->base.host->owner_text);
    hf__command_begin(&command, "CLIENT");
    hf__command_print(&command, "SETNAME");
    hf__command_print(&command, "%s", name);
    handshake_greet(connection, &command, hf__request_ignored);
}

static void role_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    bool master = hf__reply_is_array(reply, 1) && hf__reply_says(reply->element[0], "master");
    hf__request_free(connection->redis, request);
    if (reply && reply->type == REDIS_REPLY_ERROR)
        hf__peer_break(&connection->peer, hf__reply_code(reply), 0,
                       "whether it is the master cannot be asked: %.100s", reply->str);
    else if (reply && !master)
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0, "it is no master");
}

/* What sentinels say may be old. */
static void ask_role(struct connection *connection)
{
    struct command command;
    if (!connection->redis->settings.master)
        return;
    hf__command_begin(&command, "ROLE");
    handshake_greet(connection, &command, role_answered);
}

/* Where the user may not call CLIENT, it is not known whether the last connection has ended. */
static void kill_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    bool killed =
        reply && (reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_INTEGER);
    connection->last_one_ended = killed || strstr(hf__reply_text(reply), "No such client");
    hf__request_free(connection->redis, request);
}

static void kill_last_one(struct connection *connection)
{
    struct command command;
    hf__command_begin(&command, "CLIENT");
    hf__command_print(&command, "KILL");
    hf__command_print(&command, "ID");
    hf__command_print(&command, "%llu", (unsigned long long)connection->server_id);
    handshake_greet(connection, &command, kill_answered);
}

static void sharded_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply)
{
    hf__request_free(connection->redis, request);
    /* An older server does not know the request ("Unknown", or "unknown", subcommand); one that is
     * busy, or full, says nothing about it. A missing password is told of at last. */
    bool unknown = hf__reply_says(reply, "ERR") && strstr(hf__reply_text(reply), "nknown");
    /* mutant: busy-node-knows-no-channels */
    if (reply && (reply->type == REDIS_REPLY_ARRAY || unknown))
        connection->redis->sharded = reply->type == REDIS_REPLY_ARRAY;
    else if (hf__reply_says(reply, "NOPERM"))
        hf__peer_break(&connection->peer, HF_DENIED, 0, "in a cluster a user needs PUBSUB: %.150s",
                       reply->str);
    else if (reply && !hf__reply_says(reply, "NOAUTH")) /* mutant: owner-lacks-cluster-password */
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0, "%.150s", hf__reply_text(reply));
}

/* Before version 7 all messages went to all servers; Redisson asks in the same way. */
static void ask_channels(struct connection *connection)
{
    struct command command;
    if (!connection->redis->cluster)
        return;
    hf__command_begin(&command, "PUBSUB");
    hf__command_print(&command, "SHARDNUMSUB");
    handshake_greet(connection, &command, sharded_answered);
}

static void ask_id(struct connection *connection)
{
    struct command command;
    hf__command_begin(&command, "CLIENT");
    hf__command_print(&command, "ID");
    handshake_greet(connection, &command, last_answered);
}

/* A server that does not say which run of itself it is may be the same as before. */
static void run_answered(struct connection *connection, struct redis_request *request,
                         const redisReply *reply)
{
    char before[sizeof connection->server_run], mode[16];
    hf__request_free(connection->redis, request);
    if (!reply || connection->peer.failing)
        return;
    memcpy(before, connection->server_run, sizeof before);
    hf__reply_info(reply, "run_id", connection->server_run, sizeof connection->server_run);
    if (strcmp(hf__reply_server_mode(reply, mode, sizeof mode), "sentinel") == 0) {
        hf__peer_break(&connection->peer, HF_ENOTSUP, 0,
                       "this is a Sentinel, which keeps no locks; the URL for it is "
                       "redis+sentinel://HOST:PORT/MASTER");
        return;
    }
    if (!connection->server_id)
        return;
    connection->last_one_ended =
        *before && *connection->server_run && strcmp(before, connection->server_run) != 0;
    if (connection->last_one_ended) /* mutant: number-of-earlier-run-is-taken */
        connection->server_id = 0;
    else
        kill_last_one(connection); /* mutant: connection-before-this-one */
    ask_id(connection);
}

/* Only a connection with an older one to kill waits for the answer. */
static void ask_run(struct connection *connection)
{
    struct command command;
    hf__command_begin(&command, "INFO");
    hf__command_print(&command, "server");
    handshake_greet(connection, &command, run_answered);
    if (!connection->server_id)
        ask_id(connection);
}

void hf__handshake_begin(struct connection *connection)
{
    connection->last_one_ended = false;
    authenticate(connection);
    select_database(connection);
    ask_role(connection);
    ask_channels(connection);
    say_name(connection);
    ask_run(connection);
}
