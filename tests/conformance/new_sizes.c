/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with today's header: the sizes of its structs. */
#include "new_sizes.h"

#include <holdfast.h>

const size_t new_client_options_size = sizeof(hf_client_options);
const size_t new_lock_options_size = sizeof(hf_lock_options);
const size_t new_entry_size = sizeof(hf_entry);
