/* select(): a tasklet that waits at several channels at once and meets the first partner that comes to one of them.

   A channel has, beside the queue of those who wait there alone, a list of the cases of selects that wait. A tasklet that comes
   to the channel and finds its queue empty meets the first of these that wants the other direction: the select has chosen
   then, and leaves all its channels before anything else can run. So a value passes once or not at all. A case holds a
   reference to its select, and the tasklet waits in a queue of the select's own. */

enum {
    SELECT_WAITS = -1,  /* nothing is chosen yet */
    SELECT_CLOSED = -2, /* one of the channels was closed meanwhile */
};

/* Put all cases at the end of their channels' lists. Runs no Python code. */
static void
select_link(Select *select)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++) {
        SelectCase *own = &select->cases[i];
        Channel *channel = own->channel;
        own->next = NULL;
        own->prev = channel->last_case;
        *(own->prev != NULL ? &own->prev->next : &channel->cases) = own;
        channel->last_case = own;
        channel->special = true;
        Py_INCREF(select);
    }
    select->linked = true;
}

/* Leave all channels. The caller holds a reference to the select. Runs no Python code. */
static void
select_unlink(Select *select)
{
    if (!select->linked)
        return;
    select->linked = false;
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++) {
        SelectCase *own = &select->cases[i];
        *(own->prev != NULL ? &own->prev->next : &own->channel->cases) = own->next;
        *(own->next != NULL ? &own->next->prev : &own->channel->last_case) = own->prev;
        channel_settled(own->channel);
        Py_DECREF(select);
    }
}

/* The first case at the channel that waits in `direction`; borrowed, NULL when none does. */
static SelectCase *
select_first(Channel *channel, int direction)
{
    for (SelectCase *other = channel->cases; other != NULL; other = other->next)
        if (other->select->queue.head != NULL && (other->value != NULL) == (direction == BLOCKED_SEND))
            return other;
    return NULL;
}

static bool
select_waits(Channel *channel, int direction)
{
    return select_first(channel, direction) != NULL;
}

/* The select of `met` has chosen it; `value` (stolen) is what it receives, NULL when it sends. Returns its tasklet, which is no
   longer blocked; the reference passes to the caller. Runs no Python code. */
static Tasklet *
select_choose(SelectCase *met, PyObject *value, bool is_error)
{
    Select *select = (Select *)Py_NewRef((PyObject *)met->select);
    Tasklet *tasklet = select->queue.head;
    select->chosen = met - select->cases;
    select->value = value;
    select->is_error = is_error;
    select_unlink(select);
    tasklet->woken = true;
    tasklet_unblock(tasklet);
    Py_DECREF(select); /* not the last: its call has one */
    return tasklet;
}

/* The current tasklet comes to a channel with cases, but with an empty queue, to do what is the opposite of `direction`. The
   first case that waits in it, when the two can meet now, and *switches as channel_go_on wants it. NULL without an exception:
   no case, or look again; or with one. May run Python code. */
static SelectCase *
select_partner(Scheduler *scheduler, Channel *channel, int direction, bool *switches)
{
    SelectCase *met = select_first(channel, direction);
    *switches = met != NULL && channel_switches(scheduler, channel, met->select->queue.head, -direction);
    if (*switches) {
        if (scheduler_may_suspend(scheduler) < 0)
            return NULL;
        if (channel->balance * direction > 0) /* a tasklet is in the queue now, and goes first */
            return NULL;
        met = select_first(channel, direction);
        *switches = met != NULL && channel_switches(scheduler, channel, met->select->queue.head, -direction);
    }
    return met;
}

/* Send to a select that waits: 1 when that was done, 0 when none waits, -1 with an exception set. Switches. */
static __attribute__((noinline)) int
select_receives(Scheduler *scheduler, Channel *channel, PyObject *value, bool is_error)
{
    bool switches;
    Tasklet *peer;
    SelectCase *met = select_partner(scheduler, channel, BLOCKED_RECEIVE, &switches);
    if (met == NULL)
        return PyErr_Occurred() ? -1 : 0;
    peer = select_choose(met, Py_NewRef(value), is_error);
    scheduler->messages++;
    trace_message(scheduler, scheduler->current, peer, channel);
    return channel_go_on(scheduler, channel, peer, switches) < 0 ? -1 : 1;
}

