/* The watchdog's sources of expiry: what calls scheduler_expired when a budget of opcodes or a slice of time is used up.

   Both end in an event that the interpreter sends between two instructions (preempt_events.c; preempt_trace.c on 3.11), and
   both are free until then: counting sets its events when a budget is given and clears them when it is taken back; a slice
   sets none before it is over, which a thread of our own notices (preempt_watcher.c).

   A source that is ready asks at every event until scheduler_expired has switched or has called preempt_restart or
   preempt_stop. So an interrupt that must wait, because the tasklet is atomic or inside a C call, is taken at the first
   instruction at which it may be. */

/* Provided by run.c: the budget is used up. May switch tasklets and run Python code; returns when the interrupted
   tasklet goes on: 0, or -1 with the exception set that was thrown into it meanwhile. 0 at once if it may not switch. */
static int scheduler_expired(Scheduler *scheduler);

/* Whether Python code that runs in this thread now belongs to a tasklet, not to the hub or a callback about switches. */
static inline bool
preempt_concerns(Scheduler *scheduler)
{
    return scheduler != NULL && !scheduler->idle && !scheduler->polling && !scheduler->announcing;
}

static int preempt_expire(Scheduler *scheduler);

#include "preempt_events.c"
#include "preempt_trace.c"
#include "preempt_watcher.c"

#if WATCH_BY_MONITORING || WATCH_BY_TRACING

/* Whether this is inside an import, which is never interrupted: what importlib changes in several steps (its table of locks, sys.modules and
   the parent's attribute) it protects against other threads, not against this one's other tasklets. */
static bool
preempt_importing(PyThreadState *tstate)
{
    static const char name[] = "<frozen importlib._bootstrap>";
    for (WatchFrame *frame = tstate_frame(tstate); frame != NULL; frame = frame->previous) {
        PyCodeObject *code = watch_frame_code(frame);
        if (code != NULL && PyUnicode_GET_LENGTH(code->co_filename) == sizeof name - 1 &&
            PyUnicode_CompareWithASCIIString(code->co_filename, name) == 0)
            return true;
    }
    return false;
}

/* Called in an event of the running tasklet: its budget or slice is used up. The interpreter sends no events while it
   believes to be inside a callback, so that the others must not be switched to in that state, nor this one left in
   theirs. May switch, runs Python code. */
static int
preempt_expire(Scheduler *scheduler)
{
    PyThreadState *tstate = scheduler->tstate;
    Tasklet *tasklet = scheduler->current;
    WatchTracing tracing;
    int failed;
    if (preempt_importing(tstate))
        return 0;
    tracing = watch_tracing_leave(tstate);
    tasklet->preempted = true;
    failed = scheduler_expired(scheduler);
    tasklet->preempted = false;
    watch_tracing_enter(tstate, tracing);
    /* The instruction before which it was interrupted comes now, without an event: it counts in the budget that now runs. */
    if (!failed && scheduler->preempt.counting && scheduler->preempt.left > 0)
        scheduler->preempt.left--;
    return failed;
}

/* Of the frames of the RUNNING tasklet: how many C calls that entered the interpreter again lie above its first one. One
   that only advances a generator for a `for` loop, `yield from` or `await` does not count: it keeps nothing in C that an
   interrupt could tear apart, and whether CPython enters it from C or not depends on how warm the code is. */
static int
preempt_nesting(Scheduler *scheduler)
{
    WatchFrame *inner = NULL;
    int level = -1;
    for (WatchFrame *frame = tstate_frame(scheduler->tstate); frame != NULL; frame = frame->previous) {
        level += watch_frame_is_entry(scheduler->tstate, frame) && !watch_entry_iterates(frame, inner);
        inner = frame;
    }
    return level > 0 ? level : 0;
}

/* Start: after `opcodes` more bytecode instructions of this thread's tasklets (> 0), or `slice_ns` ns (> 0), call
   scheduler_expired once, in this thread, between two bytecodes of the tasklet that runs then. The tasklet that calls this
   is about to wait for the others and is not counted itself. -1 with an exception set when it cannot; nothing is armed then. */
static int
preempt_start(Scheduler *scheduler, int64_t opcodes, int64_t slice_ns)
{
    Preempt *preempt = &scheduler->preempt;
    preempt_stop(scheduler);
    preempt->reported = false;
    if (opcodes > 0) {
        if (source_count(scheduler) < 0)
            return -1;
        preempt->counting = true;
        preempt->budget = preempt->left = opcodes;
    }
    if (slice_ns > 0) {
        preempt->slice = slice_ns;
        if (source_check() < 0 || watcher_add(scheduler) < 0) {
            preempt_stop(scheduler);
            return -1;
        }
    }
    return 0;
}

static __attribute__((noinline)) void
preempt_disarm(Scheduler *scheduler)
{
    PyObject *raised = error_take();
    bool armed = scheduler->preempt.armed;
    scheduler->preempt.expired = scheduler->preempt.armed = false; /* first: the rest may run Python code */
    if (armed)
        source_disarm(scheduler);
    error_restore(raised);
}

/* A fresh budget of the same size from now on (a switch began a new slice). Cheap; cannot fail. */
static inline void
preempt_restart(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    preempt->left = preempt->budget;
    if (preempt->slice > 0) {
        if (unlikely(preempt->expired))
            preempt_disarm(scheduler);
        __atomic_store_n(&preempt->deadline, monotonic_ns() + preempt->slice, __ATOMIC_RELAXED);
    }
}

/* No more of it. Keeps the exception that is set; cannot fail. */
static void
preempt_stop(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    if (preempt->slice > 0) {
        watcher_remove(scheduler);
        preempt->slice = 0;
    }
    if (preempt->expired)
        preempt_disarm(scheduler);
    if (preempt->counting) {
        PyObject *raised = error_take();
        preempt->counting = false;
        source_count_end(scheduler);
        error_restore(raised);
    }
    preempt->budget = preempt->left = 0;
}

/* The tasklet has been switched to, in a thread with a watchdog: its frames are watched too. */
static void
preempt_resumed(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    if (preempt->slice > 0)
        watcher_resumed(scheduler);
    if (preempt->counting && scheduler->current != scheduler->watchdog)
        source_cover(scheduler);
}

#else /* a version of CPython whose frames and events are not known here */

static int
preempt_start(Scheduler *scheduler, int64_t opcodes, int64_t slice_ns)
{
    (void)scheduler;
    (void)opcodes;
    (void)slice_ns;
    PyErr_Format(NoCore, "run() cannot interrupt tasklets on CPython %d.%d, which this build of roamlet's core does not know: call it "
                         "without a time-out and without slices, and let long computations call schedule() now and then",
                 PY_MAJOR_VERSION, PY_MINOR_VERSION);
    return -1;
}

static inline void
preempt_restart(Scheduler *scheduler)
{
    (void)scheduler;
}

static void
preempt_stop(Scheduler *scheduler)
{
    (void)scheduler;
}

static void
preempt_resumed(Scheduler *scheduler)
{
    (void)scheduler;
}

static int
preempt_nesting(Scheduler *scheduler)
{
    (void)scheduler;
    return -1; /* not known */
}

#endif
