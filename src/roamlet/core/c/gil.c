/* How a thread that slept gets the GIL back beside one that computes: it asks for it at once, where CPython's own way waits for the switch
   interval (5 ms) first. And how much of the time the computing threads keep.

   A thread goes to sleep by gil_leave() and comes back by gil_return(): a "prompt" thread while it holds the GIL after that. */
#include "cpython/gil.h"

#define GIL_LOOK_NS 50000      /* a request may have been used up by another thread: ask again */
#define GIL_PATIENCE_NS 100000 /* how long a thread waits to be told that the holder goes to sleep, before it looks */
#define GIL_SPIN 1000          /* looks, some 50 us at most, for the GIL of a holder that is just going to sleep */
#define GIL_DEFER_NS 200000    /* how long a free GIL is left to a thread that computes and is owed time */
#define GIL_HOLD_NS 5000000    /* what counts of one hold, at most: a prompt thread may have lost the GIL meanwhile */
#define GIL_DEBT_MOST_NS 5000000
#define GIL_AWAKE_NS 20000000  /* a thread that has not slept for so long computes */
#define GIL_AWAKE 64           /* places for threads that are awake; a power of 2 */
#define GIL_DEBT_NS 1000000    /* above this the threads that compute come first, */
#define GIL_PAID_NS 400000     /* until no more than this is owed */

/* How much longer prompt threads have had the GIL than is their due. Each hold is added; the time in which none has the GIL pays it back. So threads
   that compute keep half of the time, less what the switches take. Where none computes no thread is asked, and the debt stays at its bound. */
