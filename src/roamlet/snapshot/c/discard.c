/* Ending a tasklet of which a copy goes on in another process: what it holds is dropped, and none of its own code runs.

   Its C stack must be left in order, by an exception that passes through all of it, because C code in between holds references.
   So its frames get copies of their code without an exception table: there is no handler to catch it. The interpreter, which is inside
   instructions of the code before, cannot report events in such copies at the right place: none are sent. */

static PyObject *
native_detach(PyObject *Py_UNUSED(module), PyObject *object)
{
    Capture capture = {.tasklet = object};
    const RoamletState *state = &capture.state;
    PyObject *result;
    if (api->inspect(object, &capture.state) < 0 || capture_check_state(&capture) < 0)
        return NULL;
    result = Py_BuildValue("(iOOii)", state->direction, optional(state->channel), optional(state->value), state_flags(state), state->atomic);
    if (result != NULL)
        api->detach(object);
    return result;
}

static PyObject *
native_hold(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    int held;
    RoamletState state;
    if (!PyArg_ParseTuple(args, "Op:hold", &object, &held) || api->inspect(object, &state) < 0)
        return NULL;
    return PyBool_FromLong(api->hold(object, held != 0));
}

typedef struct {
    PyObject *codes, *copies; /* lists, in the order of the frames */
    Py_ssize_t at;
} Defusing;

static bool
is_plain_frame(Frame *frame)
{
    PyObject *function = frame_function(frame);
    return function != NULL && PyFunction_Check(function); /* else it is 3.13's own above __init__ */
}

static int
defuse_collect(Frame *frame, bool Py_UNUSED(from_c), void *arg)
{
    return is_plain_frame(frame) ? PyList_Append(((Defusing *)arg)->codes, (PyObject *)frame_code(frame)) : 0;
}

static int
defuse_frame(Frame *frame, bool Py_UNUSED(from_c), void *arg)
{
    Defusing *defusing = arg;
    PyCodeObject *copy;
    if (!is_plain_frame(frame))
        return 0;
    if (defusing->at >= PyList_GET_SIZE(defusing->codes) ||
        PyList_GET_ITEM(defusing->codes, defusing->at) != (PyObject *)frame_code(frame))
        Py_FatalError("roamlet: a tasklet ran while it was to be ended");
    copy = (PyCodeObject *)PyList_GET_ITEM(defusing->copies, defusing->at++);
    frame_set_code(frame, (PyCodeObject *)Py_NewRef(copy)); /* `codes` keeps the one before */
    FRAME_AT(frame) = _PyCode_CODE(copy); /* before its RESUME: it counts as not begun, and shows in no traceback */
    frame_set_offset(frame, 0);
    return 0;
}

static PyObject *
native_defuse(PyObject *Py_UNUSED(module), PyObject *object)
{
    Capture capture = {.tasklet = object};
    Defusing defusing = {PyList_New(0), PyList_New(0), 0};
    PyObject *result = NULL;
    int collecting = PyGC_Disable(); /* no code may run that could let it run */
    if (defusing.codes == NULL || defusing.copies == NULL || api->inspect(object, &capture.state) < 0 ||
        capture_check_state(&capture) < 0)
        goto out;
    if (capture.state.state == 2 && api->frames(object, defuse_collect, &defusing) != 0)
        goto out;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(defusing.codes); i++) {
        PyCodeObject *copy = code_copy((PyCodeObject *)PyList_GET_ITEM(defusing.codes, i), Py_BuildValue("{sy}", "co_exceptiontable", ""));
        int failed = copy != NULL ? PyList_Append(defusing.copies, (PyObject *)copy) : -1;
        Py_XDECREF(copy);
        if (failed)
            goto out;
    }
    if (capture.state.state == 2) {
        api->frames(object, defuse_frame, &defusing);
        api->silence(object);
    }
    result = Py_NewRef(defusing.codes);
out:
    if (collecting)
        PyGC_Enable();
    Py_XDECREF(defusing.codes);
    Py_XDECREF(defusing.copies);
    return result;
}

static PyObject *
native_generator_drop(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyGenObject *generator = generator_of(object);
    if (generator == NULL)
        return NULL;
    if (!generator_executes(generator) && !generator_is_over(generator))
        generator_end(generator);
    Py_RETURN_NONE;
}
