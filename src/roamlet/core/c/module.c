/* The extension module: one translation unit for the whole core, so that the compiler sees every switch from the method
   that asks for it down to the registers. Which backend it holds is chosen by the macro it is built with. */
#include "core.h"

#include <errno.h>
#include <unistd.h>

#include "timer.c"
#include "gil.c"
#include "atomic.c"
#include "tracing.c"
#include "running_loop.c"
#include "lazy_imports.c"
#include "collecting.c"
#include "trace_events.c"
#include "ring.c"
#include "idle.c"
#include "scheduler.c"
#include "cancel.c"
#include "wait.c"
#include "life.c"
#include "deadlock.c"
#include "waiter.c"
#include "buffer.c"
#include "pickle.c"
#include "channel.c"
#include "channel_type.c"
#include "select.c"
#include "tasklet.c"
#include "finalize.c"
#include "local.c"
#include "collector.c"
#include "module_lock.c"
#include "inspect.c"
#include "survey.c"
#include "signals.c"
#include "preempt.c"
#include "run.c"
#include "trace_session.c"
#include "snapshot.c"
#if defined(ROAMLET_SWITCH_NATIVE)
#include "switch/slices.c"
#define BACKEND "native"
#define MODULE_INIT PyInit__native
#else
#include "switch/greenlet.c"
#define BACKEND "greenlet"
#define MODULE_INIT PyInit__greenlet
#endif
#include "layout.c"

/* Let the next in line run. `given` (borrowed) is shown as tempval meanwhile and returned, unless others set another; NULL: the current
   tasklet is returned. A new reference, or NULL with an exception set. Inlined always: see scheduler_switch. */
static inline __attribute__((always_inline)) PyObject *
schedule_with(Scheduler *scheduler, PyObject *given)
{
    Tasklet *current = scheduler->current;
    PyObject *value;
    if (unlikely((scheduler->trapped && current->next == current) || collection_forbids(scheduler)))
        /* No tasklet to switch to: the trap has nothing to forbid. Or not the place for it: the others wait a little longer. */
        return Py_NewRef(given != NULL ? given : (PyObject *)current);
    if (unlikely(scheduler_may_suspend(scheduler) < 0))
        return NULL;
    tempval_forget(current);
    if (likely(current->next != current) || unlikely(scheduler->interrupt_pending)) { /* alone, it still gives way to a soft run() */
        if (given != NULL && current->tempval == NULL)
            current->tempval = Py_NewRef(given);
        if (unlikely(scheduler_switch(scheduler, current, current->next, &value) < 0))
            return NULL;
        if (given != NULL || unlikely(value != NULL)) /* its tempval, which others may have set, or taken away */
            return value != NULL ? value : Py_NewRef(Py_None);
    }
    return Py_NewRef(given != NULL ? given : (PyObject *)current);
}

/* schedule() with arguments. Not inlined: what it keeps would stand on the C stack of each call that has none. */
static __attribute__((noinline)) PyObject *
schedule_value(Scheduler *scheduler, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count > 1 || (names != NULL && count > 0) || (names != NULL && PyTuple_GET_SIZE(names) != 1) ||
        (names != NULL && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "retval") != 0))
        return PyErr_Format(PyExc_TypeError, "schedule() takes at most 1 argument, retval");
    return schedule_with(scheduler, args[0]);
}

static PyObject *
core_schedule(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Scheduler *scheduler = scheduler_get();
    if (unlikely(scheduler == NULL))
        return NULL;
    if (unlikely(count != 0 || names != NULL))
        return schedule_value(scheduler, args, count, names);
    return schedule_with(scheduler, NULL);
}

