/* A scheduler's own life: it appears with the thread's first use of roamlet, and ends with the thread, whose tasklets end
   before. And what one thread can learn of another's. */

static void preempt_stop(Scheduler *scheduler);

static Scheduler *schedulers; /* of all threads that have one */
static int64_t ended_switches, ended_messages; /* what threads had counted that have ended since, without service threads */

static void
scheduler_register(Scheduler *scheduler)
{
    scheduler->registered_next = schedulers;
    schedulers = scheduler;
}

static void
scheduler_unregister(Scheduler *scheduler)
{
    for (Scheduler **link = &schedulers; *link != NULL; link = &(*link)->registered_next)
        if (*link == scheduler) {
            *link = scheduler->registered_next;
            trace_thread_ends(scheduler);
            return;
        }
}

static Tasklet *tasklet_alloc(PyTypeObject *type, Scheduler *scheduler);
static PyObject *tasklet_throw(Tasklet *tasklet, PyObject *error, bool pending);
static void locals_bury(Tasklet *tasklet, PyObject *dead);

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

/* Some tasklets have been killed and wait again, for a lock that they take back before they end: let the other threads, one of which holds
   it, run for a moment, from 1 ms in the first round to 0.5 s in the last. Switches. */
static void
scheduler_await_others(Scheduler *scheduler, int round)
{
    RoamletQueue unused = {NULL, NULL};
    bool waits = false;
    int64_t now;
    for (Tasklet *t = scheduler->started; t != NULL && !waits; t = t->started_next)
        waits = t->blocked == BLOCKED_QUEUE;
    if (waits && other_threads(scheduler) && (now = clock_ns()) >= 0)
        queue_wait(&unused, (PyObject *)scheduler->main, now + (1000000LL << round), 0, NULL);
    PyErr_Clear();
}

/* End all tasklets of this thread, the oldest first, with their finally blocks. One that refuses to end is tried again
   a few times; those that have not run yet never will. Called in the thread itself, in main; switches. */
static void
scheduler_kill_all(Scheduler *scheduler)
{
    PyObject *raised = error_take();
    bool trapped = scheduler->trapped;
    scheduler->trapped = false; /* a trap does not keep anything from its end */
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
        scheduler_await_others(scheduler, round);
    }
    scheduler_drop_unborn(scheduler); /* what finally blocks have started */
    scheduler->ending = false;
    scheduler->trapped = trapped && scheduler->switch_trap != 0;
    PyErr_Clear();
    error_restore(raised);
}

/* We are a forked child, which does not have the thread of this scheduler. Its tasklets are dead: they leave channels and
   Waiters, so that no operation meets them there; their frames and this scheduler's memory are lost. May run Python code. */
static void
scheduler_vanished(Scheduler *scheduler)
{
    Tasklet *main = scheduler->main, *t, *after;
    PyObject *dead = PyList_New(0);
    scheduler->tasklets++; /* for ever: it is never freed */
    Py_INCREF(main);
    for (after = scheduler->idle ? scheduler->first : scheduler->current; (t = after) != NULL && ring_holds(t);) { /* main may wait */
        after = t->next != t ? t->next : NULL;
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
        locals_bury(t, dead);
    }
    locals_bury(main, dead);
    if (main->blocked != NOT_BLOCKED)
        tasklet_unblock(main);
    main->next = main->prev = NULL;
    main->state = TASKLET_UNBOUND;
    preempt_stop(scheduler);
    scheduler_unregister(scheduler);
    scheduler->started = scheduler->current = scheduler->main = scheduler->heir = NULL;
    scheduler->runs = scheduler->watchdog = NULL;
    scheduler->tstate = NULL;
    Py_XDECREF(dead);
}

/* We are a forked child: only the current tasklet of this thread goes on. The others are dead from here on, and main, if it is another
   one, stays suspended for ever; they leave the run queue and all that they wait for, and their frames are lost, with a
   reference that keeps what switching knows of them. May run Python code, at its end. */
