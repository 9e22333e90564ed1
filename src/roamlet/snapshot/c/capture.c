/* Reading a tasklet that does not run: what it waits for, and a record of each of its Python frames.

   A frame that has called another Python function has stored its stack pointer: it is saved as it stands. One that is in a C call is
   saved as if the call were one that the interpreter makes without C: its operands taken, its result still to come. For the
   innermost one, which is in a call of ours that suspends, that is all; in between, C code must do nothing more after the call but
   hand on the result, or what it does (a class is called, a `with` entered) must be put into the records. */

/* It is in a call of ours with its operands from `kept` on. */
static int
innermost_call(Capture *capture, Frame *frame, const Instruction *instruction, Py_ssize_t kept, Py_ssize_t count)
{
    PyObject *callable = called(frame->localsplus + kept, instruction->opcode);
    int returns = callable != NULL ? api->call_suspends(callable) : ROAMLET_CALL_UNKNOWN;
    if (returns == ROAMLET_CALL_ARGUMENT && instruction->opcode == CALL_FUNCTION_EX) /* its argument would have to be unpacked */
        returns = ROAMLET_CALL_UNKNOWN;
    if (returns == ROAMLET_CALL_UNKNOWN)
        return refuse_frame(capture, frame, "%U is inside %R, which cannot be taken up in the middle. A tasklet is saved where it waits for a "
                                            "channel, in schedule(), or between two instructions", callable != NULL ? callable : Py_None);
    if (returns == ROAMLET_CALL_ARGUMENT) {
        bool given = instruction->oparg > 0;
        const Slot *last = &frame->localsplus[count - 1];
#ifdef CALL_KW
        last -= instruction->opcode == CALL_KW;
#endif
        Py_SETREF(capture->returns, given ? PyTuple_Pack(1, slot_get(*last)) : PyLong_FromLong(1));
        if (capture->returns == NULL)
            return -1;
    }
    return record_awaiting(capture, frame, instruction, 0, kept);
}

static int
innermost(Capture *capture, Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t locals = code->co_nlocalsplus, unit = frame_position(frame);
    Instruction instruction;
    int depth, below;
    if (capture->state.preempted && instruction_names_keywords(code, &unit) < 0)
        return -1;
    if (instruction_at(code, unit, &instruction) < 0)
        return -1;
    if (!api->operands(code, unit, &depth, &below))
        depth = below = -1;
    if (capture->state.preempted && depth > 0 && instruction.opcode == POP_TOP && slot_is_number(frame->localsplus[locals + depth - 1])) {
        unit = instruction.next; /* to drop a number is nothing */
        depth--;
    }
    if (capture->state.preempted && depth >= 0 && locals + depth > 0) {
        capture->before = instruction_begins(code, unit);
        return capture->before < 0 ? -1 : record_frame(capture, frame, unit, 0, locals + depth);
    }
    if (!capture->state.preempted && below >= 0 && instruction_calls(instruction.opcode))
        return innermost_call(capture, frame, &instruction, locals + below, locals + depth);
    if (!capture->state.preempted && below >= 0 && instruction.opcode == FOR_ITER &&
        Py_TYPE(slot_get(frame->localsplus[locals + below]))->tp_iternext == channel_type->tp_iternext && (GENERATORS_BLOCK || locals + below > 0)) {
        capture->end = instruction.next + instruction.oparg;
        return record_awaiting(capture, frame, &instruction, 0, locals + depth);
    }
    if (capture->state.preempted)
        return refuse_frame(capture, frame, "%U was interrupted where it has neither a variable nor an operand. Let it run on, and save it "
                                            "then", NULL);
    return refuse_frame(capture, frame, "%U blocks inside an operation that is no plain call. A tasklet is saved where it waits for a channel, in "
                                        "schedule(), or between two instructions", NULL);
}

/* Read one frame. */
static int
capture_frame(Frame *frame, bool from_c, void *arg)
{
    Capture *capture = arg;
    PyCodeObject *code = frame_code(frame);
    PyObject *function = frame_function(frame);
    bool first = capture->inner == NULL, boundary_below = capture->inner_from_c;
    int failed = 0;
    if (capture->restored) /* the caller of base() only takes the result */
        return 0;
    capture->inner_from_c = from_c;
    if (code == base_code) {
        capture->restored = true;
        return 0;
    }
    if (code == bridge_code) { /* it has not gone on since it was restored */
        failed = capture_ticket(capture, slot_get(frame->localsplus[1]));
        capture->inner_from_c = false;
    } else if (function == NULL || !PyFunction_Check(function)) /* the interpreter's own frame above __init__, from 3.13 on */
        failed = record_initialised(capture, slot_get(frame->localsplus[frame_count(frame) - 1]));
    else if ((code->co_flags & CO_OPTIMIZED) == 0)
        failed = refuse_frame(capture, frame, "%U is the body of a module or a class, or was started by exec: its variables are in a dictionary "
                                              "of somebody else's", NULL);
    else if ((code->co_flags & CO_ASYNC_GENERATOR) != 0)
        failed = refuse_frame(capture, frame, "the async generator %U is under way in it", NULL);
    else if (first)
        failed = innermost(capture, frame);
    else if (boundary_below)
        failed = boundary(capture, frame);
    else
        failed = record_frame(capture, frame, frame_position(frame), frame_offset(frame), frame_count(frame));
    capture->inner = frame;
    return failed;
}

