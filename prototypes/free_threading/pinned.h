/* The types of the prototype: a Scheduler for each thread, Tasklets that stay in their thread, and Channels between any of them.

   Who may touch what, without a GIL:
   - the scheduler and its tasklets belong to their thread, which alone reads and writes them without a lock;
   - a channel's queue, and `queued` and `value` of the tasklets in it, are guarded by the channel's lock;
   - the inbox of a scheduler, by which other threads hand it tasklets that they have woken or want killed, is guarded by its lock.
   No thread holds two of these locks, and none calls Python code while it holds one. So the world is never stopped in the middle of a change,
   and the collector takes no lock.

   How a C stack and CPython's thread state are swapped is roamlet's own: cpython/ and switch/ of the core. Each tasklet has a C stack to itself, by stacks.h and regions.c. */
#ifndef PINNED_H
#define PINNED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define UNUSED __attribute__((unused))

#if PY_VERSION_HEX >= 0x03100000 || PY_VERSION_HEX < 0x030E0000
#error "the prototype knows CPython 3.14 and 3.15"
#elif PY_VERSION_HEX >= 0x030F0000
#include "cpython/v315.h"
#else
#include "cpython/v314.h"
#endif
#include "internal/pycore_critical_section.h"
#include "internal/pycore_frame.h"

typedef struct Tasklet Tasklet;
typedef struct Channel Channel;
typedef struct Scheduler Scheduler;

#include "stacks.h"

/* ThreadSanitizer is told which stack runs: a "fiber" for each tasklet. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define fiber_here() __tsan_get_current_fiber()
#define fiber_make() __tsan_create_fiber(0)
#define fiber_switch(fiber) __tsan_switch_to_fiber(fiber, 0)
#define fiber_end(fiber) __tsan_destroy_fiber(fiber)
#else
#define fiber_here() NULL
#define fiber_make() NULL
#define fiber_switch(fiber) ((void)(fiber))
#define fiber_end(fiber) ((void)(fiber))
#endif

enum { TASKLET_NEW, TASKLET_STARTED, TASKLET_ENDED };

struct Tasklet {
    PyObject_HEAD
    Scheduler *scheduler; /* of its thread, for good */
    Tasklet *next;        /* in the run queue, a channel's queue or an inbox; it is in one of them at most */
    Tasklet *next_killed; /* in an inbox's list of those to be killed */
    PyObject *function, *args;
    PyObject *value;     /* in transit: what it sends, or what its receive() will return */
    Channel *waiting_on; /* borrowed: its caller has it. Its thread's alone, while it waits */
    uint8_t state;       /* written by its thread, read by all */
    bool queued;         /* it is in the queue of `waiting_on` */
    bool sentenced;      /* it is in the inbox's list of those to be killed */
    bool killed;         /* TaskletExit is to be raised at its next wait */
    bool raises;         /* TaskletExit is to be raised as soon as it goes on */
    /* Fields of the thread state of free-threaded builds, while it is suspended. */
    uintptr_t critical_section;       /* the objects that it has locked: the locks are given up, see switch.c */
    struct _PyCStackRef *c_stack_refs; /* references without a count on its C stack */
    /* See collect.c. */
    PyMutex slots;  /* held while another thread changes slots of its frames */
    bool suspended; /* it has begun and does not run */
    bool found;     /* the collector has found it once */
    bool veiled;    /* generators that it executes count as finalized */
    void *fiber;    /* for ThreadSanitizer */
    SwitchState sw;
};

struct Channel {
    PyObject_HEAD
    PyMutex lock;
    Tasklet *first, *last; /* those that wait, in order of arrival */
    Py_ssize_t balance;    /* > 0: so many senders wait; < 0: so many receivers */
    bool disown;           /* what is sent is owned by no thread from then on: see value_disown */
};

struct Scheduler {
    PyThreadState *tstate;
    Tasklet *current;
    Tasklet *main;          /* owned */
    Tasklet *first, *last;  /* the run queue, without the current tasklet */
    Tasklet *zombie;        /* owned: one that has ended, which the next one drops */
    Py_ssize_t live;        /* tasklets that have not ended, without main */
    bool main_runs;         /* main waits in run() for the last of them */
    bool over;              /* its thread state is gone, and tasklets are left */
    SwitchThread sw;
    Scheduler *next_free;

    _Alignas(64) PyMutex lock; /* of what follows: the inbox */
    Tasklet *woken, *last_woken, *killed;
    bool mail;     /* there is something; also read without the lock */
    bool sleeping; /* its thread waits for the doorbell, or is about to */
    sem_t doorbell;
};

static PyTypeObject Tasklet_Type, Channel_Type;
static PyObject *TaskletExit;

/* The scheduler of this thread; NULL before its first use. */
static __thread Scheduler *this_scheduler __attribute__((tls_model("initial-exec")));

#include "regions.c"

#endif
