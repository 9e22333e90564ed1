/* CPython 3.14, and with FRAMES_END 3.15: C recursion is no longer counted. The stack pointer is compared with the bounds of
   the C stack instead, which are swapped where tasklets have different stacks.

   What else is new in the thread state and stays the thread's, for all of its tasklets:
   - asyncio_running_loop, asyncio_running_task: they change with the tasklets that have any, by asyncio's own functions (running_loop.c);
   - generator_return_kind (3.15): written just before an eval loop returns and read by its caller, with no call
     in between in which a switch could happen; jit_exit (3.15) likewise, between two traces;
   - delete_later: objects whose deallocation waits for a shallower stack; any tasklet may take them from there;
   - last_profiled_frame (3.15): a remote profiler's mark, compared with a frame that is popped and never followed. It fits
     one tasklet's chain of frames and is not met in another's;
   - datastack_cached_chunk: free memory;
   - lazy_imports (3.15): the lazy imports that this thread resolves now; they change with the tasklets that resolve any (lazy_imports.c);
   - critical_section, c_stack_refs: of free-threaded builds, which are refused (see cpython.h). */
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include "internal/pycore_genobject.h"
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_pythonrun.h"
#include "internal/pycore_tstate.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_stackref.h"
#pragma GCC diagnostic pop

#define RECURSION_REMAINING py_recursion_remaining
#define RECURSION_LIMIT py_recursion_limit
#define TRACED_EVENT what_event
#define NO_TRACED_EVENT (-1)
#define ENTRY_FRAMES_ON_C_STACK 1
#define C_STACK_MEASURED 1
#define ENTRY_FRAME_OWNER FRAME_OWNED_BY_INTERPRETER /* for layout.c: from this one on, a frame is no Python function's */
#define CODE_TAGS Py_TAG_BITS
/* 1 is _Py_THREAD_ATTACHED. */
#define GIL_LAYOUT LAYOUT_AT("tstate.gil", PyThreadState, state), {"tstate.gil_mask", 255}, {"tstate.gil_value", 1},
#define GIL_ADDRESSES
/* For layout.c: where the slots of a suspended frame end that are in use, and a thread's list of asyncio's tasks. */
#define STACK_TOP_LAYOUT                                                                                                  \
    LAYOUT_AT("frame.stack_pointer", _PyInterpreterFrame, stackpointer), LAYOUT_AT("tstate.tasks", _PyThreadStateImpl, asyncio_tasks_head)
#ifndef FRAMES_END
#define FRAMES_END(tstate) NULL
#define FRAME_IS_END(frame) false
#endif

typedef struct {
    struct _PyInterpreterFrame *frame;
    PyObject *executor; /* owned: the machine code that the tasklet runs, NULL without CPython's JIT */
} VersionFields;

#include "current_frame.h"
#include "c_calls_not_counted.h"

/* The JIT frees code that is out of use once no thread state says that it runs it. That of a suspended tasklet is said by
   none, so a reference keeps it. */
static inline __attribute__((always_inline)) void
version_save(VersionFields *saved, PyThreadState *tstate)
{
    saved->frame = tstate->current_frame;
    saved->executor = Py_XNewRef(tstate->current_executor);
}

static inline __attribute__((always_inline)) void
version_load(VersionFields *saved, PyThreadState *tstate)
{
    tstate->current_frame = saved->frame;
    tstate->current_executor = saved->executor;
    Py_XDECREF(saved->executor); /* deallocating one runs no Python code */
}

static inline void
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    (void)root;
    (void)thread;
    (void)tstate;
    fresh->frame = FRAMES_END(tstate);
    fresh->executor = NULL;
}

/* The bounds of a C stack. */
typedef struct {
    uintptr_t top, soft, hard;
} VersionLimits;

/* Those of the stack [low, high). Below `low` nothing needs to be accessible. The margins are CPython's own for a thread's stack. */
static inline UNUSED void
version_limits(VersionLimits *limits, const void *low, const void *high)
{
    limits->top = (uintptr_t)high;
    limits->hard = (uintptr_t)low + _PyOS_STACK_MARGIN_BYTES;
    limits->soft = (uintptr_t)low + 2 * _PyOS_STACK_MARGIN_BYTES;
}

