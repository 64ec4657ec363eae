/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: acquiring so that Ctrl-C and close() end the wait, losing, releasing. */
#include "binding.h"

#include <string.h>

static PyTypeObject *hold_type;

/* Waits without the GIL until the request has ended. */
static void wait_until_done(struct hold *hold)
{
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    PyThreadState *state = PyEval_SaveThread();
    pthread_mutex_lock(&notes_mutex);
    hold->waiter = &cond;
    while (!hold->done)
        pthread_cond_wait(&cond, &notes_mutex);
    hold->waiter = NULL;
    pthread_mutex_unlock(&notes_mutex);
    PyEval_RestoreThread(state);
    pthread_cond_destroy(&cond);
}

static void on_done(void *arg, int code, hf_hold *granted, const hf_error *error)
{
    struct hold *hold = arg;
    pthread_mutex_lock(&notes_mutex);
    hold->hold = granted;
    hold->done = true;
    hold->result.code = code;
    if (error) {
        hold->result.native = error->native;
        memcpy(hold->result.text, error->text, sizeof(hold->result.text));
    }
    if (hold->waiter)
        pthread_cond_signal(hold->waiter);
    queue_end(hold->queue);
    if (!hold->dying)
        queue_wake(note_push(&hold->done_note, hold->queue));
    pthread_mutex_unlock(&notes_mutex);
}

/* Ends the request, and returns when nothing in the library knows the hold any more. */
static void abandon(struct hold *hold)
{
    struct client *client = hold->client;
    if (!client->closing) {
        PyThreadState *state = client_enter(client);
        hf_cancel(client->handle, hold->request);
        client_leave(client, state);
    }
    wait_until_done(hold);
}

static struct hold *hold_new(PyObject *client, struct queue *queue)
{
    struct hold *hold = (struct hold *)PyType_GenericAlloc(hold_type, 0);
    if (!hold)
        return NULL;
    Py_INCREF(client);
    Py_XINCREF(queue);
    hold->client = (struct client *)client;
    hold->queue = queue;
    hold->generation = hold->client->generation;
    return hold;
}

/* As with a file that is not closed: no variable names it any more, so it is released. */
static void warn_of_release(const struct hold *hold)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_WarnFormat(PyExc_ResourceWarning, 1,
                         "the lock \"%.200s\" was held by no object any more, and is released",
                         hf_hold_name(hold->hold)) < 0)
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, trace);
}

static void hold_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct hold *hold = (struct hold *)self;
    pthread_mutex_lock(&notes_mutex);
    hold->dying = true;
    note_drop(&hold->done_note);
    note_drop(&hold->lost_note);
    bool done = hold->done; /* read with the mutex held: else `on_done` may still be at work */
    pthread_mutex_unlock(&notes_mutex);
    if (hold->begun && !done && hold->generation == process_generation())
        abandon(hold);
    if (hold->hold && client_usable(hold->client, hold->generation)) {
        if (hf_held(hold->hold))
            warn_of_release(hold);
        PyThreadState *state = client_enter(hold->client);
        hf_unlock_nowait(hold->hold); /* waits for an on_lost that runs */
        client_leave(hold->client, state);
    }
    Py_DECREF(hold->client);
    Py_XDECREF(hold->queue);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- acquiring ---- */

struct request {
    const char *name;
    long long wait_ms;
    int mode;
    hf_lock_options options;
};

/* The seven arguments after the name are the same in acquire and begin. */
static bool parse_request(struct request *request, PyObject *args, struct queue **ret_queue,
                          uint64_t *ret_key)
{
    unsigned int permits, limit;
    long long lease_ms, deadlock_ms;
    unsigned long long key = 0;
    const char *owner_text;
    PyObject *queue = NULL;
    if (!PyArg_ParseTuple(args, "yLiIILLz|O!K", &request->name, &request->wait_ms, &request->mode,
                          &permits, &limit, &lease_ms, &deadlock_ms, &owner_text, queue_type,
                          &queue, &key))
        return false;
    request->options = HF_LOCK_OPTIONS(.mode = (hf_mode)request->mode, .permits = permits,
                                       .limit = limit, .lease_ms = lease_ms, .owner = HF_OWNER_NEW,
                                       .owner_text = owner_text, .on_lost = hold_on_lost);
    if (deadlock_ms >= 0) {
        request->options.owner = HF_OWNER_THREAD;
        request->options.no_reentry = true;
        request->options.deadlock_ms = deadlock_ms;
    }
    if (ret_queue) {
        *ret_queue = (struct queue *)queue;
        *ret_key = key;
    }
    return true;
}

