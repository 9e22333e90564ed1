/* Channels: Stackless's rendezvous between tasklets. A value passes when a sender and a receiver meet; `preference`
   decides who of the two runs on. Partners may live in different threads: the one that waited becomes runnable in its
   own, and no switch happens.

   A channel with a buffer keeps values for which no receiver waits, and senders wait while it is full. The receiver that takes one of
   its values meets the sender that has waited longest: that one's value gets the room. */

/* Let the tasklet that waits at the head of the channel go; its reference passes to the caller. */
static inline Tasklet *
channel_take_head(Channel *channel)
{
    Tasklet *peer = channel->head;
    channel->head = peer->next;
    if (channel->head != NULL)
        channel->head->prev = NULL;
    else
        channel->tail = NULL;
    channel->balance -= peer->blocked;
    if (unlikely(peer->timer >= 0)) { /* it waits in a scope that has a deadline */
        timer_cancel(peer->scheduler, peer);
        tasklet_unlimited(peer);
    }
    peer->next = peer->prev = NULL;
    peer->blocked = NOT_BLOCKED;
    peer->waiting_on = NULL;
    peer->iterating = false;
    return peer;
}

/* Put the current tasklet, out of the ring, at the end of the channel's queue, which takes its reference. */
static inline void
channel_queue(Channel *channel, Tasklet *tasklet, int direction)
{
    tasklet->next = NULL;
    tasklet->prev = channel->tail;
    if (channel->tail != NULL)
        channel->tail->next = tasklet;
    else
        channel->head = tasklet;
    channel->tail = tasklet;
    channel->balance += direction;
    tasklet->blocked = (int8_t)direction;
    tasklet->waiting_on = (PyObject *)channel;
}

/* Whether meeting `peer` means a switch at once. `direction` is the current tasklet's own. */
static inline bool
channel_switches(Scheduler *scheduler, Channel *channel, Tasklet *peer, int direction)
{
    return (channel->preference == -direction || channel->schedule_all) && peer->scheduler == scheduler &&
           !scheduler->idle && !scheduler->polling && !collection_forbids(scheduler);
}

/* `peer` met the current tasklet: make it runnable, and switch when the channel says so. Steals peer.
   0, or -1 with the exception set that the current tasklet was woken with. */
static inline int
channel_go_on(Scheduler *scheduler, Channel *channel, Tasklet *peer, bool switches)
{
    Tasklet *current = scheduler->current, *target = peer;
    PyObject *unused;
    if (!switches) {
        ring_append(peer->scheduler, peer);
        if (unlikely(peer->scheduler->sleeping))
            scheduler_ring(peer->scheduler);
        return 0;
    }
    scheduler->meeting = true;
    if (channel->schedule_all) {
        ring_append(scheduler, peer);
        target = current->next;
    } else
        ring_link(current->next, peer);
    if (scheduler_switch(scheduler, current, target, &unused) < 0)
        return -1;
    Py_XDECREF(unused);
    return 0;
}

/* Whether a send (direction 1) or a receive (-1) needs no partner. */
static inline bool
buffer_serves(Channel *channel, int direction)
{
    return direction > 0 ? channel->buffered < channel->buffer && channel->balance <= 0 && !channel->closing : channel->buffered > 0;
}

static PyObject *channel_callback; /* of set_channel_callback; NULL: none. With it channel_attention is not 0 */

/* Tell the channel callback what the current tasklet is about to do. Meanwhile `value` (borrowed), which it sends, is its tempval, as in
   Stackless; NULL: it receives. Where no tasklet runs, in the hub or a signal handler, the current one sleeps, with its own value in
   transit, and keeps that. Runs Python code, which may not switch. -1 with an exception set when it does. */
static __attribute__((noinline)) int
channel_announce(Channel *channel, int direction, PyObject *value, bool is_error)
{
    Scheduler *scheduler = this_scheduler;
    PyObject *callback, *result, *own = NULL;
    Tasklet *current;
    bool shown;
    if (scheduler->announcing) {
        PyErr_SetString(PyExc_RuntimeError, "Recursive channel call due to callbacks! A channel callback must not use channels");
        return -1;
    }
    callback = Py_NewRef(channel_callback);
    current = scheduler->current;
    shown = !scheduler->idle && !current->raises; /* else its tempval is on its way */
    if (shown) {
        own = current->tempval;
        current->tempval = Py_XNewRef(value);
        current->sends_error = is_error;
    }
    scheduler->announcing = true;
    result = PyObject_CallFunction(callback, "OOOO", channel, current, direction > 0 ? Py_True : Py_False,
                                   channel->balance * direction >= 0 && !buffer_serves(channel, direction) ? Py_True : Py_False);
    scheduler->announcing = false;
    if (result == NULL)
        PyErr_WriteUnraisable(callback);
    if (shown && !current->raises) { /* no thread has thrown at it meanwhile */
        PyObject *left = current->tempval;
        current->tempval = own;
        current->sends_error = false;
        own = left;
    }
    Py_XDECREF(own);
    Py_XDECREF(result);
    Py_DECREF(callback);
    return 0;
}

