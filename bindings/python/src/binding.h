/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension module share: its types, failures, and entering the library.
 *
 * The GIL is let go around every call that may block. No Python runs on the library's own threads:
 * a callback writes into the hold that it belongs to, links it into a queue, and wakes the event
 * loop of that queue by a descriptor. An event loop that awaits one answer runs the library's loop
 * itself (HF_DRIVE_SHARED). Only client_interrupted, which the library calls on the
 * thread that waits in it, takes the GIL. */
#ifndef HOLDFAST_PYTHON_BINDING_H
#define HOLDFAST_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <holdfast.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A result code with its sentence, copied on the thread of the call. */
struct failure {
    int code;
    int native;
    char text[sizeof(((hf_error *)0)->text)];
};

struct client {
    PyObject_HEAD hf_client *handle; /* NULL: hf_close has returned */
    unsigned generation;             /* of the process that opened it, see process_generation */
    bool local;                      /* the store is on this machine: an attempt costs no time */
    bool closing;                    /* written and read with the GIL, as is `closes_late` */
    bool closes_late;                /* close() was called inside a call: its end closes */
    pthread_mutex_t mutex;           /* guards `calls` */
    pthread_cond_t idle;
    unsigned calls; /* calls that are in the library; hf_close must not begin meanwhile */
};

/* Something that has happened, in the list of its queue. */
struct note {
    struct note *next, *previous; /* NULL: in no list */
    uint64_t key;                 /* by which the queue's reader knows what it is about */
    bool lost;                    /* a loss; else an answer */
};

struct queue {
    PyObject_HEAD struct client *client;
    int fd;       /* what the event loop watches: an epoll of the other two */
    int event_fd; /* written when there are notes */
    int loop_fd;  /* of the client's loop; -1: it is not run here. The client closes it */
    /* Guarded by notes_mutex: */
    struct note list;     /* its ring of notes */
    bool written;         /* event_fd */
    bool armed;           /* loop_fd is watched */
    unsigned outstanding; /* requests and calls without an answer */
};

struct hold {
    PyObject_HEAD struct client *client;
    struct queue *queue; /* NULL: a blocking call made it */
    unsigned generation; /* of the process that acquired it */
    hf_hold *hold;       /* NULL: not granted, or released */
    hf_request request;
    bool attached; /* by hf_attach, which tells no loss; asked for where it is asked of the hold */
    bool begun;    /* hf_lock_async has begun; read and written with the GIL */
    bool ending;   /* it is released: a change of another thread ends; likewise */
    /* Guarded by notes_mutex: */
    unsigned calls; /* that use the library's hold without the GIL: it must not be released yet */
    hf_hold *left_hold;         /* the last of these calls releases it, */
    struct ticket *left_ticket; /* and tells this one; NULL: no one */
    struct note done_note, lost_note;
    pthread_cond_t *waiter; /* of the thread that frees the hold, and waits for `done` */
    bool done;              /* the request has ended */
    bool lost;
    bool dying;            /* no note may be linked any more */
    struct failure result; /* of the request; or the reason of the loss */
};

/* ---- failures: module.c ---- */

/* Keeps the calling thread's last error. Call it on the thread, before the next call. */
void failure_keep(struct failure *ret, int code);
/* Sets the Python exception for it. Returns NULL. */
PyObject *failure_raise(const struct failure *failure);
/* The same for a code without a sentence of the library's own. */
PyObject *failure_raise_code(int code, const char *text);

/* A number that is another one in each forked child. */
unsigned process_generation(void);

/* ---- clients: client.c ---- */

extern PyTypeObject *client_type;
int client_add_type(PyObject *module);
/* Lets the GIL go and counts the call. NULL with an exception set: the client cannot be used. */
PyThreadState *client_enter(struct client *client);
void client_leave(struct client *client, PyThreadState *state);
/* A call that blocks and asks, by the `interrupted` of its hf_stop, whether it has to end. */
struct asker {
    struct client *client;
    PyThreadState *state;
    bool raised;        /* a signal's handler has set an exception */
    const bool *ending; /* of a hold, or NULL */
};
hf_stop client_stop(struct asker *asker);
/* None; or NULL with what the handler has raised, or what the call has failed with. */
PyObject *asker_result(const struct asker *asker, const struct failure *failure);
/* Whether the calling thread runs a signal's handler inside a call of this client. */
bool client_asks(const struct client *client);
/* Whether holds and requests of this generation can still be given to the library. */
bool client_usable(const struct client *client, unsigned generation);

/* Methods of clients, in other files. */
PyObject *client_acquire(PyObject *self, PyObject *args);
PyObject *client_begin(PyObject *self, PyObject *args);
PyObject *client_attach(PyObject *self, PyObject *args);
extern PyMethodDef store_methods[];

/* ---- answers to calls that do not block: answer.c ---- */

int answer_add_type(PyObject *module);
PyObject *client_ask(PyObject *self, PyObject *args);
/* Begins to release, without the GIL, and tells the ticket also of a failure. */
void ticket_release(struct ticket *ticket, hf_hold *released);
PyObject *hold_release_async(PyObject *self, PyObject *args);

/* The bytes of a name, or NULL for None. False: an exception is set, as for a name with a NUL. */
bool name_or_none(PyObject *bytes, const char **ret);
/* Copies of entries, and what Python is shown of them. */
struct entries {
    hf_entry *items; /* its strings are copies */
    size_t count, room;
    bool no_memory;
};
bool entries_add(struct entries *all, const hf_entry *entry);
void entries_free(struct entries *all);
PyObject *entries_tuples(const struct entries *all);

/* ---- holds, losses and queues: hold.c, loss.c, queue.c; `with`: guard.c ---- */

int guard_add_type(PyObject *module);

int hold_add_type(PyObject *module);
/* Enters the library, and takes its hold out of the object: from here on it is released. */
PyThreadState *hold_enter_to_end(struct hold *hold, hf_hold **ret);
/* Whether calls of other threads use the hold: then the last one releases it. */
bool hold_leave_release(struct hold *hold, hf_hold *released, struct ticket *ticket);
/* The library's hold where it may be asked for its properties, which do not block; or NULL. */
hf_hold *hold_live(PyObject *self);
void hold_on_lost(void *arg, const hf_loss *loss);
PyObject *hold_wait_lost(PyObject *self, PyObject *args);
PyObject *hold_get_lost(PyObject *self, void *unused);
extern PyTypeObject *queue_type;
int queue_add_type(PyObject *module);

/* One for all: what it guards is written in a few instructions, and rarely. */
extern pthread_mutex_t notes_mutex;
extern pthread_cond_t some_lost; /* a hold was lost, or no call uses it any more */
/* When the module is loaded, and in a forked child: a thread of the parent may have held them. */
void notes_init(void);
/* Links the note, with notes_mutex held. Returns the queue's descriptor if it has to be woken, or
 * -1. */
int note_push(struct note *note, struct queue *queue);
void note_drop(struct note *note);
void queue_wake(int fd);
/* A request begins; has its answer, with notes_mutex held; was asked, inside the library: an event
 * loop that awaits nothing else hears of the reply itself. */
void queue_begin(struct queue *queue);
void queue_end(struct queue *queue);
void queue_asked(struct queue *queue);

#endif