/* Receive from a select that waits: 1 with *value owned, 0 when none waits, -1 with an exception set. Switches. */
static __attribute__((noinline)) int
select_sends(Scheduler *scheduler, Channel *channel, PyObject **value)
{
    bool switches;
    Tasklet *peer;
    SelectCase *met = select_partner(scheduler, channel, BLOCKED_SEND, &switches);
    if (met == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *value = Py_NewRef(met->value);
    peer = select_choose(met, NULL, false);
    scheduler->messages++;
    trace_message(scheduler, peer, scheduler->current, channel);
    if (channel_go_on(scheduler, channel, peer, switches) < 0) {
        PyObject *raised = error_take();
        Py_CLEAR(*value);
        error_raise(raised);
        return -1;
    }
    return 1;
}

/* The channel is closing: selects that wait there do not get what they wait for. Runs no Python code. */
static void
select_channel_closes(Channel *channel)
{
    SelectCase *other;
    while ((other = select_first(channel, BLOCKED_RECEIVE)) != NULL || (other = select_first(channel, BLOCKED_SEND)) != NULL) {
        Select *select = (Select *)Py_NewRef((PyObject *)other->select);
        select->chosen = SELECT_CLOSED;
        select_unlink(select);
        (void)queue_wake_one(&select->queue);
        Py_DECREF(select);
    }
}

static void
select_repeated_error(Channel *channel)
{
    PyErr_Format(PyExc_ValueError, "select(): %R stands there twice; one case a channel, or it would not be clear which was met", channel);
}

/* A new Select for these cases; NULL with an exception set. */
static Select *
select_new(PyObject *const *args, Py_ssize_t count)
{
    Select *select = PyObject_GC_NewVar(Select, &Select_Type, count);
    Channel *twice = NULL;
    if (select == NULL)
        return NULL;
    memset((char *)select + sizeof(PyVarObject), 0, sizeof *select - sizeof(PyVarObject) + (size_t)count * sizeof(SelectCase));
    select->chosen = SELECT_WAITS;
    for (Py_ssize_t i = 0; i < count; i++) {
        SelectCase *own = &select->cases[i];
        PyObject *given = args[i];
        bool sends = PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 2;
        PyObject *channel = sends ? PyTuple_GET_ITEM(given, 0) : given;
        if (!PyObject_TypeCheck(channel, &Channel_Type)) {
            PyErr_Format(PyExc_TypeError, "select() takes channels to receive from and (channel, value) pairs to send, as in "
                                          "select(jobs, (results, 42)), not %R", given);
            Py_DECREF(select);
            return NULL;
        }
        own->select = select;
        own->channel = (Channel *)Py_NewRef(channel);
        own->value = sends ? Py_NewRef(PyTuple_GET_ITEM(given, 1)) : NULL;
    }
    PyObject_GC_Track(select);
    for (Py_ssize_t i = 0; i < count; i++) {
        Channel *channel = select->cases[i].channel;
        twice = channel->marked ? channel : twice;
        channel->marked = true;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        select->cases[i].channel->marked = false;
    if (twice != NULL) {
        select_repeated_error(twice);
        Py_DECREF(select);
        return NULL;
    }
    return select;
}

/* Whether a partner waits for what the case wants, or a value, or room for one. Runs no Python code. */
static bool
select_ready(SelectCase *own)
{
    int direction = own->value != NULL ? BLOCKED_RECEIVE : BLOCKED_SEND;
    return own->channel->balance * direction > 0 || buffer_serves(own->channel, -direction) || select_waits(own->channel, direction);
}

/* (channel, value) for the case that was met: a new reference, or NULL. Steals value. */
static PyObject *
select_result(Select *select, Py_ssize_t index, PyObject *value)
{
    PyObject *result = PyTuple_New(2);
    if (result == NULL) {
        Py_DECREF(value);
        return NULL;
    }
    PyTuple_SET_ITEM(result, 0, Py_NewRef((PyObject *)select->cases[index].channel));
    PyTuple_SET_ITEM(result, 1, value);
    return result;
}

static unsigned long select_turn; /* which case is looked at first: each time the next one, so that none is starved */

/* Meet a partner that waits already. The result, or NULL: without an exception when none waits. Switches. */
static PyObject *
select_poll(Select *select)
{
    Py_ssize_t count = Py_SIZE(select), first = (Py_ssize_t)(select_turn++ % (unsigned long)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t index = (first + i) % count;
        SelectCase *own = &select->cases[index];
        PyObject *value;
        if (!select_ready(own))
            continue;
        value = own->value != NULL ? channel_send_seldom(own->channel, own->value, false, ONLY_NOW)
                                   : channel_receive_seldom(own->channel, ONLY_NOW);
        if (value != NULL)
            return select_result(select, index, value);
        if (PyErr_Occurred())
            return NULL;
    }
    return NULL;
}

/* Whether a case could be met now. Runs no Python code. */
static bool
select_any_ready(Select *select)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++)
        if (select_ready(&select->cases[i]))
            return true;
    return false;
}

/* The first channel that is closed, borrowed; NULL: none is. */
static Channel *
select_closed(Select *select)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++)
        if (select->cases[i].channel->closing)
            return select->cases[i].channel;
    return NULL;
}