static void
channel_closed_error(Channel *channel)
{
    PyErr_Format(ChannelClosed, "Send/receive operation on a closed channel: %R was closed and nothing waits in it; "
                 "open() lets it be used again", channel);
}

/* Put it at the head instead: it gives back what came from there. */
static void
channel_queue_first(Channel *channel, Tasklet *tasklet)
{
    tasklet->prev = NULL;
    tasklet->next = channel->head;
    if (channel->head != NULL)
        channel->head->prev = tasklet;
    else
        channel->tail = tasklet;
    channel->head = tasklet;
    channel->balance++;
    tasklet->blocked = BLOCKED_SEND;
    tasklet->waiting_on = (PyObject *)channel;
}

/* What an operation does when no partner waits. */
enum {
    WAITS,
    ITERATES, /* waits; a closed channel gives NULL without an exception, which ends a loop */
    ONLY_NOW, /* gives NULL without an exception */
    GIVES_BACK, /* waits in front of all others, in a closed channel too */
};

/* Of select.c: those who wait at several channels are met behind those who wait at this one alone. */
static int select_receives(Scheduler *scheduler, Channel *channel, PyObject *value, bool is_error);
static int select_sends(Scheduler *scheduler, Channel *channel, PyObject **value);
static bool select_waits(Channel *channel, int direction);
static SelectCase *select_first(Channel *channel, int direction);
static Tasklet *select_choose(SelectCase *met, PyObject *value, bool is_error);
static void select_channel_closes(Channel *channel);

/* For channels that are `special`, and for the time when channel_attention is not 0. */
static PyObject *channel_send_special(Channel *channel, PyObject *value, bool is_error, PyObject *const *operands, int how);
static PyObject *channel_send_attended(Channel *channel, PyObject *value, bool is_error, PyObject *const *operands, int how);
static PyObject *channel_receive_special(Channel *channel, int how, PyObject *const *operands);
static PyObject *channel_receive_attended(Channel *channel, int how, PyObject *const *operands);

/* Whether the current tasklet, which meets no partner because of the buffer, is to let the next one run. */
static inline bool
channel_yields(Scheduler *scheduler, Channel *channel)
{
    return unlikely(channel->schedule_all) && !scheduler->idle && !scheduler->polling && !collection_forbids(scheduler) &&
           scheduler->current->next != scheduler->current;
}

/* Let the next tasklet run. 0, or -1 with the exception set that the current tasklet was woken with. */
static __attribute__((noinline)) int
channel_yield(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current;
    PyObject *unused;
    if (scheduler_switch(scheduler, current, current->next, &unused) < 0)
        return -1;
    Py_XDECREF(unused);
    return 0;
}

/* Let `value` (borrowed) into the buffer, where there is room: 1 when that was done, 0 when it is not so any more, -1 with an exception
   set. A value that is given back needs no room, and becomes the first. */
static int
channel_keep(Scheduler *scheduler, Channel *channel, PyObject *value, bool is_error, bool gives_back)
{
    bool yields = channel_yields(scheduler, channel);
    if (yields) {
        if (scheduler_may_suspend(scheduler) < 0)
            return -1;
        /* The hub, looked at on the way, may have changed all. */
        if (channel->balance < 0 || (!gives_back && !buffer_serves(channel, 1)) ||
            (channel->cases != NULL && select_waits(channel, BLOCKED_RECEIVE)))
            return 0;
    }
    if ((gives_back ? buffer_push_first(channel, value, is_error) : buffer_push(channel, value, is_error)) < 0)
        return -1;
    trace_buffered(scheduler, scheduler->current, channel, gives_back);
    return yields && channel_yield(scheduler) < 0 ? -1 : 1;
}

/* `peer`, the first of those that wait to send alone, or `met`, the first of those that do in select(), has its value in the buffer from
   now on, where there is room. Returns its tasklet, no longer blocked; the reference passes to the caller. Runs no Python code. */
