/* What the methods of Queue, LifoQueue and PriorityQueue do, and their arguments; constructors and tables are in queue_type.c.
   These are the standard library's queues, with its attributes and its hooks for subclasses (_init, _qsize, _put, _get), on our Lock and
   Conditions. What is done under the mutex is C alone unless a hook is overridden or items are compared, so put() and get()
   of a Queue or LifoQueue may interrupt each other, in a signal handler or a __del__. */

static PyObject *Full, *ShutDown;                      /* queue.Full, and ShutDown of 3.13 or our own */
static PyObject *deque_type, *heap_push, *heap_pop;    /* of collections and heapq */
static PyObject *str_append, *str_popleft, *str_pop, *str_init, *str_qsize, *str_put, *str_get;

enum { QUEUE_FIFO, QUEUE_LIFO, QUEUE_PRIORITY };

typedef struct {
    PyObject_HEAD
    PyObject *items; /* the attribute `queue`: a deque or a list, or what a subclass made */
    PyObject *mutex, *not_empty, *not_full, *all_tasks_done; /* a Lock and three Conditions on it */
    PyObject *maxsize;
    Py_ssize_t limit; /* maxsize as a number: 0 for none */
    Py_ssize_t unfinished;
    int order;
    bool hooked; /* a subclass overrides _qsize, _put or _get */
    bool is_shutdown;
    PyObject *dict, *weakrefs;
} Queue;

/* ---- what a subclass may override ---- */

/* The items, where __init__ has made them. Borrowed, NULL with an exception set. */
static PyObject *
queue_items(Queue *self)
{
    if (unlikely(self->items == NULL))
        PyErr_Format(PyExc_AttributeError, "%.100s.queue is missing: __init__ was not called, or _init() did not make it", Py_TYPE(self)->tp_name);
    return self->items;
}

static Py_ssize_t
queue_size(Queue *self)
{
    PyObject *result;
    Py_ssize_t size;
    if (likely(!self->hooked))
        return queue_items(self) != NULL ? PyObject_Size(self->items) : -1;
    result = PyObject_CallMethodNoArgs((PyObject *)self, str_qsize);
    size = result != NULL ? PyNumber_AsSsize_t(result, PyExc_OverflowError) : -1;
    Py_XDECREF(result);
    return size;
}

