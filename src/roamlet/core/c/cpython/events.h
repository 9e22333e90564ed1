/* Keeping the code of suspended frames up to date with the events that sys.settrace(), sys.setprofile() and sys.monitoring ask for.
   CPython does that for all frames that run in some thread when events change, and for others when they are entered. A suspended
   frame goes on in the middle: from 3.15 on CPython crashes where one with older code raises. */
#ifndef ROAMLET_EVENTS_H
#define ROAMLET_EVENTS_H

#if ROAMLET_VERSION_KNOWN && PY_VERSION_HEX >= 0x030F0000
#define EVENTS_FOLLOWED 1

PyAPI_FUNC(int) _Py_Instrument(PyCodeObject *code, PyInterpreterState *interpreter);

#define EVENTS_BITS 8 /* of the thread's requests, below the number of the last change of events */

/* A number that changes with the events of the interpreter. */
static inline uint32_t
tstate_events(PyThreadState *tstate)
{
    return (uint32_t)(__atomic_load_n(&tstate->eval_breaker, __ATOMIC_RELAXED) >> EVENTS_BITS);
}

/* Put the events into the code, for a frame that is to go on in the middle of it. Runs no Python code. -1 with a MemoryError set. */
static inline int
code_follow_events(PyCodeObject *code)
{
    return _Py_Instrument(code, PyInterpreterState_Get());
}

/* Put the events into the code of all frames that run in this thread. Runs no Python code. -1 with a MemoryError set. */
static inline int
frames_follow_events(PyThreadState *tstate)
{
    for (struct _PyInterpreterFrame *frame = tstate->current_frame; frame != NULL; frame = frame->previous)
        if (frame->owner < FRAME_OWNED_BY_INTERPRETER && _Py_Instrument(frame_code(frame), tstate->interp) < 0)
            return -1;
    return 0;
}

#else
#define EVENTS_FOLLOWED 0

static inline int
code_follow_events(PyCodeObject *code)
{
    (void)code;
    return 0;
}
#endif
#endif
