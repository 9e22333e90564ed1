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

/* Take the request back. A thread that waits beside us asks again. With the mutex, while the GIL is locked. */
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

#ifdef HAVE_PTHREAD_CONDATTR_SETCLOCK
#define GIL_CLOCK CLOCK_MONOTONIC /* the clock of CPython's condition variables */
#else
#define GIL_CLOCK CLOCK_REALTIME
#endif

/* A condition variable beside the GIL's own. */
static inline bool
gil_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool made = pthread_condattr_setclock(&attributes, GIL_CLOCK) == 0 && pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

#define GIL_LONGEST_US 1000000000ul /* a program may set the switch interval to thousands of years, which are more ns than a number holds */

/* The switch interval in ns. It may change at any time. */
static inline int64_t
gil_interval_ns(void)
{
    unsigned long us = __atomic_load_n(&gil->interval, __ATOMIC_RELAXED);
    return (int64_t)(us < GIL_LONGEST_US ? us : GIL_LONGEST_US) * 1000;
}

static uint64_t gil_short_waits; /* how often a thread waited with a limit below the switch interval; with the mutex */

/* Wait for a condition, the GIL's own when it is dropped, at most for `ns`. Whether it came, or seemed to. With the mutex. */
static inline bool
gil_wait(pthread_cond_t *condition, int64_t ns)
{
    struct timespec until;
    if (ns < gil_interval_ns())
        __atomic_store_n(&gil_short_waits, gil_short_waits + 1, __ATOMIC_RELAXED);
    clock_gettime(GIL_CLOCK, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return pthread_cond_timedwait(condition, &gil->mutex, &until) == 0;
}

static inline void
spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ __volatile__("pause");
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#define GIL_HURRY_US 499 /* no value that a program is likely to set by itself: see gil_calm() */

static unsigned long gil_interval; /* the switch interval, while the GIL has a shorter one for a thread that is about to take it; 0 else */
static unsigned long gil_chosen;   /* what gil_interval was last: the program's */

/* For one thread at a time, which is about to take the free GIL by PyEval_RestoreThread(): between our mutex and CPython's a thread that computes
   may take it first, and then this thread asks after half a millisecond. With the mutex. The holder of the GIL, if there is one by now, may set the
   interval at this moment: what it sets stays. It may also read ours by sys.getswitchinterval(), and set that again later: what it meant then is the
   one that it has chosen before. */
static inline void
gil_hurry(void)
{
    unsigned long interval = __atomic_load_n(&gil->interval, __ATOMIC_RELAXED);
    if (interval > GIL_HURRY_US) {
        if (__atomic_compare_exchange_n(&gil->interval, &interval, GIL_HURRY_US, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            gil_interval = gil_chosen = interval;
    } else if (interval == GIL_HURRY_US)
        gil_interval = gil_chosen; /* 0: the program came with that one */
}

/* It has the GIL, as who sets the interval has. One that was set meanwhile stays. */
static inline void
gil_calm(void)
{
    if (gil_interval != 0 && __atomic_load_n(&gil->interval, __ATOMIC_RELAXED) == GIL_HURRY_US)
        __atomic_store_n(&gil->interval, gil_interval, __ATOMIC_RELAXED);
    gil_interval = 0;
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
