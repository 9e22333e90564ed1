/* The greenlet backend, for versions of CPython and platforms that the native ones do not know: each tasklet runs in a
   greenlet, through greenlet's C API. Greenlets are pooled; one that ends a tasklet goes on with the next new one. */

/* The functions of greenlet's C API, by their place in the table that its capsule holds (greenlet's documentation,
   "C API Reference"). */
enum { API_NEW = 3, API_GETCURRENT = 4, API_SWITCH = 6 };
static void **greenlet_api;
#define greenlet_new ((PyObject * (*)(PyObject * run, PyObject * parent)) greenlet_api[API_NEW])
#define greenlet_getcurrent ((PyObject * (*)(void)) greenlet_api[API_GETCURRENT])
#define greenlet_switch ((PyObject * (*)(PyObject * greenlet, PyObject * args, PyObject * kwargs)) greenlet_api[API_SWITCH])

static PyObject *entry_function, *starter_function;

/* Code that unwinds the stack (pthread_exit, when the interpreter ends a daemon thread) stops in the function that says
   this: above it lie the frames of whichever greenlet started it, which are another's by now. */
#if defined(__linux__) && defined(__x86_64__)
#define OUTERMOST_FRAME() __asm__ volatile(".cfi_undefined rip")
#elif defined(__linux__) && defined(__aarch64__)
#define OUTERMOST_FRAME() __asm__ volatile(".cfi_undefined x30")
#else
#define OUTERMOST_FRAME() ((void)0)
#endif

/* The tasklet that goes on is inside so many trace functions: greenlet leaves that count alone, and what follows from it. */
static inline void
tracing_resumed(PyThreadState *tstate, int tracing)
{
    tstate->tracing = tracing;
#if ROAMLET_VERSION_KNOWN
    version_resumed(tstate);
#endif
}

/* What a pooled greenlet runs: tasklet after tasklet. Ends when an exception is thrown into it while it is in the pool. */
static PyObject *
greenlet_entry(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    OUTERMOST_FRAME();
    for (;;) {
        Scheduler *scheduler = this_scheduler;
        Tasklet *tasklet = scheduler->current;
        PyObject *self = tasklet->sw.greenlet, *back;
        Tasklet *next;
        tracing_resumed(scheduler->tstate, 0);
        next = tasklet_main(scheduler, tasklet);
        tasklet->sw.greenlet = NULL;
        if (next->state == TASKLET_NEW) {
            next->sw.greenlet = self;
            next->state = TASKLET_STARTED;
            continue;
        }
        if (scheduler->sw.pooled == GREENLET_POOL) /* dropping it ends it; it looks at nothing of ours on its way out */
            Py_DECREF(scheduler->sw.pool[--scheduler->sw.pooled]);
        scheduler->sw.pool[scheduler->sw.pooled++] = self;
        back = greenlet_switch(next->sw.greenlet, NULL, NULL);
        if (back == NULL) {
            PyErr_Clear(); /* GreenletExit: the pool was emptied */
            Py_RETURN_NONE;
        }
        Py_DECREF(back);
    }
}

/* What the starter runs: it starts greenlets for others, so that each begins at the same depth of the C stack and of
   Python's recursion, however deep its creator is. */
