/* roamlet.snapshot._native: one translation unit for reading frames of suspended tasklets and building them again. On a version of
   CPython whose frames are not known here the module has nothing but `known`, which says so. */
#include "native.h"

#if ROAMLET_SNAPSHOT_KNOWN

#include "code.c"
#include "sound.c"
#include "datastack.c"
#include "ticket.c"
#include "generators.c"
#include "record.c"
#include "boundary.c"
#include "capture.c"
#include "restore.c"
#include "discard.c"
#include "names.c"

static PyObject *
native_setup(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *error, *base, *bridge, *function, *type;
    if (!PyArg_ParseTuple(args, "OO!O!O!O:setup", &error, &PyCode_Type, &base, &PyCode_Type, &bridge, &PyFunction_Type, &function, &type))
        return NULL;
    Py_XSETREF(CannotSave, Py_NewRef(error));
    Py_XSETREF(base_code, (PyCodeObject *)Py_NewRef(base));
    Py_XSETREF(bridge_code, (PyCodeObject *)Py_NewRef(bridge));
    Py_XSETREF(initialised, Py_NewRef(function));
    Py_XSETREF(partial, Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyObject *
native_selects(PyObject *Py_UNUSED(module), PyObject *channel)
{
    if (PyObject_TypeCheck(channel, channel_type))
        return PyBool_FromLong(api->selects(channel));
    PyErr_Format(PyExc_TypeError, "expected a channel, not %R", channel);
    return NULL;
}

static PyObject *
native_buffered(PyObject *Py_UNUSED(module), PyObject *channel)
{
    if (PyObject_TypeCheck(channel, channel_type))
        return api->buffered(channel);
    PyErr_Format(PyExc_TypeError, "expected a channel, not %R", channel);
    return NULL;
}

/* The signatures; what each does is in _native.pyi. */
static PyMethodDef native_methods[] = {
    {"setup", native_setup, METH_VARARGS, "setup($module, error, base, bridge, initialised, partial, /)\n--\n\n"},
    {"capture", native_capture, METH_VARARGS, "capture($module, tasklet, known, resolve, /)\n--\n\n"},
    {"check", native_check, METH_VARARGS, "check($module, functions, records, handled, before, end, returns, keeps, held=-1, /)\n--\n\n"},
    {"selects", native_selects, METH_O, "selects($module, channel, /)\n--\n\n"},
    {"buffered", native_buffered, METH_O, "buffered($module, channel, /)\n--\n\n"},
    {"build", native_build, METH_O, "build($module, ticket, /)\n--\n\n"},
    {"go_on", (PyCFunction)(void (*)(void))native_go_on, METH_FASTCALL, "go_on($module, ticket, /)\n--\n\n"},
    {"settle", native_settle, METH_VARARGS, "settle($module, tasklet, direction, channel, value, flags, atomic, /)\n--\n\n"},
    {"settle_all", native_settle_all, METH_O, "settle_all($module, places, /)\n--\n\n"},
    {"detach", native_detach, METH_O, "detach($module, tasklet, /)\n--\n\n"},
    {"defuse", native_defuse, METH_O, "defuse($module, tasklet, /)\n--\n\n"},
    {"hold", native_hold, METH_VARARGS, "hold($module, tasklet, held, /)\n--\n\n"},
    {"function_begun", native_function_begun, METH_VARARGS, "function_begun($module, code, globals, /)\n--\n\n"},
    {"never_called", native_never_called, METH_O, "never_called($module, function, /)\n--\n\n"},
    {"annotations_of", native_annotations_of, METH_O, "annotations_of($module, function, /)\n--\n\n"},
    {"generator_drop", native_generator_drop, METH_O, "generator_drop($module, generator, /)\n--\n\n"},
    {"generator_get", native_generator_get, METH_O, "generator_get($module, generator, /)\n--\n\n"},
    {"generator_set", native_generator_set, METH_VARARGS, "generator_set($module, generator, state, unit, offset, nulls, slots, handled, /)\n--\n\n"},
    {"names", native_names, METH_VARARGS, "names($module, places, found, /)\n--\n\n"},
    {"is_sound", native_is_sound, METH_O, "is_sound($module, code, /)\n--\n\n"},
    {"large_numbers", native_large_numbers, METH_O, "large_numbers($module, records, /)\n--\n\n"},
    {"names_changed", native_names_changed, METH_VARARGS, "names_changed($module, versions, sums, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

/* -1 with an exception set. */
static int
native_prepare(void)
{
    PyObject *core = PyImport_ImportModule("roamlet.core._core");
    channel_type = core != NULL ? (PyTypeObject *)PyObject_GetAttrString(core, "channel") : NULL;
    Py_XDECREF(core);
    name_init = PyUnicode_InternFromString("__init__");
    name_call = PyUnicode_InternFromString("__call__");
    name_enter = PyUnicode_InternFromString("__enter__");
    name_exit = PyUnicode_InternFromString("__exit__");
    ticket_type = (PyTypeObject *)PyType_FromSpec(&ticket_spec);
    silence_type = (PyTypeObject *)PyType_FromSpec(&silence_spec);
    return channel_type != NULL && name_init != NULL && name_call != NULL && name_enter != NULL && name_exit != NULL && ticket_type != NULL &&
                   silence_type != NULL
               ? 0 : -1;
}

#else

static PyMethodDef native_methods[] = {{NULL, NULL, 0, NULL}};

static int
native_prepare(void)
{
    (void)api;
    return 0;
}

#endif

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "roamlet.snapshot._native",
    .m_doc = "Reading the frames of suspended tasklets, and building them again.",
    .m_size = 0,
    .m_methods = native_methods,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    PyObject *module;
    if ((api = roamlet_import_api()) == NULL || native_prepare() < 0 || (module = PyModule_Create(&native_module)) == NULL)
        return NULL;
    if (PyModule_AddObjectRef(module, "known", ROAMLET_SNAPSHOT_KNOWN ? Py_True : Py_False) < 0)
        Py_CLEAR(module);
    return module;
}
