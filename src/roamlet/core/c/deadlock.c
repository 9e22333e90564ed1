/* The error that main gets when nothing can ever wake any tasklet: a list of what each one waits for. */

#define LAST_SIGNAL 64

static uint64_t service_signals; /* of mark_service_signal(): bit N - 1 for signal N */

/* Whether a signal could still wake a tasklet: one of them has a handler in Python, which may set an event or send on a
   channel. The handler that raises KeyboardInterrupt does not count. Asked only when all else is at its end. Runs no
   Python code. */
static bool
signals_may_wake(void)
{
    PyObject *raised = error_take(), *module = PyImport_ImportModule("_signal");
    PyObject *usual = module != NULL ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
    bool found = false;
    for (int number = 1; usual != NULL && number <= LAST_SIGNAL && !found; number++) {
        PyObject *handler = PyObject_CallMethod(module, "getsignal", "i", number);
        PyErr_Clear(); /* not every number up to the last is a signal */
        found = handler != NULL && handler != usual && PyCallable_Check(handler) && !(service_signals >> (number - 1) & 1);
        Py_XDECREF(handler);
    }
    Py_XDECREF(usual);
    Py_XDECREF(module);
    PyErr_Clear();
    error_restore(raised);
    return found;
}

/* What the tasklet waits for, as ", for ...", where its condition does not say enough: a lock, a queue, a descriptor, a channel with a
   buffer. A new reference; NULL with an exception set. Runs Python code (repr), whose errors are of no interest here. */
static PyObject *
deadlock_reason(Tasklet *tasklet)
{
    bool meets = tasklet->blocked == BLOCKED_RECEIVE || tasklet->blocked == BLOCKED_SEND;
    bool told = meets ? ((Channel *)tasklet->waiting_on)->buffer > 0 : tasklet->blocked == BLOCKED_QUEUE;
    PyObject *on = told ? Py_XNewRef(tasklet->waiting_on) : NULL, *text = NULL;
    if (on != NULL && !Py_IS_TYPE(on, &Select_Type) && (text = PyUnicode_FromFormat(", for %R", on)) == NULL)
        PyErr_Clear();
    Py_XDECREF(on);
    return text != NULL ? text : PyUnicode_FromString("");
}

/* One line for a tasklet that waits: who, for what, where. A new reference; NULL with an exception set. */
static PyObject *
deadlock_line(Tasklet *tasklet)
{
    PyObject *reason = NULL, *frame = tasklet == tasklet->scheduler->current ? (PyObject *)PyEval_GetFrame() : switch_frame(tasklet), *line;
    if (tasklet == tasklet->scheduler->current)
        frame = Py_NewRef(frame != NULL ? frame : Py_None);
    if (frame == NULL || (reason = deadlock_reason(tasklet)) == NULL) {
        Py_XDECREF(frame);
        return NULL;
    }
    if (PyFrame_Check(frame)) {
        PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
        line = PyUnicode_FromFormat("\n  %R in %U at %U:%d%U", tasklet, code->co_name, code->co_filename,
                                    PyFrame_GetLineNumber((PyFrameObject *)frame), reason);
        Py_DECREF(code);
    } else
        line = PyUnicode_FromFormat("\n  %R%U", tasklet, reason);
    Py_DECREF(reason);
    Py_DECREF(frame);
    return line;
}

#define DEADLOCK_LINES 20

/* `text` (stolen, may be NULL) with a line for each tasklet that waits. A new reference; NULL with an exception set. Runs Python
   code (repr). */
static PyObject *
deadlock_list(Scheduler *scheduler, PyObject *text)
{
    Tasklet *t = scheduler->main;
    Py_ssize_t shown = 0, more = 0;
    while (t != NULL && text != NULL) {
        if (t->blocked != NOT_BLOCKED && shown++ < DEADLOCK_LINES) {
            PyObject *line = deadlock_line(t), *longer = line != NULL ? PyUnicode_Concat(text, line) : NULL;
            Py_XDECREF(line);
            Py_SETREF(text, longer);
        } else if (t->blocked != NOT_BLOCKED)
            more++;
        t = t == scheduler->main ? scheduler->started : t->started_next;
    }
    if (text != NULL && more > 0)
        Py_SETREF(text, PyUnicode_FromFormat("%U\n  and %zd more", text, more));
    return text;
}

