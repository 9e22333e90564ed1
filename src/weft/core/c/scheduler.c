/* The scheduler of a thread: the run queue, what happens when nobody can run, the end of tasklets and of the thread.

   The run queue is a ring, and the tasklet that runs is in it: schedule() is `current = current->next`. "The end of the
   queue" is the place before the current tasklet. Each tasklet in the ring is owned by it; moving one from the ring to
   a channel and back moves that reference.

   There is no hub tasklet. When the last runnable tasklet blocks, scheduler_idle sleeps on its C stack until something
   (a timer, a descriptor, another thread) has made somebody runnable. */

#define TICKS 256           /* switches between two looks at the clock, at most */
#define DEADLOCK_NS 250000000 /* between two looks for a deadlock that another thread's end may cause */
#define TICK_NS 1000000     /* how often timers and the hub are looked at while tasklets run */

static void tasklet_set_error(Tasklet *tasklet, PyObject *error);
static PyObject *deadlock_error(Scheduler *scheduler);

/* ---- the ring ---- */

static inline void
ring_link(Tasklet *before, Tasklet *tasklet)
{
    tasklet->next = before;
    tasklet->prev = before->prev;
    before->prev->next = tasklet;
    before->prev = tasklet;
}

/* Put `tasklet` at the end of its scheduler's queue. Steals a reference to it. */
static inline void
ring_append(Scheduler *scheduler, Tasklet *tasklet)
{
    Tasklet *end = unlikely(scheduler->idle) ? scheduler->first : scheduler->current;
    if (likely(end != NULL)) {
        ring_link(end, tasklet);
        return;
    }
    tasklet->next = tasklet->prev = tasklet;
    scheduler->first = tasklet;
}

/* Take `tasklet` out. Its reference passes to the caller. */
static inline void
ring_remove(Scheduler *scheduler, Tasklet *tasklet)
{
    if (unlikely(scheduler->first == tasklet))
        scheduler->first = tasklet->next == tasklet ? NULL : tasklet->next;
    tasklet->prev->next = tasklet->next;
    tasklet->next->prev = tasklet->prev;
    tasklet->next = tasklet->prev = NULL;
}

static inline bool
ring_holds(Tasklet *tasklet)
{
    return tasklet->next != NULL && tasklet->blocked == NOT_BLOCKED;
}

/* ---- waking ---- */

