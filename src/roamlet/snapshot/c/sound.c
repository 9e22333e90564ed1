/* Whether a saved frame can be what its code has left: the interpreter checks little of it. core/c/cpython/follow.h works out what the
   code leaves in each slot. */

static const char *const kind_names[] = {
    [KIND_ANY] = "the object whose method is called",
    [KIND_EMPTY] = "nothing",
    [KIND_VALUE] = "something",
    [KIND_ITERATOR] = "an iterator",
    [KIND_GENERATOR] = "a generator",
    [KIND_INDEX] = "the number of an item, or nothing,",
    [KIND_LEFTOVER] = "the number of an item, or nothing,",
    [KIND_ITEMS] = "an iterator",
    [KIND_LIST] = "a list",
    [KIND_EXCEPTIONS] = "a list of exceptions",
    [KIND_SET] = "a set",
    [KIND_DICT] = "a dict",
    [KIND_TUPLE] = "a tuple of the right length",
    [KIND_CELLS] = "a tuple of cells",
    [KIND_CONSTANT] = "a constant of the code",
    [KIND_FUNCTION] = "a function of the code",
    [KIND_CELL] = "a cell",
    [KIND_EXCEPTION] = "an exception",
    [KIND_EXCEPTION_OR_NONE] = "an exception or None",
    [KIND_LASTI] = "the number of an instruction",
};

static bool
is_iterator(PyObject *value)
{
    return PyIter_Check(value);
}

static bool
is_async_iterator(PyObject *value)
{
    PyAsyncMethods *methods = Py_TYPE(value)->tp_as_async;
    return methods != NULL && methods->am_anext != NULL;
}

static bool
is_exception_or_none(PyObject *value)
{
    return value == Py_None || PyExceptionInstance_Check(value);
}

/* Whether each item of a list or tuple is what `test` asks for. */
static bool
items_are(PyObject *items, bool (*test)(PyObject *item))
{
    Py_ssize_t count = PyList_Check(items) ? PyList_GET_SIZE(items) : PyTuple_GET_SIZE(items);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!test(PyList_Check(items) ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i)))
            return false;
    return true;
}

static bool
is_cell(PyObject *value)
{
    return PyCell_Check(value);
}

static bool
is_string(PyObject *value)
{
    return PyUnicode_CheckExact(value);
}

/* Whether it is code that does the same as this constant; both are made of what compares without running Python code. */
static bool
is_code(PyObject *value, PyObject *constant)
{
    int same = value == constant ? 1 : PyCode_Check(value) && constant != NULL && PyCode_Check(constant) ? PyObject_RichCompareBool(value, constant, Py_EQ) : 0;
    if (same < 0)
        PyErr_Clear(); /* memory is out, or constants of another type cannot be compared */
    return same > 0;
}

/* Whether it can stand for this constant: code is the same, a tuple is as long, names of keywords are strings, all else is of its type. */
static bool
is_constant(PyObject *value, PyObject *constant)
{
    if (value == constant)
        return true;
    if (constant == NULL || !Py_IS_TYPE(value, Py_TYPE(constant)))
        return false;
    if (PyCode_Check(constant))
        return is_code(value, constant);
    if (PyTuple_CheckExact(constant)) /* annotations are pairs: the interpreter takes an even length for granted */
        return PyTuple_GET_SIZE(value) == PyTuple_GET_SIZE(constant) && (!items_are(constant, is_string) || items_are(value, is_string));
    return true;
}

/* Whether it is an exact int that numbers an instruction. */
static bool
is_unit(PyObject *value, PyCodeObject *code)
{
    Py_ssize_t unit = PyLong_CheckExact(value) ? PyLong_AsSsize_t(value) : -1;
    if (unit < 0)
        PyErr_Clear();
    return unit >= 0 && unit < Py_SIZE(code);
}

static bool
is_tuple_of(PyObject *value, size_t count)
{
    return PyTuple_CheckExact(value) && (count == KIND_MANY || (size_t)PyTuple_GET_SIZE(value) == count);
}

