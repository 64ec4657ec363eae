/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of a thread that are asked at every call. */
#ifndef HF_BASE_THREAD_LOCAL_H
#define HF_BASE_THREAD_LOCAL_H

#include <features.h>

/* Found without a function call. glibc keeps some room for such variables of a library that is
 * loaded late; musl refuses to load it. */
#ifdef __GLIBC__
#define HF_THREAD_LOCAL_NEAR __attribute__((tls_model("initial-exec")))
#else
#define HF_THREAD_LOCAL_NEAR
#endif

#endif
