/* SPDX-License-Identifier: Apache-2.0 */
/* JSON inside a page: a "<" is not written as such, so that no text ends the element around it. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_JSON_H
#define HF_TORTURE_TIMELINE_TIMELINE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct timeline_json {
    FILE *file;
    bool comma; /* before what comes next */
};

/* `key` is NULL in an array. '{' or '['. */
void timeline_json_open(struct timeline_json *out, const char *key, char bracket);
void timeline_json_close(struct timeline_json *out, char bracket);
/* Made harmless (timeline_clean). NULL: null. */
void timeline_json_text(struct timeline_json *out, const char *key, const char *text);
void timeline_json_number(struct timeline_json *out, const char *key, int64_t number);
/* PICTURE_NEVER: null. */
void timeline_json_time(struct timeline_json *out, const char *key, int64_t at);

#endif
