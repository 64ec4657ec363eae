/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to calls that do not block. A ticket is what the library is given: it belongs to the
 * answer's object and to the library, and the last of the two frees it. So a task need not wait. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

struct ticket {
    struct queue *queue; /* whose reader is told; NULL: no one wants the answer any more */
    struct note note;
    unsigned owners; /* guarded by notes_mutex, as all but what only the callback writes */
    bool done;
    struct failure result;
    uint32_t number;
    struct entries entries;
    int verb;
};

struct answer {
    PyObject_HEAD struct ticket *ticket;
    struct queue *queue;
};

/* What client.ask() asks; aio.py has the same numbers. */
enum verb {
    COUNTER_SET,
    COUNTER_ADD,
    COUNTER_GET,
    COUNTER_REMOVE,
    LATCH_SET,
    LATCH_DOWN,
    LATCH_GET,
    INSPECT,
    RELEASE
};

static PyTypeObject *answer_type;

static struct ticket *new_ticket(struct queue *queue, uint64_t key)
{
    struct ticket *ticket = calloc(1, sizeof(*ticket));
    if (!ticket) {
        PyErr_NoMemory();
        return NULL;
    }
    ticket->queue = queue;
    ticket->note.key = key;
    ticket->owners = 2;
    ticket->verb = RELEASE;
    queue_begin(queue);
    return ticket;
}

/* With notes_mutex held, which it lets go. */
static void leave(struct ticket *ticket)
{
    bool last = --ticket->owners == 0;
    pthread_mutex_unlock(&notes_mutex);
    if (!last)
        return;
    entries_free(&ticket->entries);
    free(ticket);
}

/* The same where no one wants the answer any more. */
static void forget(struct ticket *ticket)
{
    if (!ticket->done)
        queue_end(ticket->queue);
    ticket->queue = NULL;
    note_drop(&ticket->note);
    leave(ticket);
}

static void ticket_done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct ticket *ticket = arg;
    (void)hold;
    pthread_mutex_lock(&notes_mutex);
    ticket->done = true;
    ticket->result.code = code;
    if (error) {
        ticket->result.native = error->native;
        memcpy(ticket->result.text, error->text, sizeof(ticket->result.text));
    }
    if (ticket->queue)
        queue_end(ticket->queue);
    queue_wake(note_push(&ticket->note, ticket->queue));
    leave(ticket);
}

void ticket_release(struct ticket *ticket, hf_hold *released)
{
    int code = hf_unlock_async(released, ticket_done, ticket);
    if (code != HF_OK)
        ticket_done(ticket, code, NULL, hf_last_error());
}

static bool note_entry(void *arg, const hf_entry *entry)
{
    struct ticket *ticket = arg;
    return entries_add(&ticket->entries, entry);
}

static PyObject *ticket_begun(struct ticket *ticket, const struct failure *failure)
{
    struct answer *answer = NULL;
    bool begun = failure && failure->code == HF_OK;
    if (failure && !begun)
        failure_raise(failure);
    if (begun)
        answer = (struct answer *)PyType_GenericAlloc(answer_type, 0);
    if (answer) {
        answer->ticket = ticket;
        answer->queue = ticket->queue;
        Py_INCREF(answer->queue);
        return (PyObject *)answer;
    }
    pthread_mutex_lock(&notes_mutex);
    if (!begun)
        ticket->owners--; /* the library has not taken it */
    forget(ticket);
    return NULL;
}

static void answer_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct answer *answer = (struct answer *)self;
    pthread_mutex_lock(&notes_mutex);
    forget(answer->ticket);
    Py_DECREF(answer->queue);
    PyObject_Free(self);
    Py_DECREF(type);
}

static bool is_done(const struct answer *answer)
{
    pthread_mutex_lock(&notes_mutex);
    bool done = answer->ticket->done;
    pthread_mutex_unlock(&notes_mutex);
    return done;
}

static PyObject *answer_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(is_done((struct answer *)self));
}