/* Put `item` (borrowed) where it belongs. -1 with an exception set. Runs Python code only to compare items. */
static int
queue_insert(Queue *self, PyObject *item)
{
    PyObject *items = queue_items(self), *result;
    if (unlikely(items == NULL))
        return -1;
    if (self->order == QUEUE_LIFO && PyList_CheckExact(items))
        return PyList_Append(items, item);
    Py_INCREF(items); /* a comparison may give the queue other ones */
    if (self->order == QUEUE_PRIORITY)
        result = PyObject_CallFunctionObjArgs(heap_push, items, item, NULL);
    else
        result = PyObject_CallMethodOneArg(items, str_append, item);
    Py_DECREF(items);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Take the next item out: a new reference, or NULL with an exception set. */
static PyObject *
queue_remove(Queue *self)
{
    PyObject *items = queue_items(self), *item;
    if (unlikely(items == NULL))
        return NULL;
    Py_INCREF(items); /* as in queue_insert */
    if (self->order == QUEUE_PRIORITY)
        item = PyObject_CallOneArg(heap_pop, items);
    else
        item = PyObject_CallMethodNoArgs(items, self->order == QUEUE_LIFO ? str_pop : str_popleft);
    Py_DECREF(items);
    return item;
}

static int
queue_put_item(Queue *self, PyObject *item)
{
    PyObject *result;
    if (likely(!self->hooked))
        return queue_insert(self, item);
    result = PyObject_CallMethodOneArg((PyObject *)self, str_put, item);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static PyObject *
queue_get_item(Queue *self)
{
    return likely(!self->hooked) ? queue_remove(self) : PyObject_CallMethodNoArgs((PyObject *)self, str_get);
}

/* ---- put, get and the rest, under the mutex ---- */

static inline int
queue_lock(Queue *self)
{
    Lock *mutex = (Lock *)self->mutex;
    if (unlikely(mutex->locked))
        return lock_take(mutex, ROAMLET_NEVER, NULL);
    mutex->locked = true;
    return 1;
}

static inline void
queue_unlock(Queue *self)
{
    lock_free((Lock *)self->mutex);
}

static inline void
queue_notify(PyObject *condition)
{
    condition_notify((Condition *)condition, 1);
}

static inline void
queue_notify_all(PyObject *condition)
{
    condition_notify((Condition *)condition, PY_SSIZE_T_MAX);
}

/* With the mutex held: wait until there is room. 0, or -1 with Full, ShutDown or whatever was raised set. Switches. */
static int
queue_wait_for_room(Queue *self, int waits, int64_t deadline, PyObject *const *operands)
{
    for (int woken = 1;;) {
        Py_ssize_t size;
        if (self->is_shutdown) {
            PyErr_SetNone(ShutDown);
            return -1;
        }
        if (self->limit == 0)
            return 0;
        if ((size = queue_size(self)) < 0)
            return -1;
        if (size < self->limit)
            return 0;
        if (!waits || !woken) {
            PyErr_SetNone(Full);
            return -1;
        }
        if ((woken = condition_wait((Condition *)self->not_full, deadline, operands)) < 0)
            return -1;
    }
}

/* The same until there is an item: Empty. */
static int
queue_wait_for_item(Queue *self, int waits, int64_t deadline, PyObject *const *operands)
{
    for (int woken = 1;;) {
        Py_ssize_t size = queue_size(self);
        if (size != 0)
            return size > 0 ? 0 : -1;
        if (self->is_shutdown || !waits || !woken) {
            PyErr_SetNone(self->is_shutdown ? ShutDown : Empty);
            return -1;
        }
        if ((woken = condition_wait((Condition *)self->not_empty, deadline, operands)) < 0)
            return -1;
    }
}

static PyObject *
queue_put(Queue *self, PyObject *item, int waits, int64_t deadline, PyObject *const *operands)
{
    int failed;
    if (queue_lock(self) < 0)
        return NULL;
    failed = queue_wait_for_room(self, waits, deadline, operands) < 0 || queue_put_item(self, item) < 0;
    if (!failed) {
        self->unfinished++;
        queue_notify(self->not_empty);
    }
    queue_unlock(self);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
queue_get(Queue *self, int waits, int64_t deadline, PyObject *const *operands)
{
    PyObject *item;
    if (queue_lock(self) < 0)
        return NULL;
    item = queue_wait_for_item(self, waits, deadline, operands) == 0 ? queue_get_item(self) : NULL;
    if (item != NULL)
        queue_notify(self->not_full);
    queue_unlock(self);
    return item;
}

/* Whether get() looks as if it need not wait: then it lets others run now and then. A deque says its length as a list does. */
static bool
queue_may_go_on(Queue *self)
{
    PyObject *items = self->items;
    if (!self->hooked && items != NULL && (PyList_CheckExact(items) || Py_IS_TYPE(items, (PyTypeObject *)deque_type)))
        return Py_SIZE(items) > 0;
    return self->unfinished > 0;
}

static PyObject *
Queue_put(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"item", "block", "timeout"};
    PyObject *given[3] = {NULL, Py_True, Py_None};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count != 1 || names != NULL)) {
        if (arguments_take("put", keywords, 3, given, args, count, names) < 0 || (waits = PyObject_IsTrue(given[1])) < 0 ||
            (waits && queue_deadline(given[2], "Queue.put()", &deadline) < 0))
            return NULL;
        if (given[0] == NULL)
            return item_missing("put");
    } else
        given[0] = args[0];
    return queue_put((Queue *)object, given[0], waits, deadline, arguments_end(args, count, names));
}

