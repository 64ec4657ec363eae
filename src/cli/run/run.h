/* SPDX-License-Identifier: Apache-2.0 */
/* A command under a lock: what the files run*.c share. */
#ifndef HF_CLI_RUN_RUN_H
#define HF_CLI_RUN_RUN_H

#include "cli/cli.h"

#include <sys/types.h>
#include <termios.h>

/* The terminal, if there is one: whose turn it is to read from it, and how it was set. */
struct cli_terminal {
    int fd; /* -1: none */
    pid_t own_group;
    bool given; /* the child's group has it */
    bool has_modes;
    struct termios modes;
};

enum cli_stage {
    CLI_RUNNING,
    CLI_ENDING, /* has been asked to end */
    CLI_KILLED
};

/* One command under its locks, from the grant to the last unlock. */
struct cli_job {
    struct cli_client *session;
    const struct cli_settings *settings;
    char **command;
    /* The locks, in the order in which they are taken. */
    char *names[CLI_NAMES_MAX];
    hf_hold *holds[CLI_NAMES_MAX];
    uint64_t tokens[CLI_NAMES_MAX]; /* 0: none, or the outer holdfast's */
    unsigned count;
    hf_mode wanted;   /* of all of them */
    bool nested;      /* an outer holdfast holds them for us */
    char *outer_held; /* $HOLDFAST_HELD, as we found it */
    int proof_fd;     /* exists as long as we hold them: for nested runs; -1: none */
    bool lost;        /* set by the library */
    char loss_reason[360];
    const char *lost_name;           /* the first lock that was lost, or that ends next */
    int64_t grace_ms, lease_ms;      /* the shortest one's length */
    int64_t began_ms, granted_at_ms; /* 0: not granted */
    int64_t held_until_ms;           /* CLI_NEVER: no lease limits it */
    /* The command. */
    pid_t pid;
    int exec_fd;    /* closes when exec has worked; -1: it has, or nothing was started */
    int exec_error; /* why it has not; 0: nothing is known against it */
    int guard_fd;
    pid_t guard_pid;
    int64_t guard_told_ms; /* when it is to kill the command; 0: it does not know of it yet */
    struct cli_terminal terminal;
    enum cli_stage stage;
    int cause; /* why it was ended: CLI_LOST, CLI_TIMED_OUT or 0 */
    int64_t kill_at_ms;
    int64_t term_at_ms;     /* if --on-lost has not ended it by then; or CLI_NEVER */
    int64_t continue_at_ms; /* unless it has stopped, or stopped again, by then; or CLI_NEVER */
    bool ended;
    int status;    /* as an exit code */
    int forwarded; /* the last signal that we were sent to end by, or 0 */
};

/* Never, as a point in time. */
#define CLI_NEVER INT64_MAX

/* ---- run.c ---- */

/* The parts of a job that come from the settings. CLI_OK or CLI_USAGE. */
int cli_job_prepare(struct cli_job *job, struct cli_settings *settings, const char *verb);
/* A session under the name that `show` shows: user@host:pid and the command, without its arguments,
 * which may be secret. */
int cli_job_open(struct cli_client *session, struct cli_settings *settings);
/* Acquires, runs, gives back. Answers the exit code. job->pid is 0 if the command never ran. */
int cli_job_do(struct cli_job *job, struct cli_client *session);

/* ---- run_report.c ---- */

/* Can the files of --report and --metrics be written? CLI_OK, or CLI_USAGE having said why not. */
int cli_report_check(const struct cli_settings *settings);
/* Writes them, for a run that ends with `code`. Says so if that fails. */
void cli_report_write(const struct cli_job *job, int code);

/* ---- run_loss.c ---- */

