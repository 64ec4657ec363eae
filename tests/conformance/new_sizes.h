/* SPDX-License-Identifier: Apache-2.0 */
/* How large structs of today's header are, for a program that is compiled with an older one. */
#ifndef TESTS_CONFORMANCE_NEW_SIZES_H
#define TESTS_CONFORMANCE_NEW_SIZES_H

#include <stddef.h>

extern const size_t new_client_options_size, new_lock_options_size, new_entry_size;

#endif
