/* SPDX-License-Identifier: Apache-2.0 */
/* memcached's protocol, from the server's side: one item, and lies. */
#include "memcached_script.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct talk {
    struct memcached_script *script;
    FILE *in, *out;
};

static bool lie(struct talk *talk, const char *line)
{
    struct memcached_script *script = talk->script;

    if (script->lies <= 0 || strncmp(line, script->word, strlen(script->word)) != 0)
        return false;
    script->lies--;
    script->told++;
    fputs(script->reply, talk->out);
    return true;
}

/* One lock at a time is all that the tests have: there is no second item. */
static void store(struct talk *talk, const char *line, bool lied)
{
    struct memcached_script *script = talk->script;
    char verb[10], key[300], value[600];
    unsigned long long cas = 0;

    if (!fgets(value, sizeof(value), talk->in))
        return;
    value[strcspn(value, "\r\n")] = 0;
    CHECK(sscanf(line, "%9s %299s %*u %*d %*u %llu", verb, key, &cas) >= 2);
    if (lied)
        return;
    if (key[0] == '%') {
        fputs("STORED\r\n", talk->out);
    } else if (verb[0] == 'a' && script->key[0]) {
        fputs("NOT_STORED\r\n", talk->out);
    } else if (verb[0] == 'c' && (cas != script->cas || !script->key[0])) {
        fputs("EXISTS\r\n", talk->out);
    } else {
        memcpy(script->key, key, sizeof(key));
        memcpy(script->value, value, sizeof(value));
        script->cas++;
        fputs("STORED\r\n", talk->out);
    }
}

static void look(struct talk *talk, const char *key)
{
    struct memcached_script *script = talk->script;
    char id[30];

    snprintf(id, sizeof(id), "c%llu ", (unsigned long long)script->cas);
    if (strcmp(key, "%hf.clock") == 0)
        fprintf(talk->out, "HD t%lld\r\n", 2592000 - (long long)monotonic_ms() / 1000);
    else if (strcmp(key, script->key) == 0)
        fprintf(talk->out, "VA %zu %st30\r\n%s\r\n", strlen(script->value),
                script->id ? script->id : id, script->value);
    else
        fputs("EN\r\n", talk->out);
}

static void delete_item(struct talk *talk, const char *key)
{
    struct memcached_script *script = talk->script;

    if (strcmp(key, script->key) == 0) {
        script->key[0] = 0;
        fputs("HD\r\n", talk->out);
    } else {
        fputs("NF\r\n", talk->out);
    }
}

static void reply_to(struct talk *talk, const char *line)
{
    char verb[20] = "", key[300] = "";
    bool lied = lie(talk, line);

    talk->script->asked++;
    sscanf(line, "%19s %299s", verb, key);
    if (strcmp(verb, "add") == 0 || strcmp(verb, "cas") == 0 || strcmp(verb, "set") == 0 ||
        strcmp(verb, "append") == 0)
        store(talk, line, lied);
    else if (lied)
        return;
    else if (strcmp(verb, "mg") == 0)
        look(talk, key);
    else if (strcmp(verb, "md") == 0)
        delete_item(talk, key);
    else if (strcmp(verb, "version") == 0)
        fputs("VERSION 1.6.18\r\n", talk->out);
    else if (strcmp(verb, "stats") == 0)
        fputs("STAT uptime 1000\r\nSTAT time 1700000000\r\nSTAT cas_enabled yes\r\nEND\r\n",
              talk->out);
    else
        fputs("ERROR\r\n", talk->out);
}

static void *talk_on(void *arg)
{
    struct talk *talk = arg;
    char line[700];

    while (fgets(line, sizeof(line), talk->in)) {
        reply_to(talk, line);
        fflush(talk->out);
    }
    fclose(talk->in);
    fclose(talk->out);
    free(talk);
    return NULL;
}

static void serve(void *arg)
{
    struct memcached_script *script = arg;
    pthread_t id;

    for (;;) {
        int fd = accept(script->listener, NULL, NULL);
        if (fd < 0)
            return;
        CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) == 0);
        struct talk *talk = malloc(sizeof(*talk));
        CHECK(talk != NULL);
        *talk = (struct talk){ script, fdopen(fd, "r"), fdopen(dup(fd), "w") };
        CHECK(talk->in && talk->out && pthread_create(&id, NULL, talk_on, talk) == 0);
        pthread_detach(id);
    }
}

void memcached_script_start(struct memcached_script *script)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);

    /* The listener, and connections whose threads are about to see their ends. */
    TEST_ALLOW_FD_LEAKS();
    script->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(script->listener, (struct sockaddr *)&address, size) == 0);
    CHECK(listen(script->listener, 16) == 0);
    CHECK(getsockname(script->listener, (struct sockaddr *)&address, &size) == 0);
    script->port = ntohs(address.sin_port);
    thread_start(&script->thread, serve, script);
}
