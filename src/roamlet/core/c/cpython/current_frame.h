/* Where 3.13 and later keep the running frame: in the thread state itself. A tasklet needs nothing of its own for it. */

typedef struct {
    char unused;
} VersionRoot;

/* The innermost frame of a suspended tasklet. */
static inline _PyInterpreterFrame *
version_frame(VersionFields *saved, void *(*at)(void *stack, void *place), void *stack)
{
    (void)at;
    (void)stack;
    return saved->frame;
}

static inline _PyInterpreterFrame *
tstate_frame(PyThreadState *tstate)
{
    return tstate->current_frame;
}

static inline void
tstate_set_frame(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
    tstate->current_frame = frame;
}

/* For layout.c: where a suspended tasklet keeps its innermost frame, and a thread state the running one. */
#define SAVED_FRAME_LAYOUT LAYOUT_AT("task.frame", Tasklet, sw.fields.version.frame)
#define RUNNING_FRAME_LAYOUT                                                                                              \
    LAYOUT_AT("tstate.frame", PyThreadState, current_frame), LAYOUT_AT("frame.code", _PyInterpreterFrame, f_executable),   \
        LAYOUT_AT("frame.instr", _PyInterpreterFrame, instr_ptr)

/* A call's operands are (callable, NULL) or (method, self), then the arguments. */
#define CALLABLE_BELOW_SELF 1