static PyObject *
greenlet_starter(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    OUTERMOST_FRAME();
    Scheduler *scheduler = this_scheduler;
    PyObject *back = greenlet_switch(scheduler->main->sw.greenlet, NULL, NULL);
    while (back != NULL) {
        Tasklet *tasklet = this_scheduler->current;
        Py_DECREF(back);
        tasklet->sw.greenlet = greenlet_new(entry_function, scheduler->main->sw.greenlet);
        if (tasklet->sw.greenlet == NULL)
            Py_FatalError("roamlet: out of memory while starting a tasklet");
        back = greenlet_switch(tasklet->sw.greenlet, NULL, NULL);
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef entry_method = {"tasklet", greenlet_entry, METH_VARARGS, NULL};
static PyMethodDef starter_method = {"starter", greenlet_starter, METH_VARARGS, NULL};

static int
switch_module_init(void)
{
    greenlet_api = PyCapsule_Import("greenlet._C_API", 0);
    if (greenlet_api == NULL)
        return -1;
    entry_function = PyCFunction_New(&entry_method, NULL);
    starter_function = PyCFunction_New(&starter_method, NULL);
    return entry_function != NULL && starter_function != NULL ? 0 : -1;
}

static int
switch_thread_init(Scheduler *scheduler)
{
    static PyObject *parent_name;
    PyObject *back;
    scheduler->main->sw.greenlet = greenlet_getcurrent();
    if (scheduler->main->sw.greenlet == NULL || name_interned(&parent_name, "parent") == NULL)
        return -1;
    scheduler->sw.starter = greenlet_new(starter_function, scheduler->main->sw.greenlet);
    if (scheduler->sw.starter == NULL)
        return -1;
    back = greenlet_switch(scheduler->sw.starter, NULL, NULL);
    Py_XDECREF(back);
    while (back != NULL) { /* inside a foreign greenlet, which may end before the thread does: main is the outermost */
        PyObject *parent = PyObject_GetAttr(scheduler->main->sw.greenlet, parent_name);
        if (parent == Py_None) {
            Py_DECREF(parent);
            break;
        }
        if (parent == NULL)
            return -1;
        Py_SETREF(scheduler->main->sw.greenlet, parent);
    }
    return back != NULL ? 0 : -1;
}

static void
switch_thread_trim(Scheduler *scheduler)
{
    while (scheduler->sw.pooled > 0)
        Py_DECREF(scheduler->sw.pool[--scheduler->sw.pooled]);
}

static void
switch_thread_end(Scheduler *scheduler)
{
    switch_thread_trim(scheduler);
    Py_CLEAR(scheduler->sw.starter);
}

static inline int
switch_guard(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *current = greenlet_getcurrent();
    (void)scheduler;
    if (current == NULL)
        return -1;
    Py_DECREF(current);
    if (likely(current == tasklet->sw.greenlet))
        return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "this call would switch tasklets inside a greenlet that roamlet did not make, which would mix up two "
                    "C stacks: let the greenlet return to its parent first, or call it from a thread of its own");
    return -1;
}

static inline void
switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    PyObject *target = to->sw.greenlet, *back;
    int tracing = scheduler->tstate->tracing;
    if (to->state == TASKLET_NEW) {
        to->state = TASKLET_STARTED;
        if (scheduler->sw.pooled > 0)
            target = to->sw.greenlet = scheduler->sw.pool[--scheduler->sw.pooled];
        else
            target = scheduler->sw.starter;
    }
    back = greenlet_switch(target, NULL, NULL);
    tracing_resumed(scheduler->tstate, tracing);
    if (likely(back != NULL)) {
        Py_DECREF(back);
        return;
    }
    /* An exception was thrown into the tasklet's greenlet: its blocking call raises it. */
    Py_XSETREF(from->tempval, error_take());
    from->raises = true;
}

/* The context is put in place by hand, not entered: so it can be exchanged while the tasklet runs, on every backend. */
static int
switch_body_begin(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *before = scheduler->tstate->context; /* that of the tasklet which a pooled greenlet ran before: none */
    scheduler->tstate->context = tasklet->context;
    scheduler->tstate->context_ver++;
    tasklet->context = NULL;
    Py_XDECREF(before);
    return 0;
}

static void
switch_body_done(Scheduler *scheduler)
{
    PyObject *context = scheduler->tstate->context;
    scheduler->tstate->context = NULL;
    scheduler->tstate->context_ver++;
    Py_XDECREF(context);
}

static PyObject *name_gr_context; /* see name_interned */

