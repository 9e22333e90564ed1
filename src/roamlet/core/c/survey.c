/* survey(): what roamlet.diagnose asks the core about all threads at one moment. It changes nothing, runs no Python code after its look at
   the clock, and lets no other thread run, so that what it returns belongs together. */

/* What a look needs of a timer's due time, in seconds from `now`: a new reference, NULL with an exception set. */
static PyObject *
seconds_until(int64_t when, int64_t now)
{
    return PyFloat_FromDouble(when != TIMER_YIELDS ? (double)(when - now) / 1e9 : 0.0);
}

/* The channels of a select(): a new tuple. */
static PyObject *
survey_channels(Tasklet *tasklet)
{
    Select *select;
    PyObject *channels;
    if (tasklet->blocked != BLOCKED_QUEUE || !Py_IS_TYPE(tasklet->waiting_on, &Select_Type))
        return PyTuple_New(0);
    select = (Select *)tasklet->waiting_on;
    channels = PyTuple_New(Py_SIZE(select));
    for (Py_ssize_t i = 0; channels != NULL && i < Py_SIZE(select); i++)
        PyTuple_SET_ITEM(channels, i, Py_NewRef((PyObject *)select->cases[i].channel));
    return channels;
}

/* The scopes around the tasklet, the innermost first, each with the address of the tasklet that entered it: a new list. The
   address may be that of one that has gone. */
static PyObject *
survey_scopes(Tasklet *tasklet)
{
    PyObject *scopes = PyList_New(0);
    for (CancelScope *scope = tasklet->scope; scopes != NULL && scope != NULL; scope = scope->outer) {
        PyObject *owner = PyLong_FromVoidPtr(scope->owner), *pair = owner != NULL ? PyTuple_Pack(2, (PyObject *)scope, owner) : NULL;
        if (pair == NULL || PyList_Append(scopes, pair) < 0)
            Py_CLEAR(scopes);
        Py_XDECREF(pair);
        Py_XDECREF(owner);
    }
    return scopes;
}

#if ROAMLET_VERSION_KNOWN && !defined(ROAMLET_SWITCH_GREENLET)

#define SURVEY_FRAMES 1000 /* of one stack; those further out are left out */

typedef struct {
    int count;
    struct {
        PyCodeObject *code; /* borrowed: nothing runs meanwhile */
        intptr_t line;
    } at[SURVEY_FRAMES];
} SurveyStack;

static int
survey_frame(_PyInterpreterFrame *frame, bool from_c, void *arg)
{
    SurveyStack *stack = arg;
    PyCodeObject *code = frame_code(frame);
    (void)from_c;
    if (!PyCode_Check(code))
        return 0;
    stack->at[stack->count].code = code;
    stack->at[stack->count].line = PyCode_Addr2Line(code, (int)(frame_unit(frame) * (Py_ssize_t)sizeof(_Py_CODEUNIT)));
    return ++stack->count == SURVEY_FRAMES;
}

/* The frames of a suspended tasklet, the innermost first, as a tuple of code, line, code, line and so on: the same object for equal ones,
   which `stacks` has. No frame object is made, which would stay with its frame. A new reference; NULL with an exception set. */
static PyObject *
survey_stack(Tasklet *tasklet, PyObject *stacks)
{
    static SurveyStack stack; /* 16 kB would be much on a tasklet's C stack; the GIL guards it */
    PyObject *key, *tuple = NULL;
    stack.count = 0;
    if (switch_frames(tasklet, survey_frame, &stack) < 0)
        return NULL;
    if ((key = PyBytes_FromStringAndSize((char *)stack.at, (Py_ssize_t)sizeof stack.at[0] * stack.count)) == NULL)
        return NULL;
    if ((tuple = Py_XNewRef(PyDict_GetItemWithError(stacks, key))) == NULL && !PyErr_Occurred()) {
        tuple = PyTuple_New((Py_ssize_t)stack.count * 2);
        for (int i = 0; tuple != NULL && i < stack.count; i++) {
            PyObject *line = stack.at[i].line >= 0 ? PyLong_FromSsize_t((Py_ssize_t)stack.at[i].line) : Py_NewRef(Py_None);
            PyTuple_SET_ITEM(tuple, 2 * i, Py_NewRef((PyObject *)stack.at[i].code));
            PyTuple_SET_ITEM(tuple, 2 * i + 1, line);
            if (line == NULL)
                Py_CLEAR(tuple);
        }
        if (tuple != NULL && PyDict_SetItem(stacks, key, tuple) < 0)
            Py_CLEAR(tuple);
    }
    Py_DECREF(key);
    return tuple;
}

#else

/* This backend does not see frames without making objects of them. */
static PyObject *
survey_stack(Tasklet *tasklet, PyObject *stacks)
{
    (void)tasklet;
    (void)stacks;
    Py_RETURN_NONE;
}

