/* Suspending and resuming tasklets, and their end: whether a tasklet may switch, what a switch has to tell others, the switch itself.
   The run queue is in ring.c, what happens when no tasklet can run in idle.c. */

static void preempt_resumed(Scheduler *scheduler);
static int scope_check(Tasklet *tasklet);
static void scope_left(Tasklet *tasklet);
static void locals_drop(Tasklet *tasklet, int rounds);

#define LOCALS_ROUNDS 10 /* while the tasklet can run code; what is left goes with the object */

/* ---- suspending ---- */

static __attribute__((cold)) void
fixed_error(Scheduler *scheduler)
{
    const char *why = "this call would block, and it was made where no tasklet runs: in the hub, or in a signal handler while all "
                      "tasklets wait. Wake a tasklet that does the work instead";
    if (scheduler->announcing)
        why = "Recursive scheduling call due to callbacks! A schedule or channel callback must not switch tasklets or block, nor "
              "must other code that runs in the middle of a switch";
    else if (scheduler->trapped)
        why = "switch_trap: this call would switch tasklets, which switch_trap() forbids in this thread";
    PyErr_SetString(PyExc_RuntimeError, why);
}

/* Whether this is a place where tasklets may be switched: 0, or -1 with an exception set. Runs no Python code. */
static inline int
scheduler_may_switch(Scheduler *scheduler)
{
    if (unlikely(scheduler->fixed != 0)) {
        fixed_error(scheduler);
        return -1;
    }
    if (collection_forbids(scheduler)) {
        collection_error();
        return -1;
    }
    return 0;
}

/* Whether the current tasklet may be suspended now: 0, or -1 with an exception set and nothing changed. Looks at timers
   and hub when it is time, so state must be read after it. */
static inline int
scheduler_may_suspend(Scheduler *scheduler)
{
    if (unlikely(scheduler_may_switch(scheduler) < 0))
        return -1;
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0)
        return -1;
    return switch_guard(scheduler, scheduler->current);
}

static __attribute__((cold)) void
block_trap_error(Tasklet *current)
{
    PyErr_Format(PyExc_RuntimeError, "this tasklet does not like to be blocked: block_trap of %R is set, and this call would wait", current);
}

/* Whether the current tasklet may begin to wait, as far as its own settings and scopes are concerned: 0, or -1 with an
   exception set. */
static inline int
tasklet_may_wait(Tasklet *current)
{
    if (unlikely(current->block_trap)) {
        block_trap_error(current);
        return -1;
    }
    return likely(current->scope == NULL) ? 0 : scope_check(current);
}

/* scheduler_may_suspend for a call that blocks its tasklet. */
static inline int
scheduler_may_block(Scheduler *scheduler)
{
    return unlikely(tasklet_may_wait(scheduler->current) < 0) ? -1 : scheduler_may_suspend(scheduler);
}

/* ---- what a switch has to tell others ---- */

static PyObject *schedule_callback; /* of set_schedule_callback; NULL: none */

/* Tell the schedule callback of a switch to come. Runs Python code, which cannot switch but may change the run queue, whose
   head is scheduler->first meanwhile. Returns the one to go on with, NULL when the queue has become empty. */
static Tasklet *
scheduler_announce(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    PyObject *callback = schedule_callback, *result, *raised;
    if (callback == NULL || to == from)
        return to;
    raised = error_take();
    Py_INCREF(callback);
    Py_INCREF(from); /* a dying one is not ours to drop */
    scheduler->announcing = true;
    result = PyObject_CallFunctionObjArgs(callback, (PyObject *)from, (PyObject *)to, NULL);
    if (result == NULL)
        PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    scheduler->announcing = false;
    Py_DECREF(from);
    Py_DECREF(callback);
    error_restore(raised);
    return scheduler->first;
}

/* Whether there is anything that a switch away from the tasklet must tell others. */
static inline __attribute__((always_inline)) bool
departure_matters(Scheduler *scheduler, Tasklet *from)
{
    return ((unsigned)(scheduler->attention | from->special) | (unsigned)scheduler->tstate->tracing) != 0 || tstate_loop(scheduler->tstate) != 0 ||
           tstate_lazy_imports(scheduler->tstate) != NULL;
}

static void watchdog_redirects(Scheduler *scheduler, Tasklet *from);

