/* CPython 3.13: the current frame is in the thread state itself; the trashcan has no nesting counter. */
#include "before_314.h"

#define C_CALL_LIMIT Py_C_RECURSION_LIMIT
#define ENTRY_FRAME_OWNER FRAME_OWNED_BY_CSTACK /* for layout.c: from this one on, a frame is no Python function's */
#define CODE_TAGS 0
/* 1 is _Py_THREAD_ATTACHED. */
#define GIL_LAYOUT LAYOUT_AT("tstate.gil", PyThreadState, state), {"tstate.gil_mask", 255}, {"tstate.gil_value", 1},
#define GIL_ADDRESSES

typedef struct {
    struct _PyInterpreterFrame *frame;
    int c_remaining;
} VersionFields;

#include "current_frame.h"
#include "c_calls_counted.h"

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
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    (void)root;
    (void)tstate;
    fresh->frame = NULL;
    fresh->c_remaining = thread->c_remaining;
}

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
    return (PyCodeObject *)frame->f_executable;
}

/* Which code unit the frame executes, while the stack pointer is in a register. */
static inline Py_ssize_t
frame_unit(_PyInterpreterFrame *frame)
{
    return frame->instr_ptr - _PyCode_CODE(frame_code(frame));
}

#include "fields.h"
