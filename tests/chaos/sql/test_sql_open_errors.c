/* SPDX-License-Identifier: Apache-2.0 */
/* What a proxy or a pooler answers when its database has not replied: the database may have
 * committed the transaction all the same. */
#include "open_errors.h"
#include "sql_server.h"

#include <stdio.h>

#define LEASE_MS 3000
/* COM_QUERY, COM_STMT_EXECUTE. */
#define EXECUTING "\x03\x17"

struct packet {
    char bytes[200];
    size_t length;
};

/* An ERR packet, which is the first one behind the request. */
static struct packet write_mysql_error(unsigned code, const char *state, const char *words)
{
    struct packet packet = { .length = 0 };
    int length = snprintf(packet.bytes + 7, sizeof(packet.bytes) - 7, "#%s%s", state, words);

    packet.length = 7 + (size_t)length;
    packet.bytes[0] = (char)(length + 3);
    packet.bytes[3] = 1;
    packet.bytes[4] = (char)0xff;
    packet.bytes[5] = (char)(code & 0xff);
    packet.bytes[6] = (char)(code >> 8);
    return packet;
}

/* ErrorResponse, and ReadyForQuery behind it. */
static struct packet write_postgres_error(const char *state, const char *words)
{
    static const char ready[] = { 'Z', 0, 0, 0, 5, 'I' };
    struct packet packet = { .length = 0 };
    int length = snprintf(packet.bytes + 5, sizeof(packet.bytes) - 5, "SERROR%cVERROR%cC%s%cM%s%c",
                          0, 0, state, 0, words, 0) +
                 1;

    packet.bytes[0] = 'E';
    packet.bytes[4] = (char)(length + 4);
    packet.length = 5 + (size_t)length;
    memcpy(packet.bytes + packet.length, ready, sizeof(ready));
    packet.length += sizeof(ready);
    return packet;
}

static void meet_error(const char *kind, const struct packet *error, const char *word)
{
    struct sql_server server = { 0 };
    struct relay relay = { .liable = strcmp(kind, "mariadb") == 0 ? EXECUTING : NULL };

    sql_server_start(&server, kind);
    relay_start(&relay, server.port);
    struct open_errors scene = { .relay = &relay,
                                 .client = sql_open(&server, relay.port, 0, LEASE_MS),
                                 .direct = sql_open(&server, server.port, 0, LEASE_MS),
                                 .error = error->bytes,
                                 .length = error->length,
                                 .word = word,
                                 .looks = 1 };
    open_errors_are_missing_replies(&scene);
    open_error_of_a_renewal_is_no_loss(&scene, LEASE_MS);
    hf_close(scene.client);
    hf_close(scene.direct);
    relay_stop(&relay);
    sql_server_kill(&server);
}

TEST(mysql_error_that_leaves_open_whether_it_was_executed_is_no_reply)
{
    struct packet lost =
        write_mysql_error(2013, "HY000", "Lost connection to MySQL server during query");
    struct packet proxy = write_mysql_error(9001, "HY000", "Max connect timeout reached");

    TEST_TIMEOUT(120);
    /* Some versions of the client library say instead that the packet is malformed: no server may
     * use the library's numbers. */
    meet_error("mariadb", &lost, "HY000");
    meet_error("mariadb", &proxy, "Max connect timeout");
}

TEST(postgres_error_that_leaves_open_whether_it_was_executed_is_no_reply)
{
    struct packet pooler = write_postgres_error("08P01", "server conn crashed?");
    struct packet internal = write_postgres_error("XX000", "the backend did not reply");

    TEST_TIMEOUT(120);
    meet_error("postgres", &pooler, "server conn crashed");
    meet_error("postgres", &internal, "did not reply");
}
