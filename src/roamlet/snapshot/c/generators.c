/* Generators, coroutines and async generators that do not run: read, and overwritten when they are fresh. */

/* The generator, coroutine or async generator that `object` is; NULL with a TypeError set. */
static PyGenObject *
generator_of(PyObject *object)
{
    if (PyGen_CheckExact(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object))
        return (PyGenObject *)object; /* all three begin alike */
    PyErr_Format(PyExc_TypeError, "expected a generator or coroutine, not %R", object);
    return NULL;
}

/* Whether it is an async generator on its way to a value: who asked for that holds a part of its state. */
static bool
generator_is_asked(PyGenObject *generator)
{
    return PyAsyncGen_CheckExact((PyObject *)generator) && !generator_is_over(generator) &&
           (generator->gi_running_async || generator->gi_closed || generator_executes(generator));
}

/* Whether a frame of `code` can be resumed at this unit with so many slots in use, and a value to come when `value` is set. */
static bool
position_fits(PyCodeObject *code, Py_ssize_t unit, int offset, Py_ssize_t slots, bool value)
{
    Py_ssize_t operands = slots - code->co_nlocalsplus, next;
    int depth, below;
    if (operands < 0 || operands > code->co_stacksize - value || offset < 0 || unit < -1 || unit >= Py_SIZE(code))
        return false;
    next = FRAME_KEEPS_NEXT ? unit + offset : unit + 1 + offset;
    if (next < 0 || next >= Py_SIZE(code))
        return false;
    return api->operands(code, next, &depth, &below) && depth == operands + value;
}

static void
slots_fill(Slot *slots, PyObject *nulls, PyObject *values)
{
    bool all = PyLong_Check(nulls) && PyLong_AsUnsignedLongLong(nulls) == 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++)
        slots[i] = all ? slot_new(PyTuple_GET_ITEM(values, i)) : slot_restore(nulls, i, PyTuple_GET_ITEM(values, i));
}

/* Overwrite the frame of a fresh generator: what it held is dropped. Cannot fail; may run code of finalizers. */
static void
generator_fill(PyGenObject *generator, Py_ssize_t unit, int offset, PyObject *nulls, PyObject *values)
{
    Frame *frame = generator_frame(generator);
    PyCodeObject *code = frame_code(frame);
    for (int i = 0; i < frame_count(frame); i++)
        slot_clear(&frame->localsplus[i]);
    slots_fill(frame->localsplus, nulls, values);
    frame_set_count(frame, PyTuple_GET_SIZE(values));
    FRAME_AT(frame) = _PyCode_CODE(code) + unit;
    frame_set_offset(frame, offset);
}

static PyObject *
native_generator_get(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyGenObject *generator = generator_of(object);
    PyObject *nulls, *slots, *handled;
    Frame *frame;
    if (generator == NULL)
        return NULL;
    if (generator_is_asked(generator)) {
        PyErr_Format(PyExc_TypeError, "%R is on its way to a value: an async generator is saved between two of them, or before the first",
                     object);
        return NULL;
    }
    if (generator_is_over(generator))
        return Py_BuildValue("(iO)", generator_state(generator), Py_None);
    frame = generator_frame(generator);
    if (generator_executes(generator))
        return Py_BuildValue("(iO)", generator_state(generator), frame_function(frame));
    if ((slots = slots_save(frame->localsplus, frame_count(frame), &nulls)) == NULL)
        return NULL;
    handled = generator->gi_exc_state.exc_value;
    return Py_BuildValue("(iOniNNO)", generator_state(generator), frame_function(frame), frame_position(frame), frame_offset(frame), nulls,
                         slots, handled != NULL ? handled : Py_None);
}

static PyObject *
native_generator_set(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object, *nulls, *slots, *handled;
    PyGenObject *generator;
    PyCodeObject *code;
    Standing standing;
    Py_ssize_t unit;
    int state, offset;
    if (!PyArg_ParseTuple(args, "OiniOO!O:generator_set", &object, &state, &unit, &offset, &nulls, &PyTuple_Type, &slots, &handled) ||
        (generator = generator_of(object)) == NULL)
        return NULL;
    if (!generator_is_new(generator)) {
        PyErr_Format(PyExc_ValueError, "%R has been started: only a fresh one can be given a state", object);
        return NULL;
    }
    code = frame_code(generator_frame(generator));
    if (!nulls_are_right(nulls, slots, code) || !is_exception_or_none(handled)) {
        frame_bad(code);
        return NULL;
    }
    if (frame_is_sound(code, STANDS_YIELDED, unit, 0, nulls, slots, 0, &standing) < 0)
        return NULL;
    if (state != generator_state_in(standing.instruction.opcode, standing.instruction.oparg)) {
        frame_bad(code);
        return NULL;
    }
    generator_fill(generator, unit, 0, nulls, slots); /* its offset is left over from its last call */
    generator_set_state(generator, state);
    Py_XSETREF(generator->gi_exc_state.exc_value, handled != Py_None ? Py_NewRef(handled) : NULL);
    Py_RETURN_NONE;
}
