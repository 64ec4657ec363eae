/* SPDX-License-Identifier: Apache-2.0 */
/* A mix of everything that can be asked of the embedded engine, by the public interface. */
#ifndef TESTS_CRASH_MIX_H
#define TESTS_CRASH_MIX_H

#include <holdfast.h>

#include <stdatomic.h>
#include <stdint.h>

#define MIX_NAMES 8

/* In shared memory: what a victim has seen, for those who live on. */
struct mix_seen {
    _Atomic uint64_t token[MIX_NAMES]; /* the largest that was granted of each name */
};

/* "local:" on this directory. The text lives as long as the process. */
const char *mix_url(const char *directory);

/* A client on it; the test fails if it does not open. */
hf_client *mix_open(const char *directory);

/* The name of lock `i`: of all lengths, and each used as one kind of thing. */
const char *mix_name(int i);

/* Once, before the first round. */
void mix_prepare(void);

/* One round of everything, alone or among others. Whatever is refused is refused; what must work
 * does, else the test fails. */
void mix_round(hf_client *client, struct mix_seen *seen);

/* So many names with one place that the file grows. Part of a round. */
void mix_crowd(hf_client *client);

/* Two threads that hand each lock to and fro, so that there are waiters, offers and wakes. */
void mix_contend(hf_client *one, hf_client *other, struct mix_seen *seen);

/* Each name can be locked, and its token has risen. */
void mix_goes_on(hf_client *client, struct mix_seen *seen);

#endif
