/* SPDX-License-Identifier: Apache-2.0 */
/* What memcached servers say about themselves, and what about it endangers locks. */
#include "base/testing.h"
#include "engines/common/findings.h"
#include "memcached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server that has run for less has lost what was locked a moment ago. */
#define RESTARTED_S 60

/* What one server has said. */
struct patient {
    int64_t uptime_s, evictions, connections, connections_max, bytes, bytes_max;
    int64_t temporary_ttl, idle_timeout_s, oldest_s; /* the youngest age of a class that evicts */
    int64_t time_s, asked_ms, answered_ms;
    bool evicts, cas, temporary, password, tls, local;
    char version[32];
};

struct survey {
    struct hf_oneshot *oneshot;
    struct hf_findings findings;
    unsigned server;
    struct patient patient;
};

static void survey_server(struct memcached *mc, struct survey *survey);

/* ---- what was read ---- */

static void read_yes(const struct mc_reply *reply, const char *name, const char *yes, bool *ret)
{
    const char *words;
    if (hf__mc_stat_is(reply, name, &words))
        *ret = strcmp(words, yes) == 0;
}

static void note_stat(struct mc_server *server, struct mc_request *request,
                      const struct mc_reply *reply)
{
    struct patient *patient = &((struct survey *)request->oneshot->engine_pointer)->patient;
    const char *words;
    (void)server;
    hf__mc_stat_number(reply, "uptime", &patient->uptime_s);
    hf__mc_stat_number(reply, "time", &patient->time_s);
    hf__mc_stat_number(reply, "evictions", &patient->evictions);
    hf__mc_stat_number(reply, "curr_connections", &patient->connections);
    hf__mc_stat_number(reply, "max_connections", &patient->connections_max);
    hf__mc_stat_number(reply, "bytes", &patient->bytes);
    hf__mc_stat_number(reply, "limit_maxbytes", &patient->bytes_max);
    if (hf__mc_stat_is(reply, "version", &words))
        snprintf(patient->version, sizeof patient->version, "%.31s", words);
}

static void note_setting(struct mc_server *server, struct mc_request *request,
                         const struct mc_reply *reply)
{
    struct patient *patient = &((struct survey *)request->oneshot->engine_pointer)->patient;
    const char *words;
    (void)server;
    read_yes(reply, "evictions", "on", &patient->evicts);
    read_yes(reply, "cas_enabled", "yes", &patient->cas);
    read_yes(reply, "temp_lru", "yes", &patient->temporary);
    read_yes(reply, "auth_enabled_ascii", "yes", &patient->password);
    read_yes(reply, "ssl_enabled", "yes", &patient->tls);
    hf__mc_stat_number(reply, "temporary_ttl", &patient->temporary_ttl);
    hf__mc_stat_number(reply, "idle_timeout", &patient->idle_timeout_s);
    if (hf__mc_stat_is(reply, "inter", &words))
        patient->local = strncmp(words, "127.", 4) == 0 || strcmp(words, "::1") == 0 ||
                         strcmp(words, "localhost") == 0;
    if (hf__mc_stat_is(reply, "domain_socket", &words) && strcmp(words, "NULL") != 0)
        patient->local = true;
}

/* "items:3:age 120": the age of the oldest item of a class, which is the next one to be evicted. */
static void note_class(struct mc_server *server, struct mc_request *request,
                       const struct mc_reply *reply)
{
    struct patient *patient = &((struct survey *)request->oneshot->engine_pointer)->patient;
    const char *age = strstr(reply->value, ":age ");
    (void)server;
    int64_t seconds = age ? strtoll(age + strlen(":age "), NULL, 10) : -1;
    if (seconds >= 0 && (patient->oldest_s < 0 || seconds < patient->oldest_s))
        patient->oldest_s = seconds;
}

/* ---- findings ---- */

static void find_evictions(const struct survey *survey, const struct mc_server *server)
{
    const struct patient *patient = &survey->patient;
    int64_t needed_s = hf__mc_ttl(server->mc->base.host->lease_ms);
    bool sheltered = patient->temporary && patient->temporary_ttl >= needed_s;
    if (patient->evicts && !sheltered)
        hf__finding_danger(
            &survey->findings, "evicts",
            "a held lock may be evicted: the next owner gets it at once, and the holder is told by "
            "its next renewal",
            "a server for locks alone, with -M, or with -o temporary_ttl= for the longest lease "
            "and "
            "4 seconds",
            "%s evicts items when its memory is full", server->shown);
    if (patient->evictions > 0)
        hf__finding_danger(
            &survey->findings, "has-evicted", "among them may have been locks that were held",
            "more memory (-m), or a server for locks alone",
            "%s has evicted %lld items since it began; the oldest item of a class is "
            "%lld seconds old",
            server->shown, (long long)patient->evictions, (long long)patient->oldest_s);
}

static void find_restart(const struct survey *survey, const struct mc_server *server)
{
    if (survey->patient.uptime_s < RESTARTED_S)
        hf__finding_danger(&survey->findings, "restarted",
                           "all locks of before are forgotten, and free for other owners",
                           "if it was no planned start, find out why it ended",
                           "%s began %lld seconds ago", server->shown,
                           (long long)survey->patient.uptime_s);
}

static void find_lists(const struct survey *survey, const struct mc_server *server)
{
    if (*server->facts.other_list)
        hf__finding_danger(&survey->findings, "lists-differ",
                           "they may look for one name at another server: two owners",
                           "name the same servers in every client's URL, in the same spelling",
                           "clients with other servers came to %s within the last day: %s",
                           server->shown, server->facts.other_list);
}

