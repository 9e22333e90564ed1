/* Waiter: a one-shot wake-up, the joint between tasklets and everything else that can wake them: descriptors, child
   processes, other threads, remote replies. And sleep, which is a wait for a timer alone. */

/* Suspend the current tasklet in a wait: for `waiter` (borrowed, may be NULL) and until `when` (-1: no limit). `operands`:
   see scheduler_leave. 0 with *value, or -1 with an exception set. */
static int
wait_for(Scheduler *scheduler, Waiter *waiter, int64_t when, bool daemon, PyObject *const *operands, PyObject **value)
{
    Tasklet *current = scheduler->current, *next;
    if (wait_arm(scheduler, current, when) < 0)
        return -1;
    next = scheduler_leave(current, operands);
    current->next = current->prev = NULL;
    current->blocked = BLOCKED_WAIT;
    current->waiting_on = (PyObject *)waiter;
    current->timed_out = false;
    if (waiter != NULL)
        waiter->tasklet = current;
    if (!daemon) {
        current->keeps = true;
        scheduler->keepers++;
    }
    return scheduler_suspend(scheduler, current, next, value);
}

static PyObject *
waiter_result(Waiter *waiter)
{
    PyObject *value = waiter->value;
    waiter->value = NULL;
    if (waiter->state == WAITER_ERROR) {
        error_raise(value);
        return NULL;
    }
    return value;
}

static PyObject *
Waiter_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"timeout", "daemon"};
    Waiter *waiter = (Waiter *)self;
    Scheduler *scheduler = scheduler_get();
    Tasklet *current;
    PyObject *given[2] = {Py_None, Py_False}, *timeout, *value;
    int64_t when = -1;
    int daemon;
    if (scheduler == NULL || arguments_take("wait", keywords, 2, given, args, count, names) < 0 ||
        (daemon = PyObject_IsTrue(given[1])) < 0)
        return NULL;
    timeout = given[0];
    if (timeout != Py_None) {
        int64_t now = clock_ns(), delay = now < 0 ? -1 : timeout_ns(timeout, "wait(timeout)");
        if (delay < 0)
            return NULL;
        when = now + delay;
    }
    if (waiter->state == WAITER_PENDING && !waiter->used && scheduler_may_block(scheduler) < 0)
        return NULL;
    if (waiter->used)
        return PyErr_Format(PyExc_RuntimeError, "a Waiter serves one wait: make a new one");
    waiter->used = true;
    if (waiter->state != WAITER_PENDING)
        return waiter_result(waiter);
    current = scheduler->current;
    if (wait_for(scheduler, waiter, when, daemon, arguments_end(args, count, names), &value) < 0) {
        if (waiter->value != NULL) { /* settled just before: it can no longer be taken, and an error leads back to the frame that settled it */
            PyObject *error = error_take();
            Py_CLEAR(waiter->value);
            error_raise(error);
        }
        return NULL;
    }
    Py_XDECREF(value);
    if (waiter->state == WAITER_VALUE || waiter->state == WAITER_ERROR)
        return waiter_result(waiter);
    if (current->timed_out) {
        current->timed_out = false;
        return PyErr_Format(PyExc_TimeoutError, "nothing happened within %R seconds", timeout);
    }
    Py_RETURN_NONE; /* woken by insert() or run() */
}

/* Settle the waiter: with `value` (borrowed), which is an exception when `state` says so. */
static PyObject *
waiter_settle(Waiter *waiter, PyObject *value, int state)
{
    Tasklet *tasklet = waiter->tasklet;
    if (waiter->state != WAITER_PENDING)
        Py_RETURN_FALSE;
    waiter->state = state;
    waiter->value = Py_NewRef(value);
    if (tasklet != NULL)
        scheduler_wake(tasklet);
    Py_RETURN_TRUE;
}

static PyObject *
Waiter_succeed(PyObject *self, PyObject *args)
{
    PyObject *value = Py_None;
    if (!PyArg_ParseTuple(args, "|O:succeed", &value))
        return NULL;
    return waiter_settle((Waiter *)self, value, WAITER_VALUE);
}

static PyObject *
Waiter_fail(PyObject *self, PyObject *error)
{
    if (!PyExceptionInstance_Check(error))
        return PyErr_Format(PyExc_TypeError, "fail() takes an exception instance, not %R", error);
    return waiter_settle((Waiter *)self, error, WAITER_ERROR);
}

static PyObject *
Waiter_get_done(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Waiter *)self)->state != WAITER_PENDING);
}

static int
Waiter_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Waiter *)self)->tasklet);
    Py_VISIT(((Waiter *)self)->value);
    return 0;
}

static int
Waiter_clear(PyObject *self)
{
    Py_CLEAR(((Waiter *)self)->value);
    return 0;
}

static void
Waiter_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((Waiter *)self)->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    assert(((Waiter *)self)->tasklet == NULL); /* its wait() holds a reference to this object */
    Waiter_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
core_sleep(PyObject *Py_UNUSED(module), PyObject *seconds)
{
    Scheduler *scheduler = scheduler_get();
    PyObject *value;
    int64_t delay, now;
    if (scheduler == NULL || (delay = timeout_ns(seconds, "sleep()")) < 0 || (now = clock_ns()) < 0 ||
        scheduler_may_block(scheduler) < 0)
        return NULL;
    if (wait_for(scheduler, NULL, delay > 0 ? now + delay : TIMER_YIELDS, false, NULL, &value) < 0)
        return NULL;
    scheduler->current->timed_out = false;
    Py_XDECREF(value);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(waiter_doc, "Waiter()\n--\n\n"
"A one-shot wake-up: one tasklet waits, any code in any thread settles it, before or after the wait began.");
PyDoc_STRVAR(wait_doc, "wait($self, /, timeout=None, daemon=False)\n--\n\n"
"Block this tasklet until the waiter is settled; return the value of succeed, raise the exception of fail.\n\n"
"Raises TimeoutError when `timeout` seconds (float, >= 0) passed first. A `daemon` wait neither keeps roamlet.run() going\n"
"nor hides a deadlock. RuntimeError for a second wait.");
PyDoc_STRVAR(succeed_doc, "succeed($self, value=None, /)\n--\n\n"
"Settle with a value. True, or False when it was settled before or its wait has ended. Thread-safe; never switches.");
PyDoc_STRVAR(fail_doc, "fail($self, exception, /)\n--\n\n"
"Settle with an exception instance, which wait raises. Otherwise like succeed.");

static PyMethodDef Waiter_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))Waiter_wait, METH_FASTCALL | METH_KEYWORDS, wait_doc},
    {"succeed", Waiter_succeed, METH_VARARGS, succeed_doc},
    {"fail", Waiter_fail, METH_O, fail_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Waiter_getset[] = {
    {"done", Waiter_get_done, NULL, "Whether it was settled, or its wait has ended without that.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Waiter_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.core.Waiter",
    .tp_doc = waiter_doc,
    .tp_basicsize = sizeof(Waiter),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = Waiter_dealloc,
    .tp_traverse = Waiter_traverse,
    .tp_clear = Waiter_clear,
    .tp_weaklistoffset = offsetof(Waiter, weakrefs),
    .tp_methods = Waiter_methods,
    .tp_getset = Waiter_getset,
};
