/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: what the store looks like from here, and what endangers locks on it. */
#include "doctor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUND_TRIPS 101
#define LONG_WAIT_MS ((int64_t)3600 * 1000)
/* For a lock that no other client asks for: only a store that is silent or not ready takes that
 * long. */
#define PATIENCE_MS 5000

/* ---- the store ---- */

static bool is_known(const struct cli_doctor *doctor, const char *what)
{
    for (unsigned i = 0; i < doctor->known_count; i++)
        if (strcmp(doctor->known[i], what) == 0)
            return true;
    return false;
}

/* A finding about the store mostly says why a lock is refused. That its version is old does not. */
static bool tells_refusal(const char *id)
{
    return !id || strcmp(id, "old-version") != 0;
}

static bool note_remark(void *arg, const hf_remark *remark)
{
    struct cli_doctor *doctor = arg;

    if (remark->value && !doctor->asks_again) {
        cli_doctor_fact(doctor, remark->what, "%s", remark->value);
    } else if (!remark->value && !is_known(doctor, remark->what)) {
        cli_doctor_finding(doctor, remark->id, remark->what, remark->consequence, remark->cure);
        char *copy = doctor->known_count < CLI_DOCTOR_KNOWN ? strdup(remark->what) : NULL;

        if (copy)
            doctor->known[doctor->known_count++] = copy;
        doctor->refusal_told |= tells_refusal(remark->id);
    }
    return true;
}

/* ---- locks ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Takes and gives back a lock that no other client asks for. An hf_code. */
static int take_often(struct cli_doctor *doctor, const char *name)
{
    int64_t times[ROUND_TRIPS];

    for (int i = 0; i < ROUND_TRIPS; i++) {
        int64_t began = now_ns();
        hf_hold *hold;
        /* A store that has been found wanting is not waited for to become ready. */
        int64_t wait_ms = i == 0 && doctor->store_findings > 0 ? 0 : PATIENCE_MS;
        int code = hf_lock(doctor->session->client, name, wait_ms, NULL, &hold);
        if (code == HF_OK)
            code = hf_unlock(hold);
        if (code == HF_LOST) {
            cli_doctor_finding(doctor, "lost-at-once",
                               "a lock was lost at once, although no other owner had asked for it",
                               "no lock here can be relied on",
                               "repair the other findings, and run doctor again");
            return HF_OK;
        }
        if (code != HF_OK)
            return code;
        times[i] = now_ns() - began;
    }
    qsort(times, ROUND_TRIPS, sizeof(times[0]), by_value);
    cli_doctor_fact(doctor, "lock + unlock", "%.1f us median, %.1f us worst of %d",
                    (double)times[ROUND_TRIPS / 2] / 1000, (double)times[ROUND_TRIPS - 1] / 1000,
                    ROUND_TRIPS);
    return HF_OK;
}

/* Nothing of the name is left at the store. What could not be removed is not made. */
static int measure_as(struct cli_doctor *doctor, const char *name)
{
    int code = hf_forget(doctor->session->client, name);

    doctor->cannot_forget = code == HF_DENIED;
    if (code == HF_OK) {
        code = take_often(doctor, name);
        (void)hf_forget(doctor->session->client, name);
    }
    return code;
}

/* A user that may use some names only may lock one that belongs to such a name, by Redisson's
 * rule. */
static int measure(struct cli_doctor *doctor)
{
    char name[HF_NAME_MAX + 64];
    int code;

    snprintf(name, sizeof(name), "holdfast-doctor/%d", (int)getpid());
    code = measure_as(doctor, name);
    if (code != HF_DENIED || !doctor->name || strlen(doctor->name) > HF_NAME_MAX - 32)
        return code;
    snprintf(name, sizeof(name),
             strchr(doctor->name, '{') ? "%s:holdfast-doctor/%d" : "{%s}:holdfast-doctor/%d",
             doctor->name, (int)getpid());
    return measure_as(doctor, name);
}

static void print_capabilities(struct cli_doctor *doctor)
{
    static const char *const names[] = { "mutex",   "fair",    "read-write", "upgrade",
                                         "permits", "counter", "latch",      "token",
                                         "detach",  "inspect", "break" };
    unsigned caps = hf_caps(doctor->session->client);
    char text[256] = "";
    size_t used = 0;

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (caps & (1u << i))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
                                     names[i]);
    cli_doctor_fact(doctor, "can do", "%s%s", text, caps & HF_CAP_RATE ? ", rate" : "");
    if (!(caps & HF_CAP_TOKEN))
        cli_doctor_finding(doctor, "no-tokens", "there are no fencing tokens",
                           "a holder that pauses too long can write after it lost the lock",
                           "use an engine with tokens for what must not be written twice, and "
                           "leave out fence=off");
}