#endif

/* One tasklet: see survey_doc. `now` is on the core's clock, `moment` on the machine's. A new tuple, NULL with an exception set. */
static PyObject *
survey_tasklet(Tasklet *t, int64_t now, int64_t moment, PyObject *stacks)
{
    bool waits = t->blocked != NOT_BLOCKED;
    PyObject *on = waits && t->waiting_on != NULL ? t->waiting_on : Py_None;
    PyObject *due = waits && t->timer >= 0 ? seconds_until(t->scheduler->timers[t->timer].when, now) : Py_NewRef(Py_None);
    PyObject *since = waits && t->since > 0 ? PyFloat_FromDouble((double)(moment - t->since) / 1e9) : Py_NewRef(Py_None);
    PyObject *channels = survey_channels(t), *scopes = survey_scopes(t), *result = NULL;
    bool suspended = t->state == TASKLET_STARTED && t != t->scheduler->current;
    PyObject *stack = suspended ? survey_stack(t, stacks) : Py_NewRef(Py_None);
    Py_ssize_t offset = t->blocked == BLOCKED_QUEUE ? (char *)t->queue - (char *)t->waiting_on : -1;
    if (due != NULL && since != NULL && channels != NULL && scopes != NULL && stack != NULL)
        result = Py_BuildValue("OiiOnOOOOiOOO", (PyObject *)t, (int)t->state, (int)t->blocked, on, offset, channels, due, since, scopes, t->atomic,
                               t->preempted ? Py_True : Py_False, ring_holds(t) ? Py_True : Py_False, stack);
    Py_XDECREF(stack);
    Py_XDECREF(due);
    Py_XDECREF(since);
    Py_XDECREF(channels);
    Py_XDECREF(scopes);
    return result;
}

static int
survey_add(PyObject *list, Tasklet *tasklet, int64_t now, int64_t moment, PyObject *stacks)
{
    PyObject *entry = survey_tasklet(tasklet, now, moment, stacks);
    int failed = entry == NULL ? -1 : PyList_Append(list, entry);
    Py_XDECREF(entry);
    return failed;
}

/* The tasklets of a thread: main, then the started ones, the oldest first, then those in the run queue that have not run yet. */
static PyObject *
survey_tasklets(Scheduler *scheduler, int64_t now, int64_t moment, PyObject *stacks)
{
    PyObject *list = PyList_New(0);
    Tasklet *oldest = scheduler->started, *head = scheduler->idle ? scheduler->first : scheduler->current, *t;
    int failed = list == NULL ? -1 : survey_add(list, scheduler->main, now, moment, stacks);
    while (oldest != NULL && oldest->started_next != NULL)
        oldest = oldest->started_next;
    for (t = oldest; !failed && t != NULL; t = t->started_prev)
        failed = survey_add(list, t, now, moment, stacks);
    t = head;
    while (!failed && t != NULL && t->next != NULL) {
        if (t->state == TASKLET_NEW && t != scheduler->main)
            failed = survey_add(list, t, now, moment, stacks);
        t = t->next;
        if (t == head)
            break;
    }
    if (failed)
        Py_CLEAR(list);
    return list;
}

/* How many tasklets of a thread are not blocked, and how many are blocked in each way: a new tuple. */
static PyObject *
survey_counts(Scheduler *scheduler)
{
    Py_ssize_t counts[BLOCKED_QUEUE - BLOCKED_RECEIVE + 1] = {0};
    for (Tasklet *t = scheduler->main; t != NULL; t = t == scheduler->main ? scheduler->started : t->started_next)
        counts[t->blocked - BLOCKED_RECEIVE]++;
    return Py_BuildValue("nnnnnn", counts[NOT_BLOCKED - BLOCKED_RECEIVE], counts[0], counts[BLOCKED_SEND - BLOCKED_RECEIVE],
                         counts[BLOCKED_WAIT - BLOCKED_RECEIVE], counts[BLOCKED_RUN - BLOCKED_RECEIVE], counts[BLOCKED_QUEUE - BLOCKED_RECEIVE]);
}

static PyObject *
survey_thread(Scheduler *scheduler, PyObject *stacks, int64_t now, int64_t moment)
{
    PyObject *next = scheduler->timer_count > 0 ? seconds_until(scheduler->timers[0].when, now) : Py_NewRef(Py_None);
    PyObject *list = stacks != NULL ? survey_tasklets(scheduler, now, moment, stacks) : survey_counts(scheduler), *result = NULL;
    if (next != NULL && list != NULL)
        result = Py_BuildValue("kOOOninOdKOOOL", scheduler->tstate->thread_id, (PyObject *)scheduler->main,
                               scheduler->idle ? Py_None : (PyObject *)scheduler->current, scheduler->idle ? Py_True : Py_False,
                               scheduler_runcount(scheduler), scheduler->timer_count, scheduler->keepers, next,
                               (double)(moment - scheduler->looked) / 1e9, (unsigned long long)ticks_counted(scheduler),
                               scheduler->service ? Py_True : Py_False, scheduler->started != NULL || scheduler_runcount(scheduler) > 1 ? Py_True : Py_False,
                               list, (long long)scheduler->messages);
    Py_XDECREF(next);
    Py_XDECREF(list);
    return result;
}

