/* SPDX-License-Identifier: Apache-2.0 */
/* The pages and the texts themselves: complete, well-formed, harmless, and of bounded size. Node
 * runs the script of a page, and writes down what it would show. */
#include "test.h"
#include "timeline_example.h"
#include "torture/timeline/timeline.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct example_plan clean = {
    .seed = 1, .clients = 8, .locks = 3, .grants = 2000, .fault_every_ns = 200000000
};
static const struct example_plan broken = {
    .seed = 1, .clients = 8, .locks = 3, .grants = 2000, .fault_every_ns = 200000000, .broken = true
};

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re");
    struct stat status;
    char *text;

    CHECK(file != NULL);
    CHECK_INT(fstat(fileno(file), &status), 0);
    text = calloc(1, (size_t)status.st_size + 1);
    CHECK(text != NULL);
    CHECK_INT(fread(text, 1, (size_t)status.st_size, file), status.st_size);
    fclose(file);
    return text;
}

static int run(const char *program, const char *script, const char *word)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        execlp(program, program, "-c", script, word, (char *)NULL);
        _exit(127);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    return status;
}

/* As a browser shows it. */
static void run_scripts(const char *pattern)
{
    if (run("sh", "command -v node >/dev/null", NULL) != 0)
        SKIP("there is no node to run the script of a page");
    CHECK_INT(run("sh", "node " HISTORIES "/../draw_pages.js $0", pattern), 0);
}

static char *draw_page(const struct example *example, const char *title, const char *path)
{
    struct torture_timeline_about about = { .title = title };
    char error[256];

    if (torture_timeline_html(&example->history, &example->report, &about, path, error))
        FAIL("%s", error);
    return read_all(path);
}

static char *draw_and_show(const struct example *example, const char *title, const char *path)
{
    char drawn[600];

    free(draw_page(example, title, path));
    run_scripts(path);
    snprintf(drawn, sizeof(drawn), "%s.drawn", path);
    return read_all(drawn);
}

static char *draw_text(const struct example *example, unsigned width, bool utf8)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    CHECK(file != NULL);
    CHECK_INT(torture_timeline_text(&example->history, &example->report, file, width, utf8), 0);
    fclose(file);
    return text;
}

/* Python's parser reads what is shown, and finds nothing in it that would be fetched or run. The
 * legend has each form that a close-up is drawn with: a mark's is its path without its place. */
static void check_pages(const char *pattern)
{
    static const char script[] =
        "import glob, re, sys, xml.etree.ElementTree as tree\n"
        "paths = glob.glob(sys.argv[1] + '.drawn')\n"
        "assert paths\n"
        "forms = ('wait', 'hold', 'share', 'tail', 'maybe', 'clash', 'band', 'stop', 'cross')\n"
        "def drawn(top):\n"
        "    found = set()\n"
        "    for element in top.iter():\n"
        "        form, text = element.get('class'), element.text\n"
        "        if form == 'mark':\n"
        "            found.add(re.sub('^M[^lm]*', '', element.get('d')))\n"
        "        elif form in forms or (form == 'mid' and text == '?'):\n"
        "            found.add(form)\n"
        "    return found\n"
        "for path in paths:\n"
        "    page = tree.parse(path)\n"
        "    tops = list(page.iter())\n"
        "    legend = [drawn(top) for top in tops if top.get('class') == 'legend']\n"
        "    for top in tops:\n"
        "        if top.tag.split('}')[-1] == 'figure' and len(legend) == 1:\n"
        "            if top.find('.//{*}figcaption') is not None:\n"
        "                assert drawn(top) <= legend[0], (path, drawn(top) - legend[0])\n"
        "    for element in page.iter():\n"
        "        name = element.tag.split('}')[-1]\n"
        "        assert name not in ('script', 'link', 'img', 'image', 'iframe', 'object'), path\n"
        "        for key, value in element.attrib.items():\n"
        "            assert key != 'src' and not key.startswith('on'), (path, key)\n"
        "            assert key != 'href' or value.startswith('#'), (path, value)\n"
        "            assert 'url(' not in value, (path, value)\n";

    run_scripts(pattern);
    CHECK_INT(run("python3", script, pattern), 0);
}

/* ---- What was found ---- */

static void check_calls(const struct example *example, const char *text, const char *before,
                        const char *after)
{
    for (unsigned i = 0; i < example->report.finding_count; i++)
        for (unsigned j = 0; j < example->report.findings[i].hold_count; j++) {
            char call[64];

            if (example->report.findings[i].holds[j] == 0)
                continue;
            snprintf(call, sizeof(call), "%s%" PRIu64 "%s", before,
                     example->report.findings[i].holds[j], after);
            if (!strstr(text, call))
                FAIL("finding %u: the picture has no \"%s\"", i, call);
        }
}

