/* The error that main gets when nothing can ever wake anybody: who waits where. */

#define LAST_SIGNAL 64

static uint64_t service_signals; /* of mark_service_signal(): bit N - 1 for signal N */

/* Whether a signal could still wake somebody: one of them has a handler in Python, which may set an event or send on a
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
    if (raised != NULL)
        error_raise(raised);
    return found;
}

/* What the tasklet waits for, as ", for ...", where its condition does not say enough: a lock, a queue, a descriptor. A new
   reference; NULL with an exception set. Runs Python code (repr), whose errors are of no interest here. */
static PyObject *
deadlock_reason(Tasklet *tasklet)
{
    PyObject *on = tasklet->blocked == BLOCKED_QUEUE ? Py_XNewRef(tasklet->waiting_on) : NULL, *text = NULL;
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

/* A new Deadlock that lists who waits where; NULL with an exception set. Runs Python code (repr). */
static PyObject *
deadlock_error(Scheduler *scheduler)
{
    Tasklet *t = scheduler->main;
    const char *main_waits = t->blocked == BLOCKED_RECEIVE ? " The main tasklet is receiving without a sender available."
                             : t->blocked == BLOCKED_SEND  ? " The main tasklet is sending without a receiver available."
                                                           : "";
    PyObject *text = PyUnicode_FromFormat("Deadlock: the last runnable tasklet cannot be blocked.%s Nothing can wake any of these "
                                          "(no timer, descriptor, child process, job or other thread):", main_waits), *error;
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
    error = text != NULL ? PyObject_CallOneArg(Deadlock, text) : NULL;
    Py_XDECREF(text);
    return error;
}
