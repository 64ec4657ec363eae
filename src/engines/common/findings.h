/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine's doctor says: facts, dangers, the server's clock, and what could not be asked. */
#ifndef HF_ENGINES_COMMON_FINDINGS_H
#define HF_ENGINES_COMMON_FINDINGS_H

#include "core/engine.h"

/* Clocks that differ by less are as good as the same. */
#define HF_FINDINGS_CLOCK_TOLERANCE_MS 2000

/* On the loop, for as long as the examination is not done. */
struct hf_findings {
    struct hf_oneshot *examination;
    /* Where remarks go; NULL: to the core. */
    void (*add)(struct hf_oneshot *examination, const hf_remark *remark);
};

/* "WHAT: ...": as it is, harmless. */
__attribute__((format(printf, 3, 4))) void
hf__finding_fact(const struct hf_findings *findings, const char *what, const char *format, ...);

/* What is wrong (the format), what may come of it, and what to do. `id` names the danger for
 * scripts, and is listed in the manual. */
__attribute__((format(printf, 5, 6))) void
hf__finding_danger(const struct hf_findings *findings, const char *id, const char *consequence,
                   const char *cure, const char *format, ...);

/* A fact that could not be asked: "WHAT: SUBJECT: not known: BECAUSE". */
void hf__finding_unknown(const struct hf_findings *findings, const char *what, const char *subject,
                         const char *because);
/* A server that could not be asked: the danger "SUBJECT cannot be asked: BECAUSE". */
void hf__finding_not_asked(const struct hf_findings *findings, const char *id, const char *subject,
                           const char *because, const char *consequence, const char *cure);

/* The wall clock of this machine, to compare with a server's. It decides nothing. */
int64_t hf__finding_wall_ms(void);
/* A server's seconds as milliseconds, limited to what can be calculated with: it may lie. */
int64_t hf__finding_ms(int64_t seconds);
/* A server has read its clock (server_ms) at some moment between asked_ms and answered_ms of this
 * machine's wall clock: the fact "its clock", and if it is wrong the danger "clock", with what that
 * means for this store's locks. `whose`: "the server's". */
void hf__finding_clock(const struct hf_findings *findings, const char *whose, int64_t server_ms,
                       int64_t asked_ms, int64_t answered_ms, const char *consequence,
                       const char *cure);

#endif