/* The run's exit code is that of a loss, and a sentence says when the lock was lost and why. */
int cli_job_lose(struct cli_job *job, const char *when, const char *reason);
/* Whether all locks are still held. False: one is not, which has been said, and is job->cause. */
bool cli_job_may_start(struct cli_job *job);
/* The moment just before the lease ends at which none of the command may be left; or CLI_NEVER. */
int64_t cli_job_last_moment(const struct cli_job *job);
/* When the guard has to kill the command's group; or CLI_NEVER. */
int64_t cli_job_guard_at(const struct cli_job *job);
/* When the command is asked to end, as its lock is about to be lost; or CLI_NEVER. */
int64_t cli_loss_warn_at(const struct cli_job *job);
/* Asks the library anew when the first hold ends. */
void cli_loss_refresh(struct cli_job *job, int64_t now);
/* Why it is lost, or will be. */
const char *cli_loss_reason(const struct cli_job *job);
/* --on-lost=ignore: the command goes on without the lock. */
bool cli_loss_is_ignored(const struct cli_job *job);

/* ---- run_supervise.c ---- */

/* Runs the command until it and, after a loss, its process group have ended. */
void cli_job_supervise(struct cli_job *job);

/* ---- run_child.c ---- */

/* Forks, tells the guard, and lets the child go on to exec. CLI_OK or CLI_INTERNAL. */
int cli_child_start(struct cli_job *job);
/* Reads from exec_fd what there is. Does not block. */
void cli_child_look_at_exec(struct cli_job *job);
/* The exit code of a child that has ended, having said why exec failed if it did. */
int cli_child_report(struct cli_job *job);
/* To the whole group. 0, or the errno of kill(2): EPERM if all of it belong to another user. */
int cli_child_signal(const struct cli_job *job, int signal);
/* Runs `command` by the shell, without waiting for it. */
void cli_child_shell(const struct cli_job *job, const char *command);

/* ---- run_group.c ---- */

enum cli_group {
    CLI_GROUP_GONE, /* or nothing but zombies */
    CLI_GROUP_ALIVE,
    CLI_GROUP_UNKNOWN /* there is something, but /proc does not show what */
};

/* What is left of the command's process group. A nested run does not look: GONE. */
enum cli_group cli_group_state(const struct cli_job *job);

/* ---- run_guard.c ---- */

/* A small process that kills the command's group if holdfast itself is killed or, being stopped,
 * does not do so in time. */
bool cli_guard_start(struct cli_job *job);
/* Once the child's pid is known, and whenever its last moment is another; or CLI_NEVER. */
void cli_guard_watch(struct cli_job *job, int64_t kill_at_ms);
void cli_guard_end(struct cli_job *job);
/* Makes a timerfd on the clock of cli_now_ms readable then; CLI_NEVER: not at all. */
void cli_timer_arm(int timer, int64_t at_ms);

/* ---- run_terminal.c ---- */
void cli_terminal_open(struct cli_terminal *terminal);
void cli_terminal_close(struct cli_terminal *terminal);
/* Ought the command to have the terminal from the start? */
bool cli_terminal_interactive(const struct cli_terminal *terminal);
/* Whether this process's group, or the command's, reads from it. */
bool cli_terminal_is_ours(const struct cli_terminal *terminal);
bool cli_terminal_give(struct cli_terminal *terminal, pid_t group);
void cli_terminal_take_back(struct cli_terminal *terminal);
void cli_terminal_restore_modes(const struct cli_terminal *terminal);
/* Stops this process, as Ctrl-Z does, and with a terminal its group too unless it is the outer
 * holdfast's; returns when continued. */
void cli_terminal_suspend(const struct cli_terminal *terminal, bool nested);

/* ---- run_environment.c ---- */
void cli_environment_set(struct cli_job *job);
/* What is held ends, or is lost: no nested run counts on it from now on. */
void cli_environment_over(struct cli_job *job);
/* True if the names are held for us by a holdfast that runs us. *ret is CLI_OK, or CLI_USAGE if
 * what it holds does not suffice, which has been said. */
bool cli_environment_nested(const struct cli_job *job, const hf_lock_options *options, int *ret);

#endif
