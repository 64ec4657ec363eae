/* SPDX-License-Identifier: Apache-2.0 */
/* A database server that takes no writes any more, as the former primary after a failover: the next
 * server of the URL is used, no other owner is let in, and the lock works again when writes do. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>

/* PostgreSQL takes the order at once, and obeys it a moment later: it has told all sessions when a
 * new one knows. */
static void set_read_only(const struct sql_server *server, bool on)
{
    const char *word = on ? "on" : "off";

    if (strcmp(server->kind, "mariadb") == 0) {
        sql_server_says(server, "SET GLOBAL read_only = %d;", on);
        return;
    }
    sql_server_says(server,
                    "ALTER SYSTEM SET default_transaction_read_only = '%s';"
                    "SELECT pg_reload_conf();",
                    word);
    EVENTUALLY(strcmp(sql_server_says(server, "SHOW default_transaction_read_only;"), word) == 0,
               SOON_MS);
}

static hf_client *open_at(const char *url, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
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
        const char *url = sql_server_url(&server, server.port);
        hf_client *client = open_at(url, 600000);
        hf_hold *hold = take_watched(client, "one", &losses);
        set_read_only(&server, true);
        hf_client *other = open_at(url, 600000);
        check_refusal(client);
        check_refusal(other);
        CHECK_CODE(hf_lock_async(other, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
                   HF_OK);
        set_read_only(&server, false);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        CHECK_INT(losses, 0);
        CHECK(hf_held(hold));
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
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
        hf_hold *hold = NULL;

        for (int i = 0; i < 2; i++)
            sql_server_start(&servers[i], *kind);
        snprintf(url, sizeof(url),
                 "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD
                 "@127.0.0.1:%d,127.0.0.1:%d/" SQL_SERVER_DATABASE,
                 *kind, servers[0].port, servers[1].port);
        hf_client *client = open_at(url, 600000);
        for (int i = 0; i < 4; i++) {
            set_read_only(&servers[i % 2], false);
            set_read_only(&servers[!(i % 2)], true);
            CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
            const char *owners = "SELECT COUNT(*) FROM hf_lock WHERE owner IS NOT NULL;";
            CHECK_STR(sql_server_says(&servers[i % 2], "%s", owners), "1");
            give_back(hold);
            CHECK_STR(sql_server_says(&servers[i % 2], "%s", owners), "0");
        }
        hf_close(client);
        for (int i = 0; i < 2; i++)
            sql_server_kill(&servers[i]);
    }
}
