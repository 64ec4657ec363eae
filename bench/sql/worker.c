/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one way to lock by a database. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

const char *worker_socket;
unsigned worker_port;
const struct session_ops *worker_sessions;

static const struct session_ops *const databases[] = {
#ifdef HF_SQL_MYSQL
    &mysql_sessions,
#endif
#ifdef HF_SQL_POSTGRES
    &postgres_sessions,
#endif
};

int main(int count, char **arguments)
{
    static const struct subject *const subjects[] = { &bare,      &session_lock, &unique_key,
                                                      &eager_key, &polled,       &threaded,
                                                      &driven,    &single,       &lone,
                                                      NULL };
    static const struct worker worker = { .subjects = subjects,
                                          .more_arguments = 3,
                                          .usage = "mariadb|postgres SOCKET PORT " };
    const char *database = count == 6 ? arguments[3] : "";
    for (unsigned i = 0; i < sizeof databases / sizeof *databases; i++)
        if (strcmp(databases[i]->database, database) == 0)
            worker_sessions = databases[i];
    if (!worker_sessions)
        die("no such database in this build");
    worker_socket = arguments[4];
    worker_port = (unsigned)strtoul(arguments[5], NULL, 10);
    return worker_run(&worker, count, arguments);
}
