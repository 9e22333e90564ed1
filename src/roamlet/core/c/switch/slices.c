/* The native backend: slices over several C stacks.

   A thread has up to STACKS_MOST C stacks beside its own. A tasklet begins on one of them and belongs to it for its life, since what is
   on a C stack must stay at its address. While it is suspended its slice, [sp, base), stays where it is, and the tasklet is the stack's
   resident; a switch to it swaps three registers and CPython's thread state. Only when another tasklet of the same stack is
   to run is the resident's slice copied to its buffer, and that one's slice from its buffer. So a few tasklets are switched
   without a copy, and many need a few hundred bytes each.

   A tasklet that begins gets a stack without tasklets; or a new one; or when there are enough of them one whose resident has waited
   for a while, as in a server most do; or the common one, which then works as if it were the only one: hot tasklets in such numbers
   are faster by a copy to a place that is in the cache than by none to a place that is not. A tasklet that ends hands its stack to
   the next new one.

   The thread's own stack is one more: main belongs to it, and so do all tasklets that begin after somebody's greenlet module
   was loaded. A greenlet must come back to the address where it began, whichever tasklet resumes it: all must be on the stack. */

#include "chunks.c"
#include "native.c"
#include "stack_memory.c"

/* C stack between the frame that makes a thread's scheduler and the tasklets on the thread's own stack, for calls of main that are a
   little deeper. What it takes is missing below: on a small stack it is smaller. */
#ifndef BASE_GAP
#define BASE_GAP 16384
#endif
#define BASE_GAP_PART 128 /* of the thread's whole stack, at most */
/* What a slice may hold beyond the stack pointer of the function that asks for room: the frame of a function that it calls to switch. */
#define SLICE_SLACK 128
#define SLICE_DISCARD UINT32_MAX
#define CACHE_LINE 64

/* ---- slices ---- */

/* Make room for `length` bytes, rounded to what malloc gives anyway. -1 when memory is out; sets no exception. */
static int
slice_reserve(CStack *stack, size_t length)
{
    char *buffer;
    length = ((length + 7) & ~(size_t)15) + 8;
    if (length >= SLICE_DISCARD || (buffer = realloc(stack->buffer, length)) == NULL)
        return -1;
    stack->buffer = buffer;
    stack->capacity = (uint32_t)length;
    return 0;
}

static inline NOT_SANITIZED void
slice_save(CStack *slice)
{
    char *low = slice->sp;
    size_t length = (size_t)(slice->base - low);
    if (unlikely(low >= slice->base)) /* main, above where tasklets begin */
        return;
    sanitizer_forget(low, slice->base);
    /* switch_guard has made room; a compiler that builds larger frames than it assumes is served here. */
    if (unlikely(length > slice->capacity) && slice_reserve(slice, length) < 0)
        Py_FatalError("roamlet: out of memory while suspending a tasklet");
    memcpy(slice->buffer, low, length);
    slice->length = (uint32_t)length;
}

static inline NOT_SANITIZED void
slice_restore(CStack *slice)
{
    if (unlikely(slice->length == 0))
        return;
    sanitizer_forget(slice->sp, slice->base);
    memcpy(slice->sp, slice->buffer, slice->length);
    slice->length = 0;
#ifdef SLICE_NEVER_KEPT
    free(slice->buffer);
    slice->buffer = NULL;
    slice->capacity = 0;
#endif
}

/* Save the slice of `from`, restore that of `to`, which belong to one stack. Called by slices_jump below both; must not touch Python. */
NOT_SANITIZED void
roamlet_slice_swap(CStack *from, CStack *to)
{
    if (likely(from->length != SLICE_DISCARD))
        slice_save(from);
    else
        sanitizer_forget(from->sp, to->base);
    slice_restore(to);
}

/* ---- threads ---- */

