/* SPDX-License-Identifier: Apache-2.0 */
/* A database server with TLS. */
#ifndef HF_TESTS_CHAOS_LIB_SQL_SECURED_H
#define HF_TESTS_CHAOS_LIB_SQL_SECURED_H

#include "sql_server.h"

/* Starts one that shows the certificate that certificate_make has made by that name; NULL: without
 * TLS. */
void sql_secured_start(struct sql_server *server, const char *kind, const char *name);

#endif
