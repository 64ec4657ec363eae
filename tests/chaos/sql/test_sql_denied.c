/* SPDX-License-Identifier: Apache-2.0 */
/* An account of a database that lacks a right which only waiters need, or a release. */
#include "conformance.h"
#include "relay.h"
#include "sql_server.h"

#include <stdlib.h>
#include <string.h>

/* Far beyond the end of any test: nothing goes by itself. */
#define LEASE_MS 600000

/* `rights` is "GRANT UPDATE" or the like. PostgreSQL's tables belong to the account, so they have
 * to be there first. What MariaDB grants on a table holds at once, also in open sessions. */
static void change_rights(const struct sql_server *server, const char *rights, const char *table)
{
    const char *to = strncmp(rights, "GRANT", 5) == 0 ? "TO" : "FROM";

    if (!sql_server_is_mariadb(server)) {
        sql_server_says(server, "%s ON %s %s " SQL_SERVER_USER ";", rights, table, to);
        return;
    }
    for (const char *const *host = (const char *const[]){ "%", "localhost", NULL }; *host; host++)
        sql_server_says(server, "%s ON " SQL_SERVER_DATABASE ".%s %s '" SQL_SERVER_USER "'@'%s';",
                        rights, table, to, *host);
}

static void make_tables(const struct sql_server *server)
{
    hf_client *client = sql_open(server, server->port, 0, 0);

    give_back(take_patiently(client, "one"));
    hf_close(client);
}

/* So that one right on one table can be revoked. */
static void grant_by_table(const struct sql_server *server)
{
    static const char *const tables[] = { "hf_lock", "hf_hold", "hf_wait" };

    for (int i = 0; i < 3; i++)
        change_rights(server, "GRANT SELECT, INSERT, UPDATE, DELETE", tables[i]);
    if (sql_server_is_mariadb(server))
        change_rights(server, "REVOKE ALL PRIVILEGES", "*");
}

TEST(waiter_that_may_not_delete_its_place_is_told_that_it_is_denied)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        hf_hold *hold = NULL;
        sql_server_start(&server, *kind);
        make_tables(&server);
        change_rights(&server, "REVOKE DELETE", sql_server_is_mariadb(&server) ? "*" : "hf_wait");
        hf_client *client = sql_open(&server, server.port, 0, 0);
        hf_client *other = sql_open(&server, server.port, 0, 0);
        hf_hold *held = take_patiently(client, "one");
        CHECK_CODE(hf_lock(other, "one", SOON_MS, NULL, &hold), HF_DENIED);
        test_note("%s", hf_last_error()->text);
        CHECK(strstr(hf_last_error()->text, "check user, password and privileges") != NULL);
        CHECK(hf_held(held));
        hf_unlock_nowait(held);
        hf_close(client);
        hf_close(other);
        sql_server_kill(&server);
    }
}

static long refusals(const struct sql_server *server)
{
    if (!sql_server_is_mariadb(server))
        return sql_server_logged(server, "permission denied");
    return strtol(sql_server_says(server, "SELECT variable_value FROM "
                                          "information_schema.global_status WHERE variable_name = "
                                          "'ACCESS_DENIED_ERRORS';"),
                  NULL, 10);
}

/* The reply to its attempt is lost, so it is released; and that is refused for a while. */
TEST(release_of_an_unheard_grant_that_is_refused_is_asked_again)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        struct relay relay = { 0 };
        struct outcome outcome = { 0 };
        sql_server_start(&server, *kind);
        make_tables(&server);
        grant_by_table(&server);
        relay_start(&relay, server.port);
        hf_client *client = sql_open(&server, relay.port, SOON_MS, LEASE_MS);
        hf_client *other = sql_open(&server, server.port, 0, 0);
        give_back(take_patiently(client, "one"));
        relay_swallow(&relay);
        CHECK_CODE(hf_lock_async(client, "one", 0, NULL, record_outcome, &outcome, NULL), HF_OK);
        EVENTUALLY(holders(other, "one") == 1, SOON_MS);
        long before = refusals(&server);
        change_rights(&server, "REVOKE UPDATE", "hf_lock");
        relay_cut(&relay);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_UNREACHABLE);
        EVENTUALLY(refusals(&server) > before, SOON_MS);
        CHECK_INT(holders(other, "one"), 1);
        change_rights(&server, "GRANT UPDATE", "hf_lock");
        EVENTUALLY(holders(other, "one") == 0, SOON_MS);
        hf_close(client);
        hf_close(other);
        relay_stop(&relay);
        sql_server_kill(&server);
    }
}

TEST(release_that_is_refused_is_denied_and_leaves_the_lock)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };

        sql_server_start(&server, *kind);
        make_tables(&server);
        grant_by_table(&server);
        hf_client *client = sql_open(&server, server.port, SOON_MS, LEASE_MS);
        hf_client *other = sql_open(&server, server.port, 0, 0);
        hf_hold *hold = take_patiently(client, "one");
        change_rights(&server, "REVOKE UPDATE", "hf_lock");
        CHECK_ERROR(hf_unlock(hold), HF_DENIED);
        CHECK_INT(holders(other, "one"), 1);
        hf_close(client);
        hf_close(other);
        sql_server_kill(&server);
    }
}
