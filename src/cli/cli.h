/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the command share. The command knows the library by <holdfast.h> alone. */
#ifndef HF_CLI_CLI_H
#define HF_CLI_CLI_H

#include <holdfast.h>
#include <signal.h>
#include <stdio.h>

/* How the command ends, where it does not end as its child did. holdfast(1) explains each. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FINDINGS = 1,     /* doctor found something; held found the name free; break had nothing to
                             break, or was told no;     torture found a violation */
    CLI_INCONCLUSIVE = 2, /* torture has seen too little to say anything */
    CLI_USAGE = 64,
    CLI_UNREACHABLE = 69,
    CLI_INTERNAL = 70,
    CLI_BUSY = 75,
    CLI_DENIED = 77,
    CLI_LOST = 121,
    CLI_TIMED_OUT = 124,
    CLI_CANNOT_EXEC = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128 /* plus the signal's number */
};

#define CLI_NAMES_MAX 64

/* What the options say. One struct for all verbs: an option means the same wherever it is allowed.
 */
struct cli_settings {
    char *engine, *url_file, *space;
    bool quiet, verbose, json, help, version;
    /* How to acquire. */
    bool try_only, shared, upgradeable, exclusive, fair, adopt;
    int64_t wait_ms, ttl_ms, max_hold_ms, slots, take, burst;
    char *names[CLI_NAMES_MAX];
    unsigned name_count;
    char *owner_text; /* break: the owner's key */
    /* How to run the command. */
    char *shell_command, *on_lost, *metrics, *report;
    bool skip;
    /* elect: its locks are leaderships; or it only shows the leader. */
    bool candidate, observe;
    int64_t busy_exit, grace_ms, max_run_ms, min_hold_ms;
    /* break, show and top. */
    int64_t token, watch_ms;
    bool watch, yes, once;
    char *sort;
    const char *graph; /* NULL: a table; "dot"; or "" */
    /* doctor, bench. */
    bool fix, quick;
    /* exporter; the hosts that it answers to are in `names`. */
    char *listen, *name_pattern, *tls_cert, *tls_key, *token_file;
    int64_t top, interval_ms;
    /* torture; its hooks are in `names`, as are the findings that doctor ignores. */
    int64_t time_ms, clients, threads, lease_ms, rate, seed;
    char *faults, *history, *html, *check, *sandbox;
    bool list;
    /* The words that are no options, after the verb. */
    char **words;
    int word_count;
};

/* Which verbs an option goes with. */
enum cli_verb_bit {
    CLI_RUN = 0x001,
    CLI_LOCK = 0x002,
    CLI_RENEW = 0x004,
    CLI_UNLOCK = 0x008,
    CLI_SHOW = 0x010,
    CLI_BREAK = 0x020,
    CLI_SEM = 0x040,
    CLI_COUNTER = 0x080,
    CLI_LATCH = 0x100,
    CLI_ELECT = 0x200,
    CLI_DOCTOR = 0x400,
    CLI_BENCH = 0x800,
    CLI_TORTURE = 0x1000,
    CLI_TRY = 0x2000,
    CLI_HELD = 0x4000,
    CLI_SCHEMA = 0x8000,
    CLI_GC = 0x10000,
    CLI_EXPORTER = 0x20000,
    CLI_RATE = 0x40000,
    CLI_TOP = 0x80000,
    CLI_ANY = 0xfffff
};

struct cli_verb {
    const char *name;
    unsigned bit;
    bool takes_command; /* the words after NAME are a command with options of its own */
    int (*run)(struct cli_settings *settings);
    const char *summary; /* NULL: it is for programs, and not listed */
    const char *help;
    bool is_program; /* holdfast-NAME does it, which is installed beside the command */
};

/* ---- main.c, help.c, and verbs/verbs.c or the file of a program ---- */
extern const struct cli_verb cli_verbs[]; /* ends with a NULL name */
void cli_help_print(FILE *out);

int cli_run(struct cli_settings *settings);
int cli_try(struct cli_settings *settings);
int cli_lock(struct cli_settings *settings);
int cli_renew(struct cli_settings *settings);
int cli_unlock(struct cli_settings *settings);
int cli_show(struct cli_settings *settings);
int cli_held(struct cli_settings *settings);
int cli_break(struct cli_settings *settings);
int cli_sem(struct cli_settings *settings);
int cli_counter(struct cli_settings *settings);
int cli_latch(struct cli_settings *settings);
int cli_rate(struct cli_settings *settings);
int cli_elect(struct cli_settings *settings);
int cli_schema(struct cli_settings *settings);
/* Are the tables of this client's database holdfast's own, and not of a layout? */
bool cli_has_own_tables(hf_client *client);
int cli_gc(struct cli_settings *settings);
int cli_doctor(struct cli_settings *settings);
int cli_complete(struct cli_settings *settings);
int cli_bench(struct cli_settings *settings);