static Tasklet *
channel_refill(Scheduler *scheduler, Channel *channel, Tasklet *peer, SelectCase *met)
{
    if (met != NULL) {
        buffer_put(channel, Py_NewRef(met->value), false);
        peer = select_choose(met, NULL, false);
    } else {
        PyObject *sent = peer->tempval;
        bool is_error = peer->sends_error;
        peer = channel_take_head(channel);
        peer->tempval = NULL;
        peer->sends_error = false;
        buffer_put(channel, sent != NULL ? sent : Py_NewRef(Py_None), sent != NULL && is_error); /* NULL: taken away from outside */
    }
    trace_buffered(scheduler, peer, channel, false);
    return peer;
}

/* Take the oldest value out of the buffer, and let that of the sender that has waited longest in: 1 with *value owned, 0 when the buffer
   is empty, -1 with an exception set, which may be the one that was sent. */
static int
channel_take(Scheduler *scheduler, Channel *channel, PyObject **value)
{
    Tasklet *peer;
    SelectCase *met;
    bool switches, is_error;
    int gone_on = 0;
    for (bool looked = false;; looked = true) {
        bool refills = channel->buffered <= channel->buffer; /* else some were given back */
        if (channel->buffered == 0)
            return 0;
        met = refills && channel->cases != NULL && channel->balance <= 0 ? select_first(channel, BLOCKED_SEND) : NULL;
        peer = met != NULL ? met->select->queue.head : refills && channel->balance > 0 ? channel->head : NULL;
        switches = peer != NULL ? channel_switches(scheduler, channel, peer, -1) : channel_yields(scheduler, channel);
        if (!switches || looked)
            break;
        if (scheduler_may_suspend(scheduler) < 0) /* the hub, looked at on the way, may change all */
            return -1;
    }
    *value = buffer_pop(channel, &is_error);
    scheduler->messages++;
    trace_buffered(scheduler, NULL, channel, false);
    if (peer != NULL)
        gone_on = channel_go_on(scheduler, channel, channel_refill(scheduler, channel, peer, met), switches);
    else {
        buffer_trim(channel);
        if (switches)
            gone_on = channel_yield(scheduler);
    }
    if (gone_on < 0) {
        PyObject *raised = error_take();
        Py_CLEAR(*value);
        error_raise(raised);
    } else if (is_error) {
        error_raise(*value);
        gone_on = -1;
    }
    return gone_on < 0 ? -1 : 1;
}

/* Send `value` (borrowed), an exception to raise in the receiver when is_error. `whole`: the channel may be special; what others want to know
   of it was told, and values that pass are recorded. Without it that is left to the copies of this that are whole. */
static inline __attribute__((always_inline)) PyObject *
channel_send_value(Channel *channel, PyObject *value, bool is_error, PyObject *const *operands, int how, const bool whole)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current, *next;
    PyObject *unused;
    if (unlikely(scheduler == NULL))
        return NULL;
    if (!whole && unlikely(channel_attention != 0))
        return channel_send_attended(channel, value, is_error, operands, how);
