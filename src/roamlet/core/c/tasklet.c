/* Tasklets: making, binding, running and killing them. Their end is in finalize.c, their attributes and tables in inspect.c. */

#ifndef TASKLET_POOL
#define TASKLET_POOL 1024
#endif
static Tasklet *tasklet_pool[TASKLET_POOL];
static int tasklet_pooled;

/* A new tasklet of this thread's scheduler: a new reference, or NULL with an exception set. */
static Tasklet *
tasklet_alloc(PyTypeObject *type, Scheduler *scheduler)
{
    Tasklet *tasklet;
    if (type == &Tasklet_Type && tasklet_pooled > 0) {
        tasklet = tasklet_pool[--tasklet_pooled];
        (void)PyObject_Init((PyObject *)tasklet, type);
        PyObject_GC_Track(tasklet);
    } else {
        tasklet = (Tasklet *)type->tp_alloc(type, 0);
        if (tasklet == NULL)
            return NULL;
    }
    tasklet->timer = -1;
    tasklet->scheduler = scheduler;
    scheduler->tasklets++;
    return tasklet;
}

static inline bool
tasklet_alive(Tasklet *tasklet)
{
    return tasklet->state != TASKLET_UNBOUND;
}

static int
thread_gone(Tasklet *tasklet)
{
    if (tasklet->scheduler->tstate != NULL)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "the thread of %R has ended: tasklets do not outlive their thread", tasklet);
    return -1;
}

/* Let `error` (stolen) be raised where the tasklet goes on. A value in transit is dropped, last: that may run code. */
static void
tasklet_set_error(Tasklet *tasklet, PyObject *error)
{
    PyObject *old = tasklet->tempval;
    tasklet->tempval = error;
    tasklet->raises = true;
    tasklet->sends_error = false;
    Py_XDECREF(old);
}

/* Whether the context is inside Context.run(), which must find it in place when it ends: 0, or -1 with an exception set. */
static int
context_entered(PyObject *context)
{
    if (PyContext_Enter(context) == 0)
        return PyContext_Exit(context);
    PyErr_Clear();
    PyErr_SetString(PyExc_RuntimeError, "set_context(): the tasklet's context, maybe in another tasklet, is inside Context.run(), "
                                        "which must end first");
    return -1;
}

/* ---- binding ---- */

/* Refuse to bind a tasklet that is running, waiting or under way. */
static int
tasklet_may_bind(Tasklet *tasklet)
{
    const char *why = NULL;
    if (tasklet == tasklet->scheduler->current)
        why = "can't (re)bind the current tasklet";
    else if (ring_holds(tasklet))
        why = "tasklet is scheduled: kill() or remove() it before it is bound again";
    else if (tasklet->state == TASKLET_STARTED)
        why = "tasklet has C state on its stack: it is in the middle of its function; kill() it before it is bound again";
    if (why == NULL)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, why);
    return -1;
}

static int
function_check(PyObject *function)
{
    if (function == Py_None || PyCallable_Check(function))
        return 0;
    PyErr_Format(PyExc_TypeError, "tasklet function must be a callable or None, not %R", function);
    return -1;
}

/* Bind to a callable (borrowed), or to none. */
static void
tasklet_bind_function(Tasklet *tasklet, PyObject *function)
{
    tasklet->state = TASKLET_UNBOUND;
    Py_XSETREF(tasklet->function, Py_XNewRef(function));
}