/* What was asked for, once it is done: a number, entries, or None. Else raises. */
static PyObject *answer_result(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct ticket *ticket = ((struct answer *)self)->ticket;
    if (!is_done((struct answer *)self)) {
        PyErr_SetString(PyExc_RuntimeError, "there is no answer yet");
        return NULL;
    }
    if (ticket->result.code)
        return failure_raise(&ticket->result);
    if (ticket->verb == INSPECT)
        return entries_tuples(&ticket->entries);
    if (ticket->verb == COUNTER_GET || ticket->verb == LATCH_DOWN || ticket->verb == LATCH_GET)
        return PyLong_FromUnsignedLong(ticket->number);
    Py_RETURN_NONE;
}

static int begin(hf_client *client, const char *name, uint32_t number, struct ticket *ticket)
{
    uint32_t *ret = &ticket->number;
    switch ((enum verb)ticket->verb) {
    case COUNTER_SET:
        return hf_counter_set_async(client, name, number, ticket_done, ticket);
    case COUNTER_ADD:
        return hf_counter_add_async(client, name, number, ticket_done, ticket);
    case COUNTER_GET:
        return hf_counter_get_async(client, name, ret, ticket_done, ticket);
    case COUNTER_REMOVE:
        return hf_counter_remove_async(client, name, ticket_done, ticket);
    case LATCH_SET:
        return hf_latch_set_async(client, name, number, ticket_done, ticket);
    case LATCH_DOWN:
        return hf_latch_down_async(client, name, number, ret, ticket_done, ticket);
    case LATCH_GET:
        return hf_latch_get_async(client, name, ret, ticket_done, ticket);
    case INSPECT:
        return hf_inspect_async(client, name, note_entry, ticket_done, ticket);
    case RELEASE:
        break;
    }
    return HF_EINVAL;
}

/* ask(verb, name, number, queue, key) -> Answer */
PyObject *client_ask(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    struct failure failure = { 0 };
    int verb;
    unsigned int number;
    PyObject *name_bytes, *queue;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "iOIO!K", &verb, &name_bytes, &number, queue_type, &queue, &key))
        return NULL;
    const char *name = NULL;
    if (!name_or_none(name_bytes, &name))
        return NULL;
    struct ticket *ticket = new_ticket((struct queue *)queue, key);
    if (!ticket)
        return NULL;
    ticket->verb = verb;
    PyThreadState *state = client_enter(client);
    if (!state)
        return ticket_begun(ticket, NULL);
    failure_keep(&failure, begin(client->handle, name, number, ticket));
    queue_asked((struct queue *)queue);
    client_leave(client, state);
    return ticket_begun(ticket, &failure);
}

/* release_async(queue, key) -> Answer */
PyObject *hold_release_async(PyObject *self, PyObject *args)
{
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    PyObject *queue;
    unsigned long long key;
    hf_hold *released;
    if (!PyArg_ParseTuple(args, "O!K", queue_type, &queue, &key))
        return NULL;
    struct ticket *ticket = new_ticket((struct queue *)queue, key);
    if (!ticket)
        return NULL;
    PyThreadState *state = hold_enter_to_end(hold, &released);
    if (!state)
        return ticket_begun(ticket, NULL);
    if (!hold_leave_release(hold, released, ticket))
        failure_keep(&failure, hf_unlock_async(released, ticket_done, ticket));
    queue_asked((struct queue *)queue);
    client_leave(hold->client, state);
    if (failure.code) {
        hold->hold = released;
        hold->ending = false;
    }
    return ticket_begun(ticket, &failure);
}

int answer_add_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        { "done", answer_done, METH_NOARGS, NULL },
        { "result", answer_result, METH_NOARGS, NULL },
        { NULL, NULL, 0, NULL },
    };
    PyType_Slot slots[] = {
        { Py_tp_dealloc, (void *)answer_free },
        { Py_tp_methods, methods },
        { 0, NULL },
    };
    PyType_Spec spec = { "holdfast._holdfast.Answer", sizeof(struct answer), 0, Py_TPFLAGS_DEFAULT,
                         slots };
    answer_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return answer_type ? PyModule_AddObject(module, "Answer", (PyObject *)answer_type) : -1;
}
