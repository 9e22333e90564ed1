/* Wait queues: where tasklets stand that wait for a lock, an event, a descriptor, or whatever else is built on api.h. Whose
   turn it is, and what for, is the business of those who hold the queues. */

/* Stand in `queue`, which takes the tasklet's reference. */
static void
queue_add(RoamletQueue *queue, Tasklet *tasklet, bool front)
{
    Tasklet *head = queue->head, *tail = queue->tail;
    tasklet->next = front ? head : NULL;
    tasklet->prev = front ? NULL : tail;
    *(tasklet->prev != NULL ? (void **)&tasklet->prev->next : &queue->head) = tasklet;
    *(tasklet->next != NULL ? (void **)&tasklet->next->prev : &queue->tail) = tasklet;
    tasklet->queue = queue;
}

/* Whether the current tasklet may wait now: 0, or -1 with an exception set. Unlike scheduler_may_block it does not look at
   timers and hub, which would run code between the caller's look at its state and the wait. */
static inline int
queue_may_wait(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current;
    if (unlikely(scheduler_may_switch(scheduler) < 0 || tasklet_may_wait(current) < 0))
        return -1;
    if (unlikely(--scheduler->ticks <= 0 && current->raises)) { /* thrown by another thread while it ran */
        PyObject *error = current->tempval;
        current->tempval = NULL;
        current->raises = false;
        error_raise(error);
        return -1;
    }
    return switch_guard(scheduler, current);
}

/* See api.h. */
static int
queue_wait(RoamletQueue *queue, PyObject *on, int64_t deadline, int flags, PyObject *const *operands)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current, *next;
    PyObject *value, *forgotten;
    int failed;
    bool woken, timed_out;
    if (unlikely(scheduler == NULL || queue_may_wait(scheduler) < 0))
        return ROAMLET_RAISED;
    current = scheduler->current;
    if (wait_arm(scheduler, current, deadline) < 0)
        return ROAMLET_RAISED;
    forgotten = current->tempval; /* set by itself while it ran; dropping it may run code, so later */
    current->tempval = NULL;
    next = scheduler_leave(current, operands);
    queue_add(queue, current, flags & ROAMLET_WAIT_FRONT);
    current->blocked = BLOCKED_QUEUE;
    current->waiting_on = on;
    current->timed_out = current->woken = false;
    if ((flags & ROAMLET_WAIT_HUB) || (deadline >= 0 && !(flags & ROAMLET_WAIT_DAEMON))) {
        current->keeps = true;
        scheduler->keepers++;
        ticks_spend(scheduler);
    }
    failed = scheduler_suspend(scheduler, current, next, &value);
    woken = current->woken;
    timed_out = current->timed_out;
    current->woken = current->timed_out = false;
    if (unlikely(failed)) {
        PyObject *error = forgotten != NULL ? error_take() : NULL;
        Py_XDECREF(forgotten);
        error_restore(error);
        return woken ? ROAMLET_RAISED_WOKEN : ROAMLET_RAISED;
    }
    Py_XDECREF(value);
    Py_XDECREF(forgotten);
    if (unlikely(scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0)
        return woken ? ROAMLET_RAISED_WOKEN : ROAMLET_RAISED;
    return timed_out ? ROAMLET_TIMED_OUT : ROAMLET_WOKEN;
}

static inline void
queue_wake_head(RoamletQueue *queue)
{
    Tasklet *head = queue->head;
    head->woken = true;
    scheduler_wake(head);
}

static bool
queue_wake_one(RoamletQueue *queue)
{
    if (queue->head == NULL)
        return false;
    queue_wake_head(queue);
    return true;
}

static Py_ssize_t
queue_wake_all(RoamletQueue *queue)
{
    Py_ssize_t count = 0;
    for (; queue->head != NULL; count++)
        queue_wake_head(queue);
    return count;
}

static int
queue_traverse(RoamletQueue *queue, visitproc visit, void *arg)
{
    for (Tasklet *t = queue->head; t != NULL; t = t->next)
        Py_VISIT(t);
    return 0;
}

/* ---- the table ---- */

static int
api_deadline(PyObject *seconds, const char *what, int64_t *deadline)
{
    int64_t delay, now;
    *deadline = ROAMLET_NEVER;
    if (seconds == Py_None)
        return 0;
    if ((delay = timeout_ns(seconds, what)) < 0 || (now = clock_ns()) < 0)
        return -1;
    *deadline = now + delay;
    return 0;
}

static PyObject *
api_current(void)
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? (PyObject *)scheduler->current : NULL;
}

static bool
api_interrupts_wait(void)
{
    Scheduler *scheduler = this_scheduler;
    return scheduler != NULL && scheduler->idle && !scheduler->announcing && scheduler->first == NULL && scheduler->started == NULL;
}

