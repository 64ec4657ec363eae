/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: what has happened to the holds of an event loop, told by a descriptor. */
#include "binding.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

PyTypeObject *queue_type;
pthread_mutex_t notes_mutex;
pthread_cond_t some_lost;

void notes_init(void)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&notes_mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&some_lost, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int note_push(struct note *note, struct queue *queue)
{
    if (!queue || note->next)
        return -1;
    struct note *list = &queue->list;
    int fd = list->next == list ? queue->fd : -1; /* one write for all that are read together */
    note->next = list;
    note->previous = list->previous;
    list->previous->next = note;
    list->previous = note;
    return fd;
}

void note_drop(struct note *note)
{
    if (!note->next)
        return;
    note->previous->next = note->next;
    note->next->previous = note->previous;
    note->next = note->previous = NULL;
}

void queue_wake(int fd)
{
    uint64_t one = 1;
    while (fd >= 0 && write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args;
    (void)keywords;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    struct queue *queue = (struct queue *)PyType_GenericAlloc(type, 0);
    if (!queue) {
        close(fd);
        return NULL;
    }
    queue->fd = fd;
    queue->list.next = queue->list.previous = &queue->list;
    return (PyObject *)queue;
}

/* Each hold keeps its queue, so the list is empty. */
static void queue_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    close(((struct queue *)self)->fd);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *queue_fileno(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct queue *)self)->fd);
}

/* Takes the oldest note: its key, and whether it is a loss. False: there is none. */
static bool take_one(struct queue *queue, uint64_t *ret_key, bool *ret_lost)
{
    pthread_mutex_lock(&notes_mutex);
    struct note *note = queue->list.next;
    bool found = note != &queue->list;
    if (found) {
        *ret_key = note->key;
        *ret_lost = note->lost;
        note_drop(note);
    }
    pthread_mutex_unlock(&notes_mutex);
    return found;
}

/* take() -> [(key, lost), ...]. The descriptor is read first: a note that comes later wakes again.
 */
static PyObject *queue_take(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct queue *queue = (struct queue *)self;
    uint64_t count, key;
    bool lost;
    PyObject *list = PyList_New(0);
    if (!list || (read(queue->fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR))
        return list ? PyErr_SetFromErrno(PyExc_OSError) : NULL;
    while (take_one(queue, &key, &lost)) {
        PyObject *pair = Py_BuildValue("(KO)", (unsigned long long)key, lost ? Py_True : Py_False);
        if (!pair || PyList_Append(list, pair) < 0) {
            Py_XDECREF(pair);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(pair);
    }
    return list;
}

int queue_add_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        { "fileno", queue_fileno, METH_NOARGS, NULL },
        { "take", queue_take, METH_NOARGS, NULL },
        { NULL, NULL, 0, NULL },
    };
    PyType_Slot slots[] = {
        { Py_tp_new, (void *)queue_new },
        { Py_tp_dealloc, (void *)queue_free },
        { Py_tp_methods, methods },
        { 0, NULL },
    };
    PyType_Spec spec = { "holdfast._holdfast.Queue", sizeof(struct queue), 0, Py_TPFLAGS_DEFAULT,
                         slots };
    queue_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return queue_type ? PyModule_AddObject(module, "Queue", (PyObject *)queue_type) : -1;
}
