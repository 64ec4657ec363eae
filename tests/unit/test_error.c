/* SPDX-License-Identifier: Apache-2.0 */
/* Codes and sentences: each has a name and a text, and a sentence is one line, whatever is put in.
 */
#include "base/error.h"
#include "base/testing.h"

#include "test.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

TEST(each_code_has_a_name_and_a_text)
{
    for (int code = HF_OK; code <= HF_EINTERNAL; code++) {
        CHECK(strncmp(hf_code_name(code), "HF_", 3) == 0);
        CHECK(strcmp(hf_code_name(code), "HF_UNKNOWN") != 0);
        CHECK(strlen(hf_code_text(code)) > 3);
        for (int other = HF_OK; other < code; other++)
            CHECK(strcmp(hf_code_name(code), hf_code_name(other)) != 0);
    }
    CHECK_STR(hf_code_name(HF_BUSY), "HF_BUSY");
    CHECK_STR(hf_code_name(-1), "HF_UNKNOWN");
    CHECK_STR(hf_code_text(1000), "unknown code");
}

TEST(a_sentence_is_one_line)
{
    hf_error error;
    CHECK_INT(hf__error_set(&error, HF_DENIED, 13, "a\nb\t%s\x7f", "\033[1m"), HF_DENIED);
    CHECK_INT(error.code, HF_DENIED);
    CHECK_INT(error.native, 13);
    CHECK_STR(error.text, "a?b??[1m?");
}

TEST(a_long_sentence_is_cut)
{
    hf_error error;
    char text[2 * sizeof error.text];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    hf__error_set(&error, HF_EINVAL, 0, "%s", text);
    CHECK_INT(strlen(error.text), sizeof error.text - 1);
    CHECK_INT(hf__error_set(NULL, HF_EINVAL, 0, "nowhere"), HF_EINVAL);
}

TEST(sentence_with_bytes_that_are_no_utf8_is_utf8)
{
    hf_error error;
    hf__error_set(&error, HF_DENIED, 0, "%s", "a\xff \xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x92");
    CHECK_STR(error.text, "a? \xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x92");
    /* Too long for their character, a surrogate, beyond the last one. */
    hf__error_set(&error, HF_DENIED, 0, "%s",
                  "\xc0\xaf \xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80");
    CHECK_STR(error.text, "?? ??? ??? ????");
}

TEST(character_that_is_cut_becomes_question_marks)
{
    hf_error error;
    char text[sizeof error.text + 4] = "";
    hf__error_set(&error, HF_DENIED, 0, "(%.3s)", "a\xe2\x82\xac");
    CHECK_STR(error.text, "(a?\?)");
    memset(text, 'x', sizeof error.text - 2);
    memcpy(text + sizeof error.text - 2, "\xe2\x82\xac", 3);
    hf__error_set(&error, HF_DENIED, 0, "%s", text);
    CHECK_INT(error.text[sizeof error.text - 2], '?');
}

static void look(void *arg)
{
    *(bool *)arg = strstr(hf_last_error()->text, "NULL") == NULL;
}

TEST(each_thread_has_its_own)
{
    struct thread thread;
    bool untouched = false;
    any_code(hf_open(NULL, "local:", NULL));
    CHECK_INT(hf_last_error()->code, HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "NULL") != NULL);
    thread_start(&thread, look, &untouched);
    thread_join(&thread);
    CHECK(untouched);
}

static bool refuse_memory(size_t size)
{
    (void)size;
    return false;
}

static void fail_without_memory(void *arg)
{
    (void)arg;
    hf__alloc_hook = refuse_memory;
    CHECK_INT(hf_open(NULL, "local:", NULL), HF_EINVAL);
    hf__alloc_hook = NULL;
    CHECK_INT(hf_last_error()->code, HF_ENOMEM);
    CHECK(strstr(hf_last_error()->text, "no memory") != NULL);
    CHECK_INT(hf_open(NULL, "local:", NULL), HF_EINVAL);
    CHECK_INT(hf_last_error()->code, HF_EINVAL);
}

TEST(sentence_without_memory_says_so)
{
    struct thread thread;
    thread_start(&thread, fail_without_memory, NULL);
    thread_join(&thread);
}

#ifdef __GLIBC__
static void fail(void *arg)
{
    (void)arg;
    CHECK_INT(hf_open(NULL, "local:", NULL), HF_EINVAL);
}

static void fail_in_threads(int count)
{
    for (int i = 0; i < count; i++) {
        struct thread thread;
        thread_start(&thread, fail, NULL);
        thread_join(&thread);
    }
}

TEST(sentence_is_freed_when_its_thread_ends)
{
    fail_in_threads(10);
    size_t before = mallinfo2().uordblks;
    fail_in_threads(200);
    CHECK(mallinfo2().uordblks < before + 100 * sizeof(hf_error));
}
#endif
