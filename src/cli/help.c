/* SPDX-License-Identifier: Apache-2.0 */
/* Help: it teaches by example. Each example can be copied and run. */
#include "cli.h"

void cli_help_print(FILE *out)
{
    fputs("holdfast: locks for commands, scripts and services\n"
          "\n"
          "  holdfast run nightly -- ./backup.sh       # wait for the lock, run, release it\n"
          "  holdfast try nightly -- ./backup.sh       # do not wait: exit code 75 if it is held\n"
          "  holdfast run -w 10s deploy -- make deploy # wait at most ten seconds\n"
          "  holdfast run -j 4 encode -- ffmpeg ...    # at most four at a time\n"
          "  holdfast show                             # holders and waiters\n"
          "\n"
          "Verbs (holdfast help VERB says more):\n",
          out);
    for (const struct cli_verb *verb = cli_verbs; verb->summary; verb++)
        fprintf(out, "  %-9s %s\n", verb->name, verb->summary);
    fputs("\nOptions for all of them:\n", out);
    fputs(cli_help_options, out);
    fputs("\n"
          "Durations: 500ms, 5s, 2m, 1h; a plain number means seconds.\n"
          "Exit: the command's own code; 75 busy, 121 lost, 124 --max-run, 69 store unreachable,\n"
          "77 denied, 64 usage, 126 and 127 cannot run the command. More in holdfast(1).\n",
          out);
}

const char cli_help_options[] =
    "  -e, --engine URL      the store: $HOLDFAST_URL, else local: (this machine)\n"
    "      --url-file FILE   the same from a file, to keep a password to yourself\n"
    "  -N, --namespace NAME  a namespace within the store (local: only)\n"
    "  -q, --quiet           no message when busy          -v, --verbose   more messages\n"
    "      --json            where something is shown      -V, --version\n";

#define HOW_TO_ACQUIRE                                                                             \
    "  -s, --shared          read-write lock, with other readers\n"                                \
    "  -U, --upgradeable     with readers, but one at a time\n"                                    \
    "  -W, --exclusive       the write side\n"                                                     \
    "  -F, --fair            first come, first served\n"                                           \
    "  -j, --slots M         semaphore with M permits; -k, --take K of them (1)\n"                 \
    "      --adopt           also of a number that nothing marks as a semaphore (Redis)\n"

#define HOW_TO_WAIT                                                                                \
    "  -n, --try             do not wait       -w, --wait DUR   time limit (for ever)\n"

const char cli_help_run[] =
    "holdfast run [OPTIONS] NAME [--] COMMAND [ARGUMENT...]\n"
    "\n"
    "  holdfast run nightly -- ./backup.sh\n"
    "  holdfast run -w 30s --skip nightly -- ./backup.sh   # exit 0 if it is still held\n"
    "  holdfast run -s config -- cat app.conf              # together with other readers\n"
    "  holdfast run -j 4 encode -- ./encode.sh movie       # at most four at once\n"
    "  holdfast run -l a -l b -- ./move a b                # both or none, without deadlock\n"
    "  holdfast run --max-run 1h nightly -c 'date; ./backup.sh | gzip > b.gz'\n"
    "\n" HOW_TO_WAIT HOW_TO_ACQUIRE
    "  -l, --lock NAME       instead of NAME, several times: all or nothing\n"
    "  -c, --command STRING  run STRING by $SHELL\n"
    "  -E, --busy-exit N     exit with N when busy (75)   --skip   exit with 0 when busy\n"
    "  -t, --ttl DUR         lease, renewed while the command runs (30s; local: needs none)\n"
    "      --max-hold DUR    the lock ends after this time; the command is stopped before (121)\n"
    "      --max-run DUR     the command is stopped after this time (124)\n"
    "      --min-hold DUR    keep the lock for this time even if the command ends sooner\n"
    "      --on-lost WHAT    term (default), kill, ignore, or a command line for $SHELL\n"
    "      --grace DUR       between the request to end and SIGKILL (10s, at most lease/3)\n"
    "      --owner TEXT      what `show` shows of this process (user@host:pid command)\n"
    "      --log FORMAT      messages as text (default) or json: an object a line\n"
    "      --report FILE     append a JSON line: name, token, waits, exit code, loss\n"
    "      --metrics FILE    the same for node_exporter's textfile collector (*.prom)\n"
    "\n"
    "The command sees HOLDFAST_NAME, _TOKEN, _TOKENS, _OWNER, _TTL_MS, _DEADLINE, _URL and\n"
    "_HELD.\n";

