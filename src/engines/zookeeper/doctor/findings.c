/* SPDX-License-Identifier: Apache-2.0 */
/* What the answers mean for locks: facts as they are, and for each danger what may come of it and
 * what to do. What could not be asked is said to be unknown, and why. */
#include "engines/common/findings.h"
#include "doctor.h"

#include <stdio.h>
#include <string.h>

#define VERSION(major, minor, patch) (((major)*1000L + (minor)) * 1000L + (patch))

struct patient {
    struct hf_findings findings;
    const struct zk_examiner *examiner;
    const struct zookeeper *zk;
};

/* ---- one server ---- */

static long version_of(const struct zk_probe *server)
{
    int major = 0, minor = 0, patch = 0;
    int parts = sscanf(server->version, "%3d.%3d.%3d", &major, &minor, &patch);
    return parts >= 2 ? VERSION(major, minor, patch) : 0;
}

static void judge_presence(const struct patient *patient, const struct zk_probe *server)
{
    const char *const consequence =
        "as long as it is like that, locks rest on one server less, or on none";
    if (server->presence == ZK_SHUTS)
        hf__finding_danger(
            &patient->findings, "server-closes", consequence,
            "if this address has as many connections as maxClientCnxns allows, 60 by default, "
            "raise that or share clients: one of them carries thousands of locks",
            "the server %s closes connections without a word", server->address);
    else if (server->presence != ZK_THERE)
        hf__finding_danger(&patient->findings, "server-silent", consequence,
                           "start it, or take it out of the URL",
                           "the server %s cannot be asked: %s", server->address, server->why);
    else if (server->serves_nobody)
        hf__finding_danger(
            &patient->findings, "server-cut-off", consequence,
            "let it reach the others: more than half of the ensemble's servers have to run",
            "the server %s serves no client: it is cut off from the others, or they elect a leader",
            server->address);
    else if (strcmp(server->mode, "read-only") == 0)
        hf__finding_danger(
            &patient->findings, "server-read-only", consequence,
            "let it reach the others: more than half of the ensemble's servers have to run",
            "the server %s is in read-only mode: it is cut off from the majority and grants "
            "nothing",
            server->address);
}

static void show_server(const struct patient *patient, const struct zk_probe *server)
{
    char role[ZK_WORD_SIZE + 32] = "", connections[64] = "";
    if (server->presence != ZK_THERE && !*server->version)
        return;
    if (*server->mode)
        snprintf(role, sizeof role, ", %s", server->mode);
    if (server->connections >= 0)
        snprintf(connections, sizeof connections, ", %ld connections", server->connections);
    if (*server->version)
        hf__finding_fact(&patient->findings, "server", "%s: ZooKeeper %s%s%s", server->address,
                         server->version, role, connections);
    else if (!server->serves_nobody)
        hf__finding_fact(
            &patient->findings, "server",
            "%s: version and role are not known: its 4lw.commands.whitelist has no srvr",
            server->address);
}

static bool is_one_of_several(const struct patient *patient, const struct zk_probe *server)
{
    return patient->examiner->voters > 1 || strcmp(server->mode, "leader") == 0 ||
           strcmp(server->mode, "follower") == 0 || strcmp(server->mode, "observer") == 0;
}

static void judge_version(const struct patient *patient, const struct zk_probe *server)
{
    long version = version_of(server);
    bool several = is_one_of_several(patient, server);
    if (version == 0)
        return;
    if (version < VERSION(3, 8, 0))
        hf__finding_danger(&patient->findings, "old-version",
                           "its faults are not mended any more; before 3.5.3 no lock can be taken",
                           "use a server of a version that is still looked after",
                           "%s is ZooKeeper %s", server->address, server->version);
    bool stalls = (version >= VERSION(3, 6, 0) && version < VERSION(3, 6, 4)) ||
                  (version >= VERSION(3, 7, 0) && version < VERSION(3, 7, 2)) ||
                  version == VERSION(3, 8, 0);
    if (several && stalls)
        hf__finding_danger(
            &patient->findings, "stalls",
            "a lock may be granted 0.3 s late, which is when holdfast asks once more; clients "
            "that do not, lose their connection",
            "3.8.1 or later, where this is mended (ZOOKEEPER-4537)",
            "%s, ZooKeeper %s, may leave a request unanswered until the next one comes",
            server->address, server->version);
    bool loses = version < VERSION(3, 8, 4) ||
                 (version >= VERSION(3, 9, 0) && version < VERSION(3, 9, 2)) ||
                 version == VERSION(3, 9, 3);
    if (several && loses)
        hf__finding_danger(
            &patient->findings, "loses-confirmed",
            "after a change of the leader a lock that is held may be free, and two hold it",
            "3.8.4, 3.9.2 or 3.9.4, where this is mended (ZOOKEEPER-4785, ZOOKEEPER-4925)",
            "%s, ZooKeeper %s, may lose what was confirmed, when it catches up with a leader",
            server->address, server->version);
}

