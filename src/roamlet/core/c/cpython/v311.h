/* CPython 3.11: frames hang off a _PyCFrame on the C stack; one recursion counter; entry frames are on the data stack. */
#include "before_314.h"
#undef _PyGC_FINALIZED /* defined for those who do not include pycore_gc.h */
#include "internal/pycore_runtime.h"

/* What was given a public name in 3.12. */
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra

#define RECURSION_REMAINING recursion_remaining
#define RECURSION_LIMIT recursion_limit
#define TRACED_EVENT tracing_what
#define NO_TRACED_EVENT 0
#define ENTRY_FRAMES_ON_C_STACK 0
#define CFRAME_IS_TRACED 1
#define ENTRY_FRAME_OWNER 255 /* for layout.c: from this one on, a frame is no Python function's */
#define CODE_TAGS 0
#define GIL_LAYOUT
#define GIL_ADDRESSES {"gil_holder", &_PyRuntime.gilstate.tstate_current}, /* a thread state */

typedef struct {
    _PyCFrame *cframe;
    int trash_nesting;
} VersionFields;

#include "cframe.h"
#include "c_calls_not_counted.h"

static inline __attribute__((always_inline)) void
version_save(VersionFields *saved, PyThreadState *tstate)
{
    saved->cframe = tstate->cframe;
    saved->trash_nesting = tstate->trash_delete_nesting;
}

static inline __attribute__((always_inline)) void
version_load(VersionFields *saved, PyThreadState *tstate)
{
    tstate->cframe = saved->cframe;
    tstate->trash_delete_nesting = saved->trash_nesting;
}

/* The eval loop looks at c_tracefunc only while the innermost _PyCFrame says so. That is in each cframe, but tracing is the
   thread's: a frame suspended before settrace() must see it. Not before the tasklet's C stack is back, for its cframe lies there. */
static inline __attribute__((always_inline)) void
version_resumed(PyThreadState *tstate)
{
    bool traced = tstate->tracing == 0 && (tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL);
    tstate->cframe->use_tracing = traced ? 255 : 0;
}

static inline void
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    (void)thread;
    root->cframe.use_tracing = tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL ? 255 : 0;
    root->cframe.current_frame = NULL;
    root->cframe.previous = &tstate->root_cframe;
    fresh->cframe = &root->cframe;
    fresh->trash_nesting = 0;
}

/* Whether a C call of the eval loop begins here. */
static inline bool
frame_is_entry(const _PyInterpreterFrame *frame)
{
    return frame->is_entry;
}

/* The function the frame executes; the frame owns it. */
static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
    return (PyObject *)frame->f_func;
}

#include "fields.h"
