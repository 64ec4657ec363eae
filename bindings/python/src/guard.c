/* SPDX-License-Identifier: Apache-2.0 */
/* The `with` of locks of threads. Python runs a signal's handler at the beginning of each function,
 * so that an __exit__ in Python may end by Ctrl-C before it has released anything. Here no handler
 * runs between the grant and the body, and what a handler raises in __exit__ is raised once the
 * lock is released. The subclass has the list `_holds`, and the functions that are called here. */
#include "binding.h"

/* What is acquired is kept here, and not by _take_one, whose end a handler may see. */
static PyObject *guard_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *holds = PyObject_GetAttrString(self, "_holds");
    PyObject *hold = holds ? PyObject_CallMethod(self, "_take_one", NULL) : NULL;
    if (hold && PyList_Append(holds, hold) < 0) {
        Py_DECREF(hold);
        hold = NULL;
    }
    Py_XDECREF(holds);
    return hold;
}

/* Of what a handler has raised: it runs once, so that the second call is not disturbed. */
static PyObject *again(PyObject *object, const char *method)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *ret = PyObject_CallMethod(object, method, NULL);
    if (!ret)
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return ret;
}

static PyObject *end(PyObject *self, PyObject *error)
{
    PyObject *hold = PyObject_CallMethod(self, "_taken", NULL), *ended = NULL;
    if (hold)
        ended = PyObject_CallMethod(self, "_end", "OO", hold, error);
    else if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) /* that is: nothing is held */
        hold = again(self, "_taken");
    if (hold && !ended)
        Py_XDECREF(again(hold, "_give_back"));
    Py_XDECREF(hold);
    return ended;
}

static PyObject *guard_exit(PyObject *self, PyObject *args)
{
    PyObject *kind, *error, *trace;
    return PyArg_ParseTuple(args, "OOO", &kind, &error, &trace) ? end(self, error) : NULL;
}

static PyObject *guard_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    return end(self, Py_None);
}

int guard_add_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        { "__enter__", guard_enter, METH_NOARGS, NULL },
        { "__exit__", guard_exit, METH_VARARGS, NULL },
        { "_release", guard_release, METH_NOARGS,
          "Releases what acquire() has acquired. Raises Lost if it was lost before." },
        { NULL, NULL, 0, NULL },
    };
    PyType_Slot slots[] = {
        { Py_tp_methods, methods },
        { 0, NULL },
    };
    PyType_Spec spec = { "holdfast._holdfast.Guard", sizeof(PyObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots };
    PyObject *type = PyType_FromSpec(&spec);
    return type ? PyModule_AddObject(module, "Guard", type) : -1;
}
