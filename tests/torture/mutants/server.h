/* SPDX-License-Identifier: Apache-2.0 */
/* A real Redis server in the place of the store in memory. */
#ifndef TESTS_TORTURE_MUTANTS_SERVER_H
#define TESTS_TORTURE_MUTANTS_SERVER_H

#include "store.h"

/* To the one behind a redis+unix:// URL; -1: it is not there. */
int server_connect(const char *url);
/* What `script` does to a mutex, by commands of the server's; `question` may be NULL. A server that
 * does not answer ends the process. */
struct store_answer server_ask(int fd, store_script *script, const char *name,
                               const struct store_question *question);

#endif