static PyObject *
switch_context(Tasklet *tasklet)
{
    PyObject **slot = tasklet->state != TASKLET_STARTED ? &tasklet->context : &tasklet->scheduler->tstate->context, *context;
    if (tasklet->state != TASKLET_STARTED || tasklet == tasklet->scheduler->current) {
        if (*slot == NULL)
            *slot = PyContext_New();
        return Py_XNewRef(*slot);
    }
    if (name_interned(&name_gr_context, "gr_context") == NULL)
        return NULL;
    context = PyObject_GetAttr(tasklet->sw.greenlet, name_gr_context);
    if (context == Py_None) {
        Py_SETREF(context, PyContext_New());
        if (context != NULL && PyObject_SetAttr(tasklet->sw.greenlet, name_gr_context, context) < 0)
            Py_CLEAR(context);
    }
    return context;
}

static int
switch_set_context(Tasklet *tasklet, PyObject *context)
{
    PyObject *old = switch_context(tasklet);
    int entered = old != NULL ? context_entered(old) : -1;
    Py_XDECREF(old);
    if (entered != 0)
        return -1;
    if (tasklet->state != TASKLET_STARTED)
        Py_XSETREF(tasklet->context, Py_NewRef(context));
    else if (tasklet != tasklet->scheduler->current)
        return PyObject_SetAttr(tasklet->sw.greenlet, name_gr_context, context); /* made by switch_context() */
    else {
        Py_XSETREF(tasklet->scheduler->tstate->context, Py_NewRef(context));
        tasklet->scheduler->tstate->context_ver++;
    }
    return 0;
}

static int
switch_depth(Tasklet *tasklet)
{
    PyObject *frame = tasklet == tasklet->scheduler->current ? (PyObject *)PyThreadState_GetFrame(tasklet->scheduler->tstate)
                                                             : switch_frame(tasklet);
    int depth = 0;
    while (frame != NULL && PyFrame_Check(frame)) {
        depth++;
        Py_SETREF(frame, (PyObject *)PyFrame_GetBack((PyFrameObject *)frame));
    }
    Py_XDECREF(frame);
    return depth;
}

static int
switch_nesting(Tasklet *tasklet)
{
    (void)tasklet;
    return -1;
}

static PyObject *
switch_frame(Tasklet *tasklet)
{
    static PyObject *gr_frame;
    return name_interned(&gr_frame, "gr_frame") != NULL ? PyObject_GetAttr(tasklet->sw.greenlet, gr_frame) : NULL;
}

static int
switch_frames(Tasklet *tasklet, RoamletFrameVisit each, void *arg)
{
    (void)each;
    (void)arg;
    PyErr_Format(NoCore, "%R cannot be saved in the middle of its function on the greenlet backend, which does not see its frames: "
                         "unset ROAMLET_SWITCH, where this version of CPython and this machine have another backend", tasklet);
    return -1;
}

static void
switch_saved(Tasklet *tasklet, PyObject **context, PyObject **handled)
{
    (void)tasklet;
    *context = *handled = NULL; /* never asked: its frames cannot be seen either */
}

static void
switch_silence(Tasklet *tasklet)
{
    (void)tasklet; /* never asked: its frames cannot be seen either */
}

static bool
switch_operands(PyCodeObject *code, Py_ssize_t unit, int *depth, int *below)
{
    (void)code;
    (void)unit;
    *depth = *below = -1;
    return false;
}

static int
switch_traverse(Tasklet *tasklet, bool frames, visitproc visit, void *arg)
{
    /* We cannot see them. From CPython 3.15 on greenlet shows some by itself; one that we left out there would make collections
       crash once its tasklet has outlived its thread. */
    (void)frames;
    Py_VISIT(tasklet->sw.greenlet);
    return 0;
}

static int
switch_slots(Tasklet *tasklet, visitproc visit, void *arg)
{
    (void)tasklet;
    (void)visit;
    (void)arg;
    return 0;
}

static PyObject *const *
switch_iterated(const void *site)
{
    (void)site;
    return NULL;
}

static inline bool
switch_moves_stack(Scheduler *scheduler)
{
    return scheduler->current != scheduler->main;
}

static inline void
switch_free(Tasklet *tasklet)
{
    Py_CLEAR(tasklet->sw.greenlet);
}

static inline void
switch_renew(Tasklet *tasklet)
{
    (void)tasklet; /* its next life has another greenlet in the place of this one */
}
