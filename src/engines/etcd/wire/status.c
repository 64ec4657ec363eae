/* SPDX-License-Identifier: Apache-2.0 */
/* What a status of etcd means, and what to do about it. */
#include "engines/etcd/etcd.h"

#include <string.h>

struct meaning {
    int status;
    const char *words; /* that its text has; NULL: any text */
    int code;
    const char *what, *cure;
};

#define NO_RIGHTS                                                                                  \
    HF_DENIED, "it refuses this user",                                                             \
        "a lock needs a role with the permission readwrite on its prefix"
#define NO_USER                                                                                    \
    HF_DENIED, "it serves authenticated users only",                                               \
        "name one, as in etcd://user:password@host, or show a certificate"

/* The first that fits. */
static const struct meaning meanings[] = {
    { HF_GRPC_PERMISSION_DENIED, NULL, NO_RIGHTS },
    { HF_GRPC_INVALID_ARGUMENT, "user name is empty", NO_USER },
    { HF_GRPC_INVALID_ARGUMENT, "authentication failed", HF_DENIED,
      "the user or the password is wrong", "compare the URL with the users of this cluster" },
    { HF_GRPC_UNAUTHENTICATED, NULL, NO_USER },
    { HF_GRPC_FAILED_PRECONDITION, "authentication is not enabled", HF_DENIED,
      "it has no users, as authentication is switched off", "take user and password off the URL" },
    { HF_GRPC_RESOURCE_EXHAUSTED, "space exceeded", HF_ELIMIT,
      "its database is full (the alarm NOSPACE)",
      "compact and defragment it, raise the quota, and disarm the alarm" },
    { HF_GRPC_RESOURCE_EXHAUSTED, NULL, HF_UNREACHABLE, "it has too much to do just now",
      "try again later" },
    { HF_GRPC_UNIMPLEMENTED, NULL, HF_ENOTSUP, "it does not know this request",
      "etcd 3.4 is the oldest that will do" },
    { HF_GRPC_UNAVAILABLE, NULL, HF_UNREACHABLE, "it cannot answer now", "try again later" },
    { HF_GRPC_DEADLINE_EXCEEDED, NULL, HF_UNREACHABLE, "it did not answer in time",
      "try again later" },
    { HF_GRPC_CANCELLED, NULL, HF_UNREACHABLE, "it has dropped the request", "try again later" },
    { HF_GRPC_FAILED_PRECONDITION, "learner", HF_UNREACHABLE, "it is a learner",
      "name members that vote" },
    { HF_GRPC_INVALID_ARGUMENT, "auth store is old", HF_UNREACHABLE,
      "its users have just been changed", "try again" },
};

static const struct meaning *meaning_of(const struct etcd_reply *reply)
{
    static const struct meaning unknown = { 0, NULL, HF_EINTERNAL,
                                            "it answers with an unknown error",
                                            "please report it with the server's version" };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == reply->status &&
            (!meanings[i].words || strstr(reply->text, meanings[i].words)))
            return &meanings[i];
    return &unknown;
}

int hf__etcd_explain(struct etcd *etcd, const struct etcd_reply *reply, hf_error **error)
{
    if (!reply->definite) {
        /* Only what was refused before anything was sent is a word of the store. */
        int code = reply->unsent && etcd->why_code == HF_DENIED ? HF_DENIED : HF_UNREACHABLE;
        if (strncmp(reply->text, "etcd at", 7) == 0)
            hf__explain(error, code, 0, "%s", reply->text);
        else
            hf__explain(error, code, 0, "etcd at %.200s: %s", etcd->settings.servers.shown,
                        reply->text);
        return code;
    }
    const struct meaning *meaning = meaning_of(reply);
    hf__explain(error, meaning->code, reply->status, "etcd at %.120s: %s; %s (%.80s)",
                etcd->settings.servers.shown, meaning->what, meaning->cure, reply->text);
    return meaning->code;
}

bool hf__etcd_is_lease_gone(const struct etcd_reply *reply)
{
    return reply->definite && reply->status == HF_GRPC_NOT_FOUND;
}

bool hf__etcd_wants_token(const struct etcd_reply *reply)
{
    return reply->definite &&
           (reply->status == HF_GRPC_UNAUTHENTICATED ||
            (reply->status == HF_GRPC_INVALID_ARGUMENT &&
             (strstr(reply->text, "auth store is old") || strstr(reply->text, "name is empty"))));
}

bool hf__etcd_is_wrong_member(const struct etcd_reply *reply)
{
    return reply->definite &&
           ((reply->status == HF_GRPC_UNAVAILABLE && strstr(reply->text, "no leader")) ||
            strstr(reply->text, "learner"));
}
