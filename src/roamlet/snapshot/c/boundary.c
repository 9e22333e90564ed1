/* What stands between two frames of which C code has called the second: whether that C code does nothing more than hand on the result,
   or what else it does can be put into the records. */

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
    PyObject *first = frame_code(frame)->co_nlocalsplus > 0 ? slot_get(frame->localsplus[0]) : NULL;
    return first != NULL && PyCell_Check(first) ? PyCell_GET(first) : first;
}

/* Whether the code gives its first variable another value: then it is not known what it was called with. -1 with an exception set. */
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
    Slot *slot = &frame->localsplus[kept], shown = *slot;
    PyObject *manager = slot_get(shown), *bound;
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
    *slot = slot_borrowed(bound); /* for a moment, in which no code runs */
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
    const Slot *stack = frame->localsplus + locals;
    PyObject *name;
    Instruction instruction;
    int depth, below;
    if (instruction_at(code, frame_position(frame), &instruction) < 0)
        return -1;
    if (!api->operands(code, instruction.unit, &depth, &below))
        depth = below = -1;
    if (instruction_calls(instruction.opcode) && below >= 0)
        return boundary_call(capture, frame, &instruction, locals + below);
    if ((instruction.opcode == FOR_ITER || instruction.opcode == SEND) && below >= 0 &&
        capture->inner->owner == FRAME_OWNED_BY_GENERATOR && slot_get(stack[below]) == (PyObject *)frame_generator(capture->inner)) {
        if (GENERATORS_BLOCK)
            return record_awaiting(capture, frame, &instruction, instruction.oparg, locals + below + 1 + LOOPS_HAVE_INDEX);
        return refuse_boundary(capture, frame, NULL, "before CPython 3.12, running a generator");
    }
    if (instruction.opcode == ENTERS_WITH && depth > 0)
        return boundary_with(capture, frame, &instruction, locals + depth - 1);
    if (instruction.opcode == WITH_EXCEPT_START && depth >= WITH_EXCEPT_OPERANDS) {
        PyObject *exit = slot_get(stack[depth - WITH_EXCEPT_OPERANDS]);
        if (callable_runs(exit, frame_code(capture->inner), 0) == RUNS_IT)
            return record_awaiting(capture, frame, &instruction, 0, locals + depth);
    }
    if ((name = instruction_name(instruction.opcode)) == NULL)
        return -1;
    refuse_boundary(capture, frame, NULL, PyUnicode_AsUTF8(name));
    Py_DECREF(name);
    return -1;
}
