/* RLock: a lock that its owner may take again. The owner is the tasklet that runs; in a thread without tasklets that is the
   thread. */

/* The owner gives all of it up. Never switches; no code runs, as the owner lives on or `owner` held by the caller. */
static inline void
rlock_free(RLock *self)
{
    self->count = 0;
    Py_CLEAR(self->owner);
    wake_one(&self->queue);
}

/* Take the lock for `me` (borrowed, the current tasklet), `count` deep. 1, 0 when time is up, -1 with an exception set. Switches. */
static int
rlock_take(RLock *self, PyObject *me, Py_ssize_t count, int64_t deadline, PyObject *const *operands)
{
    int place = 0;
    while (self->owner != NULL) {
        int how = wait_in(&self->queue, (PyObject *)self, deadline, wait_flags | place, operands);
        if (how == ROAMLET_TIMED_OUT && self->owner != NULL)
            return 0;
        if (how < 0) {
            if (how == ROAMLET_RAISED_WOKEN && self->owner == NULL)
                wake_one(&self->queue);
            return -1;
        }
        place = ROAMLET_WAIT_FRONT;
    }
    self->owner = Py_NewRef(me);
    self->count = count;
    return 1;
}

/* One level deeper, waiting while another one holds it unless `waits` is 0. 1, 0, or -1 with an exception set. */
static inline int
rlock_acquire(RLock *self, int waits, int64_t deadline, PyObject *const *operands)
{
    PyObject *me = api->current();
    if (unlikely(me == NULL))
        return -1;
    if (likely(self->owner == NULL)) {
        self->owner = Py_NewRef(me);
        self->count = 1;
        return 1;
    }
    if (self->owner == me) {
        self->count++;
        return 1;
    }
    return waits ? rlock_take(self, me, 1, deadline, operands) : 0;
}

/* Whether the current tasklet holds it; RuntimeError says what `call` needs. 1, or -1 with an exception set. */
static int
rlock_check_owner(RLock *self, const char *call)
{
    PyObject *me = api->current();
    if (likely(me != NULL && self->owner == me))
        return 1;
    if (me != NULL && self->owner == NULL)
        PyErr_Format(PyExc_RuntimeError, "cannot release un-acquired lock: %s, and no tasklet holds %R. There was one release() too many", call, self);
    else if (me != NULL)
        PyErr_Format(PyExc_RuntimeError, "cannot release un-acquired lock: %s in %R, but another tasklet holds %R, and it alone can release it",
                     call, me, self);
    return -1;
}

static int
rlock_release(RLock *self)
{
    if (unlikely(rlock_check_owner(self, "release()") < 0))
        return -1;
    if (--self->count == 0)
        rlock_free(self);
    return 0;
}

static PyObject *
RLock_acquire(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"blocking", "timeout"};
    PyObject *given[2] = {NULL, NULL};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("acquire", keywords, 2, given, args, count, names) < 0 ||
            (waits = may_wait(given[0], given[1], true, "RLock.acquire()", &deadline)) < 0)
            return NULL;
    }
    waits = rlock_acquire((RLock *)object, waits, deadline, arguments_end(args, count, names));
    return likely(waits >= 0) ? PyBool_FromLong(waits) : NULL;
}