/* The current tasklet, `from`, is about to be switched away: to `to`, or to a tasklet that is not chosen yet when that is NULL. Callbacks
   are told; what it must not keep is given up. Returns the one to go on with. May run Python code, which cannot
   switch; to that code the run queue looks as it will be after the switch. */
static __attribute__((noinline)) Tasklet *
scheduler_departs(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    bool meeting = scheduler->meeting;
    if (from->special & SPECIAL_ATOMIC)
        atomic_release();
    scheduler->first = to;
    scheduler->idle = scheduler->announcing = true;
    if (scheduler->attention & ATTEND_WATCHDOG)
        watchdog_redirects(scheduler, from);
    if (from->special & SPECIAL_TRACED)
        tracing_leaves(from);
    to = scheduler->first;
    if (to != NULL && (scheduler->attention & ATTEND_CALLBACK) != 0)
        to = scheduler_announce(scheduler, from, to);
    if (to != NULL && to != from) {
        loop_leaves(from);
        lazy_imports_leave(from);
    }
    scheduler->first = NULL;
    scheduler->idle = scheduler->announcing = false;
    if ((scheduler->attention & ATTEND_TRACE) != 0 && to != from) {
        scheduler->meeting = false;
        trace_departs(scheduler, from, to, meeting);
    }
    if (to != from)
        tracing_suspends(scheduler, from);
    return to;
}

/* Whether tools have asked for other events since the tasklet last ran on. */
static inline __attribute__((always_inline)) bool
events_changed(Tasklet *tasklet)
{
#if EVENTS_FOLLOWED
    return tstate_events(tasklet->scheduler->tstate) != tasklet->events;
#else
    (void)tasklet;
    return false;
#endif
}

/* Let the frames of the tasklet, which has been switched to, send the events that are asked for now. Runs no Python code. */
static inline void
events_follow(Tasklet *tasklet)
{
#if EVENTS_FOLLOWED
    PyThreadState *tstate = tasklet->scheduler->tstate;
    PyObject *raised = error_take();
    if (frames_follow_events(tstate) < 0)
        PyErr_WriteUnraisable((PyObject *)tasklet);
    tasklet->events = tstate_events(tstate);
    error_restore(raised);
#else
    (void)tasklet;
#endif
}

/* The tasklet has been switched to: it has again what it gave up. May run Python code, which cannot switch, and release
   the GIL. */
static __attribute__((noinline)) void
tasklet_returns(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    scheduler->announcing = true;
    if (events_changed(tasklet))
        events_follow(tasklet);
    if (tasklet->special & SPECIAL_ATOMIC)
        atomic_take_back(scheduler->tstate);
    if (tasklet->special & SPECIAL_LOOP)
        loop_enters(tasklet);
    if (tasklet->special & SPECIAL_LAZY)
        lazy_imports_enter(tasklet);
    if (tasklet->special & SPECIAL_TRACED)
        tracing_enters(tasklet);
    if (scheduler->attention & ATTEND_WATCHDOG)
        preempt_resumed(scheduler);
    scheduler->announcing = false;
    if ((scheduler->attention & ATTEND_DEBUGGER) != 0)
        tracing_resumes(scheduler, tasklet);
}

/* The current tasklet has set its own tempval while it ran, which only run() and switch() return: what suspends it now has
   a value of its own. May run Python code. */
static inline void
tempval_forget(Tasklet *current)
{
    if (unlikely(current->tempval != NULL && !current->raises))
        Py_CLEAR(current->tempval);
}

/* The current tasklet runs again: take what it was woken with. 0 with *value owned (NULL: no value), or -1 with
   the exception that was meant for it set. What the one before left to be dropped is dropped here, after the value is
   safe: whatever that runs can no longer touch it. */
static inline __attribute__((always_inline)) int
scheduler_resumed(Scheduler *scheduler, Tasklet *tasklet, PyObject **value)
{
    PyObject *got = tasklet->tempval;
    bool raises = tasklet->raises;
    tasklet->tempval = NULL;
    tasklet->raises = false;
    if (unlikely((scheduler->attention | tasklet->special) != 0 || events_changed(tasklet)))
        tasklet_returns(tasklet);
    if (unlikely(scheduler->zombie != NULL)) {
        PyObject *zombie = scheduler->zombie;
        scheduler->zombie = NULL;
        Py_DECREF(zombie);
    }
    if (unlikely(raises)) {
        error_raise(got);
        *value = NULL;
        return -1;
    }
    *value = got;
    return 0;
}