/* Whether `value` is of this kind; `goes_through`: a loop takes KIND_ITEMS as its iterator. */
static bool
value_is(PyObject *value, Kind kind, PyCodeObject *code, bool goes_through)
{
    switch (kind_is(kind)) {
    case KIND_EMPTY:
        return false;
    case KIND_GENERATOR:
    case KIND_ITERATOR:
        return is_iterator(value);
    case KIND_ITEMS:
        return !goes_through || is_iterator(value) || is_async_iterator(value);
    case KIND_LIST:
        return PyList_CheckExact(value);
    case KIND_EXCEPTIONS:
        return PyList_CheckExact(value) && items_are(value, is_exception_or_none);
    case KIND_SET:
        return PySet_CheckExact(value);
    case KIND_DICT:
        return PyDict_CheckExact(value);
    case KIND_TUPLE:
        return is_tuple_of(value, kind_more(kind));
    case KIND_CELLS:
        return is_tuple_of(value, kind_more(kind)) && items_are(value, is_cell);
    case KIND_CONSTANT:
        return is_constant(value, kinds_constant(code, kind_more(kind)));
    case KIND_FUNCTION:
        return PyFunction_Check(value) && is_code(PyFunction_GET_CODE(value), kinds_constant(code, kind_more(kind)));
    case KIND_CELL:
        return is_cell(value);
    case KIND_EXCEPTION:
        return PyExceptionInstance_Check(value);
    case KIND_EXCEPTION_OR_NONE:
        return is_exception_or_none(value);
    case KIND_LASTI:
        return is_unit(value, code);
    default:
        return true;
    }
}

/* Whether it is the descriptor of list.append(). */
static bool
is_list_append(PyObject *value)
{
    return Py_IS_TYPE(value, &PyMethodDescr_Type) && PyDescr_TYPE(value) == &PyList_Type &&
           strcmp(((PyMethodDescrObject *)value)->d_method->ml_name, "append") == 0;
}

#if LOOPS_HAVE_INDEX
/* Whether what slot i has is an index, and fits what is below it: the interpreter asks neither whether that has items by their numbers nor
   whether it is an iterator. */
static bool
index_is_right(PyObject *nulls, PyObject *slots, Py_ssize_t i, const Slots *now)
{
    bool number = slot_had_number(nulls, i), belongs = kind_is(now->slots[i]) == KIND_INDEX;
    PyObject *below = belongs ? PyTuple_GET_ITEM(slots, i - 1) : NULL;
    if (!number && !slot_is_marked(nulls, i))
        return false;
    if (!belongs)
        return true;
    if (slot_is_marked(nulls, i - 1) || slot_had_number(nulls, i - 1))
        return false;
    return number ? Py_TYPE(below)->_tp_iteritem != NULL : kind_is(now->slots[i - 1]) != KIND_ITERATOR || is_iterator(below);
}
#endif

/* Whether slot i, as slots_save() has saved it, is of this kind. */
static bool
slot_is(PyObject *nulls, PyObject *slots, Py_ssize_t i, const Slots *now)
{
    Kind kind = now->slots[i];
    if (kind_is(kind) == KIND_EMPTY && i < now->variables)
        kind = KIND_ANY;
#if LOOPS_HAVE_INDEX
    if (kind_is_index(kind))
        return index_is_right(nulls, slots, i, now);
    if (kind_is(kind) == KIND_ITERATOR && i + 1 < now->count && kind_is(now->slots[i + 1]) == KIND_INDEX) /* see there */
        kind = KIND_VALUE;
#endif
    if (slot_is_marked(nulls, i))
        return !kind_is_filled(kind) && !(APPEND_NEEDS_SELF && i > now->variables && is_list_append(PyTuple_GET_ITEM(slots, i - 1)));
    if (slot_had_number(nulls, i) != (SLOTS_HAVE_NUMBERS && kind_is(kind) == KIND_LASTI))
        return false;
    return value_is(PyTuple_GET_ITEM(slots, i), kind, now->code, now->goes_through);
}

/* Raise ValueError for slot i. -1. */
static int
slot_bad(PyObject *nulls, PyObject *slots, Py_ssize_t i, const Slots *now)
{
    PyObject *value = PyTuple_GET_ITEM(slots, i);
    const char *wanted = kind_names[kind_is(now->slots[i])];
    if (slot_is_marked(nulls, i))
        PyErr_Format(PyExc_ValueError, "the saved state of a frame of %U does not fit its code: slot %zd has nothing where %s is needed",
                     now->code->co_qualname, i, wanted);
    else
        PyErr_Format(PyExc_ValueError, "the saved state of a frame of %U does not fit its code: slot %zd has %s %.100s where %s is needed",
                     now->code->co_qualname, i, strchr("aeiou", *Py_TYPE(value)->tp_name) != NULL ? "an" : "a", Py_TYPE(value)->tp_name,
                     wanted);
    return -1;
}

