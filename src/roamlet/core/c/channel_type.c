/* The channel type: making a channel, its attributes, and the tables. What a channel does is in channel.c. */

static PyObject *
Channel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Channel *channel;
    if (type->tp_init == PyBaseObject_Type.tp_init && (PyTuple_GET_SIZE(args) > 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)))
        return PyErr_Format(PyExc_TypeError, "channel() takes no arguments: it has no buffer whose size could be given");
    channel = (Channel *)type->tp_alloc(type, 0);
    if (channel != NULL)
        channel->preference = -1;
    return (PyObject *)channel;
}

/* Nothing refers to the channel, so no tasklet can be blocked on it: a blocked tasklet's call holds a reference to it. */
static void
Channel_dealloc(PyObject *self)
{
    Channel *channel = (Channel *)self;
    PyObject_GC_UnTrack(self);
    if (channel->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    assert(channel->head == NULL && channel->cases == NULL);
    Py_TYPE(self)->tp_free(self);
}

static int
Channel_traverse(PyObject *self, visitproc visit, void *arg)
{
    for (Tasklet *t = ((Channel *)self)->head; t != NULL; t = t->next)
        Py_VISIT(t);
    for (SelectCase *waiting = ((Channel *)self)->cases; waiting != NULL; waiting = waiting->next)
        Py_VISIT(waiting->select);
    return 0;
}

static PyObject *
Channel_repr(PyObject *self)
{
    Channel *channel = (Channel *)self;
    const char *state = !channel->closing ? "" : channel->balance == 0 ? " closed" : " closing";
    Py_ssize_t waiting = Py_ABS(channel->balance);
    if (waiting == 0)
        return PyUnicode_FromFormat("<%s at %p%s>", Py_TYPE(self)->tp_name, self, state);
    return PyUnicode_FromFormat("<%s at %p%s, %zd %s waiting>", Py_TYPE(self)->tp_name, self, state, waiting,
                                channel->balance < 0 ? "to receive" : "to send");
}

static PyObject *
Channel_get_balance(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Channel *)self)->balance);
}

static PyObject *
Channel_get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Channel *)self)->closing && ((Channel *)self)->balance == 0);
}

static PyObject *
Channel_get_preference(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((Channel *)self)->preference);
}

static int
Channel_set_preference(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    int overflow;
    long preference;
    if (value == NULL || !PyLong_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "preference must be set to an integer: -1 (the receiver runs first), 1 (the sender) or 0 (neither)");
        return -1;
    }
    preference = PyLong_AsLongAndOverflow(value, &overflow);
    if (overflow != 0)
        preference = overflow;
    ((Channel *)self)->preference = (preference > 0) - (preference < 0); /* the sign alone counts, as in Stackless */
    return 0;
}

static int
Channel_set_schedule_all(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyLong_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "schedule_all must be set to a bool or integer");
        return -1;
    }
    ((Channel *)self)->schedule_all = PyObject_IsTrue(value);
    return 0;
}

PyDoc_STRVAR(send_doc, "send($self, value, /)\n--\n\n"
"Pass `value` to the receiver that has waited longest; wait for a receiver when none waits.\n\n"
"Blocks this tasklet only, until the value was received. Switches: with preference -1 (the default) a waiting receiver\n"
"runs at once and this tasklet after it. The receiver may live in another thread. Raises ChannelClosed on a closed\n"
"channel, Deadlock (in main) when no tasklet can ever receive.");
PyDoc_STRVAR(give_back_doc, "give_back($self, value, is_exception=False, /)\n--\n\n"
"Send a value that was received, and could not be used, to the next receiver: in front of all waiting senders.\n\n"
"Blocks as send does, in a closed channel too. What is given back last is received first. is_exception: it is an exception\n"
"instance, which the receiver raises.");
PyDoc_STRVAR(receive_doc, "receive($self, /)\n--\n\n"
"Take the value of the sender that has waited longest; wait for a sender when none waits.\n\n"
"Blocks this tasklet only. Switches to the sender when preference is 1. Raises what was sent with send_exception,\n"
"ChannelClosed when the channel is closed and empty, Deadlock (in main) when no tasklet can ever send. First come,\n"
"first served among receivers, which may live in several threads.");
PyDoc_STRVAR(send_exception_doc, "send_exception($self, exception, /, *args)\n--\n\n"
"Like send, but the receiver raises exception(*args). `exception` is a class, or an instance without args.");
PyDoc_STRVAR(send_throw_doc, "send_throw($self, exc, val=None, tb=None, /)\n--\n\n"
"Like send, but the receiver raises the exception of this (type, value, traceback) triple.");
PyDoc_STRVAR(send_sequence_doc, "send_sequence($self, values, /)\n--\n\n"
"Send each of an iterable's values; return how many there were. Blocks as send does.");
PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\n"
"Let no other tasklet wait here: those that wait already may still be met. `for` loops over the channel end now, or when they have\n"
"taken what waits. Does not switch.");
PyDoc_STRVAR(open_doc, "open($self, /)\n--\n\nUndo close.");
PyDoc_STRVAR(channel_doc, "channel()\n--\n\n"
"A meeting place of tasklets: send and receive pass one value each, without a buffer.\n\n"
"Iterating receives until the channel is closed. Thread-safe.");

static PyMethodDef Channel_methods[] = {
    {"send", (PyCFunction)(void (*)(void))Channel_send, METH_FASTCALL, send_doc},
    {"receive", (PyCFunction)(void (*)(void))Channel_receive, METH_FASTCALL, receive_doc},
    {"send_exception", Channel_send_exception, METH_VARARGS, send_exception_doc},
    {"send_throw", Channel_send_throw, METH_VARARGS, send_throw_doc},
    {"give_back", (PyCFunction)(void (*)(void))Channel_give_back, METH_FASTCALL, give_back_doc},
    {"send_sequence", Channel_send_sequence, METH_O, send_sequence_doc},
    {"close", Channel_close, METH_NOARGS, close_doc},
    {"open", Channel_open, METH_NOARGS, open_doc},
    {"__reduce__", Channel_reduce, METH_NOARGS, channel_reduce_doc},
    {"__setstate__", Channel_setstate, METH_O, setstate_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Channel_getset[] = {
    {"balance", Channel_get_balance, NULL, "How many tasklets wait here: senders count up, receivers down.", NULL},
    {"queue", get_object, NULL, "The tasklet that has waited longest, or None.", FIELD(Channel, head)},
    {"closing", get_bool, NULL, "Whether close() was called.", FIELD(Channel, closing)},
    {"closed", Channel_get_closed, NULL, "Whether it is closing and no tasklet waits here any more.", NULL},
    {"preference", Channel_get_preference, Channel_set_preference,
     "Which one runs when two meet: -1 the receiver (default), 1 the sender, 0 the one that ran already. Its sign counts.", NULL},
    {"schedule_all", get_bool, Channel_set_schedule_all,
     "When true, every operation lets the next tasklet run, whatever the preference.", FIELD(Channel, schedule_all)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Channel_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.channel",
    .tp_doc = channel_doc,
    .tp_basicsize = sizeof(Channel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = Channel_new,
    .tp_dealloc = Channel_dealloc,
    .tp_traverse = Channel_traverse,
    .tp_repr = Channel_repr,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = Channel_next,
    .tp_weaklistoffset = offsetof(Channel, weakrefs),
    .tp_methods = Channel_methods,
    .tp_getset = Channel_getset,
};
