/* A lasting watch on a descriptor that says whether others are ready: an epoll's, which an event loop waits for again and again. It stays
   in the hub's set, and its wait can be ended by other tasklets without a system call. */

typedef struct {
    PyObject_HEAD
    Descriptor *descriptor; /* owned; NULL: closed */
    bool woken;             /* by wake(), which no wait has returned yet */
} Watch;

/* What Watch.wait() returns. */
enum { WATCH_TIMED_OUT, WATCH_READY, WATCH_WOKEN };

static PyObject *
Watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", NULL};
    PyObject *number;
    int fd;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Watch", names, &number) || (fd = descriptor_number(number)) < 0)
        return NULL;
    Descriptor *before = descriptor_find(fd), *descriptor;
    if (before != NULL) /* of what had this number before and was closed elsewhere */
        descriptor_close(before);
    if ((descriptor = descriptor_get(fd)) == NULL)
        return NULL;
    Watch *watch = (Watch *)type->tp_alloc(type, 0);
    if (watch == NULL) {
        Py_DECREF(descriptor);
        return NULL;
    }
    descriptor->owned = true;
    watch->descriptor = descriptor;
    return (PyObject *)watch;
}

static PyObject *
Watch_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"timeout", "daemon"};
    Watch *watch = (Watch *)self;
    PyObject *given[2] = {Py_None, Py_False};
    int64_t deadline;
    int daemon, how;
    if (arguments("wait", keywords, 0, 2, given, args, count, names) < 0 || (daemon = PyObject_IsTrue(given[1])) < 0 ||
        api->deadline(given[0], "Watch.wait(timeout)", &deadline) < 0)
        return NULL;
    Descriptor *descriptor = watch->descriptor;
    if (descriptor == NULL)
        return PyErr_Format(PyExc_ValueError, "this Watch is closed: make a new one");
    if (!watch->woken) {
        if ((how = ready_now(descriptor->fd, READ)) < 0)
            return NULL;
        if (how > 0)
            return PyLong_FromLong(WATCH_READY);
        Py_INCREF(descriptor);
        how = descriptor_wait(descriptor, READ, deadline, daemon ? ROAMLET_WAIT_DAEMON : 0);
        Py_DECREF(descriptor);
        if (how < 0)
            return NULL;
        if (!watch->woken)
            return PyLong_FromLong(how > 0 ? WATCH_READY : WATCH_TIMED_OUT);
    }
    watch->woken = false;
    return PyLong_FromLong(WATCH_WOKEN);
}

#ifdef __linux__

/* The pair of `selectors` for what an epoll has found: the key's and the directions that it asks for. A new reference; NULL without an
   exception set when the descriptor has no key any more, else with one. */
static PyObject *
found_pair(PyObject *keys, const struct epoll_event *event)
{
    int directions = (event->events & ~(uint32_t)EPOLLOUT ? 1 : 0) | (event->events & ~(uint32_t)EPOLLIN ? 2 : 0);
    PyObject *number = PyLong_FromLong(event->data.fd), *key = number != NULL ? PyDict_GetItemWithError(keys, number) : NULL, *pair = NULL;
    Py_XDECREF(number);
    if (key == NULL)
        return NULL;
    if (!PyTuple_Check(key) || PyTuple_GET_SIZE(key) != 4)
        return PyErr_Format(PyExc_TypeError, "expected a selectors.SelectorKey, not %R", key);
    long asked = PyLong_AsLong(PyTuple_GET_ITEM(key, 2));
    PyObject *mask = asked != -1 || !PyErr_Occurred() ? PyLong_FromLong(asked & directions) : NULL;
    if (mask != NULL)
        pair = PyTuple_Pack(2, key, mask);
    Py_XDECREF(mask);
    return pair;
}

/* What the epoll has found, without waiting: a new list, or NULL with an exception set. Not inlined: the events would be part of the
   stack that a waiting tasklet keeps. */
