/* SPDX-License-Identifier: Apache-2.0 */
/* In place of net/stream.c: connections whose other end is the fuzzer. Each question that is
 * written waits there for its answer, in the order in which they were written. */
#ifndef TESTS_FUZZ_WIRES_H
#define TESTS_FUZZ_WIRES_H

#include <stdbool.h>
#include <stddef.h>

/* Ends what the last input has left, and hears no question of it any more. */
void wires_clear(void);
/* Opens what waits for that. False: nothing did. */
bool wires_open(void);
/* Answers what any server answers alike: greetings, subscriptions, a pulse. False: the oldest
 * question is none of these, or there is none. */
bool wires_answer_usual(void);
/* Is there a question that waits for an answer? */
bool wires_asked(void);
/* The oldest question's answer, in pieces of that length; nothing of it ends the connection. */
void wires_answer(const char *bytes, size_t length, size_t piece);
/* Says it to whoever listens. */
void wires_push(const char *bytes, size_t length, size_t piece);

#endif
