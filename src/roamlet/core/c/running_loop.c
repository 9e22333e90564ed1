/* The event loop that runs in a tasklet: asyncio's running loop and current task, the hooks of asynchronous generators, and how much of
   their origin coroutines remember. CPython keeps them for the thread; here each tasklet has its own, and sees no other's.

   They are saved and put back at the switches of those tasklets that have any. For all others a switch has one more word to
   look at: every loop installs hooks while it runs (see cpython/running_loop.h). */

#include <pthread.h>

/* What a suspended tasklet has; empty while it runs. */
struct RunningLoop {
    PyObject *loop;  /* owned: asyncio's running loop; NULL: none */
    PyObject *task;  /* owned: the task that it runs, where that is the thread's; NULL: none */
    PyObject *hook, *last_hook; /* owned; NULL: none */
    int origins;     /* how many frames of its origin a new coroutine remembers */
    unsigned process; /* see forks */
    bool left;       /* it was taken from the thread */
};

static unsigned forks; /* how many processes are between the first one and this one: a running loop stays in its own */

static void
loop_forked(void)
{
    forks++;
}

/* Once a process. -1 with an exception set. */
static int
loop_prepare(void)
{
    static bool prepared;
    if (!prepared && pthread_atfork(NULL, NULL, loop_forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    prepared = true;
    return 0;
}

#if LOOP_KNOWN

static PyObject *loop_getter, *loop_setter, *task_swapper; /* asyncio's functions, kept for the process; NULL: asyncio is not imported */

/* The function `name` of a module of asyncio's: a new reference; NULL where it is not imported or has none, or with an exception set. */
static PyObject *
asyncio_function(const char *module_name, const char *name)
{
    PyObject *text = PyUnicode_FromString(module_name), *module = text != NULL ? PyImport_GetModule(text) : NULL;
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    if (function == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(text);
    return function;
}

/* Find asyncio's functions, under the names that its loops have them by. -1 with an exception set. */
static int
loop_functions(void)
{
    if (loop_setter != NULL)
        return 0;
    Py_XSETREF(loop_getter, asyncio_function("asyncio.events", "_get_running_loop"));
    if (loop_getter == NULL)
        return PyErr_Occurred() ? -1 : 0;
#if LOOP_HAS_TASK
    Py_XSETREF(task_swapper, asyncio_function("asyncio.tasks", "_swap_current_task"));
    if (PyErr_Occurred())
        return -1;
#endif
    loop_setter = asyncio_function("asyncio.events", "_set_running_loop");
    return PyErr_Occurred() ? -1 : 0;
}

/* Set the running loop (borrowed; None: none). -1 with an exception set. */
static int
loop_set(PyObject *loop)
{
    PyObject *done = PyObject_CallOneArg(loop_setter, loop);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* Set the task that `loop` runs (both borrowed; None: none). The one before: a new reference, NULL with an exception set. */
static PyObject *
task_swap(PyObject *loop, PyObject *task)
{
    PyObject *arguments[] = {loop, task};
    return PyObject_Vectorcall(task_swapper, arguments, 2, NULL);
}

/* Take the running loop and its task from the thread. -1 with an exception set. */
static int
loop_take(RunningLoop *saved)
{
    PyObject *loop, *task = NULL;
    if (loop_functions() < 0)
        return -1;
    if (loop_setter == NULL)
        return 0;
    if ((loop = PyObject_CallNoArgs(loop_getter)) == NULL)
        return -1;
    if (loop != Py_None && task_swapper != NULL && (task = task_swap(loop, Py_None)) == NULL)
        goto failed;
    if (loop != Py_None && loop_set(Py_None) < 0)
        goto failed;
    if (task == Py_None)
        Py_CLEAR(task);
    if (loop == Py_None)
        Py_CLEAR(loop);
    Py_XSETREF(saved->loop, loop);
    Py_XSETREF(saved->task, task);
    return 0;

failed:
    Py_DECREF(loop);
    Py_XDECREF(task);
    return -1;
}

/* Give the running loop and its task back to the thread. In a forked child the loop is its parent's: asyncio has none there.
   -1 with an exception set. */
static int
loop_give(RunningLoop *saved)
{
    PyObject *loop = saved->loop, *task = saved->task, *none;
    int failed = 0;
    saved->loop = saved->task = NULL;
    if (loop != NULL && saved->process == forks) {
        failed = loop_set(loop);
        if (!failed && task != NULL) {
            none = task_swap(loop, task);
            failed = none == NULL ? -1 : 0;
            Py_XDECREF(none);
        }
    }
    Py_XDECREF(loop);
    Py_XDECREF(task);
    return failed;
}

/* The tasklet runs no longer, and another one does: keep the loop that runs in it, if any, as its own, and leave the thread without one. What fails is
   reported. May run Python code where asyncio has no part in C. */
static void
loop_leaves(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    PyThreadState *tstate = scheduler->tstate;
    PyObject *raised;
    RunningLoop *saved;
    if (!(tasklet->special & SPECIAL_LOOP) && tstate_loop(tstate) == 0)
        return;
    raised = error_take();
    saved = tasklet->loop != NULL ? tasklet->loop : PyMem_Calloc(1, sizeof *saved);
    if (saved == NULL)
        PyErr_NoMemory();
    if (saved == NULL || (tasklet->loop = saved, loop_take(saved)) < 0) {
        PyErr_WriteUnraisable((PyObject *)tasklet);
        error_restore(raised);
        return;
    }
    saved->process = forks;
    saved->left = true;
    Py_XSETREF(saved->hook, LOOP_HOOK(tstate));
    LOOP_HOOK(tstate) = NULL;
    Py_XSETREF(saved->last_hook, LOOP_LAST_HOOK(tstate));
    LOOP_LAST_HOOK(tstate) = NULL;
    if (saved->loop != NULL || saved->hook != NULL || saved->last_hook != NULL) {
        tasklet->special |= SPECIAL_LOOP;
        saved->origins = LOOP_ORIGINS(tstate);
        LOOP_ORIGINS(tstate) = scheduler->origins;
    } else { /* it has ended since */
        tasklet->special &= (uint8_t)~SPECIAL_LOOP;
        tasklet->loop = NULL;
        PyMem_Free(saved);
    }
    error_restore(raised);
}

/* The tasklet runs from here on: its loop is the thread's. What fails is reported. May run Python code where asyncio has no
   part in C. */
static void
loop_enters(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    PyThreadState *tstate = scheduler->tstate;
    RunningLoop *saved = tasklet->loop;
    PyObject *raised, *hook = LOOP_HOOK(tstate), *last_hook = LOOP_LAST_HOOK(tstate);
    if (!saved->left)
        return;
    saved->left = false;
    raised = error_take();
    scheduler->origins = LOOP_ORIGINS(tstate);
    LOOP_ORIGINS(tstate) = saved->origins;
    LOOP_HOOK(tstate) = saved->hook;
    LOOP_LAST_HOOK(tstate) = saved->last_hook;
    saved->hook = saved->last_hook = NULL;
    Py_XDECREF(hook); /* of code that ran between two tasklets */
    Py_XDECREF(last_hook);
    if (loop_give(saved) < 0)
        PyErr_WriteUnraisable((PyObject *)tasklet);
    error_restore(raised);
}

#else

static void
loop_leaves(Tasklet *tasklet)
{
    (void)tasklet;
}

static void
loop_enters(Tasklet *tasklet)
{
    (void)tasklet;
}

#endif

/* The tasklet has ended, or is freed: drop what is left of a loop. May run Python code. */
static void
loop_drop(Tasklet *tasklet)
{
    RunningLoop *saved = tasklet->loop;
    if (saved == NULL)
        return;
    tasklet->loop = NULL;
    tasklet->special &= (uint8_t)~SPECIAL_LOOP;
    Py_XDECREF(saved->hook);
    Py_XDECREF(saved->last_hook);
    Py_XDECREF(saved->task);
    Py_XDECREF(saved->loop);
    PyMem_Free(saved);
}

static int
loop_visit(Tasklet *tasklet, visitproc visit, void *arg)
{
    RunningLoop *saved = tasklet->loop;
    if (saved == NULL)
        return 0;
    Py_VISIT(saved->hook);
    Py_VISIT(saved->last_hook);
    Py_VISIT(saved->task);
    Py_VISIT(saved->loop);
    return 0;
}
