/* SPDX-License-Identifier: Apache-2.0 */
/* show --graph: which owner waits for which, with the circles marked. */
#include "base/clock.h"
#include "base/wait_graph.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is drawn, and of that what two lists confirm. */
struct graphs {
    struct hf_graph all, sure;
};

static bool show_graph_add_entry(void *arg, const hf_entry *entry)
{
    struct hf_graph *graph = arg;

    hf__graph_add_entry(graph, entry);
    return !graph->out_of_memory;
}

static void show_graph_release(struct graphs *graphs)
{
    hf__graph_free(&graphs->all);
    hf__graph_free(&graphs->sure);
}

static int take_list(struct hf_graph *graph, hf_client *client)
{
    int code;

    *graph = (struct hf_graph){ .asked_ms = hf__clock_ms() };
    code = client ? hf_inspect(client, NULL, show_graph_add_entry, graph) : HF_OK;
    return code == HF_OK && graph->out_of_memory ? HF_ENOMEM : code;
}

/* An hf_code; what was taken is to be released in any case. */
static int show_graph_take(struct graphs *graphs, hf_client *client)
{
    struct hf_graph first;
    int code = take_list(&first, client);

    *graphs = (struct graphs){ 0 };
    if (code == HF_OK)
        code = take_list(&graphs->all, client);
    graphs->sure.asked_ms = graphs->all.asked_ms;
    for (uint32_t i = 0; i < graphs->all.count; i++)
        hf__graph_add(&graphs->sure, &graphs->all.claims[i]);
    hf__graph_confirm(&graphs->sure, &first);
    hf__graph_free(&first);
    return code == HF_OK && graphs->sure.out_of_memory ? HF_ENOMEM : code;
}

/* Do both lists have this wait, and is the way over this hold a part of a circle? */
static bool is_in_circle(struct graphs *graphs, const struct hf_graph_claim *wait,
                         const struct hf_graph_claim *hold)
{
    struct hf_graph *sure = &graphs->sure;

    for (uint32_t i = 0; i < sure->count; i++) {
        const struct hf_graph_claim *claim = &sure->claims[i];
        if (!claim->waits || strcmp(claim->key, wait->key) != 0 ||
            strcmp(claim->name, wait->name) != 0)
            continue;
        hf__graph_find(sure, i);
        for (uint32_t e = 0; e < sure->edge_count; e++)
            if (sure->edges[e].from == i &&
                strcmp(sure->claims[sure->edges[e].hold].key, hold->key) == 0)
                return true;
    }
    return false;
}

/* Owners that are no threads wait, too; only circles of them are not known. */
static bool waits_for(const struct hf_graph_claim *wait, const struct hf_graph_claim *hold)
{
    bool same = *wait->owner && strcmp(wait->owner, hold->owner) == 0;

    return wait->waits && !hold->waits && !same && strcmp(wait->name, hold->name) == 0 &&
           hf__graph_excludes(hold->mode, wait->mode);
}

/* In quotation marks, as both DOT and people read it. */
static void print_quoted(const char *text)
{
    char shown[1024];

    cli_make_printable(shown, sizeof(shown), text, strlen(text));
    putchar('"');
    for (const char *at = shown; *at; at++) {
        if (*at == '"' || *at == '\\')
            putchar('\\');
        putchar(*at);
    }
    putchar('"');
}

static void print_edge(const struct hf_graph_claim *wait, const struct hf_graph_claim *hold,
                       bool circle, bool dot)
{
    char text[512];

    if (dot) {
        fputs("    ", stdout);
        print_quoted(wait->text);
        fputs(" -> ", stdout);
        print_quoted(hold->text);
        fputs(" [label=", stdout);
        print_quoted(wait->name);
        puts(circle ? ", color=red, penwidth=2];" : "];");
        return;
    }
    cli_make_printable(text, sizeof(text), wait->text, strlen(wait->text));
    printf("%s %s waits for ", circle ? "(circle)" : "        ", text);
    print_quoted(wait->name);
    cli_make_printable(text, sizeof(text), hold->text, strlen(hold->text));
    printf(", held by %s\n", text);
}

int cli_graph_print(struct cli_client *session)
{
    struct graphs graphs;
    bool dot = strcmp(session->settings->graph, "dot") == 0, any = false;
    int code = show_graph_take(&graphs, session->client);

    if (code == HF_OK) {
        if (dot)
            puts("digraph holdfast {\n    rankdir=LR;");
        for (uint32_t i = 0; i < graphs.all.count; i++)
            for (uint32_t j = 0; j < graphs.all.count; j++) {
                const struct hf_graph_claim *wait = &graphs.all.claims[i];
                const struct hf_graph_claim *hold = &graphs.all.claims[j];
                if (!waits_for(wait, hold))
                    continue;
                any = true;
                print_edge(wait, hold, is_in_circle(&graphs, wait, hold), dot);
            }
        if (dot)
            puts("}");
        else if (!any && isatty(STDOUT_FILENO))
            puts("No owner waits for another one.");
        cli_flush();
    }
    show_graph_release(&graphs);
    return code == HF_OK ? CLI_OK : cli_fail(session->settings, code, hf_last_error());
}

int cli_graph_circles(hf_client *client, void (*found)(void *arg, const char *circle), void *arg)
{
    char circle[400];
    struct graphs graphs;
    int code = show_graph_take(&graphs, client);

    /* Each circle is told from its youngest wait. */
    for (uint32_t i = 0; code == HF_OK && i < graphs.sure.count; i++) {
        if (!graphs.sure.claims[i].waits || hf__graph_find(&graphs.sure, i) != i)
            continue;
        hf__graph_tell(&graphs.sure, i, circle, sizeof(circle));
        found(arg, circle);
    }
    show_graph_release(&graphs);
    return code;
}
