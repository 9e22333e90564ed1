/* What can be seen of a tasklet and set from outside, and the tables of its type. */

static const char *
tasklet_condition(Tasklet *tasklet)
{
    if (!tasklet_alive(tasklet))
        return tasklet->function != NULL ? "bound" : "dead";
    switch (tasklet->blocked) {
    case BLOCKED_RECEIVE:
        return "blocked in receive";
    case BLOCKED_SEND:
        return "blocked in send";
    case BLOCKED_QUEUE:
        return Py_IS_TYPE(tasklet->waiting_on, &Select_Type) ? "blocked in select" : "blocked in wait";
    case BLOCKED_WAIT:
        return tasklet->waiting_on != NULL ? "blocked in wait" : "asleep";
    case BLOCKED_RUN:
        return "in run()";
    default:
        return tasklet == tasklet->scheduler->current ? "current" : tasklet->next != NULL ? "scheduled" : "paused";
    }
}

static PyObject *
Tasklet_repr(PyObject *self)
{
    Tasklet *tasklet = (Tasklet *)self;
    PyObject *name = NULL, *text;
    const char *condition = tasklet_condition(tasklet);
    if (tasklet == tasklet->scheduler->main)
        name = PyUnicode_FromString("main");
    else if (tasklet->function != NULL) {
        name = PyObject_GetAttrString(tasklet->function, "__qualname__");
        if (name == NULL) {
            PyErr_Clear();
            name = PyObject_Repr(tasklet->function);
        }
    } else
        name = PyUnicode_FromString("without function");
    if (name == NULL)
        return NULL;
    text = PyUnicode_FromFormat("<%s %S, %s, at %p>", Py_TYPE(self)->tp_name, name, condition, self);
    Py_DECREF(name);
    return text;
}

static PyObject *
Tasklet_get_frame(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->state != TASKLET_STARTED || tasklet->scheduler->tstate == NULL)
        Py_RETURN_NONE;
    if (tasklet == tasklet->scheduler->current) {
        PyObject *frame = (PyObject *)PyThreadState_GetFrame(tasklet->scheduler->tstate);
        return frame != NULL ? frame : Py_NewRef(Py_None);
    }
    return switch_frame(tasklet);
}

static PyObject *
Tasklet_get_alive(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    return PyBool_FromLong(tasklet_alive(tasklet) && tasklet->scheduler->tstate != NULL);
}

/* Whether it waits for something that is to happen; inside run() it counts as paused, as in Stackless. */
static bool
tasklet_blocked(Tasklet *tasklet)
{
    return tasklet->blocked != NOT_BLOCKED && tasklet->blocked != BLOCKED_RUN;
}

static PyObject *
Tasklet_get_blocked(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(tasklet_blocked((Tasklet *)self));
}

static PyObject *
Tasklet_get_scheduled(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    return PyBool_FromLong(tasklet->next != NULL || tasklet_blocked(tasklet));
}

static PyObject *
Tasklet_get_paused(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    return PyBool_FromLong(tasklet_alive(tasklet) && tasklet->scheduler->tstate != NULL && tasklet->next == NULL &&
                           !tasklet_blocked(tasklet));
}

static PyObject *
Tasklet_get_is_main(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Tasklet *)self)->scheduler->main == (Tasklet *)self);
}

static PyObject *
Tasklet_get_is_current(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Tasklet *)self)->scheduler->current == (Tasklet *)self);
}

static PyObject *
Tasklet_get_thread_id(PyObject *self, void *Py_UNUSED(closure))
{
    PyThreadState *tstate = ((Tasklet *)self)->scheduler->tstate;
    return tstate != NULL ? PyLong_FromUnsignedLong(tstate->thread_id) : PyLong_FromLong(-1);
}

static PyObject *
Tasklet_get_atomic(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Tasklet *)self)->atomic > 0);
}

/* A flag from Python: a bool or an integer. -1 with an exception set. */
static int
flag_from(PyObject *value, const char *what)
{
    if (value != NULL && PyLong_Check(value))
        return PyObject_IsTrue(value);
    PyErr_Format(PyExc_TypeError, "%s needs exactly one bool or integer", what);
    return -1;
}

static int
Tasklet_set_block_trap(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    int flag = flag_from(value, "block_trap");
    if (flag >= 0)
        ((Tasklet *)self)->block_trap = flag;
    return flag < 0 ? -1 : 0;
}

static PyObject *
Tasklet_set_atomic(PyObject *self, PyObject *value)
{
    Tasklet *tasklet = (Tasklet *)self;
    bool old = tasklet->atomic_flag;
    int flag = flag_from(value, "set_atomic");
    return flag < 0 || atomic_set_flag(tasklet, flag) < 0 ? NULL : PyBool_FromLong(old);
}

