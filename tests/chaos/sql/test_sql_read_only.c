/* SPDX-License-Identifier: Apache-2.0 */
/* A database server that takes no writes any more, as the former primary after a failover: the next
 * server of the URL is used, no other owner is let in, and the lock works again when writes do. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>

/* Far beyond the end of any test: nothing goes by itself. */
#define LEASE_MS 600000

/* PostgreSQL takes the order at once, and obeys it a moment later: it has told all sessions when a
 * new one knows. */
static void set_read_only(const struct sql_server *server, bool on)
{
    const char *word = on ? "on" : "off";

    if (sql_server_is_mariadb(server)) {
        sql_server_says(server, "SET GLOBAL read_only = %d;", on);
        return;
    }
    sql_server_says(server,
                    "ALTER SYSTEM SET default_transaction_read_only = '%s';"
                    "SELECT pg_reload_conf();",
                    word);
    EVENTUALLY(sql_server_shows(server, "SHOW default_transaction_read_only;", word), SOON_MS);
}

/* For a new session, and for one that is there. */
static void check_refusal(hf_client *client)
{
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "two", 0, NULL, &hold), HF_UNREACHABLE);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, "read-only") != NULL ||
          strstr(hf_last_error()->text, "read only") != NULL);
    CHECK(strstr(hf_last_error()->text, "name the primary server in the URL as well") != NULL);
}

TEST(read_only_server_is_refused_and_used_again_when_it_takes_writes)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        struct outcome outcome = { 0 };
        _Atomic int losses = 0;

        sql_server_start(&server, *kind);
        hf_client *client = sql_open(&server, server.port, 0, LEASE_MS);
        hf_hold *hold = take_watched(client, "one", &losses);
        set_read_only(&server, true);
        hf_client *other = sql_open(&server, server.port, 0, LEASE_MS);
        check_refusal(client);
        check_refusal(other);
        begin_wait(other, "one", HF_MUTEX, &outcome);
        set_read_only(&server, false);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        CHECK_INT(losses, 0);
        CHECK(hf_held(hold));
        give_back(hold);
        give_back(await_grant(&outcome));
        hf_close(client);
        hf_close(other);
        sql_server_kill(&server);
    }
}

/* Both are servers by themselves: the second one knows nothing of the first one's locks. */
TEST(next_server_of_the_url_is_used_when_one_becomes_read_only)
{
    EACH_DATABASE(kind)
    {
        struct sql_server servers[2] = { { 0 }, { 0 } };
        char url[200];
        hf_client *client = NULL;
        hf_hold *hold = NULL;

        for (int i = 0; i < 2; i++)
            sql_server_start(&servers[i], *kind);
        snprintf(url, sizeof(url),
                 "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD
                 "@127.0.0.1:%d,127.0.0.1:%d/" SQL_SERVER_DATABASE,
                 *kind, servers[0].port, servers[1].port);
        CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
        for (int i = 0; i < 4; i++) {
            set_read_only(&servers[i % 2], false);
            set_read_only(&servers[!(i % 2)], true);
            CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
            const char *owners = "SELECT COUNT(*) FROM hf_lock WHERE owner IS NOT NULL;";
            CHECK(sql_server_shows(&servers[i % 2], owners, "1"));
            give_back(hold);
            CHECK(sql_server_shows(&servers[i % 2], owners, "0"));
        }
        hf_close(client);
        for (int i = 0; i < 2; i++)
            sql_server_kill(&servers[i]);
    }
}