static PyObject *
core_schedule_remove(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"retval"};
    Scheduler *scheduler = scheduler_get();
    PyObject *given[1] = {NULL}, *value;
    Tasklet *current;
    if (scheduler == NULL || arguments_take("schedule_remove", keywords, 1, given, args, count, names) < 0)
        return NULL;
    tempval_forget(scheduler->current);
    if (scheduler_may_suspend(scheduler) < 0)
        return NULL;
    current = scheduler->current;
    if (given[0] != NULL && current->tempval == NULL)
        current->tempval = Py_NewRef(given[0]);
    if (scheduler_pause(scheduler, NULL, arguments_end(args, count, names), &value) < 0)
        return NULL;
    return value != NULL ? value : Py_NewRef(given[0] != NULL ? Py_None : (PyObject *)current);
}

static PyObject *
core_getcurrent(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? Py_NewRef((PyObject *)scheduler->current) : NULL;
}

static PyObject *
core_getmain(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? Py_NewRef((PyObject *)scheduler->main) : NULL;
}

static PyObject *
core_getruncount(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? PyLong_FromSsize_t(scheduler_runcount(scheduler)) : NULL;
}

/* A number that stays the same for as long as the tasklet lives: its address, but main's is its thread's id, as in
   Stackless, so that code that has no tasklets gets what threading.get_ident() gives. */
static PyObject *
core_getcurrentid(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = this_scheduler;
    if (scheduler == NULL || scheduler->current == scheduler->main)
        return PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    return PyLong_FromVoidPtr(scheduler->current);
}

static PyObject *
core_started(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = scheduler_get();
    return scheduler != NULL ? scheduler_started(scheduler) : NULL;
}

static PyObject *
core_set_clock(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *now = Py_None, *advance = Py_None;
    if (!PyArg_ParseTuple(args, "|OO:set_clock", &now, &advance))
        return NULL;
    if ((now != Py_None && !PyCallable_Check(now)) || (advance != Py_None && !PyCallable_Check(advance)))
        return PyErr_Format(PyExc_TypeError, "set_clock() takes two callables, now and advance, not %R and %R", now, advance);
    if ((now == Py_None) != (advance == Py_None))
        return PyErr_Format(PyExc_TypeError, "set_clock() takes now and advance, or neither");
    Py_XSETREF(clock_now, now != Py_None ? Py_NewRef(now) : NULL);
    Py_XSETREF(clock_advance, advance != Py_None ? Py_NewRef(advance) : NULL);
    for (Scheduler *each = schedulers; each != NULL; each = each->registered_next)
        each->last_tick = INT64_MAX; /* it was on the other clock: the next look finds that this one stood earlier */
    Scheduler *scheduler = this_scheduler; /* read now: what was dropped may have run Python code */
    if (scheduler != NULL && !scheduler->current->raises) { /* the pace was learnt from the other clock */
        scheduler->ticks_full = TICKS;
        ticks_set(scheduler, TICKS);
        begins_forget(scheduler);
    }
    Py_RETURN_NONE;
}

static PyObject *
core_mark_service_thread(PyObject *Py_UNUSED(module), PyObject *args)
{
    Scheduler *scheduler = scheduler_get();
    PyObject *thread = NULL;
    unsigned long id;
    int service = 1;
    if (scheduler == NULL || !PyArg_ParseTuple(args, "|pO:mark_service_thread", &service, &thread))
        return NULL;
    if (thread != NULL) {
        if (!thread_id_from(thread, &id))
            return NULL;
        thread_find(id, &scheduler);
    }
    if (scheduler != NULL) {
        service_threads += service - scheduler->service;
        scheduler->service = service;
    }
    Py_RETURN_NONE;
}

static PyObject *
core_mark_service_signal(PyObject *Py_UNUSED(module), PyObject *number)
{
    long signal = PyLong_AsLong(number);
    if (signal == -1 && PyErr_Occurred())
        return NULL;
    if (signal < 1 || signal > LAST_SIGNAL)
        return PyErr_Format(PyExc_ValueError, "mark_service_signal(): %ld is no number of a signal", signal);
    service_signals |= (uint64_t)1 << (signal - 1);
    Py_RETURN_NONE;
}

static PyObject *
core_thread_ends(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(this_scheduler != NULL && this_scheduler->ending);
}