/* Another thread made something runnable here: end this thread's sleep. Runs no Python code. */
static __attribute__((noinline)) void
scheduler_ring(Scheduler *scheduler)
{
    uint64_t one = 1;
    scheduler->sleeping = false;
    if (scheduler->hub_poll == NULL)
        PyThread_release_lock(scheduler->doorbell);
    else if (write(scheduler->hub_wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        Py_FatalError("weft: cannot write to a hub's eventfd");
}

/* Take a blocked tasklet off what it waits for. Its reference passes to the caller. Runs no Python code. */
static void
tasklet_unblock(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    if (tasklet->blocked == BLOCKED_RECEIVE || tasklet->blocked == BLOCKED_SEND) {
        Channel *channel = (Channel *)tasklet->waiting_on;
        *(tasklet->prev != NULL ? &tasklet->prev->next : &channel->head) = tasklet->next;
        *(tasklet->next != NULL ? &tasklet->next->prev : &channel->tail) = tasklet->prev;
        tasklet->next = tasklet->prev = NULL;
        channel->balance -= tasklet->blocked;
    } else if (tasklet->blocked == BLOCKED_WAIT) {
        if (tasklet->waiting_on != NULL) {
            Waiter *waiter = (Waiter *)tasklet->waiting_on;
            waiter->tasklet = NULL;
            if (waiter->state == WAITER_PENDING)
                waiter->state = WAITER_ABANDONED;
        }
        if (!tasklet->daemon_wait)
            scheduler->keepers--;
    }
    if (tasklet->timer >= 0)
        timer_cancel(scheduler, tasklet);
    tasklet->blocked = NOT_BLOCKED;
    tasklet->waiting_on = NULL;
    tasklet->iterating = false;
}

/* Make a blocked tasklet runnable, at the end of its own thread's queue. Thread-safe under the GIL; does not switch,
   runs no Python code, cannot fail. */
static void
scheduler_wake(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    tasklet_unblock(tasklet);
    ring_append(scheduler, tasklet);
    if (unlikely(scheduler->sleeping))
        scheduler_ring(scheduler);
}

/* An error that belongs to nobody else: main raises it, wherever it waits. Steals error. May run Python code. */
static void
main_set_error(Scheduler *scheduler, PyObject *error)
{
    Tasklet *main = scheduler->main;
    bool second = main->raises; /* it has not got the one before yet: neither is dropped silently */
    if (second) {
        error_raise(error);
        PyErr_WriteUnraisable((PyObject *)main);
        if (!main->raises) /* it ran meanwhile */
            return;
    }
    if (main->blocked != NOT_BLOCKED)
        scheduler_wake(main);
    else if (main->next == NULL)
        ring_append(scheduler, (Tasklet *)Py_NewRef((PyObject *)main));
    if (!second)
        tasklet_set_error(main, error);
}

/* ---- timers and the hub ---- */

/* Wake whose time has come. -1 with an exception set. */
static int
timers_fire(Scheduler *scheduler)
{
    if (scheduler->timer_count == 0)
        return 0;
    int64_t now = clock_ns();
    if (now < 0)
        return -1;
    while (scheduler->timer_count > 0 && scheduler->timers[0].when <= now) {
        Tasklet *tasklet = scheduler->timers[0].tasklet;
        tasklet->timed_out = true;
        scheduler_wake(tasklet);
    }
    return 0;
}

/* Call the hub's poll with `timeout` in ns (-1: until something happens). Runs Python code; no tasklet may switch. */
static int
hub_poll(Scheduler *scheduler, int64_t timeout)
{
    PyObject *argument = timeout < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble((double)timeout / 1e9), *result;
    if (argument == NULL)
        return -1;
    scheduler->polling = true;
    scheduler->sleeping = timeout != 0;
    result = PyObject_CallOneArg(scheduler->hub_poll, argument);
    scheduler->sleeping = false;
    scheduler->polling = false;
    Py_DECREF(argument);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Sleep with the GIL released until another thread rings, a signal comes or `timeout` ns have passed (-1: for ever). */
static int
doorbell_wait(Scheduler *scheduler, int64_t timeout)
{
    PY_TIMEOUT_T limit = timeout < 0 ? -1 : (timeout + 999) / 1000;
    PyLockStatus status;
    scheduler->sleeping = true;
    Py_BEGIN_ALLOW_THREADS
    status = PyThread_acquire_lock_timed(scheduler->doorbell, limit, 1);
    Py_END_ALLOW_THREADS
    if (!scheduler->sleeping && status != PY_LOCK_ACQUIRED) /* rung as the time ran out: take it, it must stay held */
        PyThread_acquire_lock(scheduler->doorbell, NOWAIT_LOCK);
    scheduler->sleeping = false;
    return status == PY_LOCK_INTR ? PyErr_CheckSignals() : 0;
}

/* Wait for the world outside this thread's tasklets: until the next timer is due, or until anything happens. Where only
   another thread's free will can wake anybody, look again now and then whether that thread still lives. */
static int
hub_wait(Scheduler *scheduler)
{
    int64_t timeout = scheduler->keepers > 0 ? -1 : DEADLOCK_NS;
    if (scheduler->timer_count > 0) {
        int64_t now = clock_ns();
        if (now < 0)
            return -1;
        int64_t left = scheduler->timers[0].when - now;
        if (left <= 0)
            return 0;
        if (timeout < 0 || left < timeout)
            timeout = left;
    }
    if (unlikely(clock_advance != NULL && scheduler->timer_count > 0)) {
        PyObject *seconds, *result;
        if (scheduler->hub_poll != NULL && (hub_poll(scheduler, 0) < 0 || scheduler->first != NULL))
            return PyErr_Occurred() ? -1 : 0;
        seconds = PyFloat_FromDouble((double)timeout / 1e9);
        result = seconds != NULL ? PyObject_CallOneArg(clock_advance, seconds) : NULL;
        Py_XDECREF(seconds);
        Py_XDECREF(result);
        return result != NULL ? 0 : -1;
    }
    return scheduler->hub_poll != NULL ? hub_poll(scheduler, timeout) : doorbell_wait(scheduler, timeout);
}

/* While tasklets run: look at timers and hub about every millisecond, so that a loop of schedule() starves nobody. The
   number of switches between two looks at the clock follows how long they take. May run Python code; -1 with an
   exception set. */
static __attribute__((noinline)) int
hub_tick(Scheduler *scheduler)
{
    if (scheduler->idle || scheduler->polling || (scheduler->timer_count == 0 && scheduler->hub_poll == NULL))
        return 0;
    int64_t now = clock_ns(), passed = now - scheduler->last_tick;
    if (now < 0)
        return -1;
    if (passed < TICK_NS) {
        if (passed < TICK_NS / 2 && scheduler->ticks_full < TICKS)
            scheduler->ticks = scheduler->ticks_full *= 2;
        return 0;
    }
    scheduler->last_tick = now;
    if (passed > 2 * TICK_NS && scheduler->ticks_full > 1)
        scheduler->ticks = scheduler->ticks_full /= 2;
    if (timers_fire(scheduler) < 0)
        return -1;
    return scheduler->hub_poll != NULL ? hub_poll(scheduler, 0) : 0;
}

/* It is time to look at what came from outside: what hub_tick finds, and an error that another thread threw into the
   current tasklet. May run Python code; -1 with an exception set. */
static __attribute__((noinline)) int
scheduler_tick(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current;
    scheduler->ticks = scheduler->ticks_full;
    if (hub_tick(scheduler) < 0)
        return -1;
    if (unlikely(current->raises && !scheduler->idle)) {
        PyObject *error = current->tempval;
        current->tempval = NULL;
        current->raises = false;
        error_raise(error);
        return -1;
    }
    return 0;
}

static Py_ssize_t service_threads; /* threads of weft's own, which wake nobody by themselves */

/* Whether a thread that weft did not start lives: it may do anything, a channel operation too. */
static bool
other_threads(Scheduler *scheduler)
{
    Py_ssize_t count = 0;
    for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(scheduler->tstate)); t != NULL;
         t = PyThreadState_Next(t))
        count += t != scheduler->tstate;
    return count > service_threads - scheduler->service;
}

/* Nobody can run: sleep until somebody can, and make that one current. Runs Python code (the hub's, signal handlers');
   what they raise goes to main. Nobody can run either when only main's run() waits: it returns; nor when nothing can
   ever wake anybody: main raises Deadlock. */
static __attribute__((noinline)) Tasklet *
scheduler_idle(Scheduler *scheduler)
{
    Tasklet *main = scheduler->main;
    scheduler->idle = true;
    scheduler->first = NULL;
    for (;;) {
        int failed = timers_fire(scheduler);
        if (!failed && scheduler->first == NULL) {
            bool paused = main->blocked == NOT_BLOCKED;
            if (paused || (main->blocked == BLOCKED_RUN && (scheduler->keepers == 0 || !scheduler->run_waits))) {
                if (paused)
                    Py_INCREF(main);
                tasklet_unblock(main);
                ring_append(scheduler, main);
            } else if (scheduler->keepers == 0 && (scheduler->ending || !other_threads(scheduler))) {
                PyObject *error = deadlock_error(scheduler);
                main_set_error(scheduler, error != NULL ? error : error_take());
            } else
                failed = hub_wait(scheduler);
        }
        if (failed)
            main_set_error(scheduler, error_take());
        if (scheduler->first != NULL)
            break;
    }
    scheduler->current = scheduler->first;
    scheduler->first = NULL;
    scheduler->idle = false;
    return scheduler->current;
}

/* ---- suspending ---- */

/* Whether the current tasklet may be suspended now: 0, or -1 with an exception set and nothing changed. Looks at timers
   and hub when it is time, so state must be read after it. */
static inline int
scheduler_may_suspend(Scheduler *scheduler)
{
    if (unlikely(scheduler->idle || scheduler->polling)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this call would block, and it was made where no tasklet runs: in the hub, or in a signal "
                        "handler while all tasklets wait. Wake a tasklet that does the work instead");
        return -1;
    }
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0)
        return -1;
    return switch_guard(scheduler, scheduler->current);
}

