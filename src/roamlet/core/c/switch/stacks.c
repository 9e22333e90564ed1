/* The backend with stacks: each tasklet has a C stack of its own, and keeps its place on it while it is suspended.

   A switch swaps three registers and CPython's thread state; nothing is copied, however deep the tasklets are. In return a
   blocked tasklet costs a page and the kernel's book-keeping for it, where a slice costs some hundred bytes. A tasklet that
   ends hands its stack to the next new one. */

#include "sanitizer.h"

#include "native.c"
#include "regions.c"

static int
switch_module_init(void)
{
#if C_STACK_MEASURED
    if (!version_limits_found(PyThreadState_Get())) {
        PyErr_SetString(PyExc_ImportError, "the bounds of the C stack are not where the headers of CPython " PY_VERSION
                                           " say, with which roamlet was built: build it for this patch release");
        return -1;
    }
#endif
    return native_init("this process runs with a shadow stack, which a switch of stacks does not follow: set "
                       "ROAMLET_SWITCH=greenlet or start it without user shadow stacks");
}

static int
switch_thread_init(Scheduler *scheduler)
{
    version_thread_own(&scheduler->sw.version);
    sanitizer_thread(&scheduler->main->sw.sanitized);
    return main_chunk(scheduler);
}

static void
switch_thread_trim(Scheduler *scheduler)
{
    stacks_trim(&scheduler->sw);
    large_pool_free();
}

static void
switch_thread_end(Scheduler *scheduler)
{
    stacks_trim(&scheduler->sw);
}

static inline __attribute__((always_inline)) int
switch_guard(Scheduler *scheduler, Tasklet *tasklet)
{
    if (likely(scheduler->tstate->datastack_chunk == tasklet->sw.chunk))
        return 0;
    return guard_root(scheduler, tasklet);
}

/* What the frame of stack_entry takes, which is left and never returned from. */
#define LEFT_BYTES 4096

static void __attribute__((noreturn, noinline)) stack_entry(void);

/* There is no memory for the stack of a tasklet that starts: it raises MemoryError instead of running, on the stack that
   is kept for this, and returns it at once. */
static __attribute__((noinline, cold)) Stack *
stack_refused(Scheduler *scheduler, Tasklet *tasklet)
{
    int collecting = PyGC_Disable(); /* this is the middle of a switch */
    Stack *stack = scheduler->sw.spare;
    if (stack == NULL || scheduler->sw.spare_used)
        Py_FatalError("roamlet: out of memory while starting a tasklet");
    scheduler->sw.spare_used = true;
    if (!tasklet->raises) {
        PyErr_SetString(PyExc_MemoryError, "no address space is left for the C stack of another tasklet: start fewer at "
                                           "once, raise the limit (ulimit -v), or use ROAMLET_SWITCH=sliced");
        tasklet_set_error(tasklet, error_take());
    }
    if (collecting)
        PyGC_Enable();
    return stack;
}

/* Make a new tasklet ready to be jumped to, on `stack`; NULL: on one from the pool. */
static inline void
stack_start(Scheduler *scheduler, Tasklet *tasklet, Stack *stack)
{
    SwitchState *sw = &tasklet->sw;
    if (stack == NULL && unlikely((stack = stack_take(&scheduler->sw)) == NULL))
        stack = stack_refused(scheduler, tasklet);
    sw->memory = stack;
    sw->chunk = &stack->chunk;
    sanitizer_stack(&sw->sanitized, stack_low(&scheduler->sw, stack) + GUARD_BYTES, (char *)stack);
    sanitizer_forget((char *)stack - WARM_BYTES, (char *)stack); /* the tasklet that ended there did not return from all its frames */
    version_fresh(&sw->fields.version, &sw->root, &scheduler->sw.version, scheduler->tstate);
#if C_STACK_MEASURED
    version_stack_limits(&sw->fields.version, stack_low(&scheduler->sw, stack) + GUARD_BYTES, stack);
#endif
    fields_fresh(&sw->fields, &sw->exc_base, sw->chunk, tasklet->context);
    tasklet->context = NULL;
    sanitizer_forget((char *)stack - LEFT_BYTES, (char *)stack);
    sw->stack.sp = (char *)stack - RETURN_ADDRESS_BYTES;
    sw->stack.bp = NULL;
    sw->stack.ip = (void *)stack_entry;
    float_control_read(&sw->control); /* its starter's */
    tasklet->state = TASKLET_STARTED;
}

static inline __attribute__((always_inline)) void
switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    fields_save(&from->sw.fields, scheduler->tstate);
    float_control_read(&from->sw.control);
    if (unlikely(to->state == TASKLET_NEW))
        stack_start(scheduler, to, NULL);
    frames_go_on(&to->sw);
    fields_load(&to->sw.fields, scheduler->tstate);
    float_control_change(&from->sw.control, &to->sw.control);
    sanitizer_leaves(&from->sw.sanitized, &to->sw.sanitized);
    stack_jump(&from->sw.stack, &to->sw.stack);
    sanitizer_arrives(&from->sw.sanitized);
    version_resumed(scheduler->tstate);
}

/* Where every tasklet's C stack begins. Never returns: its end is a jump to the next. */
static void
stack_entry(void)
{
    Scheduler *scheduler = this_scheduler;
    Tasklet *tasklet = scheduler->current, *next;
    sanitizer_arrives(&tasklet->sw.sanitized);
    Stack *stack = tasklet->sw.memory;
    FloatControl control;
    stack_outermost((char *)stack);
    next = tasklet_main(scheduler, tasklet);
    /* `tasklet` may be gone once the next runs, but not before: its last reference waits in scheduler->zombie. */
    assert(scheduler->tstate->datastack_chunk == tasklet->sw.chunk);
    tasklet->sw.memory = NULL;
    tasklet->sw.chunk = NULL;
    tasklet->context = scheduler->tstate->context; /* one that a signal handler made while the dead one slept for all */
    scheduler->tstate->context = NULL;
    float_control_read(&control);
    if (next->state == TASKLET_NEW && likely(stack != scheduler->sw.spare && stack->guests == 0))
        stack_start(scheduler, next, stack); /* we still run on it, but it is not touched below its start before the jump */
    else {
        stack_give(&scheduler->sw, stack);
        if (next->state == TASKLET_NEW)
            stack_start(scheduler, next, NULL);
    }
    frames_go_on(&next->sw);
    fields_load(&next->sw.fields, scheduler->tstate);
    float_control_change(&control, &next->sw.control);
    sanitizer_leaves(NULL, &next->sw.sanitized);
    stack_leave(&next->sw.stack);
}

static inline bool
switch_moves_stack(Scheduler *scheduler)
{
    (void)scheduler;
    return false;
}

static inline void
switch_free(Tasklet *tasklet)
{
    /* Its stack went back when it ended; one that never ended (its thread did) is lost. */
    Py_CLEAR(tasklet->sw.exc_base.exc_value); /* see fields_fresh */
}