/* A new Deadlock that lists what each tasklet waits for; NULL with an exception set. Runs Python code (repr). */
static PyObject *
deadlock_error(Scheduler *scheduler)
{
    Tasklet *main = scheduler->main;
    const char *main_waits = main->blocked == BLOCKED_RECEIVE ? " The main tasklet is receiving without a sender available."
                             : main->blocked == BLOCKED_SEND  ? " The main tasklet is sending without a receiver available."
                                                              : "";
    PyObject *text = PyUnicode_FromFormat("Deadlock: the last runnable tasklet cannot be blocked.%s Nothing can wake any of these "
                                          "(no timer, descriptor, child process, job or other thread):", main_waits), *error;
    text = deadlock_list(scheduler, text);
    error = text != NULL ? PyObject_CallOneArg(Deadlock, text) : NULL;
    Py_XDECREF(text);
    return error;
}

/* Log that main waits although nothing that roamlet knows of can wake it; `foreign`: how many threads C code may have started,
   -1: not known. An Exception is reported and not raised. KeyboardInterrupt and the like are: -1 with it set. Runs Python code. */
static int
deadlock_log(Scheduler *scheduler, int foreign)
{
    PyObject *who, *text, *logging, *logger = NULL, *result = NULL;
    deadlock_told = true;
    if (foreign > 0)
        who = PyUnicode_FromFormat("The process has %d more thread%s, which C code has started and which may call in", foreign,
                                   foreign > 1 ? "s" : "");
    else if (foreign < 0)
        who = PyUnicode_FromString("How many threads the process has is not known");
    else
        who = PyUnicode_FromString("The process has no other thread");
    text = who != NULL ? PyUnicode_FromFormat("The main tasklet waits, and nothing that roamlet knows of can wake any of these (no timer, "
                                              "descriptor, child process, job or thread of Python's). %U; so the wait goes on. "
                                              "roamlet.set_deadlock_mode() and ROAMLET_DEADLOCK=raise|warn|off say what happens then:",
                                              who)
                       : NULL;
    text = deadlock_list(scheduler, text);
    logging = text != NULL ? PyImport_ImportModule("logging") : NULL;
    if (logging != NULL)
        logger = PyObject_CallMethod(logging, "getLogger", "s", "roamlet");
    if (logger != NULL)
        result = PyObject_CallMethod(logger, "warning", "sO", "%s", text);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_WriteUnraisable(Deadlock);
    Py_XDECREF(result);
    Py_XDECREF(logger);
    Py_XDECREF(logging);
    Py_XDECREF(text);
    Py_XDECREF(who);
    return PyErr_Occurred() ? -1 : 0;
}

/* set_deadlock_mode(mode): returns the one before. */
static PyObject *
core_set_deadlock_mode(PyObject *Py_UNUSED(module), PyObject *mode)
{
    for (int i = 0; deadlock_modes[i] != NULL; i++)
        if (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, deadlock_modes[i]) == 0) {
            PyObject *before = PyUnicode_FromString(deadlock_modes[deadlock_mode]);
            if (before != NULL)
                deadlock_mode = i;
            return before;
        }
    return PyErr_Format(PyExc_ValueError, "set_deadlock_mode(%R): the modes are 'auto', 'raise', 'warn' and 'off'", mode);
}

PyDoc_STRVAR(set_deadlock_mode_doc, "set_deadlock_mode(mode, /)\n--\n\n"
"Say what happens when the main tasklet waits and nothing that roamlet knows of can wake it; return the mode before.\n\n"
"'auto': Deadlock is raised if the process has no thread but this one and roamlet's own, as the system counts them; else it\n"
"waits, and that is logged once in a process. 'raise': threads that Python does not know of are ignored. 'warn': it is\n"
"logged, and waits. 'off': it waits. For all threads of the process. ValueError for any other mode.");
