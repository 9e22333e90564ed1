/* What 3.11 and 3.12 have in common: above all where they keep the running frame, in a _PyCFrame on the C stack that the thread
   state points to. A tasklet has a bottommost one of its own. */

typedef struct {
    _PyCFrame cframe; /* the bottom of a tasklet's chain of cframes */
} VersionRoot;

/* The innermost frame of a suspended tasklet. `at` gives the place where something of its C stack can be read now. */
static inline _PyInterpreterFrame *
version_frame(VersionFields *saved, void *(*at)(void *stack, void *place), void *stack)
{
    return ((_PyCFrame *)at(stack, saved->cframe))->current_frame;
}

static inline _PyInterpreterFrame *
tstate_frame(PyThreadState *tstate)
{
    return tstate->cframe->current_frame;
}

static inline void
tstate_set_frame(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
    tstate->cframe->current_frame = frame;
}

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
    return frame->f_code;
}

/* Which code unit the frame executes, while the stack pointer is in a register. */
static inline Py_ssize_t
frame_unit(_PyInterpreterFrame *frame)
{
    return frame->prev_instr - _PyCode_CODE(frame_code(frame));
}

/* For layout.c: where a suspended tasklet keeps its innermost frame, and a thread state the running one. */
#define SAVED_FRAME_LAYOUT LAYOUT_AT("task.cframe", Tasklet, sw.fields.version.cframe)
#define RUNNING_FRAME_LAYOUT                                                                                              \
    LAYOUT_AT("tstate.cframe", PyThreadState, cframe), LAYOUT_AT("cframe.frame", _PyCFrame, current_frame),               \
        LAYOUT_AT("frame.code", _PyInterpreterFrame, f_code), LAYOUT_AT("frame.instr", _PyInterpreterFrame, prev_instr)

/* A call's operands are (NULL, callable) or (method, self), then the arguments. */
#define CALLABLE_BELOW_SELF 0