/* One call for the whole wait, which a signal's handler or a closed client ends. False: an
 * exception is set. */
static bool acquire(struct hold *hold, struct request *request)
{
    struct client *client = hold->client;
    struct asker asker = { .client = client, .state = client_enter(client) };
    hf_stop stop = client_stop(&asker);
    if (!asker.state)
        return false;
    request->options.stop = &stop;
    failure_keep(&hold->result, hf_lock(client->handle, request->name, request->wait_ms,
                                        &request->options, &hold->hold));
    client_leave(client, asker.state);
    return !asker.raised;
}

/* Begins the request; what can be had at once is had. False: an exception is set. */
static bool begin(struct hold *hold, const struct request *request)
{
    struct client *client = hold->client;
    struct failure failure = { 0 };
    hf_hold *granted;
    PyThreadState *state = client_enter(client);
    if (!state)
        return false;
    hold->begun = true;
    queue_begin(hold->queue);
    failure_keep(&failure,
                 hf_lock_start(client->handle, request->name, request->wait_ms, &request->options,
                               on_done, hold, &hold->request, &granted));
    bool told = failure.code == HF_OK && !granted;
    if (told)
        queue_asked(hold->queue);
    client_leave(client, state);
    if (told)
        return true;
    pthread_mutex_lock(&notes_mutex);
    queue_end(hold->queue);
    pthread_mutex_unlock(&notes_mutex);
    hold->begun = false;
    hold->hold = granted;
    hold->done = true;
    hold->result = failure;
    return true;
}

/* The hold, if the result says so; else the exception. Takes over the reference. */
static PyObject *granted(struct hold *hold)
{
    PyObject *ret = (PyObject *)hold;
    int code = hold->result.code;
    if ((code == HF_OK || code == HF_CANCELED) && !client_usable(hold->client, hold->generation))
        ret = failure_raise_code(HF_ECLOSED, "the client is closed");
    else if (code != HF_OK)
        ret = failure_raise(&hold->result);
    if (!ret)
        Py_DECREF(hold);
    return ret;
}

/* acquire(name, wait_ms, mode, permits, limit, lease_ms, deadlock_ms, owner_text) -> Hold. The
 * deadlock_ms is negative, or the thread is the owner. */
PyObject *client_acquire(PyObject *self, PyObject *args)
{
    struct request request;
    if (!parse_request(&request, args, NULL, NULL))
        return NULL;
    struct hold *hold = hold_new(self, NULL);
    if (!hold)
        return NULL;
    request.options.lost_arg = hold;
    if (acquire(hold, &request))
        return granted(hold);
    Py_DECREF(hold);
    return NULL;
}

/* begin(name, wait_ms, mode, permits, limit, lease_ms, deadlock_ms, owner_text, queue, key) ->
 * Hold, whose result() is there when the queue has told so, or done() says so at once. */
PyObject *client_begin(PyObject *self, PyObject *args)
{
    struct request request;
    struct queue *queue;
    uint64_t key;
    if (!parse_request(&request, args, &queue, &key))
        return NULL;
    struct hold *hold = hold_new(self, queue);
    if (!hold)
        return NULL;
    hold->done_note.key = hold->lost_note.key = key;
    hold->lost_note.lost = true;
    request.options.lost_arg = hold;
    if (begin(hold, &request))
        return (PyObject *)hold;
    Py_DECREF(hold);
    return NULL;
}

/* attach(name, owner_key) -> Hold */
PyObject *client_attach(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    const char *name, *owner_key;
    if (!PyArg_ParseTuple(args, "ys", &name, &owner_key))
        return NULL;
    struct hold *hold = hold_new(self, NULL);
    PyThreadState *state = hold ? client_enter(client) : NULL;
    if (!state) {
        Py_XDECREF(hold);
        return NULL;
    }
    failure_keep(&hold->result, hf_attach(client->handle, name, owner_key, &hold->hold));
    hold->attached = true;
    client_leave(client, state);
    return granted(hold);
}

/* ---- methods ---- */

static PyObject *hold_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    pthread_mutex_lock(&notes_mutex);
    bool done = hold->done;
    pthread_mutex_unlock(&notes_mutex);
    return PyBool_FromLong(done);
}

/* Raises what the request has ended with, if it was not granted. */
static PyObject *hold_result(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return granted((struct hold *)self);
}

