/* `with roamlet.atomic():` the process-wide lock that atomic code excludes other atomic code with, in every thread.

   It is re-entrant for its tasklet, or for its thread while no tasklet runs there; a tasklet that is switched away gives
   it up and takes it back before it goes on. The GIL guards all that is here: taking a free lock is two stores. A
   thread that finds it taken waits at the gate with the GIL released. The gate is a lock that is held while no thread needs to
   look again; a tasklet that releases atomic while threads wait opens the gate for one of them. First come, first served is not promised. */

#define ATOMIC_PATIENCE_US 1000000 /* a wait this long is reported, with the owner and its line */

static PyThreadState *atomic_owner; /* of the thread that is in atomic code; NULL: none */
static uint64_t atomic_owner_id;    /* its id: a later thread may have its address */
static PyThread_type_lock atomic_gate;
static int atomic_waiters;
static bool atomic_gate_open;
static __thread int thread_atomic __attribute__((tls_model("initial-exec"))); /* depth where no tasklet runs */

/* Let one of those who wait look again. */
static void
atomic_open_gate(void)
{
    if (!atomic_gate_open) {
        atomic_gate_open = true;
        PyThread_release_lock(atomic_gate);
    }
}

static inline void
atomic_own(PyThreadState *own)
{
    atomic_owner = own;
    atomic_owner_id = own->id;
}

static inline void
atomic_release(void)
{
    atomic_owner = NULL;
    if (unlikely(atomic_waiters > 0))
        atomic_open_gate();
}

/* Whether the owner's thread has ended, or was not copied into this forked process: it never gives atomic up. */
static bool
atomic_owner_gone(PyThreadState *own)
{
    PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own));
    while (t != NULL && !(t == atomic_owner && t->id == atomic_owner_id))
        t = PyThreadState_Next(t);
    return t == NULL;
}

/* Whether `frame`, the innermost of the atomic owner, is that of a Thread.join() of this thread. Runs Python code. */
static bool
atomic_joins_us(PyFrameObject *frame, PyCodeObject *code)
{
    PyObject *locals = NULL, *thread = NULL, *ident = NULL;
    bool joins = false;
    if (PyUnicode_CompareWithASCIIString(code->co_name, "_wait_for_tstate_lock") == 0 || /* until 3.12 */
        PyUnicode_CompareWithASCIIString(code->co_name, "join") == 0)
        locals = PyFrame_GetLocals(frame);
    if (locals != NULL)
        thread = PyMapping_GetItemString(locals, "self");
    if (thread != NULL)
        ident = PyObject_GetAttrString(thread, "ident");
    if (ident != NULL && PyLong_Check(ident))
        joins = PyLong_AsUnsignedLong(ident) == PyThreadState_Get()->thread_id;
    PyErr_Clear();
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(locals);
    return joins;
}

/* The place that `frame` is at, as "f at file:line": a new reference, or NULL with an exception set. */
static PyObject *
atomic_place(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *place = PyUnicode_FromFormat("%U at %U:%d", code->co_name, code->co_filename, PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    return place;
}

/* Say that the owner has kept atomic for long: it is in a blocking call that roamlet does not know. Where that waits for this thread
   neither can go on, and this one gets Deadlock; else a warning, which may be an error. -1 with the exception set. Runs Python
   code. */
static int
atomic_report(void)
{
    PyThreadState *owner = atomic_owner;
    PyFrameObject *frame = owner != NULL ? PyThreadState_GetFrame(owner) : NULL, *own = PyThreadState_GetFrame(PyThreadState_Get());
    PyCodeObject *code = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    unsigned long thread = owner != NULL ? owner->thread_id : 0;
    PyObject *there = frame != NULL ? atomic_place(frame) : NULL, *here = own != NULL ? atomic_place(own) : NULL;
    int failed = 0;
    if (there == NULL)
        PyErr_Clear();
    else if (here != NULL && atomic_joins_us(frame, code)) {
        PyErr_Format(Deadlock, "Deadlock: this thread waits for roamlet.atomic(), in %U, while thread %lu, which is in it, waits for this "
                               "thread to end, in %U. Leave atomic() before join(), or let roamlet.threads give it up there", here,
                     thread, there);
        failed = -1;
    } else
        failed = PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                  "waiting for roamlet.atomic() for more than a second: thread %lu is in it, in %U. Does it block there in "
                                  "a call that is not roamlet's? Leave atomic() before such calls, or make them by "
                                  "roamlet.core.outside_atomic()", thread, there);
    Py_XDECREF(here);
    Py_XDECREF(there);
    Py_XDECREF(code);
    Py_XDECREF(own);
    Py_XDECREF(frame);
    return failed;
}

