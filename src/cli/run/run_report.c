/* SPDX-License-Identifier: Apache-2.0 */
/* What a run leaves for monitoring: --report, a line of JSON, and --metrics, a file for the
 * textfile collector of Prometheus' node_exporter. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A pipe without a reader, or one that is full, must not hold up what the lock is released for. */
#define REPORT_FLAGS (O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK)

/* Answers the exit code that it comes to. */
static int complain_of_file(int code, const char *option, const char *path)
{
    cli_tell(CLI_ERROR, code,
             "%s '%s' cannot be written: %s; name a file in a folder that this user may write to",
             option, path, strerror(errno));
    return code;
}

/* The collector must never read half a file, so the new one replaces it as a whole. *ret is its
 * name until then, to be freed. */
static int open_metrics(const char *path, char **ret)
{
    struct stat found;
    int fd;

    *ret = NULL;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        errno = S_ISDIR(found.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    if (asprintf(ret, "%s.XXXXXX", path) < 0) {
        *ret = NULL;
        return -1;
    }
    fd = mkostemp(*ret, O_CLOEXEC);
    if (fd < 0) {
        free(*ret);
        *ret = NULL;
    }
    return fd;
}

int cli_report_check(const struct cli_settings *settings)
{
    char *name;
    int fd;

    if (settings->report) {
        fd = open(settings->report, REPORT_FLAGS, 0666);
        if (fd < 0)
            return complain_of_file(CLI_USAGE, "--report", settings->report);
        close(fd);
    }
    if (settings->metrics) {
        fd = open_metrics(settings->metrics, &name);
        if (fd < 0)
            return complain_of_file(CLI_USAGE, "--metrics", settings->metrics);
        /* A run that is killed leaves no file behind this way. */
        unlink(name);
        free(name);
        close(fd);
    }
    return CLI_OK;
}

struct report {
    const struct cli_job *job;
    int code;
    bool granted, lost;
    int64_t waited_ms, held_ms, ended_at_ms; /* the last one by the wall clock */
};

static void print_lock(FILE *out, const struct cli_job *job, unsigned index)
{
    cli_json_name(out, job->names[index], strlen(job->names[index]));
    if (job->tokens[index])
        fprintf(out, ",\"token\":%" PRIu64, job->tokens[index]);
    else
        fputs(",\"token\":null", out);
}

static void print_report(FILE *out, const struct report *report)
{
    fputc('{', out);
    print_lock(out, report->job, 0);
    if (report->job->count > 1)
        fputs(",\"also\":[", out);
    for (unsigned i = 1; i < report->job->count; i++) {
        fputs(i > 1 ? ",{" : "{", out);
        print_lock(out, report->job, i);
        fputc('}', out);
    }
    fprintf(out,
            "%s,\"granted\":%s,\"waited_ms\":%" PRId64 ",\"held_ms\":%" PRId64
            ",\"exit\":%d,\"lost\":%s,\"ended_at_ms\":%" PRId64 "}\n",
            report->job->count > 1 ? "]" : "", report->granted ? "true" : "false",
            report->waited_ms, report->held_ms, report->code, report->lost ? "true" : "false",
            report->ended_at_ms);
}

/* Gauges alone: they are written alike in Prometheus' text format and in OpenMetrics. */
static void print_metrics(FILE *out, const struct report *report)
{
    const struct {
        const char *name, *help;
        double value;
        int digits;
    } gauges[] = {
        { "granted", "1 if the last run was granted the lock.", report->granted, 0 },
        { "lost", "1 if the last run lost the lock.", report->lost, 0 },
        { "exit_code", "The exit code of the last run.", report->code, 0 },
        { "wait_seconds", "How long the last run waited for the lock.",
          (double)report->waited_ms / 1000, 3 },
        { "hold_seconds", "How long the last run held the lock.", (double)report->held_ms / 1000,
          3 },
        { "end_timestamp_seconds", "When the last run ended.", (double)report->ended_at_ms / 1000,
          3 },
    };

    for (size_t g = 0; g < sizeof(gauges) / sizeof(gauges[0]); g++) {
        fprintf(out, "# HELP holdfast_run_%s %s\n# TYPE holdfast_run_%s gauge\n", gauges[g].name,
                gauges[g].help, gauges[g].name);
        for (unsigned i = 0; i < report->job->count; i++) {
            fprintf(out, "holdfast_run_%s{name=\"", gauges[g].name);
            cli_label_print(out, report->job->names[i]);
            fprintf(out, "\"} %.*f\n", gauges[g].digits, gauges[g].value);
        }
    }
    fputs("# EOF\n", out);
}

/* In one write, so that lines of several runs do not mix. Closes `fd`. */
static bool write_text(int fd, void (*print)(FILE *, const struct report *),
                       const struct report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool done = false;

    if (out) {
        print(out, report);
        if (fclose(out) == 0) {
            ssize_t written = write(fd, text, size);
            done = written == (ssize_t)size;
            if (written >= 0 && !done)
                errno = ENOSPC;
        }
    }
    free(text);
    return close(fd) == 0 && done;
}

static bool write_metrics(const char *path, const struct report *report)
{
    char *name;
    int fd = open_metrics(path, &name);
    mode_t mask = umask(0);
    bool done;

    umask(mask);
    if (fd < 0)
        return false;
    /* The collector is another user. */
    done = fchmod(fd, 0666 & ~mask) == 0;
    done = write_text(fd, print_metrics, report) && done && rename(name, path) == 0;
    if (!done) {
        int error = errno;
        unlink(name);
        errno = error;
    }
    free(name);
    return done;
}

void cli_report_write(const struct cli_job *job, int code)
{
    const struct cli_settings *settings = job->settings;
    int64_t now_ms = cli_now_ms();
    struct report report = { .job = job, .code = code, .granted = job->granted_at_ms != 0 };
    struct timespec wall;

    if (!settings->report && !settings->metrics)
        return;
    clock_gettime(CLOCK_REALTIME, &wall);
    report.ended_at_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    report.lost = job->lost || job->cause == CLI_LOST;
    report.waited_ms = (report.granted ? job->granted_at_ms : now_ms) - job->began_ms;
    report.held_ms = report.granted ? now_ms - job->granted_at_ms : 0;
    if (settings->report) {
        int fd = open(settings->report, REPORT_FLAGS, 0666);
        if (fd < 0 || !write_text(fd, print_report, &report))
            complain_of_file(CLI_OK, "--report", settings->report);
    }
    if (settings->metrics && !write_metrics(settings->metrics, &report))
        complain_of_file(CLI_OK, "--metrics", settings->metrics);
}
