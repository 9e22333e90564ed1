/* Event: a flag to wait for. */

/* Wait for the flag, which is not set, until `deadline`. 1 when it is set or was since the wait began, 0 when time is up, -1 with an
   exception set. Switches. */
static int
event_wait(Event *self, int64_t deadline, PyObject *const *operands)
{
    int how;
    do
        how = wait_in(&self->queue, (PyObject *)self, deadline, wait_flags, operands);
    while (how == LOOK_AGAIN && !self->is_set);
    return how < 0 ? -1 : how == ROAMLET_WOKEN || self->is_set;
}

static PyObject *
Event_wait(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"timeout"};
    Event *self = (Event *)object;
    PyObject *given[1] = {Py_None};
    int64_t deadline = ROAMLET_NEVER;
    double seconds = 1.0;
    int found;
    if (unlikely(count > 0 || names != NULL)) {
        if (arguments_take("wait", keywords, 1, given, args, count, names) < 0)
            return NULL;
        if (given[0] != Py_None && seconds_of(given[0], "Event.wait()", &seconds) < 0) {
            if (!self->is_set || !PyErr_ExceptionMatches(PyExc_OverflowError)) /* without a wait none is too long, as in threading */
                return NULL;
            PyErr_Clear();
        }
    }
    if (self->is_set || seconds <= 0.0)
        return PyBool_FromLong(self->is_set);
    if (given[0] != Py_None && deadline_after(seconds, &deadline) < 0)
        return NULL;
    found = event_wait(self, deadline, arguments_end(args, count, names));
    return found >= 0 ? PyBool_FromLong(found) : NULL;
}

static PyObject *
Event_set(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Event *self = (Event *)object;
    self->is_set = true;
    if (self->queue.head != NULL)
        api->wake_all(&self->queue);
    Py_RETURN_NONE;
}

static PyObject *
Event_clear_flag(PyObject *object, PyObject *Py_UNUSED(unused))
{
    ((Event *)object)->is_set = false;
    Py_RETURN_NONE;
}

static PyObject *
Event_is_set(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(((Event *)object)->is_set);
}

static PyObject *
Event_isSet(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (deprecated("isSet", "is_set") < 0)
        return NULL;
    return Event_is_set(object, NULL);
}

/* The threads that are no more have left the queue, and there is no lock inside that they could hold. */
static PyObject *
Event_at_fork_reinit(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(unused))
{
    Py_RETURN_NONE;
}

static PyObject *
Event_repr(PyObject *object)
{
    PyObject *name = class_name(object), *text = NULL;
    if (name != NULL)
        text = PyUnicode_FromFormat("<%U at %p: %s>", name, object, ((Event *)object)->is_set ? "set" : "unset");
    Py_XDECREF(name);
    return text;
}

static int
Event_init(PyObject *Py_UNUSED(object), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    return PyArg_ParseTupleAndKeywords(args, kwargs, ":Event", names) ? 0 : -1;
}

static int
Event_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Event *)object)->dict);
    return queue_visit(&((Event *)object)->queue, visit, arg);
}

static int
Event_clear(PyObject *object)
{
    Py_CLEAR(((Event *)object)->dict);
    return 0;
}

static void
Event_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((Event *)object)->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Event_clear(object);
    object_free(object);
}

PyDoc_STRVAR(event_doc, "Event()\n--\n\n"
"A flag that tasklets of any thread wait for, as threading.Event. Thread-safe.");
PyDoc_STRVAR(event_wait_doc, "wait($self, /, timeout=None)\n--\n\n"
"Wait until the flag is set, at most `timeout` seconds; True, or False when time is up.\n\n"
"Blocks this tasklet. True also when the flag was set and cleared again before this tasklet ran. Does not switch when it is\n"
"set, or when the time-out is 0 or has passed.");
PyDoc_STRVAR(event_set_doc, "set($self, /)\n--\n\nSet the flag and wake all who wait for it. Never switches.");
PyDoc_STRVAR(event_clear_doc, "clear($self, /)\n--\n\nTake the flag back: wait() blocks again.");
PyDoc_STRVAR(event_is_set_doc, "is_set($self, /)\n--\n\nWhether the flag is set.");
PyDoc_STRVAR(event_isSet_doc, "isSet($self, /)\n--\n\nDeprecated: is_set().");
PyDoc_STRVAR(event_at_fork_reinit_doc, "_at_fork_reinit($self, /)\n--\n\nDoes nothing: an event holds no lock that could be lost in a fork.");

static PyMethodDef Event_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))Event_wait, METH_FASTCALL | METH_KEYWORDS, event_wait_doc},
    {"set", Event_set, METH_NOARGS, event_set_doc},
    {"clear", Event_clear_flag, METH_NOARGS, event_clear_doc},
    {"is_set", Event_is_set, METH_NOARGS, event_is_set_doc},
    {"isSet", Event_isSet, METH_NOARGS, event_isSet_doc},
    {"_at_fork_reinit", Event_at_fork_reinit, METH_NOARGS, event_at_fork_reinit_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Event_getset[] = {
    {"_flag", get_bool, NULL, "Whether the flag is set.", FIELD(Event, is_set)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef Event_members[] = {
    OFFSETS(Event),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot Event_slots[] = {
    {Py_tp_doc, (void *)event_doc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, Event_init},
    {Py_tp_dealloc, Event_dealloc},
    {Py_tp_traverse, Event_traverse},
    {Py_tp_clear, Event_clear},
    {Py_tp_repr, Event_repr},
    {Py_tp_methods, Event_methods},
    {Py_tp_members, Event_members},
    {Py_tp_getset, Event_getset},
    {0, NULL},
};

static PyType_Spec Event_spec = {
    .name = "roamlet.sync.Event",
    .basicsize = sizeof(Event),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = Event_slots,
};