/* 'T' in the third field of /proc/PID/stat. */
static bool is_stopped(int64_t pid)
{
    char path[64], line[512] = "", *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    end = strrchr(line, ')');
    return end && (end[2] == 'T' || end[2] == 't');
}

static void check_holder(struct cli_doctor *doctor, const hf_entry *entry)
{
    char host[256] = "", what[512];

    gethostname(host, sizeof(host) - 1);
    if (strcmp(host, entry->host) != 0 || entry->pid <= 0 || !is_stopped(entry->pid))
        return;
    snprintf(what, sizeof(what), "pid %" PRId64 " holds '%.200s' and is stopped", entry->pid,
             entry->name);
    cli_doctor_finding(doctor, "holder-stopped", what,
                       "no other process gets the lock until it continues or dies",
                       "continue it (kill -CONT), or take the lock away with: holdfast break");
}

static void check_waiter(struct cli_doctor *doctor, const hf_entry *entry)
{
    char what[512], age[32];

    if (entry->since_ms < LONG_WAIT_MS)
        return;
    cli_duration_format(age, sizeof(age), entry->since_ms);
    snprintf(what, sizeof(what), "pid %" PRId64 " has waited %s for '%.200s'", entry->pid, age,
             entry->name);
    cli_doctor_finding(doctor, "long-wait", what, "it may be part of a deadlock",
                       "see its holder with: holdfast show; give waits a limit with -w");
}

static void tell_circle(void *arg, const char *circle)
{
    cli_doctor_finding(arg, "deadlock", circle, "they wait for each other without end",
                       "end one of them; take the locks in one order everywhere, as hf_lock_all "
                       "and holdfast run -l do");
}

static int check_locks(struct cli_doctor *doctor)
{
    struct cli_picture picture;
    unsigned holders = 0, waiters = 0;
    /* mutant: doctor-lists-locks-of-others */
    int code = cli_picture_take(&picture, doctor->session->client, doctor->name);

    for (size_t i = 0; i < picture.count; i++) {
        const hf_entry *entry = &picture.entries[i].entry;
        holders += entry->role == HF_ROLE_HOLDER;
        waiters += entry->role == HF_ROLE_WAITER;
        if (entry->role == HF_ROLE_HOLDER)
            check_holder(doctor, entry);
        if (entry->role == HF_ROLE_WAITER)
            check_waiter(doctor, entry);
    }
    if (code == HF_OK || picture.count > 0)
        cli_doctor_fact(doctor, "in use", "%s%u held, %u waiting%s",
                        code == HF_OK ? "" : "at least ", holders, waiters,
                        doctor->name ? ", of this name"
                        : hf_caps(doctor->session->client) & HF_CAP_INSPECT_ALL
                            ? ""
                            : ", of what holdfast took or waits for");
    if (code == HF_EKIND && doctor->name) {
        cli_doctor_finding(doctor, "another-kind", hf_last_error()->text,
                           "no lock of this name is granted", "give one of the two another name");
        code = HF_OK;
    }
    cli_picture_release(&picture);
    if (waiters > 0 && !doctor->name)
        (void)cli_graph_circles(doctor->session->client, tell_circle, doctor);
    return code;
}

static void check_environment(struct cli_doctor *doctor)
{
    const char *url = getenv("HOLDFAST_URL");
    char *hidden = url ? strdup(url) : NULL;

    if (hidden)
        cli_url_hide_password(hidden);
    if (hidden && strcmp(hidden, url) != 0)
        cli_doctor_finding(doctor, "password-in-environment", "$HOLDFAST_URL contains a password",
                           "every process of this user, and their crash dumps, can read it",
                           "put the URL into a file of mode 0600 and use --url-file");
    free(hidden);
}

/* What the store's findings explain is no error beside them: it is so, and they say why. Neither is
 * that a user of one name may not do what only doctor does. */
static int excuse(struct cli_doctor *doctor, const char *key, int code)
{
    bool limited = code == HF_DENIED && doctor->name;
    bool refused = code == HF_DENIED && !doctor->refusal_told;

    if (code == HF_OK || (!limited && (refused || doctor->store_findings == 0)))
        return code;
    cli_doctor_fact(doctor, key, "not known: %s", hf_last_error()->text);
    return HF_OK;
}

/* By a lock a store may find out that it cannot write it: that is said when it is asked again. What
 * our own lock would need is no news to a user of one name: what that name's need has been seen. */