/* Give a bound tasklet its arguments: it is alive from here on. Borrows args (a tuple) and kwargs (a dict or NULL). */
static int
tasklet_bind_args(Tasklet *tasklet, PyObject *args, PyObject *kwargs)
{
    Scheduler *here = this_scheduler;
    PyThreadState *tstate = likely(here != NULL) ? here->tstate : PyThreadState_Get();
    PyObject *context = NULL, *old_context, *old_args, *old_kwargs;
    if (thread_gone(tasklet) < 0)
        return -1;
    if (tasklet->function == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the tasklet was not bound to a function: tasklet(function)(*args)");
        return -1;
    }
    if (tstate->context != NULL && (context = PyContext_CopyCurrent()) == NULL) /* without one: an empty one */
        return -1;
    old_context = tasklet->context;
    old_args = tasklet->args;
    old_kwargs = tasklet->kwargs;
    tasklet->context = context;
    tasklet->args = Py_NewRef(args);
    tasklet->kwargs = Py_XNewRef(kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0 ? kwargs : NULL);
    switch_renew(tasklet);
    tasklet->state = TASKLET_NEW;
    if (unlikely(tasklet->scheduler->trace != NULL))
        trace_born(tasklet);
    Py_XDECREF(old_context); /* last: it may run code, which may run this tasklet */
    Py_XDECREF(old_args);
    Py_XDECREF(old_kwargs);
    return 0;
}

static void
refuse_held(Tasklet *tasklet)
{
    PyErr_Format(PyExc_RuntimeError, "%R is on its way to another process: it can be killed, and nothing else", tasklet);
}

/* Whether the tasklet may be made runnable: 0, or -1 with an exception set. */
static int
tasklet_may_insert(Tasklet *tasklet)
{
    if (thread_gone(tasklet) < 0)
        return -1;
    if (unlikely(tasklet->held)) {
        refuse_held(tasklet);
        return -1;
    }
    if (tasklet->blocked == BLOCKED_RUN)
        return 0;
    if (tasklet->blocked != NOT_BLOCKED) {
        PyErr_Format(PyExc_RuntimeError, "You cannot run a blocked tasklet: %R waits for its channel or wake-up", tasklet);
        return -1;
    }
    if (!tasklet_alive(tasklet)) {
        PyErr_SetString(PyExc_RuntimeError, "You cannot run an unbound(dead) tasklet: bind it to a function and arguments first");
        return -1;
    }
    return 0;
}

static int
tasklet_insert(Tasklet *tasklet)
{
    if (tasklet_may_insert(tasklet) < 0)
        return -1;
    if (tasklet->blocked == BLOCKED_RUN) {
        scheduler_wake(tasklet);
        return 0;
    }
    if (tasklet->next == NULL) {
        ring_append(tasklet->scheduler, (Tasklet *)Py_NewRef((PyObject *)tasklet));
        if (unlikely(tasklet->scheduler->sleeping))
            scheduler_ring(tasklet->scheduler);
    }
    return 0;
}

static PyObject *
Tasklet_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Tasklet *tasklet = (Tasklet *)self;
    if (unlikely(tasklet_alive(tasklet)))
        return PyErr_Format(PyExc_RuntimeError, "tasklet is alive: it has its arguments already, and one tasklet runs once at a time");
    if (tasklet_may_bind(tasklet) < 0 || tasklet_bind_args(tasklet, args, kwargs) < 0 || tasklet_insert(tasklet) < 0)
        return NULL;
    return Py_NewRef(self);
}

/* The arguments that a function is to be called with, as a new tuple. NULL with an exception set. May run Python code. */
static PyObject *
bound_args(PyObject *args)
{
    PyObject *tuple = PySequence_Tuple(args);
    if (tuple == NULL && Py_TYPE(args)->tp_iter == NULL && !PySequence_Check(args)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "the function's arguments are given in a call of their own, or as a tuple: "
                                      "tasklet(function)(%R), or bind(function, (%R,)), not %R", args, args, args);
    }
    return tuple;
}

static PyObject *
Tasklet_bind(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"func", "args", "kwargs", NULL};
    Tasklet *tasklet = (Tasklet *)self;
    PyObject *function = Py_None, *call_args = Py_None, *call_kwargs = Py_None, *tuple = NULL;
    bool with_args;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO:bind", names, &function, &call_args, &call_kwargs))
        return NULL;
    if (call_kwargs != Py_None && !PyDict_Check(call_kwargs))
        return PyErr_Format(PyExc_TypeError, "bind(): kwargs is a dict or None, not %R", call_kwargs);
    with_args = call_args != Py_None || call_kwargs != Py_None;
    if (function_check(function) < 0)
        return NULL;
    if (with_args && (tuple = call_args == Py_None ? PyTuple_New(0) : bound_args(call_args)) == NULL)
        return NULL;
    if (tasklet_may_bind(tasklet) < 0)
        goto failed;
    if (function != Py_None || !with_args) {
        tasklet_bind_function(tasklet, function == Py_None ? NULL : function);
        /* Dropping the old function may have run code, which may have run this tasklet. */
        if (with_args && tasklet_may_bind(tasklet) < 0)
            goto failed;
    }
    if (with_args && tasklet_bind_args(tasklet, tuple, call_kwargs == Py_None ? NULL : call_kwargs) < 0)
        goto failed;
    Py_XDECREF(tuple);
    return Py_NewRef(self);

