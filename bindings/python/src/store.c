/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks the store besides locks: semaphores, counters, latches, inspecting. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* Runs `call` in the library; `code` and `failure` are the caller's. Returns NULL on failure. */
#define ASK(client, call)                                                                          \
    do {                                                                                           \
        struct failure failure = { 0 };                                                            \
        PyThreadState *state = client_enter(client);                                               \
        if (!state)                                                                                \
            return NULL;                                                                           \
        failure_keep(&failure, call);                                                              \
        client_leave(client, state);                                                               \
        if (failure.code)                                                                          \
            return failure_raise(&failure);                                                        \
    } while (0)

typedef int name_function(hf_client *client, const char *name);
typedef int set_function(hf_client *client, const char *name, uint32_t number);
typedef int get_function(hf_client *client, const char *name, uint32_t *ret);

static PyObject *with_name(PyObject *self, PyObject *args, name_function *function)
{
    struct client *client = (struct client *)self;
    const char *name;
    if (!PyArg_ParseTuple(args, "y", &name))
        return NULL;
    ASK(client, function(client->handle, name));
    Py_RETURN_NONE;
}

static PyObject *with_number(PyObject *self, PyObject *args, set_function *function)
{
    struct client *client = (struct client *)self;
    const char *name;
    unsigned int number;
    if (!PyArg_ParseTuple(args, "yI", &name, &number))
        return NULL;
    ASK(client, function(client->handle, name, number));
    Py_RETURN_NONE;
}

static PyObject *that_reads(PyObject *self, PyObject *args, get_function *function)
{
    struct client *client = (struct client *)self;
    const char *name;
    uint32_t number = 0;
    if (!PyArg_ParseTuple(args, "y", &name))
        return NULL;
    ASK(client, function(client->handle, name, &number));
    return PyLong_FromUnsignedLong(number);
}

static PyObject *semaphore_set(PyObject *self, PyObject *args)
{
    return with_number(self, args, hf_semaphore_set);
}

static PyObject *counter_set(PyObject *self, PyObject *args)
{
    return with_number(self, args, hf_counter_set);
}

static PyObject *counter_add(PyObject *self, PyObject *args)
{
    return with_number(self, args, hf_counter_add);
}

static PyObject *counter_get(PyObject *self, PyObject *args)
{
    return that_reads(self, args, hf_counter_get);
}

static PyObject *counter_remove(PyObject *self, PyObject *args)
{
    return with_name(self, args, hf_counter_remove);
}

static PyObject *latch_set(PyObject *self, PyObject *args)
{
    return with_number(self, args, hf_latch_set);
}

static PyObject *latch_get(PyObject *self, PyObject *args)
{
    return that_reads(self, args, hf_latch_get);
}

static PyObject *latch_down(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    const char *name;
    unsigned int amount;
    uint32_t left = 0;
    if (!PyArg_ParseTuple(args, "yI", &name, &amount))
        return NULL;
    ASK(client, hf_latch_down(client->handle, name, amount, &left));
    return PyLong_FromUnsignedLong(left);
}

static PyObject *break_name(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    const char *name, *owner_key;
    uint32_t count = 0;
    if (!PyArg_ParseTuple(args, "yz", &name, &owner_key))
        return NULL;
    ASK(client, hf_break(client->handle, name, owner_key, &count));
    return PyLong_FromUnsignedLong(count);
}

static PyObject *forget(PyObject *self, PyObject *args)
{
    return with_name(self, args, hf_forget);
}

/* ---- inspecting: the callback copies, and Python sees the copies afterwards ---- */

bool entries_add(struct entries *all, const hf_entry *entry)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 16;
        hf_entry *items = realloc(all->items, room * sizeof(*items));
        if (!items) {
            all->no_memory = true;
            return false;
        }
        all->items = items;
        all->room = room;
    }
    hf_entry *copy = &all->items[all->count++];
    *copy = *entry;
    copy->name = strndup(entry->name, entry->name_length);
    copy->owner_key = strdup(entry->owner_key ? entry->owner_key : "");
    copy->owner_text = strdup(entry->owner_text ? entry->owner_text : "");
    copy->host = strdup(entry->host ? entry->host : "");
    all->no_memory = !copy->name || !copy->owner_key || !copy->owner_text || !copy->host;
    return !all->no_memory;
}

void entries_free(struct entries *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free((char *)(uintptr_t)all->items[i].name);
        free((char *)(uintptr_t)all->items[i].owner_key);
        free((char *)(uintptr_t)all->items[i].owner_text);
        free((char *)(uintptr_t)all->items[i].host);
    }
    free(all->items);
}

bool name_or_none(PyObject *bytes, const char **ret)
{
    char *name = NULL;
    bool good = bytes == Py_None || PyBytes_AsStringAndSize(bytes, &name, NULL) == 0;
    *ret = name;
    return good;
}

static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static PyObject *entry_tuple(const hf_entry *e)
{
    return Py_BuildValue("(NiiIIKiIINNNLLLN)", text_of(e->name), (int)e->kind, (int)e->role,
                         e->total, e->value, (unsigned long long)e->token, (int)e->mode, e->permits,
                         e->rank, text_of(e->owner_key), text_of(e->owner_text), text_of(e->host),
                         (long long)e->pid, (long long)e->since_ms, (long long)e->lease_left_ms,
                         PyBool_FromLong(e->unmarked));
}

