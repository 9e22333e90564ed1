/* The one door to what differs between CPython versions and to interpreter-private fields. One header a version;
   an unknown version gets none, and the native backends refuse to be built for it. */
#ifndef WEFT_CPYTHON_H
#define WEFT_CPYTHON_H

#if PY_VERSION_HEX < 0x030B0000
#error "weft needs CPython 3.11 or later"
#endif

#ifndef WEFT_SWITCH_GREENLET
#if PY_VERSION_HEX < 0x030C0000
#include "v311.h"
#elif PY_VERSION_HEX < 0x030D0000
#include "v312.h"
#elif PY_VERSION_HEX < 0x030E0000
#include "v313.h"
#else
#error "this version of CPython is not known to the native backends: greenlet serves there"
#endif
#endif

/* The exception being raised, as one normalised object: a new reference, or NULL when none is set. */
static inline PyObject *
error_take(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* Raise the exception object `error`. Steals it. */
static inline void
error_raise(PyObject *error)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(error);
#else
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
#endif
}

#endif
