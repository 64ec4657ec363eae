/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking client of ZooKeeper's, no more than a benchmark needs: what is asked is written in one
 * go, and answered in the order of asking. Whatever goes wrong ends the program. */
#ifndef HF_BENCH_ZOOKEEPER_WIRE_H
#define HF_BENCH_ZOOKEEPER_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { WIRE_CREATE = 1, WIRE_DELETE = 2, WIRE_GET_DATA = 4, WIRE_LIST = 8, WIRE_CREATE2 = 15 };
enum { WIRE_EVENT = -1, WIRE_PLACE = 3 /* ephemeral, sequential */ };

struct wire {
    int stream;
    int32_t last_xid;
    size_t out_length, frame_at, in_length, in_at, in_room;
    unsigned char out[1 << 16], *in;
};

struct wire_answer {
    int32_t xid, error;
    const unsigned char *body; /* lives until the next answer is read */
    size_t length;
};

/* `address`: "HOST:PORT". */
struct wire *wire_open(const char *address);
/* Each puts one question more into what wire_flush sends. */
void wire_create(struct wire *wire, int operation, const char *path, const char *data, int flags);
void wire_delete(struct wire *wire, const char *path);
void wire_list(struct wire *wire, const char *path);
void wire_watch(struct wire *wire, const char *path);
void wire_flush(struct wire *wire);
struct wire_answer wire_next(struct wire *wire);
/* The next answer, which has to be one without an error, and no event. */
struct wire_answer wire_good(struct wire *wire);
/* The first text in an answer. */
void wire_text(const struct wire_answer *answer, char *text, size_t size);

#endif
