/* Semaphore and BoundedSemaphore: so many may pass. release() adds to the count and wakes as many as may go on; who comes too
   late stands first in the queue again. */

/* Take one, waiting until `deadline`. 1, 0 when time is up, -1 with an exception set. Switches. */
static int
semaphore_take(Semaphore *self, int64_t deadline, PyObject *const *operands)
{
    int place = 0;
    while (self->value == 0) {
        int how = wait_in(&self->queue, (PyObject *)self, deadline, wait_flags | place, operands);
        if (how == ROAMLET_TIMED_OUT && self->value == 0)
            return 0;
        if (how < 0) {
            if (how == ROAMLET_RAISED_WOKEN && self->value > 0)
                wake_one(&self->queue);
            return -1;
        }
        place = ROAMLET_WAIT_FRONT;
    }
    self->value--;
    return 1;
}

static PyObject *
Semaphore_acquire(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"blocking", "timeout"};
    Semaphore *self = (Semaphore *)object;
    PyObject *given[2] = {NULL, NULL};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("acquire", keywords, 2, given, args, count, names) < 0 ||
            (waits = may_wait(given[0], given[1], false, "Semaphore.acquire()", &deadline)) < 0)
            return NULL;
    }
    if (likely(self->value > 0)) {
        self->value--;
        Py_RETURN_TRUE;
    }
    if (waits && (waits = semaphore_take(self, deadline, arguments_end(args, count, names))) < 0)
        return NULL;
    return PyBool_FromLong(waits);
}

/* Add `count` and wake those who may go on. Never switches. 0, or -1 with an exception set and nothing changed. */
static int
semaphore_release(Semaphore *self, Py_ssize_t count)
{
    if (unlikely(count < 1)) {
        PyErr_Format(PyExc_ValueError, "release(): n must be one or more, not %zd", count);
        return -1;
    }
    if (unlikely(count > self->limit - self->value)) {
        if (self->limit == PY_SSIZE_T_MAX)
            PyErr_Format(PyExc_OverflowError, "release(): %zd more than %zd is no number that a semaphore can have", count, self->value);
        else
            PyErr_Format(PyExc_ValueError, "Semaphore released too many times: %R would have %zd, and %zd is all there is. There was a "
                                           "release() without an acquire()", self, self->value + count, self->limit);
        return -1;
    }
    self->value += count;
    while (count-- > 0 && self->queue.head != NULL)
        api->wake_one(&self->queue);
    return 0;
}

static PyObject *
Semaphore_release(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"n"};
    PyObject *given[1] = {NULL};
    Py_ssize_t n = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("release", keywords, 1, given, args, count, names) < 0)
            return NULL;
        if (given[0] != NULL && (n = PyNumber_AsSsize_t(given[0], PyExc_OverflowError)) == -1 && PyErr_Occurred())
            return NULL;
    }
    if (semaphore_release((Semaphore *)object, n) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Semaphore_enter(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Semaphore *self = (Semaphore *)object;
    if (likely(self->value > 0))
        self->value--;
    else if (semaphore_take(self, ROAMLET_NEVER, NULL) < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *
Semaphore_exit(PyObject *object, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    if (semaphore_release((Semaphore *)object, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Semaphore_repr(PyObject *object)
{
    Semaphore *self = (Semaphore *)object;
    PyObject *name = class_name(object), *text = NULL;
    if (name != NULL && PyObject_TypeCheck(object, BoundedSemaphore_Type))
        text = PyUnicode_FromFormat("<%U at %p: value=%zd/%zd>", name, object, self->value, self->limit);
    else if (name != NULL)
        text = PyUnicode_FromFormat("<%U at %p: value=%zd>", name, object, self->value);
    Py_XDECREF(name);
    return text;
}

static PyObject *
Semaphore_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    Semaphore *self = (Semaphore *)type->tp_alloc(type, 0);
    if (self != NULL) { /* as if __init__ had been called without arguments, for a subclass that forgets it */
        self->value = 1;
        self->limit = PyType_IsSubtype(type, BoundedSemaphore_Type) ? 1 : PY_SSIZE_T_MAX;
    }
    return (PyObject *)self;
}

static int
Semaphore_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", NULL};
    Semaphore *self = (Semaphore *)object;
    Py_ssize_t value = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:Semaphore", names, &value))
        return -1;
    if (value < 0) {
        PyErr_Format(PyExc_ValueError, "semaphore initial value must be >= 0, not %zd: it says how many may pass at once", value);
        return -1;
    }
    self->value = value;
    if (PyObject_TypeCheck(object, BoundedSemaphore_Type))
        self->limit = value;
    for (Py_ssize_t i = 0; i < value && self->queue.head != NULL; i++) /* __init__ called again while tasklets wait */
        api->wake_one(&self->queue);
    return 0;
}

static int
Semaphore_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Semaphore *)object)->dict);
    return queue_visit(&((Semaphore *)object)->queue, visit, arg);
}

