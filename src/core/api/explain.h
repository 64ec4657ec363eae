/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a code into the sentence that the caller reads, and tells the program what happens. */
#ifndef HF_CORE_API_EXPLAIN_H
#define HF_CORE_API_EXPLAIN_H

#include "core/claim/claim.h"

#include <stdarg.h>

/* Fills *error (NULL is fine) with the engine's words, or with what the code means for `name`. That
 * is the store's name, or NULL: for nothing in particular. The sentence has it without the URL's
 * prefix. */
void hf__answer_explain(const struct hf_client *client, hf_error *error, const char *name,
                        const struct hf_answer *answer);

/* The same unless the code is HF_OK. Frees the engine's words, and returns the code. */
int hf__answer_settle(const struct hf_client *client, const char *name, struct hf_answer *answer,
                      hf_error *error);

/* The same into hf_last_error. For public functions: while the call is counted in, since it reads
 * the client. */
int hf__answer_return(const struct hf_client *client, const char *name, struct hf_answer *answer);

/* Takes the URL's prefix out of quoted names in a sentence. */
void hf__unprefix(const struct hf_client *client, char *text);

/* Fails a public call with a sentence. */
__attribute__((format(printf, 2, 3))) int hf__answer_fail(int code, const char *format, ...);

/* What the store has to say for itself: an answer to any question, or silence, and what is known of
 * its reason; NULL: nothing. Any thread. */
void hf__client_heard(struct hf_client *client, bool answered, const hf_error *why);

#endif
