/* The channel type: making a channel, its attributes, and the tables. What a channel does is in channel.c. */

static int Channel_init(PyObject *self, PyObject *args, PyObject *kwargs);

/* The number of values that `given` (borrowed) stands for as a channel's buffer; -1 with an exception set. May run Python code. */
static Py_ssize_t
buffer_size(PyObject *given)
{
    PyObject *number = PyBool_Check(given) ? NULL : PyNumber_Index(given);
    Py_ssize_t size;
    if (number == NULL) {
        if (PyBool_Check(given) || PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "channel(buffer): how many values may wait without a receiver, an integer, not %R", given);
        return -1;
    }
    size = PyLong_AsSsize_t(number);
    if (size < 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "channel(buffer=%S): a buffer holds from 0 (none) to %zd values", number, PY_SSIZE_T_MAX);
        size = -1;
    }
    Py_DECREF(number);
    return size;
}

/* Give the channel the buffer that the arguments ask for; without any it stays as it is. */
static int
channel_set_buffer(Channel *channel, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"buffer", NULL};
    PyObject *given = NULL;
    Py_ssize_t size;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:channel", keywords, &given))
        return -1;
    if (given == NULL)
        return 0;
    if ((size = buffer_size(given)) < 0)
        return -1;
    if (size == channel->buffer)
        return 0;
    if (channel->balance != 0 || channel->buffered > 0 || channel->cases != NULL) {
        PyErr_Format(PyExc_RuntimeError, "the buffer of %R cannot be changed: tasklets or values wait there", channel);
        return -1;
    }
    if (channel->buffer == 0 && channel->preference < 0)
        channel->preference = 0; /* else a waiting receiver would run for each single value */
    channel->buffer = size;
    channel_settled(channel);
    return 0;
}

/* Arguments are for __init__, as a subclass may have others there; here from a __new__ of a subclass. */
static PyObject *
Channel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Channel *channel = (Channel *)type->tp_alloc(type, 0);
    if (channel == NULL)
        return NULL;
    channel->preference = -1;
    if (type->tp_new != Channel_new && channel_set_buffer(channel, args, kwargs) < 0)
        Py_CLEAR(channel);
    return (PyObject *)channel;
}

static int
Channel_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (Py_TYPE(self)->tp_new != Channel_new && Py_TYPE(self)->tp_init == Channel_init)
        return 0; /* they were for its __new__ */
    return PyTuple_GET_SIZE(args) == 0 && kwargs == NULL ? 0 : channel_set_buffer((Channel *)self, args, kwargs);
}

static int
Channel_clear(PyObject *self)
{
    buffer_clear((Channel *)self);
    return 0;
}

/* Nothing refers to the channel, so no tasklet can be blocked on it: a blocked tasklet's call holds a reference to it. */
static void
Channel_dealloc(PyObject *self)
{
    Channel *channel = (Channel *)self;
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, Channel_dealloc) /* channels in channels */
    if (channel->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    assert(channel->head == NULL && channel->cases == NULL);
    buffer_clear(channel);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static int
Channel_traverse(PyObject *self, visitproc visit, void *arg)
{
    for (Tasklet *t = ((Channel *)self)->head; t != NULL; t = t->next)
        Py_VISIT(t);
    for (SelectCase *waiting = ((Channel *)self)->cases; waiting != NULL; waiting = waiting->next)
        Py_VISIT(waiting->select);
    return buffer_traverse((Channel *)self, visit, arg);
}

static PyObject *
Channel_repr(PyObject *self)
{
    Channel *channel = (Channel *)self;
    const char *state = !channel->closing ? "" : channel->balance == 0 && channel->buffered == 0 ? " closed" : " closing";
    char buffered[64] = "", waiting[64] = "";
    if (channel->buffer > 0 || channel->buffered > 0)
        PyOS_snprintf(buffered, sizeof buffered, ", %zd of %zd buffered", channel->buffered, channel->buffer);
    if (channel->balance != 0)
        PyOS_snprintf(waiting, sizeof waiting, ", %zd %s waiting", Py_ABS(channel->balance), channel->balance < 0 ? "to receive" : "to send");
    return PyUnicode_FromFormat("<%s at %p%s%s%s>", Py_TYPE(self)->tp_name, self, state, buffered, waiting);
}

static PyObject *
Channel_get_balance(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Channel *)self)->balance);
}

static PyObject *
Channel_get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Channel *)self)->closing && ((Channel *)self)->balance == 0 && ((Channel *)self)->buffered == 0);
}

static PyObject *
Channel_get_buffer(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Channel *)self)->buffer);
}

static PyObject *
Channel_get_buffered(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Channel *)self)->buffered);
}

