/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of a test's own: authorities, and what they sign. */
#ifndef HF_TESTS_CHAOS_LIB_CERTIFICATE_H
#define HF_TESTS_CHAOS_LIB_CERTIFICATE_H

#define DAY_S 86400L

/* Makes NAME.crt and NAME.key in the test's directory, valid from `from_s` to `until_s` seconds
 * from now, for a subject such as "IP:127.0.0.1" or "DNS:localhost". `authority` is the name of one
 * that signs it; NULL: it is one itself. */
void certificate_make(const char *name, const char *authority, const char *subject, long from_s,
                      long until_s);

#endif
