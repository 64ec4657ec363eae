/* SPDX-License-Identifier: Apache-2.0 */
/* A memcached server of a test's own: stopped, killed, filled and talked to at will. */
#ifndef HF_TESTS_CHAOS_LIB_MEMCACHED_SERVER_H
#define HF_TESTS_CHAOS_LIB_MEMCACHED_SERVER_H

#include "test.h"

struct memcached_server {
    struct child process;
    int port;
    /* More of the command line, ending with NULL; or NULL. */
    const char *const *arguments;
};

/* Starts one on a free port of this machine, and waits until it answers. Skips the test where there
 * is no memcached. */
void memcached_start(struct memcached_server *server);
/* Kills it: everything in it is gone. */
void memcached_kill(struct memcached_server *server);
/* A new and empty one at the same place. */
void memcached_start_again(struct memcached_server *server);
/* It stands still, with its connections open; and goes on. */
void memcached_stop(struct memcached_server *server);
void memcached_continue(struct memcached_server *server);
/* Stops the main thread alone: the clock stands still and nothing is accepted, but the connections
 * that are open are served. The calling thread is the one that starts it again. False: this system
 * lets no process trace another. */
bool memcached_stop_clock(struct memcached_server *server);
void memcached_start_clock(struct memcached_server *server);

/* memcached://127.0.0.1:PORT?timeout=MS; valid until the thread asks again. */
const char *memcached_url(int port, int timeout_ms);

/* One command on a connection of its own. `line` gets the first line of the reply. False: there is
 * none. */
bool memcached_tell(const struct memcached_server *server, const char *command, char *line,
                    size_t size);
/* Is there an item with this key? */
bool memcached_has(const struct memcached_server *server, const char *key);
/* The bytes of an item's value. */
size_t memcached_size(const struct memcached_server *server, const char *key);
/* A number of the server's `stats`. */
long long memcached_count(const struct memcached_server *server, const char *name);
/* Stores items, each as large as one of `size` bytes whose key has 6, until the key is gone, or
 * there are `most` of them. */
void memcached_fill(const struct memcached_server *server, size_t size, const char *key, int most);

#endif
