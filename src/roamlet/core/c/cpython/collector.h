/* What the cyclic collector is doing, and its marks in the head of an object. */
#ifndef ROAMLET_CPYTHON_COLLECTOR_H
#define ROAMLET_CPYTHON_COLLECTOR_H

/* Whether the interpreter is being taken down. */
static inline bool
python_finalizes(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

#if ROAMLET_VERSION_KNOWN
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#undef _PyGC_FINALIZED /* defined for those who do not include pycore_gc.h */
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_gc.h"
#include "internal/pycore_interp_structs.h"
#else
#include "internal/pycore_interp.h"
#endif
#undef atomic_init /* of <stdatomic.h>, which comes along */

/* Whether a collection is under way, in this thread or, where its finalizers give the GIL up, in another. `noted`: one has
   called gc.callbacks at its beginning and not yet at its end. */
static inline bool
collector_runs(PyThreadState *tstate, bool noted)
{
    (void)noted; /* the last collections of a process do not call them */
    return tstate->interp->gc.collecting != 0;
}

/* Keep other collections from running inside the one that begins, as CPython does itself on all versions but 3.12. There an
   automatic collection that was due runs within the next Python code, be it a finalizer, damages the list of what is
   unreachable, and marks the outer one as over. What is due is dropped: the one that begins does its work. The last collections
   of a process do not call gc.callbacks, so none is due any more while the interpreter is taken down. */
static inline void
collector_alone(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    _Py_atomic_store_relaxed(&tstate->interp->ceval.gc_scheduled, 0);
    tstate->interp->gc.collecting = 1; /* a callback that was called before us may have had one run */
    if (python_finalizes())
        tstate->interp->gc.enabled = 0;
#else
    (void)tstate;
#endif
}

/* Keep the collection under way from finalizing `object`. Whether it is garbage that would have been finalized. */
static inline bool
garbage_spare(PyObject *object)
{
    PyGC_Head *head = (PyGC_Head *)object - 1;
    if (!PyObject_IS_GC(object) ||
        (head->_gc_prev & (_PyGC_PREV_MASK_COLLECTING | _PyGC_PREV_MASK_FINALIZED)) != _PyGC_PREV_MASK_COLLECTING)
        return false;
    head->_gc_prev |= _PyGC_PREV_MASK_FINALIZED;
    return true;
}

/* Undo garbage_spare. */
static inline void
garbage_spare_no_longer(PyObject *object)
{
    PyGC_Head *head = (PyGC_Head *)object - 1;
    head->_gc_prev &= ~(uintptr_t)_PyGC_PREV_MASK_FINALIZED;
}

#else

/* What the collector does is not known but for what it tells gc.callbacks; nothing can be spared. */
static inline bool
collector_runs(PyThreadState *tstate, bool noted)
{
    (void)tstate;
    return noted;
}

static inline void
collector_alone(PyThreadState *tstate)
{
    (void)tstate;
}

static inline bool
garbage_spare(PyObject *object)
{
    (void)object;
    return false;
}

static inline void
garbage_spare_no_longer(PyObject *object)
{
    (void)object;
}

#endif

#endif
