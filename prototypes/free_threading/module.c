/* The extension module `pinned`: tasklets that stay in the thread that made them, and channels between threads, without a GIL. */

#include "pinned.h"
#include "collect.c"
#include "switch.c"
#include "visible.c"
#include "scheduler.c"
#include "channel.c"

static PyObject *
tasklet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Scheduler *scheduler = scheduler_get();
    Tasklet *self;
    if (scheduler == NULL)
        return NULL;
    if (kwargs != NULL || PyTuple_GET_SIZE(args) < 1 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "call it as Tasklet(function, *args)");
        return NULL;
    }
    self = (Tasklet *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->scheduler = scheduler;
    self->state = TASKLET_NEW;
    self->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    self->args = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    if (self->args == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    scheduler->live++;
    run_queue_add(scheduler, self);
    return Py_NewRef(self); /* the other reference is its own until it has ended, or that of the queue in which it waits: collect.c */
}

/* In any thread. It has ended, or has never begun: no stack, nothing in any queue. */
static void
tasklet_dealloc(Tasklet *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->function);
    Py_XDECREF(self->args);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
tasklet_kill(Tasklet *self, PyObject *Py_UNUSED(ignored))
{
    Scheduler *scheduler = scheduler_get();
    if (scheduler == NULL)
        return NULL;
    if (self == self->scheduler->main) {
        PyErr_SetString(PyExc_RuntimeError, "the main tasklet of a thread cannot be killed");
        return NULL;
    }
    if (self == scheduler->current) {
        PyErr_SetNone(TaskletExit);
        return NULL;
    }
    if (self->scheduler == scheduler)
        tasklet_kill_own(scheduler, self);
    else if (__atomic_load_n(&self->state, __ATOMIC_RELAXED) != TASKLET_ENDED)
        inbox_post(self->scheduler, self, true);
    Py_RETURN_NONE;
}

static PyObject *
tasklet_alive(Tasklet *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(__atomic_load_n(&self->state, __ATOMIC_RELAXED) != TASKLET_ENDED);
}

static PyMethodDef tasklet_methods[] = {
    {"kill", (PyCFunction)tasklet_kill, METH_NOARGS,
     "Raise TaskletExit in it, from any thread: where it waits, or at its next wait. Does not wait until it has ended."},
    {NULL},
};

static PyGetSetDef tasklet_getters[] = {
    {"alive", (getter)tasklet_alive, NULL, "Whether it has not ended."},
    {NULL},
};

static PyTypeObject Tasklet_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pinned.Tasklet",
    .tp_doc = "Tasklet(function, *args): runs in the thread that makes it, when that calls run(), schedule() or waits.",
    .tp_basicsize = sizeof(Tasklet),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tasklet_new,
    .tp_dealloc = (destructor)tasklet_dealloc,
    .tp_traverse = (traverseproc)tasklet_traverse,
#if COLLECTS
    .tp_finalize = (destructor)tasklet_finalize,
#endif
    .tp_free = PyObject_GC_Del,
    .tp_methods = tasklet_methods,
    .tp_getset = tasklet_getters,
};

static PyObject *
pinned_run(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Scheduler *scheduler = scheduler_get();
    if (scheduler == NULL)
        return NULL;
    if (scheduler->current != scheduler->main) {
        PyErr_SetString(PyExc_RuntimeError, "only the main tasklet of a thread may call run()");
        return NULL;
    }
    while (scheduler->live > 0) {
        scheduler->main_runs = true;
        switch_to(scheduler, scheduler->main, run_queue_next(scheduler));
    }
    Py_RETURN_NONE;
}

static PyObject *
pinned_schedule(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Scheduler *scheduler = scheduler_get();
    if (scheduler == NULL || tasklet_may_wait(scheduler->current) < 0)
        return NULL;
    run_queue_add(scheduler, scheduler->current);
    if (tasklet_suspend(scheduler) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
pinned_current(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? Py_NewRef(scheduler->current) : NULL;
}

static PyObject *
pinned_counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{s:n,s:n,s:O}", "abandoned", __atomic_load_n(&abandoned, __ATOMIC_RELAXED), "frames_unseen",
                         __atomic_load_n(&frames_unseen, __ATOMIC_RELAXED), "collects", COLLECTS ? Py_True : Py_False);
}

static PyMethodDef pinned_methods[] = {
    {"run", pinned_run, METH_NOARGS, "Run the tasklets of this thread until all have ended."},
    {"schedule", pinned_schedule, METH_NOARGS, "Let the other tasklets of this thread run."},
    {"current", pinned_current, METH_NOARGS, "The tasklet that runs in this thread."},
    {"counts", pinned_counts, METH_NOARGS, "How many tasklets outlived their threads; how many frames a collection did not see whole; whether tasklets are collected."},
    {NULL},
};

static struct PyModuleDef pinned_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pinned",
    .m_doc = "A prototype: tasklets and channels on CPython without a GIL.",
    .m_size = -1,
    .m_methods = pinned_methods,
};

PyMODINIT_FUNC
PyInit_pinned(void)
{
    PyObject *module;
    if (PyType_Ready(&Tasklet_Type) < 0 || PyType_Ready(&Channel_Type) < 0)
        return NULL;
    if (!version_limits_found(PyThreadState_Get())) {
        PyErr_SetString(PyExc_ImportError, "pinned was built for another patch release of CPython: build it again");
        return NULL;
    }
    TaskletExit = PyErr_NewException("pinned.TaskletExit", PyExc_BaseException, NULL);
    module = PyModule_Create(&pinned_module);
    if (module == NULL || TaskletExit == NULL || PyModule_AddObjectRef(module, "TaskletExit", TaskletExit) < 0 ||
        PyModule_AddObjectRef(module, "Tasklet", (PyObject *)&Tasklet_Type) < 0 ||
        PyModule_AddObjectRef(module, "Channel", (PyObject *)&Channel_Type) < 0)
        return NULL;
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
