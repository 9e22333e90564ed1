/* CancelScope: code whose blocking calls all raise once it is cancelled or its time is over, until it is left.

   A tasklet knows its innermost scope, a scope the one around it. What counts is the outermost one that is over, not looking past
   a shield: leaving that one ends the unwinding. Time costs no timer of its own: a wait in a scope has the earliest of
   the deadlines, its call's and its scopes'. */

struct CancelScope {
    PyObject_HEAD
    CancelScope *outer;   /* owned: the one around it; NULL: none */
    CancelScope *inner;   /* the list of those directly inside, each unlinked when it is freed */
    CancelScope *next, **link; /* its place in outer's list */
    Tasklet *tasklets;    /* the list of those whose innermost scope it is */
    Tasklet *owner;       /* borrowed, only compared: the tasklet that entered it */
    int64_t timeout;      /* ns from entering on; ROAMLET_NEVER: no limit */
    int64_t deadline;     /* ns on the core's clock; ROAMLET_NEVER: none, or not entered yet */
    bool cancelled, shield, entered, left, expired;
    PyObject *name;       /* owned: a str, what messages call it */
    PyObject *given;      /* owned: the time-out as it was typed; NULL: none was */
    PyObject *weakrefs;
};

static void
scope_link_tasklet(CancelScope *scope, Tasklet *tasklet)
{
    tasklet->scope = scope;
    if (scope == NULL)
        return;
    tasklet->scope_next = scope->tasklets;
    tasklet->scope_link = &scope->tasklets;
    if (scope->tasklets != NULL)
        scope->tasklets->scope_link = &tasklet->scope_next;
    scope->tasklets = tasklet;
}

static void
scope_unlink_tasklet(Tasklet *tasklet)
{
    *tasklet->scope_link = tasklet->scope_next;
    if (tasklet->scope_next != NULL)
        tasklet->scope_next->scope_link = tasklet->scope_link;
    tasklet->scope_next = NULL;
    tasklet->scope_link = NULL;
}

/* The tasklet is in no scope any more: it has ended. May run Python code. */
static void
scope_left(Tasklet *tasklet)
{
    CancelScope *scope = tasklet->scope;
    scope_unlink_tasklet(tasklet);
    tasklet->scope = NULL;
    Py_DECREF(scope);
}

/* The outermost scope around the tasklet that is over at `now`, as far as no shield is in between; borrowed, NULL: none. */
static CancelScope *
scope_over(Tasklet *tasklet, int64_t now)
{
    CancelScope *over = NULL;
    for (CancelScope *scope = tasklet->scope; scope != NULL; scope = scope->shield ? NULL : scope->outer)
        if (scope->cancelled || (scope->deadline >= 0 && scope->deadline <= now))
            over = scope;
    return over;
}

/* The earliest deadline of the scopes around the tasklet; ROAMLET_NEVER: none. */
static int64_t
scope_deadline(Tasklet *tasklet)
{
    int64_t deadline = ROAMLET_NEVER;
    for (CancelScope *scope = tasklet->scope; scope != NULL; scope = scope->shield ? NULL : scope->outer)
        if (scope->deadline >= 0 && (deadline < 0 || scope->deadline < deadline))
            deadline = scope->deadline;
    return deadline;
}

static PyObject *name_scope; /* see name_interned */

/* A new Cancelled; NULL with an exception set. May run Python code. */
static PyObject *
cancelled_error(CancelScope *scope)
{
    Py_INCREF(scope); /* its repr may run code that leaves it */
    PyObject *text = PyUnicode_FromFormat(scope->cancelled ? "%R was cancelled" : "%R: its time is over", scope);
    PyObject *error = text != NULL ? PyObject_CallOneArg(Cancelled, text) : NULL;
    Py_XDECREF(text);
    if (error != NULL && (name_interned(&name_scope, "scope") == NULL || PyObject_SetAttr(error, name_scope, (PyObject *)scope) < 0))
        Py_CLEAR(error);
    Py_DECREF(scope);
    return error;
}

/* Whether the current tasklet may begin to wait, as far as its scopes are concerned: 0, or -1 with Cancelled set. */
static __attribute__((noinline)) int
scope_check(Tasklet *tasklet)
{
    int64_t now = scope_deadline(tasklet) >= 0 ? clock_ns() : 0;
    CancelScope *over;
    PyObject *error;
    if (now < 0)
        return -1;
    over = scope_over(tasklet, now);
    if (likely(over == NULL))
        return 0;
    error = cancelled_error(over);
    if (error != NULL)
        error_raise(error);
    return -1;
}