/* What was asked before it fell silent was answered: with a no. */
static const char *why_unknown(const struct zk_probe *server, enum zk_topic topic)
{
    if (*server->why && server->topic <= topic) /* mutant: that-server-falls-silent */
        return server->why;
    return topic == ZK_TOPIC_SETTINGS ? "its 4lw.commands.whitelist has no conf"
                                      : "its 4lw.commands.whitelist has no cons";
}

static const char *large_messages_of(const struct zk_probe *server)
{
    if (server->lets_in)
        return server->takes_large ? "; messages of 1 MiB" : "; no messages of 1 MiB";
    bool late = *server->why && server->topic > ZK_TOPIC_CONNECTIONS;
    return late ? "; whether it takes messages of 1 MiB it does not say in time" : "";
}

static void show_limits(const struct patient *patient, const struct zk_probe *server)
{
    char now[64] = "", connections[96];
    /* A server that serves no client says that whatever it is asked. */
    if (server->presence != ZK_THERE || server->serves_nobody)
        return;
    const char *const large = large_messages_of(server);
    if (server->per_address < 0) {
        hf__finding_fact(&patient->findings, "limits", "%s: not known: %s%s", server->address,
                         why_unknown(server, ZK_TOPIC_SETTINGS), large);
        return;
    }
    if (server->busiest >= 0)
        snprintf(now, sizeof now, " (%ld now)", server->busiest);
    if (server->per_address > 0)
        snprintf(connections, sizeof connections, "%ld", server->per_address);
    else
        snprintf(connections, sizeof connections, "any number of");
    hf__finding_fact(&patient->findings, "limits",
                     "%s: %s connections from one address%s; sessions of %ld to %ld ms%s",
                     server->address, connections, now, server->least_ms, server->most_ms, large);
}

static void judge_limits(const struct patient *patient, const struct zk_probe *server)
{
    const char *const consequence = "the next clients from there are turned away: HF_UNREACHABLE";
    const char *const cure =
        "raise maxClientCnxns, or share clients: one of them carries thousands "
        "of locks";
    long most = server->per_address;
    if (most > 0 && server->busiest * 5 >= most * 4)
        hf__finding_danger(&patient->findings, "connections-full", consequence, cure,
                           "one address has %ld of the %ld connections that %s allows it",
                           server->busiest, most, server->address);
    else if (most > 0 && server->busiest < 0 && server->connections * 5 >= most * 4)
        hf__finding_danger(
            &patient->findings, "connections-full", consequence, cure,
            "%s has %ld connections and allows %ld from one address; their addresses cannot be "
            "seen: %s",
            server->address, server->connections, most, why_unknown(server, ZK_TOPIC_CONNECTIONS));
    if (server->presence == ZK_THERE && server->lets_in && !server->takes_large)
        hf__finding_danger(
            &patient->findings, "small-messages",
            "the end of a session with thousands of locks may be more than the servers can read "
            "again: they do not start any more (ZOOKEEPER-4306)",
            "leave jute.maxbuffer at its 1048575 bytes, or raise it, on all servers",
            "%s takes no messages of 1 MiB: its jute.maxbuffer was lowered", server->address);
}

