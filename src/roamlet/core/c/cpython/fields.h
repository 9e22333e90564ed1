/* What a switch swaps in the thread state on every version that keeps Python frames in data-stack chunks (3.11 and
   later). The version's header names the fields that moved, through the macros and functions used here. */

/* Whether CPython compares the stack pointer with the bounds of the C stack. It then defines version_stack_limits() too. */
#ifndef C_STACK_MEASURED
#define C_STACK_MEASURED 0
#endif

#if !C_STACK_MEASURED
/* The bounds of a C stack, which CPython does not ask for. */
typedef struct {
    char unused;
} VersionLimits;
#define version_limits(limits, low, high) ((void)(high))
#define version_limits_of(limits, tstate) ((void)0)
#define version_limits_load(limits, tstate) ((void)0)
#endif

#ifndef CFRAME_IS_TRACED
/* The thread's tracing has changed, or its tasklet: only 3.11 has to be told. */
static inline void
version_resumed(PyThreadState *tstate)
{
    (void)tstate;
}
#endif

typedef struct {
    VersionFields version;
    _PyErr_StackItem *exc_info;
    PyObject *context; /* owned while the tasklet is suspended, the thread state's while it runs */
    _PyStackChunk *chunk;
    PyObject **chunk_top, **chunk_limit;
    int tracing, event; /* side by side, and written so: they are read as one word, which must not wait for two writes */
    int depth; /* of Python calls: recursion limits may change while it is suspended */
} ThreadFields;

/* Save what belongs to the running tasklet. Moves the reference to the context. */
static inline __attribute__((always_inline)) void
fields_save(ThreadFields *saved, PyThreadState *tstate)
{
    version_save(&saved->version, tstate);
    saved->depth = tstate->RECURSION_LIMIT - tstate->RECURSION_REMAINING;
    saved->exc_info = tstate->exc_info;
    saved->context = tstate->context;
    saved->chunk = tstate->datastack_chunk;
    saved->chunk_top = tstate->datastack_top;
    saved->chunk_limit = tstate->datastack_limit;
    saved->tracing = tstate->tracing;
    saved->event = tstate->TRACED_EVENT;
}

/* Put back what fields_save or fields_fresh made. */
static inline __attribute__((always_inline)) void
fields_load(ThreadFields *saved, PyThreadState *tstate)
{
    tstate->tracing = saved->tracing;
    tstate->TRACED_EVENT = saved->event;
    version_load(&saved->version, tstate);
    tstate->RECURSION_REMAINING = tstate->RECURSION_LIMIT - saved->depth;
    tstate->exc_info = saved->exc_info;
    if (tstate->context != saved->context) {
        tstate->context = saved->context;
        tstate->context_ver++; /* ContextVar caches its value by this number */
    }
    tstate->datastack_chunk = saved->chunk;
    tstate->datastack_top = saved->chunk_top;
    tstate->datastack_limit = saved->chunk_limit;
}

/* The fields of a tasklet about to start: no frame, no exception, depth 0, its frames in `chunk`.
   Steals `context`, which may be NULL. `exc_base` and `version` live in the tasklet, zeroed when it was made. */
static inline void
fields_fresh(ThreadFields *fresh, _PyErr_StackItem *exc_base, _PyStackChunk *chunk, PyObject *context)
{
    Py_CLEAR(exc_base->exc_value); /* None, where a callback handled an exception after the end of its last run */
    exc_base->previous_item = NULL;
    fresh->exc_info = exc_base;
    fresh->context = context;
    fresh->chunk = chunk;
    /* CPython unmaps a chunk when its first slot is popped: starting at the second keeps this one ours. */
    fresh->chunk_top = &chunk->data[1];
    fresh->chunk_limit = (PyObject **)((char *)chunk + chunk->size);
    fresh->tracing = 0;
    fresh->event = NO_TRACED_EVENT;
    fresh->depth = 0;
}
