/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: what has happened to the holds of an event loop, told by a descriptor. */
#include "binding.h"

#include <errno.h>
#include <sys/epoll.h>
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

/* Whose queue_take runs the client's loop on this thread. */
static _Thread_local const struct queue *reading;

int note_push(struct note *note, struct queue *queue)
{
    if (!queue || note->next)
        return -1;
    struct note *list = &queue->list;
    /* One write for all that are read together; none for what queue_take is about to read. */
    int fd = list->next == list && reading != queue ? queue->event_fd : -1;
    queue->written |= fd >= 0;
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

void queue_begin(struct queue *queue)
{
    pthread_mutex_lock(&notes_mutex);
    queue->outstanding++;
    pthread_mutex_unlock(&notes_mutex);
}

void queue_end(struct queue *queue)
{
    queue->outstanding--;
}

static void watch_loop(const struct queue *queue, uint32_t events)
{
    epoll_ctl(queue->fd, EPOLL_CTL_MOD, queue->loop_fd, &(struct epoll_event){ .events = events });
}

void queue_asked(struct queue *queue)
{
    pthread_mutex_lock(&notes_mutex);
    bool arms = queue->loop_fd >= 0 && queue->outstanding == 1 && !queue->armed;
    queue->armed |= arms;
    pthread_mutex_unlock(&notes_mutex);
    if (arms)
        watch_loop(queue, EPOLLIN);
}

static bool open_descriptors(struct queue *queue)
{
    struct epoll_event event = { .events = EPOLLIN }, unarmed = { .events = 0 };
    queue->fd = epoll_create1(EPOLL_CLOEXEC);
    queue->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0 || queue->event_fd < 0 ||
        epoll_ctl(queue->fd, EPOLL_CTL_ADD, queue->event_fd, &event) < 0)
        return false;
    /* Where no server is asked, the calling thread has the answer. */
    if (!queue->client->local)
        queue->loop_fd = hf_fd(queue->client->handle);
    return queue->loop_fd < 0 || epoll_ctl(queue->fd, EPOLL_CTL_ADD, queue->loop_fd, &unarmed) == 0;
}

/* Queue(client) */
static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *client;
    if (!PyArg_ParseTuple(args, "O!", client_type, &client))
        return NULL;
    struct queue *queue = (struct queue *)PyType_GenericAlloc(type, 0);
    if (!queue)
        return NULL;
    queue->list.next = queue->list.previous = &queue->list;
    queue->fd = queue->event_fd = queue->loop_fd = -1;
    queue->client = (struct client *)client;
    Py_INCREF(client);
    PyThreadState *state = client_enter(queue->client);
    bool opened = state && open_descriptors(queue);
    if (state)
        client_leave(queue->client, state);
    if (opened)
        return (PyObject *)queue;
    if (state)
        PyErr_SetFromErrno(PyExc_OSError);
    Py_DECREF(queue);
    return NULL;
}

/* Each hold keeps its queue, so the list is empty. */
static void queue_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct queue *queue = (struct queue *)self;
    if (queue->fd >= 0)
        close(queue->fd);
    if (queue->event_fd >= 0)
        close(queue->event_fd);
    Py_DECREF(queue->client);
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

/* Runs the client's loop, where an answer may have come to it; while the client's thread does so,
 * it is not watched. Without the GIL. */
static void run_loop(struct queue *queue)
{
    reading = queue;
    int code = hf_dispatch(queue->client->handle);
    reading = NULL;
    if (code == HF_OK)
        return;
    pthread_mutex_lock(&notes_mutex);
    queue->armed = false;
    pthread_mutex_unlock(&notes_mutex);
    watch_loop(queue, 0);
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
    if (!list)
        return NULL;
    pthread_mutex_lock(&notes_mutex);
    bool armed = queue->armed;
    if (queue->written && read(queue->event_fd, &count, sizeof(count)) < 0)
        count = 0;
    queue->written = false;
    pthread_mutex_unlock(&notes_mutex);
    if (armed && client_usable(queue->client, queue->client->generation)) {
        PyThreadState *state = client_enter(queue->client);
        run_loop(queue);
        client_leave(queue->client, state);
    }
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
