/* Reading and building Python frames, for roamlet.snapshot: what differs between 3.11 and 3.15. It compiles anywhere;
   ROAMLET_SNAPSHOT_KNOWN says whether the rest is there. */
#ifndef ROAMLET_CPYTHON_SNAPSHOT_H
#define ROAMLET_CPYTHON_SNAPSHOT_H

#if ROAMLET_VERSION_KNOWN && PY_VERSION_HEX < 0x03100000
#define ROAMLET_SNAPSHOT_KNOWN 1
#else
#define ROAMLET_SNAPSHOT_KNOWN 0
#endif

#if ROAMLET_SNAPSHOT_KNOWN
#include <opcode.h>
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_setobject.h" /* _PySet_NextEntry() */
#endif

typedef struct _PyInterpreterFrame Frame;

/* Before 3.13 a frame keeps the instruction that it executed last, and a value that is returned to it goes to the next one;
   from 3.13 on the instruction that it executes, and the distance to the next one. */
#if PY_VERSION_HEX >= 0x030D0000
#define FRAME_AT(frame) ((frame)->instr_ptr)
#define FRAME_KEEPS_NEXT 1
#else
#define FRAME_AT(frame) ((frame)->prev_instr)
#define FRAME_KEEPS_NEXT 0
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define FRAME_HAS_OFFSET 1 /* return_offset: what a generator's end skips in the loop that runs it */
#else
#define FRAME_HAS_OFFSET 0
#endif

static inline int
frame_offset(Frame *frame)
{
#if FRAME_HAS_OFFSET
    return frame->return_offset;
#else
    (void)frame;
    return 0;
#endif
}

static inline void
frame_set_offset(Frame *frame, int offset)
{
#if FRAME_HAS_OFFSET
    frame->return_offset = (uint16_t)offset;
#else
    (void)frame;
    (void)offset;
#endif
}

#if PY_VERSION_HEX >= 0x030E0000
#include "tagged_slots.h"
#else
#include "plain_slots.h"
#endif

/* Let the frame have this code, whose reference is stolen; that to the one before is dropped. */
static inline void
frame_set_code(Frame *frame, PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030E0000
    _PyStackRef before = frame->f_executable;
    frame->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
    PyStackRef_CLOSE(before);
#else
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *before = frame->f_executable;
    frame->f_executable = (PyObject *)code;
#else
    PyObject *before = (PyObject *)frame->f_code;
    frame->f_code = code;
#endif
    Py_DECREF(before);
#endif
}

/* How much of the data stack a frame of this code takes, in words. */
static inline Py_ssize_t
frame_words(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return code->co_framesize;
#else
    return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
#endif
}

/* Make a frame of `function` in fresh memory, with empty slots and no operands. */
static inline void
frame_begin(Frame *frame, PyFunctionObject *function)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
#if PY_VERSION_HEX >= 0x030E0000
    _PyFrame_Initialize(NULL, frame, PyStackRef_FromPyObjectNew(function), NULL, code, 0, NULL);
#else
    Py_INCREF(function);
#if PY_VERSION_HEX >= 0x030C0000
    _PyFrame_Initialize(frame, function, NULL, code, 0);
#else
    _PyFrame_InitializeSpecials(frame, function, NULL, code->co_nlocalsplus);
    for (int i = 0; i < code->co_nlocalsplus; i++)
        frame->localsplus[i] = NULL;
#endif
#endif
}

/* Drop all that a frame holds which is no generator's: what is left is memory. Runs code of finalizers. */
static inline void
frame_drop(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    _PyStackRef function = frame->f_funcobj, code = frame->f_executable;
#else
    PyObject *function = frame_function(frame), *code = (PyObject *)frame_code(frame);
#endif
    assert(frame->frame_obj == NULL);
    while (frame_count(frame) > 0)
        slot_drop(frame_pop(frame));
#if PY_VERSION_HEX >= 0x030E0000
    PyStackRef_XCLOSE(function);
    PyStackRef_CLOSE(code);
#else
    Py_XDECREF(function);
    Py_DECREF(code);
#endif
}

