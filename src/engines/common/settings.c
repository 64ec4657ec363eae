/* SPDX-License-Identifier: Apache-2.0 */
/* Options of URLs, read by a table. */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits of the longest number that an option may have. */
#define DIGITS_MAX 18

/* The option's position in the URL as it was given, from 1; 0: it comes from elsewhere. */
static long position_of(const struct hf_url *url, const char *name)
{
    for (unsigned i = 0; i < url->option_count; i++) {
        const char *key = url->options[i].key;
        if (strcmp(key, name) == 0 && key >= url->storage &&
            key < url->storage + sizeof url->storage)
            return key - url->storage + 1;
    }
    return 0;
}

static void describe(const struct hf_setting *row, char *text, size_t size)
{
    if (row->type == HF_SETTING_NUMBER) {
        snprintf(text, size, "a number%s%s from %lld to %lld", row->unit ? " of " : "",
                 row->unit ? row->unit : "", (long long)row->min, (long long)row->max);
        return;
    }
    size_t used = 0;
    for (unsigned i = 0; row->words[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0              ? ""
                                 : row->words[i + 1] ? ", "
                                                     : " or ",
                                 row->words[i]);
}

static int refuse(const struct hf_setting *row, const struct hf_url *url, const char *value,
                  hf_error *error)
{
    char form[160], given[64] = "", where[40] = "";
    long position = position_of(url, row->name);
    describe(row, form, sizeof form);
    /* A value with an '@' may be a password that a badly formed URL put here. */
    if (!row->secret && !strchr(value, '@'))
        snprintf(given, sizeof given, ", not \"%.40s\"", value);
    if (position > 0)
        snprintf(where, sizeof where, " (position %ld)", position);
    return hf__url_refuse(url, error, "%s is %s%s%s", row->name, form, given, where);
}

static bool settings_read_number(const struct hf_setting *row, const char *value, int64_t *ret)
{
    char *end;
    if (*value < '0' || *value > '9' || strlen(value) > DIGITS_MAX)
        return false;
    *ret = strtoll(value, &end, 10);
    return !*end && *ret >= row->min && *ret <= row->max; /* mutant: number-with-something */
}

static bool read_choice(const struct hf_setting *row, const char *value, uint32_t *ret)
{
    for (uint32_t i = 0; row->words[i]; i++)
        if (strcmp(row->words[i], value) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

int hf__settings_read(void *settings, const struct hf_setting *table, size_t count,
                      struct hf_url *url, hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct hf_setting *row = &table[i];
        void *field = (char *)settings + row->at;
        const char *value = hf__url_option(url, row->name, NULL);
        bool read = true;
        if (row->type == HF_SETTING_TEXT) {
            *(const char **)field = value ? value : row->text;
        } else if (row->type == HF_SETTING_NUMBER) {
            *(int64_t *)field = row->number;
            read = !value || settings_read_number(row, value, field);
        } else {
            *(uint32_t *)field = row->choice;
            read = !value || read_choice(row, value, field);
        }
        if (!read)
            return refuse(row, url, value, error);
    }
    return HF_OK;
}

/* False: there is nothing to show. */
static bool print_value(const struct hf_setting *row, const void *field, char *text, size_t size)
{
    if (row->type == HF_SETTING_NUMBER) {
        snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
        return true;
    }
    uint32_t choice = row->type == HF_SETTING_CHOICE ? *(const uint32_t *)field : 0;
    const char *word = row->type == HF_SETTING_TEXT  ? *(const char *const *)field
                       : choice != HF_SETTING_ABSENT ? row->words[choice]
                                                     : NULL;
    snprintf(text, size, "%s", word ? word : "");
    return word != NULL;
}

char *hf__settings_print(char *text, size_t size, const void *settings,
                         const struct hf_setting *table, size_t count)
{
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        char value[HF_URL_MAX];
        const struct hf_setting *row = &table[i];
        if (print_value(row, (const char *)settings + row->at, value, sizeof value))
            used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used ? "&" : "",
                                     /* mutant: secret-of-url-is-shown */
                                     row->name, row->secret ? "***" : value);
    }
    return text;
}