/* The current tasklet runs again: take what it was woken with. 0 with *value owned (NULL when there is none), or -1 with
   the exception that was meant for it set. What the one before left to be dropped is dropped here, after the value is
   safe: whatever that runs can no longer touch it. */
static inline int
scheduler_resumed(Scheduler *scheduler, Tasklet *tasklet, PyObject **value)
{
    PyObject *got = tasklet->tempval;
    bool raises = tasklet->raises;
    tasklet->tempval = NULL;
    tasklet->raises = false;
    if (unlikely(scheduler->zombie != NULL)) {
        PyObject *zombie = scheduler->zombie;
        scheduler->zombie = NULL;
        Py_DECREF(zombie);
    }
    if (unlikely(raises)) {
        error_raise(got);
        *value = NULL;
        return -1;
    }
    *value = got;
    return 0;
}

/* Switch from the current tasklet, which stays in the ring, to `to`. */
static inline int
scheduler_switch(Scheduler *scheduler, Tasklet *from, Tasklet *to, PyObject **value)
{
    scheduler->current = to;
    switch_to(scheduler, from, to);
    return scheduler_resumed(scheduler, from, value);
}

/* Take the current tasklet out of the ring before it is put where it waits. Returns the one to go on with, or NULL when
   it was the last. Its reference passes to the caller. */