failed:
    Py_XDECREF(tuple);
    return NULL;
}

static PyObject *
Tasklet_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? (PyObject *)tasklet_alloc(type, scheduler) : NULL;
}

static int
Tasklet_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *bound = Tasklet_bind(self, args, kwargs);
    Py_XDECREF(bound);
    return bound != NULL ? 0 : -1;
}

/* tasklet(function), the common call, without the tuple that tp_new and tp_init want. */
static PyObject *
Tasklet_vectorcall(PyObject *type, PyObject *const *args, size_t flags, PyObject *names)
{
    Scheduler *scheduler;
    Tasklet *tasklet;
    if (unlikely(PyVectorcall_NARGS(flags) != 1 || names != NULL || args[0] == Py_None)) {
        PyObject *tuple = PyTuple_New(PyVectorcall_NARGS(flags)), *kwargs = names != NULL ? PyDict_New() : NULL, *made = NULL;
        bool failed = tuple == NULL || (names != NULL && kwargs == NULL);
        for (Py_ssize_t i = 0; !failed && i < PyVectorcall_NARGS(flags); i++)
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
        for (Py_ssize_t i = 0; !failed && names != NULL && i < PyTuple_GET_SIZE(names); i++)
            failed = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i), args[PyVectorcall_NARGS(flags) + i]) < 0;
        if (!failed && (made = Tasklet_new((PyTypeObject *)type, tuple, kwargs)) != NULL && Tasklet_init(made, tuple, kwargs) < 0)
            Py_CLEAR(made);
        Py_XDECREF(tuple);
        Py_XDECREF(kwargs);
        return made;
    }
    scheduler = scheduler_get();
    if (unlikely(scheduler == NULL || function_check(args[0]) < 0))
        return NULL;
    tasklet = tasklet_alloc((PyTypeObject *)type, scheduler);
    if (likely(tasklet != NULL))
        tasklet_bind_function(tasklet, args[0]);
    return (PyObject *)tasklet;
}

static PyObject *
Tasklet_bind_thread(PyObject *self, PyObject *args)
{
    Tasklet *tasklet = (Tasklet *)self;
    Scheduler *from = tasklet->scheduler, *to = scheduler_get();
    PyObject *thread = Py_None;
    unsigned long id;
    if (to == NULL || !PyArg_ParseTuple(args, "|O:bind_thread", &thread))
        return NULL;
    if (thread != Py_None && !thread_id_is_own(thread)) {
        if (!thread_id_from(thread, &id))
            return NULL;
        if (!thread_find(id, &to) || to == NULL)
            return PyErr_Format(PyExc_ValueError, "bad thread: thread %lu %s", id,
                                to == NULL ? "has not used roamlet yet: call roamlet.getcurrent() in it first" : "does not live");
    }
    if (to == from)
        Py_RETURN_NONE;
    if (tasklet == from->main || ring_holds(tasklet))
        return PyErr_Format(PyExc_RuntimeError, "can't (re)bind a runnable tasklet to another thread: remove() it first");
    if (tasklet == from->current) /* it has ended, but its thread sleeps on its C stack, or tells a callback of its end */
        return PyErr_Format(PyExc_RuntimeError, "can't (re)bind the tasklet that ended last in its thread before another runs there: "
                                                "make a new one");
    if (tasklet->state == TASKLET_STARTED)
        return PyErr_Format(PyExc_RuntimeError, "tasklet has C state on its stack: a tasklet that has started stays in its thread");
    switch_renew(tasklet); /* main, or one that refused to end with its thread, is still known where that ran */
    tasklet->scheduler = to;
    to->tasklets++;
    scheduler_release(from);
    Py_RETURN_NONE;
}

