/* run(): let the others run until nothing is left to do, and interrupt those that run too long.

   A tasklet inside run() is taken out of the run queue and put on the stack scheduler->runs. When no tasklet can run, the
   innermost one is woken. One run() at a time has a watchdog, the first that asked for a budget: preempt.c counts the
   opcodes or the time, and calls scheduler_expired when they are used up. */

/* Take `tasklet` off the stack of runs, and those that entered run() later: they become runnable and return too. */
static void
runs_pop(Scheduler *scheduler, Tasklet *tasklet)
{
    while (tasklet->in_run) {
        Tasklet *innermost = scheduler->runs;
        scheduler->runs = innermost->run_outer;
        innermost->run_outer = NULL;
        innermost->in_run = false;
        if (scheduler->watchdog == innermost) {
            preempt_stop(scheduler);
            scheduler->watchdog = NULL;
            scheduler->interrupt_pending = false;
            scheduler->attention &= (uint8_t)~ATTEND_WATCHDOG;
        }
        if (innermost->blocked == BLOCKED_RUN)
            scheduler_wake(innermost);
    }
}

/* A watched thread switches from `from` to the head of the run queue, scheduler->first, which may be none: it begins a new
   slice, unless the budget is a total. A soft interrupt is taken here: the watchdog goes first. Two that meet at a channel
   are not torn apart: the one switched to takes the interrupt along. May run Python code, last. */
static void
watchdog_redirects(Scheduler *scheduler, Tasklet *from)
{
    Tasklet *watchdog = scheduler->watchdog, *to = scheduler->first;
    bool pending = scheduler->interrupt_pending && to != watchdog && watchdog->blocked == BLOCKED_RUN, meeting = scheduler->meeting;
    scheduler->meeting = false;
    scheduler->interrupt_pending = pending && meeting;
    if (pending && !meeting) {
        tasklet_unblock(watchdog);
        ring_append(scheduler, watchdog);
        scheduler->first = watchdog;
    } else if (!scheduler->run_total && (to != from || scheduler->run_slices))
        preempt_restart(scheduler);
}

static int
scheduler_expired(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current, *watchdog = scheduler->watchdog;
    PyObject *value;
    int failed = 0;
    if (watchdog == NULL || watchdog->blocked != BLOCKED_RUN || scheduler->idle) /* it is on its way out of run() */
        return 0;
    if (scheduler->run_soft) {
        scheduler->interrupt_pending = true;
        preempt_stop(scheduler);
        return 0;
    }
    if (scheduler->fixed != 0 || current->atomic > 0 || collection_calls(scheduler->tstate) ||
        (!scheduler->run_ignore_nesting && !current->ignore_nesting && preempt_nesting(scheduler) != 0))
        return 0;
    if (switch_guard(scheduler, current) < 0) { /* inside a foreign greenlet, or out of memory: at another time */
        PyErr_Clear();
        return 0;
    }
    if (scheduler->run_slices) {
        preempt_restart(scheduler);
        ticks_set(scheduler, 1);
        if (scheduler_may_suspend(scheduler) < 0) /* also looks at timers and the hub; raises what was thrown in from outside */
            return -1;
        if (current->next == current)
            return 0;
        failed = scheduler_switch(scheduler, current, current->next, &value);
    } else {
        preempt_stop(scheduler);
        if (scheduler->watchdog != watchdog || watchdog->blocked != BLOCKED_RUN) /* that ran code, which has woken it */
            return 0;
        Py_XSETREF(scheduler->interrupted, (Tasklet *)Py_NewRef((PyObject *)current));
        tasklet_unblock(watchdog);
        ring_link(current->next, watchdog);
        failed = scheduler_pause(scheduler, watchdog, NULL, &value);
    }
    if (!failed)
        Py_XDECREF(value);
    return failed;
}

/* `slice` in seconds as ns, > 0; -1 with an exception set. */
static int64_t
slice_ns(PyObject *slice)
{
    double seconds = PyFloat_AsDouble(slice);
    if (PyErr_Occurred())
        return -1;
    if (!(seconds >= 1e-6 && seconds <= 3600.0)) {
        PyErr_Format(PyExc_ValueError, "run(slice=%R): a slice is a number of seconds between 1e-06 and 3600, for instance 0.01", slice);
        return -1;
    }
    return (int64_t)(seconds * 1e9);
}

