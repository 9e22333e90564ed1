/* What the collector sees of a suspended tasklet: the references that its frames own.

   The rule is that no reference is visited more often than it is owned, for the collector would free what lives. One
   that is left out only keeps something alive. Which ones a frame owns is for operands.c to say, or for the version's
   header where the eval loop stores its stack pointer before every call.

   A frame object of a frame that is suspended shows its locals and does not visit them, as with suspended generators:
   holding one does not make its tasklet reachable. Should the collector go by that, the tasklet's finalizer ends it and the
   frame object takes the locals over, before anything of them is cleared. */

#ifdef OPERANDS_STORED

#if ROAMLET_SNAPSHOT_KNOWN
#include "../cpython/bytecode.h"
#endif

static int
visit_init(void)
{
    return 0;
}

static PyObject *const *
switch_iterated(const void *site)
{
    (void)site; /* never asked */
    return NULL;
}

/* Visit what one frame owns. A generator or coroutine visits all of its own frame, executing or not. */
static int
frame_visit(_PyInterpreterFrame *frame, PyObject *const *called_with, _PyInterpreterFrame *inner, visitproc visit, void *arg)
{
    (void)called_with;
    (void)inner;
    return frame->owner == FRAME_OWNED_BY_THREAD ? frame_visit_stored(frame, visit, arg) : 0;
}

#else
#include "operands.c"
#endif

/* A generator that executes in a suspended tasklet can become garbage together with it, and CPython's finalizer for it
   would complain that it is executing. Until the tasklet goes on, that finalizer counts as done. */
static bool
generator_veil(_PyInterpreterFrame *frame, bool veil)
{
    PyGC_Head *head = (PyGC_Head *)frame_generator(frame) - 1;
    if (((head->_gc_prev & _PyGC_PREV_MASK_FINALIZED) != 0) == veil)
        return false;
    head->_gc_prev ^= _PyGC_PREV_MASK_FINALIZED;
    return true;
}

/* The tasklet is about to run: its generators can be finalized again. */
static __attribute__((noinline, cold)) void
frames_unveil(SwitchState *sw)
{
    _PyInterpreterFrame *frame = version_frame(&sw->fields.version, saved_at, &sw->stack);
    while (frame != NULL) {
        _PyInterpreterFrame *read = saved_at(&sw->stack, frame);
        if (read->owner == FRAME_OWNED_BY_GENERATOR)
            (void)generator_veil(read, false);
        frame = read->previous;
    }
    sw->veiled = false;
}

static inline __attribute__((always_inline)) void
frames_go_on(SwitchState *sw)
{
    if (unlikely(sw->veiled))
        frames_unveil(sw);
}

static int
switch_traverse(Tasklet *tasklet, bool frames, visitproc visit, void *arg)
{
    SwitchState *sw = &tasklet->sw;
    PyObject *const *called_with = tasklet->operands;
    _PyInterpreterFrame *frame, *inner = NULL;
    if (tasklet->state != TASKLET_STARTED || tasklet->scheduler->current == tasklet)
        return 0;
    Py_VISIT(sw->fields.context);
    Py_VISIT(sw->exc_base.exc_value);
    if (!frames || tasklet->scheduler->over)
        return 0;
    frame = version_frame(&sw->fields.version, saved_at, &sw->stack);
    while (frame != NULL) {
        _PyInterpreterFrame *read = saved_at(&sw->stack, frame);
        int failed = frame_visit(read, called_with, inner, visit, arg);
        if (failed)
            return failed;
        if (read->owner == FRAME_OWNED_BY_GENERATOR && generator_veil(read, true))
            sw->veiled = true;
        called_with = NULL;
        if (read->owner == FRAME_OWNED_BY_THREAD || read->owner == FRAME_OWNED_BY_GENERATOR)
            inner = read;
        frame = read->previous;
    }
    return 0;
}

static int
switch_slots(Tasklet *tasklet, visitproc visit, void *arg)
{
#ifdef OPERANDS_STORED
    SwitchState *sw = &tasklet->sw;
    _PyInterpreterFrame *frame;
    if (tasklet->state != TASKLET_STARTED || tasklet->scheduler->current == tasklet)
        return 0;
    frame = version_frame(&sw->fields.version, saved_at, &sw->stack);
    while (frame != NULL) {
        _PyInterpreterFrame *read = saved_at(&sw->stack, frame);
        if (read->owner == FRAME_OWNED_BY_THREAD || read->owner == FRAME_OWNED_BY_GENERATOR) {
            int failed = frame_visit_slots(read, visit, arg);
            if (failed)
                return failed;
        }
        frame = read->previous;
    }
    return 0;
#else
    return switch_traverse(tasklet, true, visit, arg); /* nothing is borrowed */
#endif
}
