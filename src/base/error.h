/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: the one list of codes, and the calling thread's last sentence. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include <holdfast.h>

#include <stdarg.h>
#include <stdint.h>

/* Fills *error (NULL is fine) and returns `code`, so that it can end a function. */
__attribute__((format(printf, 4, 5))) int hf__error_set(hf_error *error, int code, int native,
                                                        const char *format, ...);
__attribute__((format(printf, 4, 0))) int hf__error_vset(hf_error *error, int code, int native,
                                                         const char *format, va_list arguments);

/* The length of the UTF-8 sequence at the beginning of `text`, which a zero ends; 0: it is none. */
size_t hf__utf8_length(const char *text);

/* "1 permit", "2 permits": what the noun ends with. */
static inline const char *hf__plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* What hf_last_error returns: written by the public entry points only. NULL: there is no memory for
 * it, and hf_last_error says that. */
hf_error *hf__error_last(void);
void hf__error_keep(const hf_error *error);

#endif
