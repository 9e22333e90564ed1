/* The types Queue, LifoQueue and PriorityQueue: constructors and `maxsize`, hooks for subclasses, and the tables; what the methods do is in
   queue.c. */

/* ---- the hooks as the classes themselves have them ---- */

static PyObject *
Queue_hook_init(PyObject *object, PyObject *Py_UNUSED(maxsize))
{
    Queue *self = (Queue *)object;
    PyObject *items = self->order == QUEUE_FIFO ? PyObject_CallNoArgs(deque_type) : PyList_New(0);
    if (items == NULL)
        return NULL;
    Py_XSETREF(self->items, items);
    Py_RETURN_NONE;
}

static PyObject *
Queue_hook_qsize(PyObject *object, PyObject *Py_UNUSED(unused))
{
    PyObject *items = queue_items((Queue *)object);
    Py_ssize_t size = items != NULL ? PyObject_Size(items) : -1;
    return size >= 0 ? PyLong_FromSsize_t(size) : NULL;
}

static PyObject *
Queue_hook_put(PyObject *object, PyObject *item)
{
    if (queue_insert((Queue *)object, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Queue_hook_get(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return queue_remove((Queue *)object);
}

/* Whether a class finds another `name` than `base` does. -1 with an exception set. */
static int
queue_overrides(PyTypeObject *type, PyTypeObject *base, PyObject *name)
{
    PyObject *ours = PyObject_GetAttr((PyObject *)base, name);
    PyObject *found = ours != NULL ? PyObject_GetAttr((PyObject *)type, name) : NULL;
    int overrides = found != NULL ? found != ours : -1;
    Py_XDECREF(ours);
    Py_XDECREF(found);
    return overrides;
}

/* ---- making one ---- */

static int
queue_set_maxsize(Queue *self, PyObject *maxsize)
{
    Py_ssize_t limit;
    if (PyFloat_Check(maxsize) && PyFloat_AS_DOUBLE(maxsize) > (double)PY_SSIZE_T_MAX)
        limit = 0; /* math.inf */
    else if ((limit = PyNumber_AsSsize_t(maxsize, NULL)) == -1 && PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "maxsize is a whole number of items, 0 or less for no limit, not %R", maxsize);
        return -1;
    }
    self->limit = limit > 0 ? limit : 0;
    Py_XSETREF(self->maxsize, Py_NewRef(maxsize));
    return 0;
}

static PyObject *
Queue_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    Queue *self = (Queue *)type->tp_alloc(type, 0);
    PyTypeObject *base = PyType_IsSubtype(type, LifoQueue_Type)       ? LifoQueue_Type
                         : PyType_IsSubtype(type, PriorityQueue_Type) ? PriorityQueue_Type
                                                                       : Queue_Type;
    if (self == NULL)
        return NULL;
    self->order = base == LifoQueue_Type ? QUEUE_LIFO : base == PriorityQueue_Type ? QUEUE_PRIORITY : QUEUE_FIFO;
    self->maxsize = PyLong_FromLong(0);
    self->mutex = Lock_Type.tp_alloc(&Lock_Type, 0);
    PyObject **conditions[] = {&self->not_empty, &self->not_full, &self->all_tasks_done};
    for (int i = 0; self->mutex != NULL && i < 3; i++) {
        *conditions[i] = Condition_Type->tp_alloc(Condition_Type, 0);
        if (*conditions[i] == NULL)
            break;
        condition_stand_on((Condition *)*conditions[i], self->mutex);
    }
    if (self->maxsize == NULL || self->all_tasks_done == NULL)
        goto failed;
    if (type != base) {
        PyObject *hooks[] = {str_qsize, str_put, str_get};
        for (int i = 0; i < 3; i++) {
            int overrides = queue_overrides(type, base, hooks[i]);
            if (overrides < 0)
                goto failed;
            self->hooked = self->hooked || overrides;
        }
    }
    return (PyObject *)self;

failed:
    Py_DECREF(self);
    return NULL;
}

static int
Queue_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"maxsize", NULL};
    PyObject *maxsize = NULL, *result;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Queue", names, &maxsize) ||
        (maxsize != NULL && queue_set_maxsize((Queue *)object, maxsize) < 0))
        return -1;
    result = PyObject_CallMethodOneArg(object, str_init, ((Queue *)object)->maxsize);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static int
Queue_set_maxsize(PyObject *object, PyObject *maxsize, void *Py_UNUSED(closure))
{
    if (maxsize == NULL) {
        PyErr_SetString(PyExc_AttributeError, "maxsize cannot be deleted; 0 is no limit");
        return -1;
    }
    return queue_set_maxsize((Queue *)object, maxsize);
}

static int
Queue_traverse(PyObject *object, visitproc visit, void *arg)
{
    Queue *self = (Queue *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->items);
    Py_VISIT(self->mutex);
    Py_VISIT(self->not_empty);
    Py_VISIT(self->not_full);
    Py_VISIT(self->all_tasks_done);
    Py_VISIT(self->maxsize);
    Py_VISIT(self->dict);
    return 0;
}

