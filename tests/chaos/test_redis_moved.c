/* Clusters that send a client about, played by a server that knows five commands: nothing hangs,
 * and what is asked has a limit. */
#include "conformance.h"
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct counts {
    _Atomic int scripts, asking, maps;
};

struct player {
    struct child process;
    int port;
    struct counts *counts;
    const char *map;    /* what CLUSTER SLOTS is answered; NULL: that it has all slots itself */
    const char *answer; /* to a script; an @ in it is its own port */
    const char *then;   /* to a script after ASKING; NULL: the same */
};

struct visit {
    const struct player *player;
    int fd;
};

/* The command's first two words. False: nobody is there any more. */
static bool read_request(FILE *from, char words[2][20])
{
    char line[40], byte;
    long count, length;

    words[0][0] = words[1][0] = '\0';
    if (!fgets(line, sizeof(line), from) || line[0] != '*')
        return false;
    count = strtol(line + 1, NULL, 10);
    for (long i = 0; i < count; i++) {
        if (!fgets(line, sizeof(line), from) || line[0] != '$')
            return false;
        length = strtol(line + 1, NULL, 10);
        for (long at = 0; at < length + 2; at++) {
            if (fread(&byte, 1, 1, from) != 1)
                return false;
            if (i < 2 && at < length && at < 19) {
                words[i][at] = byte;
                words[i][at + 1] = '\0';
            }
        }
    }
    return true;
}

static const char *answer_to(const struct player *player, char words[2][20], bool *asking,
                             char map[100])
{
    bool asked = *asking;

    *asking = strcmp(words[0], "ASKING") == 0;
    player->counts->asking += *asking;
    if (strcmp(words[0], "CLUSTER") == 0) {
        player->counts->maps++;
        snprintf(map, 100, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n", player->port);
        return player->map ? player->map : map;
    }
    if (strcmp(words[0], "PUBSUB") == 0)
        return "*0\r\n";
    if (strcmp(words[0], "CLIENT") == 0)
        return strcmp(words[1], "ID") == 0 ? ":7\r\n" : "+OK\r\n";
    if (strcmp(words[0], "INFO") == 0)
        return "$0\r\n\r\n";
    if (strncmp(words[0], "EVAL", 4) != 0)
        return "+OK\r\n";
    player->counts->scripts++;
    return asked && player->then ? player->then : player->answer;
}

static void say(const struct visit *visit, const char *answer)
{
    size_t length = strcspn(answer, "@");

    if (answer[length])
        dprintf(visit->fd, "%.*s%d%s", (int)length, answer, visit->player->port,
                answer + length + 1);
    else
        dprintf(visit->fd, "%s", answer);
}

static void *converse(void *arg)
{
    struct visit visit = *(struct visit *)arg;
    FILE *from = fdopen(visit.fd, "r");
    char words[2][20], map[100];
    bool asking = false;

    free(arg);
    while (from && read_request(from, words))
        say(&visit, answer_to(visit.player, words, &asking, map));
    if (from)
        fclose(from);
    return NULL;
}

static void play(void *arg)
{
    const struct player *player = arg;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)player->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 10) == 0);
    parent_say("ready");
    for (;;) {
        struct visit *visit = malloc(sizeof(*visit));
        pthread_t thread;
        CHECK(visit != NULL);
        *visit = (struct visit){ .player = player, .fd = accept(fd, NULL, NULL) };
        CHECK(visit->fd >= 0);
        CHECK(pthread_create(&thread, NULL, converse, visit) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
}

static hf_client *open_on(struct player *player)
{
    hf_client *client = NULL;
    char url[100];

    player->port = free_port();
    player->counts = shared_memory(sizeof(*player->counts));
    child_start(&player->process, play, player);
    child_wait_for(&player->process, "ready");
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d?timeout=%d", player->port,
             5000 * test_slow());
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static void end(struct player *player, hf_client *client)
{
    child_kill(&player->process);
    hf_close(client);
}

/* However long it is: each attempt goes on five times, and then there is a pause. */
TEST(who_is_sent_in_circles_goes_slowly)
{
    struct player player = { .answer = "-MOVED 100 127.0.0.1:@\r\n" };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "MOVED") != NULL);
    CHECK_INT(player.counts->scripts, 6);
    CHECK_CODE(hf_lock(client, "one", 2000, NULL, &hold), HF_UNREACHABLE);
    test_note("%d scripts, %d maps", player.counts->scripts, player.counts->maps);
    CHECK(player.counts->scripts < 400);
    CHECK(player.counts->maps < 100);
    end(&player, client);
}

TEST(an_exception_is_asked_for_and_does_not_change_the_map)
{
    struct player player = { .answer = "-ASK 100 127.0.0.1:@\r\n",
                             .then = "*2\r\n:1\r\n:12345\r\n" };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(player.counts->asking, 1);
    CHECK_INT(player.counts->scripts, 2);
    CHECK_INT(player.counts->maps, 1);
    end(&player, client);
}

TEST(maps_that_are_nonsense_end_nothing_but_the_attempt)
{
    static const char *const maps[] = {
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*3\r\n:-5\r\n:99999999\r\n*2\r\n$4\r\nhost\r\n:99999\r\n",
        "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\n?\r\n:6379\r\n",
        "*1\r\n*3\r\n$1\r\nx\r\n*0\r\n:7\r\n",
        "-ERR something\r\n",
    };
    hf_hold *hold = NULL;

    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        struct player player = { .map = maps[i], .answer = "-MOVED x y\r\n" };
        hf_client *client = open_on(&player);
        CHECK(hf_lock(client, "one", 0, NULL, &hold) != HF_OK);
        test_note("%s", hf_last_error()->text);
        CHECK(strlen(hf_last_error()->text) > 10);
        end(&player, client);
    }
}

TEST(directions_that_are_nonsense_are_not_followed)
{
    static const char *const answers[] = {
        "-MOVED \r\n",
        "-MOVED 99999 127.0.0.1:1\r\n",
        "-MOVED 5 127.0.0.1\r\n",
        "-MOVED 5 127.0.0.1:0\r\n",
        "-MOVED 5 127.0.0.1:123456\r\n",
        "-MOVED 5:1\r\n",
        "-ASK\r\n",
        "-ASK 5 ::\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    };
    hf_hold *hold = NULL;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct player player = { .answer = answers[i] };
        hf_client *client = open_on(&player);
        int code = hf_lock(client, "one", 0, NULL, &hold);
        test_note("%d: %s", code, hf_last_error()->text);
        CHECK(code == HF_UNREACHABLE || code == HF_EINTERNAL);
        end(&player, client);
    }
}
