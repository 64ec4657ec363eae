/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: their memory, and what it means when one is not answered as hoped. */
#include "engines/zookeeper/zookeeper.h"

struct zk_request *hf__zk_request(struct zookeeper *zk, struct zk_session *session,
                                  int32_t operation, zk_answered *answered)
{
    struct zk_request *request = (struct zk_request *)hf__free_list_take(&zk->free_requests);
    if (!request)
        return NULL;
    request->session = hf__zk_session_use(session);
    request->operation = operation;
    request->answered = answered;
    request->body.length = 0;
    request->body.failed = false;
    request->item.sent = false;
    request->drop_place = NULL;
    request->arg = NULL;
    return request;
}

struct zk_request *hf__zk_request_beside(struct zookeeper *zk, const struct zk_request *other,
                                         int32_t operation, zk_answered *answered)
{
    struct zk_request *request =
        other ? hf__zk_request(zk, other->session, operation, answered) : NULL;
    if (request)
        request->arg = other->arg;
    return request;
}

void hf__zk_ignore_reply(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)zk, (void)request, (void)reply;
}

/* Most servers have to agree to that one, though there is no such node. */
struct zk_request *hf__zk_barrier(struct zookeeper *zk, struct zk_session *session)
{
    struct zk_request *request =
        session ? hf__zk_request(zk, session, ZK_DELETE, hf__zk_ignore_reply) : NULL;
    if (!request)
        return NULL;
    hf__zk_write_text(&request->body, "/zookeeper/holdfast/beat");
    hf__zk_write_int(&request->body, -1);
    return request;
}

#define NO_RIGHTS                                                                                  \
    HF_DENIED, "it refuses this user", "a lock needs to create, read and delete below its path"

static const struct meaning {
    int error;
    struct zk_meaning means;
} meanings[] = {
    { ZK_NO_AUTH, { NO_RIGHTS } },
    { ZK_AUTH_FAILED, { NO_RIGHTS } },
    { ZK_INVALID_ACL, { NO_RIGHTS } },
    { ZK_USER_REQUIRED,
      { HF_DENIED,
        "it serves authenticated users only (enforce.auth.enabled, sessionRequireClientSASLAuth)",
        "name one, zk://user:password@host, where it accepts digest" } },
    { ZK_EPHEMERAL_PARENT,
      { HF_EKIND, "the path leads through a node that ends with its session",
        "take a path of nodes that stay" } },
    { ZK_UNIMPLEMENTED,
      { HF_ENOTSUP, "this server is too old", "3.5.3 is the oldest that will do" } },
    { ZK_LOCAL_SESSION,
      { HF_ENOTSUP, "its sessions are local, and a local session holds no lock",
        "set localSessionsUpgradingEnabled=true on all servers" } },
    { ZK_QUOTA_EXCEEDED,
      { HF_ELIMIT, "a quota allows no more nodes or bytes below this path",
        "raise it with setquota" } },
    { ZK_THROTTLED, { HF_UNREACHABLE, "it has too much to do just now", "try again later" } },
};

const struct zk_meaning *hf__zk_meaning(int error)
{
    static const struct zk_meaning unknown = { HF_EINTERNAL, "it answers with an unknown error",
                                               "please report it with the server's version" };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].error == error)
            return &meanings[i].means;
    return &unknown;
}

bool hf__zk_is_refusal(const struct zk_reply *reply)
{
    int code = reply ? hf__zk_meaning(reply->error)->code : HF_UNREACHABLE;
    /* mutant: what-server-could-not-do-just */
    return code == HF_DENIED || code == HF_EKIND || code == HF_ENOTSUP;
}

int hf__zk_explain(struct zookeeper *zk, const struct zk_request *request,
                   const struct zk_reply *reply, hf_error **error)
{
    if (!reply && request->session->state == ZK_SESSION_OVER) {
        hf__explain(error, HF_UNREACHABLE, 0, "ZooKeeper at %s: the session has ended",
                    zk->settings->servers.shown);
        return HF_UNREACHABLE;
    }
    if (!reply) {
        bool definite = !request->item.sent && zk->peer.why.code == HF_DENIED;
        int code = definite ? HF_DENIED : HF_UNREACHABLE;
        hf__explain(error, code, zk->peer.why.native, "%s", zk->peer.why.text);
        return code;
    }
    const struct zk_meaning *meaning = hf__zk_meaning(reply->error);
    hf__explain(error, meaning->code, reply->error, "ZooKeeper at %s: %s; %s (%d)",
                zk->settings->servers.shown, meaning->what, meaning->cure, (int)reply->error);
    return meaning->code;
}
