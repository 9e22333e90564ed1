/* SimpleQueue: unbounded, first in, first out. put() runs no Python code and never switches, so that it may be called from
   anywhere: a signal handler or a __del__ in the middle of a put() of the same queue. */

static PyObject *Empty; /* queue.Empty */

/* Append `item` (borrowed) and wake one waiter. -1 with an exception set. Never switches, runs no Python code. */
static int
simple_queue_put(SimpleQueue *self, PyObject *item)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 8;
        PyObject **grown = PyMem_New(PyObject *, capacity);
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (size_t i = 0; i < self->count; i++)
            grown[i] = self->items[(self->first + i) & (self->capacity - 1)];
        PyMem_Free(self->items);
        self->items = grown;
        self->capacity = capacity;
        self->first = 0;
    }
    self->items[(self->first + self->count++) & (self->capacity - 1)] = Py_NewRef(item);
    wake_one(&self->queue);
    return 0;
}

/* The first item: its reference passes to the caller. The memory of a long queue that is empty again is given back. */
static PyObject *
simple_queue_take(SimpleQueue *self)
{
    PyObject *item = self->items[self->first];
    self->first = (self->first + 1) & (self->capacity - 1);
    if (--self->count == 0 && self->capacity > 1024) {
        PyMem_Free(self->items);
        self->items = NULL;
        self->capacity = self->first = 0;
    }
    return item;
}

/* The first item, waiting for it until `deadline`. A new reference, or NULL with an exception set. Switches. */
static PyObject *
simple_queue_wait(SimpleQueue *self, int64_t deadline, PyObject *const *operands)
{
    int place = 0;
    while (self->count == 0) {
        int how = wait_in(&self->queue, (PyObject *)self, deadline, (self->idle ? 0 : wait_flags) | place, operands);
        if (how == ROAMLET_TIMED_OUT && self->count == 0) {
            PyErr_SetNone(Empty);
            return NULL;
        }
        if (how < 0) {
            if (how == ROAMLET_RAISED_WOKEN && self->count > 0)
                wake_one(&self->queue);
            return NULL;
        }
        place = ROAMLET_WAIT_FRONT;
    }
    return simple_queue_take(self);
}

static PyObject *
item_missing(const char *name)
{
    return PyErr_Format(PyExc_TypeError, "%s() missing 1 required argument: 'item'", name);
}

/* The one argument of a call that takes an item: borrowed, NULL with an exception set. */
static PyObject *
item_taken(const char *name, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"item"};
    PyObject *given[1] = {NULL};
    if (arguments_take(name, keywords, 1, given, args, count, names) < 0)
        return NULL;
    return given[0] != NULL ? given[0] : item_missing(name);
}

static PyObject *
SimpleQueue_get(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"block", "timeout"};
    SimpleQueue *self = (SimpleQueue *)object;
    PyObject *given[2] = {Py_True, Py_None};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("get", keywords, 2, given, args, count, names) < 0 || (waits = PyObject_IsTrue(given[0])) < 0 ||
            (waits && queue_deadline(given[1], "SimpleQueue.get()", &deadline) < 0))
            return NULL;
    }
    if (waits && self->count > 0 && unlikely(api->checkpoint(true) < 0))
        return NULL;
    if (likely(self->count > 0))
        return simple_queue_take(self);
    if (!waits) {
        PyErr_SetNone(Empty);
        return NULL;
    }
    return simple_queue_wait(self, deadline, arguments_end(args, count, names));
}

static PyObject *
SimpleQueue_get_nowait(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (((SimpleQueue *)object)->count > 0)
        return simple_queue_take((SimpleQueue *)object);
    PyErr_SetNone(Empty);
    return NULL;
}

