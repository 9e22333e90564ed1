/* What the native backends have in common beyond frames: where the state of a tasklet is to be found. */

/* Where the reference to the tasklet's context is kept. */
static PyObject **
context_slot(Tasklet *tasklet)
{
    if (tasklet->state != TASKLET_STARTED)
        return &tasklet->context;
    if (tasklet == tasklet->scheduler->current)
        return &tasklet->scheduler->tstate->context;
    return &tasklet->sw.fields.context;
}

static PyObject *
switch_context(Tasklet *tasklet)
{
    PyObject **slot = context_slot(tasklet);
    if (*slot == NULL)
        *slot = PyContext_New();
    return Py_XNewRef(*slot);
}

static int
switch_set_context(Tasklet *tasklet, PyObject *context)
{
    PyObject **slot = context_slot(tasklet), *old = *slot;
    if (old != NULL && context_entered(old) != 0)
        return -1;
    *slot = Py_NewRef(context);
    tasklet->scheduler->tstate->context_ver++;
    Py_XDECREF(old);
    return 0;
}

static int
switch_depth(Tasklet *tasklet)
{
    PyThreadState *tstate = tasklet->scheduler->tstate;
    if (tasklet == tasklet->scheduler->current)
        return tstate->RECURSION_LIMIT - tstate->RECURSION_REMAINING;
    return tasklet->sw.fields.depth;
}

static int
switch_nesting(Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    bool runs = tasklet == tasklet->scheduler->current;
    _PyInterpreterFrame *frame =
        runs ? tstate_frame(tasklet->scheduler->tstate) : version_frame(&sw->fields.version, slice_saved_at, &sw->stack);
    int entries = 0;
    while (frame != NULL) {
        _PyInterpreterFrame *read = runs ? frame : slice_saved_at(&sw->stack, frame);
        entries += frame_is_entry(read);
        frame = read->previous;
    }
    return entries > 0 ? entries - 1 : 0;
}
