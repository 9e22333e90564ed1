/* Events from the interpreter on 3.11, which has no sys.monitoring: a C trace function in front of the user's own.

   It is put into the thread state's slot while opcodes are counted or a slice is over, and hands on everything that the
   user's function would get; what sys.gettrace() answers is left as it is. When the user sets another one meanwhile, ours
   goes in front again: after the call of sys.settrace() itself while opcodes are counted, because the slot of the profile
   function tells when a C function returns; at the next look of the watcher for slices.

   Opcodes are told of in frames that ask for it. Ours are marked with a value of its own, and unmarked when they return or
   when counting ends. */
#if WATCH_BY_TRACING

static int trace_function(PyObject *user, PyFrameObject *frame, int what, PyObject *arg);
static int trace_profile(PyObject *user, PyFrameObject *frame, int what, PyObject *arg);

/* Put ours in front of what is in the slots of a thread, maybe another one. */
static void
trace_install(Scheduler *scheduler)
{
    PyThreadState *tstate = scheduler->tstate;
    Preempt *preempt = &scheduler->preempt;
    if (tstate->c_tracefunc != trace_function) {
        preempt->user_trace = tstate->c_tracefunc;
        tstate->c_tracefunc = trace_function;
    }
    if (preempt->counting && tstate->c_profilefunc != trace_profile) {
        preempt->user_profile = tstate->c_profilefunc;
        tstate->c_profilefunc = trace_profile;
    }
    version_resumed(tstate);
}

static void
trace_uninstall(Scheduler *scheduler)
{
    PyThreadState *tstate = scheduler->tstate;
    Preempt *preempt = &scheduler->preempt;
    if (tstate->c_tracefunc == trace_function)
        tstate->c_tracefunc = preempt->user_trace;
    if (tstate->c_profilefunc == trace_profile)
        tstate->c_profilefunc = preempt->user_profile;
    version_resumed(tstate);
}

static inline void
trace_mark(PyFrameObject *frame)
{
    if (WATCH_FRAME_OPCODES(frame) == 0)
        WATCH_FRAME_OPCODES(frame) = WATCH_OPCODES;
}

static inline void
trace_unmark(PyFrameObject *frame)
{
    if (WATCH_FRAME_OPCODES(frame) == WATCH_OPCODES)
        WATCH_FRAME_OPCODES(frame) = 0;
}

/* Mark or unmark a frame (stolen, may be NULL) and those that called it. */
static void
trace_mark_chain(PyFrameObject *frame, void (*mark)(PyFrameObject *frame))
{
    while (frame != NULL) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        mark(frame);
        Py_DECREF(frame);
        frame = back;
    }
}

/* An instruction of the running tasklet is about to run. May switch. */
static inline int
trace_instruction(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    if (!preempt_concerns(scheduler))
        return 0;
    if (likely(preempt->left > 0 && !preempt->expired)) {
        preempt->left--;
        return 0;
    }
    return preempt->counting || preempt->expired ? preempt_expire(scheduler) : 0;
}

/* The event of RESUME, which begins a frame, is CALL; that of all other instructions is OPCODE. */
static int
trace_function(PyObject *user, PyFrameObject *frame, int what, PyObject *arg)
{
    Scheduler *scheduler = this_scheduler;
    Preempt *preempt = &scheduler->preempt;
    bool ours = what == PyTrace_OPCODE && WATCH_FRAME_OPCODES(frame) == WATCH_OPCODES;
    if (preempt->user_trace != NULL && user != NULL && !ours) {
        if (preempt->user_trace(user, frame, what, arg) < 0)
            return -1;
    }
    if (what == PyTrace_RETURN) {
        trace_unmark(frame);
        if (frame == preempt->marked)
            Py_CLEAR(preempt->marked);
    }
    else if (preempt->counting && preempt_concerns(scheduler) && scheduler->current != scheduler->watchdog) {
        trace_mark(frame);
        scheduler->current->marked = true;
    }
    if (what == PyTrace_CALL || what == PyTrace_OPCODE || (what == PyTrace_LINE && preempt->expired))
        return trace_instruction(scheduler);
    return 0;
}

static int
trace_profile(PyObject *user, PyFrameObject *frame, int what, PyObject *arg)
{
    Scheduler *scheduler = this_scheduler;
    Preempt *preempt = &scheduler->preempt;
    int failed = preempt->user_profile != NULL && user != NULL ? preempt->user_profile(user, frame, what, arg) : 0;
    if (preempt->counting && scheduler->tstate->c_tracefunc != trace_function) {
        preempt->user_trace = scheduler->tstate->c_tracefunc;
        scheduler->tstate->c_tracefunc = trace_function;
    }
    return failed;
}

/* ---- the source ---- */

static int
source_check(void)
{
    return 0;
}

static int
source_count(Scheduler *scheduler)
{
    scheduler->preempt.counting = true;
    trace_install(scheduler);
    return 0;
}

/* All frames are as they were. */
static void
source_count_end(Scheduler *scheduler)
{
    trace_mark_chain(PyThreadState_GetFrame(scheduler->tstate), trace_unmark);
    for (Tasklet *t = scheduler->started; t != NULL; t = t->started_next) {
        PyObject *frame;
        if (!t->marked)
            continue;
        t->marked = false;
        if (t == scheduler->current)
            continue;
        frame = switch_frame(t);
        if (frame != NULL && PyFrame_Check(frame))
            trace_mark_chain((PyFrameObject *)frame, trace_unmark);
        else if (frame == NULL)
            PyErr_WriteUnraisable((PyObject *)t);
        else
            Py_DECREF(frame);
    }
    trace_uninstall(scheduler);
}

static void
source_cover(Scheduler *scheduler)
{
    trace_install(scheduler);
    scheduler->current->marked = true;
    trace_mark_chain(PyThreadState_GetFrame(scheduler->tstate), trace_mark);
}

/* A loop that is a single instruction makes no LINE events: the innermost frame of the thread, maybe another one, reports
   opcodes. Its reference is given back before the frame's locals go. */
static int
source_arm(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    preempt->armed = true;
    trace_install(scheduler);
    if (preempt->marked == NULL) {
        int collecting = PyGC_Disable(); /* not here, where no tasklet may be met */
        preempt->marked = PyThreadState_GetFrame(scheduler->tstate);
        if (collecting)
            PyGC_Enable();
        if (preempt->marked != NULL)
            trace_mark(preempt->marked);
    }
    return 0;
}

static void
source_disarm(Scheduler *scheduler)
{
    Preempt *preempt = &scheduler->preempt;
    if (preempt->counting)
        return;
    if (preempt->marked != NULL) {
        trace_unmark(preempt->marked);
        Py_CLEAR(preempt->marked);
    }
    trace_uninstall(scheduler);
}

#endif