static int
switch_module_init(void)
{
    PyObject *name = PyUnicode_FromString("greenlet"), *greenlet = name != NULL ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    if (greenlet == NULL && PyErr_Occurred())
        return -1;
    single_stack = greenlet != NULL;
    Py_XDECREF(greenlet);
#if C_STACK_MEASURED
    if (!version_limits_found(PyThreadState_Get())) {
        PyErr_SetString(PyExc_ImportError, "the bounds of the C stack are not where the headers of CPython " PY_VERSION
                                           " say, with which roamlet was built: build it for this patch release");
        return -1;
    }
#endif
    if (shadow_stack_enabled()) {
        PyErr_SetString(PyExc_ImportError, "this process runs with a shadow stack, which stack slicing cannot follow: set "
                                           "ROAMLET_SWITCH=greenlet or start it without user shadow stacks");
        return -1;
    }
    return native_init();
}

static int
switch_thread_init(Scheduler *scheduler)
{
    char *here = __builtin_frame_address(0);
    size_t part = thread_stack_bytes() / BASE_GAP_PART, gap = part > 0 && part < BASE_GAP ? part : BASE_GAP;
    Stack *own = &scheduler->sw.own;
    SwitchState *main = &scheduler->main->sw;
    own->base = (char *)(((uintptr_t)here - gap) & ~(uintptr_t)63);
    own->members = 1;
    own->resident = scheduler->main;
    version_thread(&own->version, scheduler->tstate);
    version_limits_of(&own->limits, scheduler->tstate);
    main->stack.base = own->base;
    main->home = own;
    main->here = true;
    sanitizer_thread(&main->sanitized);
    return main_chunk(scheduler);
}

static void
switch_thread_trim(Scheduler *scheduler)
{
    stacks_trim(&scheduler->sw);
    chunk_pool_free(&scheduler->sw);
    large_pool_free();
}

static void
switch_thread_end(Scheduler *scheduler)
{
    stacks_trim(&scheduler->sw);
    chunk_pool_free(&scheduler->sw);
}

/* ---- switching ---- */

/* The slow half of switch_guard's look at the chunk. Frames beyond the first one: the next of this function start larger. */
static __attribute__((noinline, cold)) int
guard_chunk(Scheduler *scheduler, Tasklet *tasklet)
{
    if (guard_root(scheduler, tasklet) < 0)
        return -1;
    if (tasklet != scheduler->main)
        chunk_learn(tasklet->sw.hint, tasklet->sw.size_class);
    return 0;
}