/* The tasklet is about to wait, by its own call until `until` (ROAMLET_NEVER: without limit): start the timer that this and its
   scopes ask for. A wait that a scope's deadline ends is no deadlock, and run() waits for it; but not for its own, so `in_run`
   does not count. 0, or -1 with an exception set. */
static __attribute__((noinline)) int
scope_arm(Scheduler *scheduler, Tasklet *tasklet, int64_t until, bool in_run)
{
    int64_t limit = scope_deadline(tasklet), deadline = limit;
    tasklet->until = until;
    if (deadline < 0 || (until >= 0 && until < deadline))
        deadline = until;
    if (deadline >= 0 && timer_start(scheduler, tasklet, deadline) < 0) {
        tasklet_unlimited(tasklet);
        return -1;
    }
    if (limit < 0 || in_run)
        tasklet_unlimited(tasklet);
    else if (!tasklet->limited) {
        tasklet->limited = true;
        scheduler->keepers++;
    }
    return 0;
}

static inline int
wait_arm(Scheduler *scheduler, Tasklet *tasklet, int64_t until)
{
    if (unlikely(tasklet->scope != NULL))
        return scope_arm(scheduler, tasklet, until, false);
    return until >= 0 ? timer_start(scheduler, tasklet, until) : 0;
}

/* Whether the tasklet stands still and does not run by itself: it waits, or was taken out of the run queue. */
static bool
tasklet_stands(Tasklet *tasklet)
{
    return tasklet->state == TASKLET_STARTED && tasklet->scheduler->tstate != NULL && !tasklet->raises &&
           (tasklet->blocked != NOT_BLOCKED || tasklet->next == NULL) &&
           (tasklet != tasklet->scheduler->current || tasklet->scheduler->idle);
}

/* Let a tasklet that stands still go on with Cancelled. -1 with an exception set. May run Python code. */
static int
scope_raise(CancelScope *scope, Tasklet *tasklet)
{
    PyObject *error = cancelled_error(scope);
    if (error == NULL)
        return -1;
    if (!tasklet_stands(tasklet)) { /* the exception's constructor ran code */
        Py_DECREF(error);
        return 0;
    }
    Py_INCREF(tasklet);
    if (tasklet->blocked != NOT_BLOCKED)
        scheduler_wake(tasklet);
    else {
        ring_append(tasklet->scheduler, (Tasklet *)Py_NewRef((PyObject *)tasklet));
        if (tasklet->scheduler->sleeping)
            scheduler_ring(tasklet->scheduler);
    }
    tasklet_set_error(tasklet, error);
    Py_DECREF(tasklet);
    return 0;
}

/* The timer of a tasklet that waits in a scope is due at `now`. 0: its own call's time is over, which the caller sees to; 1: it
   was woken with Cancelled, or a deadline had been moved and the timer was set again; -1 with an exception set. */
static int
scope_fires(Scheduler *scheduler, Tasklet *tasklet, int64_t now)
{
    CancelScope *over = scope_over(tasklet, now);
    if (over != NULL)
        return scope_raise(over, tasklet) < 0 ? -1 : 1;
    if (tasklet->until >= 0 && tasklet->until <= now)
        return 0;
    timer_cancel(scheduler, tasklet);
    return scope_arm(scheduler, tasklet, tasklet->until, tasklet->blocked == BLOCKED_RUN) < 0 ? -1 : 1;
}

/* Append the tasklets inside to `list`, those behind a shield included. -1 with an exception set. Scopes may be nested deeper
   than a C stack bears. */
static int
scope_collect(CancelScope *outermost, PyObject *list)
{
    CancelScope *scope = outermost, *next;
    for (;;) {
        for (Tasklet *t = scope->tasklets; t != NULL; t = t->scope_next)
            if (PyList_Append(list, (PyObject *)t) < 0)
                return -1;
        next = scope->inner;
        for (; next == NULL; scope = scope->outer) {
            if (scope == outermost)
                return 0;
            next = scope->next;
        }
        scope = next;
    }
}

/* The scope is over, or its deadline has moved: those inside who stand still are told. -1 with an exception set. May run
   Python code. */
