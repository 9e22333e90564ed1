/* The scheduler of a thread: its run queue, the inbox by which other threads wake and kill its tasklets, and its sleep. */

static PyMutex schedulers_lock;
static Scheduler *schedulers_free; /* of threads that have ended. Never freed: another thread may still be about to ring */
static Py_ssize_t abandoned;       /* tasklets whose threads have ended before them */

/* Append a tasklet of this thread to the run queue. */
static inline void
run_queue_add(Scheduler *scheduler, Tasklet *tasklet)
{
    tasklet->next = NULL;
    if (scheduler->first == NULL)
        scheduler->first = tasklet;
    else
        scheduler->last->next = tasklet;
    scheduler->last = tasklet;
}

/* ---- the inbox ---- */

/* From any thread: hand `to` a tasklet of its own, to be woken or to be killed. After a wake-up the tasklet is not touched: it may have ended.
   Runs no Python code; may block in the lock. */
static void
inbox_post(Scheduler *to, Tasklet *tasklet, bool kill)
{
    bool rings;
    PyMutex_Lock(&to->lock);
    if (!kill) {
        tasklet->next = NULL;
        if (to->woken == NULL)
            to->woken = tasklet;
        else
            to->last_woken->next = tasklet;
        to->last_woken = tasklet;
    }
    else if (!tasklet->sentenced) {
        tasklet->sentenced = true;
        tasklet->next_killed = to->killed;
        to->killed = (Tasklet *)Py_NewRef(tasklet);
    }
    __atomic_store_n(&to->mail, true, __ATOMIC_RELEASE);
    rings = to->sleeping;
    to->sleeping = false;
    PyMutex_Unlock(&to->lock);
    if (rings)
        sem_post(&to->doorbell);
}

/* Make a tasklet of any thread runnable. It is in no queue. */
static inline void
tasklet_wake(Scheduler *mine, Tasklet *tasklet)
{
    if (tasklet->scheduler == mine)
        run_queue_add(mine, tasklet);
    else
        inbox_post(tasklet->scheduler, tasklet, false);
}

static void channel_forget(Channel *channel, Tasklet *tasklet);

/* Kill a tasklet of this thread that is not current. One that waits goes on at once; one to which a value was handed already
   raises at its next wait, so that the value is not lost. */
static void
tasklet_kill_own(Scheduler *scheduler, Tasklet *tasklet)
{
    Channel *channel = tasklet->waiting_on;
    bool waited = false;
    if (tasklet->state == TASKLET_ENDED)
        return;
    tasklet->killed = true;
    if (channel == NULL)
        return;
    PyMutex_Lock(&channel->lock);
    waited = tasklet->queued;
    if (waited)
        channel_forget(channel, tasklet);
    PyMutex_Unlock(&channel->lock);
    if (waited) {
        tasklet->raises = true;
        run_queue_add(scheduler, tasklet);
    }
}

/* Do what other threads have asked for. Runs no Python code. */
static void
inbox_take(Scheduler *scheduler)
{
    Tasklet *woken, *killed;
    if (likely(!__atomic_load_n(&scheduler->mail, __ATOMIC_ACQUIRE)))
        return;
    PyMutex_Lock(&scheduler->lock);
    woken = scheduler->woken;
    killed = scheduler->killed;
    scheduler->woken = scheduler->killed = NULL;
    for (Tasklet *each = killed; each != NULL; each = each->next_killed)
        each->sentenced = false;
    scheduler->mail = false;
    PyMutex_Unlock(&scheduler->lock);
    while (woken != NULL) {
        Tasklet *next = woken->next;
        run_queue_add(scheduler, woken);
        woken = next;
    }
    while (killed != NULL) {
        Tasklet *next = killed->next_killed;
        tasklet_kill_own(scheduler, killed);
        Py_DECREF(killed); /* one that has ended has let go of everything */
        killed = next;
    }
}

/* Wait for mail, detached from the interpreter: the world may be stopped, and the locks of objects are given up. */
static void
scheduler_sleep(Scheduler *scheduler)
{
    bool sleeps;
    PyMutex_Lock(&scheduler->lock);
    sleeps = scheduler->sleeping = !scheduler->mail;
    PyMutex_Unlock(&scheduler->lock);
    if (!sleeps)
        return;
    Py_BEGIN_ALLOW_THREADS
    while (sem_wait(&scheduler->doorbell) != 0 && errno == EINTR)
        ;
    Py_END_ALLOW_THREADS
}

/* The tasklet to go on with, taken from the run queue. Sleeps until there is one, on the stack of the current tasklet. */
static Tasklet *
run_queue_next(Scheduler *scheduler)
{
    Tasklet *tasklet;
    inbox_take(scheduler);
    while ((tasklet = scheduler->first) == NULL) {
        scheduler_sleep(scheduler);
        inbox_take(scheduler);
    }
    scheduler->first = tasklet->next;
    return tasklet;
}

