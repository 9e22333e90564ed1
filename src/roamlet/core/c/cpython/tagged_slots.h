/* From CPython 3.14 on a slot of a frame, a variable or an operand, is a pointer with two bits of tags. A slot owns its reference, or
   has none to count: to an immortal object, or borrowed from another slot which outlives it, of this frame or, as an argument, of
   a frame that called it. A slot can also hold a number that is no object: which instruction has raised the exception that a handler
   has, to be found below that. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_frame.h"
#include "internal/pycore_interpframe.h"
#pragma GCC diagnostic pop

typedef _PyStackRef Slot;

#define SLOT_EMPTY PyStackRef_NULL
#define SLOTS_HAVE_NUMBERS 1

/* Whether there is a number in it that is no object. */
static inline bool
slot_is_number(Slot slot)
{
    return PyStackRef_IsTaggedInt(slot);
}

static inline Py_ssize_t
slot_number(Slot slot)
{
    return PyStackRef_UntagInt(slot);
}

/* A slot with this number. */
static inline Slot
slot_of_number(Py_ssize_t number)
{
    return PyStackRef_TagInt(number);
}

/* What is in the slot: borrowed, NULL when that is nothing or a number. */
static inline PyObject *
slot_get(Slot slot)
{
    return PyStackRef_IsNull(slot) || slot_is_number(slot) ? NULL : PyStackRef_AsPyObjectBorrow(slot);
}

/* A slot with a reference of its own to the object. */
static inline Slot
slot_new(PyObject *object)
{
    return PyStackRef_FromPyObjectNew(object);
}

/* A slot with this reference, which is stolen. */
static inline Slot
slot_own(PyObject *object)
{
    return PyStackRef_FromPyObjectSteal(object);
}

/* A slot that is only looked at; `object` may be NULL. */
static inline Slot
slot_borrowed(PyObject *object)
{
    return object != NULL ? PyStackRef_FromPyObjectBorrow(object) : SLOT_EMPTY;
}

/* What was in a slot that has no owner any more, and is no number: a new reference, or NULL. */
static inline PyObject *
slot_take(Slot slot)
{
    return PyStackRef_IsNull(slot) ? NULL : PyStackRef_AsPyObjectSteal(slot);
}

/* Give up what was in a slot that has no owner any more. */
static inline void
slot_drop(Slot slot)
{
    PyStackRef_XCLOSE(slot);
}

static inline void
slot_clear(Slot *slot)
{
    PyStackRef_CLEAR(*slot);
}

/* How many slots of the frame are in use. */
static inline int
frame_count(Frame *frame)
{
    return (int)(frame->stackpointer - frame->localsplus);
}

static inline void
frame_set_count(Frame *frame, Py_ssize_t count)
{
    frame->stackpointer = frame->localsplus + count;
}

/* Take the topmost slot away, which is the caller's then. */
static inline Slot
frame_pop(Frame *frame)
{
    return *--frame->stackpointer;
}

/* Let the frame own its variables and its function, however it was called. Its operands may be in the hands of the instruction
   that it executes; what they have borrowed, they have from its variables. */
static inline void
frame_own(Frame *frame)
{
    int variables = frame_code(frame)->co_nlocalsplus;
    frame->f_funcobj = PyStackRef_MakeHeapSafe(frame->f_funcobj);
    for (int i = 0; i < variables; i++)
        frame->localsplus[i] = PyStackRef_MakeHeapSafe(frame->localsplus[i]);
}
