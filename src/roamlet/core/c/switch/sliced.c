/* The sliced backend: stack slicing on the thread's own C stack.

   Every tasklet of a thread starts at the same address of its C stack, `base`. A switch copies the slice [sp, base) of
   the one that stops to its buffer and the slice of the one that goes on from its buffer, then swaps three registers
   and CPython's thread state. Starting at a fixed address keeps slices small (a few hundred bytes for a tasklet that
   blocks in Python code), however deep its starter was, and a tasklet that ends hands its stack to the next new one
   without copying anything. */

#include "sanitizer.h"
#include "chunks.c"
#include "native.c"

/* C stack between the frame that makes a thread's scheduler and its tasklets, for calls of main that are a little deeper.
   What it takes is missing below: on a small stack it is smaller. */
#ifndef BASE_GAP
#define BASE_GAP 16384
#endif
#define BASE_GAP_PART 128 /* of the thread's whole stack, at most */
/* What a slice may hold beyond the stack pointer of the function that asks for room: the frame of a function that it calls to switch. */
#define SLICE_SLACK 128
#define SLICE_DISCARD UINT32_MAX

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

/* Save the slice of `from`, restore that of `to`. Called by slices_jump on a stack below both; must not touch Python. */
NOT_SANITIZED void
roamlet_slice_swap(CStack *from, CStack *to)
{
    if (likely(from->length != SLICE_DISCARD)) {
        char *low = from->sp;
        if (likely(low < from->base)) {
            sanitizer_forget(low, from->base);
            size_t length = (size_t)(from->base - low);
            /* switch_guard makes room; a compiler that builds larger frames than it assumes is served here. */
            if (unlikely(length > from->capacity) && slice_reserve(from, length) < 0)
                Py_FatalError("roamlet: out of memory while suspending a tasklet");
            memcpy(from->buffer, low, length);
            from->length = (uint32_t)length;
        }
    } else
        sanitizer_forget(from->sp, to->base);
    if (likely(to->length > 0)) {
        sanitizer_forget(to->sp, to->base);
        memcpy(to->sp, to->buffer, to->length);
        to->length = 0;
#ifdef SLICE_NEVER_KEPT
        free(to->buffer);
        to->buffer = NULL;
        to->capacity = 0;
#endif
    }
}

static int
switch_module_init(void)
{
    return native_init("this process runs with a shadow stack, which stack slicing cannot follow: set "
                       "ROAMLET_SWITCH=greenlet or start it without user shadow stacks");
}

static int
switch_thread_init(Scheduler *scheduler)
{
    char *here = __builtin_frame_address(0);
    size_t part = thread_stack_bytes() / BASE_GAP_PART, gap = part > 0 && part < BASE_GAP ? part : BASE_GAP;
    scheduler->sw.base = (char *)(((uintptr_t)here - gap) & ~(uintptr_t)63);
    version_thread(&scheduler->sw.version, scheduler->tstate);
    scheduler->main->sw.stack.base = scheduler->sw.base;
    return main_chunk(scheduler);
}

static void
switch_thread_trim(Scheduler *scheduler)
{
    chunk_pool_free(&scheduler->sw);
    large_pool_free();
}

static void
switch_thread_end(Scheduler *scheduler)
{
    chunk_pool_free(&scheduler->sw);
}

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

/* Make a new tasklet ready to be jumped to. */
static inline void
stack_start(Scheduler *scheduler, Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    sw->hint = chunk_hint(tasklet->function);
    sw->chunk = chunk_take(&scheduler->sw, sw->hint, &sw->size_class);
    version_fresh(&sw->fields.version, &sw->root, &scheduler->sw.version, scheduler->tstate);
    fields_fresh(&sw->fields, &sw->exc_base, sw->chunk, tasklet->context);
    tasklet->context = NULL;
    sw->stack.base = scheduler->sw.base;
    sw->stack.sp = scheduler->sw.base - RETURN_ADDRESS_BYTES; /* as after a call: the ABI aligns to 16 before it */
    sw->stack.bp = NULL;
    sw->stack.ip = (void *)stack_entry;
    sw->stack.length = 0;
    float_control_read(&sw->control); /* its starter's */
    tasklet->state = TASKLET_STARTED;
}

/* Load the thread state of the tasklet that goes on. */
static inline __attribute__((always_inline)) void
stack_load(Scheduler *scheduler, Tasklet *to)
{
    if (unlikely(to->state == TASKLET_NEW))
        stack_start(scheduler, to);
#if ENTRY_FRAMES_ON_C_STACK
    if (unlikely(to->sw.exposed != NULL))
        frames_conceal(&to->sw);
#endif
    frames_go_on(&to->sw);
    fields_load(&to->sw.fields, scheduler->tstate);
}

static inline __attribute__((always_inline)) void
switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    fields_save(&from->sw.fields, scheduler->tstate);
#if ENTRY_FRAMES_ON_C_STACK
    if (unlikely(frames_seen(tstate_frame(scheduler->tstate))))
        frames_expose(&from->sw, tstate_frame(scheduler->tstate));
#endif
    float_control_read(&from->sw.control);
    stack_load(scheduler, to);
    float_control_change(&from->sw.control, &to->sw.control);
    slices_jump(&from->sw.stack, &to->sw.stack);
    version_resumed(scheduler->tstate);
}

/* Where every tasklet's C stack begins. Never returns: its end is a jump to the next. */
static void
stack_entry(void)
{
    static CStack nowhere = {.length = SLICE_DISCARD};
    Scheduler *scheduler = this_scheduler;
    Tasklet *tasklet = scheduler->current, *next;
    FloatControl control;
    stack_outermost(scheduler->sw.base); /* not before: another tasklet's data stood there */
    next = tasklet_main(scheduler, tasklet);
    /* `tasklet` may be gone once the next runs, but not before: its last reference waits in scheduler->zombie. */
    assert(scheduler->tstate->datastack_chunk == tasklet->sw.chunk);
    chunk_give(&scheduler->sw, tasklet->sw.chunk);
    tasklet->sw.chunk = NULL;
    tasklet->context = scheduler->tstate->context; /* one that a signal handler made while the dead one slept for all */
    scheduler->tstate->context = NULL;
    float_control_read(&control);
    stack_load(scheduler, next);
    float_control_change(&control, &next->sw.control);
    slices_jump(&nowhere, &next->sw.stack);
    Py_UNREACHABLE();
}

static inline bool
switch_moves_stack(Scheduler *scheduler)
{
    return (char *)__builtin_frame_address(0) < scheduler->sw.base;
}

static inline void
switch_free(Tasklet *tasklet)
{
    Py_CLEAR(tasklet->sw.exc_base.exc_value); /* see fields_fresh */
    free(tasklet->sw.stack.buffer);
    tasklet->sw.stack.buffer = NULL;
    tasklet->sw.stack.capacity = 0;
}