static int
frame_bad(PyCodeObject *code)
{
    PyErr_Format(PyExc_ValueError, "the saved state of a frame of %U does not fit its code", code->co_qualname);
    return -1;
}

/* Whether a value that is to come may be put there: nothing more is known of it. */
static bool
takes_value(Kind kind)
{
    return kind_is(kind) == KIND_VALUE || kind_is(kind) == KIND_ANY;
}

/* Compare slots with those of a frame that stands so. `spared`: so many operands from the bottom are not compared. 0 with *standing set;
   -1 with ValueError or MemoryError set. */
static int
frame_is_sound(PyCodeObject *code, int how, Py_ssize_t unit, int offset, PyObject *nulls, PyObject *slots, Py_ssize_t spared, Standing *standing)
{
    Py_ssize_t count = PyTuple_GET_SIZE(slots), to_come = how != STANDS_BEFORE;
    Kinds *kinds = code_kinds(code);
    const Slots *now;
    int failed = 0;
    if (kinds == NULL)
        return -1;
    now = kinds_at(kinds, code, how, unit, offset, standing);
    if (now == NULL || now->count != count + to_come || (to_come && !takes_value(now->slots[count])) ||
        (how != STANDS_YIELDED && standing->goes_on <= kinds->begins))
        failed = frame_bad(code);
    for (Py_ssize_t i = 0; i < count && failed == 0; i++)
        if ((i < now->variables || i >= now->variables + spared) && !slot_is(nulls, slots, i, now))
            failed = slot_bad(nulls, slots, i, now);
    kinds_release(kinds);
    return failed;
}

/* A copy of the code with these changes, a dictionary that is stolen, or NULL with an exception set: a new reference, or NULL likewise. */
static PyCodeObject *
code_copy(PyCodeObject *code, PyObject *changes)
{
    PyObject *replace = PyObject_GetAttrString((PyObject *)code, "replace"), *none = PyTuple_New(0), *copy = NULL;
    if (replace != NULL && none != NULL && changes != NULL)
        copy = PyObject_Call(replace, none, changes);
    Py_XDECREF(replace);
    Py_XDECREF(none);
    Py_XDECREF(changes);
    return (PyCodeObject *)copy;
}

/* Whether each cache is one that its instruction has: co_code shows those as caches whatever is there, and the interpreter does not
   survive any others. -1 with an exception set. */
static int
code_has_right_caches(PyCodeObject *code)
{
    PyObject *bytes = PyCode_GetCode(code), *filled = NULL, *found = NULL;
    PyCodeObject *copy = NULL;
    int right = -1;
    if (bytes != NULL)
        filled = PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    for (Py_ssize_t i = 0; filled != NULL && i < PyBytes_GET_SIZE(filled); i += 2)
        if (PyBytes_AS_STRING(filled)[i] == CACHE)
            PyBytes_AS_STRING(filled)[i] = NOP;
    if (filled != NULL)
        copy = code_copy(code, Py_BuildValue("{sO}", "co_code", filled));
    if (copy != NULL && (found = PyCode_GetCode(copy)) != NULL)
        right = PyObject_RichCompareBool(bytes, found, Py_EQ);
    Py_XDECREF(bytes);
    Py_XDECREF(filled);
    Py_XDECREF(found);
    Py_XDECREF(copy);
    return right;
}

/* Whether code that has not run is as the compiler makes it: not specialised, and with nothing in its caches, which specialised
   instructions trust. co_code hides both. -1 with an exception set. */
static int
code_is_plain(PyCodeObject *code)
{
    PyCodeObject *copy = code_copy(code, PyDict_New());
    int plain = copy == NULL ? -1
                : memcmp(_PyCode_CODE(code), _PyCode_CODE(copy), (size_t)Py_SIZE(code) * sizeof(_Py_CODEUNIT)) == 0;
    Py_XDECREF(copy);
    return plain;
}

static PyObject *
native_is_sound(PyObject *Py_UNUSED(module), PyObject *object)
{
    Kinds *kinds;
    bool sound;
    int plain;
    if (!PyCode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected code, not %R", object);
        return NULL;
    }
    if ((kinds = code_kinds((PyCodeObject *)object)) == NULL)
        return NULL;
    sound = kinds->units > 0;
    kinds_release(kinds);
    if (!sound)
        Py_RETURN_FALSE;
    plain = code_is_plain((PyCodeObject *)object);
    if (plain > 0)
        plain = code_has_right_caches((PyCodeObject *)object);
    return plain < 0 ? NULL : PyBool_FromLong(plain);
}