static PyObject *hold_cancel(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    if (client_usable(hold->client, hold->generation)) {
        PyThreadState *state = client_enter(hold->client);
        hf_cancel(hold->client->handle, hold->request);
        client_leave(hold->client, state);
    }
    Py_RETURN_NONE;
}

/* Returns: what the last call is to release, or NULL. */
static hf_hold *count_call(struct hold *hold, int change)
{
    hf_hold *released = NULL;
    pthread_mutex_lock(&notes_mutex);
    hold->calls += (unsigned)change;
    if (hold->calls == 0) {
        released = hold->left_hold;
        hold->left_hold = NULL;
        pthread_cond_broadcast(&some_lost);
    }
    pthread_mutex_unlock(&notes_mutex);
    return released;
}

static bool in_use(struct hold *hold)
{
    pthread_mutex_lock(&notes_mutex);
    bool used = hold->calls > 0;
    pthread_mutex_unlock(&notes_mutex);
    return used;
}

/* Whether the hold is there; else sets the exception. */
static bool check_there(const struct hold *hold)
{
    if (!hold->hold)
        PyErr_SetString(PyExc_RuntimeError, "the lock was released already");
    return hold->hold;
}

/* Enters the library for a method that changes the hold; leave() ends it. */
static PyThreadState *enter(struct hold *hold, hf_hold **ret)
{
    if (!check_there(hold))
        return NULL;
    *ret = hold->hold;
    count_call(hold, 1);
    PyThreadState *state = client_enter(hold->client);
    if (!state)
        count_call(hold, -1);
    return state;
}

static void leave(struct hold *hold, PyThreadState *state)
{
    hf_hold *released = count_call(hold, -1);
    if (released && hold->left_ticket)
        ticket_release(hold->left_ticket, released);
    else if (released)
        hf_unlock_nowait(released);
    client_leave(hold->client, state);
}

PyThreadState *hold_enter_to_end(struct hold *hold, hf_hold **ret)
{
    if (!check_there(hold))
        return NULL;
    *ret = hold->hold;
    hold->hold = NULL;
    hold->ending = true;
    PyThreadState *state = client_enter(hold->client);
    if (!state) {
        hold->hold = *ret;
        hold->ending = false;
    }
    return state;
}

bool hold_leave_release(struct hold *hold, hf_hold *released, struct ticket *ticket)
{
    pthread_mutex_lock(&notes_mutex);
    bool leaves = hold->calls > 0;
    if (leaves) {
        hold->left_hold = released;
        hold->left_ticket = ticket;
    }
    pthread_mutex_unlock(&notes_mutex);
    return leaves;
}

static PyObject *hold_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    hf_hold *released;
    PyThreadState *state = hold_enter_to_end(hold, &released);
    if (!state)
        return NULL;
    if (!client_asks(hold->client) || !hold_leave_release(hold, released, NULL)) {
        pthread_mutex_lock(&notes_mutex);
        while (hold->calls > 0)
            pthread_cond_wait(&some_lost, &notes_mutex);
        pthread_mutex_unlock(&notes_mutex);
        failure_keep(&failure, hf_unlock(released));
    }
    client_leave(hold->client, state);
    if (failure.code == HF_LOST) {
        pthread_mutex_lock(&notes_mutex);
        hold->lost = true;
        pthread_cond_broadcast(&some_lost);
        pthread_mutex_unlock(&notes_mutex);
    }
    if (failure.code)
        return failure_raise(&failure);
    Py_RETURN_NONE;
}

/* release_nowait() -> whether it was held */
static PyObject *hold_release_nowait(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    hf_hold *released;
    PyThreadState *state = hold_enter_to_end(hold, &released);
    if (!state)
        return NULL;
    bool held = hf_held(released);
    if (!hold_leave_release(hold, released, NULL))
        hf_unlock_nowait(released);
    client_leave(hold->client, state);
    return PyBool_FromLong(held);
}

static PyObject *hold_renew(PyObject *self, PyObject *args)
{
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    long long lease_ms;
    hf_hold *renewed;
    PyThreadState *state = PyArg_ParseTuple(args, "L", &lease_ms) ? enter(hold, &renewed) : NULL;
    if (!state)
        return NULL;
    failure_keep(&failure, hf_renew(renewed, lease_ms));
    leave(hold, state);
    if (failure.code)
        return failure_raise(&failure);
    Py_RETURN_NONE;
}

