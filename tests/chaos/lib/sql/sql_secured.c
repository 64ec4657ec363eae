/* SPDX-License-Identifier: Apache-2.0 */
/* Giving a database server the certificate that a test has made. */
#include "sql_secured.h"

#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* PostgreSQL has an account of its own, and wants its key to be for that account alone. */
static void give_key(const char *name)
{
    struct passwd *account = getpwnam("postgres");
    const char *path = temp_path("%s.key", name);

    CHECK(chmod(path, 0600) == 0);
    if (account && geteuid() == 0)
        CHECK(chown(path, account->pw_uid, account->pw_gid) == 0);
}

void sql_secured_start(struct sql_server *server, const char *kind, const char *name)
{
    static char words[2][500];
    bool is_mariadb = strcmp(kind, "mariadb") == 0;

    *server = (struct sql_server){ .port = 0 };
    if (name) {
        snprintf(words[0], sizeof(words[0]), "%s%s",
                 is_mariadb ? "--ssl-cert=" : "ssl_cert_file=", temp_path("%s.crt", name));
        snprintf(words[1], sizeof(words[1]), "%s%s",
                 is_mariadb ? "--ssl-key=" : "ssl_key_file=", temp_path("%s.key", name));
        const char *const mariadb[] = { words[0], words[1] };
        const char *const postgres[] = { "-c", "ssl=on", "-c", words[0], "-c", words[1] };
        if (is_mariadb)
            memcpy(server->options, mariadb, sizeof(mariadb));
        else
            memcpy(server->options, postgres, sizeof(postgres));
        give_key(name);
    }
    sql_server_start(server, kind);
}