/* ---- running ---- */

static PyObject *
Tasklet_insert(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return tasklet_insert((Tasklet *)self) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *
Tasklet_remove(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->blocked != NOT_BLOCKED && tasklet->blocked != BLOCKED_RUN)
        return PyErr_Format(PyExc_RuntimeError, "You cannot remove a blocked tasklet: %R is in no run queue", tasklet);
    if (tasklet == tasklet->scheduler->current)
        return PyErr_Format(PyExc_RuntimeError, "The current tasklet cannot be removed: schedule_remove() suspends it");
    if (ring_holds(tasklet)) {
        ring_remove(tasklet->scheduler, tasklet);
        Py_DECREF(tasklet); /* the ring's; the caller has another */
    }
    return Py_NewRef(self);
}

/* Let the runnable tasklet `to` run at once, before the current one. Must be in the ring of this thread. */
static PyObject *
tasklet_run_now(Scheduler *scheduler, Tasklet *to)
{
    PyObject *value;
    if (scheduler_switch(scheduler, scheduler->current, to, &value) < 0)
        return NULL;
    return value != NULL ? value : Py_NewRef(Py_None);
}

static PyObject *
Tasklet_run(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Tasklet *tasklet = (Tasklet *)self;
    Scheduler *scheduler = scheduler_get();
    if (scheduler == NULL)
        return NULL;
    if (tasklet == scheduler->current)
        Py_RETURN_NONE;
    if (tasklet_may_insert(tasklet) < 0 || (tasklet->scheduler == scheduler && scheduler_may_suspend(scheduler) < 0))
        return NULL;
    if (tasklet_insert(tasklet) < 0)
        return NULL;
    if (tasklet->scheduler != scheduler) {
        ring_move_first(tasklet->scheduler, tasklet);
        Py_RETURN_NONE;
    }
    return tasklet_run_now(scheduler, tasklet);
}

/* Take the current tasklet out of the run queue; only its own holders refer to it until it is inserted again.
   `operands`: see scheduler_leave. */
static int
scheduler_pause(Scheduler *scheduler, Tasklet *next, PyObject *const *operands, PyObject **value)
{
    Tasklet *current = scheduler->current, *after = scheduler_leave(current, operands);
    current->next = current->prev = NULL;
    assert(scheduler->zombie == NULL);
    scheduler->zombie = (PyObject *)current; /* the ring's reference: dropped by the next tasklet that runs */
    return scheduler_suspend(scheduler, current, next != NULL ? next : after, value);
}

static PyObject *
Tasklet_switch(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Tasklet *tasklet = (Tasklet *)self;
    Scheduler *scheduler = scheduler_get();
    PyObject *value;
    if (scheduler == NULL)
        return NULL;
    if (count != 0)
        return PyErr_Format(PyExc_TypeError, "tasklet.switch() takes no arguments (%zd given)", count);
    if (tasklet == scheduler->current)
        Py_RETURN_NONE;
    if (tasklet_may_insert(tasklet) < 0 || scheduler_may_suspend(scheduler) < 0)
        return NULL;
    if (tasklet->scheduler != scheduler)
        return PyErr_Format(PyExc_RuntimeError, "can't switch to a different thread: insert() makes the tasklet runnable there");
    if (tasklet_insert(tasklet) < 0)
        return NULL;
    if (scheduler_pause(scheduler, tasklet, arguments_end(args, count, NULL), &value) < 0)
        return NULL;
    return value != NULL ? value : Py_NewRef(Py_None);
}

/* Raise `error` (stolen) in the tasklet: at once, switching to it, or when it runs next. A new reference to None, or NULL
   with an exception set: what was thrown when the tasklet is the current one, or why it could not be. */