static void
scheduler_keep_current(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current, *t, *after;
    PyObject *dead = PyList_New(0);
    bool started = false;
    if (dead == NULL)
        PyErr_Clear();
    while ((t = current->next) != NULL && t != current) {
        ring_remove(scheduler, t); /* its reference is lost */
        t->state = t->state == TASKLET_NEW ? TASKLET_UNBOUND : t->state;
    }
    for (t = scheduler->started; t != NULL; t = after) {
        after = t->started_next;
        t->started_next = t->started_prev = NULL;
        if (t == current) {
            started = true;
            continue;
        }
        if (t->blocked != NOT_BLOCKED)
            tasklet_unblock(t);
        t->state = TASKLET_UNBOUND;
        Py_INCREF(t); /* for ever */
        locals_bury(t, dead);
    }
    scheduler->started = started ? current : NULL;
    for (t = scheduler->runs; t != NULL; t = after) {
        after = t->run_outer;
        t->run_outer = NULL;
        t->in_run = false;
    }
    scheduler->heir = NULL;
    if (scheduler->main != current) {
        scheduler->heir = current;
        if (scheduler->main->blocked != NOT_BLOCKED)
            tasklet_unblock(scheduler->main);
        scheduler->main->blocked = BLOCKED_WAIT; /* a sleep without a timer: main would go on if it were paused and no other could */
        scheduler->main->waiting_on = NULL;
        locals_bury(scheduler->main, dead);
    }
    preempt_stop(scheduler);
    scheduler->runs = scheduler->watchdog = NULL;
    Py_XDECREF(dead);
}

static PyObject *
core_keep_current(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = this_scheduler;
    if (forks == 0)
        return PyErr_Format(PyExc_RuntimeError, "keep_current() is for a forked child: this process was not forked by one that has roamlet");
    if (scheduler != NULL && !scheduler->idle && !scheduler->polling && !scheduler->announcing)
        scheduler_keep_current(scheduler);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(keep_current_doc, "keep_current()\n--\n\n"
"For a forked child: let no tasklet of this thread but the current one run ever again.\n\n"
"The others are dead, without their finally blocks; main, if it is another one, stays suspended. While the current one lives\n"
"it gets a Deadlock and the errors that main would get. RuntimeError in a process that was not forked.");

/* The thread state whose scheduler has ended in this thread: what is left of the thread's dictionary may still run code, and a
   scheduler made by that would never end. A thread of C code that calls in again has another thread state, and begins anew. */
static __thread uint64_t ended_in; /* its number; 0: none */

/* The thread's dictionary is being cleared: the thread ends. */
static void
scheduler_thread_ends(PyObject *capsule)
{
    Scheduler *scheduler = PyCapsule_GetPointer(capsule, "roamlet.scheduler");
    Tasklet *main = scheduler->main, *t;
    if (scheduler != this_scheduler) { /* cleared by another thread: after fork, or at the very end; nothing can run here */
        service_threads -= scheduler->service;
        scheduler->over = true;
        if (scheduler->pid != getpid())
            scheduler_vanished(scheduler);
        return;
    }
    scheduler_kill_all(scheduler);
    locals_drop(main, LOCALS_ROUNDS);
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
    preempt_stop(scheduler);
    scheduler->runs = scheduler->watchdog = NULL;
    Py_CLEAR(scheduler->interrupted);
    if (main->atomic > 0)
        atomic_release();
    main->atomic = main->special = 0;
    loop_drop(main);
    lazy_imports_drop(main);
    for (int i = 0; i < 2; i++) {
        Py_CLEAR(main->tracing[i]);
        Py_CLEAR(scheduler->tracing[i]);
    }
    if (!scheduler->service) {
        ended_switches += ticks_counted(scheduler);
        ended_messages += scheduler->messages;
    }
    scheduler_unregister(scheduler);
    switch_thread_end(scheduler);
    service_threads -= scheduler->service;
    if (scheduler->hub != NULL)
        scheduler->hub->close(scheduler->hub);
    scheduler->hub = NULL;
    this_scheduler = NULL;
    ended_in = PyThreadState_GetID(scheduler->tstate);
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
    PyObject *threads, *capsule = NULL;
    Scheduler *scheduler;
    if (ended_in == PyThreadState_GetID(PyThreadState_Get())) {
        PyErr_SetString(PyExc_RuntimeError, "this thread is ending, and its tasklets have ended: nothing can run in one any more");
        return NULL;
    }
    threads = PyThreadState_GetDict();
    scheduler = PyMem_Calloc(1, sizeof *scheduler);
    if (scheduler == NULL)
        return (Scheduler *)PyErr_NoMemory();
    scheduler->tstate = PyThreadState_Get();
    scheduler->pid = getpid();
    scheduler->ticks_full = TICKS;
    ticks_set(scheduler, TICKS);
    begins_forget(scheduler);
    scheduler->looked = monotonic_ns();
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
    capsule = PyCapsule_New(scheduler, "roamlet.scheduler", scheduler_thread_ends);
    if (capsule == NULL || PyDict_SetItemString(threads, "roamlet.scheduler", capsule) < 0)
        goto failed;
    Py_DECREF(capsule);
    atomic_to_main(scheduler->main);
    if (schedule_callback != NULL)
        scheduler->attention |= ATTEND_CALLBACK;
    trace_thread(scheduler);
    scheduler_register(scheduler);
    return scheduler;

failed:
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    this_scheduler = NULL;
    Py_XDECREF(capsule);
    return NULL;
}

/* ---- what is known of threads ---- */

/* The id of a thread from `object`, an int. false with an exception set when it is not an int. */
static bool
thread_id_from(PyObject *object, unsigned long *id)
{
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a thread id is an int, such as threading.get_ident() returns, not %R", object);
        return false;
    }
    *id = PyLong_AsUnsignedLong(object);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_OverflowError, "bad thread: %R is no id of a thread; threading.get_ident() returns one", object);
        return false;
    }
    return true;
}

