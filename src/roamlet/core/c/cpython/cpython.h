/* The one door to what differs between CPython versions and to interpreter-private fields. One header a version; an
   unknown version gets none and ROAMLET_VERSION_KNOWN is 0: the native backend refuses to be built for it, greenlet serves.

   Free-threaded builds are refused, the GIL switched on or not. A thread holds locks of objects while it runs Python code for
   them, and from 3.14 on references without a count; it finds both by pointers to its C stack, where another tasklet's data
   stands after a switch. Swapping them too would not do: the next tasklet would wait for a lock of its own thread, and the
   collector would miss the references. What would do is in docs/design/free-threading.md, with a prototype. */
#ifndef ROAMLET_CPYTHON_H
#define ROAMLET_CPYTHON_H

#if PY_VERSION_HEX < 0x030B0000
#error "roamlet needs CPython 3.11 or later"
#endif

#ifdef Py_GIL_DISABLED
#error "roamlet does not run on free-threaded builds of CPython: use the usual build of the same version"
#endif

#define ROAMLET_VERSION_KNOWN 1
#if PY_VERSION_HEX >= 0x03100000
#undef ROAMLET_VERSION_KNOWN
#define ROAMLET_VERSION_KNOWN 0
#elif PY_VERSION_HEX >= 0x030F0000
#include "v315.h"
#elif PY_VERSION_HEX >= 0x030E0000
#include "v314.h"
#elif PY_VERSION_HEX >= 0x030D0000
#include "v313.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "v312.h"
#else
#include "v311.h"
#endif

#if !ROAMLET_VERSION_KNOWN && !defined(ROAMLET_SWITCH_GREENLET) && !defined(ROAMLET_SNAPSHOT)
#error "this version of CPython is not known to the native backend: greenlet serves there"
#endif

#ifndef FRAME_IS_END
#define FRAME_IS_END(frame) false /* whether it only ends a chain */
#endif
#ifndef FINISHED_STATE
#define FINISHED_STATE FRAME_COMPLETED /* of a generator: from this one on it has no frame */
#endif

#include "collector.h"
#include "running_loop.h"
#include "lazy_imports.h"
#include "events.h"
#include "watch.h"
#include "snapshot.h"
#include "layout.h"

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

/* Raise again what error_take() gave (stolen); NULL changes nothing. */
static inline void
error_restore(PyObject *raised)
{
    if (raised != NULL)
        error_raise(raised);
}

#endif