TEST(every_finding_is_on_the_page_with_its_holds)
{
    struct example example;
    char *page;

    example_run(&example, &broken);
    CHECK_INT(example.report.finding_count, TORTURE_FINDINGS);
    page = draw_page(&example, "local:", temp_path("page.html"));
    check_calls(&example, page, "\"call ", "\"");
    for (unsigned i = 0; i < example.report.finding_count; i++) {
        char *quote = strchr(example.report.findings[i].sentence, '\'');

        CHECK(quote != NULL);
        *quote = '\0';
        CHECK(strstr(page, example.report.findings[i].sentence) != NULL);
    }
    CHECK(strstr(page, "\"verdict\":\"VIOLATION\"") != NULL);
    CHECK(strstr(page, "\"overlap\":1") != NULL);
    CHECK(strstr(page, "per fault at 95 %") == NULL);
    free(page);
    example_free(&example);
}

static unsigned count_words(const char *text, const char *words)
{
    unsigned count = 0;

    for (; (text = strstr(text, words)); text += strlen(words))
        count++;
    return count;
}

/* All findings of a page accuse this one hold. */
TEST(findings_about_one_hold_are_one_group)
{
    struct example example;
    char *page, summary[64];

    example_run(&example, &broken);
    struct torture_report *report = &example.report;
    for (unsigned i = 1; i < report->finding_count; i++)
        report->findings[i] = report->findings[0];
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    snprintf(summary, sizeof(summary), ">%u more findings accuse the same hold, call ",
             report->finding_count - 1);
    CHECK_INT(count_words(page, "<section id="), 1);
    CHECK_INT(count_words(page, ">refused (the small cross, at the end of a wait)<"), 1);
    CHECK_INT(count_words(page, summary), 1);
    CHECK_INT(count_words(page, "<p class=\"finding\"><b>S"), report->finding_count);
    free(page);
    example_free(&example);
}

TEST(a_close_up_names_the_fault_that_hit_before_it)
{
    struct example example;
    char *page;

    example_run(&example, &broken);
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, " The last fault that hit before it: <b>") != NULL);
    free(page);
    example_free(&example);
    example_run(&example, &clean);
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, " The last fault that hit before it: <b>") == NULL);
    free(page);
    example_free(&example);
}

TEST(a_page_says_what_was_promised_and_what_the_run_was)
{
    struct torture_timeline_about about = {
        .title = "local:", .promise = "No promise was <broken>.", .facts = "version 1, seed 2"
    };
    struct example example;
    char error[256], *page;

    example_run(&example, &broken);
    CHECK_INT(torture_timeline_html(&example.history, &example.report, &about,
                                    temp_path("page.html"), error),
              0);
    run_scripts(temp_path("page.html"));
    page = read_all(temp_path("page.html.drawn"));
    CHECK(strstr(page, ">No promise was &lt;broken&gt;.<") != NULL);
    CHECK(strstr(page, ">version 1, seed 2<") != NULL);
    free(page);
    example_free(&example);
}

TEST(every_finding_is_in_the_text_with_its_holds)
{
    struct example example;
    char *text;

    example_run(&example, &broken);
    text = draw_text(&example, 100, true);
    check_calls(&example, text, " ", "");
    CHECK(strstr(text, "XX") != NULL);
    free(text);
    example_free(&example);
}

static void draw_history(const char *name)
{
    struct example example = { 0 };
    char path[512], error[256];
    char *page, *text;

    snprintf(path, sizeof(path), HISTORIES "/%s", name);
    if (torture_history_read(&example.history, path, error))
        FAIL("%s", error);
    torture_check(&example.history, &(struct torture_limits){ 0 }, &example.report);
    page = draw_page(&example, name, temp_path("%s.html", name));
    check_calls(&example, page, "\"call ", "\"");
    CHECK(strstr(page, "not in the history") == NULL);
    text = draw_text(&example, 80, false);
    check_calls(&example, text, " ", "");
    CHECK(strstr(text, "not in the history") == NULL);
    free(page);
    free(text);
    torture_history_free(&example.history);
}

/* The hand-written histories have an example of each rule. */
TEST(every_rule_has_a_picture)
{
    DIR *folder = opendir(HISTORIES);
    struct dirent *entry;
    unsigned count = 0;

    CHECK(folder != NULL);
    while ((entry = readdir(folder)))
        if (strstr(entry->d_name, ".jsonl")) {
            draw_history(entry->d_name);
            count++;
        }
    closedir(folder);
    CHECK(count > 2 * TORTURE_RULES);
    check_pages(temp_path("*.html"));
}

