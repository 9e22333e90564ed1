/* Lock: threading's, for tasklets and threads alike. A waiter woken by release() has to take the lock like any other
   tasklet, and is first in the queue again when it came too late; a fair lock is handed over instead, to the longest waiter. */

/* Give the lock, which is held, back: free, or to the first waiter if it is fair. Never switches, runs no Python code. */
static inline void
lock_free(Lock *self)
{
    if (unlikely(self->fair) && self->queue.head != NULL && api->wake_one(&self->queue))
        return;
    self->locked = false;
    wake_one(&self->queue);
}

/* Take the lock, waiting until `deadline`; `operands` as in api->wait. 1, 0 when time is up, -1 with an exception set. Switches. */
static int
lock_take(Lock *self, int64_t deadline, PyObject *const *operands)
{
    int place = 0;
    while (self->locked) {
        int how = wait_in(&self->queue, (PyObject *)self, deadline, wait_flags | place, operands);
        if (how == ROAMLET_TIMED_OUT && self->locked) /* not when it became free as time was up */
            return 0;
        if (how < 0) {
            if (how == ROAMLET_RAISED_WOKEN && self->fair)
                lock_free(self); /* it is ours */
            else if (how == ROAMLET_RAISED_WOKEN && !self->locked)
                wake_one(&self->queue);
            return -1;
        }
        if (how == ROAMLET_WOKEN && self->fair)
            return 1;
        place = ROAMLET_WAIT_FRONT;
    }
    self->locked = true;
    return 1;
}

static PyObject *
Lock_acquire(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"blocking", "timeout"};
    Lock *self = (Lock *)object;
    PyObject *given[2] = {NULL, NULL};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("acquire", keywords, 2, given, args, count, names) < 0 ||
            (waits = may_wait(given[0], given[1], true, "Lock.acquire()", &deadline)) < 0)
            return NULL;
    }
    if (likely(!self->locked)) {
        self->locked = true;
        Py_RETURN_TRUE;
    }
    if (waits && (waits = lock_take(self, deadline, arguments_end(args, count, names))) < 0)
        return NULL;
    return PyBool_FromLong(waits);
}

static PyObject *
Lock_enter(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Lock *self = (Lock *)object;
    if (unlikely(self->locked)) {
        if (lock_take(self, ROAMLET_NEVER, NULL) < 0)
            return NULL;
    } else
        self->locked = true;
    Py_RETURN_TRUE;
}

static PyObject *
Lock_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Lock *self = (Lock *)object;
    if (unlikely(!self->locked))
        return PyErr_Format(PyExc_RuntimeError, "release unlocked lock: no tasklet holds %R. It was released twice, or its acquire() was not waited "
                                                "for or returned False; `with lock:` does both", object);
    lock_free(self);
    Py_RETURN_NONE;
}

static PyObject *
Lock_exit(PyObject *object, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    return Lock_release(object, NULL);
}

static PyObject *
Lock_locked(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(((Lock *)object)->locked);
}

static PyObject *
Lock_at_fork_reinit(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Lock *self = (Lock *)object;
    self->locked = false;
    if (self->queue.head != NULL) { /* of this thread: those of the threads that are no more have left */
        self->locked = self->fair;
        api->wake_one(&self->queue);
    }
    Py_RETURN_NONE;
}

static PyObject *
Lock_repr(PyObject *object)
{
    Lock *self = (Lock *)object;
    return PyUnicode_FromFormat("<%s %s object at %p>", self->locked ? "locked" : "unlocked", Py_TYPE(object)->tp_name, object);
}

static PyObject *
Lock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fair", NULL};
    int fair = 0;
    Lock *self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:Lock", names, &fair))
        return NULL;
    self = (Lock *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->fair = fair;
    return (PyObject *)self;
}

static int
Lock_traverse(PyObject *object, visitproc visit, void *arg)
{
    return queue_visit(&((Lock *)object)->queue, visit, arg);
}

/* No reference to the lock is left, so no call waits for it: a waiting call holds one. */
static void
Lock_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((Lock *)object)->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Py_TYPE(object)->tp_free(object);
}

PyDoc_STRVAR(lock_doc, "Lock(*, fair=False)\n--\n\n"
"Mutual exclusion between tasklets and threads, as threading.Lock: any tasklet or thread may release it.\n\n"
"release() frees it and wakes the longest waiter, which may find that another one has taken it meanwhile and then\n"
"waits on in the first place. With fair=True it is handed over: no other waiter overtakes, at the price of a switch for each\n"
"hand-over. Thread-safe.");
PyDoc_STRVAR(lock_acquire_doc, "acquire($self, /, blocking=True, timeout=-1)\n--\n\n"
"Take the lock; True when it was taken.\n\n"
"Blocks this tasklet while it is held, at most `timeout` seconds; -1: no limit. False when time is up, or at once\n"
"with blocking=False. Does not switch when it is free. ValueError for other negative time-outs and for one in a call that\n"
"does not block, OverflowError for more than threading.TIMEOUT_MAX.");
PyDoc_STRVAR(lock_release_doc, "release($self, /)\n--\n\n"
"Give the lock back, whoever took it. Never switches. RuntimeError when it is free.");
PyDoc_STRVAR(lock_locked_doc, "locked($self, /)\n--\n\nWhether it is held.");
PyDoc_STRVAR(enter_doc, "__enter__($self, /)\n--\n\nacquire()");
PyDoc_STRVAR(exit_doc, "__exit__($self, /, *args)\n--\n\nrelease()");
PyDoc_STRVAR(at_fork_reinit_doc, "_at_fork_reinit($self, /)\n--\n\n"
"In a forked child: free it, whichever thread of the parent holds it.");

static PyMethodDef Lock_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))Lock_acquire, METH_FASTCALL | METH_KEYWORDS, lock_acquire_doc},
    {"release", Lock_release, METH_NOARGS, lock_release_doc},
    {"locked", Lock_locked, METH_NOARGS, lock_locked_doc},
    {"__enter__", Lock_enter, METH_NOARGS, enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))Lock_exit, METH_FASTCALL, exit_doc},
    {"_at_fork_reinit", Lock_at_fork_reinit, METH_NOARGS, at_fork_reinit_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Lock_getset[] = {
    {"fair", get_bool, NULL, "Whether it is handed over to the longest waiter.", FIELD(Lock, fair)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Lock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.sync.Lock",
    .tp_doc = lock_doc,
    .tp_basicsize = sizeof(Lock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Lock_new,
    .tp_dealloc = Lock_dealloc,
    .tp_traverse = Lock_traverse,
    .tp_repr = Lock_repr,
    .tp_weaklistoffset = offsetof(Lock, weakrefs),
    .tp_methods = Lock_methods,
    .tp_getset = Lock_getset,
};