extern const char cli_help_run[], cli_help_try[], cli_help_lock[], cli_help_renew[],
    cli_help_unlock[], cli_help_show[], cli_help_held[], cli_help_break[], cli_help_sem[],
    cli_help_counter[], cli_help_latch[], cli_help_elect[], cli_help_doctor[], cli_help_bench[],
    cli_help_exporter[], cli_help_torture[], cli_help_schema[], cli_help_gc[], cli_help_complete[],
    cli_help_rate[], cli_help_top[], cli_help_options[];

/* ---- program.c ---- */

/* Becomes holdfast-NAME, with the words of this call. Returns only the exit code for why it could
 * not, having said it. */
int cli_program_run(const char *name, char **argv);

/* ---- options.c ---- */

/* Sorts argv into options, the verb and its words. CLI_OK, or CLI_USAGE having said why. *verb is
 * NULL if there is none. */
int cli_options_parse(struct cli_settings *settings, int argc, char **argv,
                      const struct cli_verb **verb);

/* What an unfinished call may go on with. */
enum cli_next_kind {
    CLI_NEXT_NOTHING,
    CLI_NEXT_WORD, /* a verb, or what the verb's usage says */
    CLI_NEXT_OPTION,
    CLI_NEXT_URL,
    CLI_NEXT_FILE,
    CLI_NEXT_LOCK,
    CLI_NEXT_FORMAT, /* of --log */
    CLI_NEXT_COMMAND
};

#define CLI_OPTIONS_MAX 80

struct cli_next {
    enum cli_next_kind kind;
    const struct cli_verb *verb; /* or NULL */
    const char *word;            /* the unfinished one */
    size_t kept;                 /* its bytes before the value: those of "--name=" */
    int command;                 /* where the command begins in argv */
    const char *options[CLI_OPTIONS_MAX];
    size_t option_count;
};

/* The last word of argv is the unfinished one, and none is the program's name. False: the words
 * before it are wrong, which has been said. */
bool cli_options_next(struct cli_settings *settings, int argc, char **argv, struct cli_next *ret);

/* ---- format.c ---- */
bool cli_duration_parse(const char *text, int64_t *ret_ms);
bool cli_number_parse(const char *text, int64_t max, int64_t *ret);
void cli_duration_format(char *buffer, size_t size, int64_t ms);
/* ", for 5s", or "" where it is not known. */
void cli_age_format(char *buffer, size_t size, int64_t since_ms);
int64_t cli_now_ms(void); /* a clock that goes on in suspend */
/* What is left until `at_ms`, as poll takes it: a long time is cut short, so look again. */
int cli_poll_ms(int64_t at_ms);
/* The name as part of a command that a sentence shows, or "NAME" if a shell would not take it as it
 * is, or the command take it for an option. */
const char *cli_typed_name(const char *name);
/* Percent-encodes all but letters, digits and "-._~/" into `buffer`, cutting what does not fit. */
void cli_percent_encode(char *buffer, size_t size, const char *text);

/* The columns of the terminal that standard output is; 0: it is none. */
int cli_screen_width(void);
/* Copies text so that it cannot garble a terminal: control characters, and what is no UTF-8, become
 * \xNN. What does not fit is cut. */
void cli_make_printable(char *buffer, size_t size, const char *text, size_t length);
const char *cli_kind_name(hf_kind kind);
const char *cli_mode_name(hf_mode mode);

/* ---- exit_codes.c ---- */
int cli_exit_code(int code);
enum cli_level { CLI_INFO, CLI_WARNING, CLI_ERROR };
/* One line on standard error, made printable: names and owner texts may be any user's. `code` is
 * the exit code for what it says, for --log json; CLI_OK: there is none. */
__attribute__((format(printf, 3, 4))) void cli_tell(enum cli_level level, int code,
                                                    const char *format, ...);
/* The same of an error of the call: CLI_USAGE. In verbs without --log, of any error. */
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);
/* What the noun after a number ends with. */
static inline const char *cli_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
/* Writes out what was printed: 0, or why the first time failed that did, since what is lost then
 * leaves nothing to try again with. */
int cli_flush(void);
/* A line, or the beginning of one, made printable: `end` follows as it is. */
__attribute__((format(printf, 3, 4))) void cli_say(FILE *out, const char *end, const char *format,
                                                   ...);
/* A line on a terminal is broken between words, and goes on behind `indent` blanks. */
__attribute__((format(printf, 3, 4))) void cli_say_wrapped(FILE *out, int indent,
                                                           const char *format, ...);
/* Says what the library's last refusal was, and answers the exit code for it. */
int cli_fail(const struct cli_settings *settings, int code, const hf_error *error);
/* For a verb that was given the wrong words. Answers CLI_USAGE. */
int cli_usage(const struct cli_settings *settings, const char *verb, const char *sentence);

/* ---- messages.c ---- */

