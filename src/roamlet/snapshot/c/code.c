/* Instructions of a code object, and what a slot of a frame looks like when it is saved. */

typedef struct {
    int opcode, oparg;
    Py_ssize_t unit, next; /* in code units: its own, and the one after its inline caches */
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

/* Whether it is 3.11's first half of a call, or the cache after that. */
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
called(const Slot *stack, int opcode)
{
#if CALLABLE_BELOW_SELF
    (void)opcode;
    return slot_get(stack[0]);
#else
    return opcode == CALL_FUNCTION_EX || slot_get(stack[0]) == NULL ? slot_get(stack[1]) : slot_get(stack[0]);
#endif
}

/* Add a number to a list. -1 with an exception set. */
static int
numbers_add(PyObject *numbers, Py_ssize_t value)
{
    PyObject *number = PyLong_FromSsize_t(value);
    int failed = number != NULL ? PyList_Append(numbers, number) : -1;
    Py_XDECREF(number);
    return failed;
}

/* Whether `nulls` for these slots must be a tuple. */
static bool
slots_need_numbers(const Slot *slots, Py_ssize_t count)
{
    if (count > 62)
        return true;
    for (Py_ssize_t i = 0; i < count; i++)
        if (slot_is_number(slots[i]))
            return true;
    return false;
}

/* Slots of a frame as a tuple with None in the place of empty ones; *nulls, a new reference, says which those are: an int with their
   bits, or a tuple of their numbers where there may be too many, or some slot holds a number that is no object. Such a slot i is in that
   tuple as ~i, and what it holds in the other one as an int. NULL with an exception set. */
static PyObject *
slots_save(const Slot *slots, Py_ssize_t count, PyObject **nulls)
{
    PyObject *tuple = PyTuple_New(count), *numbers = NULL;
    uint64_t bits = 0;
    *nulls = NULL;
    if (tuple == NULL || (slots_need_numbers(slots, count) && (numbers = PyList_New(0)) == NULL))
        goto failed;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = slot_get(slots[i]);
        if (slot_is_number(slots[i])) {
            if ((value = PyLong_FromSsize_t(slot_number(slots[i]))) == NULL)
                goto failed;
            PyTuple_SET_ITEM(tuple, i, value);
            if (numbers_add(numbers, ~i) < 0)
                goto failed;
            continue;
        }
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(value != NULL ? value : Py_None));
        if (value != NULL)
            continue;
        if (numbers == NULL)
            bits |= 1ULL << i;
        else if (numbers_add(numbers, i) < 0)
            goto failed;
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

/* Whether `nulls` names `mark`: i for an empty slot i, ~i for one with a number. It has been checked. */
static bool
slot_is_marked(PyObject *nulls, Py_ssize_t mark)
{
    if (PyLong_Check(nulls))
        return mark < 63 && (PyLong_AsUnsignedLongLong(nulls) >> mark & 1) != 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(nulls); k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(nulls, k)) == mark)
            return true;
    return false;
}

/* Whether slots_save() has found a number in slot i. */
static bool
slot_had_number(PyObject *nulls, Py_ssize_t i)
{
    return SLOTS_HAVE_NUMBERS && !PyLong_Check(nulls) && slot_is_marked(nulls, ~i);
}

/* A slot as slots_save() has saved it; it owns what is in it. */
static Slot
slot_restore(PyObject *nulls, Py_ssize_t i, PyObject *value)
{
    if (slot_is_marked(nulls, i))
        return SLOT_EMPTY;
    if (slot_had_number(nulls, i))
        return slot_of_number(PyLong_AsSsize_t(value));
    return slot_new(value);
}

/* Whether `mark` in a tuple of them can be right: i for an empty slot, ~i for an operand that is a number, which `slots` has as an int. */
static bool
mark_is_right(Py_ssize_t mark, PyObject *slots, PyCodeObject *code)
{
    PyObject *value;
    if (mark >= 0 || !SLOTS_HAVE_NUMBERS)
        return mark >= 0;
    if (PyErr_Occurred() || ~mark < code->co_nlocalsplus || ~mark >= PyTuple_GET_SIZE(slots))
        return false;
    value = PyTuple_GET_ITEM(slots, ~mark);
    return PyLong_Check(value) && PyLong_AsSsize_t(value) >= 0 && PyLong_AsSsize_t(value) <= INT_MAX;
}

/* Whether it can be what slots_save() has said of `slots` of a frame of this code. */
static bool
nulls_are_right(PyObject *nulls, PyObject *slots, PyCodeObject *code)
{
    bool right = PyLong_Check(nulls);
    if (right)
        right = !(PyLong_AsUnsignedLongLong(nulls) == (unsigned long long)-1 && PyErr_Occurred());
    else if ((right = PyTuple_Check(nulls)))
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(nulls) && right; k++)
            right = PyLong_Check(PyTuple_GET_ITEM(nulls, k)) && mark_is_right(PyLong_AsSsize_t(PyTuple_GET_ITEM(nulls, k)), slots, code);
    PyErr_Clear();
    return right;
}

/* A function that the interpreter is in the middle of making: its closure comes next, and no caller of FunctionType can do without. */
static PyObject *
native_function_begun(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *globals;
    if (!PyArg_ParseTuple(args, "O!O!:function_begun", &PyCode_Type, &code, &PyDict_Type, &globals))
        return NULL;
#ifdef SET_FUNCTION_ATTRIBUTE
    return PyFunction_New(code, globals);
#else
    PyErr_Format(PyExc_ValueError, "the function %U lacks its closure", ((PyCodeObject *)code)->co_qualname);
    return NULL;
#endif
}

static PyObject *
refuse_call(PyObject *callable, PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(count), PyObject *Py_UNUSED(names))
{
    PyErr_Format(PyExc_ValueError, "the snapshot calls %U, which only the function around it may", ((PyFunctionObject *)callable)->func_qualname);
    return NULL;
}

/* Of pickle, above all. A comprehension's function crashes with anything but an iterator; the frames of a snapshot need it, and
   it is never called again. Returns None. */
static PyObject *
native_never_called(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (!PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "never_called() takes a function, not %R", function);
        return NULL;
    }
    ((PyFunctionObject *)function)->vectorcall = refuse_call;
    Py_RETURN_NONE;
}

static PyObject *
native_annotations_of(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (!PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "annotations_of() takes a function, not %R", function);
        return NULL;
    }
    PyObject *held = ((PyFunctionObject *)function)->func_annotations;
    /* A tuple of names and values until the attribute is read for the first time. */
    if (held != NULL && !PyDict_CheckExact(held))
        held = PyFunction_GetAnnotations(function);
    if (held == NULL && PyErr_Occurred())
        return NULL;
    return Py_NewRef(held != NULL ? held : Py_None);
}