static int
scope_changed(CancelScope *scope)
{
    PyObject *inside = PyList_New(0);
    int failed = inside == NULL || scope_collect(scope, inside) < 0 ? -1 : 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(inside); i++) {
        Tasklet *tasklet = (Tasklet *)PyList_GET_ITEM(inside, i);
        int64_t now = clock_ns();
        CancelScope *over = now >= 0 ? scope_over(tasklet, now) : NULL;
        if (now < 0)
            failed = -1;
        else if (!tasklet_stands(tasklet))
            continue;
        else if (over != NULL)
            failed = scope_raise(over, tasklet);
        else if (tasklet->blocked != NOT_BLOCKED) {
            if (tasklet->timer >= 0)
                timer_cancel(tasklet->scheduler, tasklet);
            failed = scope_arm(tasklet->scheduler, tasklet, tasklet->until, tasklet->blocked == BLOCKED_RUN);
            if (tasklet->scheduler->sleeping && tasklet->scheduler != this_scheduler)
                scheduler_ring(tasklet->scheduler); /* it sleeps until another time */
        }
    }
    Py_XDECREF(inside);
    return failed;
}

/* ---- the type ---- */

static PyObject *
CancelScope_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", "shield", "name", NULL};
    PyObject *timeout = NULL, *name = NULL;
    const char *text = "CancelScope";
    int shield = 0;
    int64_t limit = ROAMLET_NEVER;
    CancelScope *scope;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$pU:CancelScope", names, &timeout, &shield, &name) ||
        (name != NULL && (text = PyUnicode_AsUTF8(name)) == NULL) ||
        (timeout != NULL && timeout != Py_None && (limit = timeout_ns(timeout, text)) < 0))
        return NULL;
    scope = (CancelScope *)type->tp_alloc(type, 0);
    if (scope != NULL) {
        scope->name = Py_XNewRef(name);
        scope->given = Py_XNewRef(timeout);
        scope->timeout = limit;
        scope->deadline = ROAMLET_NEVER;
        scope->shield = shield;
    }
    return (PyObject *)scope;
}

/* As it was typed, for messages. */
static PyObject *
CancelScope_repr(PyObject *self)
{
    CancelScope *scope = (CancelScope *)self;
    PyObject *given = scope->given != NULL ? PyObject_Repr(scope->given) : PyUnicode_FromString(""), *text = NULL;
    if (given != NULL)
        text = scope->name != NULL ? PyUnicode_FromFormat("%U(%U)", scope->name, given) : PyUnicode_FromFormat("CancelScope(%U)", given);
    Py_XDECREF(given);
    return text;
}

/* Whether it is a coroutine that enters a scope: itself, or by context managers around it, whose frames are those of an __enter__
   and of generators. */
static __attribute__((noinline)) bool
entered_by_coroutine(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    bool coroutine = false, passed = true;
    Py_XINCREF(frame);
    while (frame != NULL && passed) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyFrameObject *back = PyFrame_GetBack(frame);
        coroutine = (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) != 0;
        passed = !coroutine && ((code->co_flags & CO_GENERATOR) || PyUnicode_CompareWithASCIIString(code->co_name, "__enter__") == 0);
        Py_DECREF(code);
        Py_SETREF(frame, back);
    }
    Py_XDECREF(frame);
    return coroutine;
}

static PyObject *
CancelScope_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
    CancelScope *scope = (CancelScope *)self;
    Scheduler *scheduler = scheduler_get();
    Tasklet *current;
    int64_t now;
    if (scheduler == NULL || (now = clock_ns()) < 0)
        return NULL;
    if (scope->entered)
        return PyErr_Format(PyExc_RuntimeError, "a CancelScope is entered once: make a new one");
    if (unlikely(tstate_loop(scheduler->tstate) != 0) && entered_by_coroutine())
        return PyErr_Format(PyExc_RuntimeError, "%R is entered in a coroutine: it would cancel the whole event loop of this tasklet, with all of its "
                                                "tasks. Write `async with asyncio.timeout(seconds)` or an asyncio.TaskGroup there; or put it around "
                                                "roamlet.aio.run() or await_(), or into a function that roamlet.aio.wrap() calls", self);
    current = scheduler->current;
    scope->entered = true;
    scope->owner = current;
    if (scope->timeout >= 0)
        scope->deadline = now + scope->timeout;
    if (current->scope != NULL) {
        scope->outer = current->scope; /* its reference passes to the scope */
        scope_unlink_tasklet(current);
        scope->next = scope->outer->inner;
        scope->link = &scope->outer->inner;
        if (scope->next != NULL)
            scope->next->link = &scope->next;
        scope->outer->inner = scope;
    }
    scope_link_tasklet((CancelScope *)Py_NewRef(self), current);
    return Py_NewRef(self);
}