/* What the options say of messages; the texts are words of argv. */
extern struct cli_log {
    bool json;
    const char *verb, *name; /* NULL: none was read by now; `name` is the first one */
} cli_log;

/* From now on no message blocks its caller, however long standard error does. */
void cli_messages_begin(void);
/* Waits at most 2 s until what was said is written; then messages are written directly again. */
void cli_messages_end(void);
/* One message, which is printable, as a line of --log's format. */
void cli_messages_write(enum cli_level level, int code, const char *text);

/* ---- url.c ---- */

#define CLI_URL_DEFAULT "local:"

/* The store's URL from -e, --url-file, $HOLDFAST_URL or the default, with -N put in; to be freed.
 * NULL: it has been said why. */
char *cli_url_choose(const struct cli_settings *settings);
/* Does the text begin with the scheme of a store, as a URL does? */
bool cli_url_has_scheme(const char *text);
/* How URLs begin; NULL behind the last. The text is valid until the next call. */
const char *cli_url_beginning(size_t index);
/* Overwrites the password of a URL in argv, where ps would show it. */
void cli_url_hide_password(char *url);
/* How the library shows one. */
#define CLI_URL_HIDDEN_PASSWORD ":***"
/* "holdfast" with the options that name this call's store, without a password, for a command that a
 * sentence shows. Valid until the next call. */
#define CLI_CALL_SIZE 512
const char *cli_typed_call(const struct cli_settings *settings);

/* ---- client_setup.c ---- */

/* A client without a thread and, while something waits or runs, the signals that we listen to. */
struct cli_client {
    const struct cli_settings *settings;
    hf_client *client;
    int signal_fd;              /* -1: signals act as they do by default */
    sigset_t original, watched; /* signal masks: as we got it, and what signal_fd reads */
    int ended_by;               /* the signal that ended a wait, or 0 */
    const bool *lost;           /* a wait is over once this is true; NULL: nothing can be lost */
    bool muted;                 /* --verbose has nothing to say for now */
    int64_t silent_since_ms;    /* since when the store is known not to answer; 0: it does */
    char silence[360];          /* what is known of the reason */
    bool told_of_silence;       /* the user has been told so */
    int64_t refused_at_ms;      /* when the store has last begun to refuse to renew a lock */
    char refusal[360];          /* in its words */
};

/* CLI_OK, or an exit code having said why. `owner_text` may be NULL. */
int cli_session_open(struct cli_client *session, const struct cli_settings *settings,
                     const char *owner_text);
/* For verbs that only look after locks: makes no store. Where there is no default one, which cannot
 * be misspelt, session->client is NULL. */
int cli_session_look(struct cli_client *session, const struct cli_settings *settings);
void cli_session_close(struct cli_client *session);
/* From now on signals only arrive here. False: that cannot be, which has been said. */
bool cli_session_watch(struct cli_client *session);
/* Ends the process by a HUP, INT, QUIT or TERM that has been read; does nothing for others. */
void cli_session_end_by(const struct cli_client *session, int signal);
/* The next signal that has arrived, or 0. */
int cli_session_signal(const struct cli_client *session);

/* ---- acquire.c ---- */

/* hf_lock, but ended by signals: HF_CANCELED then, and session->ended_by says which. `error` is
 * filled for all answers but HF_OK. */
int cli_acquire(struct cli_client *session, const char *name, int64_t wait_ms,
                const hf_lock_options *options, hf_hold **ret, hf_error *error);
/* What the settings ask for. False: they contradict each other, which has been said. */
bool cli_lock_options(const struct cli_settings *settings, hf_lock_options *options);

/* ---- busy.c ---- */

#define CLI_CLAUSE_SIZE (HF_NAME_MAX + 400)

/* The holder of `name`, or how much of it is free, without a full stop. Asks the store, which takes
 * at most 5 s. False: that is not known. */
bool cli_busy_clause(const struct cli_client *session, const char *name,
                     char clause[CLI_CLAUSE_SIZE]);
/* adopt.c: false, with *error, where `name` is a number that may be an application's own. */
bool cli_may_use_number(const struct cli_client *session, const char *name, hf_error *error);

/* The exit code for what cli_acquire answered, having said what there is to say. */
int cli_acquire_failed(const struct cli_client *session, const char *name, int code,
                       const hf_error *error);

/* ---- json.c ---- */
void cli_json_string(FILE *out, const char *text, size_t length);
/* "name":"...", and "name_hex":"..." too if the name is no UTF-8. */
void cli_json_name(FILE *out, const char *name, size_t length);
/* How many bytes of valid UTF-8 begin at `text`: 0 if none. */
size_t cli_utf8_length(const char *text, size_t length);
bool cli_is_utf8(const char *text, size_t length);
/* The value of a label of a metric, without its quotes. */
void cli_label_print(FILE *out, const char *text);

#endif
