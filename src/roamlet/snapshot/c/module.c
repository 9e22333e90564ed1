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

PyDoc_STRVAR(setup_doc, "setup($module, error, base, bridge, initialised, partial, /)\n--\n\n"
"Take what loading/helpers.py defines: the error of what cannot be saved, the code of its helpers, functools.partial.");
PyDoc_STRVAR(capture_doc, "capture($module, tasklet, known, resolve, /)\n--\n\n"
"All there is to save of a tasklet that does not run. Changes nothing in it; records name a function by known[function], or by\n"
"what resolve(function) returns, which is noted there.");
PyDoc_STRVAR(build_doc, "build($module, ticket, /)\n--\n\n"
"Build the frames of a ticket on this thread's data stack, for go_on(). MemoryError and RecursionError leave nothing behind.");
PyDoc_STRVAR(check_doc, "check($module, functions, records, handled, before, end, returns, keeps, held=-1, /)\n--\n\n"
"A ticket for a tasklet that was saved so. ValueError when its records do not fit the code of their functions; nothing is built.\n"
"What the first record has as operands is not compared, but for `held` from the top, unless that is -1.");
PyDoc_STRVAR(selects_doc, "selects($module, channel, /)\n--\n\nWhether tasklets wait in select() at this channel.");
PyDoc_STRVAR(go_on_doc, "go_on($module, ticket, /)\n--\n\n"
"Put the frames in place and suspend the tasklet; return what the innermost of them is to get.");
PyDoc_STRVAR(settle_doc, "settle($module, tasklet, direction, channel, value, flags, atomic, /)\n--\n\n"
"Put a tasklet that go_on() has suspended into the state that was saved.");
PyDoc_STRVAR(settle_all_doc, "settle_all($module, places, /)\n--\n\n"
"Do what settle() does for each tuple of its arguments in a list; a tuple of a new tasklet alone puts that into the run queue.\n"
"All or none: nothing can come in between.");
PyDoc_STRVAR(detach_doc, "detach($module, tasklet, /)\n--\n\n"
"Take a tasklet out of its channel or the run queue. Returns the arguments after the first with which settle() undoes it.");
PyDoc_STRVAR(defuse_doc, "defuse($module, tasklet, /)\n--\n\n"
"Let no handler and no finally block of a suspended tasklet run any more: what is thrown into it ends it. Returns what must\n"
"be kept until it has ended.");
PyDoc_STRVAR(hold_doc, "hold($module, tasklet, held, /)\n--\n\n"
"If held, only note kills of this tasklet from now on, and refuse what else would let it run; else no longer. Whether it was\n"
"killed meanwhile. The end of its thread ends it in any case.");
PyDoc_STRVAR(function_begun_doc, "function_begun($module, code, globals, /)\n--\n\n"
"A function as the interpreter makes it before it gives it its closure.");
PyDoc_STRVAR(never_called_doc, "never_called($module, function, /)\n--\n\n"
"Let C code that calls a comprehension's function get ValueError from now on: it crashes with anything but an iterator.");
PyDoc_STRVAR(generator_drop_doc, "generator_drop($module, generator, /)\n--\n\n"
"Let a suspended generator or coroutine be over, without its finally blocks.");
PyDoc_STRVAR(generator_get_doc, "generator_get($module, generator, /)\n--\n\n"
"(state, function, unit, offset, nulls, slots, handled) of a generator or coroutine that waits in a yield or has not begun;\n"
"(state, function) of one that runs, (state, None) of one that is over.");
PyDoc_STRVAR(generator_set_doc, "generator_set($module, generator, state, unit, offset, nulls, slots, handled, /)\n--\n\n"
"Overwrite a fresh generator or coroutine. ValueError when it has begun or the state does not fit its code.");

PyDoc_STRVAR(names_doc, "names($module, places, found, /)\n--\n\n"
"The function that a pickler asks for persistent ids: of an interned string whose id() is in `places` itself, of other objects there\n"
"found(object, place); of a dictionary or set whose keys could be id()s found(object, None); None of all others.");
PyDoc_STRVAR(is_sound_doc, "is_sound($module, code, /)\n--\n\n"
"Whether code that has not run is such as the compiler makes: it jumps to its own instructions alone, none is specialised, and each\n"
"finds what the interpreter takes for granted.");
PyDoc_STRVAR(large_numbers_doc, "large_numbers($module, records, /)\n--\n\n"
"Where in records there are integers that could be the id() of an object: tuples of the record's number and the slot's.");
PyDoc_STRVAR(names_changed_doc, "names_changed($module, versions, sums, /)\n--\n\n"
"The names of the modules that hold something else than when these two dicts, which are for this function alone, were last given.\n"
"Modules that are not in sys.modules any more are not named.");

static PyMethodDef native_methods[] = {
    {"setup", native_setup, METH_VARARGS, setup_doc},
    {"capture", native_capture, METH_VARARGS, capture_doc},
    {"check", native_check, METH_VARARGS, check_doc},
    {"selects", native_selects, METH_O, selects_doc},
    {"build", native_build, METH_O, build_doc},
    {"go_on", (PyCFunction)(void (*)(void))native_go_on, METH_FASTCALL, go_on_doc},
    {"settle", native_settle, METH_VARARGS, settle_doc},
    {"settle_all", native_settle_all, METH_O, settle_all_doc},
    {"detach", native_detach, METH_O, detach_doc},
    {"defuse", native_defuse, METH_O, defuse_doc},
    {"hold", native_hold, METH_VARARGS, hold_doc},
    {"function_begun", native_function_begun, METH_VARARGS, function_begun_doc},
    {"never_called", native_never_called, METH_O, never_called_doc},
    {"generator_drop", native_generator_drop, METH_O, generator_drop_doc},
    {"generator_get", native_generator_get, METH_O, generator_get_doc},
    {"generator_set", native_generator_set, METH_VARARGS, generator_set_doc},
    {"names", native_names, METH_VARARGS, names_doc},
    {"is_sound", native_is_sound, METH_O, is_sound_doc},
    {"large_numbers", native_large_numbers, METH_O, large_numbers_doc},
    {"names_changed", native_names_changed, METH_VARARGS, names_changed_doc},
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