static inline UNUSED void
version_limits_of(VersionLimits *limits, PyThreadState *tstate)
{
    _PyThreadStateImpl *impl = (_PyThreadStateImpl *)tstate;
    limits->top = impl->c_stack_top;
    limits->soft = impl->c_stack_soft_limit;
    limits->hard = impl->c_stack_hard_limit;
}

static inline UNUSED __attribute__((always_inline)) void
version_limits_load(const VersionLimits *limits, PyThreadState *tstate)
{
    _PyThreadStateImpl *impl = (_PyThreadStateImpl *)tstate;
    impl->c_stack_top = limits->top;
    impl->c_stack_soft_limit = limits->soft;
    impl->c_stack_hard_limit = limits->hard;
}

/* Whether the limits lie where this was built to find them. They follow the public part of the thread state, which a
   later patch release may have made longer. */
static inline UNUSED bool
version_limits_found(PyThreadState *tstate)
{
    _PyThreadStateImpl *impl = (_PyThreadStateImpl *)tstate;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return impl->c_stack_hard_limit != 0 && impl->c_stack_soft_limit == impl->c_stack_hard_limit + _PyOS_STACK_MARGIN_BYTES &&
           impl->c_stack_soft_limit < here && here < impl->c_stack_top;
}

/* Whether a C call of the eval loop begins here. */
static inline bool
frame_is_entry(const _PyInterpreterFrame *frame)
{
    return frame->owner >= FRAME_OWNED_BY_INTERPRETER && !FRAME_IS_END(frame);
}

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
}

/* Which code unit the frame executes. */
static inline Py_ssize_t
frame_unit(_PyInterpreterFrame *frame)
{
    return frame->instr_ptr - (_Py_CODEUNIT *)frame_code(frame)->co_code_adaptive;
}

/* The function the frame executes; the frame owns it, or has it from the one that called it. */
static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
    return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
}

/* The generator or coroutine that a frame which says so is owned by: borrowed. */
static inline PyGenObject *
frame_generator(_PyInterpreterFrame *frame)
{
    return _PyGen_GetGeneratorFromFrame(frame);
}

/* The eval loop stores its stack pointer before it calls anything that may run Python code, with no operand below that has
   already been given away: CPython's own collectors count on that. Arguments of a call from C are copied for it. */
#define OPERANDS_STORED 1

/* Visit what a slot of a frame owns. What is tagged is no reference (empty, an integer, a wrapped pointer), or one without a
   count: to an immortal object, or borrowed from a slot of this frame or of one that called it, where it is visited. */
static inline int
slot_visit(_PyStackRef slot, visitproc visit, void *arg)
{
    if ((slot.bits & Py_TAG_BITS) == 0)
        Py_VISIT((PyObject *)slot.bits);
    return 0;
}

/* Visit what the variables and operands of a frame refer to, what they borrow too: no use for a collector. */
static inline int
frame_visit_slots(_PyInterpreterFrame *frame, visitproc visit, void *arg)
{
    for (const _PyStackRef *slot = frame->localsplus; slot < frame->stackpointer; slot++) {
        PyObject *object = (PyObject *)(slot->bits & ~(uintptr_t)Py_TAG_BITS);
        if ((slot->bits & Py_TAG_BITS) <= Py_TAG_REFCNT)
            Py_VISIT(object);
    }
    return 0;
}

/* Visit what a suspended frame owns. */
static inline int
frame_visit_stored(_PyInterpreterFrame *frame, visitproc visit, void *arg)
{
    int failed = slot_visit(frame->f_executable, visit, arg);
    if (!failed)
        failed = slot_visit(frame->f_funcobj, visit, arg);
    for (const _PyStackRef *slot = frame->localsplus; !failed && slot < frame->stackpointer; slot++)
        failed = slot_visit(*slot, visit, arg);
    if (failed)
        return failed;
    Py_VISIT(frame->frame_obj);
    Py_VISIT(frame->f_locals);
    return 0;
}

#include "fields.h"