const char cli_help_try[] =
    "holdfast try [OPTIONS] NAME [--] COMMAND [ARGUMENT...]\n"
    "\n"
    "  holdfast try nightly -- ./backup.sh || [ $? -eq 75 ]   # busy is fine\n"
    "  holdfast try --skip nightly -- ./backup.sh             # the same\n"
    "\n"
    "run without waiting; it has the options of run but for -w.\n";

const char cli_help_elect[] =
    "holdfast elect [OPTIONS] NAME [--] COMMAND [ARGUMENT...]\n"
    "holdfast elect --observe [--json] NAME\n"
    "\n"
    "  holdfast elect scheduler -- ./scheduler       # on every machine; one runs at a time\n"
    "\n"
    "Waits to be elected, runs the command, and campaigns again when it ends or is lost, with\n"
    "pauses of 1 s up to 60 s while it fails fast. Ends by signal, with 128 and its number or\n"
    "as the command ends by it.\n"
    "\n"
    "      --text TEXT       what observers are shown (user@host:pid command)\n"
    "      --observe         prints the leader, and a line for each change, until a signal ends "
    "it\n"
    "\n"
    "It has the options of run but for -n, -w, -E, --skip, --report and --metrics. With -j 2, two\n"
    "lead at a time.\n";

const char cli_help_lock[] =
    "holdfast lock [OPTIONS] NAME\n"
    "\n"
    "  OWNER=$(holdfast lock -t 5m nightly) || exit     # prints the owner's key\n"
    "  ./backup.sh\n"
    "  holdfast unlock nightly \"$OWNER\"\n"
    "\n"
    "The lock lives by its lease alone; ZooKeeper, etcd and a quorum have no such locks. Prefer "
    "run where you can: it stops the command on a loss.\n"
    "\n" HOW_TO_WAIT "  -t, --ttl DUR         the lease (30s); give it a new one with: holdfast "
    "renew\n" HOW_TO_ACQUIRE
    "      --owner TEXT      what `show` shows of the owner (not on Redis: there it "
    "is the process')\n"
    "      --json            name, owner, token and lease_ms\n";

const char cli_help_renew[] =
    "holdfast renew [-t DUR] NAME OWNER\n"
    "\n"
    "  OWNER=$(holdfast renew -t 5m nightly \"$OWNER\") || exit\n"
    "\n"
    "Renews the lease of a lock of `holdfast lock`: it ends after -t from now (30s), but never\n"
    "earlier than before. Prints the owner's key. Exit 121: the lock is lost.\n";

const char cli_help_unlock[] = "holdfast unlock NAME OWNER\n"
                               "\n"
                               "  holdfast unlock nightly \"$OWNER\"\n"
                               "\n"
                               "Releases a lock of `holdfast lock`. Exit 121: it had been lost.\n";

const char cli_help_show[] =
    "holdfast show [NAME|PATTERN]\n"
    "\n"
    "  holdfast show                     # everything that is held, waited for, or has a value\n"
    "  holdfast show 'orders/*'          # a pattern as in the shell, for the shell to leave "
    "alone\n"
    "  holdfast show --watch nightly     # again each second; --watch=5s for another rhythm\n"
    "  holdfast show --json              # for programs\n"
    "  holdfast show --graph             # what waits for what; --graph=dot for Graphviz\n"
    "\n"
    "On Redis a list has the names that holdfast took within 12 hours, has set, or waits for.\n"
    "Other locks, a Java client's for example, are shown when asked for by name.\n";

const char cli_help_top[] =
    "holdfast top [NAME|PATTERN]\n"
    "\n"
    "  holdfast top                      # names with waiters first; h shows the keys\n"
    "  holdfast top 'orders/*'           # only these\n"
    "  holdfast top --once --sort age    # one picture as text, the oldest holds first\n"
    "\n"
    "      --once        print one picture; also where there is no terminal\n"
    "      --sort KEY    waiters (default), age, wait, changes, name\n"
    "      --every DUR   from one picture to the next (1s); a large store takes longer\n"
    "\n"
    "Keys sort and filter, look at one name, and break a lock after a question.\n";

