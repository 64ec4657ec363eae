/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: opening, closing, and which calls are in the library meanwhile. */
#include "binding.h"

#include <string.h>

PyTypeObject *client_type;

/* Whether the client may be used; else sets the exception. */
static bool check_open(const struct client *client)
{
    if (client->generation != process_generation())
        failure_raise_code(HF_EFORKED, "it was acquired in the parent of this process, which goes "
                                       "on holding it; acquire it here");
    else if (client->closing)
        failure_raise_code(HF_ECLOSED, "the client is closed");
    else
        return true;
    return false;
}

bool client_usable(const struct client *client, unsigned generation)
{
    return !client->closing && generation == process_generation();
}

PyThreadState *client_enter(struct client *client)
{
    if (!check_open(client))
        return NULL;
    pthread_mutex_lock(&client->mutex);
    client->calls++;
    pthread_mutex_unlock(&client->mutex);
    return PyEval_SaveThread();
}

/* The client in whose call this thread runs signals' handlers. */
static _Thread_local struct client *asking;

bool client_asks(const struct client *client)
{
    return asking == client;
}

static void finish(struct client *client);

/* The call is counted out before the GIL is taken: it may never come back at the interpreter's end,
 * while hf_close waits for the call. */
void client_leave(struct client *client, PyThreadState *state)
{
    pthread_mutex_lock(&client->mutex);
    if (--client->calls == 0)
        pthread_cond_broadcast(&client->idle);
    pthread_mutex_unlock(&client->mutex);
    PyEval_RestoreThread(state);
    if (client->closes_late && asking != client) {
        client->closes_late = false;
        finish(client);
    }
}

/* A handler may raise, or close the client. The library may ask again before the call ends. */
static bool client_interrupted(void *arg)
{
    struct asker *asker = arg;
    struct client *outer = asking;
    if (asker->raised)
        return true;
    PyEval_RestoreThread(asker->state);
    asking = asker->client;
    asker->raised = PyErr_CheckSignals() < 0;
    asking = outer;
    bool ends = asker->raised || asker->client->closing || (asker->ending && *asker->ending);
    asker->state = PyEval_SaveThread();
    return ends;
}

hf_stop client_stop(struct asker *asker)
{
    return (hf_stop){ sizeof(hf_stop), client_interrupted, asker, 0 };
}

PyObject *asker_result(const struct asker *asker, const struct failure *failure)
{
    if (asker->raised)
        return NULL;
    if (failure->code == HF_CANCELED && asker->client->closing)
        return failure_raise_code(HF_ECLOSED, "the client is closed");
    if (failure->code)
        return failure_raise(failure);
    Py_RETURN_NONE;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    const char *url, *owner_text;
    long long lease_ms, request_timeout_ms;
    unsigned long long token_floor;
    int existing_only;
    if (!PyArg_ParseTuple(args, "zLLzpK", &url, &lease_ms, &request_timeout_ms, &owner_text,
                          &existing_only, &token_floor))
        return NULL;
    hf_client_options options =
        HF_CLIENT_OPTIONS(.driver = HF_DRIVE_SHARED, .lease_ms = lease_ms,
                          .request_timeout_ms = request_timeout_ms, .owner_text = owner_text,
                          .existing_only = existing_only, .token_floor = token_floor);
    struct failure failure = { 0 };
    hf_client *handle;
    PyThreadState *state = PyEval_SaveThread(); /* it reads files, and may load a module */
    failure_keep(&failure, hf_open(&handle, url, &options));
    PyEval_RestoreThread(state);
    if (failure.code)
        return failure_raise(&failure);

    struct client *client = (struct client *)PyType_GenericAlloc(type, 0);
    if (!client) {
        hf_close(handle);
        return NULL;
    }
    client->handle = handle;
    client->generation = process_generation();
    client->local = strncmp(hf_url(handle), "local:", 6) == 0;
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->idle, NULL);
    return (PyObject *)client;
}

/* In a forked child there is no call in the library, whatever `calls` says. */
static void finish(struct client *client)
{
    PyThreadState *state = PyEval_SaveThread();
    if (client->generation == process_generation()) {
        pthread_mutex_lock(&client->mutex);
        while (client->calls > 0)
            pthread_cond_wait(&client->idle, &client->mutex);
        pthread_mutex_unlock(&client->mutex);
    }
    hf_close(client->handle);
    PyEval_RestoreThread(state);
    client->handle = NULL;
}

static void shut(struct client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    if (asking == client)
        client->closes_late = true;
    else
        finish(client);
}

static PyObject *client_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    shut((struct client *)self);
    Py_RETURN_NONE;
}

static void client_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct client *client = (struct client *)self;
    shut(client);
    pthread_mutex_destroy(&client->mutex);
    pthread_cond_destroy(&client->idle);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *get_url(PyObject *self, void *unused)
{
    (void)unused;
    struct client *client = (struct client *)self;
    return check_open(client) ? PyUnicode_FromString(hf_url(client->handle)) : NULL;
}

static PyObject *get_caps(PyObject *self, void *unused)
{
    (void)unused;
    struct client *client = (struct client *)self;
    return check_open(client) ? PyLong_FromUnsignedLong(hf_caps(client->handle)) : NULL;
}

static PyObject *get_local(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct client *)self)->local);
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct client *)self)->closing);
}

static PyGetSetDef properties[] = {
    { "url", get_url, NULL, NULL, NULL },     { "caps", get_caps, NULL, NULL, NULL },
    { "local", get_local, NULL, NULL, NULL }, { "closed", get_closed, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

int client_add_type(PyObject *module)
{
    static PyMethodDef methods[32] = {
        { "acquire", client_acquire, METH_VARARGS, NULL },
        { "begin", client_begin, METH_VARARGS, NULL },
        { "attach", client_attach, METH_VARARGS, NULL },
        { "close", client_close, METH_NOARGS, NULL },
    };
    PyMethodDef *end = methods;
    while (end->ml_name)
        end++;
    for (PyMethodDef *method = store_methods; method->ml_name; method++)
        *end++ = *method;
    PyType_Slot slots[] = {
        { Py_tp_new, (void *)client_new },
        { Py_tp_dealloc, (void *)client_free },
        { Py_tp_methods, methods },
        { Py_tp_getset, properties },
        { 0, NULL },
    };
    PyType_Spec spec = { "holdfast._holdfast.Client", sizeof(struct client), 0, Py_TPFLAGS_DEFAULT,
                         slots };
    client_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return client_type ? PyModule_AddObject(module, "Client", (PyObject *)client_type) : -1;
}
