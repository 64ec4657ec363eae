/* SPDX-License-Identifier: Apache-2.0 */
/* memcached's text protocol, as far as locks need it: replies, one at a time, without a socket. */
#ifndef HF_ENGINES_MEMCACHED_CODEC_H
#define HF_ENGINES_MEMCACHED_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is kept of an item's value, or of the words of a reply. A lock's value is shorter. */
#define MC_VALUE_MAX 511
/* The longest line, and the largest item that a server keeps by default. Another client may have
 * stored one under the name of a lock. */
#define MC_LINE_MAX 2048
#define MC_ITEM_MAX (1u << 20)

enum mc_reply_kind {
    MC_STORED,
    MC_NOT_STORED, /* `add`: there is an item */
    MC_EXISTS,     /* `cas`, `md`: the item has another CAS id (EXISTS, EX) */
    MC_NOT_FOUND,  /* NOT_FOUND, NF */
    MC_DONE,       /* HD: a meta command has been executed; `mg` has found the item */
    MC_VALUE,      /* VA: `mg` has found the item, here is its value */
    MC_MISS,       /* EN: `mg` has found nothing */
    MC_PONG,       /* MN */
    MC_VERSION,
    MC_STAT,    /* one line of `stats`; the value is "NAME WORDS" */
    MC_KEY,     /* one line of `lru_crawler metadump`; the value is the key, percent-encoded */
    MC_END,     /* the end of such lines */
    MC_REFUSED, /* SERVER_ERROR, BUSY: the command is right, and cannot be executed now */
    MC_WRONG    /* ERROR, CLIENT_ERROR: what follows may be out of step */
};

struct mc_reply {
    enum mc_reply_kind kind;
    uint64_t cas; /* 0: the reply has none */
    int64_t ttl;  /* whole seconds; -1: for ever; MC_NO_TTL: the reply has none */
    uint32_t flags;
    bool cut;                     /* the value is longer than what is kept of it */
    size_t length;                /* of `value` */
    char value[MC_VALUE_MAX + 1]; /* ends with a NUL */
};

#define MC_NO_TTL INT64_MIN

/* Reads the first reply of `bytes`. Returns the number of bytes that it takes; 0: it is not there
 * whole; -1: it is none. */
long hf__mc_reply_read(struct mc_reply *reply, const char *bytes, size_t length);

/* What a packet of commands is answered with: for each of them the kinds that a reply to it can
 * have, as bits. At most `most` of them; returns how many there are. */
unsigned hf__mc_expect(const char *packet, unsigned fitting[], unsigned most);
/* Whether the reply is one of the command's. An error that says nothing of memory is none: a proxy
 * passes it on for a server that may have executed the command. */
bool hf__mc_reply_fits(const struct mc_reply *reply, unsigned fitting);

/* The words behind NAME in a line of `stats`. False: the line is about another name. */
bool hf__mc_stat_is(const struct mc_reply *reply, const char *name, const char **words);
/* The same of a number, MC_STAT_MAX at most, which can be calculated with. *ret stays as it is
 * where the line is about another name, or has no number. */
#define MC_STAT_MAX (INT64_C(1) << 50)
void hf__mc_stat_number(const struct mc_reply *reply, const char *name, int64_t *ret);

#endif