/* The wait has ended, as `how` says, with a case chosen. The result, NULL with an exception set. */
static PyObject *
select_chosen(Select *select, int how)
{
    PyObject *value = select->value;
    select->value = NULL;
    if (how < 0) {
        if (PyErr_ExceptionMatches(TaskletExit)) { /* killed after it was given the value: it had it */
            Py_XDECREF(value);
            return NULL;
        }
        /* Raised by the hub or a signal handler as it came back: it has the value first, and that when it waits next. */
        tasklet_set_error(this_scheduler->current, error_take());
        ticks_set(this_scheduler, 0);
    }
    if (select->is_error) {
        error_raise(value);
        return NULL;
    }
    return select_result(select, select->chosen, value != NULL ? value : Py_NewRef(Py_None));
}

static PyObject *
core_select(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *timeout = Py_None, *otherwise = NULL, *result = NULL;
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    int64_t deadline;
    Select *select;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *keyword = PyTuple_GET_ITEM(names, i);
        if (PyUnicode_CompareWithASCIIString(keyword, "timeout") == 0)
            timeout = args[count + i];
        else if (PyUnicode_CompareWithASCIIString(keyword, "default") == 0)
            otherwise = args[count + i];
        else
            return PyErr_Format(PyExc_TypeError, "select() got an unexpected keyword argument '%U'", keyword);
    }
    if (count == 0)
        return PyErr_Format(PyExc_ValueError, "select() takes at least one case: a channel to receive from, or (channel, value) to send");
    if (timeout != Py_None && otherwise != NULL)
        return PyErr_Format(PyExc_TypeError, "select() takes timeout, to wait so long, or default, not to wait, and not both");
    if (scheduler_get() == NULL || api_deadline(timeout, "select(timeout)", &deadline) < 0 || (select = select_new(args, count)) == NULL)
        return NULL;
    for (;;) {
        Channel *closed;
        int how;
        result = select_poll(select);
        if (result != NULL || PyErr_Occurred())
            break;
        if (select_any_ready(select)) /* code ran in between */
            continue;
        if ((closed = select_closed(select)) != NULL) {
            channel_closed_error(closed);
            break;
        }
        if (otherwise != NULL) {
            result = PyTuple_Pack(2, Py_None, otherwise);
            break;
        }
        select_link(select);
        how = queue_wait(&select->queue, (PyObject *)select, deadline, 0, arguments_end(args, count, names));
        select_unlink(select);
        if (select->chosen >= 0) {
            result = select_chosen(select, how);
            break;
        }
        if (how < 0)
            break;
        if (how == ROAMLET_TIMED_OUT) {
            PyErr_Format(PyExc_TimeoutError, "select(): none of the %zd channel%s was ready within %R seconds", count, count == 1 ? "" : "s",
                         timeout);
            break;
        }
        select->chosen = SELECT_WAITS; /* a channel was closed: look which */
    }
    Py_DECREF(select);
    return result;
}

static int
Select_traverse(PyObject *self, visitproc visit, void *arg)
{
    Select *select = (Select *)self;
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++) {
        Py_VISIT(select->cases[i].channel);
        Py_VISIT(select->cases[i].value);
    }
    Py_VISIT(select->value);
    return queue_traverse(&select->queue, visit, arg);
}

static void
Select_dealloc(PyObject *self)
{
    Select *select = (Select *)self;
    PyObject_GC_UnTrack(self);
    assert(!select->linked && select->queue.head == NULL);
    for (Py_ssize_t i = 0; i < Py_SIZE(select); i++) {
        Py_XDECREF(select->cases[i].channel);
        Py_XDECREF(select->cases[i].value);
    }
    Py_XDECREF(select->value);
    PyObject_GC_Del(self);
}

static PyObject *
Select_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<select over %zd channel%s>", Py_SIZE(self), Py_SIZE(self) == 1 ? "" : "s");
}

static PyTypeObject Select_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.core._Select",
    .tp_basicsize = sizeof(Select),
    .tp_itemsize = sizeof(SelectCase),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = Select_dealloc,
    .tp_traverse = Select_traverse,
    .tp_repr = Select_repr,
};

PyDoc_STRVAR(select_doc, "select($module, /, *cases, timeout=None, default=<unrepresentable>)\n--\n\n"
"Receive from, or send to, the first of several channels that has a partner; wait for a partner when none has.\n\n"
"A case is a channel, to receive from, or a pair (channel, value), to send; one for each channel. Returns (channel, value) of\n"
"the one case that was met, value being None for a send. Where several can be met, each has its turn. Blocks this tasklet only;\n"
"switches as send and receive do. Raises what send_exception has sent, ChannelClosed when no case can be met and one of the\n"
"channels is closed, or is being closed meanwhile, TimeoutError when none came within `timeout` seconds (float, >= 0), Deadlock\n"
"(in main) when none ever can. With `default` it does not wait: (None, default) when no case can be met at once. Thread-safe.");