static PyObject *
core_survey(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *threads, *stacks = NULL;
    int64_t now, moment = monotonic_ns();
    int tasklets = 1, collects;
    if (!PyArg_ParseTuple(args, "|p:survey", &tasklets) || (now = clock_ns()) < 0)
        return NULL;
    collects = PyGC_Disable(); /* a finalizer would run Python code in the middle */
    threads = tasklets && (stacks = PyDict_New()) == NULL ? NULL : PyList_New(0);
    for (Scheduler *s = schedulers; threads != NULL && s != NULL; s = s->registered_next) {
        PyObject *thread;
        if (s->tstate == NULL || s->pid != getpid())
            continue;
        thread = survey_thread(s, stacks, now, moment);
        if (thread == NULL || PyList_Append(threads, thread) < 0)
            Py_CLEAR(threads);
        Py_XDECREF(thread);
    }
    Py_XDECREF(stacks);
    if (collects)
        PyGC_Enable();
    if (threads != NULL && PyList_Reverse(threads) < 0)
        Py_CLEAR(threads);
    return threads;
}

static PyObject *
core_counted(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    int64_t switches = ended_switches, messages = ended_messages;
    for (Scheduler *s = schedulers; s != NULL; s = s->registered_next) {
        if (s->tstate == NULL || s->pid != getpid() || s->service)
            continue;
        switches += ticks_counted(s);
        messages += s->messages;
    }
    return Py_BuildValue("LL", (long long)switches, (long long)messages);
}

static int
slots_append(PyObject *object, void *list)
{
    return PyList_Append(list, object);
}

static PyObject *
core_frame_slots(PyObject *Py_UNUSED(module), PyObject *tasklet)
{
    PyObject *list;
    if (!PyObject_TypeCheck(tasklet, &Tasklet_Type))
        return PyErr_Format(PyExc_TypeError, "frame_slots() takes a tasklet, not %.100s", Py_TYPE(tasklet)->tp_name);
    list = PyList_New(0);
    if (list != NULL && switch_slots((Tasklet *)tasklet, slots_append, list) < 0)
        Py_CLEAR(list);
    return list;
}

PyDoc_STRVAR(frame_slots_doc, "frame_slots(tasklet, /)\n--\n\n"
"For roamlet.diagnose: what the frames of a suspended tasklet refer to in variables and operands, from the innermost frame, in the\n"
"order of their slots. From CPython 3.14 on with what they only borrow, which gc.get_referents() lacks. [] on greenlet.");

PyDoc_STRVAR(counted_doc, "counted()\n--\n\n"
"For roamlet.diagnose: how often tasklets have come to where others may run, and how many values have passed through channels, in\n"
"all threads but service threads, those that have ended too. Both only grow. Never switches.");

PyDoc_STRVAR(survey_doc, "survey(tasklets=True, /)\n--\n\n"
"For roamlet.diagnose: what all threads that have used roamlet do at this moment, the oldest first. Never switches.\n\n"
"For each thread a tuple: its id, the main tasklet, the current one (None while no tasklet can run), whether none can, the number\n"
"of runnable tasklets, of timers, and of waits that something else than a tasklet ends; seconds until the next timer (None\n"
"without one) and since the last look at timers and descriptors; how often its tasklets have come to where others may run;\n"
"whether it is a service thread, whether it has tasklets beside main; and a list of its tasklets. Without `tasklets` in place of\n"
"the list: how many of them are not blocked, and how many are blocked in receive, send, a Waiter or sleep, run(), a queue. At\n"
"last how many values have passed through channels in this thread.\n\n"
"For each tasklet a tuple: itself, its state (0: without arguments, 1: has not run, 2: started), what it is blocked in (0: not\n"
"blocked, -1: receive, 1: send, 2: a Waiter or sleep, 3: run(), 4: a queue), the object it waits for or None, the offset of the\n"
"queue in that object, the channels of a select, seconds until its timer or None, seconds since it began to wait, coarse, or\n"
"None; its scopes, the innermost first, each with the address of the tasklet that entered it; how deep it is in atomic code,\n"
"whether it was preempted, whether it is in the run queue; and the stack of a suspended one, the innermost frame first, as\n"
"code, line, code, line and so on, one tuple for all equal stacks; None on greenlet.");
