/* Channels between tasklets of the same thread or of several: a queue of those that wait, behind one lock.

   The one that finds a partner goes on; the partner is put at the end of its thread's run queue. First come, first served. */

/* ---- the queue; its lock is held ---- */

static void
channel_join(Channel *channel, Tasklet *tasklet, int direction)
{
    tasklet->next = NULL;
    tasklet->queued = true;
    if (channel->first == NULL)
        channel->first = tasklet;
    else
        channel->last->next = tasklet;
    channel->last = tasklet;
    channel->balance += direction;
}

static Tasklet *
channel_pop(Channel *channel)
{
    Tasklet *tasklet = channel->first;
    channel->first = tasklet->next;
    channel->balance += channel->balance > 0 ? -1 : 1;
    tasklet->queued = false;
    return tasklet;
}

/* Take one that is killed out of the queue. */
static void
channel_forget(Channel *channel, Tasklet *tasklet)
{
    Tasklet **place = &channel->first, *before = NULL;
    while (*place != tasklet) {
        before = *place;
        place = &before->next;
    }
    *place = tasklet->next;
    if (channel->last == tasklet)
        channel->last = before;
    channel->balance += channel->balance > 0 ? -1 : 1;
    tasklet->queued = false;
}

/* ---- values ---- */

/* Merge the two counts of an object that is about to leave the thread which owns it: it belongs to no thread from then on, and the last one to
   drop it frees it. Else each drop by another thread is queued for the owner, who frees it when it next looks (Python/brc.c).
   What _Py_ExplicitMergeRefcount does, which CPython does not export. */
static void
value_disown(PyObject *value)
{
#ifdef Py_GIL_DISABLED
    if (_Py_IsImmortal(value) || !_Py_IsOwnedByCurrentThread(value) || _PyObject_HasDeferredRefcount(value))
        return;
    Py_ssize_t local = (Py_ssize_t)value->ob_ref_local, shared, merged;
    _Py_atomic_store_uint32_relaxed(&value->ob_ref_local, 0);
    _Py_atomic_store_uintptr_relaxed(&value->ob_tid, 0);
    shared = _Py_atomic_load_ssize_relaxed(&value->ob_ref_shared);
    do {
        Py_ssize_t count = Py_ARITHMETIC_RIGHT_SHIFT(Py_ssize_t, shared, _Py_REF_SHARED_SHIFT) + local;
        merged = _Py_REF_SHARED(count, _Py_REF_MERGED);
    } while (!_Py_atomic_compare_exchange_ssize(&value->ob_ref_shared, &shared, merged));
#else
    (void)value;
#endif
}

/* ---- what Python calls ---- */

static PyObject *
channel_send(Channel *self, PyObject *value)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *tasklet, *receiver;
    if (scheduler == NULL || tasklet_may_wait(tasklet = scheduler->current) < 0)
        return NULL;
    Py_INCREF(value);
    if (self->disown)
        value_disown(value);
    PyMutex_Lock(&self->lock);
    if (self->balance < 0) {
        receiver = channel_pop(self);
        receiver->value = value;
        PyMutex_Unlock(&self->lock);
        tasklet_wake(scheduler, receiver);
        Py_RETURN_NONE;
    }
    tasklet->value = value;
    tasklet->waiting_on = self;
    channel_join(self, tasklet, 1);
    PyMutex_Unlock(&self->lock); /* from here on it may be woken, by its inbox, before it has left */
    if (tasklet_suspend(scheduler) < 0) {
        PyObject *raised = PyErr_GetRaisedException();
        Py_CLEAR(tasklet->value); /* it was not sent */
        PyErr_SetRaisedException(raised);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
channel_receive(Channel *self, PyObject *Py_UNUSED(ignored))
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *tasklet, *sender;
    PyObject *value;
    if (scheduler == NULL || tasklet_may_wait(tasklet = scheduler->current) < 0)
        return NULL;
    PyMutex_Lock(&self->lock);
    if (self->balance > 0) {
        sender = channel_pop(self);
        value = sender->value;
        sender->value = NULL;
        PyMutex_Unlock(&self->lock);
        tasklet_wake(scheduler, sender);
        return value;
    }
    tasklet->waiting_on = self;
    channel_join(self, tasklet, -1);
    PyMutex_Unlock(&self->lock);
    if (tasklet_suspend(scheduler) < 0)
        return NULL;
    value = tasklet->value;
    tasklet->value = NULL;
    return value;
}

static PyObject *
channel_balance(Channel *self, void *Py_UNUSED(closure))
{
    Py_ssize_t balance;
    PyMutex_Lock(&self->lock);
    balance = self->balance;
    PyMutex_Unlock(&self->lock);
    return PyLong_FromSsize_t(balance);
}

static PyObject *
channel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"disown", NULL};
    int disown = 0;
    Channel *self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:Channel", names, &disown))
        return NULL;
    self = (Channel *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->disown = disown;
    return (PyObject *)self;
}

/* Called with the world stopped: no thread is in the middle of a change. */
static int
channel_traverse(Channel *self, visitproc visit, void *arg)
{
    for (Tasklet *tasklet = self->first; tasklet != NULL; tasklet = tasklet->next)
        if (tasklet_is_shown(tasklet))
            Py_VISIT(tasklet);
    return 0;
}

/* Those that wait hold it, so its queue is empty, and it refers to nothing. */
static void
channel_dealloc(Channel *self)
{
    PyObject_GC_UnTrack(self);
    assert(self->first == NULL);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef channel_methods[] = {
    {"send", (PyCFunction)channel_send, METH_O, "Hand a value to a receiver, waiting for one if none is there."},
    {"receive", (PyCFunction)channel_receive, METH_NOARGS, "Take a value, waiting for a sender if none is there."},
    {NULL},
};

static PyGetSetDef channel_getters[] = {
    {"balance", (getter)channel_balance, NULL, "How many wait: senders positive, receivers negative."},
    {NULL},
};

static PyTypeObject Channel_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pinned.Channel",
    .tp_doc = "Where tasklets of any threads meet. With disown=True what is sent is owned by no thread from then on.",
    .tp_basicsize = sizeof(Channel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = channel_new,
    .tp_traverse = (traverseproc)channel_traverse,
    .tp_free = PyObject_GC_Del,
    .tp_dealloc = (destructor)channel_dealloc,
    .tp_methods = channel_methods,
    .tp_getset = channel_getters,
};