static PyObject *
Tasklet_set_ignore_nesting(PyObject *self, PyObject *value)
{
    Tasklet *tasklet = (Tasklet *)self;
    bool old = tasklet->ignore_nesting;
    int flag = flag_from(value, "set_ignore_nesting");
    if (flag < 0)
        return NULL;
    tasklet->ignore_nesting = flag;
    return PyBool_FromLong(old);
}

static PyObject *
Tasklet_get_tempval(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    PyObject *value = tasklet->raises || tasklet->sends_error ? NULL : tasklet->tempval;
    if (value == NULL && tasklet->state == TASKLET_UNBOUND) /* where Stackless keeps the function */
        value = tasklet->function;
    return Py_NewRef(value != NULL ? value : Py_None);
}

static int
Tasklet_set_tempval(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->raises) {
        PyErr_SetString(PyExc_RuntimeError, "tempval: an exception is on its way to the tasklet, which must not be lost");
        return -1;
    }
    tasklet->sends_error = false;
    Py_XSETREF(tasklet->tempval, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyObject *
Tasklet_get_recursion_depth(PyObject *self, void *Py_UNUSED(closure))
{
    Tasklet *tasklet = (Tasklet *)self;
    if (tasklet->state != TASKLET_STARTED || tasklet->scheduler->tstate == NULL)
        return PyLong_FromLong(0);
    return PyLong_FromLong(switch_depth(tasklet));
}

/* How many C calls stand between the frames of the tasklet; -1 when this backend cannot tell. */
static int
tasklet_nesting(Tasklet *tasklet)
{
    return tasklet->state != TASKLET_STARTED || tasklet->scheduler->tstate == NULL ? 0 : switch_nesting(tasklet);
}

static PyObject *
Tasklet_get_nesting_level(PyObject *self, void *Py_UNUSED(closure))
{
    int level = tasklet_nesting((Tasklet *)self);
    return level >= 0 ? PyLong_FromLong(level) : Py_NewRef(Py_None);
}

static PyObject *
Tasklet_get_restorable(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(tasklet_nesting((Tasklet *)self) == 0);
}

static char profiles; /* the closure that says so */

static PyObject *
Tasklet_get_tracing(PyObject *self, void *closure)
{
    return tracing_get((Tasklet *)self, closure == &profiles);
}

static int
Tasklet_set_tracing(PyObject *self, PyObject *value, void *closure)
{
    return tracing_set((Tasklet *)self, value, closure == &profiles);
}

/* ---- context variables ---- */

/* Whether the tasklet's context may be touched from here: it belongs to a thread that lives, and does not run in another.
   -1 with an exception set. */
static int
context_reachable(Tasklet *tasklet, const char *what)
{
    if (thread_gone(tasklet) < 0)
        return -1;
    if (tasklet == tasklet->scheduler->current && tasklet->scheduler != this_scheduler) {
        PyErr_Format(PyExc_RuntimeError, "%s: %R runs now, in another thread", what, tasklet);
        return -1;
    }
    return 0;
}

static PyObject *
Tasklet_set_context(PyObject *self, PyObject *context)
{
    Tasklet *tasklet = (Tasklet *)self;
    if (!PyContext_CheckExact(context))
        return PyErr_Format(PyExc_TypeError, "set_context() takes a contextvars.Context, not %R", context);
    if (scheduler_get() == NULL || context_reachable(tasklet, "set_context()") < 0 || switch_set_context(tasklet, context) < 0)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *
Tasklet_context_run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Tasklet *tasklet = (Tasklet *)self;
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *callable, *rest, *result, *context, *own;
    if (PyTuple_GET_SIZE(args) < 1)
        return PyErr_Format(PyExc_TypeError, "context_run() takes a callable and its arguments: context_run(function, *args, **kwargs)");
    if (scheduler_get() == NULL || context_reachable(tasklet, "context_run()") < 0)
        return NULL;
    callable = PyTuple_GET_ITEM(args, 0);
    rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    context = rest != NULL ? switch_context(tasklet) : NULL;
    if (context == NULL) {
        Py_XDECREF(rest);
        return NULL;
    }
    own = tstate->context; /* its reference waits here; not Context.run: a suspended tasklet's context may be entered already */
    tstate->context = context;
    tstate->context_ver++;
    result = PyObject_Call(callable, rest, kwargs);
    context = tstate->context;
    tstate->context = own;
    tstate->context_ver++;
    Py_XDECREF(context);
    Py_DECREF(rest);
    return result;
}

PyDoc_STRVAR(tasklet_doc, "tasklet(func=None, args=None, kwargs=None)\n--\n\n"
"A microthread of this OS thread: tasklet(func)(*args, **kwargs) puts func at the end of the run queue.\n\n"
"With args or kwargs given here the tasklet is bound but not scheduled: insert() or run() it. It runs in a copy of the\n"
"contextvars context of its creator. An exception that it does not catch is raised in the main tasklet, TaskletExit\n"
"excepted. A tasklet that is suspended when the last reference to it goes is ended with TaskletExit, and so is one that\n"
"nothing can wake, when the cyclic collector finds it.");
PyDoc_STRVAR(bind_doc, "bind($self, /, func=None, args=None, kwargs=None)\n--\n\n"
"Bind to a function; with args or kwargs also to its arguments, which makes it alive, paused. Without any, unbind.\n"
"Raises RuntimeError for the current, a scheduled or a started tasklet. Returns the tasklet.");
PyDoc_STRVAR(setup_doc, "setup($self, /, *args, **kwargs)\n--\n\n"
"Give a bound tasklet its arguments and put it at the end of the run queue, as calling it does. Returns the tasklet.");
PyDoc_STRVAR(bind_thread_doc, "bind_thread($self, thread_id=None, /)\n--\n\n"
"Let a tasklet that has not started run in another thread, by default the calling one. RuntimeError for one that is in a\n"
"run queue or has started, and for one that has ended before another has run in its thread; ValueError when the thread\n"
"does not live or has not used roamlet, OverflowError for what cannot be an id. -1 is the calling thread.");
PyDoc_STRVAR(set_atomic_doc, "set_atomic($self, flag, /)\n--\n\n"
"Make the tasklet atomic, as `with roamlet.atomic():` does, or end that; one that is suspended when it goes on. Returns what\n"
"was set before, so that it can be restored. Levels of `with` stay as they are.");
PyDoc_STRVAR(set_ignore_nesting_doc, "set_ignore_nesting($self, flag, /)\n--\n\n"
"Whether run() with a time-out may interrupt the tasklet inside C code that calls Python. Returns what was set before.");
PyDoc_STRVAR(set_context_doc, "set_context($self, context, /)\n--\n\n"
"Let the tasklet go on, or start, in this contextvars.Context. Returns the tasklet. RuntimeError when it runs in another\n"
"thread, and for the current one inside Context.run().");
PyDoc_STRVAR(context_run_doc, "context_run($self, callable, /, *args, **kwargs)\n--\n\n"
"Call callable(*args, **kwargs) here, in the calling tasklet, but with this tasklet's context variables. Returns what it\n"
"returns.");
PyDoc_STRVAR(insert_doc, "insert($self, /)\n--\n\n"
"Put a paused tasklet at the end of its thread's run queue; one that is there already stays where it is. Thread-safe;\n"
"does not switch. RuntimeError for a blocked or dead one. Returns the tasklet.");
PyDoc_STRVAR(remove_doc, "remove($self, /)\n--\n\n"
"Take a scheduled tasklet out of the run queue. RuntimeError for a blocked one and for the current. Returns it.");
PyDoc_STRVAR(run_doc, "run($self, /)\n--\n\n"
"Let the tasklet run at once; the caller follows it in the queue. Of another thread: insert() there.");
PyDoc_STRVAR(switch_doc, "switch($self, /)\n--\n\n"
"Let the tasklet run at once and take the caller out of the run queue until it is inserted again.");
PyDoc_STRVAR(kill_doc, "kill($self, /, pending=False)\n--\n\n"
"Raise TaskletExit in the tasklet, at once or, if pending, when it runs next. The caller follows it in the queue.\n"
"A dead tasklet stays dead; one that never ran never will. In another thread's tasklet: pending.");
PyDoc_STRVAR(raise_exception_doc, "raise_exception($self, exception, /, *args)\n--\n\n"
"Raise exception(*args) in the tasklet at once. RuntimeError when it is dead.");
PyDoc_STRVAR(throw_doc, "throw($self, /, exc, val=None, tb=None, pending=False)\n--\n\n"
"Raise the exception of this triple in the tasklet, at once or when it runs next. RuntimeError when it is dead.");

static PyMethodDef Tasklet_methods[] = {
    {"__reduce__", Tasklet_reduce, METH_NOARGS, tasklet_reduce_doc},
    {"__setstate__", Tasklet_setstate, METH_O, setstate_doc},
    {"bind", (PyCFunction)(void (*)(void))Tasklet_bind, METH_VARARGS | METH_KEYWORDS, bind_doc},
    {"setup", (PyCFunction)(void (*)(void))Tasklet_call, METH_VARARGS | METH_KEYWORDS, setup_doc},
    {"bind_thread", Tasklet_bind_thread, METH_VARARGS, bind_thread_doc},
    {"set_atomic", Tasklet_set_atomic, METH_O, set_atomic_doc},
    {"set_ignore_nesting", Tasklet_set_ignore_nesting, METH_O, set_ignore_nesting_doc},
    {"set_context", Tasklet_set_context, METH_O, set_context_doc},
    {"context_run", (PyCFunction)(void (*)(void))Tasklet_context_run, METH_VARARGS | METH_KEYWORDS, context_run_doc},
    {"insert", Tasklet_insert, METH_NOARGS, insert_doc},
    {"remove", Tasklet_remove, METH_NOARGS, remove_doc},
    {"run", Tasklet_run, METH_NOARGS, run_doc},
    {"switch", (PyCFunction)(void (*)(void))Tasklet_switch, METH_FASTCALL, switch_doc},
    {"kill", (PyCFunction)(void (*)(void))Tasklet_kill, METH_VARARGS | METH_KEYWORDS, kill_doc},
    {"raise_exception", Tasklet_raise_exception, METH_VARARGS, raise_exception_doc},
    {"throw", (PyCFunction)(void (*)(void))Tasklet_throw, METH_VARARGS | METH_KEYWORDS, throw_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Tasklet_getset[] = {
    {"frame", Tasklet_get_frame, NULL, "Its innermost frame, None before it starts and after its end. f_back leads to its first.", NULL},
    {"alive", Tasklet_get_alive, NULL, "Whether it has arguments and has not ended.", NULL},
    {"blocked", Tasklet_get_blocked, NULL, "Whether it waits: for a channel, a wake-up or a timer.", NULL},
    {"scheduled", Tasklet_get_scheduled, NULL, "Whether it is in the run queue or blocked.", NULL},
    {"paused", Tasklet_get_paused, NULL, "Whether it is alive, neither in the run queue nor blocked; so is one inside run().", NULL},
    {"is_main", Tasklet_get_is_main, NULL, "Whether it is its thread's main tasklet.", NULL},
    {"is_current", Tasklet_get_is_current, NULL, "Whether it runs now, in its thread.", NULL},
    {"thread_id", Tasklet_get_thread_id, NULL, "threading.get_ident() of its thread; -1 after that ended.", NULL},
    {"next", get_object, NULL, "The next tasklet in the run queue or in a channel's queue, or None.", FIELD(Tasklet, next)},
    {"prev", get_object, NULL, "The neighbour before it, or None.", FIELD(Tasklet, prev)},
    {"atomic", Tasklet_get_atomic, NULL, "Whether it is in atomic code, by `with roamlet.atomic()` or set_atomic().", NULL},
    {"ignore_nesting", get_bool, NULL, "Whether it may be interrupted inside C code that calls Python.", FIELD(Tasklet, ignore_nesting)},
    {"block_trap", get_bool, Tasklet_set_block_trap,
     "When true, a call that would block the tasklet raises RuntimeError instead.", FIELD(Tasklet, block_trap)},
    {"tempval", Tasklet_get_tempval, Tasklet_set_tempval,
     "The value in transit: what a blocked sender sends; set on a suspended tasklet, what the call that suspended it returns.", NULL},
    {"recursion_depth", Tasklet_get_recursion_depth, NULL, "How many Python calls deep it is; 0 when it has not started.", NULL},
    {"nesting_level", Tasklet_get_nesting_level, NULL,
     "How many C calls that call Python stand between its frames; None where the switching backend cannot tell.", NULL},
    {"restorable", Tasklet_get_restorable, NULL,
     "Whether all of its state is in Python objects, so that it could be saved: no C call stands between its frames.", NULL},
    {"trace_function", Tasklet_get_tracing, Tasklet_set_tracing,
     "The trace function in force: its thread's (sys.settrace), or its own once this was set; del goes back to the thread's.", NULL},
    {"profile_function", Tasklet_get_tracing, Tasklet_set_tracing, "The profile function in force, likewise.", &profiles},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Tasklet_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.tasklet",
    .tp_doc = tasklet_doc,
    .tp_basicsize = sizeof(Tasklet),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = Tasklet_new,
    .tp_init = Tasklet_init,
    .tp_vectorcall = Tasklet_vectorcall,
    .tp_call = Tasklet_call,
    .tp_dealloc = Tasklet_dealloc,
    .tp_finalize = Tasklet_finalize,
    .tp_traverse = Tasklet_traverse,
    .tp_clear = Tasklet_clear,
    .tp_repr = Tasklet_repr,
    .tp_weaklistoffset = offsetof(Tasklet, weakrefs),
    .tp_methods = Tasklet_methods,
    .tp_getset = Tasklet_getset,
};