const char cli_help_held[] =
    "holdfast held NAME\n"
    "\n"
    "  holdfast held nightly; case $? in 0) echo held;; 1) echo free;; esac\n"
    "\n"
    "Exit code 0: held; 1: free; 69, 77: the store could not be asked.\n"
    "Prints nothing. The lock may change hands at any moment: to run a command only while it is\n"
    "free, use 'holdfast try'.\n";

const char cli_help_break[] =
    "holdfast break [--owner KEY | --token T] [-y] NAME\n"
    "\n"
    "  holdfast break nightly                    # shows the holders and asks\n"
    "  holdfast break -y nightly                 # does not ask\n"
    "  holdfast break --token 1789 -y nightly    # only the holder with this token\n"
    "\n"
    "The holder's run stops its command and exits with 121. The next owner's token fences the old\n"
    "one. Keys and tokens: holdfast show --json. Exit 1: it is not held, or the answer was no;\n"
    "75: another owner holds it.\n";

const char cli_help_schema[] =
    "holdfast schema print [USER] | create | drop | migrate\n"
    "\n"
    "  holdfast schema print | mariadb shop    # make the tables as another user\n"
    "  holdfast schema print app | psql shop   # and let the user app take locks in them\n"
    "  holdfast schema create                  # make those that are missing\n"
    "  holdfast schema drop -y                 # remove them, with all locks in them\n"
    "  holdfast -e 'mysql://db/shop?layout=method_lock' schema migrate\n"
    "\n"
    "For mysql:, mariadb: and postgres: URLs. The tables are made when they are first needed.\n"
    "These verbs are for users without the right to create tables. The verb migrate makes the\n"
    "tables beside those of a layout, and copies what is held. 64: the store has no tables.\n";

const char cli_help_gc[] =
    "holdfast gc\n"
    "\n"
    "Removes rows of names that no client has used for a week from the tables of a database, and\n"
    "prints how many there were. Tokens go on rising: they come from the database's clock.\n";

const char cli_help_sem[] =
    "holdfast sem NAME set M | get | rm\n"
    "\n"
    "  holdfast sem encode set 4                        # create it, or change its size\n"
    "  holdfast sem encode get                          # how many permits are free\n"
    "  holdfast run -k 2 encode -- ./encode.sh movie    # take two of them for a command\n"
    "  holdfast sem encode rm                           # 75: permits are held\n"
    "\n"
    "Permits come back when the command ends, or dies. Instead of set, run -j M creates one too.\n";

const char cli_help_counter[] =
    "holdfast counter NAME set N | add [N] | take [N] | get | rm\n"
    "\n"
    "  holdfast counter stock set 100\n"
    "  holdfast counter -n stock take || echo sold out    # 75: there is nothing left\n"
    "  holdfast counter -w 5s stock take 3                # wait until three are there\n"
    "  holdfast counter stock add 3\n"
    "\n"
    "A plain number, 0 until it is set. It does not come back when a process that took it dies.\n"
    "\n" HOW_TO_WAIT;

const char cli_help_latch[] =
    "holdfast latch NAME set N | down [K] | wait | get\n"
    "\n"
    "  holdfast latch ready set 2             # two parties to wait for\n"
    "  holdfast latch ready down              # one of them is ready; prints how many are left\n"
    "  holdfast latch ready down              # the other one\n"
    "  holdfast latch -w 1m ready wait        # until it is at zero (75: not in time)\n"
    "\n"
    "A latch that was never set is open; one that is above zero cannot be set (75).\n"
    "\n" HOW_TO_WAIT;

const char cli_help_rate[] =
    "holdfast rate [-n | -w DUR] [--burst B] [-k K] NAME N/DUR\n"
    "\n"
    "  holdfast rate mail 100/1m && ./send mail.txt        # at most 100 a minute, all together\n"
    "  holdfast rate -n mail 100/1m || echo later          # 75: not now\n"
    "  holdfast rate --burst 1 scrape 5/1s && curl -O URL  # at an even pace\n"
    "\n"
    "Takes a permit of N in each DUR, or K of them, and waits until they are there. The first B "
    "(N)\n"
    "go at once. The clock of the store counts: local, Redis, databases.\n"
    "\n" HOW_TO_WAIT "  -k, --take K          this number of permits (1)\n"
    "      --burst B         how many may go at once (N)\n"
    "      --json            with 75: in how many milliseconds they could have been had\n";