/* The tasklet whose depth counts now; NULL: the thread's own. */
static inline Tasklet *
atomic_tasklet(void)
{
    Scheduler *scheduler = this_scheduler;
    return likely(scheduler != NULL && !scheduler->idle) ? scheduler->current : NULL;
}

static inline int *
atomic_depth(Tasklet *tasklet)
{
    return likely(tasklet != NULL) ? &tasklet->atomic : &thread_atomic;
}

/* Wait until atomic is free and take it. With `interruptible` signal handlers and a warning that is an error end the
   wait: -1 with an exception set; a signal handler that makes the caller atomic ends it too. Without, it never fails.
   Releases the GIL; may run Python code, which may switch unless the scheduler forbids it. */
static __attribute__((noinline)) int
atomic_wait(bool interruptible)
{
    PyThreadState *own = PyThreadState_Get();
    bool reported = false;
    int failed = 0;
    if (atomic_owner_gone(own))
        atomic_owner = NULL;
    atomic_waiters++;
    while (atomic_owner != NULL && !failed && (!interruptible || *atomic_depth(atomic_tasklet()) == 0)) {
        PyLockStatus status;
        Py_BEGIN_ALLOW_THREADS
        status = PyThread_acquire_lock_timed(atomic_gate, ATOMIC_PATIENCE_US, interruptible);
        Py_END_ALLOW_THREADS
        if (status == PY_LOCK_ACQUIRED) {
            atomic_gate_open = false;
            continue;
        }
        if (interruptible) /* a signal that came just before the wait did not end it */
            failed = PyErr_CheckSignals();
        if (failed || status == PY_LOCK_INTR || atomic_owner == NULL ||
            (interruptible && *atomic_depth(atomic_tasklet()) != 0))
            continue;
        if (atomic_owner_gone(own))
            atomic_owner = NULL;
        else if (!reported) {
            reported = true;
            failed = atomic_report();
            if (failed && !interruptible) {
                PyErr_WriteUnraisable(NULL);
                failed = 0;
            }
        }
    }
    atomic_waiters--;
    if (failed) {
        if (atomic_owner == NULL && atomic_waiters > 0) /* the wake-up was ours: pass it on */
            atomic_open_gate();
        return -1;
    }
    atomic_own(own);
    return 0;
}

/* A tasklet that is atomic goes on. Releases the GIL; may run Python code (a warning), which must not switch. */
static inline void
atomic_take_back(PyThreadState *own)
{
    if (likely(atomic_owner == NULL))
        atomic_own(own);
    else
        (void)atomic_wait(false);
}

/* One level deeper. -1 with an exception set and nothing changed. May release the GIL. */
static inline int
atomic_enter(void)
{
    Tasklet *tasklet = atomic_tasklet();
    int *depth = atomic_depth(tasklet);
    if (*depth == 0) {
        if (likely(atomic_owner == NULL))
            atomic_own(PyThreadState_Get());
        else {
            if (atomic_wait(true) < 0)
                return -1;
            tasklet = atomic_tasklet(); /* a signal handler may have made the thread's scheduler */
            depth = atomic_depth(tasklet);
        }
        if (likely(tasklet != NULL))
            tasklet->special |= SPECIAL_ATOMIC;
    }
    ++*depth;
    return 0;
}

/* One level up. -1 with an exception set when there is no higher level. */
static inline int
atomic_leave(void)
{
    Tasklet *tasklet = atomic_tasklet();
    int *depth = atomic_depth(tasklet);
    if (unlikely(*depth <= 0)) {
        PyErr_SetString(PyExc_RuntimeError, "this tasklet is not atomic: each __exit__ of roamlet.atomic() belongs to one __enter__ "
                                            "in the same tasklet");
        return -1;
    }
    if (--*depth == 0) {
        if (likely(tasklet != NULL))
            tasklet->special &= (uint8_t)~SPECIAL_ATOMIC;
        atomic_release();
    }
    return 0;
}