again:
    if (!whole && unlikely(channel->special))
        return channel_send_special(channel, value, is_error, operands, how);
    if (channel->balance < 0) {
        bool switches = channel_switches(scheduler, channel, channel->head, 1);
        if (switches) {
            if (unlikely(scheduler_may_suspend(scheduler) < 0))
                return NULL;
            /* The hub, looked at on the way, woke the receiver; or another thread's is the first now. */
            if (unlikely(channel->balance >= 0 || channel->head->scheduler != scheduler))
                goto again;
        }
        if (unlikely(channel->head->tempval != NULL)) { /* set from outside while it waited: this value takes its place */
            Py_CLEAR(channel->head->tempval);
            goto again; /* what was dropped may have run code */
        }
        Tasklet *peer = channel_take_head(channel);
        assert(!peer->raises);
        peer->tempval = Py_NewRef(value);
        peer->raises = is_error;
        scheduler->messages++;
        if (whole)
            trace_message(scheduler, scheduler->current, peer, channel);
        if (unlikely(channel_go_on(scheduler, channel, peer, switches) < 0))
            return NULL;
        Py_RETURN_NONE;
    }
    if (whole && channel->cases != NULL) {
        int met = select_receives(scheduler, channel, value, is_error);
        if (met != 0)
            return met > 0 ? Py_NewRef(Py_None) : NULL;
        if (channel->balance < 0)
            goto again;
    }
    if (whole && (how == GIVES_BACK ? channel->buffer > 0 : buffer_serves(channel, 1))) {
        int kept = channel_keep(scheduler, channel, value, is_error, how == GIVES_BACK);
        if (kept != 0)
            return kept > 0 ? Py_NewRef(Py_None) : NULL;
        goto again;
    }
    if (how == ONLY_NOW)
        return NULL;
    if (whole && channel->closing && how != GIVES_BACK) {
        channel_closed_error(channel);
        return NULL;
    }
    if (unlikely(scheduler_may_block(scheduler) < 0))
        return NULL;
    if (unlikely(channel->balance < 0 || (!whole && channel->special)))
        goto again;
    if (whole && ((channel->closing && how != GIVES_BACK) || (channel->cases != NULL && select_waits(channel, BLOCKED_RECEIVE)) ||
                  buffer_serves(channel, 1)))
        goto again;
    current = scheduler->current;
    if (unlikely(current->tempval != NULL)) {
        tempval_forget(current);
        goto again;
    }
    if (unlikely(current->scope != NULL) && scope_arm(scheduler, current, ROAMLET_NEVER, false) < 0)
        return NULL;
    current->tempval = Py_NewRef(value);
    current->sends_error = is_error;
    next = scheduler_leave(current, operands);
    if (how == GIVES_BACK)
        channel_queue_first(channel, current);
    else
        channel_queue(channel, current, BLOCKED_SEND);
    if (unlikely(scheduler_suspend(scheduler, current, next, &unused) < 0))
        return NULL;
    Py_XDECREF(unused);
    Py_RETURN_NONE;
}

static inline __attribute__((always_inline)) PyObject *
channel_receive_value(Channel *channel, int how, PyObject *const *operands, const bool whole)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current, *next;
    PyObject *value;
    if (unlikely(scheduler == NULL))
        return NULL;
    if (!whole && unlikely(channel_attention != 0))
        return channel_receive_attended(channel, how, operands);
again:
    if (!whole && unlikely(channel->special))
        return channel_receive_special(channel, how, operands);
    if (whole && channel->buffered > 0) {
        int taken = channel_take(scheduler, channel, &value);
        if (taken != 0)
            return taken > 0 ? value : NULL;
    }
    if (channel->balance > 0) {
        bool is_error, switches = channel_switches(scheduler, channel, channel->head, -1);
        if (switches) {
            if (unlikely(scheduler_may_suspend(scheduler) < 0))
                return NULL;
            if (unlikely(channel->balance <= 0 || channel->head->scheduler != scheduler))
                goto again;
        }
        Tasklet *peer = channel_take_head(channel);
        value = peer->tempval;
        is_error = peer->sends_error;
        peer->tempval = NULL;
        peer->sends_error = false;
        if (unlikely(value == NULL)) /* taken away from outside while it waited */
            value = Py_NewRef(Py_None);
        scheduler->messages++;
        if (whole)
            trace_message(scheduler, peer, scheduler->current, channel);
        if (unlikely(channel_go_on(scheduler, channel, peer, switches) < 0)) {
            PyObject *raised = error_take();
            Py_DECREF(value);
            error_raise(raised);
            return NULL;
        }
        if (unlikely(is_error)) {
            error_raise(value);
            return NULL;
        }
        return value;
    }
    if (whole && channel->cases != NULL) {
        int met = select_sends(scheduler, channel, &value);
        if (met != 0)
            return met > 0 ? value : NULL;
        if (channel->balance > 0 || channel->buffered > 0)
            goto again;
    }
    if (how == ONLY_NOW)
        return NULL;
    if (whole && channel->closing) {
        if (how != ITERATES)
            channel_closed_error(channel);
        return NULL;
    }
    if (unlikely(scheduler_may_block(scheduler) < 0))
        return NULL;
    if (unlikely(channel->balance > 0 || (!whole && channel->special)))
        goto again;
    if (whole && (channel->closing || channel->buffered > 0 || (channel->cases != NULL && select_waits(channel, BLOCKED_SEND))))
        goto again;
    current = scheduler->current;
    if (unlikely(current->scope != NULL) && scope_arm(scheduler, current, ROAMLET_NEVER, false) < 0)
        return NULL;
    next = scheduler_leave(current, operands);
    channel_queue(channel, current, BLOCKED_RECEIVE);
    current->iterating = how == ITERATES;
    current->timed_out = false;
    if (unlikely(scheduler_suspend(scheduler, current, next, &value) < 0))
        return NULL;
    if (unlikely(current->timed_out)) { /* woken by close() while iterating; a tempval set from outside is no value of the channel's */
        current->timed_out = false;
        Py_XDECREF(value);
        return NULL;
    }
    return likely(value != NULL) ? value : Py_NewRef(Py_None); /* taken away from outside */
}