TEST(a_clean_run_shows_a_fault_that_hit_and_no_overlap)
{
    struct example example;
    char *page, *text;

    example_run(&example, &clean);
    page = draw_page(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, "\"verdict\":\"SAFE-SO-FAR\"") != NULL);
    CHECK(strstr(page, "A fault that hit: ") != NULL);
    CHECK(strstr(page, "No violation in ") != NULL);
    CHECK(strstr(page, "\"overlap\":1") == NULL);
    text = draw_text(&example, 100, false);
    CHECK(strstr(text, "A fault that hit: ") != NULL);
    CHECK(strstr(text, "XX") == NULL);
    free(page);
    free(text);
    example_free(&example);
}

TEST(every_kind_of_fault_has_a_row)
{
    struct example example;
    unsigned kinds = 0;
    char *page;

    example_run(&example, &clean);
    for (size_t i = 0; i < example.history.count && kinds < 20; i++)
        if (example.history.records[i].kind == TORTURE_FAULT_ON)
            snprintf(example.history.records[i].text, sizeof(example.history.records[i].text),
                     "weather-%u", ++kinds);
    CHECK_INT(kinds, 20);
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, "<title>weather-1: 1 times") != NULL);
    CHECK(strstr(page, "<title>weather-20: 1 times") != NULL);
    free(page);
    example_free(&example);
}

TEST(an_inconclusive_run_says_why)
{
    struct example_plan plan = clean;
    struct example example;
    char *page;

    plan.fault_every_ns = 0;
    example_run(&example, &plan);
    example.report.verdict = TORTURE_INCONCLUSIVE;
    snprintf(example.report.reason, sizeof(example.report.reason), "the fault \"drip\" never bit");
    example.history.torn = 3;
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, ">INCONCLUSIVE<") != NULL);
    CHECK(strstr(page, "the fault &quot;drip&quot; never bit") != NULL);
    CHECK(strstr(page, "3 records torn") != NULL);
    CHECK(strstr(page, "The longest wait") != NULL);
    free(page);
    example_free(&example);
}

/* ---- Limits ---- */

/* Printable, in the wanted alphabet, and no line wider than wanted. */
static void check_text(const char *text, unsigned width, bool utf8)
{
    unsigned columns = 0;

    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        CHECK(*at == '\n' || *at >= 0x20);
        CHECK(*at != 0x7f && (utf8 || *at < 0x80));
        columns = *at == '\n' ? 0 : columns + ((*at & 0xc0) != 0x80);
        if (columns > width)
            FAIL("a line has more than %u columns", width);
    }
}

TEST(no_line_is_too_wide_whatever_the_history_says)
{
    static const unsigned widths[] = { 60, 73, 80, 100 };

    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct example example;

        example_noise(&example, seed, 1 + seed * 7 % 900);
        for (unsigned i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
            char *text = draw_text(&example, widths[i], seed % 2);

            check_text(text, widths[i], seed % 2);
            free(text);
        }
        example_free(&example);
    }
}

TEST(widths_out_of_range_are_brought_into_it)
{
    struct example example;
    char *text, *same;

    example_run(&example, &broken);
    text = draw_text(&example, 1000, true);
    same = draw_text(&example, 100, true);
    CHECK_STR(text, same);
    free(text);
    free(same);
    text = draw_text(&example, 0, true);
    same = draw_text(&example, 60, true);
    CHECK_STR(text, same);
    free(text);
    free(same);
    example_free(&example);
}

TEST(pages_are_well_formed_whatever_the_history_says)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct example example;

        example_noise(&example, seed, 1 + seed * 31 % 2000);
        free(draw_page(&example, "local:", temp_path("noise-%d.html", (int)seed)));
        example_free(&example);
    }
    check_pages(temp_path("noise-*.html"));
}

TEST(hostile_names_do_nothing)
{
    static const char *const names[] = { "</style><script>alert(1)",
                                         "\" onload=\"alert(1)",
                                         "'><img src=x onerror=a()>",
                                         "\x1b[2J\x1b[31m\r\n\b",
                                         "&lt;&#60;&bogus;]]>",
                                         "\xff\xfe\xc0\xaf\xed\xa0\x80",
                                         "\u202ekcots" };

    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct example_plan plan = broken;
        struct example example;
        char *text;

        plan.lock_name = names[i];
        example_run(&example, &plan);
        for (unsigned j = 0; j < example.report.finding_count; j++)
            snprintf(example.report.findings[j].sentence,
                     sizeof(example.report.findings[j].sentence), "client 1 was granted '%s'",
                     names[i]);
        free(draw_page(&example, names[i], temp_path("hostile-%u.html", i)));
        for (int utf8 = 0; utf8 < 2; utf8++) {
            text = draw_text(&example, 100, utf8);
            check_text(text, 100, utf8);
            free(text);
        }
        example_free(&example);
    }
    check_pages(temp_path("hostile-*.html"));
}

