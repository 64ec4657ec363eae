/* What inspecting says of holders: whose token it shows. The store keeps the last one of a name,
 * and not whose it is. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

#define THEIRS "12345678-1234-4123-8123-123456789012:7"

static struct server server;

static hf_client *open_with(const char *options)
{
    char url[160];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "%s%s", server_url(&server, 20000), options);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static uint64_t token_shown(hf_client *client, const char *name)
{
    const struct picture *picture = look(client, name);

    CHECK_INT(picture->holders, 1);
    return find_role(picture, HF_ROLE_HOLDER, 0)->token;
}

static void tell(const char *command)
{
    CHECK(server_says(&server, command, ":1"));
}

TEST(ours_are_shown_with_their_tokens)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };
    server_start(&server);
    hf_client *client = open_with("");

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        hf_hold *hold = take(client, "one", modes[i], 0);
        CHECK(hf_token(hold) > 0 || modes[i] == HF_READ);
        CHECK(token_shown(client, "one") == hf_token(hold));
        give_back(hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* The last token is that of a lock that was given back long ago. */
TEST(javas_are_shown_without_a_token_of_ours)
{
    server_start(&server);
    hf_client *client = open_with("");

    give_back(take(client, "one", HF_MUTEX, 0));
    tell("HSET one " THEIRS " 1");
    CHECK_INT(token_shown(client, "one"), 0);
    CHECK(look(client, "one")->seen[0].token > 0);
    tell("DEL one");
    give_back(take(client, "one", HF_WRITE, 0));
    CHECK(server_says(&server, "HSET one mode write " THEIRS ":write 1", ":2"));
    CHECK_INT(token_shown(client, "one"), 0);
    hf_close(client);
    server_kill(&server);
}

TEST(who_wants_no_token_is_shown_without_one)
{
    server_start(&server);
    hf_client *client = open_with(""), *unfenced = open_with("&fence=off");

    give_back(take(client, "one", HF_MUTEX, 0));
    hf_hold *hold = take(unfenced, "one", HF_MUTEX, 0);
    CHECK_INT(token_shown(client, "one"), 0);
    give_back(hold);
    hf_close(unfenced);
    hf_close(client);
    server_kill(&server);
}

TEST(a_plain_lock_of_others_is_shown_without_a_token)
{
    server_start(&server);
    hf_client *client = open_with("&format=simple");
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    CHECK(token_shown(client, "one") == hf_token(hold));
    give_back(hold);
    CHECK(server_says(&server, "SET one theirs NX PX 60000", "+OK"));
    CHECK_INT(token_shown(client, "one"), 0);
    hf_close(client);
    server_kill(&server);
}
