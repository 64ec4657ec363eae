/* SPDX-License-Identifier: Apache-2.0 */
/* A name that is in use as another kind of lock. */
#ifndef HF_ENGINES_COMMON_OTHER_KIND_H
#define HF_ENGINES_COMMON_OTHER_KIND_H

#include "core/engine.h"

/* Says what the name is, and what it is not. HF_EKIND. */
int hf__refuse_other_kind(hf_error **error, const char *name, hf_kind there, hf_kind wanted);

#endif