const char cli_help_doctor[] =
    "holdfast doctor [NAME]\n"
    "\n"
    "  holdfast doctor              # where the locks are, and what endangers them\n"
    "  holdfast doctor nightly      # the same, of the locks of one name\n"
    "  holdfast doctor --json\n"
    "  holdfast doctor --ignore aof-not-always   # a finding that is known and accepted\n"
    "  holdfast doctor --fix     # what cures the findings, ready to paste; nothing is run\n"
    "\n"
    "      --fix                 print statements and settings instead of facts and findings\n"
    "      --ignore ID           leave out the finding with this id; repeatable\n"
    "\n"
    "Exit 0: all is well. 1: there are findings, each with its consequence and cure.\n";

const char cli_help_bench[] =
    "holdfast bench [--quick] [--json]\n"
    "\n"
    "  holdfast bench            # half a minute: a fresh store, beside flock and others\n"
    "  holdfast bench --quick    # a few seconds, for a first impression\n"
    "  holdfast -e URL bench     # that store; names begin with holdfast-bench/\n"
    "\n"
    "Exit 0 whatever the figures are. Two runs at a time on one store disturb each other.\n";

const char cli_help_torture[] =
    "holdfast torture [URL] [OPTIONS]\n"
    "\n"
    "  holdfast torture                                a minute on this machine's store\n"
    "  holdfast torture --time 10m --html run.html     longer, with a picture of it\n"
    "  holdfast torture --faults kill,pause --seed 7   only these faults, and the same plan\n"
    "  holdfast torture --hook cut='./cut.sh' --hook cut:heal='./join.sh'\n"
    "  holdfast torture --history run.hist             keep what happened...\n"
    "  holdfast torture --check run.hist               ...and judge it again\n"
    "  holdfast torture --list                         the faults and the rules\n"
    "\n"
    "Clients compete for locks under names of their own, while faults hit the holder and the "
    "first\n"
    "waiter. What they saw is then compared with the rules. Your own locks are not touched.\n"
    "\n"
    "      --time DUR        how long (60s)          --clients N    how many processes (8)\n"
    "      --lease DUR       about how long leases are (500ms)\n"
    "      --threads N       of each process (4)\n"
    "      --rate N          operations a second, all together (10000; 2000 with --yes)\n"
    "      --faults LIST     stop, kill, pause, clock, reset, hole, mute, drip, late, error,\n"
    "                        or as --list shows them; none; all (all)\n"
    "      --hook NAME=CMD   a fault of your own; NAME:heal=CMD ends it, whatever happens\n"
    "      --seed N          the seed of an earlier run\n"
    "      --sandbox NAME    servers of its own, which faults hit, too: --list shows them\n"
    "  -y, --yes             allow a store on another machine\n"
    "\n"
    "Exit 0: no violation so far. 1: VIOLATION. 2: INCONCLUSIVE, too little happened.\n";

const char cli_help_exporter[] =
    "holdfast exporter -e URL [--listen ADDRESS] [OPTIONS]\n"
    "\n"
    "  holdfast exporter -e redis://locks.example       # http://127.0.0.1:9473/ and /metrics\n"
    "  holdfast exporter --names 'orders/*' --top 100   # at most a hundred names\n"
    "  holdfast exporter --listen :9473 --token-file FILE --tls-cert FILE --tls-key FILE\n"
    "\n"
    "Serves metrics for Prometheus at /metrics, a page with holders and waiters at /, and at\n"
    "/healthz whether the store answers. It changes nothing at the store.\n"
    "\n"
    "      --listen ADDRESS   HOST:PORT, :PORT for every address, port 0 for a free one\n"
    "                         (127.0.0.1:9473)\n"
    "      --names PATTERN    only these names\n"
    "      --top N            the N names with the most waiters and the oldest holds (1000)\n"
    "      --interval DUR     how often the store is asked (1s)\n"
    "      --host NAME        a name by which clients reach it; repeatable\n"
    "      --token-file FILE  requests need its first line as bearer token, or as password\n"
    "      --tls-cert FILE, --tls-key FILE   serve HTTPS; both are PEM\n"
    "\n"
    "A signal ends it, with exit code 0.\n";

const char cli_help_complete[] =
    "holdfast complete -- [WORD...]\n"
    "\n"
    "  holdfast complete -- run -w 5s ''    # what the shell offers after: holdfast run -w 5s\n"
    "\n"
    "For the completion of shells. The last word is the unfinished one. The first line says what\n"
    "follows: words, each with a tab and its meaning, if there is one; files; or a command, which\n"
    "begins at the word with this number.\n";
