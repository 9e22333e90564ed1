/* The end of a tasklet object: its finalizer, its memory, and what the collector sees of it. */

static void collector_note(Tasklet *tasklet);
static int tasklet_visit(Tasklet *tasklet, bool frames, visitproc visit, void *arg);
static bool tasklet_hidden(Tasklet *tasklet);
static bool tasklet_transparent(Tasklet *tasklet);

/* Nothing refers to a suspended tasklet any more, or only other garbage does: end it, so that its finally blocks run and its
   frames are freed. At once, but not inside a collection, nor where others refer to it after all (its __del__ was called),
   nor where nothing may be switched. */
static void
Tasklet_finalize(PyObject *self)
{
    Tasklet *tasklet = (Tasklet *)self;
    PyObject *raised, *error, *result;
    bool collected = collection_calls(PyThreadState_Get()), pending = collected || Py_REFCNT(self) > 1;
    if (tasklet->state != TASKLET_STARTED || tasklet->scheduler->tstate == NULL)
        return;
    raised = error_take();
    if (collected)
        collector_note(tasklet);
    error = PyObject_CallNoArgs(TaskletExit);
    result = error != NULL ? tasklet_throw(tasklet, error, pending || (this_scheduler != NULL && this_scheduler->fixed != 0)) : NULL;
    if (result == NULL)
        PyErr_WriteUnraisable(self);
    Py_XDECREF(result);
    error_restore(raised);
}

/* Nothing refers to a started tasklet: end it. The finalizer that CPython calls once may have been used up, by the
   collector or by a subclass's __del__. Whether anything refers to it again; it must not be freed then. Switches. */
static bool
tasklet_end_unreferenced(Tasklet *tasklet)
{
    PyObject *self = (PyObject *)tasklet;
    Py_SET_REFCNT(self, 1);
    for (int round = 0; round < KILL_ROUNDS && tasklet->state == TASKLET_STARTED && Py_REFCNT(self) == 1; round++)
        Tasklet_finalize(self);
    if (tasklet->state == TASKLET_STARTED && Py_REFCNT(self) == 1 && tasklet->scheduler->tstate != NULL) {
        PyObject *raised = error_take();
        PyErr_SetString(PyExc_RuntimeError, "the tasklet goes on after TaskletExit although nothing refers to it any more: "
                                            "it is abandoned where it is, and its frames are never freed");
        PyErr_WriteUnraisable(self);
        error_restore(raised);
    }
    if (Py_REFCNT(self) == 1) {
        Py_SET_REFCNT(self, 0);
        return false;
    }
    if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE)) /* the deallocator of a subclass drops one on return */
        Py_INCREF(Py_TYPE(self));
    Py_DECREF(self);
    return true;
}

/* Drop what a tasklet holds that is not under way. May run code. */
static inline void
tasklet_drop_held(Tasklet *tasklet)
{
    Py_CLEAR(tasklet->function);
    Py_CLEAR(tasklet->args);
    Py_CLEAR(tasklet->kwargs);
    Py_CLEAR(tasklet->context);
    Py_CLEAR(tasklet->tempval);
    Py_CLEAR(tasklet->tracing[0]);
    Py_CLEAR(tasklet->tracing[1]);
    loop_drop(tasklet);
    lazy_imports_drop(tasklet);
    if (unlikely(tasklet->locals != NULL))
        locals_drop(tasklet, INT_MAX);
    if (unlikely(tasklet->scope != NULL))
        scope_left(tasklet);
}

static void
Tasklet_dealloc(PyObject *self)
{
    Tasklet *tasklet = (Tasklet *)self;
    Scheduler *scheduler = tasklet->scheduler;
    if (unlikely(tasklet->state == TASKLET_STARTED) && tasklet_end_unreferenced(tasklet))
        return;
    PyObject_GC_UnTrack(self);
    if (unlikely(tasklet->state == TASKLET_STARTED)) {
        /* It refused to end, or cannot be switched to from here. Its frames cannot be freed without it: all is lost. */
        if (scheduler->tstate != NULL)
            started_remove(scheduler, tasklet);
        return;
    }
    if (unlikely(tasklet->weakrefs != NULL))
        PyObject_ClearWeakRefs(self);
    tasklet_drop_held(tasklet);
    switch_free(tasklet);
    tasklet->scheduler = NULL;
    if (scheduler != NULL)
        scheduler_release(scheduler);
    if (Py_IS_TYPE(self, &Tasklet_Type) && tasklet_pooled < TASKLET_POOL && !PyObject_GC_IsFinalized(self)) {
        /* Not sizeof, a constant: gcc makes `rep stos` of that, which takes several times as long as a call. */
        memset((char *)tasklet + sizeof(PyObject), 0, (size_t)Tasklet_Type.tp_basicsize - sizeof(PyObject));
        tasklet_pool[tasklet_pooled++] = tasklet;
    } else
        Py_TYPE(self)->tp_free(self);
}

/* Visit what the tasklet holds, with or without what its suspended frames own. */
static int
tasklet_visit(Tasklet *tasklet, bool frames, visitproc visit, void *arg)
{
    Py_VISIT(tasklet->function);
    Py_VISIT(tasklet->args);
    Py_VISIT(tasklet->kwargs);
    Py_VISIT(tasklet->context);
    Py_VISIT(tasklet->tempval);
    Py_VISIT(tasklet->tracing[0]);
    Py_VISIT(tasklet->tracing[1]);
    Py_VISIT(tasklet->scope);
    if (unlikely(tasklet->loop != NULL)) {
        int failed = loop_visit(tasklet, visit, arg);
        if (failed)
            return failed;
    }
    if (unlikely((tasklet->special & SPECIAL_LAZY) != 0)) {
        int failed = lazy_imports_visit(tasklet, visit, arg);
        if (failed)
            return failed;
    }
    if (frames && tasklet->blocked == BLOCKED_QUEUE && Py_IS_TYPE(tasklet->waiting_on, &Select_Type))
        Py_VISIT(tasklet->waiting_on); /* the reference of the call that waits */
    return switch_traverse(tasklet, frames, visit, arg);
}

static int
Tasklet_traverse(PyObject *self, visitproc visit, void *arg)
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->state == TASKLET_STARTED && tasklet_hidden(tasklet))
        return 0;
    return tasklet_visit(tasklet, tasklet_transparent(tasklet), visit, arg);
}

/* Only what a tasklet that has not started holds can be cut: a started one needs all it has until it ends. */
static int
Tasklet_clear(PyObject *self)
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->state == TASKLET_STARTED)
        return 0;
    tasklet_drop_held(tasklet);
    return 0;
}
