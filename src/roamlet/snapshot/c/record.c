/* What is saved of one frame: a record. And what is said of a frame that cannot be saved. */

typedef struct {
    PyObject *tasklet;
    RoamletState state;
    PyObject *records; /* owned: a list, the innermost first */
    Frame *inner;      /* the frame before, and whether C called it */
    bool inner_from_c;
    bool restored;     /* its outermost frame is one of ours */
    Py_ssize_t before; /* the innermost frame goes on before this unit, taking no value; -1: it takes one */
    Py_ssize_t end;    /* where its loop over a channel ends; -1: it is in none */
    PyObject *returns; /* owned: what its call returns without a value: None, 1 for the tasklet, or a tuple of it */
} Capture;

/* Let what is saved of the bridge's tasklet be what it was restored from. -1 with an exception set. */
static int
capture_ticket(Capture *capture, PyObject *object)
{
    Ticket *ticket = (Ticket *)object;
    if (object == NULL || !Py_IS_TYPE(object, ticket_type) || !ticket->spliced) {
        PyErr_SetString(PyExc_SystemError, "roamlet.snapshot: a restored tasklet without its ticket");
        return -1;
    }
    capture->before = ticket->before;
    capture->end = ticket->end;
    Py_SETREF(capture->returns, Py_NewRef(ticket->returns));
    return 0;
}

/* Set CannotSave. -1. */
static int
refuse(Capture *capture, const char *format, ...)
{
    va_list arguments;
    PyObject *why;
    va_start(arguments, format);
    why = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (why != NULL)
        PyErr_Format(CannotSave, "cannot save %R: %U", capture->tasklet, why);
    Py_XDECREF(why);
    return -1;
}

/* "name (file, line n)" of a frame, for messages: a new reference, or NULL with an exception set. */
static PyObject *
frame_place(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t unit = frame_position(frame);
    int line = PyCode_Addr2Line(code, unit < 0 ? 0 : (int)(unit * (Py_ssize_t)sizeof(_Py_CODEUNIT)));
    return PyUnicode_FromFormat("%U (%U, line %d)", code->co_qualname, code->co_filename, line);
}

/* Refuse because of a frame: `format` names its place as %U, and then perhaps `object`, borrowed, as %R. -1. */
static int
refuse_frame(Capture *capture, Frame *frame, const char *format, PyObject *object)
{
    PyObject *place = frame_place(frame);
    Py_XINCREF(object);
    if (place != NULL)
        refuse(capture, format, place, object);
    Py_XDECREF(object);
    Py_XDECREF(place);
    return -1;
}

/* Refuse because of what stands between two frames: the call of `callable`, or else `what` in words. -1. */
static int
refuse_boundary(Capture *capture, Frame *frame, PyObject *callable, const char *words)
{
    PyObject *outer = frame_place(frame), *inner = frame_place(capture->inner), *what;
    Py_XINCREF(callable);
    what = callable != NULL ? PyUnicode_FromFormat("the call of %R", callable) : PyUnicode_FromString(words);
    Py_XDECREF(callable); /* its repr() has run code: the frames are not looked at again */
    if (what != NULL && outer != NULL && inner != NULL)
        refuse(capture, "%U in %U has called %U from C, and what C code was about to do next cannot be saved. Let the tasklet "
                        "block elsewhere, or call this function in a loop of its own", what, outer, inner);
    Py_XDECREF(what);
    Py_XDECREF(outer);
    Py_XDECREF(inner);
    return -1;
}

/* A record of a frame of `function`: at `unit`, the first `count` slots, for a generator also that and what it handles. */
static int
record_add(Capture *capture, PyObject *function, Py_ssize_t unit, int offset, const Slot *slots, Py_ssize_t count, PyGenObject *generator)
{
    PyObject *nulls, *saved = slots_save(slots, count, &nulls), *record;
    int failed;
    if (saved == NULL)
        return -1;
    if (generator == NULL)
        record = Py_BuildValue("(OniNN)", function, unit, offset, nulls, saved);
    else {
        PyObject *handled = generator->gi_exc_state.exc_value;
        record = Py_BuildValue("(OniNNOO)", function, unit, offset, nulls, saved, generator, handled != NULL ? handled : Py_None);
    }
    failed = record != NULL ? PyList_Append(capture->records, record) : -1;
    Py_XDECREF(record);
    return failed;
}

static int
record_frame(Capture *capture, Frame *frame, Py_ssize_t unit, int offset, Py_ssize_t count)
{
    PyGenObject *generator = frame->owner == FRAME_OWNED_BY_GENERATOR ? frame_generator(frame) : NULL;
    return record_add(capture, frame_function(frame), unit, offset, frame->localsplus, count, generator);
}

/* Record that a value is still to come for the instruction: as its only result, and `skip` units further on when a generator that it
   runs ends. The first `count` slots stay. */
static int
record_awaiting(Capture *capture, Frame *frame, const Instruction *instruction, int skip, Py_ssize_t count)
{
#if FRAME_KEEPS_NEXT
    return record_frame(capture, frame, instruction->unit, (int)(instruction->next - instruction->unit) + skip, count);
#else
    return record_frame(capture, frame, instruction->next - 1, skip, count);
#endif
}

/* A frame between two others that stands for type.__call__: its callee was __init__ of `self`, which it returns. */
static int
record_initialised(Capture *capture, PyObject *self)
{
    static Py_ssize_t at = -1;
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)initialised)->func_code;
    Slot slots[3] = {slot_borrowed(self), slot_borrowed(Py_None), SLOT_EMPTY}; /* its variables; what it has called is of no use any more */
    Instruction instruction;
    assert(code->co_nlocalsplus == 3);
    for (Py_ssize_t unit = 0; at < 0 && unit < Py_SIZE(code); unit++) {
        if (instruction_at(code, unit, &instruction) < 0)
            return -1;
        if (instruction_calls(instruction.opcode))
            at = unit;
    }
    if (instruction_at(code, at, &instruction) < 0)
        return -1;
#if FRAME_KEEPS_NEXT
    return record_add(capture, initialised, at, (int)(instruction.next - at), slots, code->co_nlocalsplus, NULL);
#else
    return record_add(capture, initialised, instruction.next - 1, 0, slots, code->co_nlocalsplus, NULL);
#endif
}
