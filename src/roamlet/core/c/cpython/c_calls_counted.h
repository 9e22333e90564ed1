/* What 3.12 and 3.13 have in common: they count C calls apart from Python's, and an eval loop's entry frame lies on the C stack. */

#define RECURSION_REMAINING py_recursion_remaining
#define RECURSION_LIMIT py_recursion_limit
#define TRACED_EVENT what_event
#define NO_TRACED_EVENT (-1)
#define ENTRY_FRAMES_ON_C_STACK 1

typedef struct {
    int c_remaining; /* C calls left where tasklets start */
} VersionThread;

static inline void
version_thread(VersionThread *thread, PyThreadState *tstate)
{
    thread->c_remaining = tstate->c_recursion_remaining;
}

/* Instead: tasklets start on C stacks of their own, as threads do. */
static inline UNUSED void
version_thread_own(VersionThread *thread)
{
    thread->c_remaining = C_CALL_LIMIT;
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
