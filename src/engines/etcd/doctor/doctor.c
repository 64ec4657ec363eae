/* SPDX-License-Identifier: Apache-2.0 */
/* What endangers locks at this cluster, as far as the server that we talk to knows: its version,
 * its leader, its database, and whether it votes. */
#include "engines/common/findings.h"
#include "engines/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

/* etcd's default quota is 2 GiB; a database of this size needs a look at it. */
#define LARGE_BYTES (1536ll << 20)
/* Below this, one slow write of the server's disk ends a session. */
#define SHORT_LEASE_MS 3000

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

static void look_at_version(const struct hf_findings *findings, const char *text)
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
}

static void look_at_server(const struct hf_findings *findings, const HfEtcd__StatusResponse *status)
{
    if (status->leader == 0)
        hf__finding_danger(findings, "no-leader", "no lock can be acquired or released",
                           "see that most members run, and reach each other",
                           "this server knows no leader");
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
        hf__finding_danger(findings, "alarm", "locks may not be acquired, or may not last",
                           "look at \"etcdctl alarm list\", and mend what it says",
                           "this server reports: %.120s", status->errors[i]);
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

static void answered(struct etcd *etcd, struct etcd_request *request,
                     const struct etcd_reply *reply)
{
    struct hf_oneshot *oneshot = request->oneshot;
    const struct hf_findings findings = { .examination = oneshot };
    const HfEtcd__StatusResponse *status = reply->message;
    oneshot->contacted = reply->definite;
    oneshot->code = HF_OK;
    if (reply->status != HF_GRPC_OK) {
        oneshot->code = hf__etcd_explain(etcd, reply, &oneshot->error);
    } else {
        look_at_version(&findings, status->version);
        look_at_server(&findings, status);
        look_at_lease(etcd, &findings);
    }
    hf__oneshot_done(&etcd->base, oneshot);
}

void hf__etcd_diagnose(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    HfEtcd__StatusRequest message;
    hf_etcd__status_request__init(&message);
    struct etcd_request *request = hf__etcd_request(etcd, &hf__etcd_status, answered);
    if (!request) {
        hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
        oneshot->code = HF_ENOMEM;
        hf__oneshot_done(&etcd->base, oneshot);
        return;
    }
    request->oneshot = oneshot;
    hf__etcd_ask(etcd, request, &message.base);
}