/* Switch from the current tasklet, which stays in the ring, to `to`. Inlined always, as what it calls is: a call
   in between would save all registers twice. */
static inline __attribute__((always_inline)) int
scheduler_switch(Scheduler *scheduler, Tasklet *from, Tasklet *to, PyObject **value)
{
    if (unlikely(departure_matters(scheduler, from))) {
        to = scheduler_departs(scheduler, from, to);
        if (to == from)
            return scheduler_resumed(scheduler, from, value);
    }
    scheduler->current = to;
    switch_to(scheduler, from, to);
    return scheduler_resumed(scheduler, from, value);
}

/* Take the current tasklet out of the ring before it is put where it waits. Returns the one to go on with, or NULL when
   it was the last. Its reference passes to the caller. `operands`: what the collector may know of the call that waits,
   see arguments_end. */
static inline Tasklet *
scheduler_leave(Tasklet *current, PyObject *const *operands)
{
    Tasklet *next = current->next;
    current->operands = operands;
    current->since = this_scheduler->looked;
    if (unlikely(next == current)) {
        current->next = current->prev = NULL;
        return NULL;
    }
    current->prev->next = next;
    next->prev = current->prev;
    return next;
}

/* No tasklet can run: sleep in `current`. If it is the one that goes on, its loop has stayed in place. */
static __attribute__((noinline)) Tasklet *
scheduler_idle_in(Scheduler *scheduler, Tasklet *current)
{
    Tasklet *next = scheduler_idle(scheduler);
    if (next != current && departure_matters(scheduler, current)) {
        scheduler->announcing = true;
        loop_leaves(current);
        lazy_imports_leave(current);
        scheduler->announcing = false;
    }
    return next;
}

/* Suspend the current tasklet, which scheduler_leave took out and the caller has put where it waits. */
static inline __attribute__((always_inline)) int
scheduler_suspend(Scheduler *scheduler, Tasklet *current, Tasklet *next, PyObject **value)
{
    if (unlikely(departure_matters(scheduler, current)))
        next = scheduler_departs(scheduler, current, next);
    if (unlikely(next == NULL))
        next = scheduler_idle_in(scheduler, current);
    else
        scheduler->current = next;
    if (likely(next != current))
        switch_to(scheduler, current, next);
    return scheduler_resumed(scheduler, current, value);
}

/* ---- the end of a tasklet ---- */

/* The current tasklet has ended; `error` (stolen, may be NULL) is what it did not catch. Returns the next, now current. */
static Tasklet *
scheduler_finish(Scheduler *scheduler, Tasklet *dead, PyObject *error)
{
    Tasklet *next;
    if (unlikely(scheduler->heir == dead))
        scheduler->heir = NULL;
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0) {
        if (error != NULL)
            PyErr_WriteUnraisable((PyObject *)dead);
        else if (PyErr_ExceptionMatches(TaskletExit)) /* killed by the hub or a signal handler: it ends anyway */
            PyErr_Clear();
        else
            error = error_take();
    }
    if (unlikely(error != NULL))
        keeper_set_error(scheduler, error);
    next = scheduler_leave(dead, NULL);
    dead->next = dead->prev = NULL;
    dead->state = TASKLET_UNBOUND;
    if (unlikely(error != NULL && next != NULL && ring_holds(scheduler_keeper(scheduler))))
        next = scheduler_keeper(scheduler); /* it raises the error at once; the others stay in their order */
    if (unlikely(departure_matters(scheduler, dead))) {
        next = scheduler_departs(scheduler, dead, next);
        loop_leaves(dead);
        loop_drop(dead);
        dead->special = 0;
        dead->atomic = 0;
        dead->atomic_flag = false;
    }
    if (likely(next != NULL))
        scheduler->current = next;
    assert(scheduler->zombie == NULL);
    scheduler->zombie = (PyObject *)dead;
    return likely(next != NULL) ? next : scheduler_idle(scheduler);
}

static inline void
started_add(Scheduler *scheduler, Tasklet *tasklet)
{
    tasklet->started_prev = NULL;
    tasklet->started_next = scheduler->started;
    if (scheduler->started != NULL)
        scheduler->started->started_prev = tasklet;
    scheduler->started = tasklet;
}