static PyObject *
RLock_enter(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (unlikely(rlock_acquire((RLock *)object, 1, ROAMLET_NEVER, NULL) < 0))
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *
RLock_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (unlikely(rlock_release((RLock *)object) < 0))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
RLock_exit(PyObject *object, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    return RLock_release(object, NULL);
}

static PyObject *
RLock_locked(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(((RLock *)object)->owner != NULL);
}

static PyObject *
RLock_is_owned(PyObject *object, PyObject *Py_UNUSED(unused))
{
    PyObject *me = api->current();
    return me != NULL ? PyBool_FromLong(((RLock *)object)->owner == me) : NULL;
}

static PyObject *
RLock_recursion_count(PyObject *object, PyObject *Py_UNUSED(unused))
{
    RLock *self = (RLock *)object;
    PyObject *me = api->current();
    return me != NULL ? PyLong_FromSsize_t(self->owner == me ? self->count : 0) : NULL;
}

static PyObject *
RLock_release_save(PyObject *object, PyObject *Py_UNUSED(unused))
{
    RLock *self = (RLock *)object;
    PyObject *count;
    if (rlock_check_owner(self, "_release_save()") < 0 || (count = PyLong_FromSsize_t(self->count)) == NULL)
        return NULL;
    rlock_free(self);
    return count;
}

static PyObject *
RLock_acquire_restore(PyObject *object, PyObject *saved)
{
    Py_ssize_t count = PyLong_AsSsize_t(saved);
    PyObject *me = api->current();
    if (me == NULL || (count == -1 && PyErr_Occurred()))
        return NULL;
    if (count < 1)
        return PyErr_Format(PyExc_ValueError, "_acquire_restore() takes what _release_save() returned, not %R", saved);
    if (rlock_take((RLock *)object, me, count, ROAMLET_NEVER, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
RLock_at_fork_reinit(PyObject *object, PyObject *Py_UNUSED(unused))
{
    rlock_free((RLock *)object);
    Py_RETURN_NONE;
}

static PyObject *
RLock_repr(PyObject *object)
{
    RLock *self = (RLock *)object;
    return PyUnicode_FromFormat("<%s %s object owner=%R count=%zd at %p>", self->owner != NULL ? "locked" : "unlocked",
                                Py_TYPE(object)->tp_name, self->owner != NULL ? self->owner : Py_None, self->count, object);
}

static PyObject *
RLock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    /* As threading's: a subclass's own __init__ may take what it likes. */
    if (type == &RLock_Type && (PyTuple_GET_SIZE(args) > 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)))
        return PyErr_Format(PyExc_TypeError, "RLock() takes no arguments");
    return type->tp_alloc(type, 0);
}

static int
RLock_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((RLock *)object)->owner);
    return queue_visit(&((RLock *)object)->queue, visit, arg);
}

static int
RLock_clear(PyObject *object)
{
    Py_CLEAR(((RLock *)object)->owner);
    return 0;
}

static void
RLock_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((RLock *)object)->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    RLock_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyDoc_STRVAR(rlock_doc, "RLock()\n--\n\n"
"A lock that the tasklet which holds it may take again, as threading.RLock: it is free after as many release().\n\n"
"Belongs to the tasklet, not to the thread: two tasklets of one thread exclude each other. Thread-safe.");
PyDoc_STRVAR(rlock_acquire_doc, "acquire($self, /, blocking=True, timeout=-1)\n--\n\n"
"Take the lock, or take it once more; True when it was taken.\n\n"
"Blocks this tasklet while another one holds it, at most `timeout` seconds; -1: no limit. False when time is up, or at once\n"
"with blocking=False. Raises as Lock.acquire does.");
PyDoc_STRVAR(rlock_release_doc, "release($self, /)\n--\n\n"
"Undo one acquire(). Never switches. RuntimeError in any tasklet but the one that holds it.");
PyDoc_STRVAR(is_owned_doc, "_is_owned($self, /)\n--\n\nWhether the current tasklet holds it.");
PyDoc_STRVAR(recursion_count_doc, "_recursion_count($self, /)\n--\n\nHow many release() the current tasklet owes.");
PyDoc_STRVAR(release_save_doc, "_release_save($self, /)\n--\n\nRelease it however often it was taken; return what _acquire_restore() takes.");
PyDoc_STRVAR(acquire_restore_doc, "_acquire_restore($self, state, /)\n--\n\nTake it as often as it had been before _release_save().");

static PyMethodDef RLock_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))RLock_acquire, METH_FASTCALL | METH_KEYWORDS, rlock_acquire_doc},
    {"release", RLock_release, METH_NOARGS, rlock_release_doc},
    {"locked", RLock_locked, METH_NOARGS, lock_locked_doc},
    {"__enter__", RLock_enter, METH_NOARGS, enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))RLock_exit, METH_FASTCALL, exit_doc},
    {"_is_owned", RLock_is_owned, METH_NOARGS, is_owned_doc},
    {"_recursion_count", RLock_recursion_count, METH_NOARGS, recursion_count_doc},
    {"_release_save", RLock_release_save, METH_NOARGS, release_save_doc},
    {"_acquire_restore", RLock_acquire_restore, METH_O, acquire_restore_doc},
    {"_at_fork_reinit", RLock_at_fork_reinit, METH_NOARGS, at_fork_reinit_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject RLock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.sync.RLock",
    .tp_doc = rlock_doc,
    .tp_basicsize = sizeof(RLock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = RLock_new,
    .tp_dealloc = RLock_dealloc,
    .tp_traverse = RLock_traverse,
    .tp_clear = RLock_clear,
    .tp_repr = RLock_repr,
    .tp_weaklistoffset = offsetof(RLock, weakrefs),
    .tp_methods = RLock_methods,
};