/* Leave atomic code before a call that blocks the thread: returns how many levels there were. Cannot fail. */
static int
atomic_give_up(void)
{
    Tasklet *tasklet = atomic_tasklet();
    int *depth = atomic_depth(tasklet), levels = *depth;
    if (levels > 0) {
        *depth = 0;
        if (tasklet != NULL)
            tasklet->special &= (uint8_t)~SPECIAL_ATOMIC;
        atomic_release();
    }
    return levels;
}

/* That call has returned: go as deep into atomic code again. Keeps the exception that is set; cannot fail. Releases the GIL; may run
   Python code, which cannot switch. */
static void
atomic_return(int levels)
{
    Scheduler *scheduler = this_scheduler;
    Tasklet *tasklet = atomic_tasklet();
    PyObject *raised;
    if (levels == 0)
        return;
    if (unlikely(atomic_owner != NULL && *atomic_depth(tasklet) == 0)) {
        bool announcing = scheduler != NULL && scheduler->announcing;
        raised = error_take();
        if (scheduler != NULL)
            scheduler->announcing = true;
        (void)atomic_wait(false);
        if (scheduler != NULL)
            scheduler->announcing = announcing;
        error_restore(raised);
    } else
        atomic_own(PyThreadState_Get());
    *atomic_depth(tasklet) += levels;
    if (tasklet != NULL)
        tasklet->special |= SPECIAL_ATOMIC;
}

/* outside_atomic(function, args=(), kwargs=None). Runs Python code; may switch. */
static PyObject *
core_outside_atomic(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "args", "kwargs", NULL};
    PyObject *function, *call_args = NULL, *call_kwargs = Py_None, *tuple, *result;
    int levels;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:outside_atomic", names, &function, &call_args, &call_kwargs))
        return NULL;
    if (call_kwargs != Py_None && !PyDict_Check(call_kwargs))
        return PyErr_Format(PyExc_TypeError, "outside_atomic(): kwargs is a dict or None, not %R", call_kwargs);
    tuple = call_args != NULL ? PySequence_Tuple(call_args) : PyTuple_New(0);
    if (tuple == NULL)
        return NULL;
    levels = atomic_give_up();
    result = PyObject_Call(function, tuple, call_kwargs != Py_None ? call_kwargs : NULL);
    atomic_return(levels);
    Py_DECREF(tuple);
    return result;
}

/* inside_atomic(function, *args). Runs Python code; may switch. */
static PyObject *
core_inside_atomic(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *result;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "inside_atomic() takes a function, and its arguments");
        return NULL;
    }
    if (atomic_enter() < 0)
        return NULL;
    result = PyObject_Vectorcall(args[0], args + 1, (size_t)(count - 1), NULL);
    if (unlikely(result == NULL)) {
        PyObject *raised = error_take();
        (void)atomic_leave(); /* fails where the function has left more levels than it entered */
        PyErr_Clear();
        error_raise(raised);
    } else if (unlikely(atomic_leave() < 0))
        Py_CLEAR(result);
    return result;
}

PyDoc_STRVAR(inside_atomic_doc, "inside_atomic($module, function, /, *args)\n--\n\n"
"Return function(*args), called in atomic code.\n\n"
"As `with atomic():` does, with nothing in between where a signal handler could raise and leave the caller atomic for good, as it can on\n"
"CPython 3.14. May switch if the function does.");

PyDoc_STRVAR(outside_atomic_doc, "outside_atomic(function, args=(), kwargs=None)\n--\n\n"
"Return function(*args, **kwargs), called outside of the atomic code that the caller is in.\n\n"
"For a call that blocks the thread and is not roamlet's: others can be in atomic code meanwhile. The caller is atomic again, at the\n"
"same depth, before this returns or raises. May switch if the function does.");