/* The two for calls that come seldom: copies of the code above are for send and receive alone. */
static __attribute__((noinline)) PyObject *
channel_send_seldom(Channel *channel, PyObject *value, bool is_error, int how)
{
    return channel_send_value(channel, value, is_error, NULL, how, false);
}

static __attribute__((noinline)) PyObject *
channel_receive_seldom(Channel *channel, int how)
{
    return channel_receive_value(channel, how, NULL, false);
}

static __attribute__((noinline)) PyObject *
channel_send_attended(Channel *channel, PyObject *value, bool is_error, PyObject *const *operands, int how)
{
    if (channel_callback != NULL && channel_announce(channel, 1, value, is_error) < 0)
        return NULL;
    return channel_send_value(channel, value, is_error, operands, how, true);
}

static __attribute__((noinline)) PyObject *
channel_receive_attended(Channel *channel, int how, PyObject *const *operands)
{
    if (channel_callback != NULL && channel_announce(channel, -1, NULL, false) < 0)
        return NULL;
    return channel_receive_value(channel, how, operands, true);
}

/* The short ways through a buffer, which meet no partner and call nothing; what is not that simple is left to the whole ones. */
static __attribute__((noinline)) PyObject *
channel_send_special(Channel *channel, PyObject *value, bool is_error, PyObject *const *operands, int how)
{
    if (likely(channel->buffered < channel->buffer && channel->buffered < channel->slots && channel->balance == 0 && channel->cases == NULL &&
               how != GIVES_BACK && !channel->closing && !channel->schedule_all && channel_attention == 0)) {
        buffer_put(channel, Py_NewRef(value), is_error);
        return Py_NewRef(Py_None);
    }
    return channel_send_attended(channel, value, is_error, operands, how);
}

static __attribute__((noinline)) PyObject *
channel_receive_special(Channel *channel, int how, PyObject *const *operands)
{
    Scheduler *scheduler = this_scheduler;
    if (likely((channel->buffered > 1 || (channel->buffered == 1 && channel->slots <= BUFFER_KEPT)) && channel->balance == 0 &&
               channel->cases == NULL && !channel->schedule_all && channel_attention == 0 && scheduler != NULL && (channel->values[channel->first] & BUFFER_ERROR) == 0)) {
        bool is_error;
        scheduler->messages++;
        return buffer_pop(channel, &is_error);
    }
    return channel_receive_attended(channel, how, operands);
}

static PyObject *
Channel_send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (unlikely(count != 1))
        return PyErr_Format(PyExc_TypeError, "channel.send() takes exactly one argument (%zd given)", count);
    if (unlikely(((Channel *)self)->special)) /* here already, before registers are saved */
        return channel_send_special((Channel *)self, args[0], false, arguments_end(args, count, NULL), WAITS);
    return channel_send_value((Channel *)self, args[0], false, arguments_end(args, count, NULL), WAITS, false);
}

static PyObject *
Channel_give_back(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    int is_exception = 0;
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "channel.give_back() takes a value and whether it is an exception (%zd arguments given)",
                            count);
    if (count == 2 && (is_exception = PyObject_IsTrue(args[1])) < 0)
        return NULL;
    if (is_exception && !PyExceptionInstance_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "channel.give_back(): %R is no exception instance", args[0]);
    return channel_send_seldom((Channel *)self, args[0], is_exception, GIVES_BACK);
}

static PyObject *
Channel_receive(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (unlikely(count != 0))
        return PyErr_Format(PyExc_TypeError, "channel.receive() takes no arguments (%zd given)", count);
    if (unlikely(((Channel *)self)->special))
        return channel_receive_special((Channel *)self, WAITS, arguments_end(args, count, NULL));
    return channel_receive_value((Channel *)self, WAITS, arguments_end(args, count, NULL), false);
}

static PyObject *
Channel_next(PyObject *self)
{
    PyObject *const *operands = switch_iterated(__builtin_return_address(0));
    if (unlikely(((Channel *)self)->special))
        return channel_receive_special((Channel *)self, ITERATES, operands);
    return channel_receive_value((Channel *)self, ITERATES, operands, false);
}

