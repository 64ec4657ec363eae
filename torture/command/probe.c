/* SPDX-License-Identifier: Apache-2.0 */
/* A first look at the store that is to be tortured: whether it answers, and what it has. */
#include "command.h"

#include "torture/proxy/fault_proxy.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct feature {
    unsigned cap;
    const char *text;
};

static const struct feature features[] = {
    { HF_CAP_FAIR, "fair mutexes" },
    { HF_CAP_RW, "read-write locks" },
    { HF_CAP_UPGRADE, "upgrades" },
    { HF_CAP_PERMIT, "semaphores" },
    { HF_CAP_LATCH, "latches" },
    { HF_CAP_TOKEN, "tokens" },
    { HF_CAP_INSPECT, "a look at what is left behind" },
};

/* What the look found out, for the process that asked for it. */
struct found {
    unsigned caps, connections;
    bool lines;
};

static unsigned all_caps(void)
{
    unsigned caps = HF_CAP_MUTEX;

    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        caps |= features[i].cap;
    return caps;
}

static bool is_meant(const struct cli_torture *torture)
{
    if (torture->settings->yes || torture->deployment || cli_torture_is_near(torture->url))
        return true;
    cli_complain("'%s' is not on this machine: torture keeps a store busy, and hooks may do worse. "
                 "If that is meant, say --yes",
                 torture->shown_url);
    return false;
}

/* A client opens without a word to its store: only a lock shows that it is there, and lets us in.
 */
static int try_it(const struct cli_torture *torture, struct found *found)
{
    char name[80];
    hf_client *client;
    hf_hold *hold;
    int code = hf_open(&client, torture->url, NULL);

    if (code != HF_OK)
        return cli_fail(torture->settings, code, hf_last_error());
    if (!is_meant(torture)) {
        hf_close(client);
        return CLI_USAGE;
    }
    found->caps = hf_caps(client);
    /* Where locks are queues, and nothing else. */
    found->lines = strncmp(hf_url(client), "zk", 2) == 0;
    snprintf(name, sizeof(name), "holdfast:torture:probe:%llx-%llx",
             (unsigned long long)torture->plan.seed, (unsigned long long)torture_clock_ns());
    code = hf_lock(client, name, 0, NULL, &hold);
    if (code == HF_OK)
        code = hf_unlock(hold);
    found->connections = torture_connections();
    if (code != HF_OK) {
        hf_error error = *hf_last_error();
        code = cli_fail(torture->settings, code, &error);
    }
    hf_close(client);
    return code;
}

static int try_in_a_child(const struct cli_torture *torture, struct found *found)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(try_it(torture, found));
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status)) {
        cli_complain("the store could not be tried");
        return CLI_INTERNAL;
    }
    return WEXITSTATUS(status);
}

/* Faults that were asked for by name must be possible; of all of them, those that are. */
static int choose_faults(struct cli_torture *torture)
{
    const char *faults = torture->settings->faults;
    unsigned possible = TORTURE_CLIENT_FAULTS | (torture->connects ? TORTURE_WIRE_FAULTS : 0) |
                        (torture->deployment ? torture->deployment->faults : 0);
    unsigned impossible = torture->plan.faults & ~possible;

    torture->plan.faults &= possible;
    if (torture->plan.faults & 1u << TORTURE_PARTITION && torture->sandbox.no_network[0]) {
        torture->plan.faults &= ~(1u << TORTURE_PARTITION);
        /* mutant: none-says-that-fault-was-asked */
        torture->misses_partition = faults && strstr(faults, "partition");
    }
    if (!impossible || !faults || strstr(faults, "all"))
        return CLI_OK;
    if (impossible & TORTURE_WIRE_FAULTS)
        cli_complain("--faults '%s': this store is reached without connections, so there is none "
                     "to cut or to hold up",
                     faults);
    else
        cli_complain("--faults '%s': servers are struck in a --sandbox that has them; "
                     "holdfast torture --list shows which",
                     faults);
    return CLI_USAGE;
}

int cli_torture_probe(struct cli_torture *torture)
{
    /* By a process of its own, since a process that forks must not have a store open. */
    struct found *found =
        mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    if (found == MAP_FAILED) {
        cli_complain("no memory to share with another process");
        return CLI_INTERNAL;
    }
    code = try_in_a_child(torture, found);
    torture->caps = found->caps;
    torture->connects = found->connections > 0;
    torture->subject = torture_holdfast(found->caps);
    torture->subject.lines = found->lines;
    munmap(found, sizeof(*found));
    return code == CLI_OK ? choose_faults(torture) : code;
}

const char *cli_torture_left_out(const struct cli_torture *torture, unsigned *place)
{
    unsigned missing = all_caps() & ~torture->caps;

    /* A store without read-write locks is not told that they cannot be upgraded. */
    if (missing & HF_CAP_RW)
        missing &= ~HF_CAP_UPGRADE;
    while (*place < sizeof(features) / sizeof(features[0]))
        if (missing & features[(*place)++].cap)
            return features[*place - 1].text;
    if (!torture->connects && (*place)++ == sizeof(features) / sizeof(features[0]))
        return "faults of connections";
    return NULL;
}

bool cli_torture_leaves_out_errors(const struct cli_torture *torture)
{
    const char *faults = torture->settings->faults;

    return torture->plan.faults & 1u << TORTURE_ERROR_REPLY && torture->outcome.unreadable &&
           (!faults || !strstr(faults, "error"));
}