/* The frame goes without having returned: a profiler that has seen it last must not take another one in its place for it. */
static inline void
frame_forget(PyThreadState *tstate, Frame *frame)
{
#if PY_VERSION_HEX >= 0x030F0000
    _PyThreadState_UpdateLastProfiledFrame(tstate, frame, frame->previous);
#else
    (void)tstate;
    (void)frame;
#endif
}

/* A generator's own frame. */
static inline Frame *
generator_frame(PyGenObject *generator)
{
#if PY_VERSION_HEX >= 0x030E0000
    return &generator->gi_iframe;
#else
    return (Frame *)generator->gi_iframe;
#endif
}

static inline bool
generator_is_new(PyGenObject *generator)
{
    return generator->gi_frame_state == FRAME_CREATED;
}

static inline bool
generator_executes(PyGenObject *generator)
{
    return generator->gi_frame_state == FRAME_EXECUTING;
}

static inline bool
generator_is_over(PyGenObject *generator)
{
    return generator->gi_frame_state >= FINISHED_STATE;
}

/* The state of a generator that waits in a yield, as a number of this version. */
static inline int
generator_state(PyGenObject *generator)
{
    return generator->gi_frame_state;
}

/* The state of one that waits in this instruction, a YIELD_VALUE, or has not begun: that is RETURN_GENERATOR. */
static inline int
generator_state_in(int opcode, int oparg)
{
    if (opcode == RETURN_GENERATOR)
        return FRAME_CREATED;
#if PY_VERSION_HEX >= 0x030D0000
    return FRAME_SUSPENDED + (oparg & 1); /* 1: in a `yield from` or `await` */
#else
    (void)oparg;
    return FRAME_SUSPENDED;
#endif
}

static inline void
generator_set_state(PyGenObject *generator, int state)
{
    generator->gi_frame_state = (int8_t)state;
}

/* End one that waits in a yield, or has not begun, without running any of its code. Drops what it holds, at the latest with itself: runs code
   of finalizers. */
static inline void
generator_end(PyGenObject *generator)
{
    generator_set_state(generator, FINISHED_STATE);
#if PY_VERSION_HEX >= 0x030F0000 /* before, a state of its own says that the frame is still to be cleared */
    generator_frame(generator)->previous = NULL;
    _PyFrame_ClearExceptCode(generator_frame(generator));
    Py_CLEAR(generator->gi_exc_state.exc_value);
#endif
}

/* On 3.13 a call that was specialised for list.append() looks at its self, which the descriptor may have been called without. */
#define APPEND_NEEDS_SELF (PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000)

#if !ENTRY_FRAMES_ON_C_STACK
#define GENERATORS_BLOCK 0 /* the eval loop is entered from C for each value of a generator */
#else
#define GENERATORS_BLOCK 1
#endif

/* How a `with` block begins. Up to 3.13 one instruction looks the methods up and calls __enter__; from 3.14 on __enter__ is called by
   the instruction that calls everything else, and the block keeps the function __exit__ and its first argument, or NULL. */
#ifdef BEFORE_WITH
#define ENTERS_WITH BEFORE_WITH
#define WITH_OPERANDS 1
#else
#define ENTERS_WITH INT_MAX
#define WITH_OPERANDS 2
#endif

/* How many operands WITH_EXCEPT_START finds from __exit__ on: that, the exception, the one before it, and where it was raised. */
#define WITH_EXCEPT_OPERANDS (3 + WITH_OPERANDS)

/* A number that changes whenever the dictionary does; 0: this version has none. */
static inline uint64_t
dict_version(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030E0000
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    return ((PyDictObject *)dict)->ma_version_tag;
    _Py_COMP_DIAG_POP
#else
    (void)dict;
    return 0;
#endif
}

/* Whether calls of Python functions stay in the interpreter's loop: not with a PEP 523 frame evaluator. */
static inline bool
calls_are_inlined(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == _PyEval_EvalFrameDefault;
}

#endif
#endif
