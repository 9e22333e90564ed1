/* CPython 3.12: separate counters for Python and C recursion; an eval loop's entry frame lies on the C stack. */
#include "before_314.h"

#define RECURSION_REMAINING py_recursion_remaining
#define RECURSION_LIMIT py_recursion_limit
#define TRACED_EVENT what_event
#define NO_TRACED_EVENT (-1)
#define ENTRY_FRAMES_ON_C_STACK 1

typedef struct {
    _PyCFrame *cframe;
    int c_remaining;
    int trash_nesting;
} VersionFields;

#include "cframe.h"

typedef struct {
    int c_remaining; /* C calls left where tasklets start */
} VersionThread;

static inline __attribute__((always_inline)) void
version_save(VersionFields *saved, PyThreadState *tstate)
{
    saved->cframe = tstate->cframe;
    saved->c_remaining = tstate->c_recursion_remaining;
    saved->trash_nesting = tstate->trash.delete_nesting;
}

static inline __attribute__((always_inline)) void
version_load(VersionFields *saved, PyThreadState *tstate)
{
    tstate->cframe = saved->cframe;
    tstate->c_recursion_remaining = saved->c_remaining;
    tstate->trash.delete_nesting = saved->trash_nesting;
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
    thread->c_remaining = C_RECURSION_LIMIT;
}

static inline void
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    root->cframe.current_frame = NULL;
    root->cframe.previous = &tstate->root_cframe;
    fresh->cframe = &root->cframe;
    fresh->c_remaining = thread->c_remaining;
    fresh->trash_nesting = 0;
}

/* Whether a C call of the eval loop begins here. */
static inline bool
frame_is_entry(const _PyInterpreterFrame *frame)
{
    return frame->owner == FRAME_OWNED_BY_CSTACK;
}

/* The function the frame executes; the frame owns it. */
static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
    return (PyObject *)frame->f_funcobj;
}

#include "fields.h"
