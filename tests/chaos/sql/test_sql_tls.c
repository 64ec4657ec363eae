/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to real databases: what is trusted, what is refused and in which words, and that nothing is
 * said in clear text to a server without TLS. */
#include "certificate.h"
#include "conformance.h"
#include "relay.h"
#include "resolver.h"
#include "server.h"
#include "sql_secured.h"

#include <stdio.h>
#include <stdlib.h>

/* The authority "ours", and what it and another one have signed. */
static void make_certificates(void)
{
    certificate_make("ours", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("good", "ours", "IP:127.0.0.1,DNS:localhost", -DAY_S, DAY_S);
    certificate_make("theirs", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("foreign", "theirs", "IP:127.0.0.1,DNS:localhost", -DAY_S, DAY_S);
    certificate_make("elsewhere", "ours", "DNS:elsewhere.example,IP:192.0.2.1", -DAY_S, DAY_S);
    certificate_make("stale", "ours", "IP:127.0.0.1,DNS:localhost", -2 * DAY_S, -DAY_S);
}

static const char *url_of(const char *kind, const char *host, int port, const char *options)
{
    static _Thread_local char url[1000];

    snprintf(url, sizeof(url),
             "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD "@%s:%d/" SQL_SERVER_DATABASE
             "?timeout=%d%s",
             kind, host, port, 3000 * test_slow(), options);
    return url;
}

static const char *trusting(const char *more)
{
    static _Thread_local char option[500];

    snprintf(option, sizeof(option), "&ca=%s%s", temp_path("ours.crt"), more);
    return option;
}

static void check_event(void *arg, const hf_event *event)
{
    (void)arg;
    CHECK(!event->text || !strstr(event->text, SQL_SERVER_PASSWORD));
}

/* What a bare try at the URL answers; its sentence has these words in it, and no password. */
static void meet(const char *url, int code, const char *words)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.on_event = check_event)), HF_OK);
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), code);
    if (code == HF_OK) {
        give_back(hold);
    } else {
        test_note("%s", hf_last_error()->text);
        CHECK(!strstr(hf_last_error()->text, SQL_SERVER_PASSWORD));
        if (!strstr(hf_last_error()->text, words))
            FAIL("\"%s\" is not in \"%s\"", words, hf_last_error()->text);
    }
    hf_close(client);
}

/* What libmariadb reads by itself, if the URL has no password. */
static void write_password_file(const char *more)
{
    FILE *file = fopen(temp_path(".my.cnf"), "w");

    CHECK(file != NULL);
    fprintf(file, "[client]\npassword=" SQL_SERVER_PASSWORD "\n%s", more);
    CHECK(fclose(file) == 0);
    CHECK(setenv("HOME", temp_dir(), 1) == 0);
}

struct attempt {
    const char *shown, *host, *words[2]; /* of MariaDB's library, and of PostgreSQL's */
};

TEST(server_that_cannot_be_trusted_is_refused)
{
    static const struct attempt attempts[] = {
        { "foreign", "127.0.0.1", { "certificate", "certificate verify failed" } },
        { "elsewhere", "127.0.0.1", { "certificate", "does not match host name" } },
        { "elsewhere", "localhost", { "certificate", "does not match host name" } },
        { "stale", "127.0.0.1", { "certificate has expired", "certificate verify failed" } },
    };
    TEST_TIMEOUT(120);
    make_certificates();
    EACH_DATABASE(kind)
    {
        for (size_t i = 0; i < sizeof(attempts) / sizeof(*attempts); i++) {
            const struct attempt *at = &attempts[i];
            struct sql_server server;
            sql_secured_start(&server, *kind, at->shown);
            meet(url_of(*kind, at->host, server.port, trusting("")), HF_DENIED,
                 at->words[strcmp(*kind, "postgres") == 0]);
            meet(url_of(*kind, at->host, server.port, "&tls=insecure"), HF_OK, "");
            sql_server_kill(&server);
        }
    }
}

