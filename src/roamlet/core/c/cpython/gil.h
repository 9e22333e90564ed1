/* The fields of the GIL: who holds it, and how its holder is asked to drop it. All that gil.c does with them is here, under the GIL's own mutex and
   in the order of CPython's take_gil() and drop_gil(), so that a thread of roamlet looks to them like one more thread that waits there.

   Known on Linux, for the main interpreter. Elsewhere GIL_KNOWN is 0. A later patch release may have moved a field: gil_find() looks
   whether the GIL is where this was built to find it. */
#ifndef ROAMLET_GIL_H
#define ROAMLET_GIL_H

#if ROAMLET_VERSION_KNOWN && defined(__linux__)
#define GIL_KNOWN 1
#else
#define GIL_KNOWN 0
#endif

#if PY_VERSION_HEX >= 0x030D0000
#define interpreter_ends() (Py_IsFinalizing() != 0)
#else
#define interpreter_ends() (_Py_IsFinalizing() != 0)
#endif

#if GIL_KNOWN
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <pthread.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_ceval.h"
#include "internal/pycore_gil.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#pragma GCC diagnostic pop

typedef struct _gil_runtime_state Gil;

static Gil *gil; /* the main interpreter's, which lasts as long as the process; NULL: not known */
#if PY_VERSION_HEX < 0x030D0000
static struct _ceval_state *gil_requests; /* of the main interpreter: where the holder is asked */
#endif

static inline bool
gil_locked(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _Py_atomic_load_int_relaxed(&gil->locked) > 0;
#else
    return _Py_atomic_load_relaxed(&gil->locked) > 0;
#endif
}

/* The thread that holds the GIL, or held it last. It lives while the GIL is locked and its mutex is held. */
static inline PyThreadState *
gil_holder(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyThreadState *)_Py_atomic_load_ptr_relaxed(&gil->last_holder);
#else
    return (PyThreadState *)_Py_atomic_load_relaxed(&gil->last_holder);
#endif
}

/* Ask the holder to drop the GIL, as take_gil() does when an interval has passed. With the mutex, while the GIL is locked. */
static inline void
gil_request(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    _Py_set_eval_breaker_bit(gil_holder(), _PY_GIL_DROP_REQUEST_BIT);
#else
    _Py_atomic_store_relaxed(&gil_requests->gil_drop_request, 1);
    _Py_atomic_store_relaxed(&gil_requests->eval_breaker, 1);
#endif
}

/* Take the request back. Another thread that waits asks again. With the mutex, while the GIL is locked. */
static inline void
gil_withdraw(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    _Py_unset_eval_breaker_bit(gil_holder(), _PY_GIL_DROP_REQUEST_BIT);
#else
    _Py_atomic_store_relaxed(&gil_requests->gil_drop_request, 0); /* the eval breaker tells the holder to look, which is no more than that */
#endif
}

/* Leave marks as if this thread had taken the GIL and dropped it. One that has dropped it because it was asked waits until another one has had it;
   a thread that asked and then may not take it, because the interpreter ends, would let that wait for ever. With the mutex, while the GIL is free. */
static inline void
gil_touch(PyThreadState *tstate)
{
#ifdef FORCE_SWITCHING
    pthread_mutex_lock(&gil->switch_mutex);
#endif
#if PY_VERSION_HEX >= 0x030D0000
    _Py_atomic_store_ptr_relaxed(&gil->last_holder, tstate);
#else
    _Py_atomic_store_relaxed(&gil->last_holder, (uintptr_t)tstate);
#endif
    gil->switch_number++;
#ifdef FORCE_SWITCHING
    pthread_cond_signal(&gil->switch_cond);
    pthread_mutex_unlock(&gil->switch_mutex);
#endif
    pthread_cond_signal(&gil->cond); /* the one that told us may have been for another thread */
}

/* Wait until the GIL is dropped, at most for `ns`. With the mutex. */
static inline void
gil_wait(int64_t ns)
{
    struct timespec until;
#ifdef HAVE_PTHREAD_CONDATTR_SETCLOCK
    clock_gettime(CLOCK_MONOTONIC, &until); /* the clock of CPython's condition variables */
#else
    clock_gettime(CLOCK_REALTIME, &until);
#endif
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&gil->cond, &gil->mutex, &until);
}

/* Find the GIL, which this thread holds; leave `gil` NULL where it is not as it should be. */
static inline void
gil_find(PyThreadState *tstate)
{
    PyInterpreterState *interpreter = PyInterpreterState_Main();
#if PY_VERSION_HEX >= 0x030C0000
    gil = interpreter->ceval.gil;
#else
    gil = &_PyRuntime.ceval.gil;
#endif
#if PY_VERSION_HEX < 0x030D0000
    gil_requests = &interpreter->ceval;
#endif
    if (gil != NULL && (!gil_locked() || gil_holder() != tstate || gil->interval == 0 || gil->interval > 1000000000))
        gil = NULL;
}

#endif
#endif