static int
api_checkpoint(bool waits)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *current;
    PyObject *value;
    if (unlikely(scheduler == NULL))
        return -1;
    current = scheduler->current;
    if (unlikely(scheduler->fixed != 0)) /* where no tasklet runs none is held up */
        return 0;
    if (!waits && tstate_loop(scheduler->tstate) != 0)
        return 0;
    if (unlikely(current->scope != NULL) && scope_check(current) < 0)
        return -1;
    if (likely(--scheduler->ticks > 0))
        return 0;
    if (scheduler_tick(scheduler) < 0)
        return -1;
    if (current->next == current || current->atomic > 0 || collection_forbids(scheduler))
        return 0;
    if (switch_guard(scheduler, current) < 0) { /* inside a foreign greenlet: go on without */
        PyErr_Clear();
        return 0;
    }
    tempval_forget(current);
    if (current->next == current)
        return 0;
    if (scheduler_switch(scheduler, current, current->next, &value) < 0)
        return -1;
    Py_XDECREF(value);
    return 0;
}

static int
api_install_hub(RoamletHub *hub)
{
    Scheduler *scheduler = scheduler_get();
    RoamletHub *before;
    if (scheduler == NULL)
        return -1;
    if (scheduler->sleeping || scheduler->polling) {
        PyErr_SetString(PyExc_RuntimeError, "install_hub() was called while the hub polls");
        return -1;
    }
    before = scheduler->hub;
    scheduler->hub = hub;
    if (before != NULL && before != hub)
        before->close(before);
    return 0;
}

static RoamletHub *
api_hub(void)
{
    return this_scheduler != NULL ? this_scheduler->hub : NULL;
}

/* Of snapshot.c. */
static int api_inspect(PyObject *tasklet, RoamletState *state);
static int api_frames(PyObject *tasklet, RoamletFrameVisit each, void *arg);
static bool api_selects(PyObject *channel);
static PyObject *api_buffered(PyObject *channel);
static int api_call_suspends(PyObject *callable);
static int api_pause(PyObject *const *operands, PyObject **value);
static void api_settle(PyObject *tasklet, const RoamletState *state);
static void api_detach(PyObject *tasklet);
static void api_silence(PyObject *tasklet);
static bool api_hold(PyObject *tasklet, bool held);

static const RoamletAPI api_table = {
    .version = ROAMLET_API_VERSION,
    .deadline = api_deadline,
    .now = clock_ns,
    .wait = queue_wait,
    .wake_one = queue_wake_one,
    .wake_all = queue_wake_all,
    .traverse = queue_traverse,
    .current = api_current,
    .interrupts_wait = api_interrupts_wait,
    .atomic_leave = atomic_give_up,
    .atomic_return = atomic_return,
    .checkpoint = api_checkpoint,
    .gil_leave = gil_leave,
    .gil_return = gil_return,
    .install_hub = api_install_hub,
    .hub = api_hub,
    .inspect = api_inspect,
    .frames = api_frames,
    .operands = switch_operands,
    .selects = api_selects,
    .buffered = api_buffered,
    .call_suspends = api_call_suspends,
    .pause = api_pause,
    .settle = api_settle,
    .detach = api_detach,
    .silence = api_silence,
    .hold = api_hold,
};

/* ---- a hub in Python ---- */

typedef struct {
    RoamletHub base;
    PyObject *poll; /* callable(timeout: float | None) */
} PythonHub;

static int
python_hub_poll(RoamletHub *hub, int64_t timeout)
{
    PyObject *argument = timeout < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble((double)timeout / 1e9), *result;
    if (argument == NULL)
        return -1;
    result = PyObject_CallOneArg(((PythonHub *)hub)->poll, argument);
    Py_DECREF(argument);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static void
python_hub_close(RoamletHub *hub)
{
    Py_DECREF(((PythonHub *)hub)->poll);
    PyMem_Free(hub);
}

static PyObject *
core_install_hub(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *poll;
    PythonHub *hub = NULL;
    int wake_fd;
    if (!PyArg_ParseTuple(args, "Oi:install_hub", &poll, &wake_fd))
        return NULL;
    if (poll != Py_None && !PyCallable_Check(poll))
        return PyErr_Format(PyExc_TypeError, "install_hub(): poll is a callable that takes a time-out, or None, not %R", poll);
    if (poll != Py_None) {
        if ((hub = PyMem_Malloc(sizeof *hub)) == NULL)
            return PyErr_NoMemory();
        *hub = (PythonHub){{.poll = python_hub_poll, .close = python_hub_close, .wake_fd = wake_fd}, Py_NewRef(poll)};
    }
    if (api_install_hub((RoamletHub *)hub) < 0) {
        if (hub != NULL)
            python_hub_close(&hub->base);
        return NULL;
    }
    Py_RETURN_NONE;
}