static int
Semaphore_clear(PyObject *object)
{
    Py_CLEAR(((Semaphore *)object)->dict);
    return 0;
}

static void
Semaphore_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((Semaphore *)object)->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Semaphore_clear(object);
    object_free(object);
}

PyDoc_STRVAR(semaphore_doc, "Semaphore(value=1)\n--\n\n"
"So many tasklets may pass at once, in any threads, as threading.Semaphore: acquire() takes one, release() gives one back.\n\n"
"ValueError for a negative value. Thread-safe.");
PyDoc_STRVAR(bounded_semaphore_doc, "BoundedSemaphore(value=1)\n--\n\n"
"A Semaphore that refuses to be given back more than was taken, with ValueError.");
PyDoc_STRVAR(semaphore_acquire_doc, "acquire($self, /, blocking=True, timeout=None)\n--\n\n"
"Take one; True when it was taken.\n\n"
"Blocks this tasklet while the count is 0, at most `timeout` seconds. False when time is up, or at once with blocking=False\n"
"or a time-out that has passed. Does not switch when there is one. ValueError for a time-out in a call that does not block.");
PyDoc_STRVAR(semaphore_release_doc, "release($self, /, n=1)\n--\n\n"
"Give back `n` and wake as many tasklets. Never switches; thread-safe. ValueError for n < 1.");

static PyMethodDef Semaphore_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))Semaphore_acquire, METH_FASTCALL | METH_KEYWORDS, semaphore_acquire_doc},
    {"release", (PyCFunction)(void (*)(void))Semaphore_release, METH_FASTCALL | METH_KEYWORDS, semaphore_release_doc},
    {"__enter__", Semaphore_enter, METH_NOARGS, enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))Semaphore_exit, METH_FASTCALL, exit_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Semaphore_getset[] = {
    {"_value", get_size, NULL, "How many may pass now.", FIELD(Semaphore, value)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyGetSetDef BoundedSemaphore_getset[] = {
    {"_initial_value", get_size, NULL, "What it was made with.", FIELD(Semaphore, limit)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef Semaphore_members[] = {
    OFFSETS(Semaphore),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot Semaphore_slots[] = {
    {Py_tp_doc, (void *)semaphore_doc},
    {Py_tp_new, Semaphore_new},
    {Py_tp_init, Semaphore_init},
    {Py_tp_dealloc, Semaphore_dealloc},
    {Py_tp_traverse, Semaphore_traverse},
    {Py_tp_clear, Semaphore_clear},
    {Py_tp_repr, Semaphore_repr},
    {Py_tp_methods, Semaphore_methods},
    {Py_tp_members, Semaphore_members},
    {Py_tp_getset, Semaphore_getset},
    {0, NULL},
};

static PyType_Spec Semaphore_spec = {
    .name = "roamlet.sync.Semaphore",
    .basicsize = sizeof(Semaphore),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = Semaphore_slots,
};

static PyType_Slot BoundedSemaphore_slots[] = {
    {Py_tp_doc, (void *)bounded_semaphore_doc},
    {Py_tp_dealloc, Semaphore_dealloc},
    {Py_tp_traverse, Semaphore_traverse},
    {Py_tp_clear, Semaphore_clear},
    {Py_tp_getset, BoundedSemaphore_getset},
    {0, NULL},
};

static PyType_Spec BoundedSemaphore_spec = {
    .name = "roamlet.sync.BoundedSemaphore",
    .basicsize = sizeof(Semaphore),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = BoundedSemaphore_slots,
};
