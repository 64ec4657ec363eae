/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of the store, as show, break and doctor look at it. */
#ifndef HF_CLI_SHOW_SHOW_H
#define HF_CLI_SHOW_SHOW_H

#include "cli/cli.h"

/* A copy of an hf_entry. */
struct cli_entry {
    char *name, *owner_key, *owner_text, *host;
    hf_entry entry; /* its strings are the ones above */
    size_t order;   /* as the store told it */
};

struct cli_picture {
    struct cli_entry *entries;
    size_t count, room;
    bool out_of_memory;
};

/* `name` NULL: everything, by name. `client` NULL: there is nothing. An hf_code. */
int cli_picture_take(struct cli_picture *picture, hf_client *client, const char *name);
/* What is neither held nor waited for nor has a value of its own is a memory of the store's. */
bool cli_picture_is_idle(const struct cli_picture *picture, size_t i);
void cli_picture_release(struct cli_picture *picture);

/* ---- show_graph.c ---- */

/* What waits for what, as the settings want it drawn. An exit code. */
int cli_graph_print(struct cli_client *session);
/* Tells of each circle, once: a sentence that lives until the function returns. An hf_code. */
int cli_graph_circles(hf_client *client, void (*found)(void *arg, const char *circle), void *arg);

/* ---- show_table.c, show_json.c ---- */

/* Entries for which `wanted` is false are left out. */
void cli_table_print(FILE *out, const struct cli_picture *picture, const bool *wanted, int width);
void cli_picture_print_json(FILE *out, const struct cli_picture *picture, const bool *wanted);
/* One object on one line, with the wall-clock time of now. */
void cli_picture_print_json_line(FILE *out, const struct cli_picture *picture, const bool *wanted);

#endif
