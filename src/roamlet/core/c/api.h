/* What roamlet's other extension modules use of the core, whichever switching backend is loaded: a table of functions in the
   capsule roamlet.core._core._API. All of it under the GIL, in any thread; nothing here is public.

   A tasklet that waits is linked into a RoamletQueue, which is embedded in the object it waits for. A thread without tasklets waits
   as its main tasklet. */
#ifndef ROAMLET_API_H
#define ROAMLET_API_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "portable.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ROAMLET_API_NAME "roamlet.core._core._API"
#define ROAMLET_API_VERSION 14

/* Those who wait, the first first. Zeroed it is empty. Each is owned by the queue, and holds what embeds the queue in its
   call; the members are the core's alone. */
typedef struct {
    void *head, *tail; /* NULL, NULL: no tasklet waits */
} RoamletQueue;

/* How a wait ended. */
enum {
    ROAMLET_RAISED_WOKEN = -2, /* like ROAMLET_RAISED, but it had been woken before: pass the wake-up on, or it is lost */
    ROAMLET_RAISED = -1,       /* an exception is set: killed, cancelled, a signal handler raised, Deadlock */
    ROAMLET_TIMED_OUT = 0,     /* no exception is set */
    ROAMLET_WOKEN = 1,         /* by wake_one or wake_all */
};

enum {
    ROAMLET_WAIT_FRONT = 1,  /* stand at the front of the queue: for one that was woken and came too late */
    ROAMLET_WAIT_DAEMON = 2, /* neither keeps roamlet.run() going nor hides a deadlock */
    ROAMLET_WAIT_HUB = 4,    /* for what the hub or a worker brings (a descriptor, a process, a job): keeps roamlet.run() going and forbids a
                             deadlock. Without it the wait counts like one on a channel, unless it has a deadline. */
};

#define ROAMLET_NEVER (-1) /* a deadline that does not come */

/* A thread's way to wait for the world. poll() waits up to `timeout` ns (-1: no limit; 0: only looks, keeping the GIL) and wakes
   whom it concerns; it must not switch or block in roamlet. 0, or -1 with an exception set. `alone` is set before each call: the thread has no
   tasklet but main. Another thread that makes a tasklet
   runnable while poll sleeps writes 8 bytes to wake_fd, an eventfd or a pipe. close() is called when the thread ends. */
typedef struct RoamletHub {
    int (*poll)(struct RoamletHub *hub, int64_t timeout);
    void (*close)(struct RoamletHub *hub);
    int wake_fd;
    bool alone;
} RoamletHub;

/* All of a tasklet that its frames do not hold, as roamlet.snapshot reads and sets it. References are borrowed. */
typedef struct {
    int state;        /* 0: without arguments; 1: has not run yet; 2: started */
    int direction;    /* of the channel operation that it waits in: -1 receives, 1 sends; 0: it waits in none */
    bool main, current, scheduled;
    bool waits;       /* for something else than one channel: a lock, a timer, a descriptor, run(), select() */
    bool scoped;      /* inside a scope or a time-out */
    bool locals;      /* it has attributes in an object of the type local */
    bool looped;      /* an event loop (asyncio's) runs in it */
    bool preempted;   /* between two instructions, where the watchdog interrupted it */
    bool iterates;    /* receives for a `for` loop */
    bool ended;       /* its loop over a channel is over: that was closed */
    bool raises;      /* `value` is an exception to be raised when it goes on */
    bool sends_error; /* `value` is an exception to be raised in the receiver */
    bool atomic_flag;
    int atomic;       /* how deep in atomic code */
    PyObject *channel, *value;
    PyObject *function, *args, *kwargs, *context; /* NULL: none */
    PyObject *handled; /* the exception that its outermost frames handle; NULL: none */
} RoamletState;

/* What a call that suspends its tasklet returns when it goes on without a value. */
enum {
    ROAMLET_CALL_UNKNOWN = -1,  /* it does more after that: it cannot be taken up in the middle */
    ROAMLET_CALL_NONE = 0,
    ROAMLET_CALL_ARGUMENT = 1,  /* its argument, or the tasklet without one */
};

typedef int (*RoamletFrameVisit)(struct _PyInterpreterFrame *frame, bool from_c, void *arg);

