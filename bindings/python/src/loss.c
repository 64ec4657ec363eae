/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a hold: written down by the library's thread, asked for, waited for. */
#include "binding.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How often a wait for a loss looks for signals. */
#define SLICE_MS 100

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits with notes_mutex held until the loss is known, for up to `ms`. */
static bool wait_for_loss(const struct hold *hold, int64_t ms)
{
    int64_t end = now_ms() + ms;
    struct timespec until = { end / 1000, end % 1000 * 1000000 };
    int result = 0;
    while (!hold->lost && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&some_lost, &notes_mutex, &until);
    return hold->lost;
}

void hold_on_lost(void *arg, const hf_loss *loss)
{
    struct hold *hold = arg;
    pthread_mutex_lock(&notes_mutex);
    hold->lost = true;
    strncpy(hold->result.text, loss->reason, sizeof(hold->result.text) - 1);
    int fd = hold->dying ? -1 : note_push(&hold->lost_note, hold->queue);
    pthread_cond_broadcast(&some_lost);
    queue_wake(fd); /* the queue may be freed once the mutex is let go */
    pthread_mutex_unlock(&notes_mutex);
}

static bool is_lost(PyObject *self)
{
    struct hold *hold = (struct hold *)self;
    hf_hold *asked = hold->attached ? hold_live(self) : NULL;
    bool ended = asked && !hf_held(asked);
    pthread_mutex_lock(&notes_mutex);
    hold->lost = hold->lost || ended;
    bool lost = hold->lost;
    pthread_mutex_unlock(&notes_mutex);
    return lost;
}

/* wait_lost(ms) -> whether the hold was lost; signals' handlers run meanwhile */
PyObject *hold_wait_lost(PyObject *self, PyObject *args)
{
    struct hold *hold = (struct hold *)self;
    long long ms;
    if (!PyArg_ParseTuple(args, "L", &ms))
        return NULL;
    int64_t begun_ms = now_ms();
    for (;;) {
        int64_t left_ms = ms < 0 ? SLICE_MS + 1 : ms - (now_ms() - begun_ms);
        bool last = left_ms <= SLICE_MS;
        PyThreadState *state = PyEval_SaveThread();
        pthread_mutex_lock(&notes_mutex);
        bool lost = wait_for_loss(hold, !last ? SLICE_MS : left_ms > 0 ? left_ms : 0);
        pthread_mutex_unlock(&notes_mutex);
        PyEval_RestoreThread(state);
        lost = lost || is_lost(self);
        if (lost || last)
            return PyBool_FromLong(lost);
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

PyObject *hold_get_lost(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_lost(self));
}