static PyObject *
CancelScope_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    CancelScope *scope = (CancelScope *)self;
    Scheduler *scheduler = scheduler_get();
    Tasklet *current;
    PyObject *of = NULL;
    bool ours;
    if (scheduler == NULL)
        return NULL;
    current = scheduler->current;
    if (!scope->entered || scope->left || scope->owner != current || current->scope != scope)
        return PyErr_Format(PyExc_RuntimeError, "%R is left where it is not the innermost scope of the tasklet that entered it: leave scopes in "
                                                "the reverse order, each in its own tasklet (%R)", self, current);
    int64_t now = scope->deadline >= 0 ? clock_ns() : 0;
    if (now < 0)
        return NULL;
    scope->left = true;
    scope->expired = scope->deadline >= 0 && scope->deadline <= now;
    scope->owner = NULL;
    scope_unlink_tasklet(current);
    scope_link_tasklet((CancelScope *)Py_XNewRef((PyObject *)scope->outer), current);
    if (count >= 2 && PyObject_TypeCheck(args[1], (PyTypeObject *)Cancelled)) {
        of = name_interned(&name_scope, "scope") != NULL ? PyObject_GetAttr(args[1], name_scope) : NULL;
        if (of == NULL)
            PyErr_Clear();
    }
    ours = of == self;
    Py_XDECREF(of);
    Py_DECREF(self); /* the tasklet's; the caller has another */
    return PyBool_FromLong(ours);
}

static PyObject *
CancelScope_cancel(PyObject *self, PyObject *Py_UNUSED(unused))
{
    CancelScope *scope = (CancelScope *)self;
    if (!scope->cancelled) {
        scope->cancelled = true;
        if (scope_changed(scope) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
CancelScope_adopt(PyObject *self, PyObject *object)
{
    CancelScope *scope = (CancelScope *)self;
    Tasklet *tasklet = (Tasklet *)object;
    if (!PyObject_TypeCheck(object, &Tasklet_Type))
        return PyErr_Format(PyExc_TypeError, "adopt() takes a tasklet, not %R", object);
    if (tasklet->state == TASKLET_STARTED)
        return PyErr_Format(PyExc_RuntimeError, "adopt(): %R has started already; a scope adopts tasklets that have not run yet", tasklet);
    if (!scope->entered || scope->left)
        return PyErr_Format(PyExc_RuntimeError, "adopt(): no tasklet is in this CancelScope: with scope: scope.adopt(tasklet)");
    CancelScope *before = tasklet->scope;
    if (before != NULL)
        scope_unlink_tasklet(tasklet);
    scope_link_tasklet((CancelScope *)Py_NewRef(self), tasklet);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *
CancelScope_reschedule(PyObject *self, PyObject *timeout)
{
    CancelScope *scope = (CancelScope *)self;
    int64_t limit = ROAMLET_NEVER, now = 0;
    if (timeout != Py_None && ((limit = timeout_ns(timeout, "reschedule()")) < 0 || (now = clock_ns()) < 0))
        return NULL;
    if (!scope->entered || scope->left)
        return PyErr_Format(PyExc_RuntimeError, "reschedule(): %R %s: a limit is moved while somebody is in its `with` block", self,
                            scope->left ? "has been left" : "is not entered yet");
    scope->deadline = limit >= 0 ? now + limit : ROAMLET_NEVER;
    Py_XSETREF(scope->given, Py_NewRef(timeout));
    return scope_changed(scope) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
CancelScope_get_deadline(PyObject *self, void *Py_UNUSED(closure))
{
    int64_t deadline = ((CancelScope *)self)->deadline;
    return deadline >= 0 ? PyFloat_FromDouble((double)deadline / 1e9) : Py_NewRef(Py_None);
}

static int
CancelScope_set_deadline(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    CancelScope *scope = (CancelScope *)self;
    int64_t deadline = ROAMLET_NEVER;
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "deadline cannot be deleted: set it to None");
        return -1;
    }
    if (value != Py_None && (deadline = timeout_ns(value, "CancelScope.deadline")) < 0)
        return -1;
    if (!scope->entered || scope->left) {
        PyErr_SetString(PyExc_RuntimeError, "deadline is set while somebody is in the CancelScope; before that there is timeout=");
        return -1;
    }
    scope->deadline = deadline;
    return scope_changed(scope);
}

static PyObject *
CancelScope_get_cancelled(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((CancelScope *)self)->cancelled);
}

static PyObject *
CancelScope_get_expired(PyObject *self, void *Py_UNUSED(closure))
{
    CancelScope *scope = (CancelScope *)self;
    if (!scope->left && scope->deadline >= 0) {
        int64_t now = clock_ns();
        return now >= 0 ? PyBool_FromLong(scope->deadline <= now) : NULL;
    }
    return PyBool_FromLong(scope->expired);
}

static int
CancelScope_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((CancelScope *)self)->outer);
    Py_VISIT(((CancelScope *)self)->given);
    return 0;
}