static inline void
started_remove(Scheduler *scheduler, Tasklet *tasklet)
{
    if (tasklet->started_prev != NULL)
        tasklet->started_prev->started_next = tasklet->started_next;
    else
        scheduler->started = tasklet->started_next;
    if (tasklet->started_next != NULL)
        tasklet->started_next->started_prev = tasklet->started_prev;
}

static PyObject *error_handler; /* of set_error_handler; NULL: none */

/* Give what the current tasklet did not catch (stolen) to the error handler. NULL, or the error that goes to the keeper. */
static PyObject *
error_handle(PyObject *error)
{
    PyObject *handler = Py_NewRef(error_handler), *traceback = PyException_GetTraceback(error);
    PyObject *result = PyObject_CallFunctionObjArgs(handler, (PyObject *)Py_TYPE(error), error,
                                                    traceback != NULL ? traceback : Py_None, NULL);
    Py_XDECREF(traceback);
    Py_DECREF(handler);
    Py_DECREF(error);
    Py_XDECREF(result);
    error = result == NULL ? error_take() : NULL;
    if (error != NULL && PyErr_GivenExceptionMatches(error, TaskletExit)) /* killed inside the handler */
        Py_CLEAR(error);
    return error;
}

/* Call a function with a tuple of arguments: what PyObject_Call does, without its detours for a function of Python. A new reference, or
   NULL with an exception set. */
static inline PyObject *
function_call(PyObject *function, PyObject *args)
{
    PyObject *const *values = ((PyTupleObject *)args)->ob_item;
    size_t count = (size_t)PyTuple_GET_SIZE(args);
    if (likely(PyFunction_Check(function)))
        return ((PyFunctionObject *)function)->vectorcall(function, values, count, NULL);
    return PyObject_Vectorcall(function, values, count, NULL);
}

static Tasklet *
tasklet_main(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *result = NULL, *error = NULL, *value, *function, *args, *kwargs;
    started_add(scheduler, tasklet);

    /* An exception thrown into a tasklet that has not run yet: it never runs at all. */
    if (likely(scheduler_resumed(scheduler, tasklet, &value) == 0) &&
        likely(switch_body_begin(scheduler, tasklet) == 0)) {
        Py_XDECREF(value); /* a tempval that nothing receives */
        ticks_spend(scheduler);
        if ((unlikely(--scheduler->begins <= 0) && begins_look(scheduler) < 0) ||
            (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0))
            result = NULL;
        else if (tasklet->kwargs == NULL)
            result = function_call(tasklet->function, tasklet->args);
        else
            result = PyObject_Call(tasklet->function, tasklet->args, tasklet->kwargs);
        if (unlikely(result == NULL))
            error = error_take();
        switch_body_done(scheduler);
    } else
        error = error_take();
    if (error != NULL && PyErr_GivenExceptionMatches(error, TaskletExit))
        Py_CLEAR(error);
    if (unlikely(error != NULL && error_handler != NULL))
        error = error_handle(error);

    if (unlikely(scheduler->trace != NULL))
        trace_ends(scheduler, tasklet, error != NULL);

    /* All that can run code is dropped while this tasklet is still the current one. */
    function = tasklet->function;
    args = tasklet->args;
    kwargs = tasklet->kwargs;
    tasklet->function = tasklet->args = tasklet->kwargs = NULL;
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (unlikely(tasklet->locals != NULL))
        locals_drop(tasklet, LOCALS_ROUNDS);
    Py_CLEAR(tasklet->context);
    if (unlikely(tasklet->scope != NULL))
        scope_left(tasklet);
    tempval_forget(tasklet);
    if (unlikely(tasklet->special & SPECIAL_TRACED)) {
        tracing_leaves(tasklet);
        tasklet->special &= (uint8_t)~SPECIAL_TRACED;
        Py_CLEAR(tasklet->tracing[0]);
        Py_CLEAR(tasklet->tracing[1]);
    }
    if (unlikely((tstate_loop(scheduler->tstate) | (tasklet->special & SPECIAL_LOOP)) != 0)) { /* it has left it running */
        loop_leaves(tasklet);
        loop_drop(tasklet);
    }

    started_remove(scheduler, tasklet);
    return scheduler_finish(scheduler, tasklet, error);
}
