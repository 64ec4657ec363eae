/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module: its failures, forked children, and what it consists of. */
#include "binding.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Makes an exception of (code, text, native); the package sets it. */
static PyObject *exception_maker;
static atomic_uint generation = 1;

void failure_keep(struct failure *ret, int code)
{
    ret->code = code;
    if (code == HF_OK)
        return;
    const hf_error *error = hf_last_error();
    ret->native = error->native;
    memcpy(ret->text, error->text, sizeof(ret->text));
}

PyObject *failure_raise(const struct failure *failure)
{
    PyObject *text =
        PyUnicode_DecodeUTF8(failure->text, (Py_ssize_t)strlen(failure->text), "replace");
    if (!text || !exception_maker) {
        Py_XDECREF(text);
        return text ? PyErr_Format(PyExc_RuntimeError, "%s", failure->text) : NULL;
    }
    PyObject *exception =
        PyObject_CallFunction(exception_maker, "iNi", failure->code, text, failure->native);
    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *failure_raise_code(int code, const char *text)
{
    struct failure failure = { .code = code };
    strncpy(failure.text, text ? text : hf_code_text(code), sizeof(failure.text) - 1);
    return failure_raise(&failure);
}

unsigned process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    notes_init();
}

static PyObject *set_exception_maker(PyObject *module, PyObject *maker)
{
    static int64_t only = -1; /* the interpreter whose exceptions the failures are made into */
    (void)module;
    int64_t present = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (only >= 0 && present != only) {
        PyErr_SetString(PyExc_ImportError,
                        "holdfast serves one interpreter of a process, and another one has it");
        return NULL;
    }
    only = present;
    PyObject *old = exception_maker;
    Py_INCREF(maker);
    exception_maker = maker;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(hf_version());
}

static PyObject *engines(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *state = PyEval_SaveThread(); /* it looks for modules in a folder */
    char *text = hf_engines();
    PyEval_RestoreThread(state);
    if (!text)
        return PyErr_NoMemory();
    PyObject *ret = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return ret;
}

static PyObject *code_name(PyObject *module, PyObject *args)
{
    (void)module;
    int code;
    if (!PyArg_ParseTuple(args, "i", &code))
        return NULL;
    return PyUnicode_FromString(hf_code_name(code));
}

static PyMethodDef methods[] = {
    { "set_exception_maker", set_exception_maker, METH_O, NULL },
    { "version", version, METH_NOARGS, NULL },
    { "engines", engines, METH_NOARGS, NULL },
    { "code_name", code_name, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast._holdfast",
    .m_size = -1, /* one for the process: its types and the exception maker are static */
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__holdfast(void);

PyMODINIT_FUNC PyInit__holdfast(void)
{
    notes_init();
    if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0)
        return PyErr_NoMemory();
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (client_add_type(module) < 0 || hold_add_type(module) < 0 || queue_add_type(module) < 0 ||
        answer_add_type(module) < 0 || guard_add_type(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
