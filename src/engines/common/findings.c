/* SPDX-License-Identifier: Apache-2.0 */
/* Remarks of an engine's doctor, in the form that the core takes. */
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define FINDING_SIZE 600
/* As far as times are taken for true, to either side. */
#define FARTHEST_MS (INT64_C(1) << 60)

static void add_finding(const struct hf_findings *findings, const hf_remark *remark)
{
    if (findings->add)
        findings->add(findings->examination, remark);
    else
        hf__oneshot_remark(findings->examination, remark);
}

void hf__finding_fact(const struct hf_findings *findings, const char *what, const char *format, ...)
{
    char value[FINDING_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    add_finding(findings, &(hf_remark){ .size = sizeof(hf_remark), .what = what, .value = value });
}

void hf__finding_danger(const struct hf_findings *findings, const char *id, const char *consequence,
                        const char *cure, const char *format, ...)
{
    char what[FINDING_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    add_finding(findings, &(hf_remark){ .size = sizeof(hf_remark),
                                        .what = what,
                                        .consequence = consequence,
                                        .cure = cure,
                                        .id = id });
}

void hf__finding_unknown(const struct hf_findings *findings, const char *what, const char *subject,
                         const char *because)
{
    hf__finding_fact(findings, what, "%s: not known: %s", subject, because);
}

void hf__finding_not_asked(const struct hf_findings *findings, const char *id, const char *subject,
                           const char *because, const char *consequence, const char *cure)
{
    hf__finding_danger(findings, id, consequence, cure, "%.280s cannot be asked: %.240s", subject,
                       because);
}

int64_t hf__finding_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t limit(int64_t number, int64_t most)
{
    return number > most ? most : number < -most ? -most : number;
}

int64_t hf__finding_ms(int64_t seconds)
{
    return limit(seconds, FARTHEST_MS / 1000) * 1000;
}

void hf__finding_clock(const struct hf_findings *findings, const char *whose, int64_t server_ms,
                       int64_t asked_ms, int64_t answered_ms, const char *consequence,
                       const char *cure)
{
    server_ms = limit(server_ms, FARTHEST_MS);
    int64_t ahead = server_ms - answered_ms, behind = asked_ms - server_ms;
    /* mutant: clock-that-is-behind-is-right */
    int64_t off = ahead > 0 ? ahead : behind > 0 ? behind : 0;
    const char *how = ahead > 0 ? "ahead of" : behind > 0 ? "behind" : "off";
    hf__finding_fact(findings, "its clock", "%lld.%03lld s %s this machine's",
                     (long long)off / 1000, (long long)off % 1000, how);
    if (off >= HF_FINDINGS_CLOCK_TOLERANCE_MS)
        hf__finding_danger(findings, "clock", consequence, cure,
                           "%s clock is %lld s %s this machine's", whose, (long long)off / 1000,
                           how);
}
