/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for the keys of names that memcached cannot carry as they are. */
#ifndef HF_ENGINES_MEMCACHED_SHA256_H
#define HF_ENGINES_MEMCACHED_SHA256_H

#include <stddef.h>
#include <stdint.h>

void hf__mc_sha256(uint8_t digest[32], const void *bytes, size_t length);

#endif