static int try_lock(struct cli_doctor *doctor)
{
    int measured = measure(doctor), code;

    if (measured == HF_DENIED && doctor->name) {
        cli_doctor_fact(
            doctor, "lock + unlock",
            "not measured: it takes a lock of another name, which this user may not have");
        return HF_OK;
    }
    if (measured == HF_DENIED && doctor->cannot_forget) {
        cli_doctor_fact(doctor, "lock + unlock",
                        "not measured: what a lock leaves at the store may not be removed: %s",
                        hf_last_error()->text);
        return HF_OK;
    }
    if (measured == HF_ECORRUPT && (hf_caps(doctor->session->client) & HF_CAP_SCHEMA)) {
        /* The tables are not there yet, or differ. */
        if (doctor->store_findings > 0)
            cli_doctor_fact(doctor, "lock + unlock", "not measured: %s", hf_last_error()->text);
        else if (!cli_has_own_tables(doctor->session->client))
            return HF_ECORRUPT;
        else
            cli_doctor_fact(doctor, "lock + unlock",
                            "not measured: the first lock makes the tables");
        return HF_OK;
    }
    code = excuse(doctor, "lock + unlock", measured);
    /* Should it be silent by now, what it said before is told all the same. */
    if (measured == HF_ELIMIT && code == HF_OK) { /* mutant: store-that-refuses-doctor-lock */
        doctor->asks_again = true;
        (void)hf_examine(doctor->session->client, doctor->name, note_remark, doctor);
    }
    return code;
}

static int examine(struct cli_doctor *doctor)
{
    unsigned findings;
    int code;

    cli_doctor_fact(doctor, "holdfast", "%s", hf_version());
    cli_doctor_fact(doctor, "store", "%s", hf_url(doctor->session->client));
    print_capabilities(doctor);
    cli_doctor_check_file(doctor);
    findings = doctor->findings + doctor->ignored;
    code = hf_examine(doctor->session->client, doctor->name, note_remark, doctor);
    doctor->store_findings = doctor->findings + doctor->ignored - findings;
    doctor->session->muted = true; /* our own locks are no news */
    if (code == HF_OK)
        code = try_lock(doctor);
    doctor->session->muted = false;
    if (code == HF_OK && (hf_caps(doctor->session->client) & HF_CAP_INSPECT))
        code = excuse(doctor, "in use", check_locks(doctor));
    /* Tokens contain the time; a clock in the past makes them rise by one a grant, which still is
     * right, but two stores can no longer be compared. */
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec < 1577836800)
        cli_doctor_finding(
            doctor, "clock-before-2020", "the system's clock is before the year 2020",
            "after the loss of the state file, tokens could fall back below older ones",
            "set the clock, with NTP for example");
    check_environment(doctor);
    return code;
}

/* Facts are printed before the library sees it. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);

    if (length == 0)
        cli_complain("the lock's name is empty; give it 1 to %d bytes", HF_NAME_MAX);
    else if (length > HF_NAME_MAX)
        cli_complain("the lock's name has %zu bytes (\"%.40s...\"); the limit is %d", length, name,
                     HF_NAME_MAX);
    return length > 0 && length <= HF_NAME_MAX;
}

int cli_doctor(struct cli_settings *settings)
{
    struct cli_client session;
    struct cli_doctor doctor = { .session = &session };
    int code, result;

    if (settings->word_count > 1)
        return cli_usage(settings, "doctor", "doctor takes one name, or none");
    doctor.name = settings->word_count ? settings->words[0] : NULL;
    if (doctor.name && !is_name(doctor.name))
        return CLI_USAGE;
    result = cli_session_look(&session, settings);
    if (result == CLI_OK && !session.client)
        result = cli_session_open(&session, settings, NULL); /* else there is nothing to measure */
    if (result != CLI_OK)
        return result;
    if (!settings->json)
        doctor.told = open_memstream(&doctor.text, &doctor.length);
    code = examine(&doctor);
    while (doctor.known_count > 0)
        free(doctor.known[--doctor.known_count]);
    if (settings->json)
        puts("\n]");
    else {
        /* What was found stands behind all facts, and is counted. */
        if (doctor.told) {
            fclose(doctor.told);
            fwrite(doctor.text, 1, doctor.length, stdout);
            free(doctor.text);
        }
        const char *begin = settings->fix ? cli_doctor_comment(hf_url(session.client)) : "\n";
        if (doctor.ignored)
            printf("%s%u finding%s ignored.\n", begin, doctor.ignored, cli_plural(doctor.ignored));
        if (doctor.findings)
            printf("%s%u finding%s.\n", begin, doctor.findings, cli_plural(doctor.findings));
        else if (code == HF_OK && !doctor.ignored)
            printf("%sNothing endangers locks here, as far as can be seen.\n", begin);
    }
    result = code != HF_OK ? cli_fail(settings, code, hf_last_error())
                           : (doctor.findings ? CLI_FINDINGS : CLI_OK);
    cli_session_close(&session);
    return result;
}
