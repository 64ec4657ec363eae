/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in a run, as its clients saw it: fixed-size records in a file that all processes of
 * the run map, so that a client's last words outlive its SIGKILL.
 *
 * One rule carries every verdict: the record of an *invocation* is numbered before the call is
 * made, the record of its *end* after it has returned. Numbers come from one counter in shared
 * memory; so if A's end has a smaller number than B's invocation, then A was over before B began,
 * whatever the clocks say. Clocks serve deadlines and the timeline. docs/torture.md describes the
 * file. */
#ifndef HF_TORTURE_HISTORY_HISTORY_H
#define HF_TORTURE_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are the file's: they never change, new ones are added at the end. */
enum torture_kind {
    TORTURE_NOTHING,  /* a place that was never written */
    TORTURE_LOCK,     /* `lock` is `text`: a torture_form in `mode`, `permits` in all, `flags` */
    TORTURE_CLIENT,   /* `client` begins (again) as process `process` */
    TORTURE_INVOKE,   /* a call begins */
    TORTURE_OK,       /* it has succeeded */
    TORTURE_REFUSED,  /* a definite no: busy, or the wait elapsed */
    TORTURE_UNKNOWN,  /* no answer: it may have happened, it may still happen */
    TORTURE_ENQUEUED, /* an acquisition is known to have its place in the store's queue */
    TORTURE_STILL,    /* numbered, then hf_held was asked and said yes: belief goes on up to here */
    TORTURE_LOST,     /* the holder knows that the hold is lost (TORTURE_TOLD: not by its clock) */
    TORTURE_CRASH,    /* the nemesis has killed `client`: numbered after the kill is certain */
    TORTURE_FAULT_ON, /* a fault begins: `text` names it, `client` is the victim or TORTURE_NOBODY
                       */
    TORTURE_FAULT_HIT, /* it did bite: the victim was paused over the lease, the call lost its
                          answer */
    TORTURE_FAULT_OFF, /* it is over */
    TORTURE_HEALED,    /* no more faults from here on; what is left has a lease to end in */
    TORTURE_AUDIT,     /* what was looked for at the end: `text` names it, `permits` counts what is
                          there and should not be: 0 is well */
    TORTURE_NOTE,      /* for the reader only */
    TORTURE_KINDS
};

enum torture_verb {
    TORTURE_NO_VERB,
    TORTURE_ACQUIRE, /* with waiting */
    TORTURE_TRY,     /* without */
    TORTURE_RELEASE, /* belief ends when it is invoked, whatever it answers. OK: the store had it up
                        to then. REFUSED: it had been lost before */
    TORTURE_RENEW,
    TORTURE_UPGRADE,   /* to write: a writer from its OK on */
    TORTURE_DOWNGRADE, /* to read: a reader from its invocation on */
    TORTURE_COUNT_DOWN,
    TORTURE_AWAIT,
    TORTURE_LOOK,  /* asks whether the latch is open: OK yes, REFUSED no */
    TORTURE_WRITE, /* at a resource that compares tokens: OK accepted, REFUSED by the fence.
                      Numbered inside the resource, so that its order is the resource's own */
    TORTURE_VERBS
};

enum torture_form { TORTURE_MUTEX, TORTURE_RW, TORTURE_SEMAPHORE, TORTURE_LATCH, TORTURE_FORMS };

/* `mode` of an acquisition of a TORTURE_RW. */
enum torture_share { TORTURE_EXCLUSIVE, TORTURE_SHARED, TORTURE_UPGRADABLE };

/* The text of a TORTURE_NOTE whose `until_ns` is the length of the run's leases. */
#define TORTURE_LEASE_NOTE "lease"
/* The text of a TORTURE_NOTE: what a client holds ends with its connection. */
#define TORTURE_CONNECTION_NOTE "held by a connection"

/* Flags of a TORTURE_LOCK. */
#define TORTURE_FENCED 1u /* each exclusive grant carries a token, and they rise */
#define TORTURE_FIFO 2u   /* granted in the order of TORTURE_ENQUEUED */
#define TORTURE_LINE 4u   /* a try stands in line, if only until it is refused */

/* Flag of a TORTURE_ENQUEUED: on the contrary, it has lost its place. */
#define TORTURE_DISPLACED 1u

/* Flag of a TORTURE_LOST: the store said so before the deadline; from when on the holder knew is
 * not in the history. */
#define TORTURE_TOLD 1u

