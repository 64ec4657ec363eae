/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: the one list of codes, names and texts. */
#include "base/error.h"

#include "base/testing.h"
#include "base/thread_local.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CODES(X)                                                                                   \
    X(HF_OK, "done")                                                                               \
    X(HF_BUSY, "another owner holds it")                                                           \
    X(HF_LOST, "the lock was lost")                                                                \
    X(HF_CANCELED, "the request was cancelled")                                                    \
    X(HF_UNREACHABLE, "the store did not answer")                                                  \
    X(HF_DENIED, "the store refuses access")                                                       \
    X(HF_EINVAL, "an argument is wrong")                                                           \
    X(HF_EDEADLK, "the caller would wait for itself")                                              \
    X(HF_EKIND, "the name is in use as another kind of thing")                                     \
    X(HF_ENOTSUP, "this engine cannot do that")                                                    \
    X(HF_EFORKED, "the client was opened before fork(); open a new one in the child")              \
    X(HF_ECLOSED, "the client is being closed")                                                    \
    X(HF_ENOMEM, "out of memory")                                                                  \
    X(HF_ELIMIT, "a limit of the store or of this process is reached")                             \
    X(HF_ECORRUPT, "the store's state is damaged, foreign or of another version")                  \
    X(HF_EINTERNAL, "internal error of holdfast; please report it")

static const struct {
    int code;
    const char *name, *text;
} codes[] = {
#define ROW(code, text) { code, #code, text },
    CODES(ROW)
#undef ROW
};

const char *hf_code_name(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "HF_UNKNOWN";
}

const char *hf_code_text(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].text;
    return "unknown code";
}

const char *hf_version(void)
{
    return HF_BUILD_VERSION;
}

/* ---- the calling thread's last error ---- */

/* Behind a pointer: a library that is loaded late shares little room for variables of a thread with
 * all others. Allocated at the thread's first failure, freed when the thread ends. */
static _Thread_local hf_error *last HF_THREAD_LOCAL_NEAR;
static _Thread_local bool memory_was_missing HF_THREAD_LOCAL_NEAR;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void free_last(void *error)
{
    last = NULL; /* what runs after this in the thread may fail anew */
    free(error);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, free_last) == 0;
}

/* No thread may call free_last after the library was unloaded. */
__attribute__((destructor)) static void delete_key(void)
{
    if (key_made)
        pthread_key_delete(key);
}

const hf_error *hf_last_error(void)
{
    static const hf_error none = { .text = "no call has failed in this thread" };
    static const hf_error no_memory = { HF_ENOMEM, 0,
                                        "a call has failed, and there was no memory to say why; "
                                        "its result is right" };
    if (last)
        return last;
    return memory_was_missing ? &no_memory : &none;
}

hf_error *hf__error_last(void)
{
    if (last)
        return last;
    pthread_once(&key_once, make_key);
    hf_error *error = key_made ? hf__calloc(1, sizeof *error) : NULL;
    if (error && pthread_setspecific(key, error) == 0)
        last = error;
    else
        free(error);
    memory_was_missing = !last;
    return last;
}

void hf__error_keep(const hf_error *error)
{
    hf_error *kept = hf__error_last();
    if (kept)
        *kept = *error;
}

/* ---- sentences ---- */

size_t hf__utf8_length(const char *bytes)
{
    static const unsigned char least_second[] = { [0xe0] = 0xa0, [0xf0] = 0x90 };
    const unsigned char *text = (const unsigned char *)bytes;
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = first < sizeof least_second && text[1] < least_second[first];
    bool surrogate = first == 0xed && text[1] > 0x9f, beyond = first == 0xf4 && text[1] > 0x8f;
    return length > 1 && (overlong || surrogate || beyond) ? 0 : length;
}

/* A sentence is one line in UTF-8, whatever a lock name or a server put into it, and wherever it
 * was cut. */
static void keep_to_one_line(char *text)
{
    while (*text) {
        size_t length = hf__utf8_length(text);
        if (length == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
        text += length > 0 ? length : 1;
    }
}

int hf__error_vset(hf_error *error, int code, int native, const char *format, va_list arguments)
{
    if (!error)
        return code;
    error->code = code;
    error->native = native;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    keep_to_one_line(error->text);
    return code;
}

int hf__error_set(hf_error *error, int code, int native, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hf__error_vset(error, code, native, format, arguments);
    va_end(arguments);
    return code;
}
