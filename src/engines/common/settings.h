/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an engine's URL as one table: name, type, default, range, and whether the value is
 * a secret. The engine keeps what they say in a struct of its own; each row names a field of it.
 *
 *     struct settings { int64_t timeout_ms; uint32_t names; const char *ticket; };
 *     static const struct hf_setting table[] = {
 *         { .name = "timeout", .type = HF_SETTING_NUMBER,
 *           .at = offsetof(struct settings, timeout_ms),
 *           .unit = "milliseconds", .number = 5000, .min = 100, .max = 3600000 },
 *         { .name = "names", .type = HF_SETTING_CHOICE, .at = offsetof(struct settings, names),
 *           .words = { "short", "long" } },
 *         { .name = "ticket", .type = HF_SETTING_TEXT, .at = offsetof(struct settings, ticket),
 *           .secret = true },
 *     };
 *
 * Callable on any thread; nothing is allocated. Texts are the URL's own, which lives as long as the
 * engine. The options of TLS are read by hf__tls_open_by_url, and need no rows. */
#ifndef HF_ENGINES_COMMON_SETTINGS_H
#define HF_ENGINES_COMMON_SETTINGS_H

#include "base/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_SETTING_WORDS_MAX 4
/* As the default of a choice: the field is HF_SETTING_ABSENT where the URL says nothing. */
#define HF_SETTING_ABSENT UINT32_MAX

enum hf_setting_type {
    HF_SETTING_TEXT,   /* the field: const char *; anything */
    HF_SETTING_NUMBER, /* the field: int64_t; decimal digits, in a range */
    HF_SETTING_CHOICE  /* the field: uint32_t; one of a few words, by its number in the row */
};

struct hf_setting {
    const char *name;
    enum hf_setting_type type;
    bool secret; /* no sentence shows the value */
    size_t at;   /* of the field: offsetof */
    /* The default: of a text, of a number, of a choice (the word's number). */
    const char *text;
    int64_t number;
    uint32_t choice;
    int64_t min, max;                            /* of a number */
    const char *unit;                            /* of a number, "milliseconds"; NULL: none */
    const char *words[HF_SETTING_WORDS_MAX + 1]; /* of a choice; ends with NULL */
};

/* Fills every field that the table names, from the URL or by default. HF_OK; or HF_EINVAL, and
 * *error says which option is wrong, what it may be, and its position in the URL. Each option of
 * the table counts as used: hf__url_unused_option has those that the engine does not know, and the
 * core refuses them after `open`. */
int hf__settings_read(void *settings, const struct hf_setting *table, size_t count,
                      struct hf_url *url, hf_error *error);

/* "timeout=5000&names=long&ticket=***": what is in force, for logs and the doctor. Returns `text`,
 * cut where it does not fit. */
char *hf__settings_print(char *text, size_t size, const void *settings,
                         const struct hf_setting *table, size_t count);

#endif
