/* roamlet.sync._native: one translation unit for the locks and queues. Independent of the switching backend: everything that waits
   does so through the core's table of functions. */
#include "sync.h"

#include "arguments.h"

static PyObject *Deadlock, *TaskletExit, *Cancelled, *CancelScope; /* of roamlet.core */

#include "lock.c"
#include "rlock.c"
#include "semaphore.c"
#include "event.c"
#include "condition.c"
#include "simple_queue.c"
#include "queue.c"
#include "queue_type.c"
#include "layout.c"

static PyObject *
native_wait_for_signals(PyObject *Py_UNUSED(module), PyObject *on)
{
    int truth = PyObject_IsTrue(on);
    if (truth < 0)
        return NULL;
    wait_flags = truth ? ROAMLET_WAIT_HUB : 0;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wait_for_signals_doc, "wait_for_signals($module, on, /)\n--\n\n"
"Let waits of all threads end by signal handlers too: never take them for a deadlock. For `python -m roamlet.threads`.");

static PyMethodDef native_methods[] = {
    {"wait_for_signals", native_wait_for_signals, METH_O, wait_for_signals_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "roamlet.sync._native",
    .m_doc = "Locks, conditions, semaphores, events and queues in C.",
    .m_size = 0,
    .m_methods = native_methods,
};

/* Make the heap types; those that are there stay, when the module is imported once more. -1 with an exception set. */
static int
types_make(void)
{
    if (PriorityQueue_Type != NULL) /* the last one */
        return 0;
    const struct {
        PyTypeObject **place;
        PyType_Spec *spec;
        PyTypeObject **base;
    } wanted[] = {
        {&Condition_Type, &Condition_spec, NULL},
        {&Semaphore_Type, &Semaphore_spec, NULL},
        {&BoundedSemaphore_Type, &BoundedSemaphore_spec, &Semaphore_Type},
        {&Event_Type, &Event_spec, NULL},
        {&Queue_Type, &Queue_spec, NULL},
        {&LifoQueue_Type, &LifoQueue_spec, &Queue_Type},
        {&PriorityQueue_Type, &PriorityQueue_spec, &Queue_Type},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        PyObject *base = wanted[i].base != NULL ? (PyObject *)*wanted[i].base : (PyObject *)&PyBaseObject_Type;
        if ((*wanted[i].place = (PyTypeObject *)PyType_FromSpecWithBases(wanted[i].spec, base)) == NULL)
            return -1;
    }
    layout_of_types();
    return 0;
}

PyMODINIT_FUNC
PyInit__native(void)
{
    PyObject *core, *module;
    /* It is called again when the module is taken out of sys.modules and imported once more. */
    if ((api = roamlet_import_api()) == NULL || (core = PyImport_ImportModule("roamlet.core._core")) == NULL)
        return NULL;
    const struct {
        PyObject **place;
        const char *name;
    } wanted[] = {{&Deadlock, "Deadlock"}, {&TaskletExit, "TaskletExit"}, {&Cancelled, "Cancelled"}, {&CancelScope, "CancelScope"}};
    bool found = true;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && found; i++) {
        PyObject *value = PyObject_GetAttrString(core, wanted[i].name);
        Py_XSETREF(*wanted[i].place, value);
        found = value != NULL;
    }
    Py_DECREF(core);
    if (!found || queues_prepare() < 0 || types_make() < 0 || (module = PyModule_Create(&native_module)) == NULL)
        return NULL;
    PyTypeObject *const types[] = {&Lock_Type, &RLock_Type, Condition_Type, Semaphore_Type, BoundedSemaphore_Type, Event_Type,
                                   Queue_Type, LifoQueue_Type, PriorityQueue_Type, &SimpleQueue_Type, NULL};
    for (PyTypeObject *const *type = types; *type != NULL && module != NULL; type++)
        if (PyModule_AddType(module, *type) < 0)
            Py_CLEAR(module);
    if (module != NULL && PyModule_AddObjectRef(module, "ShutDown", ShutDown) < 0)
        Py_CLEAR(module);
    return module;
}