static void judge_server(const struct patient *patient, const struct zk_probe *server)
{
    show_server(patient, server);
    show_limits(patient, server);
    judge_presence(patient, server);
    judge_version(patient, server);
    judge_limits(patient, server);
}

/* ---- all of them ---- */

static void judge_ensemble(const struct patient *patient)
{
    const struct zk_examiner *examiner = patient->examiner;
    unsigned voters = examiner->voters;
    if (!examiner->config_known) {
        if (examiner->code == HF_OK)
            hf__finding_fact(&patient->findings, "ensemble",
                             "not known: this user may not read /zookeeper/config");
        return;
    }
    if (voters == 0)
        hf__finding_fact(&patient->findings, "ensemble", "one server of its own");
    else
        hf__finding_fact(&patient->findings, "ensemble",
                         "%u server%s that vote%s, %u that observe%s", voters,
                         voters == 1 ? "" : "s", voters == 1 ? "s" : "", examiner->observers,
                         examiner->observers == 1 ? "s" : "");
    if (voters <= 1)
        hf__finding_danger(
            &patient->findings, "one-server",
            "while it is down no lock can be taken; if its disk is lost, so are the locks, and "
            "tokens begin anew",
            "three servers, of which one may be down", "one server decides alone");
    else if (voters % 2 == 0)
        hf__finding_danger(
            &patient->findings, "even-servers",
            "there is one server more that can fail, but not one more of them may: more than "
            "half have to run",
            "one server more or less; one that only observes does not count",
            "an even number of servers votes: %u", voters);
    if (voters > 1 && patient->zk->settings->servers.count == 1)
        hf__finding_danger(
            &patient->findings, "one-address",
            "if that is the name of one server only, its end takes the locks with it, though the "
            "others go on",
            "name all of them: zk://one,two,three", "the URL names one server, of %u", voters);
}

static void judge_bounds(const struct patient *patient)
{
    const struct zk_examiner *examiner = patient->examiner;
    const struct zk_probe *first = NULL;
    for (unsigned i = 0; i < examiner->count; i++) {
        const struct zk_probe *server = &examiner->interviews[i];
        if (server->most_ms < 0)
            continue;
        first = first ? first : server;
        if (server->most_ms == first->most_ms && server->least_ms == first->least_ms)
            continue;
        hf__finding_danger(
            &patient->findings, "sessions-differ",
            "where a session moves from one to the other it may end sooner than its client "
            "believes",
            "the same tickTime, minSessionTimeout and maxSessionTimeout on all servers",
            "sessions may be %ld to %ld ms long at %s, but %ld to %ld ms at %s", first->least_ms,
            first->most_ms, first->address, server->least_ms, server->most_ms, server->address);
        return;
    }
}

static long longest_tick(const struct zk_examiner *examiner)
{
    long tick_ms = -1;
    for (unsigned i = 0; i < examiner->count; i++)
        if (examiner->interviews[i].tick_ms > tick_ms)
            tick_ms = examiner->interviews[i].tick_ms;
    return tick_ms;
}

static void judge_session(const struct patient *patient)
{
    const struct zk_examiner *examiner = patient->examiner;
    int32_t asked_ms = examiner->asked_ms, settled_ms = examiner->settled_ms;
    long tick_ms = longest_tick(examiner);
    if (settled_ms <= 0)
        return;
    hf__finding_fact(&patient->findings, "session",
                     "%d ms asked for, %d ms settled; believed in for %d ms", (int)asked_ms,
                     (int)settled_ms, (int)hf__zk_belief_ms(settled_ms));
    if (settled_ms < asked_ms)
        hf__finding_danger(
            &patient->findings, "session-shorter",
            "a shorter pause or cut than the URL says is enough to lose all locks of a client",
            "raise maxSessionTimeout on all servers, or ask for no more than they settle",
            "%d ms were asked for as the length of a session, and %d ms settled", (int)asked_ms,
            (int)settled_ms);
    if (settled_ms > asked_ms)
        hf__finding_danger(
            &patient->findings, "session-longer",
            "the locks of a dead client stay for longer than the URL says",
            "lower minSessionTimeout on all servers, or ask for no less than they settle",
            "%d ms were asked for as the length of a session, and %d ms settled", (int)asked_ms,
            (int)settled_ms);
    if (tick_ms > 0 && settled_ms < 2 * tick_ms)
        hf__finding_danger(&patient->findings, "session-below-ticks",
                           "the leader may end a session that its client still believes in",
                           "leave minSessionTimeout at its two ticks, or lower tickTime",
                           "a session of %d ms is fewer than two of the servers' ticks of %ld ms",
                           (int)settled_ms, tick_ms);
    judge_bounds(patient);
}

