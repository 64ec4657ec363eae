/* SPDX-License-Identifier: Apache-2.0 */
/* The facts and findings of doctor, as they are printed. */
#include "doctor.h"

#include <stdarg.h>
#include <string.h>

/* Where what is known of a key begins. */
#define TEXT_COLUMN 15

/* Facts of one of several servers, "HOST: WHAT", stand under its name. */
static void print_fact(struct cli_doctor *doctor, const char *key, const char *value)
{
    const char *colon = strstr(key, ": ");
    size_t length = colon ? (size_t)(colon - key) : 0;

    if (!colon) {
        cli_say_wrapped(stdout, TEXT_COLUMN, "%-14s %s", key, value);
        return;
    }
    if (strncmp(doctor->server, key, length) != 0 || doctor->server[length] != '\0') {
        snprintf(doctor->server, sizeof(doctor->server), "%.*s", (int)length, key);
        cli_say(stdout, "\n", "%s", doctor->server);
    }
    cli_say_wrapped(stdout, TEXT_COLUMN, "  %-12s %s", colon + 2, value);
}

/* JSON is one array, printed as things are found. */
static bool has_printed(const struct cli_doctor *doctor)
{
    return doctor->facts + doctor->findings + doctor->ignored > 0;
}

void cli_doctor_fact(struct cli_doctor *doctor, const char *key, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (doctor->session->settings->json) {
        printf("%s{\"fact\":", has_printed(doctor) ? ",\n" : "[\n");
        cli_json_string(stdout, key, strlen(key));
        fputs(",\"value\":", stdout);
        cli_json_string(stdout, text, strlen(text));
        putchar('}');
    } else if (!doctor->session->settings->fix) {
        print_fact(doctor, key, text);
    }
    doctor->facts++;
}

static bool is_ignored(const struct cli_doctor *doctor, const char *id)
{
    const struct cli_settings *settings = doctor->session->settings;

    for (unsigned i = 0; i < settings->name_count; i++)
        if (strcmp(settings->names[i], id) == 0)
            return true;
    return false;
}

static void print_finding_json(const struct cli_doctor *doctor, const char *const texts[4],
                               bool ignored)
{
    static const char *const keys[] = { "finding", "consequence", "cure", "id" };

    fputs(has_printed(doctor) ? ",\n" : "[\n", stdout);
    for (int i = 0; i < 4; i++) {
        printf("%s\"%s\":", i ? "," : "{", ignored && i == 0 ? "ignored" : keys[i]);
        cli_json_string(stdout, texts[i], strlen(texts[i]));
    }
    if (doctor->session->settings->fix)
        cli_doctor_fix_json(stdout, hf_url(doctor->session->client), texts[3], texts[0], texts[2]);
    putchar('}');
}

/* An engine that gives no name cannot be told to be silent. */
void cli_doctor_finding(struct cli_doctor *doctor, const char *id, const char *what,
                        const char *consequence, const char *cure)
{
    const char *const texts[] = { what, consequence, cure, id ? id : "" };
    bool ignored = id && is_ignored(doctor, id);
    FILE *out = doctor->told ? doctor->told : stdout;

    if (doctor->session->settings->json) {
        print_finding_json(doctor, texts, ignored);
    } else if (!ignored && doctor->session->settings->fix) {
        cli_doctor_fix(out, hf_url(doctor->session->client), texts[3], what, cure);
    } else if (!ignored) {
        fputc('\n', out);
        cli_say_wrapped(out, TEXT_COLUMN, "FINDING        %s", what);
        cli_say_wrapped(out, TEXT_COLUMN, "  consequence  %s", consequence);
        cli_say_wrapped(out, TEXT_COLUMN, "  cure         %s", cure);
        if (id)
            cli_say(out, "\n", "  id           %s", id);
    }
    doctor->findings += !ignored;
    doctor->ignored += ignored;
}