/* run() and run_queue(): `format` and `names` say what else they take, `hub` is the default of that. */
static PyObject *
run_with(PyObject *args, PyObject *kwargs, const char *format, char **names, int hub)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current, *next;
    PyObject *value, *slice_object = Py_None;
    Tasklet *interrupted;
    long long timeout = 0;
    int64_t slice = 0;
    int threadblock = 0, soft = 0, ignore_nesting = 0, total = 0, failed;
    bool watchdog;
    if (scheduler == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &timeout, &threadblock, &soft, &ignore_nesting,
                                                          &total, &hub, &slice_object))
        return NULL;
    if (timeout < 0)
        return PyErr_Format(PyExc_ValueError, "run(timeout=%lld): a time-out is a number of opcodes, 0 for none", timeout);
    if (slice_object != Py_None && (slice = slice_ns(slice_object)) < 0)
        return NULL;
    if (slice > 0 && (timeout > 0 || soft || total))
        return PyErr_Format(PyExc_ValueError, "run(): slice goes with neither timeout, soft nor totaltimeout, which belong to a budget of "
                                              "opcodes");
    if (scheduler_may_suspend(scheduler) < 0)
        return NULL;
    current = scheduler->current;
    runs_pop(scheduler, current); /* its outer run() is over: that returns, and drops something whose destructor calls this one */
    if (current->next == current && (!hub || scheduler->keepers == 0) && !threadblock)
        Py_RETURN_NONE;
    if (unlikely(current->scope != NULL) && (scope_check(current) < 0 || scope_arm(scheduler, current, ROAMLET_NEVER, true) < 0))
        return NULL;
    watchdog = (timeout > 0 || slice > 0) && scheduler->watchdog == NULL && scheduler->interrupted == NULL;
    if (watchdog) {
        if (preempt_start(scheduler, timeout, slice) < 0) {
            if (current->timer >= 0)
                timer_cancel(scheduler, current);
            return NULL;
        }
        scheduler->watchdog = current;
        scheduler->attention |= ATTEND_WATCHDOG;
        scheduler->run_soft = soft;
        scheduler->run_total = total;
        scheduler->run_ignore_nesting = ignore_nesting;
        scheduler->run_slices = slice > 0;
    }
    current->run_outer = scheduler->runs;
    current->in_run = true;
    current->run_hub = hub;
    current->run_threadblock = threadblock;
    scheduler->runs = current;
    next = scheduler_leave(current, NULL);
    current->next = current->prev = NULL;
    current->blocked = BLOCKED_RUN;
    failed = scheduler_suspend(scheduler, current, next, &value);
    runs_pop(scheduler, current);
    interrupted = NULL;
    if (watchdog) {
        interrupted = scheduler->interrupted;
        scheduler->interrupted = NULL;
    }
    if (failed) {
        if (interrupted != NULL && interrupted->blocked == NOT_BLOCKED && interrupted->next == NULL && tasklet_alive(interrupted))
            ring_append(scheduler, interrupted); /* no callback is told of it: it goes on by itself */
        else
            Py_XDECREF(interrupted);
        return NULL;
    }
    Py_XDECREF(value);
    return interrupted != NULL ? (PyObject *)interrupted : Py_NewRef(Py_None);
}

static PyObject *
core_run(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", "threadblock", "soft", "ignore_nesting", "totaltimeout", "hub", "slice", NULL};
    return run_with(args, kwargs, "|Lpppp$pO:run", names, true);
}

static PyObject *
core_run_queue(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", "threadblock", "soft", "ignore_nesting", "totaltimeout", NULL};
    return run_with(args, kwargs, "|Lpppp:run_queue", names, false);
}

/* ---- switch traps and callbacks ---- */

static PyObject *
core_switch_trap(PyObject *Py_UNUSED(module), PyObject *args)
{
    Scheduler *scheduler = scheduler_get();
    int change = 0, old;
    if (scheduler == NULL || !PyArg_ParseTuple(args, "|i:switch_trap", &change))
        return NULL;
    old = scheduler->switch_trap;
    if (__builtin_add_overflow(old, change, &scheduler->switch_trap)) {
        scheduler->switch_trap = old;
        return PyErr_Format(PyExc_OverflowError, "switch_trap(%d): the trap's level would leave the range of a C int", change);
    }
    scheduler->trapped = scheduler->switch_trap != 0;
    return PyLong_FromLong(old);
}

static PyObject *
core_set_single_stack(PyObject *Py_UNUSED(module), PyObject *on)
{
    bool before = single_stack;
    int truth = PyObject_IsTrue(on);
    if (truth < 0)
        return NULL;
    single_stack = truth;
    return PyBool_FromLong(before);
}

/* Put a callable, or nothing for None, in the place of `*hook`. Returns the one before, or None; NULL with an exception. */
static PyObject *
hook_replace(PyObject **hook, PyObject *callable, const char *what)
{
    PyObject *old = *hook;
    if (callable != Py_None && !PyCallable_Check(callable))
        return PyErr_Format(PyExc_TypeError, "%s takes a callable or None, not %R", what, callable);
    *hook = callable != Py_None ? Py_NewRef(callable) : NULL;
    return old != NULL ? old : Py_NewRef(Py_None);
}

