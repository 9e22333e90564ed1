/* What the watchdog sees of the running interpreter, whichever backend switches: the chain of frames, the tracing state,
   and on 3.11 the slot of the trace function. Fields of other versions are not guessed: preempt.c refuses there. */
#ifndef ROAMLET_WATCH_H
#define ROAMLET_WATCH_H

#if !ROAMLET_VERSION_KNOWN
#define WATCH_BY_TRACING 0
#define WATCH_BY_MONITORING 0
#elif PY_VERSION_HEX < 0x030C0000
#define WATCH_BY_TRACING 1
#define WATCH_BY_MONITORING 0
#else
#define WATCH_BY_TRACING 0
#define WATCH_BY_MONITORING 1
#endif

#if WATCH_BY_TRACING || WATCH_BY_MONITORING
#if PY_VERSION_HEX >= 0x030C0000 /* their headers do not compile everywhere outside of CPython */
PyAPI_FUNC(int) _PyEval_AddPendingCall(PyInterpreterState *interpreter, int (*function)(void *), void *arg, int flags);
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_instruments.h"
#endif
#include <opcode.h>

typedef struct _PyInterpreterFrame WatchFrame;

/* Whether the eval loop was entered from C here. The sentinel that ends the chains of 3.15 only looks like it, and greenlet
   leaves it out. */
static inline bool
watch_frame_is_entry(PyThreadState *tstate, const WatchFrame *frame)
{
#if PY_VERSION_HEX >= 0x030F0000
    return frame->owner >= FRAME_OWNED_BY_INTERPRETER && frame != FRAMES_END(tstate);
#else
    (void)tstate;
    return frame_is_entry(frame);
#endif
}

/* Without the GIL, in any thread: have `function` called by a thread that runs Python code, between two instructions.
   False when that cannot be had. 3.11 has pending calls for the main thread only, which is not told of them. */
static inline bool
watch_ask(int (*function)(void *))
{
#if PY_VERSION_HEX >= 0x030C0000
    return _PyEval_AddPendingCall(PyInterpreterState_Main(), function, NULL, 0) == 0;
#else
    (void)function;
    return false;
#endif
}

typedef struct {
    int tracing, event;
} WatchTracing;

/* Leave the state of "inside a callback about events", in which none are sent, for a switch out of the callback. */
static inline WatchTracing
watch_tracing_leave(PyThreadState *tstate)
{
    WatchTracing saved = {tstate->tracing, tstate->TRACED_EVENT};
    tstate->tracing = 0;
    tstate->TRACED_EVENT = NO_TRACED_EVENT;
    version_resumed(tstate);
    return saved;
}

static inline void
watch_tracing_enter(PyThreadState *tstate, WatchTracing saved)
{
    tstate->tracing = saved.tracing;
    tstate->TRACED_EVENT = saved.event;
    version_resumed(tstate);
}

/* The instruction that `frame` is in, as an index into its code. */
static inline ptrdiff_t
watch_frame_offset(const WatchFrame *frame, PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000
    return frame->instr_ptr - (_Py_CODEUNIT *)code->co_code_adaptive;
#else
    return frame->prev_instr - (_Py_CODEUNIT *)code->co_code_adaptive;
#endif
}

#if WATCH_BY_MONITORING

/* How often roamlet may change global events in a process. 3.13 and later count all changes in 24 bits, and refuse any further. */
#if PY_VERSION_HEX >= 0x030D0000
#define WATCH_CHANGES (1 << 18)
#else
#define WATCH_CHANGES INT64_MAX
#endif

/* Borrowed; NULL for frames of the interpreter's own, which cannot be instrumented. */
static inline PyCodeObject *
watch_frame_code(const WatchFrame *frame)
{
    PyCodeObject *code;
    if (frame->owner > FRAME_OWNED_BY_FRAME_OBJECT)
        return NULL;
#if PY_VERSION_HEX >= 0x030E0000
    code = (PyCodeObject *)(frame->f_executable.bits & ~(uintptr_t)3); /* a tagged pointer */
#elif PY_VERSION_HEX >= 0x030D0000
    code = (PyCodeObject *)frame->f_executable;
#else
    code = frame->f_code;
#endif
    return PyCode_Check(code) && code->_co_firsttraceable < Py_SIZE(code) ? code : NULL;
}

/* The instruction before it is specialised or instrumented; 0 when memory is out. */
static inline int
watch_base_opcode(PyCodeObject *code, ptrdiff_t index)
{
    PyObject *bytes = PyCode_GetCode(code); /* which the code object keeps */
    int opcode = bytes != NULL ? (unsigned char)PyBytes_AS_STRING(bytes)[index * (ptrdiff_t)sizeof(_Py_CODEUNIT)] : 0;
    if (bytes == NULL)
        PyErr_Clear();
    Py_XDECREF(bytes);
    return opcode;
}

/* Whether `frame`, which runs, is in an instruction that advances a generator: a for loop, yield from or await. */
static inline bool
watch_frame_iterates(const WatchFrame *frame)
{
    PyCodeObject *code = watch_frame_code(frame);
    _Py_CODEUNIT *instructions;
    ptrdiff_t index;
    int opcode;
    if (code == NULL)
        return false;
    instructions = (_Py_CODEUNIT *)code->co_code_adaptive;
    index = watch_frame_offset(frame, code);
    if (index < 0 || index >= Py_SIZE(code))
        return false;
    opcode = instructions[index].op.code;
    if (opcode == INSTRUMENTED_INSTRUCTION) /* where ours are counted: without a copy of the code */
        opcode = code->_co_monitoring->per_instruction_opcodes[index];
    if (opcode != FOR_ITER && opcode != SEND)
        opcode = watch_base_opcode(code, index);
    return opcode == FOR_ITER || opcode == SEND;
}

/* Whether the frame that the eval loop was entered for is a generator's that a Python frame advances. */
static inline bool
watch_entry_iterates(const WatchFrame *entry, const WatchFrame *inner)
{
    return inner != NULL && inner->owner == FRAME_OWNED_BY_GENERATOR && entry->previous != NULL &&
           watch_frame_iterates(entry->previous);
}

/* Whether the tool has local INSTRUCTION events in this code already. */
static inline bool
watch_code_armed(PyCodeObject *code, int tool)
{
    enum { INSTRUCTION = 6 };
    return code->_co_monitoring != NULL && (code->_co_monitoring->local_monitors.tools[INSTRUCTION] >> tool & 1) != 0;
}

#else /* WATCH_BY_TRACING */

static inline PyCodeObject *
watch_frame_code(const WatchFrame *frame)
{
    return frame->f_code;
}

static inline bool
watch_frame_iterates(const WatchFrame *frame)
{
    int opcode = _Py_OPCODE(*frame->prev_instr);
    return opcode == FOR_ITER || opcode == SEND;
}

/* An entry frame is itself the Python frame that was entered. */
static inline bool
watch_entry_iterates(const WatchFrame *entry, const WatchFrame *inner)
{
    (void)inner;
    return entry->owner == FRAME_OWNED_BY_GENERATOR && entry->previous != NULL && watch_frame_iterates(entry->previous);
}

/* f_trace_opcodes of a frame is true for any value but 0: this one says that it was us, so that the user's trace function
   gets no opcode events that it did not ask for. */
#define WATCH_OPCODES 2
#define WATCH_FRAME_OPCODES(frame) ((frame)->f_trace_opcodes)

#endif
#endif
#endif