static PyObject *
Queue_get(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"block", "timeout"};
    Queue *self = (Queue *)object;
    PyObject *given[2] = {Py_True, Py_None};
    int64_t deadline = ROAMLET_NEVER;
    int waits = 1;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("get", keywords, 2, given, args, count, names) < 0 || (waits = PyObject_IsTrue(given[0])) < 0 ||
            (waits && queue_deadline(given[1], "Queue.get()", &deadline) < 0))
            return NULL;
    }
    if (waits && queue_may_go_on(self) && unlikely(api->checkpoint(true) < 0))
        return NULL;
    return queue_get(self, waits, deadline, arguments_end(args, count, names));
}

static PyObject *
Queue_put_nowait(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *item = item_taken("put_nowait", args, count, names);
    return item != NULL ? queue_put((Queue *)object, item, 0, ROAMLET_NEVER, NULL) : NULL;
}

static PyObject *
Queue_get_nowait(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return queue_get((Queue *)object, 0, ROAMLET_NEVER, NULL);
}

static PyObject *
Queue_task_done(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Queue *self = (Queue *)object;
    if (queue_lock(self) < 0)
        return NULL;
    if (self->unfinished <= 0) {
        queue_unlock(self);
        return PyErr_Format(PyExc_ValueError, "task_done() called too many times: once for each get() is right, and all items of %R are done",
                            object);
    }
    if (--self->unfinished == 0)
        queue_notify_all(self->all_tasks_done);
    queue_unlock(self);
    Py_RETURN_NONE;
}

static PyObject *
Queue_join(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Queue *self = (Queue *)object;
    int waited = 0;
    if (queue_lock(self) < 0)
        return NULL;
    while (self->unfinished > 0 && waited >= 0)
        waited = condition_wait((Condition *)self->all_tasks_done, ROAMLET_NEVER, NULL);
    queue_unlock(self);
    if (waited < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Queue_shutdown(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"immediate"};
    Queue *self = (Queue *)object;
    PyObject *given[1] = {Py_False}, *dropped = NULL;
    Py_ssize_t size = 0;
    int immediate;
    if (arguments_take("shutdown", keywords, 1, given, args, count, names) < 0 || (immediate = PyObject_IsTrue(given[0])) < 0 ||
        (dropped = PyList_New(0)) == NULL)
        return NULL;
    if (queue_lock(self) < 0) {
        Py_DECREF(dropped);
        return NULL;
    }
    self->is_shutdown = true;
    while (immediate && (size = queue_size(self)) > 0) {
        PyObject *item = queue_get_item(self); /* kept until the mutex is free: its __del__ may use the queue */
        if (item == NULL || PyList_Append(dropped, item) < 0)
            size = -1;
        Py_XDECREF(item);
        if (size < 0)
            break;
        if (self->unfinished > 0)
            self->unfinished--;
    }
    if (immediate) /* who joins is let go, whatever those are doing who took items */
        queue_notify_all(self->all_tasks_done);
    queue_notify_all(self->not_empty);
    queue_notify_all(self->not_full);
    queue_unlock(self);
    Py_DECREF(dropped);
    if (size < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The size, taken under the mutex as put() may be in the middle of a hook: -1 with an exception set. */
static Py_ssize_t
queue_size_locked(Queue *self)
{
    Py_ssize_t size;
    if (queue_lock(self) < 0)
        return -1;
    size = queue_size(self);
    queue_unlock(self);
    return size;
}

static PyObject *
Queue_qsize(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Py_ssize_t size = queue_size_locked((Queue *)object);
    return size >= 0 ? PyLong_FromSsize_t(size) : NULL;
}

static PyObject *
Queue_empty(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Py_ssize_t size = queue_size_locked((Queue *)object);
    return size >= 0 ? PyBool_FromLong(size == 0) : NULL;
}

static PyObject *
Queue_full(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Queue *self = (Queue *)object;
    Py_ssize_t size = queue_size_locked(self);
    return size >= 0 ? PyBool_FromLong(self->limit > 0 && size >= self->limit) : NULL;
}
