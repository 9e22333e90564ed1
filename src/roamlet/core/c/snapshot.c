/* What roamlet.snapshot uses of the core: looking at a tasklet that does not run, and putting one into the state that another was
   saved in. Saving and building frames is that module's. */

static PyObject *core_schedule(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
static PyObject *core_schedule_remove(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

static int
api_inspect(PyObject *object, RoamletState *state)
{
    Tasklet *tasklet = (Tasklet *)object;
    bool started, meets;
    if (!PyObject_TypeCheck(object, &Tasklet_Type)) {
        PyErr_Format(PyExc_TypeError, "expected a tasklet, not %R", object);
        return -1;
    }
    started = tasklet->state == TASKLET_STARTED;
    meets = tasklet->blocked == BLOCKED_RECEIVE || tasklet->blocked == BLOCKED_SEND;
    *state = (RoamletState){
        .state = tasklet->state,
        .direction = meets ? tasklet->blocked : 0,
        .main = tasklet == tasklet->scheduler->main,
        .current = tasklet == tasklet->scheduler->current,
        .scheduled = ring_holds(tasklet),
        .waits = (tasklet->blocked != NOT_BLOCKED && !meets) || tasklet->in_run,
        .scoped = tasklet->scope != NULL,
        .locals = locals_any(tasklet),
        .looped = (tasklet->special & SPECIAL_LOOP) != 0,
        .preempted = tasklet->preempted,
        .iterates = tasklet->iterating,
        .ended = tasklet->timed_out,
        .raises = tasklet->raises,
        .sends_error = tasklet->sends_error,
        .atomic_flag = tasklet->atomic_flag,
        .atomic = tasklet->atomic,
        .channel = meets ? tasklet->waiting_on : NULL,
        .value = tasklet->tempval,
        .function = tasklet->function,
        .args = tasklet->args,
        .kwargs = tasklet->kwargs,
    };
    if (started && !state->current && tasklet->scheduler->tstate != NULL)
        switch_saved(tasklet, &state->context, &state->handled);
    else if (!started)
        state->context = tasklet->context;
    return 0;
}

static int
api_frames(PyObject *object, RoamletFrameVisit each, void *arg)
{
    Tasklet *tasklet = (Tasklet *)object;
    assert(tasklet->state == TASKLET_STARTED && tasklet != tasklet->scheduler->current);
    return switch_frames(tasklet, each, arg);
}

static bool
api_selects(PyObject *channel)
{
    return ((Channel *)channel)->cases != NULL;
}

static PyObject *
api_buffered(PyObject *channel)
{
    return buffer_list((Channel *)channel);
}

static bool
is_method(PyMethodDef *method, void *function)
{
    return (void *)method->ml_meth == function;
}

static int
api_call_suspends(PyObject *callable)
{
    static void *const returns_none[] = {(void *)Channel_send, (void *)Channel_receive, (void *)Channel_send_exception,
                                         (void *)Channel_send_throw, (void *)Tasklet_run, (void *)Tasklet_switch,
                                         (void *)Tasklet_kill, (void *)Tasklet_throw, (void *)Tasklet_raise_exception};
    PyMethodDef *method = NULL;
    if (PyCFunction_Check(callable))
        method = ((PyCFunctionObject *)callable)->m_ml;
    else if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        method = ((PyMethodDescrObject *)callable)->d_method;
    if (method == NULL)
        return ROAMLET_CALL_UNKNOWN;
    if (is_method(method, (void *)core_schedule) || is_method(method, (void *)core_schedule_remove))
        return ROAMLET_CALL_ARGUMENT;
    for (size_t i = 0; i < sizeof returns_none / sizeof *returns_none; i++)
        if (is_method(method, returns_none[i]))
            return ROAMLET_CALL_NONE;
    return ROAMLET_CALL_UNKNOWN;
}

static int
api_pause(PyObject *const *operands, PyObject **value)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current;
    if (scheduler == NULL || scheduler_may_switch(scheduler) < 0 || switch_guard(scheduler, scheduler->current) < 0)
        return -1;
    current = scheduler->current;
    tempval_forget(current);
    if (scheduler_pause(scheduler, NULL, operands, value) < 0)
        return -1;
    if (current->timed_out) {
        current->timed_out = false;
        Py_CLEAR(*value);
        return 1;
    }
    return 0;
}

static void
api_settle(PyObject *object, const RoamletState *state)
{
    Tasklet *tasklet = (Tasklet *)object;
    PyObject *old = tasklet->tempval;
    assert(tasklet->next == NULL && tasklet->blocked == NOT_BLOCKED);
    tasklet->tempval = Py_XNewRef(state->value);
    tasklet->raises = state->raises;
    tasklet->sends_error = state->sends_error;
    tasklet->timed_out = state->ended;
    tasklet->atomic = state->atomic;
    tasklet->atomic_flag = state->atomic_flag;
    if (state->atomic > 0)
        tasklet->special |= SPECIAL_ATOMIC;
    if (state->direction != 0) {
        Py_INCREF(tasklet);
        channel_queue((Channel *)state->channel, tasklet, state->direction);
        tasklet->iterating = state->iterates;
    } else if (state->scheduled)
        ring_append(tasklet->scheduler, (Tasklet *)Py_NewRef(object));
    Py_XDECREF(old);
}

static void
api_detach(PyObject *object)
{
    Tasklet *tasklet = (Tasklet *)object;
    if (tasklet->blocked == BLOCKED_RECEIVE || tasklet->blocked == BLOCKED_SEND)
        tasklet_unblock(tasklet);
    else if (ring_holds(tasklet))
        ring_remove(tasklet->scheduler, tasklet);
    else
        return;
    Py_DECREF(tasklet); /* the queue's; the caller has another */
}

static void
api_silence(PyObject *object)
{
    Tasklet *tasklet = (Tasklet *)object;
    assert(tasklet->state == TASKLET_STARTED && tasklet != tasklet->scheduler->current);
    switch_silence(tasklet);
}

static bool
api_hold(PyObject *object, bool held)
{
    Tasklet *tasklet = (Tasklet *)object;
    bool killed = tasklet->killed;
    tasklet->held = held;
    tasklet->killed = false;
    return killed;
}
