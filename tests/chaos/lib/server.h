/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis server of a test's own: stopped, killed and talked to at will, and gone with the test. */
#ifndef HF_TESTS_CHAOS_LIB_SERVER_H
#define HF_TESTS_CHAOS_LIB_SERVER_H

#include "test.h"

#define SERVER_BUS_SIZE 8

struct server {
    struct child process;
    int port;
    const char *password; /* NULL: none */
    /* More of the command line, ending with NULL; or NULL. */
    const char *const *arguments;
    /* Among them, if not NULL: the port of its cluster bus, which server_start chooses. */
    char *bus;
    bool stopped; /* it stands still: who asks it waits for long */
    char directory[200];
};

/* Starts one on a free port of this machine, and waits until it answers. Skips the test where there
 * is no redis-server. */
void server_start(struct server *server);
/* Kills it, as a power cut does. Everything in it is gone. */
void server_kill(struct server *server);
/* A new and empty one at the same place. */
void server_start_again(struct server *server);
/* A sentinel on a free port, with these lines of its own in its configuration. */
void server_start_sentinel(struct server *sentinel, const char *lines);
/* It stands still, with its connections open; and goes on. */
void server_stop(struct server *server);
void server_continue(struct server *server);

/* redis://127.0.0.1:PORT?timeout=MS; valid until the thread asks again. */
const char *server_url(const struct server *server, int timeout_ms);

/* The same for a quorum of so many. */
#define QUORUM_SERVERS 3
const char *quorum_url(const struct server *servers, int timeout_ms);

/* A command, words with blanks between them, on a connection of its own. `line` (may be NULL) gets
 * the first line of the answer. False: no connection, or no answer. */
bool server_tell(const struct server *server, const char *command, char *line, size_t size);

/* The same for an answer that is one long text. */
bool server_ask(const struct server *server, const char *command, char *text, size_t size);

/* A number of INFO's section that stands behind `what`; 0, if it says nothing of it. */
long server_counts(const struct server *server, const char *section, const char *what);

/* Does the server answer this line to the command? */
bool server_says(const struct server *server, const char *command, const char *line);
/* Is the key in this database of the server, and not in its first one? */
bool server_has_in(const struct server *server, int database, const char *key);
/* Somebody waits there for replicas (WAIT). */
bool server_awaits_replicas(const struct server *server);

/* A connection that listens to the channel, when it is confirmed; and the next line that comes on
 * it, whatever it is. */
int server_listen(const struct server *server, const char *channel);
/* The same for what is said at this server of a cluster alone. */
int server_listen_sharded(const struct server *server, const char *channel);
bool server_hear(int fd, char *line, size_t size);

/* A port of this machine that nobody listens on, and that nobody gets by chance. */
int free_port(void);
/* Listens on such a port, which is nobody else's from then on. */
int listen_somewhere(int *port);

#endif