typedef struct {
    int64_t owed;  /* ns, as of `since` */
    int64_t since; /* when the hold began, or ended */
    bool held;
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
    if (held > 0) {
        int64_t owed = debt->owed + (held < GIL_HOLD_NS ? held : GIL_HOLD_NS);
        __atomic_store_n(&debt->owed, owed < GIL_DEBT_MOST_NS ? owed : GIL_DEBT_MOST_NS, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&debt->since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&debt->held, false, __ATOMIC_RELAXED);
}

static inline void
debt_begins(GilDebt *debt, int64_t now)
{
    debt_ends(debt, now); /* that thread has lost the GIL while it ran */
    __atomic_store_n(&debt->owed, debt_at(debt, now), __ATOMIC_RELAXED);
    __atomic_store_n(&debt->since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&debt->held, true, __ATOMIC_RELAXED);
}

#if GIL_KNOWN
static GilDebt gil_debt;
static PyThreadState *gil_prompt; /* whose hold the debt counts now; only compared. NULL: none */
static struct {
    PyThreadState *tstate; /* only compared */
    int64_t since;         /* when it went for the GIL */
} gil_awake[GIL_AWAKE];    /* by a hash of the address; two threads of one place share it, and one of them is asked for nothing */
static bool gil_entered;          /* a prompt thread is about to take the GIL: one at a time, as a second one would wait where nothing asks again */
static uint64_t gil_asked;        /* how often a holder was asked; under the GIL's mutex */
static bool gil_paying;           /* the debt was too high and is not paid yet; under the GIL's mutex, as the next three */
static int64_t gil_computed;      /* when a thread that computes was last seen to have the GIL; 0: not lately */
static int gil_patient;           /* threads that wait for a holder which will go to sleep; read without the mutex */
static pthread_cond_t gil_leaving; /* it is about to */

static inline size_t
gil_place(PyThreadState *tstate)
{
    return ((uintptr_t)tstate >> 4) * 0x9E3779B97F4A7C15u >> 58 & (GIL_AWAKE - 1);
}

/* Whether this thread has slept lately and not since: it will go back to sleep. One that has not for some time computes. */
static inline bool
gil_is_awake(PyThreadState *tstate, int64_t now)
{
    size_t place = gil_place(tstate);
    return __atomic_load_n(&gil_awake[place].tstate, __ATOMIC_ACQUIRE) == tstate &&
           now - __atomic_load_n(&gil_awake[place].since, __ATOMIC_RELAXED) < GIL_AWAKE_NS;
}

/* `now`: 0 when it goes to sleep. */
static inline void
gil_set_awake(PyThreadState *tstate, int64_t now)
{
    size_t place = gil_place(tstate);
    __atomic_store_n(&gil_awake[place].since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&gil_awake[place].tstate, now != 0 ? tstate : NULL, __ATOMIC_RELEASE);
}

/* Whether the threads that compute come first now. With the mutex. */
static inline bool
gil_pays(int64_t now)
{
    int64_t owed = debt_at(&gil_debt, now);
    gil_paying = owed > (gil_paying ? GIL_PAID_NS : GIL_DEBT_NS);
    return gil_paying;
}

/* Whether a thread that computes wants the GIL, as far as can be told. With the mutex. */
static inline bool
gil_computes(int64_t now)
{
    return gil_computed != 0 && now - gil_computed < GIL_AWAKE_NS;
}

/* Wait until a prompt thread goes to sleep, beside one that computes. It is told of before it drops the GIL, so that this thread runs by then: one that the kernel wakes
   up when the computing thread has got a core before it waits for the rest of that thread's time slice, some milliseconds. With the mutex. */
static inline void
gil_be_patient(void)
{
    __atomic_fetch_add(&gil_patient, 1, __ATOMIC_SEQ_CST);
    bool told = gil_wait(&gil_leaving, GIL_PATIENCE_NS);
    __atomic_fetch_sub(&gil_patient, 1, __ATOMIC_SEQ_CST);
    if (told && gil_locked()) {
        pthread_mutex_unlock(&gil->mutex);
        for (int i = 0; i < GIL_SPIN && gil_locked(); i++)
            spin_pause();
        pthread_mutex_lock(&gil->mutex);
    }
}

/* Wait for the GIL and ask for it. The GIL's mutex is taken even where the GIL is free: a thread that computes and has just been told of a
   free GIL is then still to wake up when PyEval_RestoreThread() takes it. `tstate` may be freed memory when the interpreter ends: it is compared
   alone. When this returns true the GIL was just free and gil_entered is ours; when false, the interpreter ends. */
static __attribute__((noinline)) bool
gil_ask(PyThreadState *tstate)
{
    bool asked = false, ends = false;
    int64_t began = monotonic_ns(), now = began, switched = began, deferred = 0;
    unsigned long switches;
    pthread_mutex_lock(&gil->mutex);
    switches = gil->switch_number;
    while (!(ends = interpreter_ends())) {
        int64_t pause = now - began < GIL_LOOK_NS * 8 ? GIL_LOOK_NS : (now - began) / 8;
        if (gil->switch_number != switches) {
            switches = gil->switch_number;
            switched = now;
        }
        if (!gil_locked()) {
            if (gil_computes(now) && gil_pays(now)) {
                if (deferred == 0)
                    deferred = now;
                if (now - deferred < GIL_DEFER_NS) {
                    pthread_cond_signal(&gil->cond); /* what woke this thread may have been for that one */
                    gil_wait(&gil_leaving, GIL_LOOK_NS);
                    now = monotonic_ns();
                    continue;
                }
                gil_computed = 0; /* none wants it */
            }
            if (!__atomic_exchange_n(&gil_entered, true, __ATOMIC_ACQUIRE))
                break;
            gil_wait(&gil->cond, GIL_LOOK_NS);
        } else {
            /* A prompt thread goes back to sleep by itself, and one that is asked in the middle of its work waits for an interval to get on.
               It is asked as by CPython: when an interval has passed without a switch. */
            bool computes = !gil_is_awake(gil_holder(), now);
            if (computes)
                gil_computed = now;
            if (now - switched > gil_interval_ns() || (computes && !gil_pays(now))) {
                gil_request();
                __atomic_store_n(&gil_asked, gil_asked + 1, __ATOMIC_RELAXED);
                asked = true;
                gil_wait(&gil->cond, pause);
            } else if (computes)
                gil_wait(&gil->cond, pause);
            else if (gil_computes(now))
                gil_be_patient();
            else
                gil_wait(&gil->cond, gil_interval_ns()); /* no shorter: the kernel takes longer to set a timer than to switch */
        }
        now = monotonic_ns();
    }
    if (ends) {
        if (gil_locked()) {
            if (asked)
                gil_withdraw();
        } else
            gil_touch(tstate);
    } else
        gil_hurry();
    gil_set_awake(tstate, now); /* before it has the GIL: a thread that sees that locked must not ask this thread */
    pthread_mutex_unlock(&gil->mutex);
    return !ends;
}
#endif

/* Give the GIL up to sleep. Returns this thread's state, for gil_return(). */
static PyThreadState *
gil_leave(void)
{
#if GIL_KNOWN
    PyThreadState *tstate = PyThreadState_Get();
    if (__atomic_load_n(&gil_patient, __ATOMIC_SEQ_CST) > 0 && !interpreter_ends()) {
        pthread_mutex_lock(&gil->mutex);
        pthread_cond_signal(&gil_leaving);
        pthread_mutex_unlock(&gil->mutex);
    }
    if (gil_prompt == tstate) {
        debt_ends(&gil_debt, monotonic_ns());
        gil_prompt = NULL;
    }
    PyEval_SaveThread();
    gil_set_awake(tstate, 0); /* not before: whoever comes meanwhile would take this thread for one that computes */
    return tstate;
#else
    return PyEval_SaveThread();
#endif
}

/* Take the GIL after a sleep. Does not return when the interpreter has ended meanwhile. Keeps errno. */
static void
gil_return(PyThreadState *tstate)
{
#if GIL_KNOWN
    int error = errno;
    bool entered = gil != NULL && !interpreter_ends() && gil_ask(tstate);
    PyEval_RestoreThread(tstate);
    if (entered) {
        gil_calm();
        __atomic_store_n(&gil_entered, false, __ATOMIC_RELEASE);
    }
    debt_begins(&gil_debt, monotonic_ns());
    gil_prompt = tstate;
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
    memset(gil_awake, 0, sizeof gil_awake);
    gil_prompt = NULL;
    gil_entered = gil_paying = false;
    gil_computed = 0;
    gil_patient = 0;
    if (gil != NULL) {
        gil_condition(&gil_leaving);
        gil_calm();
    }
#endif
}

/* Once a process, with the GIL. ROAMLET_GIL=wait leaves threads to wait as CPython's do. -1 with an exception set. */
static int
gil_prepare(void)
{
    static bool prepared;
    const char *way = getenv("ROAMLET_GIL");
    bool waits = way != NULL && strcmp(way, "wait") == 0;
    if (way != NULL && *way != '\0' && !waits && strcmp(way, "ask") != 0) {
        PyErr_Format(PyExc_ValueError, "ROAMLET_GIL='%s' names no way to get the GIL after a sleep: use ask or wait, or unset it", way);
        return -1;
    }
    if (!prepared && pthread_atfork(NULL, NULL, gil_forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
#if GIL_KNOWN
    if (!prepared && !waits && gil_condition(&gil_leaving))
        gil_find(PyThreadState_Get());
#endif
    prepared = true;
    (void)waits;
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
core_gil_short_waits(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if GIL_KNOWN
    if (gil != NULL)
        return PyLong_FromUnsignedLongLong(__atomic_load_n(&gil_short_waits, __ATOMIC_RELAXED));
#endif
    Py_RETURN_NONE;
}

static PyObject *
core_gil_debt(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *holds;
    GilDebt debt = {0};
    long long begins, ends, now;
    if (!PyArg_ParseTuple(args, "O!L:gil_debt", &PyTuple_Type, &holds, &now))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(holds); i++) {
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(holds, i), "LL:gil_debt", &begins, &ends))
            return NULL;
        debt_begins(&debt, begins);
        if (ends >= 0)
            debt_ends(&debt, ends);
    }
    return PyLong_FromLongLong(debt_at(&debt, now));
}

PyDoc_STRVAR(gil_requests_doc, "gil_requests()\n--\n\n"
"For tests: how often threads that woke from a sleep have asked the holder of the GIL to drop it. None where roamlet cannot ask.");
PyDoc_STRVAR(gil_short_waits_doc, "gil_short_waits()\n--\n\n"
"For tests: how often threads that woke from a sleep have waited for the GIL with a limit below the switch interval, for\n"
"which the machine's timer is set. None where roamlet cannot ask for the GIL.");
PyDoc_STRVAR(gil_debt_doc, "gil_debt(holds, now, /)\n--\n\n"
"For tests: how many ns of the GIL such threads owe to others at `now`, after these holds of it: (begin, end) each, in ns. An end of -1\n"
"is not known: the next hold ends it.");
