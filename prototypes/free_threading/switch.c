/* Switching tasklets of one thread: roamlet's switch between C stacks of their own, and what free-threaded builds need more. */

/* ---- fields of the thread state that only free-threaded builds use ---- */

/* Give up the locks of all objects that the running tasklet has locked, as CPython does for a thread that blocks, and take the list
   of them out of the thread state. Runs no Python code; the world cannot be stopped in between. */
static inline void
sections_leave(Tasklet *from, PyThreadState *tstate)
{
#ifdef Py_GIL_DISABLED
#ifndef PINNED_KEEP_SECTIONS
    if (unlikely(tstate->critical_section != 0))
        _PyCriticalSection_SuspendAll(tstate);
    from->critical_section = tstate->critical_section;
#endif
#ifndef PINNED_KEEP_C_STACK_REFS
    from->c_stack_refs = ((_PyThreadStateImpl *)tstate)->c_stack_refs;
#endif
#else
    (void)from;
    (void)tstate;
#endif
}

static inline void
sections_enter(const Tasklet *to, PyThreadState *tstate)
{
#ifdef Py_GIL_DISABLED
#ifndef PINNED_KEEP_SECTIONS
    tstate->critical_section = to->critical_section;
#endif
#ifndef PINNED_KEEP_C_STACK_REFS
    ((_PyThreadStateImpl *)tstate)->c_stack_refs = to->c_stack_refs;
#endif
#else
    (void)to;
    (void)tstate;
#endif
}

/* In the tasklet that was switched to, all of whose fields are in place: lock again what its innermost critical section had locked.
   Others are locked when that one ends. May block, detached from the interpreter. */
static inline void
sections_resume(PyThreadState *tstate)
{
#if defined(Py_GIL_DISABLED) && !defined(PINNED_KEEP_SECTIONS)
    if (unlikely(tstate->critical_section != 0))
        _PyCriticalSection_Resume(tstate);
#else
    (void)tstate;
#endif
}

/* ---- the switch ---- */

static void __attribute__((noreturn, noinline)) stack_entry(void);

/* Make a new tasklet ready to be jumped to. Memory running out here ends the process. */
static void
stack_start(Scheduler *scheduler, Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    Stack *stack = stack_take(&scheduler->sw);
    if (stack == NULL)
        Py_FatalError("no memory for the stack of a tasklet");
    sw->memory = stack;
    sw->chunk = &stack->chunk;
    version_fresh(&sw->fields.version, &sw->root, &scheduler->sw.version, scheduler->tstate);
    version_limits(&sw->limits, stack_low(&scheduler->sw, stack) + GUARD_BYTES, stack);
    fields_fresh(&sw->fields, &sw->exc_base, sw->chunk, NULL);
    tasklet->critical_section = 0;
    tasklet->c_stack_refs = NULL;
    tasklet->fiber = fiber_make();
    sw->stack.sp = (char *)stack - RETURN_ADDRESS_BYTES;
    sw->stack.bp = NULL;
    sw->stack.ip = (void *)stack_entry;
    float_control_read(&sw->control);
    __atomic_store_n(&tasklet->state, TASKLET_STARTED, __ATOMIC_RELAXED);
}

/* The current tasklet, which was just switched to, goes on. May block in the locks of objects; drops the tasklet that has ended. */
static inline void
tasklet_arrives(Scheduler *scheduler)
{
    Tasklet *zombie = scheduler->zombie;
    sections_resume(scheduler->tstate);
    scheduler->zombie = NULL;
    if (zombie != NULL) {
        fiber_end(zombie->fiber);
        Py_DECREF(zombie); /* it has let go of everything: no Python code */
    }
}

/* Leave `from`, which is current and in a queue, go on with `to` of the same thread, come back at the next switch to `from`. */
static void
switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    PyThreadState *tstate = scheduler->tstate;
    tasklet_resumes(to);
    fields_save(&from->sw.fields, tstate);
    sections_leave(from, tstate);
    tasklet_suspended(from);
    float_control_read(&from->sw.control);
    if (to->state == TASKLET_NEW)
        stack_start(scheduler, to);
    /* The collector looks at `current` and at the thread state. The world cannot be stopped between these. */
    scheduler->current = to;
    fields_load(&to->sw.fields, tstate);
    version_limits_load(&to->sw.limits, tstate);
    sections_enter(to, tstate);
    float_control_change(&from->sw.control, &to->sw.control);
    fiber_switch(to->fiber);
    stack_jump(&from->sw.stack, &to->sw.stack);
    tasklet_arrives(scheduler);
}

static Tasklet *run_queue_next(Scheduler *scheduler);
static void tasklet_run(Scheduler *scheduler, Tasklet *tasklet);

/* Where the C stack of a tasklet begins. Never returns: its end is a jump to the next one. */
static void
stack_entry(void)
{
    Scheduler *scheduler = this_scheduler;
    Tasklet *tasklet = scheduler->current, *next;
    Stack *stack = tasklet->sw.memory;
    FloatControl control;
    stack_outermost((char *)stack);
    tasklet_arrives(scheduler);
    tasklet_run(scheduler, tasklet);
    next = run_queue_next(scheduler);
    tasklet_resumes(next);
    assert(scheduler->tstate->datastack_chunk == tasklet->sw.chunk);
    assert(scheduler->tstate->critical_section == 0);
    tasklet->sw.memory = NULL;
    tasklet->sw.chunk = NULL;
    scheduler->zombie = tasklet; /* the reference that it had to itself */
    float_control_read(&control);
    stack_give(&scheduler->sw, stack); /* it is not touched below its start before the jump */
    if (next->state == TASKLET_NEW)
        stack_start(scheduler, next);
    scheduler->current = next;
    fields_load(&next->sw.fields, scheduler->tstate);
    version_limits_load(&next->sw.limits, scheduler->tstate);
    sections_enter(next, scheduler->tstate);
    float_control_change(&control, &next->sw.control);
    fiber_switch(next->fiber);
    stack_leave(&next->sw.stack);
}