static PyObject *
tasklet_throw(Tasklet *tasklet, PyObject *error, bool pending)
{
    Scheduler *scheduler = pending ? this_scheduler : scheduler_get();
    if (scheduler == NULL && !pending) {
        Py_DECREF(error);
        return NULL;
    }
    if (scheduler != NULL && tasklet == scheduler->current && !scheduler->idle) {
        error_raise(error);
        return NULL;
    }
    if (!tasklet_alive(tasklet) || thread_gone(tasklet) < 0) {
        if (PyErr_GivenExceptionMatches(error, TaskletExit)) {
            PyErr_Clear();
            tasklet->state = TASKLET_UNBOUND; /* one that was not started when its thread ended: now it never will be */
            Py_DECREF(error);
            Py_RETURN_NONE;
        }
        Py_DECREF(error);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "You cannot throw to a dead tasklet: it has no frame to raise the exception in");
        return NULL;
    }
    pending = pending || tasklet->scheduler != scheduler || scheduler->idle || scheduler->polling || collection_forbids(scheduler);
    if (!pending && scheduler_may_suspend(scheduler) < 0) {
        Py_DECREF(error);
        return NULL;
    }
    pending = pending || tasklet->scheduler != scheduler; /* the hub, looked at on the way, may have bound it elsewhere */
    Py_INCREF(tasklet); /* setting the error may drop what held it */
    if (tasklet->blocked != NOT_BLOCKED)
        scheduler_wake(tasklet);
    else if (tasklet->next == NULL && tasklet_insert(tasklet) < 0) {
        Py_DECREF(tasklet);
        Py_DECREF(error);
        return NULL;
    }
    if (tasklet == tasklet->scheduler->current) /* it runs, in another thread: it looks before it switches next */
        ticks_set(tasklet->scheduler, 0);
    tasklet_set_error(tasklet, error);
    if (!pending && tasklet->raises && ring_holds(tasklet) && tasklet != scheduler->current) {
        PyObject *value = tasklet_run_now(scheduler, tasklet);
        Py_DECREF(tasklet);
        if (value == NULL)
            return NULL;
        Py_DECREF(value);
        Py_RETURN_NONE;
    }
    Py_DECREF(tasklet);
    Py_RETURN_NONE;
}

/* An exception that another tasklet throws: see tasklet_throw(). Not into one that is held, for it may run elsewhere already. */
static PyObject *
tasklet_thrown(Tasklet *tasklet, PyObject *error, bool pending)
{
    if (!tasklet->held)
        return tasklet_throw(tasklet, error, pending);
    if (PyErr_GivenExceptionMatches(error, TaskletExit)) {
        Py_DECREF(error);
        tasklet->killed = true;
        Py_RETURN_NONE;
    }
    Py_DECREF(error);
    refuse_held(tasklet);
    return NULL;
}

static PyObject *
Tasklet_kill(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pending", NULL};
    PyObject *given = Py_False, *error;
    int pending;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:kill", names, &given))
        return NULL;
    if (PyExceptionInstance_Check(given) || PyExceptionClass_Check(given))
        return PyErr_Format(PyExc_TypeError, "kill() raises TaskletExit, and takes whether to do so later; throw(%R) raises another "
                                             "error", given);
    if ((pending = PyObject_IsTrue(given)) < 0)
        return NULL;
    error = PyObject_CallNoArgs(TaskletExit);
    return error != NULL ? tasklet_thrown((Tasklet *)self, error, pending) : NULL;
}

static PyObject *
Tasklet_raise_exception(PyObject *self, PyObject *args)
{
    PyObject *error = error_from_arguments(args, "raise_exception");
    return error != NULL ? tasklet_thrown((Tasklet *)self, error, false) : NULL;
}

static PyObject *
Tasklet_throw(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"exc", "val", "tb", "pending", NULL};
    PyObject *type, *value = Py_None, *traceback = Py_None, *error;
    int pending = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOp:throw", names, &type, &value, &traceback, &pending))
        return NULL;
    error = error_from_triple(type, value, traceback, "throw()");
    return error != NULL ? tasklet_thrown((Tasklet *)self, error, pending) : NULL;
}