static PyObject *
Channel_sizeof(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromSsize_t(Py_TYPE(self)->tp_basicsize + ((Channel *)self)->slots * (Py_ssize_t)sizeof(uintptr_t));
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
"Pass `value` to the receiver that has waited longest. When none waits, leave it in the buffer, or wait for a receiver or for room.\n\n"
"Blocks this tasklet only, until the value was received or is in the buffer. Switches: with preference -1 a waiting receiver\n"
"runs at once and this tasklet after it. The receiver may live in another thread. Raises ChannelClosed on a closed\n"
"channel, Deadlock (in main) when no tasklet can ever receive.");
PyDoc_STRVAR(give_back_doc, "give_back($self, value, is_exception=False, /)\n--\n\n"
"Send a value that was received, and could not be used, to the next receiver: in front of all waiting senders.\n\n"
"Blocks as send does, in a closed channel too; but not in one with a buffer, where it is the first of the values, also when the\n"
"buffer is full. What is given back last is received first. is_exception: it is an exception instance, which the receiver raises.");
PyDoc_STRVAR(receive_doc, "receive($self, /)\n--\n\n"
"Take the oldest value of the buffer, or that of the sender that has waited longest, or wait for a sender.\n\n"
"Blocks this tasklet only. Switches to the sender whose value it takes, or lets into the buffer, when preference is 1. Raises what was sent with send_exception,\n"
"ChannelClosed when the channel is closed and empty, Deadlock (in main) when no tasklet can ever send. First come,\n"
"first served among receivers, which may live in several threads.");
PyDoc_STRVAR(send_exception_doc, "send_exception($self, exception, /, *args)\n--\n\n"
"Like send, but the receiver raises exception(*args). `exception` is a class, or an instance without args.");
PyDoc_STRVAR(send_throw_doc, "send_throw($self, exc, val=None, tb=None, /)\n--\n\n"
"Like send, but the receiver raises the exception of this (type, value, traceback) triple.");
PyDoc_STRVAR(send_sequence_doc, "send_sequence($self, values, /)\n--\n\n"
"Send each of an iterable's values; return how many there were. Blocks as send does.");
PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\n"
"Let no other tasklet wait here, and no other value into the buffer: those that wait already may still be met. `for` loops over the\n"
"channel end now, or when they have taken what waits. Does not switch.");
PyDoc_STRVAR(open_doc, "open($self, /)\n--\n\nUndo close.");
PyDoc_STRVAR(channel_doc, "channel(buffer=0)\n--\n\n"
"A meeting place of tasklets: send and receive pass one value each.\n\n"
"`buffer`: how many values may wait without a receiver, before senders do; 0: none, each send meets a receive. A channel with\n"
"a buffer has preference 0, so that a receiver which waits does not run for each single value. Iterating receives until the\n"
"channel is closed. Thread-safe. Raises ValueError for a negative buffer, TypeError for one that is no integer.");
PyDoc_STRVAR(sizeof_doc, "__sizeof__($self, /)\n--\n\nIts size in bytes, with the slots of its buffer.");

static PyMethodDef Channel_methods[] = {
    {"send", (PyCFunction)(void (*)(void))Channel_send, METH_FASTCALL, send_doc},
    {"receive", (PyCFunction)(void (*)(void))Channel_receive, METH_FASTCALL, receive_doc},
    {"send_exception", Channel_send_exception, METH_VARARGS, send_exception_doc},
    {"send_throw", Channel_send_throw, METH_VARARGS, send_throw_doc},
    {"give_back", (PyCFunction)(void (*)(void))Channel_give_back, METH_FASTCALL, give_back_doc},
    {"send_sequence", Channel_send_sequence, METH_O, send_sequence_doc},
    {"close", Channel_close, METH_NOARGS, close_doc},
    {"open", Channel_open, METH_NOARGS, open_doc},
    {"__sizeof__", Channel_sizeof, METH_NOARGS, sizeof_doc},
    {"__reduce__", Channel_reduce, METH_NOARGS, channel_reduce_doc},
    {"__setstate__", Channel_setstate, METH_O, setstate_doc},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Channel_getset[] = {
    {"balance", Channel_get_balance, NULL, "How many tasklets wait here: senders count up, receivers down.", NULL},
    {"queue", get_object, NULL, "The tasklet that has waited longest, or None.", FIELD(Channel, head)},
    {"closing", get_bool, NULL, "Whether close() was called.", FIELD(Channel, closing)},
    {"closed", Channel_get_closed, NULL, "Whether it is closing, and no tasklet waits here any more and no value.", NULL},
    {"buffer", Channel_get_buffer, NULL, "How many values may wait without a receiver.", NULL},
    {"buffered", Channel_get_buffered, NULL, "How many values wait now; more than `buffer` when some were given back.", NULL},
    {"preference", Channel_get_preference, Channel_set_preference,
     "Which one runs when two meet: -1 the receiver (default without a buffer), 1 the sender, 0 the one that ran already (default with a "
     "buffer). Its sign counts.", NULL},
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
    .tp_init = Channel_init,
    .tp_dealloc = Channel_dealloc,
    .tp_traverse = Channel_traverse,
    .tp_clear = Channel_clear,
    .tp_repr = Channel_repr,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = Channel_next,
    .tp_weaklistoffset = offsetof(Channel, weakrefs),
    .tp_methods = Channel_methods,
    .tp_getset = Channel_getset,
};