static inline Tasklet *
scheduler_leave(Tasklet *current)
{
    Tasklet *next = current->next;
    if (unlikely(next == current)) {
        current->next = current->prev = NULL;
        return NULL;
    }
    current->prev->next = next;
    next->prev = current->prev;
    return next;
}

/* Suspend the current tasklet, which scheduler_leave took out and the caller has put where it waits. */
static inline int
scheduler_suspend(Scheduler *scheduler, Tasklet *current, Tasklet *next, PyObject **value)
{
    if (unlikely(next == NULL))
        next = scheduler_idle(scheduler);
    else
        scheduler->current = next;
    if (likely(next != current))
        switch_to(scheduler, current, next);
    return scheduler_resumed(scheduler, current, value);
}

/* ---- the end of a tasklet ---- */

/* The current tasklet has ended; `error` (stolen, may be NULL) is what it did not catch. Returns the next, now current. */
static Tasklet *
scheduler_finish(Scheduler *scheduler, Tasklet *dead, PyObject *error)
{
    Tasklet *next;
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0) {
        if (error != NULL)
            PyErr_WriteUnraisable((PyObject *)dead);
        else if (PyErr_ExceptionMatches(TaskletExit)) /* killed by the hub or a signal handler: it ends anyway */
            PyErr_Clear();
        else
            error = error_take();
    }
    if (unlikely(error != NULL)) {
        main_set_error(scheduler, error);
        next = scheduler_leave(dead);
        if (likely(ring_holds(scheduler->main))) /* it raises the error at once; the others stay in their order */
            next = scheduler->main;
    } else
        next = scheduler_leave(dead);
    if (likely(next != NULL))
        scheduler->current = next;
    dead->next = dead->prev = NULL;
    dead->state = TASKLET_UNBOUND;
    assert(scheduler->zombie == NULL);
    scheduler->zombie = (PyObject *)dead;
    return likely(next != NULL) ? next : scheduler_idle(scheduler);
}

