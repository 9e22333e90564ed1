/* Which of the objects that are pickled are attributes of modules. Asked for each of them, so the answer "no" has to be quick. */

/* A number that changes when what the module's dictionary holds does; None and integers do not count. */
static unsigned long long
names_sum(PyObject *space)
{
    unsigned long long sum = (uintptr_t)space;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(space, &at, &key, &value))
        if (value != Py_None && !PyLong_Check(value))
            sum = (sum ^ (uintptr_t)value) * 0x9E3779B97F4A7C15ULL;
    return sum;
}

/* Whether the number that `numbers` has for `name` is this one, which it has from now on. 1, 0, or -1 with an exception set. Runs no
   Python code. */
static int
names_same(PyObject *numbers, PyObject *name, unsigned long long value)
{
    PyObject *known = PyDict_GetItemWithError(numbers, name), *number;
    int failed;
    if (known == NULL && PyErr_Occurred())
        return -1;
    if (known != NULL && PyLong_CheckExact(known) && PyLong_AsUnsignedLongLongMask(known) == value)
        return 1;
    if ((number = PyLong_FromUnsignedLongLong(value)) == NULL)
        return -1;
    failed = PyDict_SetItem(numbers, name, number);
    Py_DECREF(number);
    return failed;
}

/* Put the module's name into `changed` if it holds something else than before. -1 with an exception set. Runs no Python code. */
static int
names_compare(PyObject *name, PyObject *each, PyObject *versions, PyObject *sums, PyObject *changed)
{
    PyObject *space = PyModule_GetDict(each);
    uint64_t version = dict_version(space);
    int same = version != 0 ? names_same(versions, name, version) : 0;
    if (same == 0)
        same = names_same(sums, name, names_sum(space));
    return same != 0 ? (same < 0 ? -1 : 0) : PyList_Append(changed, name);
}

/* By place in sys.modules: the name there, owned, and the version that its module's dictionary had when it was compared. As each state
   of each dictionary has a version of its own, those that are still the same need no look into `versions`. */
static struct {
    PyObject *versions; /* borrowed, only compared: those that they were compared with */
    Py_ssize_t count, room;
    struct SeenNames {
        PyObject *name;
        uint64_t version;
    } *modules;
} names_seen;

static inline bool
names_are_seen(Py_ssize_t place, PyObject *name, uint64_t version)
{
    return version != 0 && place < names_seen.count && names_seen.modules[place].version == version && names_seen.modules[place].name == name;
}

/* Note the next place, or another module at one. Without memory it is compared again the next time. Runs no Python code. */
static void
names_see(Py_ssize_t place, PyObject *name, uint64_t version)
{
    if (version == 0 || place > names_seen.count)
        return;
    if (place == names_seen.room) {
        Py_ssize_t room = place + place / 2 + 256;
        struct SeenNames *modules = PyMem_Realloc(names_seen.modules, (size_t)room * sizeof *modules);
        if (modules == NULL)
            return;
        names_seen.modules = modules;
        names_seen.room = room;
    }
    if (place == names_seen.count)
        names_seen.modules[names_seen.count++].name = NULL;
    names_seen.modules[place].version = version;
    Py_XSETREF(names_seen.modules[place].name, Py_NewRef(name));
}

static void
names_forget(void)
{
    while (names_seen.count > 0)
        Py_DECREF(names_seen.modules[--names_seen.count].name);
}

static PyObject *
native_names_changed(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *versions, *sums, *changed, *name, *each;
    Py_ssize_t at = 0, place = 0;
    if (!PyArg_ParseTuple(args, "O!O!:names_changed", &PyDict_Type, &versions, &PyDict_Type, &sums))
        return NULL;
    if (versions != names_seen.versions || PyDict_GET_SIZE(versions) == 0) {
        names_forget();
        names_seen.versions = versions;
    }
    changed = PyList_New(0);
    while (changed != NULL && PyDict_Next(PyImport_GetModuleDict(), &at, &name, &each)) {
        uint64_t version;
        if (!PyUnicode_CheckExact(name) || !PyModule_Check(each))
            continue;
        version = dict_version(PyModule_GetDict(each));
        if (!names_are_seen(place, name, version)) {
            if (names_compare(name, each, versions, sums, changed) < 0) {
                Py_CLEAR(changed);
                break;
            }
            names_see(place, name, version);
        }
        place++;
    }
    return changed;
}

/* Whether it could be the id() of an object: it is an int, and that large. */
static bool
could_be_id(PyObject *object)
{
    int overflow;
    return PyLong_CheckExact(object) && PyLong_AsLongLongAndOverflow(object, &overflow) > 1 << 16 && overflow == 0;
}

/* Whether the first of a dictionary's or a set's keys could be the id() of an object. */
static bool
has_ids(PyObject *object)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    if (PyDict_Check(object))
        return PyDict_Next(object, &at, &key, &value) && could_be_id(key);
    return PyAnySet_Check(object) && _PySet_NextEntry(object, &at, &key, &hash) && could_be_id(key);
}

/* The persistent id of an object: `self` is (places by id, a callable for what is found there). Runs Python code for that alone. */
static PyObject *
name_of(PyObject *self, PyObject *object)
{
    PyObject *key, *place;
    if (object == Py_None || PyLong_Check(object))
        Py_RETURN_NONE;
    if ((key = PyLong_FromVoidPtr(object)) == NULL)
        return NULL;
    place = PyDict_GetItemWithError(PyTuple_GET_ITEM(self, 0), key);
    Py_DECREF(key);
    if (place == NULL && PyErr_Occurred())
        return NULL;
    if (place == NULL && !has_ids(object))
        Py_RETURN_NONE;
    if (place != NULL && PyUnicode_CheckExact(object) && PyUnicode_CHECK_INTERNED(object))
        return Py_NewRef(object);
    place = place != NULL ? Py_NewRef(place) : Py_NewRef(Py_None);
    key = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(self, 1), object, place, NULL);
    Py_DECREF(place);
    return key;
}

static PyMethodDef name_of_method = {"name_of", name_of, METH_O, NULL};

static PyObject *
native_names(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *places, *found, *self, *made;
    if (!PyArg_ParseTuple(args, "O!O:names", &PyDict_Type, &places, &found) || (self = PyTuple_Pack(2, places, found)) == NULL)
        return NULL;
    made = PyCFunction_New(&name_of_method, self);
    Py_DECREF(self);
    return made;
}

/* Where in records there are integers that could be the id() of an object: (number of the record, of its slot). */
static PyObject *
native_large_numbers(PyObject *Py_UNUSED(module), PyObject *records)
{
    PyObject *found = PyList_New(0);
    if (!PyList_Check(records)) {
        Py_XDECREF(found);
        PyErr_Format(PyExc_TypeError, "expected a list, not %R", records);
        return NULL;
    }
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(records); i++) {
        PyObject *record = PyList_GET_ITEM(records, i);
        PyObject *slots = PyTuple_Check(record) && PyTuple_GET_SIZE(record) > 4 ? PyTuple_GET_ITEM(record, 4) : Py_None;
        for (Py_ssize_t j = 0; found != NULL && PyTuple_Check(slots) && j < PyTuple_GET_SIZE(slots); j++) {
            PyObject *place = could_be_id(PyTuple_GET_ITEM(slots, j)) ? Py_BuildValue("(nn)", i, j) : Py_None;
            if (place == NULL || (place != Py_None && PyList_Append(found, place) < 0))
                Py_CLEAR(found);
            if (place != Py_None)
                Py_XDECREF(place);
        }
    }
    return found;
}
