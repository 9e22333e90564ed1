/* The types that every part of the core shares: Tasklet, Channel, Waiter and the Scheduler of a thread.
   How a C stack and CPython's thread state are swapped is switch/'s business, not this header's. */
#ifndef ROAMLET_CORE_H
#define ROAMLET_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "api.h"

#define UNUSED __attribute__((unused))

/* An attribute's name as an interned string, made once and kept in `place`. For what is asked for in each thread, tasklet or wait:
   CPython's cache of attributes keeps each new string that it is asked by. Borrowed; NULL with an exception set. */
static inline PyObject *
name_interned(PyObject **place, const char *name)
{
    if (unlikely(*place == NULL))
        *place = PyUnicode_InternFromString(name);
    return *place;
}

typedef struct Tasklet Tasklet;
typedef struct CancelScope CancelScope;
typedef struct Channel Channel;
typedef struct Waiter Waiter;
typedef struct Select Select;
typedef struct SelectCase SelectCase;
typedef struct Scheduler Scheduler;
typedef struct RunningLoop RunningLoop;
typedef struct LocalEntry LocalEntry;
typedef struct TraceRing TraceRing;

#include "arguments.h"
#include "cpython/cpython.h"
#include "switch/switch.h"
#include "preempt.h"

/* What a suspended tasklet waits for. The two channel values are Stackless's own signs for the directions. */
enum {
    NOT_BLOCKED = 0,
    BLOCKED_RECEIVE = -1,
    BLOCKED_SEND = 1,
    BLOCKED_WAIT = 2, /* a Waiter, or sleep when `waiting_on` is NULL */
    BLOCKED_RUN = 3,  /* inside run(); seen from Python it is paused, as in Stackless */
    BLOCKED_QUEUE = 4, /* in a RoamletQueue, of a lock or whatever else is built on api.h */
};

enum {
    TASKLET_UNBOUND = 0, /* without arguments: never set up, or dead */
    TASKLET_NEW = 1,     /* set up, has not run yet: no C stack, no frame */
    TASKLET_STARTED = 2,
};

/* What must be done when a tasklet is switched away and back: tasklet_departs and tasklet_returns do it. */
enum {
    SPECIAL_ATOMIC = 1, /* it is atomic: gives that up, and takes it back before it goes on */
    SPECIAL_TRACED = 2, /* it has trace functions of its own */
    SPECIAL_LOOP = 4,   /* an event loop runs in it: that of the thread, until it is switched away */
    SPECIAL_IN_TRACE = 8, /* it was switched away inside a trace function */
    SPECIAL_LAZY = 32,    /* it resolves lazy imports */
    SPECIAL_MUTED = 16,   /* it runs without being traced, because another one is suspended inside a trace function */
};

/* What a switch in this thread must be told to: scheduler_announce does it. */
enum {
    ATTEND_CALLBACK = 1, /* set_schedule_callback */
    ATTEND_WATCHDOG = 2, /* run() with a budget or slices */
    ATTEND_TRACE = 4,    /* the thread's `trace` */
    ATTEND_DEBUGGER = 8, /* `in_trace` is not 0 */
};

