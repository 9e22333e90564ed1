/* The thread that notices when a slice is over.

   It sleeps until the first slice of any thread ends and has no thread state. When a slice is over it asks for a pending
   call, which sets the interrupt's events in whichever thread has the GIL, at its next jump or call. Where none can
   be had or no thread makes it, the watcher waits for the GIL, some 5 ms when others run, and sets them itself. (The switch
   cannot be made in the pending call: the interpreter makes no other one while it lasts.)

   It is started with the first slice and ended at exit, and before a fork, so that there is no warning about threads that a
   forked process has lost; both sides start it again when a slice is under way there. */
#if WATCH_BY_MONITORING || WATCH_BY_TRACING

#include <pthread.h>
#include <signal.h>

#define LOOK_NS 2000000 /* between two attempts to have a tasklet interrupted: it may have entered code without events */
#define LOOKS_PENDING 4 /* attempts by pending call before it waits for the GIL */
#define WATCHER_STACK (512 * 1024)

static struct {
    pthread_mutex_t lock; /* is taken with or without the GIL; its holder never waits for the GIL */
    pthread_cond_t wake;
    pthread_t thread;
    bool ready;       /* `wake` is initialised, the hooks are registered */
    bool running;     /* guarded by the GIL */
    uintptr_t generation; /* of the thread that is to run; an older one ends */
    bool exiting;     /* the interpreter is: no new one */
    Scheduler *first; /* those with slices: changed with the GIL and the lock held, read with either */
    bool posted; /* a pending call is under way */
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline bool
watcher_due(Preempt *preempt, int64_t now)
{
    return __atomic_load_n(&preempt->deadline, __ATOMIC_SEQ_CST) <= now;
}

/* Set events for all whose slice is over. With the GIL, in any thread. */
static void
watcher_arm(void)
{
    static uint64_t rounds;
    uint64_t round = ++rounds;
    int64_t now = monotonic_ns();
    Scheduler *s = watcher.first;
    while (s != NULL) {
        Preempt *preempt = &s->preempt;
        if (preempt->round == round || !watcher_due(preempt, now) || s->tstate == NULL || !preempt_concerns(s)) {
            s = s->preempt.next;
            continue;
        }
        preempt->round = round;
        preempt->expired = true;
        if (source_arm(s) < 0) {
            if (preempt->reported)
                PyErr_Clear();
            else
                PyErr_WriteUnraisable(NULL);
            preempt->reported = true;
        }
        s = watcher.first; /* what it called may have changed the list */
    }
}

static int
watcher_pending(void *unused)
{
    (void)unused;
    __atomic_store_n(&watcher.posted, false, __ATOMIC_SEQ_CST);
    watcher_arm();
    return 0;
}

/* Ask for the pending call; whether there will be one. Without the GIL. */
static bool
watcher_ask(void)
{
    if (__atomic_exchange_n(&watcher.posted, true, __ATOMIC_SEQ_CST))
        return true; /* it has not been made yet */
    if (watch_ask(watcher_pending))
        return true;
    __atomic_store_n(&watcher.posted, false, __ATOMIC_SEQ_CST);
    return false;
}

/* What is to be done for this scheduler now; the time of the next look at it goes to *next if it is earlier. */
enum { LOOK_NOT, LOOK_PENDING, LOOK_GIL };
static int
watcher_look(Scheduler *scheduler, int64_t now, int64_t *next)
{
    Preempt *preempt = &scheduler->preempt;
    int64_t deadline = __atomic_load_n(&preempt->deadline, __ATOMIC_SEQ_CST), when = deadline;
    int todo;
    if (__atomic_load_n(&preempt->dozing, __ATOMIC_SEQ_CST))
        return LOOK_NOT;
    if (deadline <= now) {
        if (preempt->looked_for != deadline)
            preempt->looks = 0;
        else
            when = preempt->look;
    }
    if (when > now) {
        *next = when < *next ? when : *next;
        return LOOK_NOT;
    }
    /* Either we see that it no longer sleeps, or watcher_resumed sees that it dozes. */
    __atomic_store_n(&preempt->dozing, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&scheduler->sleeping, __ATOMIC_SEQ_CST))
        return LOOK_NOT;
    __atomic_store_n(&preempt->dozing, false, __ATOMIC_SEQ_CST);
    preempt->looked_for = deadline;
    todo = preempt->looks < LOOKS_PENDING ? LOOK_PENDING : LOOK_GIL;
    /* One that cannot be interrupted for long is asked less and less often: it has its events already. */
    preempt->look = now + ((int64_t)LOOK_NS << (preempt->looks < 16 ? preempt->looks / 4 : 4));
    preempt->looks++;
    *next = preempt->look < *next ? preempt->look : *next;
    return todo;
}

