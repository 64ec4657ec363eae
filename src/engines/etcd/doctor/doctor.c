/* SPDX-License-Identifier: Apache-2.0 */
/* What endangers locks at this cluster, as far as the server that we talk to knows: its version,
 * its leader, its database, and whether it votes. Then a read that needs most members, and one of
 * the oldest revision, which is there for as long as nothing was compacted. */
#include "engines/common/findings.h"
#include "engines/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

/* etcd's default quota is 2 GiB; a database of this size needs a look at it. */
#define LARGE_BYTES (1536ll << 20)
/* Below this, one slow write of the server's disk ends a session. */
#define SHORT_LEASE_MS 3000
/* A member that has lost the others hears of it later than a call has to wait for it. */
#define PROOF_MS 2000
/* Etcd keeps each until it is compacted; a lock and its release are two. */
#define REVISIONS_MANY 10000
/* With fewer calls at a time, threads of a client wait for each other. */
#define STREAMS_FEW 20u

#define NO_QUORUM                                                                                  \
    "no lock can be acquired or released, and those that are held end with their lease"
#define RUN_MEMBERS "see that most members run, and reach each other"

struct version {
    unsigned major, minor, patch;
};

static bool is_older(const struct version *version, unsigned major, unsigned minor, unsigned patch)
{
    if (version->major != major)
        return version->major < major;
    if (version->minor != minor)
        return version->minor < minor;
    return version->patch < patch;
}

/* Go's server of HTTP then does the work of gRPC's, and gives each stream little of it. */
static void look_at_port(const struct hf_findings *findings, const struct version *version)
{
    bool settable = version->major != 3 || version->minor > 5 ||
                    (version->minor == 5 && version->patch >= 8) ||
                    (version->minor == 4 && version->patch >= 25);
    hf__finding_danger(
        findings, "tls-port-shared",
        "under load watches starve: a waiter hears late of a release, or by its next "
        "look, after 5 s",
        settable ? "give HTTP a port of its own: --listen-client-http-urls"
                 : "update to 3.4.25, 3.5.8 or 3.6, or newer, and give HTTP a port of "
                   "its own: --listen-client-http-urls",
        "the TLS port serves HTTP, too");
}

static void look_at_version(const struct hf_findings *findings, const char *text, bool shared_port)
{
    struct version version = { 0 };
    hf__finding_fact(findings, "version", "etcd %.40s", text);
    if (sscanf(text, "%u.%u.%u", &version.major, &version.minor, &version.patch) != 3)
        return;
    bool old_leader = version.major == 3 && (version.minor == 4   ? is_older(&version, 3, 4, 31)
                                             : version.minor == 5 ? is_older(&version, 3, 5, 13)
                                                                  : version.minor < 4);
    if (old_leader)
        hf__finding_danger(findings, "old-version",
                           "a leader that was stuck, and was replaced meanwhile, may end leases "
                           "that are being renewed: locks are lost without a reason",
                           "update to 3.4.31, 3.5.13 or 3.6, or newer",
                           "etcd %.40s has a known fault in its leases", text);
    if (shared_port)
        look_at_port(findings, &version);
}

static void look_at_server(const struct hf_findings *findings, const HfEtcd__StatusResponse *status)
{
    if (status->leader == 0)
        hf__finding_danger(findings, "no-leader", NO_QUORUM, RUN_MEMBERS,
                           "this server knows no leader: most members are down, or out of reach");
    if (status->islearner)
        hf__finding_danger(findings, "learner", "it serves no lock",
                           "name members that vote in the URL", "this server is a learner");
    hf__finding_fact(findings, "database", "%lld KiB", (long long)(status->dbsize >> 10));
    if (status->dbsize > LARGE_BYTES)
        hf__finding_danger(findings, "database-large",
                           "at its quota etcd refuses all writes: no lock can be acquired",
                           "compact it regularly (auto-compaction-retention), and defragment it",
                           "its database has %lld MiB; the default quota is 2048 MiB",
                           (long long)(status->dbsize >> 20));
    for (size_t i = 0; i < status->n_errors; i++)
        if (!strstr(status->errors[i], "no leader"))
            hf__finding_danger(findings, "alarm", "locks may not be acquired, or may not last",
                               strstr(status->errors[i], "NOSPACE")
                                   ? "compact and defragment it, then \"etcdctl alarm disarm\""
                                   : "look at \"etcdctl alarm list\", and mend what it says",
                               "this server reports: %.120s", status->errors[i]);
}

static void look_at_streams(const struct etcd *etcd, const struct hf_findings *findings)
{
    uint32_t streams = hf__etcd_streams_max(etcd);
    if (streams < STREAMS_FEW)
        hf__finding_danger(findings, "few-streams",
                           streams < ETCD_STREAMS_MIN
                               ? "no lock can be acquired: heartbeats, watches and requests need "
                                 "one each"
                               : "requests wait for each other, and threads with them",
                           "raise its option " ETCD_STREAMS_OPTION " to 100 or more",
                           "this server serves %u calls of a client at a time", streams);
}

