/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a ZooKeeper server that speaks with the library's codec and nothing else of it:
 * it makes nodes with rights of their own, and ends other clients' sessions. */
#ifndef HF_TESTS_CHAOS_LIB_ZOOKEEPER_RAW_H
#define HF_TESTS_CHAOS_LIB_ZOOKEEPER_RAW_H

#include "test.h"

#include "engines/zookeeper/wire/codec.h"

struct zookeeper_raw {
    int fd;
    struct zk_frames frames;
};

/* A session of its own. */
void raw_begin(struct zookeeper_raw *raw, int port);
void raw_end(struct zookeeper_raw *raw);
/* A node that stays, which anybody has these rights to. */
void raw_make(struct zookeeper_raw *raw, const char *path, int rights);
/* Anybody has these rights to the node from now on. */
void raw_allow(struct zookeeper_raw *raw, const char *path, int rights);
/* The session of the first node below `path`; 0: there is none. */
int64_t raw_session_below(struct zookeeper_raw *raw, const char *path);
/* Deletes the first node below `path`; false: there is none. */
bool raw_delete_below(struct zookeeper_raw *raw, const char *path);
/* Ends somebody else's session, as its own client could. */
void raw_end_session(int port, int64_t session);

#endif