/* The last grant of a lock. */
static uint64_t last_hold(const struct torture_history *history, uint16_t lock)
{
    uint64_t hold = 0;

    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].kind == TORTURE_OK && history->records[i].lock == lock &&
            history->records[i].verb == TORTURE_ACQUIRE)
            hold = history->records[i].hold;
    return hold;
}

TEST(a_crowded_moment_says_what_it_leaves_out)
{
    struct example example;
    struct torture_finding *finding = &example.report.findings[0];
    char *page, *text;

    example_run(&example, &clean);
    example.report.finding_count = 1;
    *finding = (struct torture_finding){ .rule = TORTURE_L2, .hold_count = 2 };
    finding->from = 1;
    finding->to = example.history.count;
    finding->holds[1] = last_hold(&example.history, 0);
    for (size_t i = 0; finding->holds[0] == 0; i++)
        if (example.history.records[i].lock == 0)
            finding->holds[0] = example.history.records[i].hold;
    page = draw_and_show(&example, "local:", temp_path("page.html"));
    CHECK(strstr(page, " more calls in this window are not drawn.") != NULL);
    check_calls(&example, page, "call ", "<");
    text = draw_text(&example, 100, true);
    CHECK(strstr(text, " more calls in this window are not drawn.") != NULL);
    free(page);
    free(text);
    example_free(&example);
}

TEST(a_huge_history_makes_a_small_page)
{
    struct example_plan plan = clean;
    struct example example;
    int64_t begun;
    char *page;

    TEST_TIMEOUT(120);
    plan.clients = 32;
    plan.locks = 8;
    plan.grants = 200000;
    plan.fault_every_ns = 10000000;
    example_run(&example, &plan);
    begun = monotonic_ms();
    page = draw_page(&example, "local:", temp_path("huge.html"));
    test_note("%zu records, %" PRIu64 " faults: %zu bytes of page in %" PRId64 " ms",
              example.history.count, example.report.faults, strlen(page), monotonic_ms() - begun);
    CHECK(strlen(page) < 2000000);
    free(page);
    begun = monotonic_ms();
    free(draw_text(&example, 100, true));
    test_note("text in %" PRId64 " ms", monotonic_ms() - begun);
    example_free(&example);
    check_pages(temp_path("huge.html"));
}

TEST(an_empty_history_is_said_to_be_empty)
{
    struct example example = { .report.verdict = TORTURE_INCONCLUSIVE,
                               .report.reason = "nothing happened" };
    char *page = draw_and_show(&example, "local:", temp_path("empty.html"));
    char *text = draw_text(&example, 80, true);

    CHECK(strstr(page, "Nothing was recorded: there is nothing to draw.") != NULL);
    CHECK(strstr(page, "nothing happened") != NULL);
    CHECK(strstr(text, "Nothing was recorded: there is nothing to draw.") != NULL);
    check_pages(temp_path("empty.html"));
    free(page);
    free(text);
}

/* ---- Trouble ---- */

TEST(a_page_that_cannot_be_written_is_a_sentence)
{
    struct torture_timeline_about about = { .title = "local:" };
    struct example example;
    char error[256];

    example_run(&example, &clean);
    CHECK_INT(torture_timeline_html(&example.history, &example.report, &about,
                                    temp_path("no/such/page.html"), error),
              -1);
    CHECK(strstr(error, "no/such/page.html: No such file or directory") != NULL);
    CHECK_INT(torture_timeline_html(&example.history, &example.report, &about, "/dev/full", error),
              -1);
    CHECK_STR(error, "cannot write the picture /dev/full: No space left on device");
    CHECK_INT(access("/dev/full", F_OK), 0);
    example_free(&example);
}

TEST(a_stream_that_takes_nothing_is_noticed)
{
    struct example example;
    FILE *file = fopen("/dev/full", "we");

    CHECK(file != NULL);
    example_run(&example, &clean);
    CHECK_INT(torture_timeline_text(&example.history, &example.report, file, 80, true), -1);
    CHECK_INT(errno, ENOSPC);
    fclose(file);
    example_free(&example);
}