/* What each switch and each message looks at comes first, so that it lies in few lines of the cache. */
struct Tasklet {
    PyObject_HEAD
    Tasklet *next, *prev; /* neighbours in the run queue, or in the queue of what it is blocked on */
    Scheduler *scheduler; /* of the thread it belongs to; counted in scheduler->tasklets */
    PyObject *tempval;    /* the value in transit: what it sends, what its blocking call will return, or an exception */
    uint8_t special;       /* SPECIAL_ flags */
    int8_t blocked;        /* one of the values above */
    uint8_t state;         /* TASKLET_UNBOUND, NEW or STARTED */
    bool raises;       /* tempval is an exception to raise here when it goes on */
    bool sends_error;  /* tempval is an exception to raise in the receiver */
    bool timed_out;    /* its timer fired before what it waited for */
    bool woken;        /* what it waited for in a queue has happened */
    bool keeps;        /* its wait is one of scheduler->keepers */
    bool limited;      /* a scope's deadline ends its wait, which is one of scheduler->keepers for that (once more) */
    bool iterating;    /* receives for a `for` loop: close() ends it */
    bool block_trap;   /* may not be blocked */
    bool held;         /* on its way to another process: kill() is only noted */
    int timer;             /* index in the scheduler's heap of timers, -1: none */
    PyObject *waiting_on; /* borrowed: the Channel, Waiter or holder of `queue`; its C frame holds the reference */
    PyObject *const *operands; /* out of the run queue: where the arguments of the call end that waits; NULL: not known */
    int64_t since;           /* ns on the machine's clock: the look at timers and hub before it began to wait; coarse */
    CancelScope *scope;   /* owned: the innermost scope it is in; NULL: none */
#if EVENTS_FOLLOWED
    uint32_t events;       /* tstate_events() when it last ran on */
#endif
    uint32_t trace_id;     /* its number in traces; 0: in none yet */
    SwitchState sw;
    PyObject *function, *args, *kwargs;
    PyObject *context; /* contextvars.Context that it will start in; NULL: an empty one */
    Tasklet *started_next, *started_prev; /* the scheduler's list of started tasklets */
    RoamletQueue *queue;     /* while BLOCKED_QUEUE: the one it is in */
    LocalEntry *locals;   /* what it has in objects of the type local, the newest first */
    PyObject *weakrefs;
    PyObject *tracing[2]; /* its own trace and profile functions; NULL: its thread's */
    RunningLoop *loop;    /* owned: the event loop that runs in it, while it is suspended; NULL: none */
#if LAZY_IMPORTS_KNOWN
    PyObject *lazy_imports; /* owned: those that it resolves, while it is suspended; NULL: none */
#endif
    Tasklet *run_outer;  /* while in_run: the run() around its own, in scheduler->runs */
    Tasklet *scope_next, **scope_link; /* the scope's list of those whose innermost it is */
    int64_t until;        /* while it waits in a scope: its call's own deadline, ROAMLET_NEVER without */
    int atomic;            /* how many atomic blocks it is in; set_atomic(True) is one more */
    bool atomic_flag;  /* set_atomic(True) */
    bool preempted;    /* suspended between two instructions, in an event */
    bool killed;       /* since it was held */
    bool ignore_nesting;      /* may be preempted inside C calls that call Python */
    bool marked;              /* on 3.11: some of its frames tell the watchdog of opcodes */
    bool in_run, run_hub, run_threadblock; /* inside run(), and what that run waits for */
};

struct Channel {
    PyObject_HEAD
    Tasklet *head, *tail;  /* those blocked here, in order of arrival; each is owned by the queue */
    Py_ssize_t balance;    /* > 0: so many senders wait; < 0: so many receivers */
    int preference;        /* -1 the receiver runs first, 1 the sender, 0 the one that runs already */
    bool schedule_all, closing;
    bool marked;           /* for a moment, in select() */
    bool special;          /* it is closing, has a buffer, or tasklets wait in select(): see channel_settled */
    SelectCase *cases, *last_case; /* of those who wait in select(), in order of arrival */
    PyObject *weakrefs;
    Py_ssize_t buffer;     /* how many values may wait without a receiver; 0: none */
    Py_ssize_t buffered;   /* how many do; more than `buffer` when some were given back */
    uintptr_t *values;     /* a ring of `slots` values, a power of two: see buffer.c */
    Py_ssize_t first, slots;
};

struct SelectCase {
    SelectCase *next, *prev; /* neighbours in the channel's list */
    Select *select;          /* owned while it is in that list */
    Channel *channel;        /* owned */
    PyObject *value;         /* owned: what to send; NULL: to receive */
};

struct Select {
    PyObject_VAR_HEAD
    RoamletQueue queue;   /* the tasklet that waits; empty when none does yet, or when it was thrown at and has not run since */
    Py_ssize_t chosen; /* the index of the case that was met; negative: none */
    PyObject *value;   /* owned: what was received */
    bool is_error;     /* it is to be raised */
    bool linked;       /* the cases are in their channels' lists */
    SelectCase cases[];
};

struct Waiter {
    PyObject_HEAD
    Tasklet *tasklet;      /* owned: the tasklet that waits; NULL: none yet, or no longer */
    PyObject *value;
    enum { WAITER_PENDING, WAITER_VALUE, WAITER_ERROR, WAITER_ABANDONED } state;
    bool used;
    PyObject *weakrefs;
};

#define TIMER_YIELDS 0 /* due at the next look; its tasklet lets all that are runnable run first */

