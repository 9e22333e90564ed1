/* What the files of roamlet.sync._native share: the types, and how a caller's time-out becomes a deadline. The waiting
   itself is the core's, through the table in core/c/api.h. All state is guarded by the GIL. */
#ifndef ROAMLET_SYNC_H
#define ROAMLET_SYNC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

static const RoamletAPI *api;

/* ROAMLET_WAIT_ flags of every wait here: set by wait_for_signals(). */
static int wait_flags;

/* Deprecated names warn once for the caller's line. 0, or -1 when the warning is an error. */
static int
deprecated(const char *old, const char *new)
{
    return PyErr_WarnFormat(PyExc_DeprecationWarning, 1, "%s() is deprecated, use %s() instead", old, new);
}

/* The module and name of an object's class for its repr, as threading says it; ours as sync.Event. A new reference. */
static PyObject *
class_name(PyObject *object)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    PyObject *name = module != NULL ? PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__qualname__") : NULL, *both = NULL;
    if (name != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "roamlet.sync") == 0)
        both = PyUnicode_FromFormat("sync.%U", name);
    else if (name != NULL)
        both = PyUnicode_FromFormat("%S.%S", module, name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return both;
}

/* ---- time-outs ---- */

#define LONGEST_SECONDS 9223372036.0 /* threading.TIMEOUT_MAX, on every platform that roamlet runs on */

/* Seconds as a number: 0, or -1 with TypeError, ValueError (NaN) or OverflowError (longer than threading.TIMEOUT_MAX) set.
   May run Python code (__float__). */
static int
seconds_of(PyObject *timeout, const char *what, double *seconds)
{
    *seconds = PyFloat_AsDouble(timeout);
    if (*seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s: timeout is a number of seconds, not %.100s", what, Py_TYPE(timeout)->tp_name);
        return -1;
    }
    if (*seconds != *seconds) {
        PyErr_Format(PyExc_ValueError, "%s: timeout is a number of seconds, not NaN", what);
        return -1;
    }
    if (*seconds > LONGEST_SECONDS) {
        PyErr_Format(PyExc_OverflowError, "%s: timeout value is too large: at most threading.TIMEOUT_MAX seconds, which are 292 years, can "
                                          "be waited for; leave it out to wait for ever", what);
        return -1;
    }
    return 0;
}

/* So many seconds from now, as a deadline; those that have passed are now. 0, or -1 with an exception set. */
static int
deadline_after(double seconds, int64_t *deadline)
{
    int64_t now = api->now(), left;
    if (now < 0)
        return -1;
    left = seconds <= 0.0 ? 0 : (int64_t)(seconds * 1e9);
    *deadline = left > INT64_MAX / 2 ? now + INT64_MAX / 2 : now + left;
    return 0;
}

/* The two arguments of acquire(), each NULL when it was not given, by the rules of a lock (`unlimited` is -1 then: the time-out that means
   none) or of a semaphore (None). 1 with a deadline, 0 for a call that must not wait, -1 with an exception set. */
static int
may_wait(PyObject *blocking, PyObject *timeout, bool is_lock, const char *what, int64_t *deadline)
{
    int waits = blocking != NULL ? PyObject_IsTrue(blocking) : 1;
    double seconds;
    *deadline = ROAMLET_NEVER;
    if (waits < 0 || timeout == NULL || (!is_lock && timeout == Py_None))
        return waits;
    if (seconds_of(timeout, what, &seconds) < 0)
        return -1;
    if (!waits) {
        if (is_lock && seconds == -1.0)
            return 0;
        PyErr_Format(PyExc_ValueError, "%s: can't specify a timeout for a non-blocking call: leave out blocking=False, or the timeout", what);
        return -1;
    }
    if (is_lock && seconds == -1.0)
        return 1;
    if (is_lock && seconds < 0.0) {
        PyErr_Format(PyExc_ValueError, "%s: timeout value must be a non-negative number, or -1 for no limit; it is %R", what, timeout);
        return -1;
    }
    if (seconds <= 0.0)
        return 0;
    return deadline_after(seconds, deadline) < 0 ? -1 : 1;
}

/* The time-out of a wait() as a deadline: None is for ever, and what has passed already is now. 0, or -1. */
static int
wait_deadline(PyObject *timeout, const char *what, int64_t *deadline)
{
    double seconds;
    *deadline = ROAMLET_NEVER;
    if (timeout == Py_None)
        return 0;
    return seconds_of(timeout, what, &seconds) < 0 ? -1 : deadline_after(seconds, deadline);
}