static inline __attribute__((always_inline)) int
switch_guard(Scheduler *scheduler, Tasklet *tasklet)
{
    CStack *stack = &tasklet->sw.stack;
    size_t length = (size_t)(stack->base - stack_pointer()) + SLICE_SLACK;
    if (unlikely(scheduler->tstate->datastack_chunk != tasklet->sw.chunk) && guard_chunk(scheduler, tasklet) < 0)
        return -1;
    /* Negative as a signed number: main stands above the base, nothing of it is copied. */
    if (likely((ptrdiff_t)length <= (ptrdiff_t)stack->capacity && stack->capacity <= 4 * length + 4096))
        return 0;
    if ((ptrdiff_t)length <= 0 || slice_reserve(stack, length) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static void __attribute__((noreturn, noinline)) stack_entry(void);

/* What the frame of stack_entry takes, which is left and never returned from. */
#define LEFT_BYTES 4096

#define IDLE_NS 5000000 /* a tasklet that has waited for so long is not expected to run soon */
#define LOOKS 4         /* at so many stacks in turn */
#define REFUSED_FOR 1000 /* tasklets that begin before another stack is asked for where one was refused */

/* Whether a tasklet that begins may share this stack: its resident does not seem to be in use. */
static bool
stack_idles(Scheduler *scheduler, Stack *stack)
{
    Tasklet *resident = stack->resident;
    return resident == NULL || (resident->blocked != NOT_BLOCKED && scheduler->looked - resident->since > IDLE_NS);
}

/* The stack for a tasklet that begins when tasklets belong to all that there are: a new one, or one whose resident idles, or the
   one that all others share. */
static __attribute__((noinline)) Stack *
stack_more(Scheduler *scheduler, Stack *running)
{
    SwitchThread *thread = &scheduler->sw;
    Stack *stack;
    if (thread->refused > 0)
        thread->refused--;
    else if (thread->stacks + 1 <= STACKS_MOST) {
        if ((stack = stack_cut(thread)) != NULL)
            return stack;
        thread->refused = REFUSED_FOR;
    }
    for (int i = 0; i < LOOKS && (stack = stack_next(thread)) != NULL; i++)
        if (stack != running && stack != thread->common && stack_idles(scheduler, stack))
            return stack;
    if (thread->common == NULL && (thread->refused > 0 || (thread->common = stack_cut(thread)) == NULL))
        thread->common = stack_next(thread);
    return thread->common != NULL ? thread->common : &thread->own;
}

static inline Stack *
stack_choose(Scheduler *scheduler, Stack *running)
{
    SwitchThread *thread = &scheduler->sw;
    Stack *stack = thread->free;
    if (unlikely(single_stack))
        return &thread->own;
    if (unlikely(stack == NULL))
        return stack_more(scheduler, running);
    thread->free = stack->next;
    return stack;
}

/* Make a new tasklet ready to be entered, on `home`. */
static inline void
stack_start(Scheduler *scheduler, Tasklet *tasklet, Stack *home)
{
    SwitchState *sw = &tasklet->sw;
    home->members++;
    sw->home = home;
    sw->hint = chunk_hint(tasklet->function);
    sw->chunk = chunk_take(&scheduler->sw, sw->hint, &sw->size_class);
    version_fresh(&sw->fields.version, &sw->root, &home->version, scheduler->tstate);
    fields_fresh(&sw->fields, &sw->exc_base, sw->chunk, tasklet->context);
    tasklet->context = NULL;
    sw->stack.base = home->base;
    sw->stack.sp = home->base - RETURN_ADDRESS_BYTES; /* as after a call: the ABI aligns to 16 before it */
    sw->stack.bp = NULL;
    sw->stack.ip = (void *)stack_entry;
    sw->stack.length = 0;
    float_control_read(&sw->control); /* its starter's */
    sanitizer_stack(&sw->sanitized, home->low, home->base);
    tasklet->state = TASKLET_STARTED;
}

/* Let the tasklet, which is not on its stack, be there; its resident goes. Returns whether that is the stack `running`, on which we are:
   then nothing was copied yet, and slices_jump has to. */
static inline bool
stack_enter(Stack *running, Tasklet *tasklet)
{
    Stack *home = tasklet->sw.home;
    Tasklet *resident = home->resident;
    if (resident != NULL) {
        resident->sw.here = false;
#if ENTRY_FRAMES_ON_C_STACK
        _PyInterpreterFrame *frame = version_frame(&resident->sw.fields.version, saved_at, &resident->sw.stack);
        if (unlikely(frames_seen(frame)))
            frames_expose(&resident->sw, frame);
#endif
    }
    home->resident = tasklet;
    tasklet->sw.here = true;
#if ENTRY_FRAMES_ON_C_STACK
    if (unlikely(tasklet->sw.exposed != NULL))
        frames_conceal(&tasklet->sw);
#endif
    if (home == running)
        return true;
    if (resident != NULL)
        slice_save(&resident->sw.stack);
    slice_restore(&tasklet->sw.stack);
    return false;
}

/* Load the thread state of the tasklet that goes on. */
static inline __attribute__((always_inline)) void
stack_load(Scheduler *scheduler, Tasklet *to)
{
    frames_go_on(&to->sw);
    fields_load(&to->sw.fields, scheduler->tstate);
    version_limits_load(&to->sw.home->limits, scheduler->tstate);
}

/* The tasklet to go on with is new, or its slice does not lie on its stack. What stack_enter returns. */
static __attribute__((noinline)) bool
stack_prepare(Scheduler *scheduler, Stack *running, Tasklet *to)
{
    if (to->state == TASKLET_NEW)
        stack_start(scheduler, to, stack_choose(scheduler, running));
    else /* it comes to the cache while the resident's slice is copied */
        for (uint32_t at = 0; at < to->sw.stack.length; at += CACHE_LINE)
            __builtin_prefetch(to->sw.stack.buffer + at);
    return stack_enter(running, to);
}

static inline __attribute__((always_inline)) void
switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    fields_save(&from->sw.fields, scheduler->tstate);
    float_control_read(&from->sw.control);
    if (unlikely(!to->sw.here) && stack_prepare(scheduler, from->sw.home, to)) {
        stack_load(scheduler, to);
        float_control_change(&from->sw.control, &to->sw.control);
        sanitizer_leaves(&from->sw.sanitized, &to->sw.sanitized);
        slices_jump(&from->sw.stack, &to->sw.stack);
    } else {
        stack_load(scheduler, to);
        float_control_change(&from->sw.control, &to->sw.control);
        sanitizer_leaves(&from->sw.sanitized, &to->sw.sanitized);
        stack_jump(&from->sw.stack, &to->sw.stack);
    }
    sanitizer_arrives(&from->sw.sanitized);
    version_resumed(scheduler->tstate);
}

/* Where every tasklet's C stack begins. Never returns: its end is a jump to the next. */
static void
stack_entry(void)
{
    static CStack nowhere = {.length = SLICE_DISCARD};
    Scheduler *scheduler = this_scheduler;
    Tasklet *tasklet = scheduler->current, *next;
    Stack *home = tasklet->sw.home;
    FloatControl control;
    bool same = false;
    sanitizer_arrives(&tasklet->sw.sanitized);
    stack_outermost(home->base); /* not before: another tasklet's data stood there */
    next = tasklet_main(scheduler, tasklet);
    /* `tasklet` may be gone once the next runs, but not before: its last reference waits in scheduler->zombie. */
    assert(scheduler->tstate->datastack_chunk == tasklet->sw.chunk);
    assert(home->resident == tasklet);
    chunk_give(&scheduler->sw, tasklet->sw.chunk);
    tasklet->sw.chunk = NULL;
    tasklet->sw.home = NULL;
    tasklet->sw.here = false;
    home->resident = NULL;
    tasklet->context = scheduler->tstate->context; /* one that a signal handler made while the dead one slept for all */
    scheduler->tstate->context = NULL;
    float_control_read(&control);
    if (likely(next->state == TASKLET_NEW) && likely(!single_stack || home->low == NULL)) {
        /* We still run on it, but it is not touched below its base before the jump. */
        home->members--;
        stack_start(scheduler, next, home);
        home->resident = next;
        next->sw.here = true;
        sanitizer_forget(home->base - LEFT_BYTES, home->base);
    } else {
        if (next->state == TASKLET_NEW)
            stack_start(scheduler, next, &scheduler->sw.own);
        if (!next->sw.here)
            same = stack_enter(home, next);
        stack_left(&scheduler->sw, home);
    }
    stack_load(scheduler, next);
    float_control_change(&control, &next->sw.control);
    sanitizer_leaves(NULL, &next->sw.sanitized);
    if (same)
        slices_jump(&nowhere, &next->sw.stack);
    stack_leave(&next->sw.stack);
}

static inline bool
switch_moves_stack(Scheduler *scheduler)
{
    return scheduler->current != scheduler->main || (char *)__builtin_frame_address(0) < scheduler->sw.own.base;
}

/* What lies on its stack is lost, or it is main's whose thread has ended: no slice of it is to be saved, or gone on with. */
static inline void
stack_lost(SwitchState *sw, Tasklet *tasklet)
{
    if (sw->home->resident == tasklet) {
        if (sw->home->low != NULL)
            sanitizer_forget(sw->stack.sp, sw->stack.base);
        sw->home->resident = NULL;
    }
    sw->home = NULL;
}

static inline void
switch_free(Tasklet *tasklet)
{
    Py_CLEAR(tasklet->sw.exc_base.exc_value); /* see fields_fresh */
    free(tasklet->sw.stack.buffer);
    tasklet->sw.stack.buffer = NULL;
    tasklet->sw.stack.capacity = 0;
    if (unlikely(tasklet->sw.home != NULL)) /* main, or its frames are lost */
        stack_lost(&tasklet->sw, tasklet);
}

static inline void
switch_renew(Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    if (likely(sw->home == NULL) || tasklet == tasklet->scheduler->current) /* that has ended, and its thread still sleeps on its stack */
        return;
    stack_lost(sw, tasklet);
    sw->here = sw->veiled = false;
    sw->stack.length = 0;
    sw->chunk = NULL;
    sw->exc_base.exc_value = NULL;
    free(sw->exposed); /* the links stay bent: what they led around is gone */
    sw->exposed = NULL;
}
