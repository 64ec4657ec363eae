/* SPDX-License-Identifier: Apache-2.0 */
/* The words for kinds, verbs and modes. */
#include "torture/history/history_file.h"

const char *torture_kind_name(enum torture_kind kind)
{
    static const char *const names[TORTURE_KINDS] = {
        [TORTURE_NOTHING] = "nothing",
        [TORTURE_LOCK] = "lock",
        [TORTURE_CLIENT] = "client",
        [TORTURE_INVOKE] = "invoke",
        [TORTURE_OK] = "ok",
        [TORTURE_REFUSED] = "refused",
        [TORTURE_UNKNOWN] = "unknown",
        [TORTURE_ENQUEUED] = "enqueued",
        [TORTURE_STILL] = "still",
        [TORTURE_LOST] = "lost",
        [TORTURE_CRASH] = "crash",
        [TORTURE_FAULT_ON] = "fault_on",
        [TORTURE_FAULT_HIT] = "fault_hit",
        [TORTURE_FAULT_OFF] = "fault_off",
        [TORTURE_HEALED] = "healed",
        [TORTURE_AUDIT] = "audit",
        [TORTURE_NOTE] = "note",
    };
    return (unsigned)kind < TORTURE_KINDS ? names[kind] : "?";
}

const char *torture_verb_name(enum torture_verb verb)
{
    static const char *const names[TORTURE_VERBS] = {
        [TORTURE_NO_VERB] = "none",
        [TORTURE_ACQUIRE] = "acquire",
        [TORTURE_TRY] = "try",
        [TORTURE_RELEASE] = "release",
        [TORTURE_RENEW] = "renew",
        [TORTURE_UPGRADE] = "upgrade",
        [TORTURE_DOWNGRADE] = "downgrade",
        [TORTURE_COUNT_DOWN] = "count_down",
        [TORTURE_AWAIT] = "await",
        [TORTURE_LOOK] = "look",
        [TORTURE_WRITE] = "write",
    };
    return (unsigned)verb < TORTURE_VERBS ? names[verb] : "?";
}

const char *torture_mode_name(enum torture_kind kind, unsigned mode)
{
    static const char *const forms[TORTURE_FORMS] = { "mutex", "rw", "semaphore", "latch" };
    static const char *const shares[] = { "exclusive", "shared", "upgradable" };
    if (kind == TORTURE_LOCK)
        return mode < TORTURE_FORMS ? forms[mode] : "?";
    return mode < sizeof shares / sizeof *shares ? shares[mode] : "?";
}