static PyObject *
core_end_thread(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = this_scheduler;
    if (scheduler != NULL && scheduler->current == scheduler->main && !scheduler->idle && !scheduler->polling &&
        !scheduler->announcing)
        scheduler_kill_all(scheduler);
    Py_RETURN_NONE;
}

static PyObject *
core_trim(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Scheduler *scheduler = scheduler_get();
    if (scheduler == NULL)
        return NULL;
    while (tasklet_pooled > 0)
        PyObject_GC_Del(tasklet_pool[--tasklet_pooled]);
    switch_thread_trim(scheduler);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(schedule_doc, "schedule(retval=...)\n--\n\n"
"Let the next tasklet of the run queue run; this one goes to its end. Returns retval, by default the current tasklet.\n"
"Switches; raises what is thrown into this tasklet meanwhile.");
PyDoc_STRVAR(schedule_remove_doc, "schedule_remove(retval=...)\n--\n\n"
"Like schedule, but take this tasklet out of the run queue until it is inserted again.");
PyDoc_STRVAR(getcurrent_doc, "getcurrent()\n--\n\nThe tasklet that runs.");
PyDoc_STRVAR(getmain_doc, "getmain()\n--\n\nThis thread's main tasklet.");
PyDoc_STRVAR(getruncount_doc, "getruncount()\n--\n\nHow many tasklets of this thread are runnable, the current one included.");
PyDoc_STRVAR(getcurrentid_doc, "getcurrentid()\n--\n\nA number that tells the running tasklet from all others that live; main's is its thread's id.");
PyDoc_STRVAR(sleep_doc, "sleep(seconds, /)\n--\n\n"
"Block this tasklet for at least `seconds` (float, >= 0); others run meanwhile. With 0 all that are runnable run once.\n\n"
"A tasklet whose time has come runs before those that are runnable by then, every second one at most.");
PyDoc_STRVAR(started_doc, "started()\n--\n\nThis thread's tasklets that have started and not ended, main excepted; the oldest first.");
PyDoc_STRVAR(install_hub_doc, "install_hub(poll, wake_fd, /)\n--\n\n"
"Let this thread wait through poll(timeout), a float of seconds or None, which wakes tasklets by settling their Waiters.\n\n"
"Another thread that makes a tasklet runnable here while poll sleeps writes 8 bytes to the eventfd wake_fd. poll may not\n"
"block in roamlet. install_hub(None, -1) undoes it.");
PyDoc_STRVAR(set_clock_doc, "set_clock(now=None, advance=None, /)\n--\n\n"
"For tests: timers of all threads follow now() (seconds), and waiting for one calls advance(seconds). Without arguments\n"
"the monotonic clock is back. In this thread the calls that let others run now and then count anew from here.");
PyDoc_STRVAR(mark_service_signal_doc, "mark_service_signal(signalnum, /)\n--\n\n"
"Declare that the Python handler of this signal wakes no tasklet: it does not hide a deadlock. Others do: a handler may set an event.");
PyDoc_STRVAR(mark_service_thread_doc, "mark_service_thread(service=True, thread_id=..., /)\n--\n\n"
"Declare this thread one of roamlet's own, which by itself wakes no tasklet: it does not hide a deadlock. False undoes it.\n\n"
"With thread_id, do so for another thread, if it lives and has a scheduler.");
PyDoc_STRVAR(end_thread_doc, "end_thread()\n--\n\n"
"End this thread's tasklets, the oldest first, by TaskletExit. Done by itself when a thread ends.");
PyDoc_STRVAR(thread_ends_doc, "thread_ends()\n--\n\n"
"Whether this thread's tasklets are just being ended because the thread ends.");
PyDoc_STRVAR(trim_doc, "trim()\n--\n\nGive back the memory of this thread's pools.");

static PyMethodDef core_methods[] = {
    {"schedule", (PyCFunction)(void (*)(void))core_schedule, METH_FASTCALL | METH_KEYWORDS, schedule_doc},
    {"schedule_remove", (PyCFunction)(void (*)(void))core_schedule_remove, METH_FASTCALL | METH_KEYWORDS, schedule_remove_doc},
    {"run", (PyCFunction)(void (*)(void))core_run, METH_VARARGS | METH_KEYWORDS, run_module_doc},
    {"run_queue", (PyCFunction)(void (*)(void))core_run_queue, METH_VARARGS | METH_KEYWORDS, run_queue_doc},
    {"getcurrent", core_getcurrent, METH_NOARGS, getcurrent_doc},
    {"getmain", core_getmain, METH_NOARGS, getmain_doc},
    {"getruncount", core_getruncount, METH_NOARGS, getruncount_doc},
    {"getcurrentid", core_getcurrentid, METH_NOARGS, getcurrentid_doc},
    {"get_thread_info", (PyCFunction)(void (*)(void))core_get_thread_info, METH_VARARGS | METH_KEYWORDS, get_thread_info_doc},
    {"threads", core_threads, METH_NOARGS, threads_doc},
    {"set_single_stack", core_set_single_stack, METH_O, set_single_stack_doc},
    {"switch_trap", core_switch_trap, METH_VARARGS, switch_trap_doc},
    {"set_schedule_callback", core_set_schedule_callback, METH_O, set_schedule_callback_doc},
    {"get_schedule_callback", core_get_schedule_callback, METH_NOARGS, get_schedule_callback_doc},
    {"set_channel_callback", core_set_channel_callback, METH_O, set_channel_callback_doc},
    {"get_channel_callback", core_get_channel_callback, METH_NOARGS, get_channel_callback_doc},
    {"set_error_handler", core_set_error_handler, METH_O, set_error_handler_doc},
    {"select", (PyCFunction)(void (*)(void))core_select, METH_FASTCALL | METH_KEYWORDS, select_doc},
    {"inside_atomic", (PyCFunction)(void (*)(void))core_inside_atomic, METH_FASTCALL, inside_atomic_doc},
    {"outside_atomic", (PyCFunction)(void (*)(void))core_outside_atomic, METH_VARARGS | METH_KEYWORDS, outside_atomic_doc},
    {"sleep", core_sleep, METH_O, sleep_doc},
    {"note_signal", core_note_signal, METH_VARARGS, note_signal_doc},
    {"signal_answered", core_signal_answered, METH_O, signal_answered_doc},
    {"frame_slots", core_frame_slots, METH_O, frame_slots_doc},
    {"survey", core_survey, METH_VARARGS, survey_doc},
    {"counted", core_counted, METH_NOARGS, counted_doc},
    {"started", core_started, METH_NOARGS, started_doc},
    {"install_hub", core_install_hub, METH_VARARGS, install_hub_doc},
    {"set_deadlock_mode", core_set_deadlock_mode, METH_O, set_deadlock_mode_doc},
    {"set_clock", core_set_clock, METH_VARARGS, set_clock_doc},
    {"gil_requests", core_gil_requests, METH_NOARGS, gil_requests_doc},
    {"gil_short_waits", core_gil_short_waits, METH_NOARGS, gil_short_waits_doc},
    {"gil_debt", core_gil_debt, METH_VARARGS, gil_debt_doc},
    {"mark_service_signal", core_mark_service_signal, METH_O, mark_service_signal_doc},
    {"mark_service_thread", core_mark_service_thread, METH_VARARGS, mark_service_thread_doc},
    {"keep_current", core_keep_current, METH_NOARGS, keep_current_doc},
    {"end_thread", core_end_thread, METH_NOARGS, end_thread_doc},
    {"thread_ends", core_thread_ends, METH_NOARGS, thread_ends_doc},
    {"trace_start", (PyCFunction)(void (*)(void))core_trace_start, METH_VARARGS | METH_KEYWORDS, trace_start_doc},
    {"trace_stop", core_trace_stop, METH_NOARGS, trace_stop_doc},
    {"trace_held", core_trace_held, METH_O, trace_held_doc},
    {"trace_current", core_trace_current, METH_VARARGS, trace_current_doc},
    {"trim", core_trim, METH_NOARGS, trim_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "roamlet.core._" BACKEND,
    .m_doc = "Tasklets, channels and the scheduler, on the " BACKEND " switching backend.",
    .m_size = 0, /* not -1: CPython 3.11 and 3.12 would give a subinterpreter a copy without asking MODULE_INIT */
    .m_methods = core_methods,
};

/* Make the exception class `name` with these bases and add it; `*class` is kept for the process, and the same when the
   module is imported once more. -1 with an exception set. */
static int
add_exception(PyObject *module, PyObject **class, const char *name, const char *doc, PyObject *base, PyObject *other)
{
    PyObject *bases = other != NULL ? PyTuple_Pack(2, base, other) : PyTuple_Pack(1, base);
    if (bases != NULL && *class == NULL)
        *class = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_XDECREF(bases);
    return *class != NULL && bases != NULL ? PyModule_AddObjectRef(module, strrchr(name, '.') + 1, *class) : -1;
}

static int
add_exceptions(PyObject *module)
{
    if (add_exception(module, &RoamletError, "roamlet.RoamletError", "The base of all errors of roamlet's own.", PyExc_Exception, NULL) < 0)
        return -1;
    if (add_exception(module, &TaskletExit, "roamlet.TaskletExit", "Ends the tasklet it is raised in; not an error.", PyExc_SystemExit, NULL) < 0 ||
        add_exception(module, &Cancelled, "roamlet.Cancelled", "A blocking call in a scope that is cancelled, or whose time is over; `scope` is that one.", TaskletExit, NULL) < 0 ||
        add_exception(module, &Deadlock, "roamlet.Deadlock", "The main tasklet waits and nothing can ever wake it.", RoamletError, PyExc_RuntimeError) < 0 ||
        add_exception(module, &ChannelClosed, "roamlet.ChannelClosed", "Send or receive on a closed channel.", RoamletError, PyExc_ValueError) < 0 ||
        add_exception(module, &NoCore, "roamlet.NoCore", "The call needs roamlet's C core, which is not there.", RoamletError, PyExc_RuntimeError) < 0)
        return -1;
    return 0;
}

/* The table of api.h. -1 with an exception set. */
static int
add_api(PyObject *module)
{
    PyObject *capsule = PyCapsule_New((void *)&api_table, ROAMLET_API_NAME, NULL);
    int failed = capsule != NULL ? PyModule_AddObjectRef(module, "_API", capsule) : -1;
    Py_XDECREF(capsule);
    return failed;
}

/* The dictionary that readers outside of the process find. -1 with an exception set. */
static int
add_published(PyObject *module)
{
    published = PyDict_New();
    return published != NULL ? PyModule_AddObjectRef(module, "published", published) : -1;
}

PyMODINIT_FUNC
MODULE_INIT(void)
{
    PyTypeObject *const types[] = {&Tasklet_Type, &Channel_Type, &Waiter_Type, &ModuleLock_Type, &Atomic_Type, &CancelScope_Type, &Local_Type, NULL};
    PyObject *module;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "roamlet works in the main interpreter only: its schedulers belong to OS threads, "
                                           "which subinterpreters share");
        return NULL;
    }
    layout_complete(roamlet_layout.numbers, roamlet_layout.head.numbers);
    lazy_imports_find();
    if (switch_module_init() < 0 || PyType_Ready(&Select_Type) < 0 || (module = PyModule_Create(&core_module)) == NULL)
        return NULL;
    for (PyTypeObject *const *type = types; *type != NULL && module != NULL; type++)
        if (PyModule_AddType(module, *type) < 0)
            Py_CLEAR(module);
    if (module != NULL && (atomic_prepare() < 0 || gil_prepare() < 0 || local_prepare() < 0 || loop_prepare() < 0 || collector_prepare() < 0 || add_api(module) < 0 || add_published(module) < 0 ||
                           PyModule_AddStringConstant(module, "backend", BACKEND) < 0 || add_exceptions(module) < 0))
        Py_CLEAR(module);
    return module;
}
