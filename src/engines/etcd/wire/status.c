/* SPDX-License-Identifier: Apache-2.0 */
/* What a status of etcd means, and what to do about it: the one place that knows. */
#include "engines/etcd/etcd.h"

#include <string.h>

struct meaning {
    int status;
    const char *words; /* that its text has; NULL: any text */
    enum etcd_word word;
    int code;
    const char *what, *cure;
};

#define NO_RIGHTS                                                                                  \
    HF_DENIED, "it refuses this user",                                                             \
        "a lock needs a role with the permission readwrite on its prefix"
#define NO_USER                                                                                    \
    HF_DENIED, "it serves authenticated users only",                                               \
        "name one, as in etcd://user:password@host, or show a certificate"
#define OTHER_USERS HF_UNREACHABLE, "its users have just been changed", "try again"
#define TOO_MUCH HF_UNREACHABLE, "it has too much to do just now", "try again later"
#define NOT_NOW HF_UNREACHABLE, "it cannot answer now", "try again later"
#define LEARNER HF_UNREACHABLE, "it is a learner", "name members that vote"
#define UNKNOWN_ERROR                                                                              \
    HF_EINTERNAL, "it answers with an unknown error", "please report it with the server's version"

/* The first that fits. A server may reply with an error to what it executes all the same: its time
 * is over, its leader has changed, it stops, or a proxy has lost its connection. So a refusal is in
 * this list, and where other programs use the status, too, by its text. */
static const struct meaning meanings[] = {
    { HF_GRPC_PERMISSION_DENIED, NULL, ETCD_REFUSED, NO_RIGHTS },
    { HF_GRPC_INVALID_ARGUMENT, "user name is empty", ETCD_TOKEN, NO_USER },
    { HF_GRPC_UNAUTHENTICATED, NULL, ETCD_TOKEN, NO_USER },
    { HF_GRPC_INVALID_ARGUMENT, "auth store is old", ETCD_TOKEN, OTHER_USERS },
    { HF_GRPC_UNKNOWN, "revision in header is old", ETCD_TOKEN, OTHER_USERS },
    { HF_GRPC_INVALID_ARGUMENT, "authentication failed", ETCD_REFUSED, HF_DENIED,
      "the user or the password is wrong", "compare the URL with the users of this cluster" },
    { HF_GRPC_FAILED_PRECONDITION, "authentication is not enabled", ETCD_REFUSED, HF_DENIED,
      "it has no users, as authentication is switched off", "take user and password off the URL" },
    /* The one that reaches the quota is executed. */
    { HF_GRPC_RESOURCE_EXHAUSTED, "space exceeded", ETCD_FULL, HF_ELIMIT,
      "its database is full (the alarm NOSPACE)",
      "compact and defragment it, raise the quota, and disarm the alarm" },
    { HF_GRPC_RESOURCE_EXHAUSTED, ETCD_STREAMS_OPTION, ETCD_REFUSED, HF_ELIMIT,
      "it serves too few calls of a client at a time", "raise its option " ETCD_STREAMS_OPTION },
    /* etcd 3.4 has no status of its own for that. */
    { HF_GRPC_RESOURCE_EXHAUSTED, "too many requests", ETCD_BUSY, TOO_MUCH },
    { HF_GRPC_UNKNOWN, "too many requests", ETCD_BUSY, TOO_MUCH },
    { HF_GRPC_UNKNOWN, "proposal dropped", ETCD_BUSY, NOT_NOW },
    { HF_GRPC_UNAVAILABLE, "etcdserver: no leader", ETCD_ELSEWHERE, NOT_NOW },
    { HF_GRPC_UNAVAILABLE, "learner", ETCD_ELSEWHERE, LEARNER },
    { HF_GRPC_FAILED_PRECONDITION, "learner", ETCD_ELSEWHERE, LEARNER },
    { HF_GRPC_NOT_FOUND, "lease not found", ETCD_REFUSED, HF_UNREACHABLE, "our session has ended",
      "try again" },
    { HF_GRPC_FAILED_PRECONDITION, "lease already exists", ETCD_REFUSED, UNKNOWN_ERROR },
    { HF_GRPC_INVALID_ARGUMENT, "etcdserver: ", ETCD_REFUSED, UNKNOWN_ERROR },
    { HF_GRPC_OUT_OF_RANGE, "etcdserver: ", ETCD_REFUSED, UNKNOWN_ERROR },
    { HF_GRPC_UNIMPLEMENTED, NULL, ETCD_REFUSED, HF_ENOTSUP, "it does not know this request",
      "etcd 3.4 is the oldest that will do" },
    { HF_GRPC_DATA_LOSS, "corrupt cluster", ETCD_REFUSED, HF_ECORRUPT,
      "its members differ (the alarm CORRUPT)", "mend the cluster, and disarm the alarm" },
    { HF_GRPC_UNAVAILABLE, NULL, ETCD_OPEN, NOT_NOW },
    { HF_GRPC_RESOURCE_EXHAUSTED, NULL, ETCD_OPEN, TOO_MUCH },
    { HF_GRPC_DEADLINE_EXCEEDED, NULL, ETCD_OPEN, HF_UNREACHABLE, "it did not answer in time",
      "try again later" },
    { HF_GRPC_CANCELLED, NULL, ETCD_OPEN, HF_UNREACHABLE, "it has dropped the request",
      "try again later" },
};

static const struct meaning *meaning_of(int status, const char *text)
{
    static const struct meaning unknown = { 0,
                                            NULL,
                                            ETCD_OPEN,
                                            HF_UNREACHABLE,
                                            "it answers with an error of its own",
                                            "the request may have been done or not" };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == status && (!meanings[i].words || strstr(text, meanings[i].words)))
            return &meanings[i];
    return &unknown;
}

struct etcd_reply hf__etcd_reply_of(const struct hf_grpc_call *call)
{
    struct etcd_reply reply = { .word = call->heard ? ETCD_OPEN : ETCD_UNSENT,
                                .status = call->status,
                                .by_server = call->answered,
                                .text = call->text };
    if (call->answered && call->status != HF_GRPC_OK)
        /* mutant: etcd-open-error-is-no-reply */
        reply.word = meaning_of(call->status, call->text)->word;
    return reply;
}

int hf__etcd_explain(struct etcd *etcd, const struct etcd_reply *reply, hf_error **error)
{
    if (!reply->by_server) {
        /* Only what was refused before anything was sent is a word of the store. */
        bool refused = etcd->why_code == HF_DENIED || etcd->why_code == HF_ELIMIT;
        int code = reply->word == ETCD_UNSENT && refused ? etcd->why_code : HF_UNREACHABLE;
        if (strncmp(reply->text, "etcd at", 7) == 0)
            hf__explain(error, code, 0, "%s", reply->text);
        else
            hf__explain(error, code, 0, "etcd at %.200s: %s", etcd->settings.servers.shown,
                        reply->text);
        return code;
    }
    const struct meaning *meaning = meaning_of(reply->status, reply->text);
    hf__explain(error, meaning->code, reply->status, "etcd at %.120s: %s; %s (%.80s)",
                etcd->settings.servers.shown, meaning->what, meaning->cure, reply->text);
    return meaning->code;
}

bool hf__etcd_is_lease_gone(const struct etcd_reply *reply)
{
    return reply->word == ETCD_REFUSED && reply->status == HF_GRPC_NOT_FOUND;
}
