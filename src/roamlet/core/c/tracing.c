/* Trace and profile functions of a tasklet's own. As everywhere in CPython they belong to the thread, and its tasklets
   share them; one that was given its own has the thread's replaced for as long as it runs. */

/* Call sys.settrace or sys.setprofile. Errors have no place to go: they are reported. May run Python code (audit hooks). */
static void
tracing_call(const char *name, PyObject *function)
{
    PyObject *set = PySys_GetObject(name), *result = set != NULL ? PyObject_CallOneArg(set, function) : NULL;
    if (result == NULL && PyErr_Occurred())
        PyErr_WriteUnraisable(set);
    Py_XDECREF(result);
}

/* What the thread has installed now: a borrowed reference. */
static PyObject *
tracing_installed(PyThreadState *tstate, bool profile)
{
    PyObject *function = profile ? tstate->c_profileobj : tstate->c_traceobj;
    return function != NULL ? function : Py_None;
}

static const char *
tracing_setter(bool profile)
{
    return profile ? "setprofile" : "settrace";
}

/* The tasklet runs from here on: install what is its own. */
static void
tracing_enters(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    PyObject *raised = error_take();
    for (int profile = 0; profile < 2; profile++)
        if (tasklet->tracing[profile] != NULL) {
            Py_XSETREF(scheduler->tracing[profile], Py_NewRef(tracing_installed(scheduler->tstate, profile)));
            tracing_call(tracing_setter(profile), tasklet->tracing[profile]);
        }
    error_restore(raised);
}

/* The tasklet runs no longer: keep what it has installed as its own, and give the thread back its. */
static void
tracing_leaves(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    PyObject *raised = error_take();
    for (int profile = 0; profile < 2; profile++)
        if (tasklet->tracing[profile] != NULL && scheduler->tracing[profile] != NULL) {
            Py_XSETREF(tasklet->tracing[profile], Py_NewRef(tracing_installed(scheduler->tstate, profile)));
            tracing_call(tracing_setter(profile), scheduler->tracing[profile]);
            Py_CLEAR(scheduler->tracing[profile]);
        }
    error_restore(raised);
}

/* CPython traces nothing while a trace function runs in a thread. One that switches, as what is typed at a debugger's prompt may, is still
   in the middle when another tasklet runs: that one is not traced either, or a second prompt would come up in the first one's. So it is
   for callbacks of sys.monitoring, which CPython counts as it does trace functions. A run() with a budget or slices sees by the same events
   what its tasklets do: then they are traced all the same. The two below are called around a switch. */
static void
tracing_suspends(Scheduler *scheduler, Tasklet *from)
{
    PyThreadState *tstate = scheduler->tstate;
    if (from->special & SPECIAL_MUTED) {
        from->special &= (uint8_t)~SPECIAL_MUTED;
        tstate->tracing--;
    }
    if (tstate->tracing > 0 && from->state == TASKLET_STARTED) {
        from->special |= SPECIAL_IN_TRACE;
        scheduler->in_trace++;
        scheduler->attention |= ATTEND_DEBUGGER;
    }
}

static void
tracing_resumes(Scheduler *scheduler, Tasklet *tasklet)
{
    PyThreadState *tstate = scheduler->tstate;
    if (tasklet->special & SPECIAL_IN_TRACE) {
        tasklet->special &= (uint8_t)~SPECIAL_IN_TRACE;
        if (--scheduler->in_trace == 0)
            scheduler->attention &= (uint8_t)~ATTEND_DEBUGGER;
    } else if (tstate->tracing == 0 && (scheduler->attention & ATTEND_WATCHDOG) == 0) {
        tasklet->special |= SPECIAL_MUTED;
        tstate->tracing++;
#if ROAMLET_VERSION_KNOWN
        version_resumed(tstate);
#endif
    }
}

/* A new reference to the function that traces or profiles the tasklet. */
static PyObject *
tracing_get(Tasklet *tasklet, bool profile)
{
    Scheduler *scheduler = tasklet->scheduler;
    if (scheduler->tstate == NULL)
        Py_RETURN_NONE;
    if (tasklet != scheduler->current) {
        if (tasklet->tracing[profile] != NULL)
            return Py_NewRef(tasklet->tracing[profile]);
        if (scheduler->tracing[profile] != NULL) /* the running one's own is installed */
            return Py_NewRef(scheduler->tracing[profile]);
    }
    return Py_NewRef(tracing_installed(scheduler->tstate, profile));
}

/* Give the tasklet a function of its own (borrowed; None: it is not traced), or with NULL its thread's again. */
static int
tracing_set(Tasklet *tasklet, PyObject *function, bool profile)
{
    Scheduler *scheduler = tasklet->scheduler;
    bool runs = tasklet == scheduler->current && !scheduler->idle;
    if (function != NULL && function != Py_None && !PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "a %s function is a callable or None, not %R", profile ? "profile" : "trace", function);
        return -1;
    }
    if (scheduler->tstate == NULL || tasklet->state == TASKLET_UNBOUND) {
        PyErr_SetString(PyExc_RuntimeError, "tasklet is not alive: only a tasklet with a function and arguments can be traced");
        return -1;
    }
    if (runs && scheduler != this_scheduler) {
        PyErr_Format(PyExc_RuntimeError, "You cannot set the %s function of the current tasklet of another thread",
                     profile ? "profile" : "trace");
        return -1;
    }
    if (runs) {
        PyObject *now = function != NULL ? function : scheduler->tracing[profile];
        if (function != NULL && scheduler->tracing[profile] == NULL)
            scheduler->tracing[profile] = Py_NewRef(tracing_installed(scheduler->tstate, profile));
        Py_XINCREF(now);
        if (now != NULL)
            tracing_call(tracing_setter(profile), now);
        Py_XDECREF(now);
        if (function == NULL)
            Py_CLEAR(scheduler->tracing[profile]);
    }
    Py_XSETREF(tasklet->tracing[profile], Py_XNewRef(function));
    if (tasklet->tracing[0] != NULL || tasklet->tracing[1] != NULL)
        tasklet->special |= SPECIAL_TRACED;
    else
        tasklet->special &= (uint8_t)~SPECIAL_TRACED;
    return 0;
}
