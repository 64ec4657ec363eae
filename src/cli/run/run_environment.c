/* SPDX-License-Identifier: Apache-2.0 */
/* What a command is told by its environment, and how a nested holdfast finds out that the lock it
 * is asked for is held for it already. */
#include "run.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A name, percent-encoded, with its NUL. */
#define ENCODED_SIZE (3 * HF_NAME_MAX + 1)
/* 128 random bits in hexadecimal, with their NUL. */
#define PROOF_SIZE 33

static void set_number(const char *variable, int64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    setenv(variable, text, 1);
}

/* A deadline on the clock that a script can read: milliseconds since 1970. */
static void set_lease(const struct cli_job *job)
{
    struct timespec now;
    int64_t left = job->held_until_ms - job->granted_at_ms;

    unsetenv("HOLDFAST_TTL_MS");
    unsetenv("HOLDFAST_DEADLINE");
    if (job->held_until_ms == CLI_NEVER)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    set_number("HOLDFAST_TTL_MS", left);
    set_number("HOLDFAST_DEADLINE", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + left);
}

/* The proof that we hold something: a socket with this name exists, and the kernel takes it away
 * with us. It is never read from. */
static socklen_t address_of(const char *proof, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                                        "holdfast-held:%s", proof));
}

static bool open_proof(struct cli_job *job, char proof[PROOF_SIZE])
{
    struct sockaddr_un address;
    uint64_t number[2];

    if (getrandom(number, sizeof(number), 0) != sizeof(number))
        return false;
    snprintf(proof, PROOF_SIZE, "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
    job->proof_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return job->proof_fd >= 0 &&
           bind(job->proof_fd, (struct sockaddr *)&address, address_of(proof, &address)) == 0;
}

void cli_environment_over(struct cli_job *job)
{
    if (job->proof_fd >= 0) {
        close(job->proof_fd); /* mutant: proof-of-hold-outlives-it */
        if (job->outer_held)  /* mutant: each-term-of-election-adds */
            setenv("HOLDFAST_HELD", job->outer_held, 1);
        else
            unsetenv("HOLDFAST_HELD");
    }
    job->proof_fd = -1;
    free(job->outer_held);
    job->outer_held = NULL;
}

/* One word a hold: proof:token:mode:url:name, the last two encoded; what was there before stays,
 * and is kept before anything can fail, so that it is there again when this is over. */
static void set_held(struct cli_job *job)
{
    const char *outer = getenv("HOLDFAST_HELD");
    char encoded[ENCODED_SIZE], url[ENCODED_SIZE], proof[PROOF_SIZE], *held = NULL;
    size_t size = 0;
    FILE *out;

    job->outer_held = outer ? strdup(outer) : NULL; /* mutant: what-outer-holdfast-holds */
    out = open_proof(job, proof) ? open_memstream(&held, &size) : NULL;
    if (!out)
        return;
    cli_percent_encode(url, sizeof(url), hf_url(job->session->client));
    for (unsigned i = 0; i < job->count; i++) {
        int mode = (int)hf_hold_mode(job->holds[i]);
        cli_percent_encode(encoded, sizeof(encoded), job->names[i]);
        fprintf(out, "%s:%" PRIu64 ":%d:%s:%s ", proof, hf_token(job->holds[i]),
                job->wanted == HF_LEADER ? (int)HF_LEADER : mode, url, encoded);
    }
    fputs(outer ? outer : "", out);
    fclose(out);
    setenv("HOLDFAST_HELD", held, 1);
    free(held);
}

struct claim {
    char proof[PROOF_SIZE];
    uint64_t token;
    int mode;
};

/* The claim of the innermost holdfast that says it holds `name` for us. */
static bool find_claim(const struct cli_job *job, const char *name, struct claim *claim)
{
    const char *word = getenv("HOLDFAST_HELD");
    char encoded[ENCODED_SIZE], url[ENCODED_SIZE];
    char wanted[2 * ENCODED_SIZE];

    cli_percent_encode(encoded, sizeof(encoded), name);
    cli_percent_encode(url, sizeof(url), hf_url(job->session->client));
    snprintf(wanted, sizeof(wanted), "%s:%s", url, encoded);
    for (; word && *word; word += strcspn(word, " "), word += *word == ' ') {
        int used = 0;
        *claim = (struct claim){ 0 };
        if (sscanf(word, "%32[0-9a-f]:%" SCNu64 ":%d:%n", claim->proof, &claim->token, &claim->mode,
                   &used) == 3 &&
            used > 0 && strncmp(word + used, wanted, strlen(wanted)) == 0 &&
            strchr(" ", word[(size_t)used + strlen(wanted)]))
            return true;
    }
    return false;
}

/* An environment can outlive the hold it speaks of, in a daemon say. The outer holdfast is asked,
 * and not the store: there are stores that do not tell the holder, and others that tell only by
 * names of their own. */
static bool is_held(const struct cli_job *job, const char *name, struct claim *claim)
{
    struct sockaddr_un address;
    bool alive;
    int fd;

    if (!find_claim(job, name, claim))
        return false;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    alive = fd >= 0 &&
            /* mutant: owner-has-environment-of-hold */
            connect(fd, (struct sockaddr *)&address, address_of(claim->proof, &address)) == 0;
    if (fd >= 0)
        close(fd);
    return alive;
}

/* As the library re-enters: whatever is exclusive suffices for all of its kind. */
static bool suffices(int held, hf_mode wanted)
{
    bool led = held == HF_LEADER && wanted == HF_MUTEX;
    bool both_rw = held >= HF_READ && held <= HF_WRITE && wanted >= HF_READ && wanted <= HF_WRITE;

    return both_rw ? held >= (int)wanted : led || held == (int)wanted;
}

/* The first name of each sort, or NULL. */
struct reach {
    const char *held, *weak, *missing;
};

static struct reach reach_of(const struct cli_job *job, hf_mode wanted)
{
    struct reach reach = { NULL, NULL, NULL };
    struct claim claim;

    for (unsigned i = job->count; i-- > 0;) {
        const char *name = job->names[i];
        if (!is_held(job, name, &claim)) {
            reach.missing = name;
            continue;
        }
        reach.held = name;
        if (!suffices(claim.mode, wanted)) /* mutant: nested-run-takes-what-is-held */
            reach.weak = name;
    }
    return reach;
}

bool cli_environment_nested(const struct cli_job *job, const hf_lock_options *options, int *ret)
{
    struct reach reach;

    *ret = CLI_OK;
    if (options->mode == HF_PERMIT)
        return false;
    reach = reach_of(job, options->mode);
    if (!reach.held || (!reach.weak && !reach.missing))
        return reach.held != NULL;
    *ret = CLI_USAGE;
    if (reach.weak)
        cli_complain("'%s' is held by the holdfast that runs this command, but not as it is asked "
                     "for now. So waiting would never end: let the outer command take all it needs",
                     reach.weak);
    else
        cli_complain("'%s' is not held by the holdfast that runs this command, which has '%s'. So "
                     "waiting would never end: let the outer command take all it needs, or take "
                     "'%s' by a run of its own",
                     reach.missing, reach.held, reach.missing);
    return true;
}

/* A nested command goes by the tokens of the outer one. */
static uint64_t run_environment_token_of(const struct cli_job *job, const char *name)
{
    struct claim claim;

    if (job->nested)
        return find_claim(job, name, &claim) ? claim.token : 0;
    for (unsigned i = 0; i < job->count; i++)
        if (strcmp(job->names[i], name) == 0)
            return hf_token(job->holds[i]);
    return 0;
}

/* The first name's token, and all of them in the order in which the names were given. */
static void set_tokens(const struct cli_job *job)
{
    char tokens[CLI_NAMES_MAX * 21] = "";
    size_t used = 0;

    for (unsigned i = 0; i < job->settings->name_count; i++)
        used += (size_t)snprintf(tokens + used, sizeof(tokens) - used, "%s%" PRIu64, i ? " " : "",
                                 run_environment_token_of(job, job->settings->names[i]));
    setenv("HOLDFAST_TOKENS", tokens, 1);
    set_number("HOLDFAST_TOKEN", (int64_t)run_environment_token_of(job, job->settings->names[0]));
}

/* The store, so that the command finds it, too. A password is not ours to hand on: the URL is
 * without it, unless the command has the one that we have been given in the same way. */
static void set_url(const struct cli_job *job)
{
    const struct cli_settings *settings = job->settings;
    const char *own = secure_getenv("HOLDFAST_URL");
    char *url, *hidden;

    if (own && own[0] && !settings->engine && !settings->url_file && !settings->space)
        return;
    url = strdup(hf_url(job->session->client));
    if (!url)
        return;
    for (hidden = url; (hidden = strstr(hidden, CLI_URL_HIDDEN_PASSWORD "@"));) {
        const char *rest = hidden + strlen(CLI_URL_HIDDEN_PASSWORD);
        rest += hidden > url && hidden[-1] == '/'; /* there is no user either */
        memmove(hidden, rest, strlen(rest) + 1);
    }
    setenv("HOLDFAST_URL", url, 1);
    free(url);
}

void cli_environment_set(struct cli_job *job)
{
    setenv("HOLDFAST_NAME", job->settings->names[0], 1);
    set_url(job);
    set_tokens(job);
    if (job->nested)
        return;
    set_lease(job);
    set_held(job);
}