static int
Queue_clear(PyObject *object)
{
    Py_CLEAR(((Queue *)object)->items);
    Py_CLEAR(((Queue *)object)->dict);
    return 0;
}

static void
Queue_dealloc(PyObject *object)
{
    Queue *self = (Queue *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Queue_clear(object);
    Py_CLEAR(self->mutex);
    Py_CLEAR(self->not_empty);
    Py_CLEAR(self->not_full);
    Py_CLEAR(self->all_tasks_done);
    Py_CLEAR(self->maxsize);
    object_free(object);
}

PyDoc_STRVAR(queue_doc, "Queue(maxsize=0)\n--\n\n"
"A queue between tasklets and threads, first in, first out, as queue.Queue: put() waits while there are `maxsize` items.\n\n"
"maxsize 0 or less: no limit. Subclasses may override _init, _qsize, _put and _get, which are called with `mutex` held.\n"
"Thread-safe.");
PyDoc_STRVAR(lifo_queue_doc, "LifoQueue(maxsize=0)\n--\n\nA Queue from which the youngest item is taken first.");
PyDoc_STRVAR(priority_queue_doc, "PriorityQueue(maxsize=0)\n--\n\nA Queue from which the least item is taken first.");
PyDoc_STRVAR(queue_put_doc, "put($self, /, item, block=True, timeout=None)\n--\n\n"
"Put an item into the queue, waiting for room at most `timeout` seconds.\n\n"
"Blocks this tasklet while the queue is full. Raises queue.Full when time is up, or at once with block=False; ShutDown after\n"
"shutdown(); ValueError for a negative time-out. What is raised leaves the queue as it was.");
PyDoc_STRVAR(queue_get_doc, "get($self, /, block=True, timeout=None)\n--\n\n"
"Take the next item, waiting for one at most `timeout` seconds.\n\n"
"Blocks this tasklet while the queue is empty; lets others run now and then also when it need not wait. Raises queue.Empty\n"
"when time is up, or at once with block=False; ShutDown when the queue is shut down and empty; ValueError for a negative\n"
"time-out. An item that was put for a tasklet that is killed stays in the queue, and another one is woken.");
PyDoc_STRVAR(queue_put_nowait_doc, "put_nowait($self, /, item)\n--\n\nput(item, block=False)");
PyDoc_STRVAR(queue_get_nowait_doc, "get_nowait($self, /)\n--\n\nget(block=False)");
PyDoc_STRVAR(task_done_doc, "task_done($self, /)\n--\n\n"
"Say that the work on an item that was taken is done. ValueError when it is said more often than items were put.");
PyDoc_STRVAR(join_doc, "join($self, /)\n--\n\nWait until task_done() was called for each item that was put. Blocks this tasklet.");
PyDoc_STRVAR(shutdown_doc, "shutdown($self, /, immediate=False)\n--\n\n"
"Let put() raise ShutDown from now on, and get() when the queue is empty; all who wait are woken.\n\n"
"With immediate=True the items are dropped, and join() returns.");
PyDoc_STRVAR(queue_full_doc, "full($self, /)\n--\n\nWhether there are maxsize items now.");
PyDoc_STRVAR(hook_init_doc, "_init($self, maxsize, /)\n--\n\nFor subclasses: make what holds the items.");
PyDoc_STRVAR(hook_qsize_doc, "_qsize($self, /)\n--\n\nFor subclasses: how many items there are.");
PyDoc_STRVAR(hook_put_doc, "_put($self, item, /)\n--\n\nFor subclasses: put an item where it belongs.");
PyDoc_STRVAR(hook_get_doc, "_get($self, /)\n--\n\nFor subclasses: take the next item out.");

static PyMethodDef Queue_methods[] = {
    {"put", (PyCFunction)(void (*)(void))Queue_put, METH_FASTCALL | METH_KEYWORDS, queue_put_doc},
    {"get", (PyCFunction)(void (*)(void))Queue_get, METH_FASTCALL | METH_KEYWORDS, queue_get_doc},
    {"put_nowait", (PyCFunction)(void (*)(void))Queue_put_nowait, METH_FASTCALL | METH_KEYWORDS, queue_put_nowait_doc},
    {"get_nowait", Queue_get_nowait, METH_NOARGS, queue_get_nowait_doc},
    {"task_done", Queue_task_done, METH_NOARGS, task_done_doc},
    {"join", Queue_join, METH_NOARGS, join_doc},
    {"shutdown", (PyCFunction)(void (*)(void))Queue_shutdown, METH_FASTCALL | METH_KEYWORDS, shutdown_doc},
    {"qsize", Queue_qsize, METH_NOARGS, queue_qsize_doc},
    {"empty", Queue_empty, METH_NOARGS, queue_empty_doc},
    {"full", Queue_full, METH_NOARGS, queue_full_doc},
    {"_init", Queue_hook_init, METH_O, hook_init_doc},
    {"_qsize", Queue_hook_qsize, METH_NOARGS, hook_qsize_doc},
    {"_put", Queue_hook_put, METH_O, hook_put_doc},
    {"_get", Queue_hook_get, METH_NOARGS, hook_get_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, class_getitem_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Queue_members[] = {
    {"queue", T_OBJECT_EX, offsetof(Queue, items), 0, "The items: a deque, of the other classes a list."},
    {"mutex", T_OBJECT_EX, offsetof(Queue, mutex), READONLY, "The Lock that is held while the queue changes."},
    {"not_empty", T_OBJECT_EX, offsetof(Queue, not_empty), READONLY, "The Condition that get() waits for."},
    {"not_full", T_OBJECT_EX, offsetof(Queue, not_full), READONLY, "The Condition that put() waits for."},
    {"all_tasks_done", T_OBJECT_EX, offsetof(Queue, all_tasks_done), READONLY, "The Condition that join() waits for."},
    {"unfinished_tasks", T_PYSSIZET, offsetof(Queue, unfinished), 0, "How many items were put and not reported by task_done()."},
    {"is_shutdown", T_BOOL, offsetof(Queue, is_shutdown), 0, "Whether shutdown() was called."},
    OFFSETS(Queue),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef Queue_getset[] = {
    {"maxsize", get_object, Queue_set_maxsize, "How many items may be there at once; 0 or less: any number.", FIELD(Queue, maxsize)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot Queue_slots[] = {
    {Py_tp_doc, (void *)queue_doc},
    {Py_tp_new, Queue_new},
    {Py_tp_init, Queue_init},
    {Py_tp_dealloc, Queue_dealloc},
    {Py_tp_traverse, Queue_traverse},
    {Py_tp_clear, Queue_clear},
    {Py_tp_methods, Queue_methods},
    {Py_tp_members, Queue_members},
    {Py_tp_getset, Queue_getset},
    {0, NULL},
};

static PyType_Spec Queue_spec = {
    .name = "roamlet.sync.Queue",
    .basicsize = sizeof(Queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = Queue_slots,
};

static PyType_Slot LifoQueue_slots[] = {
    {Py_tp_doc, (void *)lifo_queue_doc},
    {Py_tp_dealloc, Queue_dealloc},
    {Py_tp_traverse, Queue_traverse},
    {Py_tp_clear, Queue_clear},
    {0, NULL},
};

static PyType_Spec LifoQueue_spec = {
    .name = "roamlet.sync.LifoQueue",
    .basicsize = sizeof(Queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = LifoQueue_slots,
};

static PyType_Slot PriorityQueue_slots[] = {
    {Py_tp_doc, (void *)priority_queue_doc},
    {Py_tp_dealloc, Queue_dealloc},
    {Py_tp_traverse, Queue_traverse},
    {Py_tp_clear, Queue_clear},
    {0, NULL},
};

static PyType_Spec PriorityQueue_spec = {
    .name = "roamlet.sync.PriorityQueue",
    .basicsize = sizeof(Queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = PriorityQueue_slots,
};

/* Look up what of the standard library the queues stand on. -1 with an exception set. */
static int
queues_prepare(void)
{
    static const struct {
        PyObject **place;
        const char *module, *name;
    } wanted[] = {
        {&Empty, "queue", "Empty"}, {&Full, "queue", "Full"}, {&deque_type, "collections", "deque"},
        {&heap_push, "heapq", "heappush"}, {&heap_pop, "heapq", "heappop"},
    };
    static const struct {
        PyObject **place;
        const char *name;
    } names[] = {
        {&str_append, "append"}, {&str_popleft, "popleft"}, {&str_pop, "pop"}, {&str_init, "_init"},
        {&str_qsize, "_qsize"}, {&str_put, "_put"}, {&str_get, "_get"},
    };
    if (ShutDown != NULL) /* imported once more */
        return 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        PyObject *module = PyImport_ImportModule(wanted[i].module);
        *wanted[i].place = module != NULL ? PyObject_GetAttrString(module, wanted[i].name) : NULL;
        Py_XDECREF(module);
        if (*wanted[i].place == NULL)
            return -1;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*names[i].place = PyUnicode_InternFromString(names[i].name)) == NULL)
            return -1;
    PyObject *module = PyImport_ImportModule("queue");
    ShutDown = module != NULL ? PyObject_GetAttrString(module, "ShutDown") : NULL;
    Py_XDECREF(module);
    if (ShutDown == NULL) {
        PyErr_Clear();
        ShutDown = PyErr_NewExceptionWithDoc("roamlet.sync.ShutDown", "Raised by put() and get() of a queue that was shut down.", NULL, NULL);
    }
    return ShutDown != NULL ? 0 : -1;
}