PyObject *entries_tuples(const struct entries *all)
{
    PyObject *list = all->no_memory ? PyErr_NoMemory() : PyList_New(0);
    for (size_t i = 0; list && i < all->count; i++) {
        PyObject *tuple = entry_tuple(&all->items[i]);
        if (!tuple || PyList_Append(list, tuple) < 0) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(tuple);
    }
    return list;
}

static bool copy_entry(void *arg, const hf_entry *entry)
{
    return entries_add(arg, entry);
}

static PyObject *inspect(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    PyObject *name_bytes;
    struct entries all = { 0 };
    struct failure failure = { 0 };
    if (!PyArg_ParseTuple(args, "O", &name_bytes))
        return NULL;
    const char *name = NULL;
    PyThreadState *state = name_or_none(name_bytes, &name) ? client_enter(client) : NULL;
    if (!state)
        return NULL;
    failure_keep(&failure, hf_inspect(client->handle, name, copy_entry, &all));
    client_leave(client, state);
    PyObject *ret = failure.code ? failure_raise(&failure) : entries_tuples(&all);
    entries_free(&all);
    return ret;
}

/* ---- elections and rate limiters ---- */

/* election_leader(name) -> (text, owner_key, token, since_ms, candidates), or None */
static PyObject *election_leader(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    hf_leader leader = { .size = sizeof(leader) };
    const char *name;
    if (!PyArg_ParseTuple(args, "y", &name))
        return NULL;
    ASK(client, hf_election_leader(client->handle, name, &leader));
    if (!leader.leads)
        Py_RETURN_NONE;
    return Py_BuildValue("(NNKLI)", text_of(leader.text), text_of(leader.owner_key),
                         (unsigned long long)leader.token, (long long)leader.since_ms,
                         leader.candidates);
}

/* Tells the exception that is set after which time to try again. */
static void add_retry(int64_t retry_ms)
{
    PyObject *type, *busy, *trace, *retry = NULL;
    PyErr_Fetch(&type, &busy, &trace);
    if (busy)
        retry = PyFloat_FromDouble((double)retry_ms / 1000);
    if (retry && PyObject_SetAttrString(busy, "retry", retry) < 0)
        PyErr_Clear();
    Py_XDECREF(retry);
    PyErr_Restore(type, busy, trace);
}

/* rate_take(name, permits, period_ms, burst, taken, wait_ms) */
static PyObject *rate_take(PyObject *self, PyObject *args)
{
    struct client *client = (struct client *)self;
    struct asker asker = { .client = client };
    hf_stop stop = client_stop(&asker);
    hf_rate rate = HF_RATE(.stop = &stop);
    struct failure failure = { 0 };
    const char *name;
    unsigned int taken;
    long long period_ms, wait_ms;
    int64_t retry_ms = 0;
    if (!PyArg_ParseTuple(args, "yILIIL", &name, &rate.permits, &period_ms, &rate.burst, &taken,
                          &wait_ms))
        return NULL;
    rate.period_ms = period_ms;
    asker.state = client_enter(client);
    if (!asker.state)
        return NULL;
    failure_keep(&failure, hf_rate_take(client->handle, name, &rate, taken, wait_ms, &retry_ms));
    client_leave(client, asker.state);
    PyObject *ret = asker_result(&asker, &failure);
    if (!asker.raised && failure.code == HF_BUSY)
        add_retry(retry_ms);
    return ret;
}

/* ---- statistics ---- */

static PyObject *histogram(const uint64_t buckets[HF_STATS_BUCKETS])
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < HF_STATS_BUCKETS; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(buckets[i]);
        if (!count || PyList_Append(list, count) < 0) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(count);
    }
    return list;
}

/* stats() -> {name: number, or the counts of a histogram} */
static PyObject *stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct client *client = (struct client *)self;
    hf_stats s = { .size = sizeof(s) };
    ASK(client, hf_stats_get(client->handle, &s));
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsNsN}", "granted", s.granted,
                         "nested", s.nested, "busy", s.busy, "timed_out", s.timed_out,
                         "unreachable", s.unreachable, "canceled", s.canceled, "failed", s.failed,
                         "lost_ended", s.lost_ended, "lost_not_renewed", s.lost_not_renewed,
                         "lost_taken", s.lost_taken, "renewals", s.renewals, "renewal_late_ms",
                         s.renewal_late_ms, "requests", s.requests, "unanswered", s.unanswered,
                         "reconnects", s.reconnects, "outages", s.outages, "silent", s.silent,
                         "held", s.held, "waiting", s.waiting, "wait_us", s.wait_us, "hold_us",
                         s.hold_us, "waits", histogram(s.waits), "holds", histogram(s.holds));
}

PyMethodDef store_methods[] = {
    { "semaphore_set", semaphore_set, METH_VARARGS, NULL },
    { "counter_set", counter_set, METH_VARARGS, NULL },
    { "counter_add", counter_add, METH_VARARGS, NULL },
    { "counter_get", counter_get, METH_VARARGS, NULL },
    { "counter_remove", counter_remove, METH_VARARGS, NULL },
    { "latch_set", latch_set, METH_VARARGS, NULL },
    { "latch_get", latch_get, METH_VARARGS, NULL },
    { "latch_down", latch_down, METH_VARARGS, NULL },
    { "break_", break_name, METH_VARARGS, NULL },
    { "forget", forget, METH_VARARGS, NULL },
    { "inspect", inspect, METH_VARARGS, NULL },
    { "ask", client_ask, METH_VARARGS, NULL },
    { "election_leader", election_leader, METH_VARARGS, NULL },
    { "rate_take", rate_take, METH_VARARGS, NULL },
    { "stats", stats, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