/* Whether it is -1, Stackless's id of the calling thread. Cannot fail. */
static bool
thread_id_is_own(PyObject *object)
{
    long id = PyLong_Check(object) ? PyLong_AsLong(object) : 0;
    if (id == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    return id == -1;
}

/* Whether the thread of this state has begun. Before, it has no id of its own: 0, or in 3.11 that of the thread that starts it, which
   is older and so comes after it in the list. */
static bool
thread_has_begun(PyThreadState *tstate)
{
    for (PyThreadState *older = PyThreadState_Next(tstate); older != NULL; older = PyThreadState_Next(older))
        if (older->thread_id == tstate->thread_id)
            return false;
    return tstate->thread_id != 0;
}

/* Whether a thread with this id lives; *scheduler is its scheduler, NULL when it has none. */
static bool
thread_find(unsigned long id, Scheduler **scheduler)
{
    PyThreadState *tstate = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (tstate != NULL && (tstate->thread_id != id || !thread_has_begun(tstate)))
        tstate = PyThreadState_Next(tstate);
    *scheduler = schedulers;
    while (*scheduler != NULL && (*scheduler)->tstate != tstate)
        *scheduler = (*scheduler)->registered_next;
    return tstate != NULL;
}

static Py_ssize_t
scheduler_runcount(Scheduler *scheduler)
{
    Tasklet *start = scheduler->idle ? scheduler->first : scheduler->current, *t = start;
    Py_ssize_t count = 0;
    while (t != NULL) {
        count++;
        t = t->next == start ? NULL : t->next;
    }
    return count;
}

static PyObject *
core_get_thread_info(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"thread_id", "flags", NULL};
    Scheduler *scheduler = scheduler_get();
    PyObject *thread = NULL;
    unsigned long id = 0, flags = 0;
    if (scheduler == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "|Ok:get_thread_info", names, &thread, &flags))
        return NULL;
    if (thread != NULL && thread != Py_None && !thread_id_is_own(thread)) {
        if (!thread_id_from(thread, &id))
            return NULL;
        if (!thread_find(id, &scheduler))
            return PyErr_Format(PyExc_RuntimeError, "Thread id not found: no thread %lu lives; roamlet.core.threads() lists those that do", id);
    }
    if (scheduler == NULL)
        return Py_BuildValue("OOi", Py_None, Py_None, 0);
    return Py_BuildValue("OOn", scheduler->main, scheduler->idle ? Py_None : (PyObject *)scheduler->current, scheduler_runcount(scheduler));
}

static PyObject *
core_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *list = PyList_New(0);
    PyThreadState *tstate = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; list != NULL && tstate != NULL; tstate = PyThreadState_Next(tstate)) { /* the newest first */
        PyObject *id;
        if (watcher_is(tstate) || !thread_has_begun(tstate)) /* the watchdog's runs no Python code */
            continue;
        id = PyLong_FromUnsignedLong(tstate->thread_id);
        if (id == NULL || PyList_Append(list, id) < 0)
            Py_CLEAR(list);
        Py_XDECREF(id);
    }
    if (list != NULL && PyList_Reverse(list) < 0)
        Py_CLEAR(list);
    return list;
}

PyDoc_STRVAR(get_thread_info_doc, "get_thread_info(thread_id=None, flags=0)\n--\n\n"
"(main tasklet, current tasklet, number of runnable tasklets) of a thread, by default the calling one, as is -1.\n\n"
"The current tasklet is None while the thread waits for something to run, both are while it has not used roamlet. flags is\n"
"accepted and ignored. RuntimeError when there is no such thread.");
PyDoc_STRVAR(threads_doc, "threads()\n--\n\nA list of the ids of all threads, the oldest first.");