/* Take the scope out of the one around it, whose reference passes to the caller; NULL: it is the outermost. */
static CancelScope *
scope_detach(CancelScope *scope)
{
    CancelScope *outer = scope->outer;
    if (outer == NULL)
        return NULL;
    *scope->link = scope->next;
    if (scope->next != NULL)
        scope->next->link = scope->link;
    scope->next = NULL;
    scope->link = NULL;
    scope->outer = NULL;
    return outer;
}

/* Scopes are freed one after the other, not one inside the other: they may be nested deeper than the C stack bears, and from
   3.13 on CPython's trashcan counts on a stack of the usual size. */
static void
CancelScope_dealloc(PyObject *self)
{
    CancelScope *scope = (CancelScope *)self, *outer;
    PyObject_GC_UnTrack(self);
    assert(scope->tasklets == NULL && scope->inner == NULL); /* each of them has a reference to it */
    if (scope->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    outer = scope_detach(scope);
    Py_XDECREF(scope->given);
    Py_XDECREF(scope->name);
    Py_TYPE(self)->tp_free(self);
    while (outer != NULL && Py_REFCNT(outer) == 1) {
        CancelScope *next = scope_detach(outer);
        Py_DECREF(outer);
        outer = next;
    }
    Py_XDECREF(outer);
}

PyDoc_STRVAR(scope_doc, "CancelScope(timeout=None, *, shield=False, name='CancelScope')\n--\n\n"
"Code whose blocking calls raise Cancelled once the scope is cancelled or `timeout` seconds (float, >= 0) from entering on\n"
"have passed; each of them, until it is left.\n\n"
"`with scope:` in one tasklet, once; others join by adopt(). Cancelled.scope is the outermost scope that is over; leaving\n"
"that one swallows it. A shielded scope does not hear of those around it. Code that blocks in no call of roamlet's goes on.\n\n"
"`name` is what messages and repr() call it.");
PyDoc_STRVAR(scope_enter_doc, "__enter__($self, /)\n--\n\nThe current tasklet is in it from now on; time counts. RuntimeError the second time, and in a\n"
"coroutine that an event loop runs: its other tasks are in the same tasklet.");
PyDoc_STRVAR(scope_exit_doc, "__exit__($self, /, *args)\n--\n\n"
"Leave it. True, which swallows the exception, for a Cancelled that is this scope's. RuntimeError for another tasklet than\n"
"the one that entered it, or when an inner scope was not left.");
PyDoc_STRVAR(scope_cancel_doc, "cancel($self, /)\n--\n\n"
"Let every blocking call inside raise Cancelled, those that wait now included. For good. Thread-safe; does not switch.");
PyDoc_STRVAR(scope_adopt_doc, "adopt($self, tasklet, /)\n--\n\n"
"Put a tasklet that has not run yet into the scope, and so into those around it. RuntimeError when it has, or when no\n"
"tasklet is in the scope. Does not switch.");

PyDoc_STRVAR(scope_reschedule_doc, "reschedule($self, timeout, /)\n--\n\n"
"Let its time be over `timeout` seconds (float, >= 0) from now, or never (None). RuntimeError when no tasklet is inside.\n"
"Thread-safe; does not switch.");

static PyMethodDef CancelScope_methods[] = {
    {"__enter__", CancelScope_enter, METH_NOARGS, scope_enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))CancelScope_exit, METH_FASTCALL, scope_exit_doc},
    {"cancel", CancelScope_cancel, METH_NOARGS, scope_cancel_doc},
    {"adopt", CancelScope_adopt, METH_O, scope_adopt_doc},
    {"reschedule", CancelScope_reschedule, METH_O, scope_reschedule_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef CancelScope_getset[] = {
    {"deadline", CancelScope_get_deadline, CancelScope_set_deadline,
     "When its time is over, in seconds as time.monotonic() counts; None: never. Can be set while a tasklet is inside.", NULL},
    {"cancelled", CancelScope_get_cancelled, NULL, "Whether cancel() was called.", NULL},
    {"expired", CancelScope_get_expired, NULL, "Whether its time is over, or was when it was left.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject CancelScope_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.core.CancelScope",
    .tp_doc = scope_doc,
    .tp_basicsize = sizeof(CancelScope),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = CancelScope_new,
    .tp_dealloc = CancelScope_dealloc,
    .tp_traverse = CancelScope_traverse,
    .tp_weaklistoffset = offsetof(CancelScope, weakrefs),
    .tp_repr = CancelScope_repr,
    .tp_methods = CancelScope_methods,
    .tp_getset = CancelScope_getset,
};