/* The current tasklet is in a queue: go on with others until it is woken. 0, or -1 with TaskletExit set. */
static int
tasklet_suspend(Scheduler *scheduler)
{
    Tasklet *self = scheduler->current, *next = run_queue_next(scheduler);
    if (next != self)
        switch_to(scheduler, self, next);
    self->waiting_on = NULL;
    if (likely(!self->raises))
        return 0;
    self->raises = self->killed = false;
    PyErr_SetNone(TaskletExit);
    return -1;
}

/* Before the current tasklet waits: 0, or -1 with TaskletExit set when it was killed while it could run. */
static inline int
tasklet_may_wait(Tasklet *self)
{
    if (likely(!self->killed))
        return 0;
    self->killed = false;
    PyErr_SetNone(TaskletExit);
    return -1;
}

/* The life of a tasklet, on its own stack. When it returns the tasklet has ended, and is current until the next one goes on. */
static void
tasklet_run(Scheduler *scheduler, Tasklet *tasklet)
{
    PyThreadState *tstate = scheduler->tstate;
    PyObject *result = NULL, *context;
    if (!tasklet->killed) {
        result = PyObject_Call(tasklet->function, tasklet->args, NULL);
        if (result == NULL && PyErr_ExceptionMatches(TaskletExit))
            PyErr_Clear();
        else if (result == NULL)
            PyErr_WriteUnraisable(tasklet->function);
        Py_XDECREF(result);
    }
    Py_CLEAR(tasklet->function);
    Py_CLEAR(tasklet->args);
    Py_CLEAR(tasklet->sw.exc_base.exc_value);
    context = tstate->context;
    tstate->context = NULL;
    Py_XDECREF(context);
    assert(tasklet->value == NULL);
    __atomic_store_n(&tasklet->state, TASKLET_ENDED, __ATOMIC_RELAXED);
    if (--scheduler->live == 0 && scheduler->main_runs) {
        scheduler->main_runs = false;
        run_queue_add(scheduler, scheduler->main);
    }
}

/* ---- the scheduler's own life ---- */

/* The thread ends, or was ended by the interpreter: from the table of objects that belong to its thread state. */
static void
scheduler_end(PyObject *capsule)
{
    Scheduler *scheduler = PyCapsule_GetPointer(capsule, "pinned.Scheduler");
    if (this_scheduler != scheduler || scheduler->live > 0) {
        __atomic_add_fetch(&abandoned, scheduler->live, __ATOMIC_RELAXED);
        scheduler->over = true;
        return; /* their stacks are lost, and what is on them */
    }
    this_scheduler = NULL;
    stacks_trim(&scheduler->sw);
    Py_CLEAR(scheduler->main);
    PyMutex_Lock(&schedulers_lock);
    scheduler->next_free = schedulers_free;
    schedulers_free = scheduler;
    PyMutex_Unlock(&schedulers_lock);
}

static Scheduler *
scheduler_create(void)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *owned = PyThreadState_GetDict(), *capsule = NULL;
    Scheduler *scheduler;
    Tasklet *main;
    PyMutex_Lock(&schedulers_lock);
    scheduler = schedulers_free;
    if (scheduler != NULL)
        schedulers_free = scheduler->next_free;
    PyMutex_Unlock(&schedulers_lock);
    if (scheduler == NULL) {
        scheduler = aligned_alloc(64, (sizeof *scheduler + 63) / 64 * 64);
        if (scheduler == NULL)
            return (Scheduler *)PyErr_NoMemory();
        memset(scheduler, 0, sizeof *scheduler);
        sem_init(&scheduler->doorbell, 0, 0);
    }
    main = PyObject_GC_New(Tasklet, &Tasklet_Type);
    if (main == NULL)
        return NULL;
    memset((char *)main + sizeof(PyObject), 0, sizeof *main - sizeof(PyObject));
    main->scheduler = scheduler;
    main->state = TASKLET_STARTED;
    main->fiber = fiber_here();
    version_limits_of(&main->sw.limits, PyThreadState_Get());
    scheduler->tstate = tstate;
    scheduler->main = scheduler->current = main;
    PyObject_GC_Track(main);
    capsule = PyCapsule_New(scheduler, "pinned.Scheduler", scheduler_end);
    if (capsule == NULL || owned == NULL || PyDict_SetItemString(owned, "pinned.Scheduler", capsule) < 0)
        scheduler = NULL;
    this_scheduler = scheduler;
    Py_XDECREF(capsule);
    return scheduler;
}

/* This thread's scheduler, made when first needed; NULL with an exception set when memory is out. */
static inline Scheduler *
scheduler_get(void)
{
    Scheduler *scheduler = this_scheduler;
    return likely(scheduler != NULL) ? scheduler : scheduler_create();
}
