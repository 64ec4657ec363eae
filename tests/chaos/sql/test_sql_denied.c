/* SPDX-License-Identifier: Apache-2.0 */
/* An account of a database that lacks a right which only those need that wait. */
#include "conformance.h"
#include "sql_server.h"

/* PostgreSQL's tables belong to the account, so they have to be there first. */
static void revoke_delete(const struct sql_server *server)
{
    if (!sql_server_is_mariadb(server)) {
        sql_server_says(server, "REVOKE DELETE ON hf_wait FROM " SQL_SERVER_USER ";");
        return;
    }
    for (const char *const *host = (const char *const[]){ "%", "localhost", NULL }; *host; host++)
        sql_server_says(
            server, "REVOKE DELETE ON " SQL_SERVER_DATABASE ".* FROM '" SQL_SERVER_USER "'@'%s';",
            *host);
}

TEST(waiter_that_may_not_delete_its_place_is_told_that_it_is_denied)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        hf_hold *hold = NULL;
        sql_server_start(&server, *kind);
        hf_client *client = sql_open(&server, server.port, 0, 0);
        give_back(take_patiently(client, "one"));
        hf_close(client);
        revoke_delete(&server);
        client = sql_open(&server, server.port, 0, 0);
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