static PyObject *
SimpleQueue_put(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"item", "block", "timeout"};
    PyObject *given[3] = {NULL, Py_True, Py_None};
    if (unlikely(count != 1 || names != NULL)) {
        if (arguments_take("put", keywords, 3, given, args, count, names) < 0)
            return NULL;
        if (given[0] == NULL)
            return item_missing("put");
    } else
        given[0] = args[0];
    if (simple_queue_put((SimpleQueue *)object, given[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
SimpleQueue_put_nowait(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *item = item_taken("put_nowait", args, count, names);
    if (item == NULL || simple_queue_put((SimpleQueue *)object, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
SimpleQueue_empty(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(((SimpleQueue *)object)->count == 0);
}

static PyObject *
SimpleQueue_qsize(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromSize_t(((SimpleQueue *)object)->count);
}

static PyObject *
SimpleQueue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (type == &SimpleQueue_Type && (PyTuple_GET_SIZE(args) > 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)))
        return PyErr_Format(PyExc_TypeError, "SimpleQueue() takes no arguments: it has no limit. Queue(maxsize) has one");
    return type->tp_alloc(type, 0);
}

static int
SimpleQueue_traverse(PyObject *object, visitproc visit, void *arg)
{
    SimpleQueue *self = (SimpleQueue *)object;
    for (size_t i = 0; i < self->count; i++)
        Py_VISIT(self->items[(self->first + i) & (self->capacity - 1)]);
    return queue_visit(&self->queue, visit, arg);
}

static int
SimpleQueue_clear(PyObject *object)
{
    SimpleQueue *self = (SimpleQueue *)object;
    while (self->count > 0)
        Py_DECREF(simple_queue_take(self));
    PyMem_Free(self->items);
    self->items = NULL;
    self->capacity = self->first = 0;
    return 0;
}

static void
SimpleQueue_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((SimpleQueue *)object)->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    SimpleQueue_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyDoc_STRVAR(simple_queue_doc, "SimpleQueue()\n--\n\n"
"An unbounded queue between tasklets and threads, first in, first out, as queue.SimpleQueue.\n\n"
"put() may be called from signal handlers and __del__ methods, also inside another put() of the same queue. Thread-safe.");
PyDoc_STRVAR(simple_get_doc, "get($self, /, block=True, timeout=None)\n--\n\n"
"Take the first item, waiting for one at most `timeout` seconds.\n\n"
"Blocks this tasklet; lets others run now and then also when it need not wait. Raises queue.Empty when time is up, or at\n"
"once with block=False. An item that was put for a tasklet that is killed stays in the queue, and another one is woken.\n"
"ValueError for a negative time-out.");
PyDoc_STRVAR(simple_get_nowait_doc, "get_nowait($self, /)\n--\n\nget(block=False)");
PyDoc_STRVAR(simple_put_doc, "put($self, /, item, block=True, timeout=None)\n--\n\n"
"Append an item. Never blocks, never switches; block and timeout are there for queue.Queue's sake.");
PyDoc_STRVAR(simple_put_nowait_doc, "put_nowait($self, /, item)\n--\n\nput(item)");
PyDoc_STRVAR(queue_empty_doc, "empty($self, /)\n--\n\nWhether there is no item now.");
PyDoc_STRVAR(queue_qsize_doc, "qsize($self, /)\n--\n\nHow many items there are now.");
PyDoc_STRVAR(class_getitem_doc, "__class_getitem__($type, item, /)\n--\n\nThe generic alias of the type of items, for annotations.");

static PyMethodDef SimpleQueue_methods[] = {
    {"get", (PyCFunction)(void (*)(void))SimpleQueue_get, METH_FASTCALL | METH_KEYWORDS, simple_get_doc},
    {"get_nowait", SimpleQueue_get_nowait, METH_NOARGS, simple_get_nowait_doc},
    {"put", (PyCFunction)(void (*)(void))SimpleQueue_put, METH_FASTCALL | METH_KEYWORDS, simple_put_doc},
    {"put_nowait", (PyCFunction)(void (*)(void))SimpleQueue_put_nowait, METH_FASTCALL | METH_KEYWORDS, simple_put_nowait_doc},
    {"empty", SimpleQueue_empty, METH_NOARGS, queue_empty_doc},
    {"qsize", SimpleQueue_qsize, METH_NOARGS, queue_qsize_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, class_getitem_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef SimpleQueue_members[] = {
    {"_idle", T_BOOL, offsetof(SimpleQueue, idle), 0, NULL}, /* its waits keep no run() from returning, whatever wait_for_signals() says */
    {NULL},
};

static PyTypeObject SimpleQueue_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.sync.SimpleQueue",
    .tp_doc = simple_queue_doc,
    .tp_basicsize = sizeof(SimpleQueue),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = SimpleQueue_new,
    .tp_dealloc = SimpleQueue_dealloc,
    .tp_traverse = SimpleQueue_traverse,
    .tp_clear = SimpleQueue_clear,
    .tp_weaklistoffset = offsetof(SimpleQueue, weakrefs),
    .tp_methods = SimpleQueue_methods,
    .tp_members = SimpleQueue_members,
};