static __attribute__((noinline)) PyObject *
epoll_found(int epoll, PyObject *keys)
{
    struct epoll_event events[HUB_BATCH];
    Py_ssize_t registered = PyDict_GET_SIZE(keys);
    int count = epoll_wait(epoll, events, registered < 1 ? 1 : registered < HUB_BATCH ? (int)registered : HUB_BATCH, 0);
    if (count < 0 && errno != EINTR)
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *list = PyList_New(0);
    for (int i = 0; i < count && list != NULL; i++) {
        PyObject *pair = found_pair(keys, &events[i]);
        if (pair != NULL ? PyList_Append(list, pair) < 0 : PyErr_Occurred() != NULL)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *
Watch_select(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"keys", "timeout", "daemon"};
    Watch *watch = (Watch *)self;
    PyObject *given[3] = {NULL, Py_None, Py_False}, *found;
    int64_t deadline;
    int daemon, how;
    if (arguments("select", keywords, 1, 3, given, args, count, names) < 0 || (daemon = PyObject_IsTrue(given[2])) < 0 ||
        api->deadline(given[1], "Watch.select(timeout)", &deadline) < 0)
        return NULL;
    if (!PyDict_Check(given[0]))
        return PyErr_Format(PyExc_TypeError, "select() takes a dict of a selector's keys by descriptor, not %R", given[0]);
    Descriptor *descriptor = watch->descriptor;
    if (descriptor == NULL)
        return PyErr_Format(PyExc_ValueError, "this Watch is closed: make a new one");
    if (!watch->woken) {
        found = epoll_found(descriptor->fd, given[0]);
        if (found == NULL || PyList_GET_SIZE(found) > 0 || (PyLong_Check(given[1]) && PyObject_IsTrue(given[1]) == 0))
            return found;
        Py_INCREF(descriptor);
        how = descriptor_wait(descriptor, READ, deadline, daemon ? ROAMLET_WAIT_DAEMON : 0);
        Py_DECREF(descriptor);
        if (how > 0 && !watch->woken) {
            Py_DECREF(found);
            return epoll_found(watch->descriptor->fd, given[0]);
        }
        if (how == 0 && !watch->woken)
            return found;
        Py_DECREF(found);
        if (how < 0)
            return NULL;
    }
    watch->woken = false;
    Py_RETURN_NONE;
}

#endif

static PyObject *
Watch_wake(PyObject *self, PyObject *Py_UNUSED(none))
{
    Watch *watch = (Watch *)self;
    if (watch->descriptor != NULL) {
        watch->woken = true;
        api->wake_all(&watch->descriptor->waiting[READ]);
    }
    Py_RETURN_NONE;
}

static void
watch_end(Watch *watch)
{
    Descriptor *descriptor = watch->descriptor;
    watch->descriptor = NULL;
    if (descriptor != NULL) {
        descriptor_close(descriptor);
        Py_DECREF(descriptor);
    }
}

static PyObject *
Watch_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    watch_end((Watch *)self);
    Py_RETURN_NONE;
}

static void
Watch_dealloc(PyObject *self)
{
    watch_end((Watch *)self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef Watch_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))Watch_wait, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("wait($self, /, timeout=None, daemon=False)\n--\n\n"
               "Block this tasklet until the descriptor is readable (1), wake() is called (2) or `timeout` seconds have passed (0).\n\n"
               "Returns at once when it is readable already, or wake() was called before. A `daemon` wait neither keeps roamlet.run()\n"
               "going nor hides a deadlock. OSError when the descriptor is not open or the watch is closed meanwhile.")},
#ifdef __linux__
    {"select", (PyCFunction)(void (*)(void))Watch_select, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("select($self, /, keys, timeout=None, daemon=False)\n--\n\n"
               "What an epoll has found, waiting up to `timeout` seconds for the first: pairs of a key of `keys`, a dict of\n"
               "selectors.SelectorKey by descriptor, and its directions. None after wake().\n\n"
               "With the int 0 it only looks. Blocks this tasklet only. Otherwise like wait(). Linux.")},
#endif
    {"wake", Watch_wake, METH_NOARGS,
     PyDoc_STR("wake($self, /)\n--\n\nEnd the wait that is under way, or the next one. Thread-safe; does not switch.")},
    {"close", Watch_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nTake the descriptor out of the hub's set, before it is closed. A waiting tasklet raises OSError.")},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(watch_doc, "A lasting watch on a descriptor, an epoll's say, which one tasklet waits for again and again.");

static PyTypeObject Watch_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.io._native.Watch",
    .tp_basicsize = sizeof(Watch),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = watch_doc,
    .tp_new = Watch_new,
    .tp_methods = Watch_methods,
    .tp_dealloc = Watch_dealloc,
};
