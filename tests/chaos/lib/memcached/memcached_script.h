/* SPDX-License-Identifier: Apache-2.0 */
/* A server that speaks memcached's protocol as far as locks need it, and lies on demand. */
#ifndef HF_TESTS_CHAOS_LIB_MEMCACHED_SCRIPT_H
#define HF_TESTS_CHAOS_LIB_MEMCACHED_SCRIPT_H

#include "test.h"

struct memcached_script {
    int port;
    /* Commands that begin with this word get this reply, which may be several lines; NULL: none
     * does. Set before `lies`. */
    const char *word, *reply;
    _Atomic int lies;       /* how many such replies are left */
    _Atomic int told;       /* how many there were */
    _Atomic int asked;      /* commands that were read */
    const char *_Atomic id; /* shown in place of the item's CAS id; NULL: it is shown */
    int listener;
    struct thread thread;
    /* The one item that it knows, but for the clock. */
    char key[300], value[600];
    _Atomic uint64_t cas;
};

/* On a free port of this machine. Each connection is served by a thread, until the test ends. */
void memcached_script_start(struct memcached_script *script);

#endif
