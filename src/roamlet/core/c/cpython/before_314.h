/* What CPython 3.11 to 3.13 have in common. */
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include "internal/pycore_code.h"
#include "internal/pycore_frame.h"

/* The generator or coroutine that a frame which says so is owned by: borrowed. */
static inline PyGenObject *
frame_generator(_PyInterpreterFrame *frame)
{
    return _PyFrame_GetGenerator(frame);
}

/* For layout.c: how many slots of a suspended frame are in use. */
#define STACK_TOP_LAYOUT LAYOUT_AT("frame.stack_top", _PyInterpreterFrame, stacktop)