static inline void
started_add(Scheduler *scheduler, Tasklet *tasklet)
{
    tasklet->started_prev = NULL;
    tasklet->started_next = scheduler->started;
    if (scheduler->started != NULL)
        scheduler->started->started_prev = tasklet;
    scheduler->started = tasklet;
}

static inline void
started_remove(Scheduler *scheduler, Tasklet *tasklet)
{
    if (tasklet->started_prev != NULL)
        tasklet->started_prev->started_next = tasklet->started_next;
    else
        scheduler->started = tasklet->started_next;
    if (tasklet->started_next != NULL)
        tasklet->started_next->started_prev = tasklet->started_prev;
}

static Tasklet *
tasklet_main(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *result = NULL, *error = NULL, *value, *function, *args, *kwargs;
    started_add(scheduler, tasklet);

    /* A value for a tasklet that has not run yet can only be an exception thrown into it: it never runs at all. */
    if (likely(scheduler_resumed(scheduler, tasklet, &value) == 0) &&
        likely(switch_body_begin(scheduler, tasklet) == 0)) {
        if (tasklet->kwargs == NULL)
            result = PyObject_Vectorcall(tasklet->function, ((PyTupleObject *)tasklet->args)->ob_item,
                                         (size_t)PyTuple_GET_SIZE(tasklet->args), NULL);
        else
            result = PyObject_Call(tasklet->function, tasklet->args, tasklet->kwargs);
        if (unlikely(result == NULL))
            error = error_take();
        switch_body_done(scheduler);
    } else
        error = error_take();
    if (error != NULL && PyErr_GivenExceptionMatches(error, TaskletExit))
        Py_CLEAR(error);

    /* All that can run code is dropped while this tasklet is still the current one. */
    function = tasklet->function;
    args = tasklet->args;
    kwargs = tasklet->kwargs;
    tasklet->function = tasklet->args = tasklet->kwargs = NULL;
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_CLEAR(tasklet->context);

    started_remove(scheduler, tasklet);
    return scheduler_finish(scheduler, tasklet, error);
}

/* ---- the scheduler's own life ---- */

static Tasklet *tasklet_alloc(PyTypeObject *type, Scheduler *scheduler);
static PyObject *tasklet_throw(Tasklet *tasklet, PyObject *error, bool pending);

static void
scheduler_free(Scheduler *scheduler)
{
    if (scheduler->doorbell != NULL) {
        PyThread_release_lock(scheduler->doorbell);
        PyThread_free_lock(scheduler->doorbell);
    }
    PyMem_Free(scheduler->timers);
    PyMem_Free(scheduler);
}

/* A tasklet no longer points here. The scheduler of a thread that has ended goes with the last one. */
static inline void
scheduler_release(Scheduler *scheduler)
{
    if (unlikely(--scheduler->tasklets == 0 && scheduler->tstate == NULL))
        scheduler_free(scheduler);
}

/* All started tasklets of this thread, the oldest first: a new list, or NULL with an exception set. */
static PyObject *
scheduler_started(Scheduler *scheduler)
{
    PyObject *list = PyList_New(0);
    for (Tasklet *t = scheduler->started; t != NULL && list != NULL; t = t->started_next)
        if (PyList_Append(list, (PyObject *)t) < 0)
            Py_CLEAR(list);
    if (list != NULL && PyList_Reverse(list) < 0)
        Py_CLEAR(list);
    return list;
}

#define KILL_ROUNDS 10

/* Take those that have not run yet out of the run queue of main, which is current: they never will run. Runs code. */
static void
scheduler_drop_unborn(Scheduler *scheduler)
{
    Tasklet *main = scheduler->main, *t = main->next;
    while (t != NULL && t != main) {
        if (t->state != TASKLET_NEW) {
            t = t->next;
            continue;
        }
        PyObject *function = t->function;
        ring_remove(scheduler, t);
        t->function = NULL;
        t->state = TASKLET_UNBOUND;
        Py_DECREF(t);
        Py_XDECREF(function);
        t = main->next; /* what was dropped may have changed the queue */
    }
}

