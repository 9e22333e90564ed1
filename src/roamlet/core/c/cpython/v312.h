/* CPython 3.12: separate counters for Python and C recursion; an eval loop's entry frame lies on the C stack. */
#include "before_314.h"

#define C_CALL_LIMIT C_RECURSION_LIMIT
#define ENTRY_FRAME_OWNER FRAME_OWNED_BY_CSTACK /* for layout.c: from this one on, a frame is no Python function's */
#define CODE_TAGS 0
/* A bit field of `_status`: initialized, bound, unbound, bound_gilstate, active. */
#define GIL_LAYOUT LAYOUT_AT("tstate.gil", PyThreadState, _status), {"tstate.gil_mask", 16}, {"tstate.gil_value", 16},
#define GIL_ADDRESSES

typedef struct {
    _PyCFrame *cframe;
    int c_remaining;
    int trash_nesting;
} VersionFields;

#include "cframe.h"
#include "c_calls_counted.h"

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
version_fresh(VersionFields *fresh, VersionRoot *root, VersionThread *thread, PyThreadState *tstate)
{
    root->cframe.current_frame = NULL;
    root->cframe.previous = &tstate->root_cframe;
    fresh->cframe = &root->cframe;
    fresh->c_remaining = thread->c_remaining;
    fresh->trash_nesting = 0;
}

#include "fields.h"