static PyObject *
core_set_schedule_callback(PyObject *Py_UNUSED(module), PyObject *callback)
{
    PyObject *old = hook_replace(&schedule_callback, callback, "set_schedule_callback()");
    for (Scheduler *s = schedulers; old != NULL && s != NULL; s = s->registered_next) {
        s->attention &= (uint8_t)~ATTEND_CALLBACK;
        s->attention |= schedule_callback != NULL ? ATTEND_CALLBACK : 0;
    }
    return old;
}

static PyObject *
core_get_schedule_callback(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return Py_NewRef(schedule_callback != NULL ? schedule_callback : Py_None);
}

static PyObject *
core_set_channel_callback(PyObject *Py_UNUSED(module), PyObject *callback)
{
    PyObject *old = hook_replace(&channel_callback, callback, "set_channel_callback()");
    channel_attention = (channel_attention & ~(unsigned)CHANNEL_CALLBACK) | (channel_callback != NULL ? CHANNEL_CALLBACK : 0u);
    return old;
}

static PyObject *
core_get_channel_callback(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return Py_NewRef(channel_callback != NULL ? channel_callback : Py_None);
}

static PyObject *
core_set_error_handler(PyObject *Py_UNUSED(module), PyObject *handler)
{
    return hook_replace(&error_handler, handler, "set_error_handler()");
}

PyDoc_STRVAR(run_module_doc,
"run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False, *, hub=True, slice=None)\n--\n\n"
"Run until nothing is runnable and nothing waits in the hub: no sleep, descriptor, child process, job or remote reply.\n\n"
"Any tasklet may call it, usually main; it raises what a tasklet did not catch, and may be called again. Tasklets that are\n"
"blocked on channels do not keep it; with threadblock it also waits while other threads live that might wake one. With\n"
"hub=False it returns as soon as the run queue is empty.\n\n"
"slice, in seconds (float, 1e-06 to 3600): a tasklet that has run for so long goes to the end of the run queue.\n"
"timeout, a number of opcodes: a tasklet that has executed so many since it was switched to, or with totaltimeout all\n"
"together, is taken out of the run queue, and run returns it: insert() lets it go on. With soft it is not interrupted; run\n"
"returns None at its next switch. Returns None when everything is done. A tasklet is not interrupted while it is atomic\n"
"nor, unless ignore_nesting, inside C code that calls Python or an import. In a thread that runs under one time-out\n"
"or slice already, those of inner run() calls are ignored, as in Stackless. When run raises although it has interrupted a\n"
"tasklet, that one stays in the run queue.\n"
"ValueError for values out of range, RuntimeError where tasklets cannot be switched.");
PyDoc_STRVAR(run_queue_doc,
"run_queue(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False)\n--\n\n"
"Stackless's run(): like run(..., hub=False).");
PyDoc_STRVAR(switch_trap_doc, "switch_trap(change=0, /)\n--\n\n"
"Add `change` to this thread's trap level and return the level before. While it is not 0 a call that would switch\n"
"tasklets raises RuntimeError.");
PyDoc_STRVAR(set_single_stack_doc, "set_single_stack(on, /)\n--\n\n"
"Have tasklets that begin from now on share their thread's own C stack, or not, in all threads. Returns what was set before.\n\n"
"A greenlet of another library can be resumed in any tasklet of that stack; elsewhere only in the tasklet that made it. It is set\n"
"when greenlet is imported. Sharing costs a copy of some hundred bytes for each switch. Without effect on greenlet.");
PyDoc_STRVAR(set_schedule_callback_doc, "set_schedule_callback(callback, /)\n--\n\n"
"Have callback(previous, next) called before every switch, in all threads; None: no longer. Returns the one before.\n\n"
"It runs in the tasklet that is left and must not switch. What it raises is reported, not raised.");
PyDoc_STRVAR(get_schedule_callback_doc, "get_schedule_callback()\n--\n\nThe schedule callback, or None.");
PyDoc_STRVAR(set_channel_callback_doc, "set_channel_callback(callback, /)\n--\n\n"
"Have callback(channel, tasklet, sending, willblock) called before every channel operation, in all threads; None: no\n"
"longer. Returns the one before.\n\n"
"sending and willblock are bool; tasklet is the current one. It must not use channels. What it raises is reported.");
PyDoc_STRVAR(get_channel_callback_doc, "get_channel_callback()\n--\n\nThe channel callback, or None.");
PyDoc_STRVAR(set_error_handler_doc, "set_error_handler(handler, /)\n--\n\n"
"Have handler(type, value, traceback) called for errors that a tasklet does not catch, in that tasklet, in all threads,\n"
"instead of raising them in main; None: no longer. Returns the one before. What the handler raises goes to main.");
