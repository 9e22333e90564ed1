/* CPython 3.13: the current frame is in the thread state itself; the trashcan has no nesting counter. */
#include "before_314.h"

#define RECURSION_REMAINING py_recursion_remaining
#define RECURSION_LIMIT py_recursion_limit
#define TRACED_EVENT what_event
#define NO_TRACED_EVENT (-1)
#define ENTRY_FRAMES_ON_C_STACK 1

typedef struct {
    struct _PyInterpreterFrame *frame;
    int c_remaining;
} VersionFields;

#include "current_frame.h"

typedef struct {
    int c_remaining; /* C calls left where tasklets start */
} VersionThread;

static inline __attribute__((always_inline)) void
version_save(VersionFields *saved, PyThreadState *tstate)
{
    saved->frame = tstate->current_frame;
    saved->c_remaining = tstate->c_recursion_remaining;
}

static inline __attribute__((always_inline)) void
version_load(VersionFields *saved, PyThreadState *tstate)
{
    tstate->current_frame = saved->frame;
    tstate->c_recursion_remaining = saved->c_remaining;
}

static inline void
version_thread(VersionThread *thread, PyThreadState *tstate)
{
    thread->c_remaining = tstate->c_recursion_remaining;
}

/* Instead: tasklets start on C stacks of their own, as threads do. */
static inline UNUSED void
version_thread_own(VersionThread *thread)
{
    thread->c_remaining = Py_C_RECURSION_LIMIT;
}

static inline void
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    (void)root;
    (void)tstate;
    fresh->frame = NULL;
    fresh->c_remaining = thread->c_remaining;
}

/* Whether a C call of the eval loop begins here. */
static inline bool
frame_is_entry(const _PyInterpreterFrame *frame)
{
    return frame->owner == FRAME_OWNED_BY_CSTACK;
}

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
    return (PyCodeObject *)frame->f_executable;
}

/* The function the frame executes; the frame owns it. */
static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
    return (PyObject *)frame->f_funcobj;
}

/* Which code unit the frame executes, while the stack pointer is in a register. */
static inline Py_ssize_t
frame_unit(_PyInterpreterFrame *frame)
{
    return frame->instr_ptr - _PyCode_CODE(frame_code(frame));
}

/* A call's operands are (callable, NULL) or (method, self), then the arguments. */
#define CALLABLE_BELOW_SELF 1

#include "fields.h"
