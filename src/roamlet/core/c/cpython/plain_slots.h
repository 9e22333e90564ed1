/* Up to CPython 3.13 a slot of a frame, a variable or an operand, is a reference that the frame owns, or NULL. */

typedef PyObject *Slot;

#define SLOT_EMPTY NULL
#define SLOTS_HAVE_NUMBERS 0

/* What is in the slot: borrowed, NULL when that is nothing. */
static inline PyObject *
slot_get(Slot slot)
{
    return slot;
}

/* Whether there is a number in it that is no object: an instruction, where a handler's exception was raised. Here that is an int. */
static inline bool
slot_is_number(Slot slot)
{
    (void)slot;
    return false;
}

static inline Py_ssize_t
slot_number(Slot slot)
{
    (void)slot;
    return -1;
}

/* A slot with this number; only where slots have such. */
static inline Slot
slot_of_number(Py_ssize_t number)
{
    (void)number;
    return SLOT_EMPTY;
}

/* A slot with a reference of its own to the object. */
static inline Slot
slot_new(PyObject *object)
{
    return Py_NewRef(object);
}

/* A slot with this reference, which is stolen. */
static inline Slot
slot_own(PyObject *object)
{
    return object;
}

/* A slot that is only looked at; `object` may be NULL. */
static inline Slot
slot_borrowed(PyObject *object)
{
    return object;
}

/* What was in a slot that has no owner any more: a new reference, or NULL. */
static inline PyObject *
slot_take(Slot slot)
{
    return slot;
}

/* Give up what was in a slot that has no owner any more. */
static inline void
slot_drop(Slot slot)
{
    Py_XDECREF(slot);
}

static inline void
slot_clear(Slot *slot)
{
    Py_CLEAR(*slot);
}

/* How many slots of the frame are in use; where it has not stored its stack pointer, -1. */
static inline int
frame_count(Frame *frame)
{
    return frame->stacktop;
}

static inline void
frame_set_count(Frame *frame, Py_ssize_t count)
{
    frame->stacktop = (int)count;
}

/* Take the topmost slot away, which is the caller's then. */
static inline Slot
frame_pop(Frame *frame)
{
    return frame->localsplus[--frame->stacktop];
}

/* Let the frame own its variables and its function, however it was called. */
static inline void
frame_own(Frame *frame)
{
    (void)frame;
}