/* The exception object for (type or instance, value or arguments): a new reference, NULL with an exception set. */
static PyObject *
error_build(PyObject *type, PyObject *args, const char *what)
{
    if (PyExceptionInstance_Check(type) && PyTuple_GET_SIZE(args) == 0)
        return Py_NewRef(type);
    if (PyExceptionClass_Check(type)) {
        PyObject *error = PyObject_CallObject(type, args);
        if (error != NULL && !PyExceptionInstance_Check(error)) {
            PyErr_Format(PyExc_TypeError, "%s: calling %R gave %R, which is no exception", what, type, error);
            Py_CLEAR(error);
        }
        return error;
    }
    return PyErr_Format(PyExc_TypeError, "%s takes an exception class with its arguments, or one exception instance, not %R", what, type);
}

/* The exception of a call f(class or instance, *args). A new reference or NULL. */
static PyObject *
error_from_arguments(PyObject *args, const char *name)
{
    PyObject *rest, *error;
    char what[32];
    if (PyTuple_GET_SIZE(args) < 1)
        return PyErr_Format(PyExc_TypeError, "%s() takes at least 1 argument: an exception class and its arguments, as in "
                                             "%s(ValueError, 'why')", name, name);
    PyOS_snprintf(what, sizeof what, "%s()", name);
    rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    error = rest != NULL ? error_build(PyTuple_GET_ITEM(args, 0), rest, what) : NULL;
    Py_XDECREF(rest);
    return error;
}

/* Send an exception (stolen; NULL with one set) to be raised in the receiver. */
static PyObject *
channel_send_error(Channel *channel, PyObject *error)
{
    PyObject *result = error != NULL ? channel_send_seldom(channel, error, true, WAITS) : NULL;
    Py_XDECREF(error);
    return result;
}

static PyObject *
Channel_send_exception(PyObject *self, PyObject *args)
{
    return channel_send_error((Channel *)self, error_from_arguments(args, "send_exception"));
}

/* The exception of Stackless's (exc, val=None, tb=None) triple, as raise took it. A new reference or NULL. */
static PyObject *
error_from_triple(PyObject *type, PyObject *value, PyObject *traceback, const char *what)
{
    PyObject *args, *error;
    if (traceback != Py_None && !PyTraceBack_Check(traceback))
        return PyErr_Format(PyExc_TypeError, "%s: the third argument is a traceback or None, not %.100s", what, Py_TYPE(traceback)->tp_name);
    if (value != Py_None && PyExceptionInstance_Check(value) && PyExceptionClass_Check(type))
        error = Py_NewRef(value);
    else {
        args = value == Py_None ? PyTuple_New(0) : PyTuple_Check(value) ? Py_NewRef(value) : PyTuple_Pack(1, value);
        error = args != NULL ? error_build(type, args, what) : NULL;
        Py_XDECREF(args);
    }
    if (error != NULL && traceback != Py_None && PyException_SetTraceback(error, traceback) < 0)
        Py_CLEAR(error);
    return error;
}

static PyObject *
Channel_send_throw(PyObject *self, PyObject *args)
{
    PyObject *type, *value = Py_None, *traceback = Py_None;
    if (!PyArg_ParseTuple(args, "O|OO:send_throw", &type, &value, &traceback))
        return NULL;
    return channel_send_error((Channel *)self, error_from_triple(type, value, traceback, "send_throw()"));
}

static PyObject *
Channel_send_sequence(PyObject *self, PyObject *values)
{
    Py_ssize_t count = 0;
    PyObject *iterator = PyObject_GetIter(values), *value;
    if (iterator == NULL)
        return NULL;
    while ((value = PyIter_Next(iterator)) != NULL) {
        PyObject *sent = channel_send_seldom((Channel *)self, value, false, WAITS);
        Py_DECREF(value);
        if (sent == NULL)
            break;
        Py_DECREF(sent);
        count++;
    }
    Py_DECREF(iterator);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(count);
}

static PyObject *
Channel_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Channel *channel = (Channel *)self;
    Tasklet *t, *after;
    channel->closing = channel->special = true;
    for (t = channel->head; t != NULL; t = after) { /* runs no Python code: the queue stays as it is */
        after = t->next;
        if (t->iterating) {
            t->timed_out = true;
            scheduler_wake(t);
        }
    }
    if (channel->cases != NULL)
        select_channel_closes(channel);
    Py_RETURN_NONE;
}

static PyObject *
Channel_open(PyObject *self, PyObject *Py_UNUSED(unused))
{
    ((Channel *)self)->closing = false;
    channel_settled((Channel *)self);
    Py_RETURN_NONE;
}
