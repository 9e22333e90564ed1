/* What a thread state has of the lazy imports (PEP 810) that its thread resolves at this moment: a set of placeholders. One that is
   met again while it is in there is taken for a circular import. */
#ifndef ROAMLET_LAZY_IMPORTS_H
#define ROAMLET_LAZY_IMPORTS_H

#ifdef LAZY_IMPORTS_FIELD
#define LAZY_IMPORTS_KNOWN 1

static size_t lazy_imports_at; /* where the field is in a thread state; 0: it is left alone */

/* The set's place, where it is known. */
#define LAZY_IMPORTS(tstate) (*(PyObject **)((char *)(tstate) + lazy_imports_at))

/* Find the field, once a process. It is after the public part of the thread state: a later patch release may have it elsewhere, and
   CPython with a JIT compiler has one more pointer before it, which its headers do not tell. Sets no exception. */
static inline void
lazy_imports_find(void)
{
    PyObject *jit = PySys_GetObject("_jit"), *compiles; /* borrowed */
    if (Py_Version >> 8 != PY_VERSION_HEX >> 8 || jit == NULL)
        return;
    compiles = PyObject_CallMethod(jit, "is_available", NULL);
    if (compiles == Py_True || compiles == Py_False)
        lazy_imports_at = offsetof(_PyThreadStateImpl, LAZY_IMPORTS_FIELD) + (compiles == Py_True ? sizeof(void *) : 0);
    if (compiles == NULL)
        PyErr_Clear();
    Py_XDECREF(compiles);
}

/* The set: borrowed; NULL: this thread has none. */
static inline PyObject *
tstate_lazy_imports(PyThreadState *tstate)
{
    return lazy_imports_at != 0 ? LAZY_IMPORTS(tstate) : NULL;
}

#else
#define LAZY_IMPORTS_KNOWN 0

static inline void
lazy_imports_find(void)
{
}

static inline PyObject *
tstate_lazy_imports(PyThreadState *tstate)
{
    (void)tstate;
    return NULL;
}

#endif
#endif