/* End all tasklets of this thread, the oldest first, with their finally blocks. One that refuses to end is tried again
   a few times; those that have not run yet never will. Called in the thread itself, in main; switches. */
static void
scheduler_kill_all(Scheduler *scheduler)
{
    PyObject *raised = error_take();
    scheduler->ending = true;
    scheduler_drop_unborn(scheduler);
    for (int round = 0; round < KILL_ROUNDS && scheduler->started != NULL; round++) {
        PyObject *all = scheduler_started(scheduler);
        for (Py_ssize_t i = 0; all != NULL && i < PyList_GET_SIZE(all); i++) {
            Tasklet *t = (Tasklet *)PyList_GET_ITEM(all, i);
            PyObject *error = t->state == TASKLET_STARTED ? PyObject_CallNoArgs(TaskletExit) : NULL;
            PyObject *result = error != NULL ? tasklet_throw(t, error, false) : NULL;
            if (result == NULL && PyErr_Occurred())
                PyErr_WriteUnraisable((PyObject *)t);
            Py_XDECREF(result);
        }
        Py_XDECREF(all);
    }
    scheduler_drop_unborn(scheduler); /* what finally blocks have started */
    scheduler->ending = false;
    PyErr_Clear();
    if (raised != NULL)
        error_raise(raised);
}

/* We are a forked child, which does not have the thread of this scheduler. Its tasklets are dead: they leave channels and
   Waiters, so that nobody meets them there; their frames and this scheduler's memory are lost. May run Python code. */
static void
scheduler_vanished(Scheduler *scheduler)
{
    Tasklet *main = scheduler->main, *t, *after;
    PyObject *dead = PyList_New(0);
    scheduler->tasklets++; /* for ever: nobody frees it */
    Py_INCREF(main);
    while (main->next != NULL && main->blocked == NOT_BLOCKED && main->next != main) {
        t = main->next;
        ring_remove(scheduler, t);
        t->state = t->state == TASKLET_NEW ? TASKLET_UNBOUND : t->state;
        if (dead == NULL || PyList_Append(dead, (PyObject *)t) < 0)
            PyErr_Clear(); /* lost, then */
    }
    for (t = scheduler->started; t != NULL; t = after) {
        after = t->started_next;
        if (t->blocked != NOT_BLOCKED)
            tasklet_unblock(t);
        t->state = TASKLET_UNBOUND;
    }
    if (main->blocked != NOT_BLOCKED)
        tasklet_unblock(main);
    main->next = main->prev = NULL;
    main->state = TASKLET_UNBOUND;
    scheduler->started = scheduler->current = scheduler->main = NULL;
    scheduler->tstate = NULL;
    Py_XDECREF(dead);
}

/* The thread's dictionary is being cleared: the thread ends. */
static void
scheduler_thread_ends(PyObject *capsule)
{
    Scheduler *scheduler = PyCapsule_GetPointer(capsule, "weft.scheduler");
    Tasklet *main = scheduler->main, *t;
    if (scheduler != this_scheduler) { /* cleared by another thread: after fork, or at the very end; nothing can run here */
        service_threads -= scheduler->service;
        if (scheduler->pid != getpid())
            scheduler_vanished(scheduler);
        return;
    }
    scheduler_kill_all(scheduler);
    while (main->next != NULL && main->next != main) { /* they refused to end: their frames are lost */
        t = main->next;
        ring_remove(scheduler, t);
        Py_DECREF(t);
    }
    for (t = scheduler->started; t != NULL; t = t->started_next) {
        if (t->blocked != NOT_BLOCKED)
            tasklet_unblock(t);
        t->state = TASKLET_UNBOUND;
    }
    switch_thread_end(scheduler);
    service_threads -= scheduler->service;
    Py_CLEAR(scheduler->hub_poll);
    this_scheduler = NULL;
    main->next = main->prev = NULL;
    main->state = TASKLET_UNBOUND;
    scheduler->main = scheduler->current = NULL;
    Py_DECREF(main); /* the ring's */
    scheduler->tstate = NULL;
    Py_DECREF(main); /* the scheduler's; it may be freed with it */
}