/* Flags of a REFUSED acquisition. The one: the subject reported an error, by which nothing was
 * done. The other: by the store, the lock is of another kind, or has another number of permits. */
#define TORTURE_FAILED 1u
#define TORTURE_OTHER_KIND 2u

#define TORTURE_NOBODY UINT32_MAX
#define TORTURE_NEVER INT64_MAX
#define TORTURE_CLIENTS 4096u /* numbers of clients are smaller */

/* 128 bytes, in the byte order of the machine that the file names. */
struct torture_record {
    uint64_t number;     /* the order of everything; 0: not written. Written last */
    int64_t at_ns;       /* CLOCK_BOOTTIME: before an invocation, after an end */
    uint64_t operation;  /* which call; the same in all records of one call */
    uint64_t hold;       /* the acquisition's `operation` that this is about (its own, for one) */
    uint64_t owner;      /* decides what re-enters: same owner, same claim */
    uint64_t token;      /* OK of an acquisition, WRITE; 0: there is none */
    int64_t deadline_ns; /* OK, STILL: belief ends here at the latest; TORTURE_NEVER: no lease.
                            INVOKE of a wait: it will not give up earlier; 0: it may */
    int64_t until_ns;    /* UNKNOWN, LOST, CRASH: the store has forgotten it by then; 0: unknown.
                            REFUSED: the store was still being asked, and has forgotten by then; 0:
                            it was not */
    uint32_t client;     /* the lane in the picture */
    uint32_t process;
    uint32_t permits; /* weight; 1 for all but semaphores and latches. CLIENT: its threads; 0 is 1
                       */
    uint16_t lock;
    uint8_t kind, verb, mode, flags;
    int16_t code;    /* an hf_code, for the reader */
    char text[32];   /* a name; ends with a NUL unless it is full */
    uint32_t thread; /* which of the client's threads; 0 in histories of one thread */
    uint32_t reserved;
    uint32_t check; /* over all the bytes before it: a torn record does not match */
};

_Static_assert(sizeof(struct torture_record) == 128, "the file's format");

/* ---- writing: any process of the run, any thread ---- */

struct torture_writer;

/* Makes the file with room for that many records, or opens one that another process of the run
 * made. What is there already is not touched unless it is an empty file. NULL: errno says why. */
struct torture_writer *torture_writer_create(const char *path, uint64_t room, uint64_t run);
struct torture_writer *torture_writer_open(const char *path);
void torture_writer_close(struct torture_writer *writer);

/* The process that made the file calls this several times a second: takes the blocks that will be
 * written to next. 0, or an errno: there are none left. */
int torture_writer_grow(struct torture_writer *writer);
/* The number of records there is room for. */
uint64_t torture_writer_left(const struct torture_writer *writer);

/* Numbers and stores a record: `number`, `check`, and `at_ns` if it is 0, are filled here. Returns
 * the number; 0: the file is full, which the history says of itself. Never blocks, and never fails
 * half way. */
uint64_t torture_write(struct torture_writer *writer, const struct torture_record *record);

/* The same in two steps, for what is numbered before it is known (TORTURE_STILL): draws `number`
 * and `at_ns`; false: the file is full. What is drawn must be stored, as a TORTURE_NOTE if nothing
 * came of it, or the number is missing. */
bool torture_draw(struct torture_writer *writer, struct torture_record *record);
void torture_store(struct torture_writer *writer, const struct torture_record *record);

/* CLOCK_BOOTTIME in nanoseconds, from the kernel: nothing in this process bends it. */
int64_t torture_clock_ns(void);

/* ---- reading ---- */

struct torture_history {
    struct torture_record *records; /* rising numbers */
    size_t count;
    uint64_t run;
    /* What is wrong with it: any of these and no verdict can be given. */
    uint64_t torn;       /* records whose check does not match */
    uint64_t missing;    /* numbers that no record has, beyond one for each crash */
    uint64_t last_words; /* numbers without a record that a crash explains: no damage */
    uint64_t duplicate;  /* numbers that several records have */
    uint64_t dropped;    /* records for which there was no room */
};

/* Binary or JSON lines: it looks. 0, or -1 with a sentence in error. */
int torture_history_read(struct torture_history *history, const char *path, char error[256]);
int torture_history_write_json(const struct torture_history *history, const char *path,
                               char error[256]);
void torture_history_free(struct torture_history *history);

/* "acquire", "ok", ...: the words of the JSON, of the picture and of the sentences. */
const char *torture_kind_name(enum torture_kind kind);
const char *torture_verb_name(enum torture_verb verb);

#endif
