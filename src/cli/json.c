/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON, and labels of metrics. A name may be any bytes but NUL; both can only carry
 * UTF-8, so what is not gets a replacement character, and names also appear in hexadecimal. */
#include "cli.h"

#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* The length that a first byte promises, and the range of its second byte, which rules out overlong
 * forms, surrogates and what lies beyond U+10FFFF. */
static size_t lead_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

size_t cli_utf8_length(const char *text, size_t length)
{
    unsigned char low, high, lead = length ? (unsigned char)text[0] : 0xff;
    size_t need;

    if (lead < 0x80)
        return 1;
    need = lead_length(lead, &low, &high);
    if (need == 0 || need > length || (unsigned char)text[1] < low || (unsigned char)text[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++)
        if (!is_continuation((unsigned char)text[i]))
            return 0;
    return need;
}

static void put_escaped(FILE *out, unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        fprintf(out, "\\%c", c);
        break;
    case '\n':
        fputs("\\n", out);
        break;
    case '\t':
        fputs("\\t", out);
        break;
    default:
        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
}

void cli_json_string(FILE *out, const char *text, size_t length)
{
    fputc('"', out);
    while (length > 0) {
        size_t step = cli_utf8_length(text, length);
        bool control = step == 2 && text[0] == '\xc2' && (unsigned char)text[1] < 0xa0;
        if (step == 1)
            put_escaped(out, (unsigned char)*text);
        else if (control)
            fprintf(out, "\\u%04x", (unsigned char)text[1]);
        else if (step > 1)
            fwrite(text, 1, step, out);
        else
            fputs("\\ufffd", out);
        text += step ? step : 1;
        length -= step ? step : 1;
    }
    fputc('"', out);
}

bool cli_is_utf8(const char *text, size_t length)
{
    while (length > 0) {
        size_t step = cli_utf8_length(text, length);
        if (step == 0)
            return false;
        text += step;
        length -= step;
    }
    return true;
}

void cli_json_name(FILE *out, const char *name, size_t length)
{
    fputs("\"name\":", out);
    cli_json_string(out, name, length);
    if (cli_is_utf8(name, length))
        return;
    fputs(",\"name_hex\":\"", out);
    for (size_t i = 0; i < length; i++)
        fprintf(out, "%02x", (unsigned char)name[i]);
    fputc('"', out);
}

void cli_label_print(FILE *out, const char *text)
{
    for (size_t length = strlen(text), step; length > 0; text += step, length -= step) {
        step = cli_utf8_length(text, length);
        if (step == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)step, text);
        step = step ? step : 1;
    }
}