/* Whether what called the outermost frame does nothing after it but end the tasklet. -1 with an exception set. */
static int
capture_check_base(Capture *capture)
{
    PyObject *function = capture->state.function, *place;
    if (capture->restored || (function != NULL && PyFunction_Check(function) &&
                              ((PyFunctionObject *)function)->func_code == (PyObject *)base_code))
        return 0;
    if (capture->inner == NULL) {
        if (function != NULL && api->call_suspends(function) == ROAMLET_CALL_NONE && !capture->state.preempted)
            return 0;
        return refuse(capture, "it runs %R, which is no Python function", function != NULL ? function : Py_None);
    }
    if (callable_runs(function, frame_code(capture->inner), 0) != RUNS_SOMETHING_ELSE)
        return 0;
    if ((place = frame_place(capture->inner)) != NULL)
        refuse(capture, "its function, %R, has called %U from C, and what C code was about to do next cannot be saved", function, place);
    Py_XDECREF(place);
    return -1;
}

static int
capture_check_state(Capture *capture)
{
    const RoamletState *state = &capture->state;
    if (state->main)
        return refuse(capture, "it is the main tasklet of its thread, whose first frames are the interpreter's. Start the work in a tasklet");
    if (state->current)
        return refuse(capture, state->direction != 0
                                   ? "its thread sleeps in it, because no other tasklet can run there. Let that thread's main tasklet wait instead"
                                   : "it is running. Another tasklet must save it, while it waits or is paused");
    if (state->looped)
        return refuse(capture, "an event loop of asyncio runs in it, which belongs to this process. Save it when asyncio.run() has returned, or let "
                               "another tasklet run the loop");
    if (state->locals)
        return refuse(capture, "it has attributes in a roamlet.sync.local, which threading.local is under roamlet.patch: they belong to this tasklet, and are "
                               "not saved. Delete them first, or keep the values in variables");
    if (state->waits)
        return refuse(capture, "it waits for something else than one channel: a lock, a timer, a descriptor, run() or select()");
    if (state->scoped)
        return refuse(capture, "it is inside a scope or a time-out, which end with a call that is not saved. Put them around its join(), or inside of "
                               "the block of roamlet.at()");
    return 0;
}

/* Put what `resolve` returns for each record's function in its place; `known` remembers that. */
static int
records_resolve(PyObject *records, PyObject *known, PyObject *resolve)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records); i++) {
        PyObject *record = PyList_GET_ITEM(records, i), *function = PyTuple_GET_ITEM(record, 0);
        PyObject *name = PyDict_GetItemWithError(known, function);
        if (name != NULL)
            Py_INCREF(name);
        else if (PyErr_Occurred() || (name = PyObject_CallOneArg(resolve, function)) == NULL)
            return -1;
        else if (PyDict_SetItem(known, function, name) < 0) {
            Py_DECREF(name);
            return -1;
        }
        PyTuple_SET_ITEM(record, 0, name); /* it is ours alone */
        Py_DECREF(function);
    }
    return 0;
}

static PyObject *
optional(PyObject *object)
{
    return object != NULL ? object : Py_None;
}

static int
state_flags(const RoamletState *state)
{
    return state->raises * FLAG_RAISES | state->sends_error * FLAG_SENDS_ERROR | state->iterates * FLAG_ITERATES |
           state->ended * FLAG_ENDED | state->atomic_flag * FLAG_ATOMIC | state->scheduled * FLAG_SCHEDULED |
           (state->value != NULL) * FLAG_HAS_VALUE;
}

/* All of it as a tuple, in the order of Captured in state.py, which names its members. */
static PyObject *
capture_result(Capture *capture)
{
    const RoamletState *state = &capture->state;
    return Py_BuildValue("(iOOOOiOOiiOnnOO)", state->state, optional(state->function), optional(state->args), optional(state->kwargs),
                         optional(state->context), state->direction, optional(state->channel), optional(state->value), state_flags(state),
                         state->atomic, optional(capture->records), capture->before, capture->end, capture->returns,
                         optional(state->handled));
}

static PyObject *
native_capture(PyObject *Py_UNUSED(module), PyObject *args)
{
    Capture capture = {.before = -1, .end = -1};
    PyObject *known, *resolve, *result;
    int failed, collecting;
    if (!PyArg_ParseTuple(args, "OO!O:capture", &capture.tasklet, &PyDict_Type, &known, &resolve))
        return NULL;
    if (api->inspect(capture.tasklet, &capture.state) < 0 || capture_check_state(&capture) < 0)
        return NULL;
    capture.returns = Py_NewRef(Py_None);
    collecting = PyGC_Disable(); /* no code may run until all is read */
    if (capture.state.state != 2)
        failed = 0;
    else
        failed = (capture.records = PyList_New(0)) == NULL || api->frames(capture.tasklet, capture_frame, &capture) != 0 ||
                 capture_check_base(&capture) < 0 || PyList_Reverse(capture.records) < 0;
    result = failed ? NULL : capture_result(&capture);
    if (collecting)
        PyGC_Enable();
    if (result != NULL && capture.records != NULL && records_resolve(capture.records, known, resolve) < 0)
        Py_CLEAR(result);
    Py_XDECREF(capture.records);
    Py_XDECREF(capture.returns);
    return result;
}