/* set_atomic(flag) of any tasklet: of the current one it enters or leaves at once, of another before it goes on. */
static int
atomic_set_flag(Tasklet *tasklet, bool flag)
{
    if (tasklet->atomic_flag == flag)
        return 0;
    if (tasklet == atomic_tasklet()) {
        if ((flag ? atomic_enter() : atomic_leave()) < 0)
            return -1;
    } else if (tasklet == tasklet->scheduler->current && !tasklet->scheduler->idle) {
        PyErr_SetString(PyExc_RuntimeError, "set_atomic(): the tasklet runs now, in another thread; it can only do that itself");
        return -1;
    } else {
        tasklet->atomic += flag ? 1 : -1;
        if (tasklet->atomic > 0)
            tasklet->special |= SPECIAL_ATOMIC;
        else
            tasklet->special &= (uint8_t)~SPECIAL_ATOMIC;
    }
    tasklet->atomic_flag = flag;
    return 0;
}

/* The thread's first scheduler appears inside atomic code: main goes on with it. */
static void
atomic_to_main(Tasklet *main)
{
    main->atomic = thread_atomic;
    if (thread_atomic > 0)
        main->special |= SPECIAL_ATOMIC;
    thread_atomic = 0;
}

/* ---- the type ---- */

static PyObject *atomic_instance;

static PyObject *
Atomic_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) > 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0))
        return PyErr_Format(PyExc_TypeError, "atomic() takes no arguments: with roamlet.atomic(): ...");
    return Py_NewRef(atomic_instance);
}

static PyObject *
Atomic_vectorcall(PyObject *type, PyObject *const *args, size_t flags, PyObject *names)
{
    (void)type;
    (void)args;
    if (unlikely(PyVectorcall_NARGS(flags) != 0 || names != NULL))
        return PyErr_Format(PyExc_TypeError, "atomic() takes no arguments: with roamlet.atomic(): ...");
    return Py_NewRef(atomic_instance);
}

static PyObject *
Atomic_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
    if (unlikely(atomic_enter() < 0))
        return NULL;
#if PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030F0000
    /* CPython 3.14 lets a signal handler raise between this and the body of `with`, which leaves nothing to call __exit__. What has
       come until now raises here. */
    if (unlikely(PyErr_CheckSignals() < 0)) {
        PyObject *raised = error_take();
        (void)atomic_leave();
        error_raise(raised);
        return NULL;
    }
#endif
    return Py_NewRef(self);
}

static PyObject *
Atomic_exit(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    if (unlikely(atomic_leave() < 0))
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(atomic_doc, "atomic()\n--\n\n"
"A context manager: code inside it excludes all other atomic code, in every thread of the process, and is not preempted.\n\n"
"It does not exclude code that is not atomic. Re-entrant for its tasklet; works in threads without tasklets too. A tasklet\n"
"may block, switch or be killed inside: it gives atomic up and has it again, at the same depth, before it goes on. Blocks\n"
"the whole thread, with the GIL released, while another thread is in atomic code; a wait of more than a second is reported\n"
"by a RuntimeWarning that names the owner's line. Waiters are not served in order.");
PyDoc_STRVAR(atomic_enter_doc, "__enter__($self, /)\n--\n\nGo one level deeper into atomic code; wait while another thread is in it.");
PyDoc_STRVAR(atomic_exit_doc, "__exit__($self, /, *args)\n--\n\nLeave one level. RuntimeError when the tasklet is not atomic.");

static PyMethodDef Atomic_methods[] = {
    {"__enter__", Atomic_enter, METH_NOARGS, atomic_enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))Atomic_exit, METH_FASTCALL, atomic_exit_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject Atomic_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.atomic",
    .tp_doc = atomic_doc,
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = Atomic_new,
    .tp_vectorcall = Atomic_vectorcall,
    .tp_methods = Atomic_methods,
};

/* Once a process. -1 with an exception set. */
static int
atomic_prepare(void)
{
    if (atomic_instance != NULL)
        return 0;
    atomic_gate = PyThread_allocate_lock();
    if (atomic_gate == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyThread_acquire_lock(atomic_gate, WAIT_LOCK);
    atomic_instance = PyType_GenericAlloc(&Atomic_Type, 0);
    return atomic_instance != NULL ? 0 : -1;
}