static void look_at_lease(const struct etcd *etcd, const struct hf_findings *findings)
{
    int64_t lease_ms = etcd->base.host->lease_ms;
    if (lease_ms < SHORT_LEASE_MS)
        hf__finding_danger(findings, "lease-short",
                           "one slow write of a server's disk, or one new leader, ends the session "
                           "with all its locks",
                           "use a lease of 10 s or more", "the session's lease is %lld ms",
                           (long long)lease_ms);
    if (etcd->settings.servers.count == 1)
        hf__finding_fact(findings, "servers", "the URL names one; name all members for fail-over");
    else
        hf__finding_fact(findings, "servers", "the URL names %u", etcd->settings.servers.count);
}

/* ---- one question after the other ---- */

static void finish_diagnosis(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    look_at_lease(etcd, &(struct hf_findings){ .examination = oneshot });
    oneshot->code = HF_OK;
    hf__oneshot_done(&etcd->base, oneshot);
}

static bool ask_member(struct etcd *etcd, struct hf_oneshot *oneshot,
                       const struct etcd_method *method, etcd_answered *answered,
                       const ProtobufCMessage *message)
{
    struct etcd_request *request = hf__etcd_request(etcd, method, answered);
    if (!request)
        return false;
    request->oneshot = oneshot;
    request->limit_ms = method == &hf__etcd_range ? PROOF_MS : 0;
    hf__etcd_ask(etcd, request, message);
    return true;
}

/* A key of no lock, which the user of locks may read. */
static bool ask_to_read(struct etcd *etcd, struct hf_oneshot *oneshot, int64_t revision,
                        etcd_answered *answered)
{
    char key[HF_URL_MAX + 16];
    etcd_range range;
    hf_etcd__range_request__init(&range);
    snprintf(key, sizeof key, "%sdoctor", etcd->settings.root);
    range.key = hf__etcd_binary(hf__etcd_bytes(key, strlen(key)));
    range.revision = revision;
    range.count_only = true;
    return ask_member(etcd, oneshot, &hf__etcd_range, answered, &range.base);
}

static void oldest_read(struct etcd *etcd, struct etcd_request *request,
                        const struct etcd_reply *reply)
{
    struct hf_oneshot *oneshot = request->oneshot;
    const struct hf_findings findings = { .examination = oneshot };
    const etcd_range_reply *range = reply->message;
    int64_t revision = range ? hf__etcd_revision(range->header) : 0;
    if (revision >= REVISIONS_MANY)
        hf__finding_danger(&findings, "not-compacted",
                           "its database grows with each acquire and release; at its quota etcd "
                           "refuses all writes, and no lock can be acquired",
                           "switch automatic compaction on: --auto-compaction-retention=1h",
                           "none of its %lld revisions has been compacted", (long long)revision);
    finish_diagnosis(etcd, oneshot);
}

static bool has_no_quorum(const struct etcd_reply *reply)
{
    return !hf__etcd_is_definite(reply) || reply->word == ETCD_ELSEWHERE;
}

static void confirmed(struct etcd *etcd, struct etcd_request *request,
                      const struct etcd_reply *reply)
{
    struct hf_oneshot *oneshot = request->oneshot;
    const struct hf_findings findings = { .examination = oneshot };
    const etcd_range_reply *range = reply->message;
    if (range) {
        hf__finding_fact(&findings, "revision", "%lld",
                         (long long)hf__etcd_revision(range->header));
        if (ask_to_read(etcd, oneshot, 1, oldest_read))
            return;
    } else if (has_no_quorum(reply)) {
        hf__finding_danger(&findings, "no-quorum", NO_QUORUM, RUN_MEMBERS,
                           "this server does not confirm a read, for which it needs most members: "
                           "%.120s",
                           reply->text);
    } else {
        hf__finding_unknown(&findings, "revision", "this server", reply->text);
    }
    finish_diagnosis(etcd, oneshot);
}

static void status_answered(struct etcd *etcd, struct etcd_request *request,
                            const struct etcd_reply *reply)
{
    struct hf_oneshot *oneshot = request->oneshot;
    const struct hf_findings findings = { .examination = oneshot };
    const HfEtcd__StatusResponse *status = reply->message;
    oneshot->contacted = hf__etcd_is_definite(reply);
    if (reply->status != HF_GRPC_OK) {
        oneshot->code = hf__etcd_explain(etcd, reply, &oneshot->error);
        hf__oneshot_done(&etcd->base, oneshot);
        return;
    }
    bool has_leader = status->leader != 0;
    look_at_version(&findings, status->version, etcd->grpc.tls && request->call.by_http);
    look_at_server(&findings, status);
    look_at_streams(etcd, &findings);
    if (!has_leader || !ask_to_read(etcd, oneshot, 0, confirmed))
        finish_diagnosis(etcd, oneshot);
}

void hf__etcd_diagnose(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    HfEtcd__StatusRequest message;
    hf_etcd__status_request__init(&message);
    if (ask_member(etcd, oneshot, &hf__etcd_status, status_answered, &message.base))
        return;
    hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
    oneshot->code = HF_ENOMEM;
    hf__oneshot_done(&etcd->base, oneshot);
}
