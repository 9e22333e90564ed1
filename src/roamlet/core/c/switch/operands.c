/* What a suspended frame owns on CPython 3.11 to 3.13, where the eval loop keeps the stack pointer in a register while an
   instruction calls C. Locals are always visited, operands where it is certain which ones the frame still owns:

   - The eval loop has stored the stack pointer: all below it (calls between Python functions).
   - The tasklet waits in a method of ours that the innermost frame called: its arguments lie on that frame's operand
     stack, or its return address is that of the FOR_ITER instruction. Then the instruction is in its own call, and what it
     takes off the stack afterwards is still there.
   - A FOR_ITER or SEND executes a generator: neither drops it before it has ended.
   - Elsewhere, in a call from C: what lies below the operands of the instruction. The frame may also be dropping operands
     because of an exception; then it is in a traceback and so has a frame object. */

#include "../cpython/bytecode.h"

/* ---- FOR_ITER over a channel ---- */

#define SITES 4
static const void *for_iter_sites[SITES]; /* return addresses of calls that FOR_ITER makes */

typedef struct {
    PyObject_HEAD
    int left;
} Probe;

static PyObject *
Probe_next(PyObject *self)
{
    const void *site = __builtin_return_address(0);
    for (int i = 0; i < SITES && for_iter_sites[i] != site; i++)
        if (for_iter_sites[i] == NULL)
            for_iter_sites[i] = site;
    return ((Probe *)self)->left-- > 0 ? Py_NewRef(Py_None) : NULL;
}

static PyTypeObject Probe_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.core.Probe",
    .tp_basicsize = sizeof(Probe),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = Probe_next,
};

/* Learn from where FOR_ITER calls an iterator: both before and after it has tried to specialise. -1 with an exception set. */
static int
visit_init(void)
{
    Probe *probe = PyType_Ready(&Probe_Type) == 0 ? PyObject_New(Probe, &Probe_Type) : NULL;
    PyObject *names = probe != NULL ? Py_BuildValue("{sO}", "probe", probe) : NULL, *done = NULL;
    if (names != NULL) {
        probe->left = 100;
        done = PyRun_String("for _ in probe: pass", Py_file_input, names, names);
    }
    Py_XDECREF(done);
    Py_XDECREF(names);
    Py_XDECREF(probe);
    return done != NULL ? 0 : -1;
}

static PyObject *const iterated[1]; /* in place of arguments: FOR_ITER has made the call */

static PyObject *const *
switch_iterated(const void *site)
{
    for (int i = 0; i < SITES && for_iter_sites[i] != NULL; i++)
        if (for_iter_sites[i] == site)
            return iterated;
    return NULL;
}

/* ---- frames ---- */

/* Slots of a frame, from its first local on: [0, count) without [skip, skip_end). */
typedef struct {
    Py_ssize_t count, skip, skip_end;
} Slots;

/* Of a call in progress: leave out the slot before its arguments. A function that is called by vectorcall may keep something
   that it does not own there meanwhile. */
static void
slots_of_call(Slots *slots, PyObject **stack, Py_ssize_t first_argument, Py_ssize_t locals)
{
    PyObject *below = stack[first_argument - 2], *self = stack[first_argument - 1];
    Py_ssize_t skip = first_argument - 1, skip_end = first_argument;
#if CALLABLE_BELOW_SELF
    if (self == NULL) /* called without self: the slot is empty, or was */
        skip_end = skip;
    else {
        skip--;
        if (below != NULL && PyType_HasFeature(Py_TYPE(below), Py_TPFLAGS_METHOD_DESCRIPTOR))
            skip_end--;
    }
#else
    (void)self;
    if (below != NULL) {
        skip--;
        skip_end--;
    }
#endif
    slots->skip = locals + skip;
    slots->skip_end = locals + skip_end;
}

/* Whether the frame executes an instruction that runs the generator which `inner`, the frame it has called, belongs to. */
static bool
frame_iterates(_PyInterpreterFrame *frame, const Place *place, _PyInterpreterFrame *inner)
{
    return (place->kind == PLACE_FOR_ITER || place->kind == PLACE_SEND) && inner != NULL &&
           inner->owner == FRAME_OWNED_BY_GENERATOR &&
           frame->localsplus[frame_code(frame)->co_nlocalsplus + place->below] == (PyObject *)frame_generator(inner);
}

/* Which slots the frame owns for certain while its stack pointer is in a register. `called_with`: where the arguments of
   the call end that suspended the tasklet, if they are known and this is the innermost frame. `inner`: the next one, or
   NULL if it is. */
static Slots
frame_slots(_PyInterpreterFrame *frame, PyObject *const *called_with, _PyInterpreterFrame *inner)
{
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t locals = code->co_nlocalsplus;
    PyObject **stack = frame->localsplus + locals;
    Slots slots = {.count = locals};
    const Place *place;
    bool calls;
    if (called_with == NULL && inner == NULL && frame->frame_obj != NULL) /* it may be dropping operands */
        return slots;
    if ((place = code_place(code, frame_unit(frame))) == NULL || place->below < 0)
        return slots;
    calls = (place->kind == PLACE_CALL || place->kind == PLACE_CALL_NAMES) && called_with >= stack + place->below + 2 &&
            called_with <= stack + place->depth;
    if (calls)
        slots_of_call(&slots, stack, place->below + 2, locals);
    if (calls || (place->kind == PLACE_FOR_ITER && called_with == iterated))
        slots.count += place->depth;
    else if (frame_iterates(frame, place, inner))
        slots.count += place->below + 1;
    else if (frame->frame_obj == NULL)
        slots.count += place->below;
    return slots;
}

/* Visit what one frame owns. What a generator or coroutine visits of its own frame is left to it. */
static int
frame_visit(_PyInterpreterFrame *frame, PyObject *const *called_with, _PyInterpreterFrame *inner, visitproc visit, void *arg)
{
    Slots slots = {.count = frame->stacktop};
    if (frame->owner == FRAME_OWNED_BY_THREAD) {
        Py_VISIT(frame->frame_obj);
        Py_VISIT(frame->f_locals);
        Py_VISIT(frame_function(frame));
        Py_VISIT((PyObject *)frame_code(frame));
    } else if (frame->owner != FRAME_OWNED_BY_GENERATOR || slots.count >= 0)
        return 0;
    if (slots.count < 0)
        slots = frame_slots(frame, called_with, inner);
    for (Py_ssize_t i = 0; i < slots.count; i++)
        if (i < slots.skip || i >= slots.skip_end)
            Py_VISIT(frame->localsplus[i]);
    return 0;
}
