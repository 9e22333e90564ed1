/* Instructions of a code object, and what a slot of a frame looks like when it is saved. */

typedef struct {
    int opcode, oparg;
    Py_ssize_t unit, next; /* in code units: its own, and the one behind its inline caches */
} Instruction;

static Py_ssize_t
frame_position(Frame *frame)
{
    return FRAME_AT(frame) - _PyCode_CODE(frame_code(frame));
}

/* The instruction at this unit, which is not an EXTENDED_ARG, as the compiler made it. -1 with an exception set. */
static int
instruction_at(PyCodeObject *code, Py_ssize_t unit, Instruction *found)
{
    PyObject *bytes = PyCode_GetCode(code); /* which the code object keeps */
    const uint8_t *units;
    Py_ssize_t count;
    if (bytes == NULL)
        return -1;
    units = (const uint8_t *)PyBytes_AS_STRING(bytes);
    count = PyBytes_GET_SIZE(bytes) / 2;
    *found = (Instruction){.unit = unit, .opcode = -1};
    if (unit >= 0 && unit < count) {
        found->opcode = units[2 * unit];
        found->oparg = units[2 * unit + 1];
        for (Py_ssize_t i = 1; i <= 3 && unit >= i && units[2 * (unit - i)] == EXTENDED_ARG; i++)
            found->oparg |= units[2 * (unit - i) + 1] << (8 * i);
        for (found->next = unit + 1; found->next < count && units[2 * found->next] == CACHE; found->next++)
            ;
#ifdef PRECALL
        if (found->opcode == PRECALL && found->next < count && units[2 * found->next] == CALL) /* the call may be done in its place */
            for (found->next++; found->next < count && units[2 * found->next] == CACHE; found->next++)
                ;
#endif
    }
    Py_DECREF(bytes);
    return 0;
}

/* Whether it is 3.11's first half of a call, or the cache behind that. */
static inline bool
is_precall(int opcode)
{
#ifdef PRECALL
    return opcode == PRECALL || opcode == CACHE;
#else
    (void)opcode;
    return false;
#endif
}

/* Whether the instruction calls with its arguments on the stack. */
static bool
instruction_calls(int opcode)
{
#ifdef PRECALL
    if (opcode == PRECALL)
        return true;
#endif
#ifdef CALL_KW
    if (opcode == CALL_KW)
        return true;
#endif
    return opcode == CALL || opcode == CALL_FUNCTION_EX;
}

/* Where the instruction at `unit` begins: at its first EXTENDED_ARG. -1 with an exception set. */
static Py_ssize_t
instruction_begins(PyCodeObject *code, Py_ssize_t unit)
{
    PyObject *bytes = PyCode_GetCode(code);
    if (bytes == NULL)
        return -1;
    while (unit > 0 && (uint8_t)PyBytes_AS_STRING(bytes)[2 * (unit - 1)] == EXTENDED_ARG)
        unit--;
    Py_DECREF(bytes);
    return unit;
}

/* Set *unit, where a frame was interrupted before a call, to what names the call's keywords: the interpreter keeps them outside of the
   frame until then. -1 with an exception set. */
static int
instruction_names_keywords(PyCodeObject *code, Py_ssize_t *unit)
{
#ifdef KW_NAMES
    PyObject *bytes = PyCode_GetCode(code);
    const uint8_t *units;
    Py_ssize_t before = *unit;
    if (bytes == NULL)
        return -1;
    units = (const uint8_t *)PyBytes_AS_STRING(bytes);
    if (before >= 0 && instruction_calls(units[2 * before])) {
        for (int opcode; before > 0 && ((opcode = units[2 * (before - 1)]) == EXTENDED_ARG || is_precall(opcode));)
            before--;
        if (before > 0 && units[2 * (before - 1)] == KW_NAMES)
            *unit = before - 1;
    }
    Py_DECREF(bytes);
#else
    (void)code;
    (void)unit;
#endif
    return 0;
}

/* What is called by a call whose operands begin at `stack`: borrowed, NULL when the slot is empty. */
static PyObject *
called(PyObject **stack, int opcode)
{
#if CALLABLE_BELOW_SELF
    (void)opcode;
    return stack[0];
#else
    return opcode == CALL_FUNCTION_EX || stack[0] == NULL ? stack[1] : stack[0];
#endif
}

/* Slots of a frame as a tuple with None in the place of empty ones; *nulls, a new reference, says which those are: an int with their
   bits, or a tuple of their numbers where there may be too many. NULL with an exception set. */
static PyObject *
slots_save(PyObject **slots, Py_ssize_t count, PyObject **nulls)
{
    PyObject *tuple = PyTuple_New(count), *numbers = NULL;
    uint64_t bits = 0;
    *nulls = NULL;
    if (tuple == NULL || (count > 62 && (numbers = PyList_New(0)) == NULL))
        goto failed;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(slots[i] != NULL ? slots[i] : Py_None));
        if (slots[i] != NULL)
            continue;
        if (numbers == NULL)
            bits |= 1ULL << i;
        else {
            PyObject *number = PyLong_FromSsize_t(i);
            int failed = number != NULL ? PyList_Append(numbers, number) : -1;
            Py_XDECREF(number);
            if (failed)
                goto failed;
        }
    }
    *nulls = numbers != NULL ? PyList_AsTuple(numbers) : PyLong_FromUnsignedLongLong(bits);
    Py_XDECREF(numbers);
    if (*nulls != NULL)
        return tuple;
    Py_DECREF(tuple);
    return NULL;

failed:
    Py_XDECREF(tuple);
    Py_XDECREF(numbers);
    return NULL;
}

/* Whether `nulls` says that slot i is empty. It has been checked. */
static bool
slot_is_empty(PyObject *nulls, Py_ssize_t i)
{
    if (PyLong_Check(nulls))
        return i < 63 && (PyLong_AsUnsignedLongLong(nulls) >> i & 1) != 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(nulls); k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(nulls, k)) == i)
            return true;
    return false;
}

static bool
nulls_are_right(PyObject *nulls)
{
    bool right = PyLong_Check(nulls);
    if (right)
        right = !(PyLong_AsUnsignedLongLong(nulls) == (unsigned long long)-1 && PyErr_Occurred());
    else if ((right = PyTuple_Check(nulls)))
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(nulls) && right; k++)
            right = PyLong_Check(PyTuple_GET_ITEM(nulls, k)) && PyLong_AsSsize_t(PyTuple_GET_ITEM(nulls, k)) >= 0;
    PyErr_Clear();
    return right;
}

/* A function that the interpreter is in the middle of making: its closure comes next, and no caller of FunctionType can do without. */
static PyObject *
native_function_begun(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *globals;
    return PyArg_ParseTuple(args, "O!O!:function_begun", &PyCode_Type, &code, &PyDict_Type, &globals) ? PyFunction_New(code, globals) : NULL;
}