/* ---- rights, and the clock ---- */

static void judge_refusal(const struct patient *patient, const char *root, int error)
{
    const struct zk_meaning *meaning = hf__zk_meaning(error);
    char consequence[80];
    snprintf(consequence, sizeof consequence, "no lock can be taken: %s",
             hf_code_name(meaning->code));
    hf__finding_danger(&patient->findings, "refuses-nodes", consequence, meaning->cure,
                       "a server makes no node below %.200s: %s (%d)", root, meaning->what, error);
}

static void judge_rights(const struct patient *patient)
{
    const struct zk_examiner *examiner = patient->examiner;
    const char *root = *patient->zk->settings->root ? patient->zk->settings->root : "/";
    bool named = patient->zk->settings->servers.user != NULL;
    if (examiner->code != HF_OK)
        return;
    if (examiner->create_error == ZK_USER_REQUIRED)
        hf__finding_fact(&patient->findings, "access", "not allowed");
    else if (!named)
        hf__finding_fact(&patient->findings, "access",
                         "without a user: any client of the servers may take and break");
    else
        hf__finding_fact(
            &patient->findings, "access", "as the URL's user%s",
            examiner->create_error == ZK_NO_NODE ? "; not tried: the path is not there yet" : "");
    if (examiner->create_error == ZK_NO_AUTH || examiner->create_error == ZK_INVALID_ACL)
        hf__finding_danger(
            &patient->findings, "create-denied", "no lock can be taken: HF_DENIED",
            "setAcl, by the owner of that path: create, delete and read for this user",
            "this user may not make nodes below %.200s", root);
    else if (examiner->create_error != ZK_OK && examiner->create_error != ZK_NO_NODE &&
             examiner->create_error != ZK_THROTTLED)
        judge_refusal(patient, root, examiner->create_error);
    else if (examiner->create_error == ZK_OK && examiner->delete_error == ZK_NO_AUTH)
        hf__finding_danger(
            &patient->findings, "delete-denied",
            "a released lock stays taken until its session ends",
            "setAcl, by the owner of that path: create, delete and read for this user",
            "this user may not delete nodes below %.200s", root);
    if (named && examiner->open_to_all)
        hf__finding_danger(
            &patient->findings, "open-to-all",
            "any client of the servers can keep this user out, by making a lock's path first",
            "a path of this user's own in the URL, made with an ACL for this user alone",
            "any user may make or delete nodes below %.200s", root);
}

/* The leader looked at its clock at some time between the question and the answer. */
static void judge_clock(const struct patient *patient)
{
    const struct zk_examiner *examiner = patient->examiner;
    if (examiner->created_ms == 0)
        return;
    hf__finding_clock(
        &patient->findings, "the leader's", examiner->created_ms, examiner->began_ms,
        examiner->ended_ms,
        "what `holdfast show` says of how long a lock is held is wrong by that; no lock "
        "rests on it",
        "set both by NTP");
}

void hf__zk_report_findings(const struct zk_examiner *examiner, const struct zookeeper *zk)
{
    const struct patient patient = { { examiner->examination, NULL }, examiner, zk };
    for (unsigned i = 0; i < examiner->count; i++)
        judge_server(&patient, &examiner->interviews[i]);
    judge_ensemble(&patient);
    judge_session(&patient);
    judge_rights(&patient);
    judge_clock(&patient);
    if (examiner->code != HF_OK)
        hf__finding_danger(
            &patient.findings, "no-session",
            "no lock can be taken, and nothing more is seen from here",
            "mend what is found above, and look again", "no session can be had: %.250s",
            examiner->error ? examiner->error->text : "out of memory for the reason");
}