/* The authority is the right one, and the host is not. */
TEST(password_file_does_not_make_a_server_trusted)
{
    static const char *const shown[] = { "elsewhere", "good" };

    make_certificates();
    for (int i = 0; i < 2; i++) {
        write_password_file(i ? "" : "ssl-verify-server-cert=0\n");
        struct sql_server server;
        char url[1000];
        sql_secured_start(&server, "mariadb", shown[i]);
        snprintf(url, sizeof(url), "mariadb://" SQL_SERVER_USER "@127.0.0.1:%d/%s?%s", server.port,
                 SQL_SERVER_DATABASE, trusting("") + 1);
        meet(url, i ? HF_OK : HF_DENIED, "ssl-verify-server-cert");
        sql_server_kill(&server);
    }
}

TEST(server_that_can_be_trusted_is_used_with_tls)
{
    make_certificates();
    EACH_DATABASE(kind)
    {
        struct sql_server server;
        sql_secured_start(&server, *kind, "good");
        /* The server refuses those that speak in clear text. */
        if (strcmp(*kind, "mariadb") == 0)
            sql_server_says(&server, "SET GLOBAL require_secure_transport = ON;");
        meet(url_of(*kind, "127.0.0.1", server.port, trusting("")), HF_OK, "");
        meet(url_of(*kind, "localhost", server.port, trusting("")), HF_OK, "");
        /* This machine's authorities have not signed it. */
        meet(url_of(*kind, "127.0.0.1", server.port, "&tls=verify"), HF_DENIED, "certificate");
        sql_server_kill(&server);
    }
}

/* A server without TLS, or an intruder that takes it out of what the server says. PostgreSQL is
 * asked whether it has TLS, in eight bytes; MariaDB says so by itself. With tls=insecure, MariaDB's
 * library logs in all the same. */
TEST(server_without_tls_is_refused_and_told_nothing)
{
    make_certificates();
    EACH_DATABASE(kind)
    {
        struct sql_server server;
        struct relay relay = { 0 };
        sql_secured_start(&server, *kind, NULL);
        relay_start(&relay, server.port);
        meet(url_of(*kind, "127.0.0.1", relay.port, trusting("")), HF_DENIED, "tls=off");
        test_note("%s was told %ld bytes", *kind, relay.asked);
        CHECK_INT(relay.asked, strcmp(*kind, "postgres") == 0 ? 8 : 0);
        meet(url_of(*kind, "127.0.0.1", relay.port, "&tls=insecure"), HF_DENIED, "tls=off");
        CHECK_STR(sql_server_says(&server, "SELECT COUNT(*) FROM information_schema.tables "
                                           "WHERE table_name LIKE 'hf\\_%%';"),
                  "0");
        meet(url_of(*kind, "127.0.0.1", relay.port, "&tls=off"), HF_OK, "");
        CHECK(relay.asked > 100);
        relay_stop(&relay);
        sql_server_kill(&server);
    }
}

static const char *named_url(const char *kind, const char *hosts)
{
    static _Thread_local char url[1000];

    snprintf(url, sizeof(url),
             "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD "@%s/" SQL_SERVER_DATABASE
             "?timeout=%d&ca=%s",
             kind, hosts, 2000 * test_slow(), temp_path("ours.crt"));
    return url;
}

/* A mute address accepts connections. MariaDB's library goes through the addresses by itself where
 * it checks a name, and stays with the first that accepts: there only another host of the URL is
 * passed on to. */
TEST(certified_host_behind_mute_one_is_found)
{
    TEST_ALLOW_FD_LEAKS();
    TEST_TIMEOUT(120);
    certificate_make("ours", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("named", "ours", "DNS:store.test,DNS:localhost", -DAY_S, DAY_S);
    EACH_DATABASE(kind)
    {
        struct sql_server server;
        char hosts[100];
        sql_secured_start(&server, *kind, "named");
        snprintf(hosts, sizeof(hosts), "localhost:%d,localhost:%d", mute_port(), server.port);
        meet(named_url(*kind, hosts), HF_OK, "");
        resolver_set(2,
                     (int[]){ strcmp(*kind, "mariadb") ? mute_port() : free_port(), server.port });
        meet(named_url(*kind, "store.test"), HF_OK, "");
        sql_server_kill(&server);
    }
}