static Scheduler *
scheduler_create(void)
{
    PyObject *threads = PyThreadState_GetDict(), *capsule = NULL;
    Scheduler *scheduler = PyMem_Calloc(1, sizeof *scheduler);
    if (scheduler == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    scheduler->tstate = PyThreadState_Get();
    scheduler->pid = getpid();
    scheduler->ticks = scheduler->ticks_full = TICKS;
    scheduler->hub_wake_fd = -1;
    scheduler->doorbell = PyThread_allocate_lock();
    scheduler->main = tasklet_alloc(&Tasklet_Type, scheduler);
    if (scheduler->doorbell == NULL || scheduler->main == NULL || threads == NULL)
        goto failed;
    PyThread_acquire_lock(scheduler->doorbell, WAIT_LOCK);
    scheduler->main->state = TASKLET_STARTED;
    scheduler->main->next = scheduler->main->prev = scheduler->main;
    Py_INCREF(scheduler->main); /* one reference is the ring's, one the scheduler's */
    scheduler->current = scheduler->main;
    this_scheduler = scheduler;
    if (switch_thread_init(scheduler) < 0)
        goto failed;
    capsule = PyCapsule_New(scheduler, "weft.scheduler", scheduler_thread_ends);
    if (capsule == NULL || PyDict_SetItemString(threads, "weft.scheduler", capsule) < 0)
        goto failed;
    Py_DECREF(capsule);
    return scheduler;

failed:
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    this_scheduler = NULL;
    Py_XDECREF(capsule);
    return NULL;
}

/* ---- deadlock ---- */

/* One line for a tasklet that waits: who, for what, where. A new reference; NULL with an exception set. */
static PyObject *
deadlock_line(Tasklet *tasklet)
{
    PyObject *frame = tasklet == tasklet->scheduler->current ? (PyObject *)PyEval_GetFrame() : switch_frame(tasklet), *line;
    if (tasklet == tasklet->scheduler->current)
        frame = Py_NewRef(frame != NULL ? frame : Py_None);
    if (frame == NULL)
        return NULL;
    if (PyFrame_Check(frame)) {
        PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
        line = PyUnicode_FromFormat("\n  %R in %U at %U:%d", tasklet, code->co_name, code->co_filename,
                                    PyFrame_GetLineNumber((PyFrameObject *)frame));
        Py_DECREF(code);
    } else
        line = PyUnicode_FromFormat("\n  %R", tasklet);
    Py_DECREF(frame);
    return line;
}

#define DEADLOCK_LINES 20

/* A new Deadlock that lists who waits where; NULL with an exception set. Runs Python code (repr). */
static PyObject *
deadlock_error(Scheduler *scheduler)
{
    PyObject *text = PyUnicode_FromString("Deadlock: the last runnable tasklet cannot be blocked. Nothing can wake any of these "
                                          "(no timer, descriptor, child process, job or other thread):"), *error;
    Py_ssize_t shown = 0, more = 0;
    Tasklet *t = scheduler->main;
    while (t != NULL && text != NULL) {
        if (t->blocked != NOT_BLOCKED && shown++ < DEADLOCK_LINES) {
            PyObject *line = deadlock_line(t), *longer = line != NULL ? PyUnicode_Concat(text, line) : NULL;
            Py_XDECREF(line);
            Py_SETREF(text, longer);
        } else if (t->blocked != NOT_BLOCKED)
            more++;
        t = t == scheduler->main ? scheduler->started : t->started_next;
    }
    if (text != NULL && more > 0)
        Py_SETREF(text, PyUnicode_FromFormat("%U\n  and %zd more", text, more));
    error = text != NULL ? PyObject_CallOneArg(Deadlock, text) : NULL;
    Py_XDECREF(text);
    return error;
}