typedef struct {
    int version;

    /* A time-out as people give it (seconds, None: no limit) as a deadline in ns on the core's clock, ROAMLET_NEVER for None.
       `what` names the call in messages: "Lock.acquire(timeout)". ValueError for NaN and the negative. 0, or -1 with an
       exception set. May run Python code (__float__). */
    int (*deadline)(PyObject *seconds, const char *what, int64_t *deadline);
    int64_t (*now)(void); /* ns on the core's clock; -1 with an exception set when a test's clock fails */

    /* Block the current tasklet in `queue` until it is woken, `deadline` comes (ROAMLET_NEVER: none) or an exception is thrown into it.
       `on`, borrowed and kept alive by the caller, is the object that holds the queue. `operands`: where the arguments of the
       vectorcall end that waits (args + their count, keywords included), NULL when that is not known; the collector sees so
       much of the caller's frame. Between the caller's last look at its state and the tasklet's standing in the queue no code
       runs and no other thread gets the GIL. Returns one of ROAMLET_*; state must be read again after it. Switches; releases the
       GIL when no tasklet can run. */
    int (*wait)(RoamletQueue *queue, PyObject *on, int64_t deadline, int flags, PyObject *const *operands);

    /* Make the first of the queue runnable in its own thread. false when none waits. Never switches, runs no Python code. */
    bool (*wake_one)(RoamletQueue *queue);
    Py_ssize_t (*wake_all)(RoamletQueue *queue); /* how many there were */

    int (*traverse)(RoamletQueue *queue, visitproc visit, void *arg); /* for the tp_traverse of the object that holds the queue */

    /* The tasklet that runs: borrowed, never NULL but when memory is out (exception set). Its address tells owners apart; where it is kept a
       reference must be held. */
    PyObject *(*current)(void);

    /* Whether this is a signal handler that interrupts its thread while that waits in its main tasklet and has no other: wait() is
       refused then, as there is no tasklet to switch to, but the thread itself may wait: that holds up no other tasklet. */
    bool (*interrupts_wait)(void);

    /* Around a call that blocks its thread outside of wait(): the caller leaves atomic code, all of its levels, and enters as many again.
       atomic_return() releases the GIL while another thread is in atomic code, and may run Python code (a warning), which must
       not switch; it keeps the exception that is set, and cannot fail. */
    int (*atomic_leave)(void);
    void (*atomic_return)(int levels);

    /* Call it in operations that succeed without waiting, in loops of which a tasklet could hold up all others: raises what a
       cancelled scope or an expired roamlet.timeout has for this tasklet, looks at hub and timers when it is time, and lets
       others run then. 0, or -1 with an exception set. May switch. `waits`: whether the operation waits when it finds nothing to
       do. One that never does is none of that within an event loop, whose turns let others run: an end of the tasklet that
       is raised in the middle of a turn would leave the loop with work that it has begun. */
    int (*checkpoint)(bool waits);

    /* Around a sleep of the hub, in place of PyEval_SaveThread() and PyEval_RestoreThread(): the thread asks for the GIL at once when it comes back,
       where others wait for the switch interval first. gil_return() keeps errno. */
    PyThreadState *(*gil_leave)(void);
    void (*gil_return)(PyThreadState *tstate);

    /* The hub of this thread: NULL for none. Not while it polls. 0, or -1 with an exception set. The core owns nothing of it but calls
       close(). */
    int (*install_hub)(RoamletHub *hub);
    RoamletHub *(*hub)(void); /* this thread's, NULL: none */

    /* ---- for roamlet.snapshot ---- */

    /* -1 with a TypeError set when `tasklet` is not a tasklet. Changes nothing. */
    int (*inspect)(PyObject *tasklet, RoamletState *state);

    /* Call `each` for each Python frame of a started tasklet that does not run, the innermost first, until it returns something
       else than 0, which is returned; `from_c`: C called the frame. NoCore where the backend does not see frames. `each` must not
       run Python code that could let the tasklet run. */
    int (*frames)(PyObject *tasklet, RoamletFrameVisit each, void *arg);

    /* How many operands there are before the instruction at this unit of the code, and how many of them it leaves alone
       (-1: not known). false: nothing is known of it. */
    bool (*operands)(PyCodeObject *code, Py_ssize_t unit, int *depth, int *below);

    bool (*selects)(PyObject *channel); /* whether any tasklet waits there in select() */
    /* What waits in a channel's buffer, as a new tuple: each value, and after it whether it is an exception to raise. NULL with an
       exception set. */
    PyObject *(*buffered)(PyObject *channel);

    int (*call_suspends)(PyObject *callable); /* one of ROAMLET_CALL_* */

    /* Suspend the current tasklet, out of the run queue, until it is switched to again: -1 with what was thrown into it set, 0
       with *value owned or NULL, 1 when the loop over a channel that it stood in is over. `operands` as for wait(). Switches. */
    int (*pause)(PyObject *const *operands, PyObject **value);

    /* Let a tasklet that pause() suspended be in this state: blocked, or in the run queue, or paused. Cannot fail. */
    void (*settle)(PyObject *tasklet, const RoamletState *state);

    /* Take a tasklet out of its channel or the run queue, to be paused; settle() with the state that it was in undoes it. Borrows
       it; the caller has another reference. Cannot fail, runs no Python code. */
    void (*detach)(PyObject *tasklet);

    /* Send no events of a started tasklet that does not run to trace functions, profilers and sys.monitoring from now on: what still
       runs in it is no program's. Cannot fail, runs no Python code. */
    void (*silence)(PyObject *tasklet);

    /* `held`: only note from now on that this tasklet is killed, and refuse what else would let it run; else no longer. Whether
       it was killed while it was held. The end of its thread ends it in any case. Cannot fail, runs no Python code. */
    bool (*hold)(PyObject *tasklet, bool held);
} RoamletAPI;

/* The machine's clock, whatever a test has put in the place of the core's. */
static inline int64_t
monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Import the table once: NULL with an exception set when the core is of another version. */
static inline const RoamletAPI *
roamlet_import_api(void)
{
    PyObject *core = PyImport_ImportModule("roamlet.core._core"), *capsule = core != NULL ? PyObject_GetAttrString(core, "_API") : NULL;
    const RoamletAPI *api = capsule != NULL ? PyCapsule_GetPointer(capsule, ROAMLET_API_NAME) : NULL;
    Py_XDECREF(core);
    Py_XDECREF(capsule);
    if (api != NULL && api->version != ROAMLET_API_VERSION) {
        PyErr_Format(PyExc_ImportError, "roamlet's parts do not fit together: built for version %d of the core's table, which has %d. Build roamlet "
                                        "again", ROAMLET_API_VERSION, api->version);
        return NULL;
    }
    return api;
}

#endif