/* A queue's time-out as a deadline: 0, or -1 with an exception set, ValueError for a negative one. */
static int
queue_deadline(PyObject *timeout, const char *what, int64_t *deadline)
{
    double seconds;
    *deadline = ROAMLET_NEVER;
    if (timeout == Py_None)
        return 0;
    if (seconds_of(timeout, what, &seconds) < 0)
        return -1;
    if (seconds < 0.0) {
        PyErr_Format(PyExc_ValueError, "%s: 'timeout' must be a non-negative number of seconds, or None for no limit; it is %R", what, timeout);
        return -1;
    }
    return deadline_after(seconds, deadline);
}

/* ---- waiting ---- */

#define LOOK_AGAIN 3 /* beside ROAMLET_WOKEN and its like: no other code woke it */
#define HANDLER_NS 1000000

/* api->wait(), also in a signal handler that interrupts its thread's own wait, where no tasklet can be suspended. There it looks every
   millisecond and is in no queue, which is enough for such a rare case: returns LOOK_AGAIN. Switches, or releases the GIL. */
static int
wait_in(RoamletQueue *queue, PyObject *on, int64_t deadline, int flags, PyObject *const *operands)
{
    const struct timespec pause = {0, HANDLER_NS};
    int64_t now = 0;
    int levels;
    if (likely(!api->interrupts_wait()))
        return api->wait(queue, on, deadline, flags, operands);
    if (deadline >= 0 && (now = api->now()) < 0)
        return ROAMLET_RAISED;
    if (deadline >= 0 && now >= deadline)
        return ROAMLET_TIMED_OUT;
    levels = api->atomic_leave();
    Py_BEGIN_ALLOW_THREADS
    nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS
    api->atomic_return(levels);
    return PyErr_CheckSignals() < 0 ? ROAMLET_RAISED : LOOK_AGAIN;
}

/* ---- types ---- */

typedef struct {
    PyObject_HEAD
    RoamletQueue queue;
    PyObject *weakrefs;
    bool locked, fair;
} Lock;

typedef struct {
    PyObject_HEAD
    RoamletQueue queue;
    PyObject *owner; /* owned: the tasklet that holds it; NULL: free */
    Py_ssize_t count;
    PyObject *weakrefs;
} RLock;

/* One call of Condition.wait: what notify() marks and wakes. Of its own, so that a notification belongs to those who waited then. */
typedef struct Slot {
    struct Slot *next, *prev;
    RoamletQueue queue;      /* the one tasklet that waits */
    uint64_t came, notified; /* on the condition's clock; notified is 0 until it is */
    bool waits;           /* it has reached the wait: when `queue` is empty then, it has been woken by something else */
} Slot;

enum { OURS_LOCK, OURS_RLOCK, FOREIGN };

typedef struct {
    PyObject_HEAD
    PyObject *lock;
    int kind; /* of `lock`; FOREIGN: anything with acquire() and release() */
    Slot *first, *last;
    uint64_t clock;
    PyObject *dict, *weakrefs;
} Condition;

typedef struct {
    PyObject_HEAD
    RoamletQueue queue;
    Py_ssize_t value, limit; /* limit: the initial value of a BoundedSemaphore */
    PyObject *dict, *weakrefs;
} Semaphore;

typedef struct {
    PyObject_HEAD
    RoamletQueue queue;
    bool is_set;
    PyObject *dict, *weakrefs;
} Event;

typedef struct {
    PyObject_HEAD
    PyObject **items; /* a ring */
    size_t capacity, first, count;
    RoamletQueue queue; /* those who wait for an item */
    char idle;
    PyObject *weakrefs;
} SimpleQueue;

static PyTypeObject Lock_Type, RLock_Type, SimpleQueue_Type;
/* Written in Python in the standard library, so that tests put mocks in the places of their methods: heap types, whose attributes can be set. */
static PyTypeObject *Condition_Type, *Semaphore_Type, *BoundedSemaphore_Type, *Event_Type, *Queue_Type, *LifoQueue_Type, *PriorityQueue_Type;

/* Where a heap type has its objects' dictionary and weak references. */
#define OFFSETS(type)                                                                                                     \
    {"__dictoffset__", T_PYSSIZET, offsetof(type, dict), READONLY, NULL},                                                 \
    {"__weaklistoffset__", T_PYSSIZET, offsetof(type, weakrefs), READONLY, NULL}

/* The last step of a heap type's dealloc: each object has a reference to its type. */
static inline void
object_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Show the collector the waiting tasklets. */
static int
queue_visit(RoamletQueue *queue, visitproc visit, void *arg)
{
    return queue->head != NULL ? api->traverse(queue, visit, arg) : 0;
}

/* Wake the first of the queue, if any tasklet waits. Never switches, runs no Python code. */
static inline void
wake_one(RoamletQueue *queue)
{
    if (queue->head != NULL)
        api->wake_one(queue);
}

#endif