static void find_access(const struct survey *survey, const struct mc_server *server)
{
    const struct patient *patient = &survey->patient;
    if (!patient->local && !patient->password)
        hf__finding_danger(&survey->findings, "open-to-all",
                           "every process that reaches it can delete locks, or flush them all",
                           "a password (-Y) with TLS (-Z), or let it listen on a private address",
                           "%s wants no password and listens on more than this machine",
                           server->shown);
    if (patient->connections_max > 0 && patient->connections * 5 >= patient->connections_max * 4)
        hf__finding_danger(&survey->findings, "connections-full",
                           "further clients are refused, and their renewals with them",
                           "raise -c, or share clients", "%s has %lld of %lld connections",
                           server->shown, (long long)patient->connections,
                           (long long)patient->connections_max);
    if (patient->idle_timeout_s > 0)
        hf__finding_fact(&survey->findings, "its idle connections", "end after %lld seconds",
                         (long long)patient->idle_timeout_s);
}

static void show_patient(const struct survey *survey, const struct mc_server *server)
{
    const struct patient *patient = &survey->patient;
    hf__finding_fact(&survey->findings, "server", "memcached %s at %s, running for %lld seconds",
                     patient->version, server->shown, (long long)patient->uptime_s);
    hf__finding_fact(&survey->findings, "memory", "%lld of %lld bytes in use",
                     (long long)patient->bytes, (long long)patient->bytes_max);
    hf__finding_fact(&survey->findings, "locks",
                     "advisory: a cache may forget a lock without notice");
    find_evictions(survey, server);
    find_restart(survey, server);
    find_lists(survey, server);
    find_access(survey, server);
    hf__finding_clock(&survey->findings, "the server's", hf__finding_ms(patient->time_s),
                      patient->asked_ms, patient->answered_ms,
                      "after its next start, tokens may be smaller than those of before",
                      "let both machines follow a time server");
}

/* ---- one server after the other ---- */

static void survey_goes_on(struct memcached *mc, struct survey *survey)
{
    struct hf_oneshot *oneshot = survey->oneshot;
    if (++survey->server < mc->server_count) {
        survey_server(mc, survey);
        return;
    }
    free(survey);
    oneshot->engine_pointer = NULL;
    /* A store of which no server answers is not only a finding. */
    oneshot->code =
        oneshot->contacted ? HF_OK : hf__mc_explain_silence(&mc->servers[0], &oneshot->error);
    hf__oneshot_done(&mc->base, oneshot);
}

static void send_questions(struct mc_server *server, struct mc_request *request)
{
    struct survey *survey = request->oneshot->engine_pointer;
    survey->patient.asked_ms = hf__finding_wall_ms();
    hf__mc_write(server, "stats\r\n");
}

static void send_settings(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "stats settings\r\n");
}

static void send_classes(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "stats items\r\n");
}

static void classes_answered(struct mc_server *server, struct mc_request *request, bool heard);

static void settings_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    if (!heard) {
        classes_answered(server, request, false);
        return;
    }
    request->send = send_classes;
    request->line = note_class;
    request->answered = classes_answered;
    hf__mc_ask(server, request);
}

static void stats_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    struct survey *survey = request->oneshot->engine_pointer;
    survey->patient.answered_ms = hf__finding_wall_ms();
    if (!heard) {
        classes_answered(server, request, false);
        return;
    }
    request->send = send_settings;
    request->line = note_setting;
    request->answered = settings_answered;
    hf__mc_ask(server, request);
}

static const char *cure_of_silence(const struct mc_server *server)
{
    if (server->ended_at_stats)
        return "give the address of memcached itself: a proxy passes on neither stats nor mg";
    if (server->peer.why.code == HF_DENIED)
        return "give a user and a password that it knows, in every client's URL";
    if (server->peer.why.code == HF_ECORRUPT)
        return "give the address of a memcached server: this is none, or speaks TLS";
    return "start it, or take it out of every client's URL";
}

/* A proxy such as twemproxy accepts the connection, and ends it at the first `stats`. */
static void find_silent(const struct survey *survey, struct mc_server *server)
{
    hf_error *why = NULL;
    hf__mc_explain_silence(server, &why);
    hf__finding_not_asked(&survey->findings,
                          server->ended_at_stats ? "no-handshake" : "server-silent", server->shown,
                          why ? why->text : "no reply",
                          "the locks that it decides cannot be acquired", cure_of_silence(server));
    free(why);
}

static void classes_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    struct survey *survey = request->oneshot->engine_pointer;
    survey->oneshot->contacted |= heard;
    if (heard)
        show_patient(survey, server);
    else
        find_silent(survey, server);
    hf__mc_request_free(server->mc, request);
    survey_goes_on(server->mc, survey);
}

static void survey_server(struct memcached *mc, struct survey *survey)
{
    struct mc_request *request = hf__mc_request_new(mc);
    survey->patient = (struct patient){ .oldest_s = -1 };
    if (!request) {
        survey_goes_on(mc, survey);
        return;
    }
    request->oneshot = survey->oneshot;
    request->send = send_questions;
    request->line = note_stat;
    request->answered = stats_answered;
    hf__mc_ask(&mc->servers[survey->server], request);
}

void hf__mc_diagnose(struct memcached *mc, struct hf_oneshot *oneshot)
{
    struct survey *survey = hf__calloc(1, sizeof *survey);
    if (!survey) {
        oneshot->code = HF_ENOMEM;
        hf__oneshot_done(&mc->base, oneshot);
        return;
    }
    survey->oneshot = oneshot;
    survey->findings.examination = oneshot;
    oneshot->engine_pointer = survey;
    survey_server(mc, survey);
}
