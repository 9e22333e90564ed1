/* How a thread that slept gets the GIL back beside one that computes: it asks for it at once, where CPython's own way waits for the switch
   interval (5 ms) first. And how much of the time the computing threads keep.

   A thread goes to sleep by gil_leave() and comes back by gil_return(): a "prompt" thread while it holds the GIL after that. */
#include "cpython/gil.h"

#define GIL_LOOK_NS 50000      /* a request may have been used up by another thread: ask again */
#define GIL_HOLD_NS 5000000    /* what counts of one hold, at most: a prompt thread may have lost the GIL meanwhile */
#define GIL_DEBT_NS 1000000    /* above this the threads that compute come first */

/* How much longer prompt threads have had the GIL than is their due. Three quarters of each hold that began with a wait are added; the time in
   which none has the GIL pays it back. So threads that compute keep at least 3 parts of 7. */
typedef struct {
    int64_t owed;  /* ns, as of `since` */
    int64_t since; /* when the hold began, or ended */
    bool held, counts;
} GilDebt;

static inline int64_t
debt_at(const GilDebt *debt, int64_t now)
{
    int64_t owed = __atomic_load_n(&debt->owed, __ATOMIC_RELAXED), passed = now - __atomic_load_n(&debt->since, __ATOMIC_RELAXED);
    if (__atomic_load_n(&debt->held, __ATOMIC_RELAXED) || passed < 0)
        return owed;
    return owed > passed ? owed - passed : 0;
}

/* A hold ends. Written under the GIL alone; read by threads that wait for it, for which an old value will do. */
static inline void
debt_ends(GilDebt *debt, int64_t now)
{
    int64_t held = now - debt->since;
    if (!debt->held)
        return;
    if (debt->counts && held > 0)
        __atomic_store_n(&debt->owed, debt->owed + (held < GIL_HOLD_NS ? held : GIL_HOLD_NS) * 3 / 4, __ATOMIC_RELAXED);
    __atomic_store_n(&debt->since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&debt->held, false, __ATOMIC_RELAXED);
}

/* A hold begins. `waited`: the GIL was not free. */
static inline void
debt_begins(GilDebt *debt, int64_t now, bool waited)
{
    debt_ends(debt, now); /* that thread has lost the GIL while it ran */
    __atomic_store_n(&debt->owed, debt_at(debt, now), __ATOMIC_RELAXED);
    __atomic_store_n(&debt->since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&debt->held, true, __ATOMIC_RELAXED);
    debt->counts = waited;
}

#if GIL_KNOWN
static GilDebt gil_debt;
static PyThreadState *gil_prompt; /* the prompt thread that has the GIL, or had it last; only compared. NULL: it sleeps */
static bool gil_entered;          /* a prompt thread is about to take the GIL: one at a time, as a second one would wait where nothing asks again */
static uint64_t gil_asked;        /* how often a holder was asked; under the GIL's mutex */

/* Wait for the GIL and ask for it. `tstate` may be freed memory when the interpreter ends: it is compared alone. When this returns the GIL was just
   free and gil_entered is ours, or the interpreter ends. */
static __attribute__((noinline)) void
gil_ask(PyThreadState *tstate)
{
    bool asked = false, ends = false;
    int64_t began = monotonic_ns(), now = began;
    pthread_mutex_lock(&gil->mutex);
    while (!(ends = interpreter_ends()) && (gil_locked() || __atomic_exchange_n(&gil_entered, true, __ATOMIC_ACQUIRE))) {
        /* A prompt thread goes back to sleep by itself. Not always soon: after an interval it is asked as by CPython. */
        bool ask = now - began > (int64_t)gil->interval * 1000 ||
                   (gil_holder() != __atomic_load_n(&gil_prompt, __ATOMIC_RELAXED) && debt_at(&gil_debt, now) <= GIL_DEBT_NS);
        if (ask && gil_locked()) {
            gil_request();
            __atomic_store_n(&gil_asked, gil_asked + 1, __ATOMIC_RELAXED);
            asked = true;
        }
        gil_wait(now - began < GIL_LOOK_NS * 8 ? GIL_LOOK_NS : (now - began) / 8);
        now = monotonic_ns();
    }
    if (ends) {
        if (gil_locked()) {
            if (asked)
                gil_withdraw();
        } else
            gil_touch(tstate);
    }
    pthread_mutex_unlock(&gil->mutex);
}
#endif

/* Give the GIL up to sleep. Returns this thread's state, for gil_return(). */
static PyThreadState *
gil_leave(void)
{
#if GIL_KNOWN
    if (gil_prompt == PyThreadState_Get()) {
        debt_ends(&gil_debt, monotonic_ns());
        __atomic_store_n(&gil_prompt, NULL, __ATOMIC_RELAXED);
    }
#endif
    return PyEval_SaveThread();
}

/* Take the GIL after a sleep. Does not return when the interpreter has ended meanwhile. Keeps errno. */
static void
gil_return(PyThreadState *tstate)
{
#if GIL_KNOWN
    int error = errno;
    bool waited = gil != NULL && !interpreter_ends() && (gil_locked() || __atomic_exchange_n(&gil_entered, true, __ATOMIC_ACQUIRE));
    if (waited)
        gil_ask(tstate);
    PyEval_RestoreThread(tstate);
    __atomic_store_n(&gil_entered, false, __ATOMIC_RELEASE);
    debt_begins(&gil_debt, monotonic_ns(), waited);
    __atomic_store_n(&gil_prompt, tstate, __ATOMIC_RELAXED);
    errno = error;
#else
    PyEval_RestoreThread(tstate);
#endif
}

/* A forked child: the threads that these are about are not there. CPython makes the GIL's mutex anew. */
static void
gil_forked(void)
{
#if GIL_KNOWN
    memset(&gil_debt, 0, sizeof gil_debt);
    gil_prompt = NULL;
    gil_entered = false;
#endif
}

/* Once a process, with the GIL. -1 with an exception set. */
static int
gil_prepare(void)
{
    static bool prepared;
    if (!prepared && pthread_atfork(NULL, NULL, gil_forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
#if GIL_KNOWN
    if (!prepared)
        gil_find(PyThreadState_Get());
#endif
    prepared = true;
    return 0;
}

/* ---- for tests ---- */

static PyObject *
core_gil_requests(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if GIL_KNOWN
    if (gil != NULL)
        return PyLong_FromUnsignedLongLong(__atomic_load_n(&gil_asked, __ATOMIC_RELAXED));
#endif
    Py_RETURN_NONE;
}

static PyObject *
core_gil_debt(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *holds;
    GilDebt debt = {0};
    long long begins, ends, now;
    int waited;
    if (!PyArg_ParseTuple(args, "O!L:gil_debt", &PyTuple_Type, &holds, &now))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(holds); i++) {
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(holds, i), "LLp:gil_debt", &begins, &ends, &waited))
            return NULL;
        debt_begins(&debt, begins, waited);
        if (ends >= 0)
            debt_ends(&debt, ends);
    }
    return PyLong_FromLongLong(debt_at(&debt, now));
}

PyDoc_STRVAR(gil_requests_doc, "gil_requests()\n--\n\n"
"For tests: how often threads that woke from a sleep have asked the holder of the GIL to drop it. None where roamlet cannot ask.");
PyDoc_STRVAR(gil_debt_doc, "gil_debt(holds, now, /)\n--\n\n"
"For tests: how many ns of the GIL such threads owe to others at `now`, after these holds of it: (begin, end, waited) each, in ns. An end of -1\n"
"is not known: the next hold ends it.");
