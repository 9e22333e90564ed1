/* Reading a tasklet that does not run: what it waits for, and a record of each of its Python frames.

   A frame that has called another Python function has stored its stack pointer: it is saved as it stands. One that is in a C call is
   saved as if the call were one that the interpreter makes without C: its operands taken, its result still to come. For the
   innermost one, which is in a call of ours that suspends, that is all; in between, C code must do nothing more after the call but
   hand on the result, or what it does (a class is called, a `with` entered) must be put into the records. */

struct Capture {
    PyObject *tasklet;
    WeftState state;
    PyObject *records; /* owned: a list, the innermost first */
    Frame *inner;      /* the frame before, and whether C called it */
    bool inner_from_c;
    bool restored;     /* its outermost frame is one of ours */
    Py_ssize_t before; /* the innermost frame goes on before this unit, taking no value; -1: it takes one */
    Py_ssize_t end;    /* where its loop over a channel ends; -1: it is in none */
    PyObject *returns; /* owned: what its call returns without a value: None, 1 for the tasklet, or a tuple of it */
};

static int
capture_take_call(Capture *capture, Py_ssize_t before, Py_ssize_t end, PyObject *returns)
{
    capture->before = before;
    capture->end = end;
    Py_SETREF(capture->returns, Py_NewRef(returns));
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
record_add(Capture *capture, PyObject *function, Py_ssize_t unit, int offset, PyObject **slots, Py_ssize_t count, PyGenObject *generator)
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
    PyObject *slots[3] = {self, NULL, NULL}; /* its variables */
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

/* ---- what stands between two frames ---- */

/* The name of an opcode as dis has it: a new reference, or NULL with an exception set. */
static PyObject *
instruction_name(int opcode)
{
    PyObject *dis = PyImport_ImportModule("opcode"), *names = dis != NULL ? PyObject_GetAttrString(dis, "opname") : NULL;
    PyObject *name = names != NULL ? PySequence_GetItem(names, opcode) : NULL, *text = NULL;
    if (name != NULL)
        text = PyUnicode_FromFormat("the operation %S", name);
    Py_XDECREF(dis);
    Py_XDECREF(names);
    Py_XDECREF(name);
    return text;
}

enum { RUNS_SOMETHING_ELSE, RUNS_IT, RUNS_AS_INIT };

/* Whether calling `callable` does nothing but run this code and return its result; or run it as the __init__ of a new instance. */
static int
callable_runs(PyObject *callable, PyCodeObject *code, int depth)
{
    PyObject *method;
    int runs;
    if (callable == NULL || depth > 8)
        return RUNS_SOMETHING_ELSE;
    if ((code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0) /* to call it would only make the generator */
        return RUNS_SOMETHING_ELSE;
    if (PyFunction_Check(callable))
        return ((PyFunctionObject *)callable)->func_code == (PyObject *)code ? RUNS_IT : RUNS_SOMETHING_ELSE;
    if (PyMethod_Check(callable))
        return callable_runs(PyMethod_GET_FUNCTION(callable), code, depth + 1);
    if (PyType_Check(callable)) {
        if (Py_TYPE(callable)->tp_call != PyType_Type.tp_call)
            return RUNS_SOMETHING_ELSE;
        method = _PyType_Lookup((PyTypeObject *)callable, name_init);
        return method != NULL && callable_runs(method, code, depth + 1) == RUNS_IT ? RUNS_AS_INIT : RUNS_SOMETHING_ELSE;
    }
    if ((PyObject *)Py_TYPE(callable) == partial) {
        method = PyObject_GetAttrString(callable, "func"); /* a member of a C type: runs no Python code */
        runs = callable_runs(method, code, depth + 1);
        PyErr_Clear();
        Py_XDECREF(method);
        return runs;
    }
    method = _PyType_Lookup(Py_TYPE(callable), name_call);
    return method != NULL && PyFunction_Check(method) ? callable_runs(method, code, depth + 1) : RUNS_SOMETHING_ELSE;
}

/* The first argument that a frame was called with, as far as its variable still holds it: borrowed, or NULL. */
static PyObject *
first_argument(Frame *frame)
{
    PyObject *first = frame_code(frame)->co_nlocalsplus > 0 ? frame->localsplus[0] : NULL;
    return first != NULL && PyCell_Check(first) ? PyCell_GET(first) : first;
}

/* Whether the code gives its first variable another value: then nobody knows what it was called with. -1 with an exception set. */
static int
assigns_first(PyCodeObject *code)
{
    PyObject *bytes = PyCode_GetCode(code);
    const uint8_t *units = bytes != NULL ? (const uint8_t *)PyBytes_AS_STRING(bytes) : NULL;
    Py_ssize_t count = bytes != NULL ? PyBytes_GET_SIZE(bytes) / 2 : 0;
    int found = bytes != NULL ? 0 : -1;
    for (Py_ssize_t unit = 0; unit < count && found == 0; unit++) {
        int opcode = units[2 * unit], oparg = units[2 * unit + 1];
        if (unit > 0 && units[2 * unit - 2] == EXTENDED_ARG)
            continue; /* of some other variable */
        switch (opcode) {
        case STORE_FAST:
        case DELETE_FAST:
        case STORE_DEREF:
        case DELETE_DEREF:
            found = oparg == 0;
            break;
#ifdef STORE_FAST_STORE_FAST /* one instruction, also as the compiler makes it */
        case STORE_FAST_LOAD_FAST:
            found = oparg >> 4 == 0;
            break;
        case STORE_FAST_STORE_FAST:
            found = oparg >> 4 == 0 || (oparg & 15) == 0;
            break;
#endif
        default:
            break;
        }
    }
    Py_XDECREF(bytes);
    return found;
}

/* Whether `manager`'s method `name` runs this code. */
static bool
manager_runs(PyObject *manager, PyObject *name, PyCodeObject *code)
{
    PyObject *method = manager != NULL ? _PyType_Lookup(Py_TYPE(manager), name) : NULL;
    return method != NULL && PyFunction_Check(method) && ((PyFunctionObject *)method)->func_code == (PyObject *)code;
}

/* `frame` is in a call with its operands at `stack`, and C code has called the inner frame. */
static int
boundary_call(Capture *capture, Frame *frame, const Instruction *instruction, Py_ssize_t kept)
{
    PyCodeObject *inner = frame_code(capture->inner);
    PyObject *callable = called(frame->localsplus + kept, instruction->opcode), *self;
    int runs = callable_runs(callable, inner, 0), assigned;
    /* While a bound method is called, its own slot may hold the object instead: so it is at the end of `with`. */
    if (runs == RUNS_SOMETHING_ELSE && callable != NULL && callable == first_argument(capture->inner) &&
        manager_runs(callable, name_exit, inner))
        runs = RUNS_IT;
    if (runs == RUNS_AS_INIT) {
        self = first_argument(capture->inner);
        if ((assigned = assigns_first(inner)) < 0)
            return -1;
        if (assigned || self == NULL || !PyObject_TypeCheck(self, (PyTypeObject *)callable))
            runs = RUNS_SOMETHING_ELSE;
        else if (record_initialised(capture, self) < 0)
            return -1;
    }
    if (runs == RUNS_SOMETHING_ELSE)
        return refuse_boundary(capture, frame, callable != NULL ? callable : Py_None, NULL);
    return record_awaiting(capture, frame, instruction, 0, kept);
}

/* `frame` enters a `with` block, and C code has called the manager's __enter__: the block's __exit__ and the result come next. */
static int
boundary_with(Capture *capture, Frame *frame, const Instruction *instruction, Py_ssize_t kept)
{
    static const char entering[] = "entering a `with` block";
    PyObject **slot = &frame->localsplus[kept], *manager = *slot, *bound, *shown;
    descrgetfunc get;
    int failed;
#if !ENTRY_FRAMES_ON_C_STACK /* 3.11 puts the manager's __exit__ in its place before it calls __enter__ */
    manager = manager != NULL && PyMethod_Check(manager) ? PyMethod_GET_SELF(manager) : NULL;
#endif
    /* Later versions have let go of it already: only what __enter__ itself holds is known to live. */
    if (manager == NULL || manager != first_argument(capture->inner) || !manager_runs(manager, name_enter, frame_code(capture->inner)))
        return refuse_boundary(capture, frame, NULL, entering);
    bound = _PyType_Lookup(Py_TYPE(manager), name_exit);
    get = bound != NULL ? Py_TYPE(bound)->tp_descr_get : NULL;
    if (bound == NULL || (get != NULL && (Py_TYPE(bound)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)) /* it may run code */
        return refuse_boundary(capture, frame, NULL, entering);
    bound = get != NULL ? get(bound, manager, (PyObject *)Py_TYPE(manager)) : Py_NewRef(bound);
    if (bound == NULL)
        return -1;
    shown = *slot;
    *slot = bound; /* for a moment, in which no code runs */
    failed = record_awaiting(capture, frame, instruction, 0, kept + 1);
    *slot = shown;
    Py_DECREF(bound);
    return failed;
}

/* `frame` called the inner frame from C. */
static int
boundary(Capture *capture, Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t locals = code->co_nlocalsplus;
    PyObject **stack = frame->localsplus + locals, *name;
    Instruction instruction;
    int depth, below;
    if (instruction_at(code, frame_position(frame), &instruction) < 0)
        return -1;
    if (!api->operands(code, instruction.unit, &depth, &below))
        depth = below = -1;
    if (instruction_calls(instruction.opcode) && below >= 0)
        return boundary_call(capture, frame, &instruction, locals + below);
    if ((instruction.opcode == FOR_ITER || instruction.opcode == SEND) && below >= 0 &&
        capture->inner->owner == FRAME_OWNED_BY_GENERATOR && stack[below] == (PyObject *)frame_generator(capture->inner)) {
        if (GENERATORS_BLOCK)
            return record_awaiting(capture, frame, &instruction, instruction.oparg, locals + below + 1);
        return refuse_boundary(capture, frame, NULL, "before CPython 3.12, running a generator");
    }
    if (instruction.opcode == BEFORE_WITH && depth > 0)
        return boundary_with(capture, frame, &instruction, locals + depth - 1);
    if (instruction.opcode == WITH_EXCEPT_START && depth >= 4) {
        PyObject *exit = stack[depth - 4];
        if (callable_runs(exit, frame_code(capture->inner), 0) == RUNS_IT)
            return record_awaiting(capture, frame, &instruction, 0, locals + depth);
    }
    if ((name = instruction_name(instruction.opcode)) == NULL)
        return -1;
    refuse_boundary(capture, frame, NULL, PyUnicode_AsUTF8(name));
    Py_DECREF(name);
    return -1;
}

/* ---- the innermost frame ---- */

/* It is in a call of ours with its operands from `kept` on. */
static int
innermost_call(Capture *capture, Frame *frame, const Instruction *instruction, Py_ssize_t kept, Py_ssize_t count)
{
    PyObject *callable = called(frame->localsplus + kept, instruction->opcode), *place;
    int returns = callable != NULL ? api->call_suspends(callable) : WEFT_CALL_UNKNOWN;
    if (returns == WEFT_CALL_ARGUMENT && instruction->opcode == CALL_FUNCTION_EX) /* its argument would have to be unpacked */
        returns = WEFT_CALL_UNKNOWN;
    if (returns == WEFT_CALL_UNKNOWN) {
        Py_XINCREF(callable);
        if ((place = frame_place(frame)) != NULL)
            refuse(capture, "%U is inside %R, which cannot be taken up in the middle. A tasklet is saved where it waits for a channel, in "
                            "schedule(), or between two instructions", place, callable != NULL ? callable : Py_None);
        Py_XDECREF(place);
        Py_XDECREF(callable);
        return -1;
    }
    if (returns == WEFT_CALL_ARGUMENT) {
        bool given = instruction->oparg > 0;
        PyObject **last = &frame->localsplus[count - 1];
#ifdef CALL_KW
        last -= instruction->opcode == CALL_KW;
#endif
        Py_SETREF(capture->returns, given ? PyTuple_Pack(1, *last) : PyLong_FromLong(1));
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
    PyObject *place;
    int depth, below;
    if (capture->state.preempted && instruction_names_keywords(code, &unit) < 0)
        return -1;
    if (instruction_at(code, unit, &instruction) < 0)
        return -1;
    if (!api->operands(code, unit, &depth, &below))
        depth = below = -1;
    if (capture->state.preempted && depth >= 0 && locals + depth > 0) {
        capture->before = instruction_begins(code, unit);
        return capture->before < 0 ? -1 : record_frame(capture, frame, unit, 0, locals + depth);
    }
    if (!capture->state.preempted && below >= 0 && instruction_calls(instruction.opcode))
        return innermost_call(capture, frame, &instruction, locals + below, locals + depth);
    if (!capture->state.preempted && below >= 0 && instruction.opcode == FOR_ITER &&
        Py_TYPE(frame->localsplus[locals + below])->tp_iternext == channel_type->tp_iternext && (GENERATORS_BLOCK || locals + below > 0)) {
        capture->end = instruction.next + instruction.oparg;
        return record_awaiting(capture, frame, &instruction, 0, locals + depth);
    }
    if ((place = frame_place(frame)) != NULL) {
        if (capture->state.preempted)
            refuse(capture, "%U was interrupted where it has neither a variable nor an operand. Let it run on, and save it then", place);
        else
            refuse(capture, "%U blocks inside an operation that is no plain call. A tasklet is saved where it waits for a channel, in "
                            "schedule(), or between two instructions", place);
    }
    Py_XDECREF(place);
    return -1;
}

/* Read one frame. */
static int
capture_frame(Frame *frame, bool from_c, void *arg)
{
    Capture *capture = arg;
    PyCodeObject *code = frame_code(frame);
    PyObject *function = frame_function(frame), *place;
    bool first = capture->inner == NULL, boundary_below = capture->inner_from_c;
    int failed = 0;
    if (capture->restored) /* whoever called base() only takes the result */
        return 0;
    capture->inner_from_c = from_c;
    if (code == base_code) {
        capture->restored = true;
        return 0;
    }
    if (code == bridge_code) { /* it has not gone on since it was restored */
        failed = ticket_read(frame->localsplus[1], capture);
        capture->inner_from_c = false;
    } else if (function == NULL || !PyFunction_Check(function)) /* 3.13's own frame above __init__ */
        failed = record_initialised(capture, frame->localsplus[frame->stacktop - 1]);
    else if ((code->co_flags & CO_OPTIMIZED) == 0) {
        if ((place = frame_place(frame)) != NULL)
            refuse(capture, "%U is the body of a module or a class, or was started by exec: its variables are in a dictionary of "
                            "somebody else's", place);
        Py_XDECREF(place);
        failed = -1;
    } else if ((code->co_flags & CO_ASYNC_GENERATOR) != 0) {
        if ((place = frame_place(frame)) != NULL)
            refuse(capture, "the async generator %U is under way in it", place);
        Py_XDECREF(place);
        failed = -1;
    } else if (first)
        failed = innermost(capture, frame);
    else if (boundary_below)
        failed = boundary(capture, frame);
    else
        failed = record_frame(capture, frame, frame_position(frame), frame_offset(frame), frame->stacktop);
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
        if (function != NULL && api->call_suspends(function) == WEFT_CALL_NONE && !capture->state.preempted)
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
    const WeftState *state = &capture->state;
    if (state->main)
        return refuse(capture, "it is the main tasklet of its thread, whose first frames are the interpreter's. Start the work in a tasklet");
    if (state->current)
        return refuse(capture, state->direction != 0
                                   ? "its thread sleeps in it, because nobody else can run there. Let that thread's main tasklet wait instead"
                                   : "it is running. Another tasklet must save it, while it waits or is paused");
    if (state->waits)
        return refuse(capture, "it waits for something else than one channel: a lock, a timer, a descriptor, run() or select()");
    if (state->scoped)
        return refuse(capture, "it is inside a scope or a time-out, which end with a call that is not saved. Put them around its join(), or inside of "
                               "the block of weft.at()");
    return 0;
}

/* Put what `resolve` says of each record's function in its place; `known` remembers that. */
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
state_flags(const WeftState *state)
{
    return state->raises | state->sends_error << 1 | state->iterates << 2 | state->ended << 3 | state->atomic_flag << 4 |
           state->scheduled << 5 | (state->value != NULL) << 6;
}

/* All of it as a tuple, in the order that _save.py gives it names in. */
static PyObject *
capture_result(Capture *capture)
{
    const WeftState *state = &capture->state;
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