static void
watcher_sleep(int64_t until)
{
    struct timespec time = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (until == INT64_MAX) {
        pthread_cond_wait(&watcher.wake, &watcher.lock);
        return;
    }
#ifdef __APPLE__
    until -= monotonic_ns();
    time = (struct timespec){(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (until > 0)
        pthread_cond_timedwait_relative_np(&watcher.wake, &watcher.lock, &time);
#else
    pthread_cond_timedwait(&watcher.wake, &watcher.lock, &time);
#endif
}

static void *
watcher_main(void *generation)
{
    pthread_mutex_lock(&watcher.lock);
    while (watcher.generation == (uintptr_t)generation) {
        int64_t now = monotonic_ns(), next = INT64_MAX;
        bool asked[LOOK_GIL + 1] = {false};
        for (Scheduler *s = watcher.first; s != NULL; s = s->preempt.next)
            asked[watcher_look(s, now, &next)] = true;
        if (!asked[LOOK_PENDING] && !asked[LOOK_GIL]) {
            watcher_sleep(next);
            continue;
        }
        pthread_mutex_unlock(&watcher.lock);
        if (asked[LOOK_GIL] || !watcher_ask()) {
            PyGILState_STATE state = PyGILState_Ensure();
            watcher_arm();
            PyGILState_Release(state);
        }
        pthread_mutex_lock(&watcher.lock);
    }
    pthread_mutex_unlock(&watcher.lock);
    return NULL;
}

/* ---- its life; all with the GIL ---- */

static void
watcher_prepare_wake(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__ /* which waits for spans of time instead */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&watcher.wake, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* -1 with an exception set when there can be no thread. */
static int
watcher_start(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;
    if (watcher.running)
        return 0;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WATCHER_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for threads that run Python code */
    error = pthread_create(&watcher.thread, &attributes, watcher_main, (void *)watcher.generation);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        PyErr_Format(PyExc_RuntimeError, "no thread could be started to watch slices of time: %s", strerror(error));
        return -1;
    }
#ifdef __linux__
    pthread_setname_np(watcher.thread, "roamlet-watch"); /* at most 15 characters */
#endif
    watcher_ident = (unsigned long)watcher.thread;
    watcher.running = true;
    return 0;
}

/* End it, and wait until it has ended: it may wait for the GIL. */
static PyObject *
watcher_stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    if (watcher.running) {
        pthread_t thread = watcher.thread;
        watcher.running = false;
        pthread_mutex_lock(&watcher.lock);
        watcher.generation++;
        pthread_cond_broadcast(&watcher.wake);
        pthread_mutex_unlock(&watcher.lock);
        Py_BEGIN_ALLOW_THREADS
        pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
        watcher_ident = watcher.running ? watcher_ident : 0;
    }
    Py_RETURN_NONE;
}

static PyObject *
watcher_exit(PyObject *module, PyObject *unused)
{
    watcher.exiting = true;
    return watcher_stop(module, unused);
}

/* After a fork, in the parent. */
static PyObject *
watcher_parent(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    if (watcher.first != NULL && !watcher.exiting && watcher_start() < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* In the child, which has none of the other threads. */
static PyObject *
watcher_child(PyObject *module, PyObject *unused)
{
    Scheduler *own = this_scheduler;
    bool watched = own != NULL && own->preempt.slice > 0;
    watcher.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    watcher_prepare_wake();
    watcher.running = false;
    watcher_ident = 0;
    watcher.first = watched ? own : NULL;
    if (watched)
        own->preempt.next = NULL;
    return watcher_parent(module, unused);
}

static PyMethodDef watcher_stop_method = {"stop", watcher_stop, METH_NOARGS, NULL};
static PyMethodDef watcher_exit_method = {"exit", watcher_exit, METH_NOARGS, NULL};
static PyMethodDef watcher_parent_method = {"forked", watcher_parent, METH_NOARGS, NULL};
static PyMethodDef watcher_child_method = {"forked", watcher_child, METH_NOARGS, NULL};

/* Call module.name(callable), or with it under the keywords. -1 with an exception set. */
static int
watcher_register(const char *module_name, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyImport_ImportModule(module_name), *function = NULL, *result = NULL;
    if (module != NULL)
        function = PyObject_GetAttrString(module, name);
    if (function != NULL)
        result = PyObject_Call(function, args, kwargs);
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(module);
    return result != NULL ? 0 : -1;
}

/* Once a process: have it ended at exit and around forks. -1 with an exception set. */
static int
watcher_prepare(void)
{
    PyObject *stop, *exit, *parent, *child, *none = NULL, *hooks = NULL, *args = NULL;
    if (watcher.ready)
        return 0;
    stop = PyCFunction_New(&watcher_stop_method, NULL);
    exit = PyCFunction_New(&watcher_exit_method, NULL);
    parent = PyCFunction_New(&watcher_parent_method, NULL);
    child = PyCFunction_New(&watcher_child_method, NULL);
    if (stop != NULL && exit != NULL && parent != NULL && child != NULL) {
        none = PyTuple_New(0);
        args = PyTuple_Pack(1, exit);
        hooks = Py_BuildValue("{s:O,s:O,s:O}", "before", stop, "after_in_parent", parent, "after_in_child", child);
    }
    if (none != NULL && args != NULL && hooks != NULL && watcher_register("atexit", "register", args, NULL) == 0 &&
        watcher_register("os", "register_at_fork", none, hooks) == 0) {
        watcher_prepare_wake();
        watcher.ready = true;
    }
    Py_XDECREF(stop);
    Py_XDECREF(exit);
    Py_XDECREF(parent);
    Py_XDECREF(child);
    Py_XDECREF(none);
    Py_XDECREF(args);
    Py_XDECREF(hooks);
    return watcher.ready ? 0 : -1;
}

/* ---- slices ---- */

/* A scheduler whose preempt.slice is set begins its first one. -1 with an exception set. */
static int
watcher_add(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    if (watcher.exiting) {
        PyErr_SetString(PyExc_RuntimeError, "run() cannot watch slices of time any more: the interpreter is shutting down");
        return -1;
    }
    if (watcher_prepare() < 0)
        return -1;
    __atomic_store_n(&preempt->deadline, monotonic_ns() + preempt->slice, __ATOMIC_SEQ_CST);
    __atomic_store_n(&preempt->dozing, false, __ATOMIC_SEQ_CST);
    preempt->looks = 0;
    preempt->look = preempt->looked_for = 0;
    pthread_mutex_lock(&watcher.lock);
    preempt->next = watcher.first;
    watcher.first = scheduler;
    pthread_cond_signal(&watcher.wake);
    pthread_mutex_unlock(&watcher.lock);
    return watcher_start();
}

static void
watcher_remove(Scheduler *scheduler)
{
    Scheduler **place = &watcher.first;
    pthread_mutex_lock(&watcher.lock);
    while (*place != NULL && *place != scheduler)
        place = &(*place)->preempt.next;
    if (*place != NULL)
        *place = scheduler->preempt.next;
    scheduler->preempt.next = NULL;
    pthread_mutex_unlock(&watcher.lock);
}

/* A tasklet goes on in this thread. If the slice ran out while the thread slept, a new one begins. */
static inline void
watcher_resumed(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (likely(!__atomic_load_n(&preempt->dozing, __ATOMIC_SEQ_CST)))
        return;
    pthread_mutex_lock(&watcher.lock);
    __atomic_store_n(&preempt->deadline, monotonic_ns() + preempt->slice, __ATOMIC_SEQ_CST);
    __atomic_store_n(&preempt->dozing, false, __ATOMIC_SEQ_CST);
    pthread_cond_signal(&watcher.wake);
    pthread_mutex_unlock(&watcher.lock);
}

#endif
