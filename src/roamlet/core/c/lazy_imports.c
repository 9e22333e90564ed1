/* The lazy imports that a tasklet resolves while it is suspended: the body of a module, or a lock of the import system, may block it.
   CPython keeps them for the thread, and would take the same lazy import in another tasklet for a circular one, and fail it with
   ImportCycleError. With sets of their own, both come to the lock of the module (module_lock.c), where the second one waits. */

#if LAZY_IMPORTS_KNOWN

/* The tasklet runs no longer, and another one does: keep what it resolves as its own. The thread's set is dropped when it is empty:
   so a switch has nothing to do with it in threads that resolve none. Runs no Python code. */
static void
lazy_imports_leave(Tasklet *tasklet)
{
    PyThreadState *tstate = tasklet->scheduler->tstate;
    PyObject *resolving = tstate_lazy_imports(tstate);
    if (resolving == NULL)
        return;
    LAZY_IMPORTS(tstate) = NULL;
    if (PySet_GET_SIZE(resolving) == 0) {
        Py_DECREF(resolving);
        return;
    }
    assert(tasklet->lazy_imports == NULL);
    tasklet->lazy_imports = resolving;
    tasklet->special |= SPECIAL_LAZY;
}

/* The tasklet runs from here on. Runs no Python code. */
static void
lazy_imports_enter(Tasklet *tasklet)
{
    PyThreadState *tstate = tasklet->scheduler->tstate;
    PyObject *before = LAZY_IMPORTS(tstate); /* empty: of code that ran between two tasklets */
    LAZY_IMPORTS(tstate) = tasklet->lazy_imports;
    tasklet->lazy_imports = NULL;
    tasklet->special &= (uint8_t)~SPECIAL_LAZY;
    Py_XDECREF(before);
}

/* The tasklet has ended with its thread, or is freed. */
static inline void
lazy_imports_drop(Tasklet *tasklet)
{
    Py_CLEAR(tasklet->lazy_imports);
}

static inline int
lazy_imports_visit(Tasklet *tasklet, visitproc visit, void *arg)
{
    Py_VISIT(tasklet->lazy_imports);
    return 0;
}

#else

static inline void
lazy_imports_leave(Tasklet *tasklet)
{
    (void)tasklet;
}

static inline void
lazy_imports_enter(Tasklet *tasklet)
{
    (void)tasklet;
}

static inline void
lazy_imports_drop(Tasklet *tasklet)
{
    (void)tasklet;
}

static inline int
lazy_imports_visit(Tasklet *tasklet, visitproc visit, void *arg)
{
    (void)tasklet;
    (void)visit;
    (void)arg;
    return 0;
}

#endif