typedef struct {
    int64_t when; /* ns on the core's monotonic clock */
    uint64_t order;
    Tasklet *tasklet; /* borrowed: a tasklet with a timer is blocked, and its reference is its blocker's or `timers'` */
} Timer;

struct Scheduler {
    PyThreadState *tstate;
    pid_t pid;        /* of the process that made it: a forked child has only the thread that forked */
    Tasklet *current; /* borrowed; in the run queue unless `idle`, or while it is being taken out */
    Tasklet *main;    /* owned */
    Tasklet *first;   /* while idle: the head of the run queue, NULL when it is empty */
    PyObject *zombie; /* owned: a reference that the next tasklet drops */
    Tasklet *started; /* the list of all started tasklets but main */
    Scheduler *registered_next; /* all threads' schedulers */
    int begins, begins_full; /* tasklets that may begin before the next look at their pace: few as long as that is not known */
    int64_t began;           /* that look */
    int ticks, ticks_full;
    int ticks_given;  /* what `ticks` was when `ticks_before` was counted */
    int64_t ticks_before;
    int64_t messages; /* values that have passed through channels in this thread */
    int64_t looked;   /* ns on the machine's clock: the last look at timers and hub, or the last time that the thread woke */
    union {
        struct {
            bool idle;    /* no tasklet can run; `current` waits in scheduler_idle on behalf of all */
            bool polling; /* inside the hub's poll or a timer */
            bool announcing; /* inside a callback, or in the middle of a switch */
            bool trapped; /* switch_trap is not 0 */
        };
        uint32_t fixed; /* any of them: no tasklet may be switched */
    };
    uint8_t attention; /* ATTEND_ flags */
    bool ending;      /* the thread is ending: tasklets are being killed */
    int switch_trap;

    Tasklet *runs;        /* the tasklets inside run(), the innermost first; each owned by the ring or by its place here */
    Tasklet *heir;        /* borrowed: of keep_current(), where it is not main: it gets main's errors for as long as it lives */
    Tasklet *watchdog;    /* borrowed: the one of them whose run() interrupts others */
    Tasklet *interrupted; /* owned: whom it has interrupted */
    bool run_soft, run_total, run_ignore_nesting, run_slices;
    bool interrupt_pending; /* a soft interrupt waits for the next switch */
    bool meeting;         /* the switch under way is that of two tasklets meeting at a channel */
    PyObject *tracing[2]; /* the thread's own trace and profile functions, while a tasklet has put its in their place */
    int in_trace;         /* suspended tasklets that are inside a trace function */
    Preempt preempt;
    int origins;          /* how much of their origin coroutines remember in tasklets without an event loop */

    TraceRing *trace; /* what its tasklets do is recorded there; NULL: it is not */
    bool service;     /* a thread of roamlet's own */
    bool over;     /* its thread state went without it, and the end of each chain of frames may have been a part of that */
    bool sleeping; /* its thread sleeps with the GIL released; cleared by the thread that rings. The watchdog reads it without the GIL: set by sleeping_set() */
    int64_t last_tick;
    int64_t fired_at; /* the count of switches, less two for each tasklet that its timer has put before others */

    Timer *timers;
    int timer_count, timer_capacity;
    uint64_t timer_order;
    Py_ssize_t keepers;  /* waits (sleeps, descriptors, jobs) that keep run() going and forbid a deadlock */

    RoamletHub *hub;        /* NULL: none */
    PyThread_type_lock doorbell; /* what it sleeps on without a hub; held by this thread */

    Py_ssize_t tasklets; /* how many tasklets point here */
    SwitchThread sw;
};

static PyTypeObject Tasklet_Type, Channel_Type, Waiter_Type, Select_Type, Atomic_Type, CancelScope_Type;
static PyObject *RoamletError, *TaskletExit, *Cancelled, *Deadlock, *ChannelClosed, *NoCore;

/* The scheduler of this thread; NULL before its first use and after its end. */
static __thread Scheduler *this_scheduler __attribute__((tls_model("initial-exec")));
static Scheduler *scheduler_create(void);

/* This thread's scheduler, made when first needed. NULL with an exception set when memory is out. */
static inline Scheduler *
scheduler_get(void)
{
    Scheduler *scheduler = this_scheduler;
    return likely(scheduler != NULL) ? scheduler : scheduler_create();
}

#endif