static PyObject *hold_upgrade(PyObject *self, PyObject *args)
{
    struct hold *hold = (struct hold *)self;
    struct asker asker = { .client = hold->client, .ending = &hold->ending };
    struct failure failure = { 0 };
    hf_stop stop = client_stop(&asker);
    long long wait_ms;
    hf_hold *raised;
    asker.state = PyArg_ParseTuple(args, "L", &wait_ms) ? enter(hold, &raised) : NULL;
    if (!asker.state)
        return NULL;
    failure_keep(&failure, hf_upgrade_stoppable(raised, wait_ms, &stop));
    leave(hold, asker.state);
    return asker_result(&asker, &failure);
}

static PyObject *hold_downgrade(PyObject *self, PyObject *args)
{
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    int mode;
    hf_hold *lowered;
    PyThreadState *state = PyArg_ParseTuple(args, "i", &mode) ? enter(hold, &lowered) : NULL;
    if (!state)
        return NULL;
    failure_keep(&failure, hf_downgrade(lowered, (hf_mode)mode));
    leave(hold, state);
    if (failure.code)
        return failure_raise(&failure);
    Py_RETURN_NONE;
}

/* detach() -> the key that attach takes */
static PyObject *hold_detach(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    char owner_key[HF_OWNER_KEY_SIZE];
    hf_hold *detached;
    if (in_use(hold)) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is just changing this lock");
        return NULL;
    }
    PyThreadState *state = hold_enter_to_end(hold, &detached);
    if (!state)
        return NULL;
    failure_keep(&failure, hf_detach(detached, owner_key));
    client_leave(hold->client, state);
    if (!failure.code)
        return PyUnicode_FromString(owner_key);
    hold->hold = detached;
    hold->ending = false;
    return failure_raise(&failure);
}

static PyObject *hold_guard(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct hold *hold = (struct hold *)self;
    struct failure failure = { 0 };
    char guard[HF_GUARD_SIZE];
    hf_hold *guarded;
    PyThreadState *state = enter(hold, &guarded);
    if (!state)
        return NULL;
    failure_keep(&failure, hf_guard(guarded, guard));
    leave(hold, state);
    return failure.code ? failure_raise(&failure) : PyBytes_FromString(guard);
}

hf_hold *hold_live(PyObject *self)
{
    struct hold *hold = (struct hold *)self;
    return client_usable(hold->client, hold->generation) ? hold->hold : NULL;
}

static PyObject *get_held(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(hf_held(hold_live(self)));
}

static PyObject *get_token(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(hf_token(hold_live(self)));
}

/* Milliseconds; None: no lease limits it */
static PyObject *get_remaining_ms(PyObject *self, void *unused)
{
    (void)unused;
    int64_t ms = hf_remaining_ms(hold_live(self));
    if (ms == INT64_MAX)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(ms);
}

static PyObject *get_mode(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)hf_hold_mode(hold_live(self)));
}

static PyMethodDef methods[] = {
    { "done", hold_done, METH_NOARGS, NULL },
    { "result", hold_result, METH_NOARGS, NULL },
    { "cancel", hold_cancel, METH_NOARGS, NULL },
    { "release", hold_release, METH_NOARGS, NULL },
    { "release_async", hold_release_async, METH_VARARGS, NULL },
    { "release_nowait", hold_release_nowait, METH_NOARGS, NULL },
    { "renew", hold_renew, METH_VARARGS, NULL },
    { "upgrade", hold_upgrade, METH_VARARGS, NULL },
    { "downgrade", hold_downgrade, METH_VARARGS, NULL },
    { "detach", hold_detach, METH_NOARGS, NULL },
    { "guard", hold_guard, METH_NOARGS, NULL },
    { "wait_lost", hold_wait_lost, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef properties[] = {
    { "held", get_held, NULL, NULL, NULL },
    { "token", get_token, NULL, NULL, NULL },
    { "remaining_ms", get_remaining_ms, NULL, NULL, NULL },
    { "mode", get_mode, NULL, NULL, NULL },
    { "lost", hold_get_lost, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

int hold_add_type(PyObject *module)
{
    PyType_Slot slots[] = {
        { Py_tp_dealloc, (void *)hold_free },
        { Py_tp_methods, methods },
        { Py_tp_getset, properties },
        { 0, NULL },
    };
    PyType_Spec spec = { "holdfast._holdfast.Hold", sizeof(struct hold), 0, Py_TPFLAGS_DEFAULT,
                         slots };
    hold_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return hold_type ? PyModule_AddObject(module, "Hold", (PyObject *)hold_type) : -1;
}
