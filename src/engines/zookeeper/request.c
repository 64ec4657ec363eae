/* Requests: their memory, and what it means when one is not answered as hoped. */
#include "base/testing.h"
#include "zookeeper.h"

struct zk_request *hf__zk_request(struct zookeeper *zk, struct zk_session *session,
                                  int32_t operation, zk_answered *answered)
{
    struct hf_link *link = hf__list_pop(&zk->free_requests);
    struct zk_request *request =
        link ? HF_CONTAINER(link, struct zk_request, link) : hf__calloc(1, sizeof *request);
    if (!request)
        return NULL;
    hf__link_init(&request->link);
    request->session = hf__zk_session_use(session);
    request->operation = operation;
    request->answered = answered;
    request->body.length = 0;
    request->body.failed = false;
    request->sent = request->of_place = false;
    request->arg = NULL;
    return request;
}

struct zk_request *hf__zk_place_request(struct zookeeper *zk, struct zk_place *place,
                                        int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_request(zk, place->session, operation, answered);
    if (request) {
        request->of_place = true;
        request->place = place;
        place->uses++;
    }
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

void hf__zk_no_matter(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)zk, (void)request, (void)reply;
}

static int code_of(int error)
{
    switch (error) {
    case ZK_NO_AUTH:
    case ZK_AUTH_FAILED:
    case ZK_INVALID_ACL:
        return HF_DENIED;
    case ZK_EPHEMERAL_PARENT:
        return HF_EKIND;
    case ZK_UNIMPLEMENTED:
        return HF_ENOTSUP;
    case ZK_THROTTLED:
        return HF_UNREACHABLE;
    default:
        return HF_EINTERNAL;
    }
}

static const char *words_of(int code)
{
    switch (code) {
    case HF_DENIED:
        return "it refuses this user; a lock needs to create, read and delete below its path";
    case HF_EKIND:
        return "the path leads through a node that ends with its session";
    case HF_ENOTSUP:
        return "this server is too old; 3.5.3 is the oldest that will do";
    case HF_UNREACHABLE:
        return "it has too much to do just now";
    default:
        return "it answers with an error that is not understood";
    }
}

bool hf__zk_is_refusal(const struct zk_reply *reply)
{
    int code = reply ? code_of(reply->error) : HF_UNREACHABLE;
    return code == HF_DENIED || code == HF_EKIND || code == HF_ENOTSUP;
}

static void explain_what_stays(const struct zookeeper *zk, struct zk_place *place, int error)
{
    int code = code_of(error);
    hf__op_explain(place->op, code, error,
                   "ZooKeeper at %.100s: \"%.100s\" keeps a node until this client's session has "
                   "ended: %s (%d)",
                   zk->settings->shown, place->op->name, words_of(code), error);
}

void hf__zk_stay_behind(struct zookeeper *zk, struct zk_place *place, const struct zk_reply *reply)
{
    struct hf_op *op = place->op;
    explain_what_stays(zk, place, reply->error);
    hf__zk_place_leave_behind(zk, place);
    op->verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
}

int hf__zk_explain(struct zookeeper *zk, const struct zk_request *request,
                   const struct zk_reply *reply, hf_error **error)
{
    if (!reply && request->session->state == ZK_SESSION_OVER) {
        hf__explain(error, HF_UNREACHABLE, 0, "ZooKeeper at %s: the session has ended",
                    zk->settings->shown);
        return HF_UNREACHABLE;
    }
    if (!reply) {
        bool definite = !request->sent && zk->why.code == HF_DENIED;
        int code = definite ? HF_DENIED : HF_UNREACHABLE;
        hf__explain(error, code, zk->why.native, "%s", zk->why.text);
        return code;
    }
    int code = code_of(reply->error);
    hf__explain(error, code, reply->error, "ZooKeeper at %s: %s (%d)", zk->settings->shown,
                words_of(code), (int)reply->error);
    return code;
}

void hf__zk_why_silent(struct zookeeper *zk, hf_error **error)
{
    const struct hf_stream_place *place = &zk->settings->places[zk->place_at];
    struct hf_link *first = hf__list_first(&zk->out);
    if (zk->state == ZK_READY && first)
        hf__explain(
            error, HF_UNREACHABLE, 0, "ZooKeeper at %.200s:%u: no answer for %lld ms", place->host,
            place->port,
            (long long)(hf__zk_now(zk) - HF_CONTAINER(first, struct zk_request, link)->sent_at_ms));
    else if (zk->state != ZK_READY && zk->why.code != HF_OK)
        hf__explain(error, HF_UNREACHABLE, zk->why.native, "%s", zk->why.text);
    else if (zk->state == ZK_OPENING || zk->state == ZK_GREETING)
        hf__explain(error, HF_UNREACHABLE, 0, "ZooKeeper at %.200s:%u: %s", place->host,
                    place->port,
                    zk->state == ZK_OPENING ? "no connection in time"
                                            : "it does not let us in, and says nothing");
}
